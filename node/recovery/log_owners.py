"""The write-ahead log's questions, answered by the queues and the log groups of this node.

`Recovered` takes what the log found at start; `QueueOwners` answers the log's upkeep while the
node runs (`warren.storage`).
"""

import logging
from collections.abc import Callable
from typing import Final, Protocol

from node.definitions.queue_hosts import FindQueue, QueueHosts
from node.recovery.damage import Damage, Damages, shown
from queues.bodies.extents import Columns
from queues.definitions.broker_objects import Queue
from queues.hosts.body_reads import UNSEEN_SLACK
from queues.hosts.classic import ClassicHost
from queues.hosts.delay_log import queue_of_delays
from queues.hosts.id_log import queue_of_ids
from queues.hosts.queue_core import QueueCore
from queues.message import Chunk
from raft.log_group import METADATA_OWNER
from warren.storage.compaction import FilePlace
from warren.storage.record import CorruptRecord
from warren.storage.recovery.damage import Hit
from warren.storage.recovery.recovery import RecoveredPublish, RecoveryReport
from warren.storage.recovery.stretches import Stretch

log = logging.getLogger("warren.node")

SEQ_END: Final = 1 << 62  # above all message_seqs


class GroupsFound(Protocol):
    """Takes what is found of log groups (`node.cluster.wiring`)."""

    def entry(self, owner: int, index: int, content: bytes) -> bool:
        """Whether it was meant for it."""

    def raft_entry(
        self,
        owner: int,
        incarnation: int,
        index: int,
        term: int,
        appended_term: int,
        kind: int,
        content: bytes,
    ) -> None: ...

    def hard_state(self, owner: int, incarnation: int, term: int, vote: int) -> None: ...

    def saved_index(self, owner: int) -> int:
        """See `RecoverySink`."""

    def accepted_file_id(self, owner: int) -> int:
        """See `RecoverySink`."""

    def has_member(self, owner: int) -> bool:
        """Whether this node has a member of that queue's group, which takes its messages. All
        entries were replayed."""

    def is_founding(self, queue: Queue) -> bool:
        """Whether this node is to make a mirror ring of the classic queue that it has."""


class ReleaseLog(Protocol):
    """What it needs of the write-ahead log."""

    def release_log(self, owner: int, index: int) -> None: ...


