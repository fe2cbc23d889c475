"""The write-ahead log's questions, answered by the queues and the metadata group of this node.

`Recovered` takes what the log found at start; `QueueOwners` answers the log's upkeep while the
node runs (`warren.storage`).
"""

from queues.hosts.classic import UNSEEN_SLACK, ClassicHost
from queues.hosts.quorum import QuorumHost
from queues.message import Chunk
from raft.log_group import METADATA_OWNER
from raft.one_member import OneMemberGroup
from warren.storage.recovery import RecoveredPublish


class Recovered:
    """Puts what an earlier process left into the queue hosts (`RecoverySink`)."""

    def __init__(
        self,
        group: OneMemberGroup,
        hosts: dict[int, ClassicHost],
        quorum_hosts: dict[int, QuorumHost],
        groups: dict[int, OneMemberGroup],
    ) -> None:
        self._group = group
        self._hosts = hosts
        self._quorum_hosts = quorum_hosts
        self._groups = groups  # of quorum queues
        self._last: dict[int, tuple[int, int]] = {}  # last message_seq and mark, by owner
        self._strays: dict[int, int] = {}  # last entry of groups that are gone, by owner
        self.message_count = 0

    def entry(self, owner: int, index: int, payload: bytes) -> None:
        group = self._group if owner == METADATA_OWNER else self._groups.get(owner)
        if group is None:  # The queue is gone.
            self._strays[owner] = index
        else:
            group.replay(index, payload)

    def knows(self, owner: int) -> bool:
        host = self._hosts.get(owner)
        return host is not None and host.durable

    def owner(self, owner: int, last_seq: int, mark: int) -> None:
        self._last[owner] = (last_seq, mark)

    def publish(self, found: RecoveredPublish) -> None:
        chunk = Chunk(found.format_tag, None, 0, found.offsets, found.info)
        chunk.file_id = found.file_id
        chunk.file_offset = found.data_offset
        chunk.durable = True
        for owner, first, live in found.targets:
            self._hosts[owner].recover(chunk, first, live, found.meta, found.now_ms)
            self.message_count += sum(count for _, count in live)

    def finish(self, clean: bool) -> None:
        """All is there: the queues go on where they were."""
        for owner, host in self._hosts.items():
            if owner in self._quorum_hosts:
                continue
            last_seq, mark = self._last.get(owner, (0, -1))
            if mark < 0:
                redelivered_upto = last_seq
            elif clean:
                redelivered_upto = mark
            else:
                redelivered_upto = mark + UNSEEN_SLACK
            host.recovered(last_seq, max(mark, 0), redelivered_upto)
        for owner, quorum_host in self._quorum_hosts.items():
            quorum_host.recovered(self._last.get(owner, (0, 0))[0])
        self._groups.clear()
        for owner, index in self._strays.items():
            self._group.clear_away(owner, index)


class QueueOwners:
    """Answers the log about the queues that there are (`warren.storage.compaction.Owners`)."""

    def __init__(self, hosts: dict[int, ClassicHost]) -> None:
        self._hosts = hosts

    def live_ranges(self, owner: int, first: int, count: int) -> list[tuple[int, int]]:
        host = self._hosts.get(owner)
        return [] if host is None else host.live_ranges(first, count)

    def relocated(
        self, owner: int, first: int, count: int, file_id: int, data_offset: int, offsets: bytes
    ) -> None:
        host = self._hosts.get(owner)
        if host is not None:
            host.relocated(first, count, file_id, data_offset, offsets)

    def checkpoint(self, owner: int) -> list[tuple[int, int]]:
        host = self._hosts.get(owner)
        return [] if host is None else host.journaled_ranges()

    def mark(self, owner: int) -> int:
        host = self._hosts.get(owner)
        return 0 if host is None else host.machine.delivered_high
