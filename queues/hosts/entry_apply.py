"""Apply committed entries of a replicated queue, and pass their effects to the leader's sessions.

On every member bodies get their place in the queue (Enqueued) and leave (Left). What sessions are
told, and what becomes of dead letters, is the business of the leader alone, and there of those
sessions that have a sink: others ask when they come (`HomeEnd.resume`). Compiled.
"""

from collections.abc import Callable
from typing import final

from mypy_extensions import i64

from queues.hosts.effect_dispatch import session_in, tell
from queues.hosts.queue_core import QueueCore
from queues.hosts.quorum_bodies import Bodies
from queues.machine.commands import (
    Command,
    EndProcess,
    EndSession,
    Numbered,
    SessionId,
    process_of,
)
from queues.machine.effects import (
    LEFT_ACCEPTED,
    Applied,
    DeadLettersPending,
    Effect,
    Enqueued,
    KnownAlready,
    Left,
    Purged,
    ResendFrom,
    SessionOver,
    SizesWanted,
    Unwanted,
)
from queues.remote.remote_interfaces import StreamSink

Numbers = list[tuple[SessionId, int]]


@final
class EntryApply:
    """See the module. Invariant: there are sinks only while this node leads.

    `on_pending`, `on_purged` and `on_sizes_wanted` are called where it leads: messages wait in the
    machine to be dead-lettered at least once, the queue is purged, and it is to count the bytes of
    its messages.
    """

    def __init__(
        self,
        core: QueueCore,
        bodies: Bodies,
        on_pending: Callable[[DeadLettersPending], None],
        on_purged: Callable[[], None],
        on_sizes_wanted: Callable[[], None],
    ) -> None:
        self._core = core
        self._bodies = bodies
        self._on_pending = on_pending
        self._on_purged = on_purged
        self._on_sizes_wanted = on_sizes_wanted
        self._sinks: dict[SessionId, StreamSink] = {}
        # The last command that each session has handed down in this term
        self._taken: dict[SessionId, int] = {}

    # Sessions

    def takes(self, sink: StreamSink, command: Command) -> bool:
        """Adopt the sink of a command that is handed down. False: the command came before, in this
        term, and its session has sent it again. A second entry would be without effect, but not on
        a mirror that joins between the two and is promoted before it has what came before."""
        self.adopt(sink)
        if not isinstance(command, Numbered):
            return True
        session = command.session
        if isinstance(command.command, EndSession):
            self._taken.pop(session, None)  # All others are applied; the session may begin again.
            return True
        last: i64 = self._taken.get(session, 0)
        if command.number <= last:
            return False
        if last == 0:
            streams = self._core.machine.streams
            assert streams is not None
            last = streams.last_number(session)
        if command.number == last + 1:
            self._taken[session] = int(command.number)
        return True

    def processes(self) -> set[int]:
        """Of all sessions of which commands are applied, or will be."""
        streams = self._core.machine.streams
        assert streams is not None
        sessions = {*streams.by_session, *self._taken}
        return {process_of(session) for session in sessions}

    def adopt(self, sink: StreamSink) -> None:
        """The sink stands for its session from now on."""
        session = sink.session
        known = self._sinks.get(session)
        if known is not sink:
            if known is not None:
                self.forget(session)
            self._sinks[session] = sink

    def sink_of(self, session: SessionId) -> StreamSink | None:
        """Who stands for the session here."""
        return self._sinks.get(session)

    def forget(self, session: SessionId) -> StreamSink | None:
        """Pass nothing to the session any more; return its sink."""
        sink = self._sinks.pop(session, None)
        if sink is not None:
            core = self._core
            core.reading.end_session(session)
            core.credit.peer_down(sink.credit)
            sink.credit.peer_down(core.credit)
        return sink

    def lose_leadership(self) -> None:
        """Tell all sessions that nothing more comes from here."""
        sinks = self._sinks
        self._sinks = {}
        self._taken = {}
        self._core.credit.peer_down_everywhere()
        for session in sinks:
            self._core.reading.end_session(session)
        for sink in sinks.values():
            sink.on_leader_lost(int(self._core.uid))

    # Entries

    def apply(self, commands: list[Command], now_ms: i64, leads: bool) -> None:
        """Apply the commands of one entry."""
        core = self._core
        bodies = self._bodies
        machine = core.machine
        effects = machine.apply(commands, now_ms)
        core.capacity.observe(machine.is_able(), machine.now_ms)
        confirmed: Numbers = []
        applied: Numbers = []
        traffic = bodies.traffic
        for effect in effects:
            if isinstance(effect, Enqueued):
                bodies.taken(effect.message_first, effect.count)
                core.published_count += effect.count
                confirmed.append((effect.session, effect.first_seq + effect.count - 1))
            elif isinstance(effect, Left):
                if leads:
                    core.left(effect)
                else:
                    core.accepted_count += effect.count if effect.reason == LEFT_ACCEPTED else 0
                    core.release_found(effect.first, effect.count)
            elif leads:
                if isinstance(effect, Applied):
                    applied.append((effect.session, effect.number))
                elif isinstance(effect, KnownAlready):
                    confirmed.append((effect.session, effect.first_seq + effect.count - 1))
                else:
                    self._answer(effect)
                    if traffic is not None:
                        traffic.told(effect)
        bodies.drop_passed()
        if leads:
            over = self._end_sessions(commands)
            self._decide(confirmed, applied)
            for sink in over:
                if self._sinks.get(sink.session) is sink:  # Else the session has begun again.
                    self.forget(sink.session)

    def _answer(self, effect: Effect) -> None:
        """What is not about bodies, nor for the end of the entry."""
        core = self._core
        if core.has_changed(effect):
            return
        if isinstance(effect, DeadLettersPending):
            self._on_pending(effect)
        elif isinstance(effect, SizesWanted):
            self._on_sizes_wanted()
        elif isinstance(effect, ResendFrom):
            sink = self._sinks.get(effect.session)
            if sink is not None:
                sink.on_resend(int(core.uid))
        elif isinstance(effect, SessionOver):
            sink = self.forget(effect.session)
            if sink is not None:  # Its process may not know yet that the session is over.
                sink.on_gone(int(core.uid))
        elif not isinstance(effect, Unwanted):
            core.count_answer(effect)
            if isinstance(effect, Purged):
                self._on_purged()
            sink = self._sinks.get(session_in(effect))
            if sink is not None:
                tell(sink, core.uid, effect, core.auto_delete and core.machine.attached_count == 0)

    def _decide(self, confirmed: Numbers, applied: Numbers) -> None:
        """Publishes are decided, behind what was refused of them; commands are in for good."""
        uid = int(self._core.uid)
        for session, upto in confirmed:
            sink = self._sinks.get(session)
            if sink is not None:
                sink.on_confirms(uid, upto)
        for session, number in applied:
            sink = self._sinks.get(session)
            if sink is not None:
                sink.on_applied(uid, number)

    def _end_sessions(self, commands: list[Command]) -> list[StreamSink]:
        """The sinks of sessions that the commands end: they are still to be answered."""
        over: list[StreamSink] = []
        for command in commands:
            inner = command.command if isinstance(command, Numbered) else command
            if isinstance(inner, EndSession):
                sink = self._sinks.get(inner.session)
                if sink is not None:
                    over.append(sink)
            elif isinstance(inner, EndProcess):
                self._taken = {
                    session: last
                    for session, last in self._taken.items()
                    if process_of(session) != inner.process
                }
        return over