class Recovered:
    """Puts what an earlier process left into the queue hosts (`RecoverySink`)."""

    def __init__(
        self,
        find: FindQueue,
        hosts: QueueHosts,
        damages: Damages,
        next_uid: Callable[[], int],
        found: GroupsFound,
        log: ReleaseLog,
    ) -> None:
        self._found = found
        self._find = find
        self._hosts = hosts
        self._damages = damages
        self._next_uid = next_uid  # no queue that is defined has it, or a higher one
        self._log = log
        self.last: dict[int, tuple[int, int]] = {}  # last message_seq and mark, by owner
        # Entries of known ids and of delays of classic queues, by owner.
        self._beside: dict[int, list[tuple[int, bytes]]] = {}
        self._strays: dict[int, int] = {}  # last entry of logs that nothing reads, by owner
        self.message_count = 0
        self.owner_high = 0  # the highest uid that the log speaks of

    def entry(self, owner: int, index: int, payload: bytes) -> None:
        uid = queue_of_ids(owner) or queue_of_delays(owner)
        if uid > 0:
            self.owner_high = max(self.owner_high, uid)
            self._beside.setdefault(owner, []).append((index, payload))
            return
        self.owner_high = max(self.owner_high, owner)
        if not self._found.entry(owner, index, payload):
            self._strays[owner] = index

    def raft_entry(
        self,
        owner: int,
        incarnation: int,
        index: int,
        term: int,
        appended_term: int,
        kind: int,
        content: bytes,
    ) -> None:
        self.owner_high = max(self.owner_high, owner)
        self._found.raft_entry(owner, incarnation, index, term, appended_term, kind, content)

    def hard_state(self, owner: int, incarnation: int, term: int, vote: int) -> None:
        self.owner_high = max(self.owner_high, owner)
        self._found.hard_state(owner, incarnation, term, vote)

    def knows(self, owner: int) -> bool:
        self.owner_high = max(self.owner_high, owner)
        queue = self._find(owner)
        if queue is None:
            return False
        return self._found.has_member(owner) if self._is_grouped(queue) else queue.outlives_restart

    def _is_grouped(self, queue: Queue) -> bool:
        """Whether a log group has its messages. Those of a queue that was about to get mirrors
        when the node stopped are not in its group yet."""
        if queue.members or self._found.has_member(queue.uid):
            return True
        return len(queue.holders) > 0 and not self._found.is_founding(queue)

    def all_owners(self) -> tuple[list[int], list[int]]:
        end = max(self.owner_high + 1, self._next_uid())
        queues = [queue for queue in map(self._find, range(1, end)) if queue is not None]
        groups = [int(queue.uid) for queue in queues if self._is_grouped(queue)]
        grouped = {*groups}
        return (
            [int(queue.uid) for queue in queues if int(queue.uid) not in grouped],
            [METADATA_OWNER, *groups],
        )

    def saved_index(self, owner: int) -> int:
        return self._found.saved_index(owner)

    def accepted_file_id(self, owner: int) -> int:
        return self._found.accepted_file_id(owner)

    def _is_member(self, owner: int) -> bool:
        """Whether what becomes of the queue is the business of its group."""
        queue = self._find(owner)
        return queue is not None and self._is_grouped(queue)

    def owner(self, owner: int, last_seq: int, mark: int) -> None:
        self.last[owner] = (last_seq, mark)

    def publish(self, found: RecoveredPublish) -> None:
        chunk = Chunk(found.format_tag, None, 0, found.offsets, found.info, found.label)
        chunk.file_id = found.file_id
        chunk.file_offset = found.data_offset
        chunk.durable = True
        for owner, first, live in found.targets:
            self._hosts.core(owner).recover(chunk, first, live, found.meta, found.now_ms)
            self.message_count += sum(count for _, count in live)

    def stretch(self, found: Stretch) -> None:
        whole = Chunk(found.format_tag, None, 0, b"", found.info, found.label)
        whole.file_id = found.file_id
        whole.durable = True
        self._hosts.core(found.owner).recover_stretch(
            found.first,
            found.count,
            whole,
            Columns(found.places, found.counts, found.sizes, found.arrivals),
        )
        self.message_count += found.count

    def finish(self, report: RecoveryReport) -> None:
        """All is there: the queues go on where they were, but for those that are damaged."""
        self._damages.report = report
        hits: dict[int, list[Hit]] = {}
        for hit in report.hits:
            hits.setdefault(hit.owner, []).append(hit)
            if self._is_member(hit.owner):
                continue
            if hit.owner in self._hosts and hit.owner not in self._hosts.awake:
                self._hosts.wake(hit.owner)
        self._give_beside()
        for owner, host in self._hosts.classic.items():
            places = [hit.place for hit in hits.get(owner, []) if hit.entry_after < 0]
            if places:
                self._add(host.core, places)
            else:
                self._finish_classic(host, report)
        self._hosts.rest(self.last)
        for owner, index in self._strays.items():
            self._log.release_log(owner, index)

    def _give_beside(self) -> None:
        """Classic queues get the ids and the delays that they have logged."""
        for owner, entries in self._beside.items():
            uid = queue_of_ids(owner) or queue_of_delays(owner)
            queue = self._find(uid)
            if queue is None or self._is_grouped(queue) or not queue.outlives_restart:
                self._strays[owner] = entries[-1][0]
                continue
            host = self._hosts[uid]
            found = host.ids_found if queue_of_ids(owner) > 0 else host.delays_found
            for index, content in entries:
                found(index, content)

    def _finish_classic(self, host: ClassicHost, report: RecoveryReport) -> None:
        owner = int(host.uid)
        last_seq, mark = self.last.get(owner, (0, -1))
        if mark < 0 or owner in report.unmarked:
            redelivered_upto = last_seq
        elif report.clean:
            redelivered_upto = mark
        else:
            redelivered_upto = mark + UNSEEN_SLACK
        host.recovered(last_seq, max(mark, 0), redelivered_upto)

    def _add(self, core: QueueCore, places: list[CorruptRecord]) -> None:
        last_seq, mark = self.last.get(int(core.uid), (0, -1))
        self._damages.add(core, Damage(shown(places[0]), tuple(places), last_seq, mark))


def no_group(owner: int) -> bool:
    return False


class QueueOwners:
    """Answers the log about the queues that there are (`warren.storage.compaction.Owners`)."""

    def __init__(
        self,
        cores: dict[int, QueueCore],
        mark: Callable[[int], int],
        is_group: Callable[[int], bool] = no_group,
    ) -> None:
        self._cores = cores  # queues at rest have none, and nothing alive
        self._mark = mark  # of all
        self._is_group = is_group  # whether the owner is a group, which may have no member here

    def live_ranges(
        self, owner: int, first: int, count: int, file_id: int
    ) -> list[tuple[int, int]]:
        core = self._cores.get(owner)
        return [] if core is None else core.live_in(first, count, file_id)

    def relocated(
        self,
        owner: int,
        first: int,
        count: int,
        source: FilePlace,
        target: FilePlace,
        offsets: bytes,
    ) -> list[tuple[int, int]]:
        core = self._cores.get(owner)
        return [] if core is None else core.relocated(first, count, source, target, offsets)

    def places(self, owner: int, file_id: int, after: int) -> tuple[list[int], int]:
        core = self._cores.get(owner)
        return ([], 0) if core is None else core.store.places(file_id, after)

    def alive_from(self, owner: int, first: int) -> tuple[list[tuple[int, int]], int]:
        """Of a group all messages count as alive that the machine here has not come to: a member
        that joins again gets some that an earlier one had."""
        core = self._cores.get(owner)
        if core is None:
            return ([(first, SEQ_END - first)] if self._is_group(owner) else []), 0
        alive, following = core.journaled_from(first)
        if not core.quorum:
            return alive, following
        coming = max(first, int(core.machine.next_seq))
        if following >= coming:
            following = 0
        alive = [(at, min(count, coming - at)) for at, count in alive if at < coming]
        return (alive if following > 0 else [*alive, (coming, SEQ_END - coming)]), following

    def mark(self, owner: int) -> int:
        return self._mark(owner)
