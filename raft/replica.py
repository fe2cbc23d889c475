"""A member's copy of the log: entries, configurations in it, and what the host's log has of it; and
what members of Raft groups and of mirror rings do alike with it (`LogMember`).

Entries are handed to the host once, in order; when they are durable is its word. A tail that turns
out to be another one is replaced, and with it the configurations that it had. Compiled.
"""

from collections.abc import Sequence
from typing import final

from mypy_extensions import i64

from raft.entries import CONFIG, Config, Entry, SnapshotPoint
from raft.incoming import Incoming
from raft.leading import Leadership
from raft.log import Log
from raft.membership import Configs, decode_config, encode_config
from raft.messages import SnapshotSlice
from raft.outbox import Outbox
from raft.ready import Lead, Load, Ready
from raft.recovery import Restored
from raft.settings import Settings
from raft.status import FOLLOWER


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


class LogMember:
    """What `raft.core.Raft` and `raft.ring.Ring` have in common: how far the log of a member is
    durable, committed and applied, and what it tells its host of that.

    Invariant: applied_index <= commit_index <= last_index. `applied_index` is what was handed out
    to be applied.
    """

    __slots__ = (
        "_apply_load",
        "_hard_state_has_moved",
        "_held",
        "_incoming",
        "_is_dirty",
        "_leading",
        "_loaded",
        "_log",
        "_outbox",
        "_replica",
        "_settings",
        "_told_is_ready",
        "_told_leader",
        "_told_term",
        "_unreachable",
        "applied_index",
        "commit_index",
        "leader",
        "member",
        "role",
        "term",
    )

    def __init__(self, member: i64, term: i64, restored: Restored, settings: Settings) -> None:
        assert member > 0
        self.member: i64 = member
        self.term: i64 = term
        self.role: i64 = FOLLOWER
        self.leader: i64 = 0  # 0: unknown
        self.commit_index: i64 = restored.snapshot.index
        self.applied_index: i64 = restored.snapshot.index
        self._settings = settings
        self._replica = Replica(restored)
        self._log = self._replica.log
        self._outbox = Outbox()
        self._leading: Leadership | None = None  # sends entries to others
        self._incoming = Incoming(self._outbox)
        self._unreachable: set[int] = set()
        self._held: set[int] = set()
        self._apply_load: Load | None = None
        self._loaded: Sequence[Entry] = ()  # committed entries from below memory
        self._hard_state_has_moved = False
        self._told_term: i64 = term
        self._told_leader: i64 = 0
        self._told_is_ready = False
        self._is_dirty = False

    @property
    def last_index(self) -> int:
        return self._log.last_index

    @property
    def first_index(self) -> int:
        """Entries before this one are of no use: the host's log may release them."""
        return self._log.base_index + 1

    @property
    def durable_index(self) -> int:
        """What is on the own disk."""
        return self._replica.durable_index

    @property
    def snapshot_index(self) -> int:
        return self._log.snapshot.index

    @property
    def snapshot_limit(self) -> int:
        """How far the machine may be for its state to be saved: what is stored beside the entries
        must be as durable as a snapshot that refers to it."""
        return min(self.applied_index, self._replica.durable_index)

    @property
    def has_ready(self) -> bool:
        return self._is_dirty

    @property
    def is_full(self) -> bool:
        """Too much is proposed and not committed."""
        behind = self._log.bytes_behind(self.commit_index)
        return behind >= self._settings.uncommitted_bytes_max

    def _note_reachable(self, member: i64, is_reachable: bool) -> None:
        if is_reachable:
            self._unreachable.discard(member)
        else:
            self._unreachable.add(member)

    def _note_held(self, member: i64, is_held: bool) -> None:
        if is_held:
            self._held.add(member)
        else:
            self._held.discard(member)

    def _hold_back(self, sending: Leadership | None, member: i64, is_held: bool) -> None:
        if sending is not None and member in sending.peers:
            sending.peers[member].is_held = is_held
            self._is_dirty = True

    def loaded(self, load: Load, entries: Sequence[Entry]) -> None:
        """The answer to a `Load`."""
        self._is_dirty = True
        if load.member:
            if self._leading is not None:
                self._leading.loaded(load, entries, self.commit_index)
            return
        if self._apply_load is not load:
            return
        self._apply_load = None
        assert entries  # what is not applied is not released
        assert entries[0].index == self.applied_index + 1
        assert entries[-1].index == self.applied_index + len(entries)
        assert entries[-1].index <= self.commit_index
        self._loaded = entries

    def snapshot_point(self, index: i64) -> SnapshotPoint:
        """What a snapshot of the machine after `index` is called; see `snapshot_limit`."""
        assert self._log.snapshot.index <= index <= self.applied_index
        return self._replica.point_at(index)

    def snapshot_taken(self, point: SnapshotPoint) -> None:
        """This member's snapshot is durable: the log below `first_index` may go."""
        if point.index <= self._log.snapshot.index:
            return
        assert point.index <= self.applied_index
        leading = self._leading
        release_index = point.index if leading is None else leading.needed_index(point.index)
        self._replica.take_snapshot(point, release_index)
        self._is_dirty = True

    def forget(self, index: i64) -> None:
        """Contents of entries up to here leave memory, if they are applied and durable."""
        self._log.forget(min(index, self.applied_index, self._replica.durable_index))

    def forget_all(self) -> None:
        """Contents of all entries that are applied and durable leave memory."""
        self._log.forget_all(min(self.applied_index, self._replica.durable_index))

    def _take_committed(self, result: Ready) -> None:
        """As much as may be applied at once; what is not in memory is asked for."""
        if self._apply_load is not None or self._incoming.is_installing:
            return
        log = self._log
        settings = self._settings
        first = self.applied_index + 1
        last = min(self.commit_index, self.applied_index + settings.apply_entries_max)
        if self._loaded:
            result.committed = self._loaded
            self._loaded = ()
        elif first < log.memory_first:
            last = min(last, log.memory_first - 1)
            self._apply_load = Load(0, first, last, settings.apply_bytes_max)
            self._outbox.loads.append(self._apply_load)
            return
        else:
            last = log.last_within(first, last, settings.apply_bytes_max)
            result.committed = log.slice(first, last)
        self.applied_index += len(result.committed)
        if self.applied_index < self.commit_index:
            self._is_dirty = True

    def _tell_lead(self, result: Ready, is_ready: bool) -> None:
        """Who leads in which term, if that has changed; `is_ready`: this member, and it has applied
        what was before its term."""
        if (
            self.term != self._told_term
            or self.leader != self._told_leader
            or is_ready != self._told_is_ready
        ):
            self._told_term = self.term
            self._told_leader = self.leader
            self._told_is_ready = is_ready
            result.lead = Lead(self.term, self.leader, is_ready)
