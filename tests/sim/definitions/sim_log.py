"""The log of one simulated node, as the groups and the births need it: records, durable in order.

What was flushed becomes durable by `sync`. A crash keeps what is durable, and some of what comes
next. Dead records stay: a recovery is to know which ones count.
"""

from collections.abc import Callable, Sequence
from random import Random

import msgspec

from node.cluster.definitions.definitions_store import BIRTHS_OWNER, DefinitionsRecovery
from queues.definitions.broker_objects import Queue
from raft.log_group import METADATA_OWNER, Found

RaftRecord = tuple[int, int, int, int, int, bytes]  # incarnation, index, terms, kind, content
HardState = tuple[int, int, int]  # incarnation, term, vote
Birth = tuple[int, bytes]  # number, content
Record = tuple[str, RaftRecord | HardState | Birth]


class SimLog:
    """Keeps `GroupLog` and `BirthLog`, for the group of the definitions alone."""

    def __init__(self, records: Sequence[Record] = ()) -> None:
        self.records: list[Record] = list(records)
        self.durable_lsn = self.flushed_lsn = len(self.records)
        self.released = 0
        self.released_births = 0
        # Queues that had a birth before the last crash: messages of them may be in the log.
        self.born: set[int] = set()
        self.live: dict[int, RaftRecord] = {}
        self.reads: list[Callable[[], None]] = []

    @property
    def appended_lsn(self) -> int:
        return len(self.records)

    def append_raft_entries(
        self,
        owner: int,
        incarnation: int,
        first: int,
        term: int,
        appended_term: int,
        kind: int,
        contents: Sequence[Sequence[bytes]],
    ) -> None:
        assert owner == METADATA_OWNER
        for index, parts in enumerate(contents, first):
            record = (incarnation, index, term, appended_term, kind, b"".join(parts))
            self.records.append(("entry", record))
            self.live[index] = record

    def append_hard_state(self, owner: int, incarnation: int, term: int, vote: int) -> None:
        assert owner == METADATA_OWNER
        self.records.append(("state", (incarnation, term, vote)))

    def append_entry(self, owner: int, index: int, parts: Sequence[bytes]) -> None:
        assert owner == BIRTHS_OWNER
        self.records.append(("birth", (index, b"".join(parts))))

    def truncate_log(self, owner: int, index: int) -> None:
        for dead in [each for each in self.live if each >= index]:
            del self.live[dead]

    def release_log(self, owner: int, index: int) -> None:
        if owner == BIRTHS_OWNER:
            self.released_births = max(self.released_births, index)
            return
        self.released = max(self.released, index)
        for dead in [each for each in self.live if each <= index]:
            del self.live[dead]

    def read_entries(
        self,
        owner: int,
        first: int,
        last: int,
        bytes_max: int,
        done: Callable[[Found | Exception], None],
    ) -> None:
        found: Found = []
        for index in range(first, last + 1):
            if index not in self.live:
                break
            _, _, term, appended_term, kind, content = self.live[index]
            found.append((index, term, appended_term, kind, content))
        self.reads.append(lambda: done(found))

    def flush(self) -> None:
        self.flushed_lsn = len(self.records)

    # What the world does

    @property
    def is_behind(self) -> bool:
        return self.durable_lsn < self.flushed_lsn

    def sync(self) -> int:
        self.durable_lsn = self.flushed_lsn
        return self.durable_lsn

    def crash(self, random: Random) -> "SimLog":
        """What the next process finds: also births that were released, perhaps."""
        kept = random.randint(self.durable_lsn, len(self.records))
        records = self.records[:kept]
        after = SimLog([each for each in records if not self._is_gone(each, random)])
        after.born = self.born | {
            msgspec.msgpack.decode(record[1], type=Queue).uid
            for _, record in records
            if len(record) == 2
        }
        return after

    def _is_gone(self, record: Record, random: Random) -> bool:
        """A birth that was released may be in no file any more."""
        content = record[1]
        is_released = len(content) == 2 and content[0] <= self.released_births
        return is_released and random.random() < 0.5

    def recover(self, recovery: DefinitionsRecovery, random: Random) -> None:
        """Hand over what is there, in any order."""
        records = list(self.records)
        random.shuffle(records)
        newest: dict[int, RaftRecord] = {}
        for _, record in records:
            if len(record) == 6:
                known = newest.get(record[1])
                if known is None or known[3] < record[3]:
                    newest[record[1]] = record
                recovery.raft_entry(*record)
            elif len(record) == 3:
                recovery.hard_state(*record)
            else:
                recovery.birth(*record)
        self.live = newest
