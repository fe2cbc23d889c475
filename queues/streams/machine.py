"""The replicated state of a stream: which offset is next, what each session has published, and what
consumers and publishers have stored by name (`queues.streams.tracking`).

Messages are not part of it: `apply` says which chunks of an entry are new and where they begin, and
the owner appends them to its segments. Every member applies the same entries and gets the same
offsets. A publish that was applied before, sent again by a session to a new leader, gets no second
offset. Reads only its state and its commands; no I/O.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from msgspec import Struct, field

from queues.machine.commands import (
    Command,
    Configure,
    EndProcess,
    EndSession,
    Enqueue,
    Identify,
    JoinGroup,
    Leads,
    Numbered,
    QueryTracking,
    SessionId,
    StoreOffsets,
    group_consumer,
    process_of,
)
from queues.machine.consuming.numbered_sessions import TAKEN, Resume, Resumed, Streams
from queues.machine.effects import Activated, Applied, Effect, Inspected
from queues.machine.leadership_snapshot import LeadershipState, leadership_state, restored_streams
from queues.message import Chunk
from queues.streams.duplicates import Duplicates, DuplicatesState, restored_duplicates
from queues.streams.groups import Groups, GroupState, restored_groups
from queues.streams.offloading import OffloadChange, OffloadedRow, changed_rows, row_of
from queues.streams.tracking import Tracking, TrackingState, restored_tracking
from warren.storage.streams.offloaded import OffloadedSegment

SESSION_BYTES: Final = 16


class MachineState(msgspec.Struct, frozen=True, array_like=True):
    """A machine in a snapshot."""

    next_offset: int
    last_chunk: int
    last_ms: int
    led_term: int
    sessions: LeadershipState
    published: list[tuple[bytes, int]]
    tracking: TrackingState = TrackingState()
    groups: list[GroupState] = []
    offloaded: list[OffloadedRow] = []
    duplicates: DuplicatesState = (0, b"")


class Outcome(Struct):
    """What an entry has brought about."""

    now_ms: int  # never lower than that of an earlier entry
    first_offset: int
    chunks: list[Chunk] = field(default_factory=list)  # new ones, from `first_offset` on
    confirmed: list[tuple[SessionId, int]] = field(default_factory=list)
    resend: list[SessionId] = field(default_factory=list)  # a command before is missing
    ended: list[SessionId] = field(default_factory=list)  # by the cluster: their sinks are called
    applied: list[tuple[SessionId, int]] = field(default_factory=list)
    answers: list[Inspected] = field(default_factory=list)
    activated: list[tuple[SessionId, bool]] = field(default_factory=list)  # of groups

    @property
    def count(self) -> int:
        return sum(int(chunk.count()) for chunk in self.chunks)


class StreamMachine:
    """See the module."""

    def __init__(self) -> None:
        self.next_offset = 0
        self.last_chunk = 0  # offset of its first message
        self.last_ms = 0
        self.led_term = 0  # of the last leader that began
        self.sessions = Streams()
        self.published: dict[SessionId, int] = {}  # highest publish that is decided
        self.tracking = Tracking()
        self.groups = Groups()
        self.duplicates = Duplicates()
        self.offloaded: tuple[OffloadedSegment, ...] = ()

    def apply(self, now_ms: int, commands: Sequence[Command], chunks: Sequence[Chunk]) -> Outcome:
        """Apply the commands of an entry; `chunks` are those of its publishes, in order."""
        self.last_ms = max(self.last_ms, now_ms)
        outcome = Outcome(self.last_ms, self.next_offset)
        waiting = iter(chunks)
        for command in commands:
            if isinstance(command, Numbered):
                self._numbered(command, waiting, outcome)
            elif isinstance(command, Leads):
                self.led_term = int(command.term)
            elif isinstance(command, Configure):
                self.duplicates.configure(command)
            elif isinstance(command, EndSession):
                self._end(command.session, outcome)
            elif isinstance(command, EndProcess):
                for session in sorted(self.sessions.by_session):
                    if process_of(session) == command.process:
                        self._end(session, outcome)
                self.sessions.end_process(command.process)
        if outcome.chunks:
            self.last_chunk = outcome.first_offset
        effects: list[Effect] = list(outcome.answers)
        self.sessions.end_batch(effects)
        for effect in effects:
            if isinstance(effect, Applied):
                outcome.applied.append((effect.session, int(effect.number)))
        return outcome

    def offload(self, now_ms: int, change: OffloadChange) -> bool:
        """Change which segments are in the object store; return whether any is there no more."""
        self.last_ms = max(self.last_ms, now_ms)
        before = set(self.offloaded)
        self.offloaded = changed_rows(self.offloaded, change)
        return not before.issubset(self.offloaded)

    def _numbered(self, command: Numbered, chunks: Iterator[Chunk], outcome: Outcome) -> None:
        inner = command.command
        chunk = next(chunks) if isinstance(inner, Enqueue) else None
        wanted = self.sessions.admit(command)
        if wanted > 0:
            outcome.resend.append(command.session)
            return
        if isinstance(inner, Enqueue):
            assert chunk is not None and chunk.count() == inner.count
            last = int(inner.first_seq + inner.count - 1)
            outcome.confirmed.append((command.session, last))
            if wanted == TAKEN:
                new = self.duplicates.new_in(self.tracking.new_in(command.session, chunk))
                outcome.chunks.extend(new)
                self.next_offset += sum(int(each.count()) for each in new)
                self.published[command.session] = last
        elif wanted != TAKEN:
            return
        elif isinstance(inner, EndSession):
            self._forget(command.session, outcome)
        elif isinstance(inner, JoinGroup):
            partition = int(inner.partition)
            outcome.activated += self.groups.join(command.session, inner.name, partition)
        elif isinstance(inner, Identify):
            self.tracking.identified[command.session] = inner
        elif isinstance(inner, StoreOffsets):
            self.tracking.store(inner)
            outcome.answers.append(Inspected(command.session, 0, 0))
        elif isinstance(inner, QueryTracking):
            answer = self.tracking.answer(inner)
            outcome.answers.append(Inspected(command.session, answer, 0))

    def _end(self, session: SessionId, outcome: Outcome) -> None:
        if session in self.sessions.by_session:
            self._forget(session, outcome)
            outcome.ended.append(session)

    def _forget(self, session: SessionId, outcome: Outcome) -> None:
        self.sessions.end(session)
        self.published.pop(session, None)
        self.tracking.end(session)
        outcome.activated += self.groups.end(session)

    def resume(self, wanted: Resume) -> Resumed:
        """How the session stands, for its proxy."""
        known = self.sessions.by_session.get(wanted.session)
        number = 0 if known is None else known.number
        resumed = Resumed(wanted.session, number, self.published.get(wanted.session, 0))
        if known is not None and known.answer is not None and 0 < wanted.asked == known.answered:
            resumed.effects.append(known.answer)
        is_active = self.groups.is_active(wanted.session)
        if is_active is not None:
            resumed.effects.append(Activated(group_consumer(wanted.session), is_active))
        return resumed

    def processes(self) -> set[int]:
        """Of all sessions that there are."""
        return {process_of(session) for session in self.sessions.by_session}

    def state(self) -> MachineState:
        sessions = leadership_state(self.sessions)
        assert sessions is not None
        published = [
            (int(session).to_bytes(SESSION_BYTES, "little"), number)
            for session, number in self.published.items()
        ]
        numbers = (self.next_offset, self.last_chunk, self.last_ms, self.led_term)
        tracking, groups = self.tracking.state(), self.groups.state()
        offloaded = [row_of(each) for each in self.offloaded]
        duplicates = self.duplicates.state()
        return MachineState(*numbers, sessions, published, tracking, groups, offloaded, duplicates)


def restored_machine(state: MachineState) -> StreamMachine:
    """ValueError: of no machine."""
    if min(state.next_offset, state.last_chunk, state.last_ms, state.led_term) < 0:
        raise ValueError("a number of a stream is negative")
    machine = StreamMachine()
    machine.next_offset = state.next_offset
    machine.last_chunk = state.last_chunk
    machine.last_ms = state.last_ms
    machine.led_term = state.led_term
    machine.sessions = restored_streams(state.sessions)
    for session, number in state.published:
        if len(session) != SESSION_BYTES or number < 1:
            raise ValueError("a publisher of a stream with a wrong number")
        machine.published[SessionId(int.from_bytes(session, "little"))] = number
    machine.tracking = restored_tracking(state.tracking)
    machine.groups = restored_groups(state.groups)
    machine.offloaded = changed_rows((), OffloadChange(state.offloaded))
    machine.duplicates = restored_duplicates(state.duplicates)
    return machine
