"""This member's copy of the log: entries, configurations in it, and what the host's log has of it.

Entries are handed to the host once, in order; when they are durable is its word. A tail that turns
out to be another one is replaced, and with it the configurations that it had. Compiled.
"""

from collections.abc import Sequence
from typing import final

from mypy_extensions import i64

from raft.entries import CONFIG, Config, Entry, SnapshotPoint
from raft.log import Log
from raft.membership import Configs, decode_config, encode_config
from raft.messages import SnapshotSlice
from raft.ready import Ready
from raft.recovery import Restored


@final
class Replica:
    """Invariant: durable_index <= handed_index <= log.last_index, once it is at rest."""

    __slots__ = (
        "_config_has_moved",
        "_handed_index",
        "_truncated_from",
        "configs",
        "durable_index",
        "log",
    )

    def __init__(self, restored: Restored) -> None:
        snapshot = restored.snapshot
        self.log = Log(snapshot, restored.runs, restored.last_index)
        self.configs = Configs(snapshot.index, snapshot.config)
        for index, config in restored.configs:
            self.configs.add(index, config)
        self.durable_index: i64 = restored.last_index
        self._handed_index: i64 = restored.last_index  # the host's log has entries up to here
        self._truncated_from: i64 = 0  # what the host's log has from here on is dead; 0: nothing
        self._config_has_moved = False

    def append(self, entry: Entry) -> None:
        """An entry of the leader that this member is."""
        self.log.append(entry)

    def configure(self, index: i64, config: Config) -> None:
        """The entry at `index` says who the members are."""
        self.configs.add(index, config)
        self._config_has_moved = True

    def stand_alone(self, member: i64, term: i64) -> None:
        """From the end of the log on there is this member alone."""
        config = Config((member,))
        index = self.log.last_index + 1
        self.append(Entry(index, term, CONFIG, (encode_config(config),), (), term))
        self.configure(index, config)

    def take(self, entries: Sequence[Entry], term: i64, commit_index: i64) -> None:
        """Entries that follow something that is in the log; some or all may be there already.

        They come in `term`. Nothing up to `commit_index` is ever replaced.
        """
        log = self.log
        first = entries[0].index
        if first <= log.last_index:
            overlap = min(log.last_index - first + 1, len(entries))
            # An entry that is there with the same term is the same, and so is all before it.
            if log.term(first + overlap - 1) == entries[overlap - 1].term:
                entries = entries[overlap:]
            else:
                known: i64 = 0
                while log.term(first + known) == entries[known].term:
                    known += 1
                assert first + known > commit_index
                self._truncate(first + known)
                entries = entries[known:]
        if not entries:
            return
        assert entries[-1].term <= term
        if entries[0].appended_term != term or entries[-1].appended_term != term:
            entries = [
                Entry(entry.index, entry.term, entry.kind, entry.parts, entry.attached, term)
                for entry in entries
            ]
        log.extend(entries)
        for entry in entries:
            if entry.kind == CONFIG:
                self.configure(entry.index, decode_config(b"".join(entry.parts)))

    def _truncate(self, index: i64) -> None:
        if index <= self._handed_index and (
            self._truncated_from == 0 or index < self._truncated_from
        ):
            self._truncated_from = index
        self.log.truncate(index)
        self._handed_index = min(self._handed_index, index - 1)
        self.durable_index = min(self.durable_index, index - 1)
        if self.configs.truncate(index):
            self._config_has_moved = True

    def synced(self, index: i64, term: i64) -> bool:
        """The host's log is durable up to the entry at `index` of `term`; whether that is news.

        What was there may have been replaced meanwhile: then it is none.
        """
        if index <= self.durable_index or index > self._handed_index:
            return False
        if self.log.term(index) != term:
            return False
        self.durable_index = index
        return True

    # Snapshots

    def point_at(self, index: i64) -> SnapshotPoint:
        log = self.log
        return SnapshotPoint(
            index, log.term(index), log.appended_term(index), self.configs.at(index)
        )

    def take_snapshot(self, point: SnapshotPoint, release_index: i64) -> None:
        """One of this member is durable; entries up to `release_index` are of no use."""
        assert self.log.term(point.index) == point.term
        self.log.take_snapshot(point, release_index)
        self.configs.release(point.index)
        self.durable_index = max(self.durable_index, point.index)

    def incoming_point(self, last: SnapshotSlice, term: i64) -> SnapshotPoint:
        """What an incoming snapshot is called here.

        If the log has the snapshot's last entry, what is behind it stays; else nothing does, and
        all of it was appended before this term: what came in this term is the leader's log.
        """
        log = self.log
        is_known = log.term(last.index) == last.snapshot_term
        appended_term = log.appended_term(last.index) if is_known else term
        return SnapshotPoint(last.index, last.snapshot_term, appended_term, last.config)

    def install(self, point: SnapshotPoint, commit_index: i64) -> None:
        """An incoming snapshot is durable."""
        log = self.log
        index = point.index
        if log.term(index) == point.term:
            self.take_snapshot(point, index)
            self._handed_index = max(self._handed_index, index)
            return
        assert index > commit_index
        if log.last_index > index:
            self._truncated_from = index + 1
        log.reset(point)
        self.configs = Configs(index, point.config)
        self._config_has_moved = True
        self.durable_index = index
        self._handed_index = index

    def hand_over(self, result: Ready) -> None:
        """What the host does not have, and what has changed."""
        log = self.log
        if self._truncated_from:
            result.truncated_from = self._truncated_from
            self._truncated_from = 0
        if self._handed_index < log.last_index:
            result.entries = log.slice(self._handed_index + 1, log.last_index)
            self._handed_index = log.last_index
        if self._config_has_moved:
            self._config_has_moved = False
            result.config = self.configs.current
