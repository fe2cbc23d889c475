"""A host for one core in a story: a disk that keeps what was synced, and a machine of texts.

The machine is the list of all texts that were committed. A snapshot is that list, in slices of two.
Nothing is ever erased from the disk but by a crash, which takes what was not synced.
"""

from collections.abc import Callable
from random import Random

from raft.codec import decode, encode
from raft.core import Raft
from raft.entries import COMMAND, Config, Entry, HardState, SnapshotPoint
from raft.messages import Message, SnapshotSlice
from raft.ready import Load, LoadSlice, Ready
from raft.recovery import resolve
from raft.settings import Settings

SLICE_TEXTS = 2

Send = Callable[[int, int, Message], None]
Tell = Callable[[str], None]


class Member:
    """`tell` gets what happens, `send` the messages. `raft` is None while it is down."""

    def __init__(self, member: int, config: Config, settings: Settings, send: Send, tell: Tell):
        self.member = member
        self._settings = settings
        self._send = send
        self._tell = tell
        self._lots = Random(member)
        self._founding = SnapshotPoint(0, 0, 0, config)
        self._hard_state = HardState(0, 0)
        self._entries: list[Entry] = []
        self._snapshot: tuple[SnapshotPoint, list[str]] = (self._founding, [])
        self._unsynced: list[Ready] = []
        self._staged: list[str] = []
        self.is_syncing = True
        self.texts: list[str] = []
        self.raft: Raft | None = None
        self.start()

    def start(self) -> None:
        point, texts = self._snapshot
        candidates = [
            (int(one.index), int(one.term), int(one.appended_term), int(one.kind), payload(one))
            for one in reversed(self._entries)
        ]
        restored = resolve(point, self._hard_state, candidates)
        self.texts = list(texts)
        self._staged = []
        self.raft = Raft(self.member, restored, self._settings, self._lots)

    def crash(self) -> None:
        self.raft = None
        self._unsynced = []

    def snapshot(self) -> None:
        raft = self.core
        point = raft.snapshot_point(raft.applied_index)
        self._snapshot = (point, list(self.texts))
        raft.snapshot_taken(point)
        raft.forget(point.index)

    @property
    def core(self) -> Raft:
        assert self.raft is not None, f"{self.member} is down"
        return self.raft

    def turn(self) -> None:
        raft = self.core
        ready = raft.ready()
        for receiver, message in ready.messages:
            self._send(self.member, receiver, message)
        if ready.slices_dropped:
            self._tell("drops the slices it had")
            self._staged = []
        self._unsynced.append(ready)
        if self.is_syncing:
            self.sync()
        self._apply(ready)
        for read in ready.reads:
            outcome = f"sees all up to {read.index}" if read.index >= 0 else "is lost"
            self._tell(f"read {read.context} {outcome}")
        if ready.config is not None:
            self._tell(f"has {told(ready.config)}")
        for load in ready.loads:
            raft.loaded(load, self._read(load))
        for slice_load in ready.slice_loads:
            self._read_slice(slice_load)

    def sync(self) -> None:
        """All that was handed over is durable."""
        raft = self.core
        for ready in self._unsynced:
            if ready.hard_state is not None:
                self._hard_state = ready.hard_state
            self._entries += ready.entries
            for receiver, message in ready.messages_after_sync:
                self._send(self.member, receiver, message)
            if ready.entries:
                last = ready.entries[-1]
                raft.durable(last.index, last.term)
            for part in ready.slices:
                self._stage(part, ready.install if part is ready.slices[-1] else None)
        self._unsynced = []

    def _stage(self, part: SnapshotSlice, install: SnapshotPoint | None) -> None:
        self._staged += b"".join(part.parts).decode().split()
        if install is not None:
            self._snapshot = (install, self._staged)
            self.texts = list(self._staged)
            self._staged = []
            self._tell(f"installs a snapshot up to {install.index}: {' '.join(self.texts)}")
        self.core.slice_stored(part)

    def _apply(self, ready: Ready) -> None:
        new = [payload(one).decode() for one in ready.committed if one.kind == COMMAND]
        self.texts += new
        if new:
            self._tell(f"applies {' '.join(new)}")

    def _read(self, load: Load) -> list[Entry]:
        """At each index the one that was appended in the highest term."""
        newest: dict[int, Entry] = {}
        for one in self._entries:
            known = newest.get(one.index)
            if known is None or known.appended_term <= one.appended_term:
                newest[one.index] = one
        if load.first < self.core.first_index:
            return []
        return [newest[index] for index in range(load.first, load.last + 1)]

    def _read_slice(self, load: LoadSlice) -> None:
        point, texts = self._snapshot
        if point.index != load.index:
            self.core.slice_lost(load)
            return
        first = load.slice_number * SLICE_TEXTS
        some = texts[first : first + SLICE_TEXTS]
        part = "".join(text + " " for text in some).encode()
        self.core.slice_loaded(load, (part,), first + SLICE_TEXTS >= len(texts))


def payload(entry: Entry) -> bytes:
    return b"".join(entry.parts)


def told(config: Config) -> str:
    voters = " ".join(map(str, config.voters))
    learners = " ".join(f"{one}{'+' * (one in config.joining)}" for one in config.learners)
    return f"members {voters}" + (f", learners {learners}" if learners else "")


def carried(message: Message) -> Message:
    """As it comes out of the network."""
    return decode(memoryview(b"".join(encode(message))))
