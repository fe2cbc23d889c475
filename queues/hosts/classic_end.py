"""A classic queue that had mirrors, for sessions that used it then: their commands have numbers.

A session keeps its consumers, and what these hold, when its queue becomes one of this node alone:
it goes on by way of its `RemoteSession`, on whatever node, and finds here what it found at the
leader of the ring (`HomeEnd`). Commands are applied in the turn in which they come. A publish is
confirmed when the log has it, as of any session of a `ClassicHost`; a session that resumes before
that is confirmed then. When the node of a session is lost, the session ends. Sessions that come
later use the host itself.

`Absent` stands for a session until it resumes: the machine tells again what concerns it. Compiled.
"""

from typing import Final, final

from mypy_extensions import i64

from queues.hosts.classic import ClassicHost
from queues.machine.commands import Command, EndSession, Inspect, SessionId, process_of
from queues.machine.consuming.numbered_sessions import Resume, Resumed, Streams
from queues.message import Chunk
from queues.queue_host import PublishingOnly, SessionSink, View
from queues.remote.remote_interfaces import StreamSink
from queues.sessions.credit import CreditActor, CreditSpec

ABSENT_CREDIT: Final = CreditSpec(400, 200)


@final
class Absent(PublishingOnly):
    """See the module."""

    def __init__(self, session: SessionId) -> None:
        self._session = session
        self._credit = CreditActor("absent session", ABSENT_CREDIT)

    @property
    def session(self) -> SessionId:
        return self._session

    @property
    def credit(self) -> CreditActor:
        return self._credit

    def on_confirms(self, uid: int, upto_seq: int) -> None:
        return

    def on_refused(self, uid: int, first_seq: int, count: int) -> None:
        return

    def on_gone(self, uid: int) -> None:
        return


@final
class ClassicEnd:
    """See the module. `term`: in which this node serves the queue to these sessions; 0: it is about
    to get mirrors again, and takes nothing more."""

    def __init__(self, host: ClassicHost, term: i64) -> None:
        self.uid: i64 = host.uid
        self.term: i64 = term
        self._host = host
        self._sinks: dict[SessionId, StreamSink] = {}
        self._inspects: list[StreamSink] = []
        host.numbered_end = self
        for session in self._streams().by_session:
            host.adopt(Absent(session))

    def _streams(self) -> Streams:
        streams = self._host.core.machine.streams
        assert streams is not None
        return streams

    # HomeEnd

    @property
    def ready_count(self) -> int:
        return self._host.ready_count

    @property
    def checked_out_count(self) -> int:
        return self._host.checked_out_count

    @property
    def consumer_count(self) -> int:
        return self._host.consumer_count

    def hand_down(self, sink: StreamSink, command: Command, chunk: Chunk | None) -> bool:
        """See HomeEnd."""
        if self.term == 0:
            return False
        self._sinks[sink.session] = sink
        self._host.numbered(sink, command, chunk)
        return True

    def resume(self, sink: StreamSink, wanted: Resume) -> Resumed | None:
        """See HomeEnd."""
        if self.term == 0:
            return None
        self._sinks[sink.session] = sink
        self._host.adopt(sink)
        resumed = self._host.core.machine.resume(wanted)
        if resumed.published > 0 and self._host.confirm_later(sink, resumed.published):
            resumed.published = 0
        return resumed

    def inspect(self, sink: StreamSink) -> bool:
        """See HomeEnd."""
        if self.term == 0:
            return False
        self._inspects.append(sink)
        self._host.core.turn.mark_host(self)
        return True

    def view(self, sink: SessionSink, first: int, count: int) -> View | None:
        """See HomeEnd."""
        core = self._host.core
        return None if core.store.find_live(first) is None else core.view(sink, first, count)

    def forget_sink(
        self, session: SessionId, sink: StreamSink | None = None, is_cut_off: bool = False
    ) -> None:
        """The node of the session is lost: what it held is ready again."""
        if sink is not None and self._sinks.get(session) is not sink:
            return
        if self._sinks.pop(session, None) is not None and self.term > 0:
            self._host.order(EndSession(session, is_cut_off))

    def step(self, now_ms: i64) -> None:
        inspects = self._inspects
        self._inspects = []
        host = self._host
        if len(inspects) > 0 and host.core.machine.options.expires_ms >= 0 and not host.is_gone:
            host.order(Inspect(SessionId(0)))  # Using the queue postpones that it expires.
        for sink in inspects:
            sink.on_inspect_ok(int(self.uid), host.ready_count, host.consumer_count)

    def on_timer(self) -> None:
        return

    # The host's effects (NumberedEnd)

    def applied(self, session: SessionId, number: i64) -> None:
        sink = self._sinks.get(session)
        if sink is not None:
            sink.on_applied(int(self.uid), int(number))

    def resend(self, session: SessionId) -> None:
        sink = self._sinks.get(session)
        if sink is not None:
            sink.on_resend(int(self.uid))

    def ended(self, session: SessionId) -> None:
        self._sinks.pop(session, None)

    # Nodes that cannot be reached (`node.cluster.queues.suspending.LedQueue`)

    @property
    def is_leading(self) -> bool:
        return self.term > 0

    def processes(self) -> set[int]:
        """Of all sessions whose commands have numbers."""
        return {process_of(session) for session in self._streams().by_session}

    def suspended(self) -> set[int]:
        """Processes whose consumers get nothing, for their nodes could not be reached."""
        return set(self._streams().suspended)

    def order(self, command: Command) -> bool:
        """A command about a process; False: this node does not serve these sessions."""
        if self.term > 0:
            self._host.order(command)
        return self.term > 0

    def end_all(self, now_ms: i64) -> None:
        """The node has restarted: as with any classic queue, no session outlives that."""
        for session in sorted(self._streams().by_session):
            self._host.order(EndSession(session))
        self._host.step(now_ms)

    # The queue gets mirrors again

    def close(self) -> None:
        """Nothing is taken any more; the sessions hear from the leader of the ring."""
        self.term = 0
        sinks = self._sinks
        self._sinks = {}
        self._inspects = []
        for sink in sinks.values():
            sink.on_leader_lost(int(self.uid))

    def sessions(self) -> set[SessionId]:
        """Those that are served here, or that have yet to resume."""
        return set(self._streams().by_session)
