"""A member of a quorum queue, without a log of its own (`queues.remote.remote_interfaces.HomeEnd`).

It applies the world's committed entries at its own pace, and keeps bodies. While it leads it makes
entries of what it is handed, which the world may commit or lose; it may go on so for a while after
another leads. Bodies are at times on disk, so that a reader has to wait for them.
"""

from typing import Protocol

from queues.hosts.effect_dispatch import tell
from queues.machine.commands import (
    Command,
    Leads,
    SessionId,
    Tick,
    decode,
    encode,
    enqueue_of,
    session_of,
)
from queues.machine.consuming.numbered_sessions import Resume, Resumed
from queues.machine.effects import (
    Applied,
    Effect,
    Enqueued,
    Left,
    Refused,
    ResendFrom,
    SessionOver,
    Unwanted,
)
from queues.machine.fifo import Fifo
from queues.machine.fifo_snapshot import decode_fifo, encode_fifo
from queues.machine.options import Options
from queues.machine.traits import ABSENT, Traits
from queues.message import Chunk
from queues.queue_host import View
from queues.remote.remote_interfaces import StreamSink
from queues.remote.remote_session import RemoteSession
from tests.unit.queues.messages import bodies_of


class Lots(Protocol):
    """Whether something goes badly."""

    def random(self) -> float: ...


class Entry:
    """Commands as bytes, as a log has them, and the chunks of those that enqueue."""

    def __init__(
        self, term: int, now_ms: int, commands: list[Command], chunks: list[Chunk]
    ) -> None:
        self.term = term
        self.now_ms = now_ms
        self.commands = [encode(command) for command in commands]
        self.chunks = chunks

    def decoded(self) -> list[Command]:
        return [decode(each) for each in self.commands]


def wishes_of(chunk: Chunk) -> Traits | None:
    """Priorities and lifetimes, which bodies say behind their numbers, if they are such bodies."""
    fields = [body.split(b"/") for body in bodies_of(chunk)]
    if any(len(each) != 4 for each in fields):
        return None
    priorities = b"".join([int(each[2]).to_bytes(4, "little", signed=True) for each in fields])
    ttls = b"".join([int(each[3]).to_bytes(8, "little", signed=True) for each in fields])
    return Traits(ABSENT, ABSENT, priorities, ttls)


def machine_of(options: Options) -> Fifo:
    machine = Fifo(options)
    machine.begin_streams()
    return machine


class End:
    """See the module. `term` is not 0 while it leads, or believes so."""

    def __init__(self, uid: int, options: Options, lots: Lots) -> None:
        self._uid = uid
        self._options = options
        self._lots = lots
        self.machine = machine_of(options)
        self.applied = 0
        self.term = 0
        self.proposed: list[Entry] = []
        self.keeps_on_disk = False  # no body is in memory
        self._commands: list[Command] = []
        self._chunks: list[Chunk] = []
        self.bodies: dict[int, tuple[Chunk, int]] = {}
        self.sinks: dict[SessionId, StreamSink] = {}
        self._waiting: dict[SessionId, StreamSink] = {}  # for bodies to be loaded
        self._inspects: list[StreamSink] = []

    @property
    def uid(self) -> int:
        return self._uid

    @property
    def ready_count(self) -> int:
        return int(self.machine.ready.count)

    @property
    def checked_out_count(self) -> int:
        return int(self.machine.checked_out)

    @property
    def consumer_count(self) -> int:
        return int(self.machine.attached_count)

    @property
    def body_count(self) -> int:
        return len(self.bodies)

    # HomeEnd

    def hand_down(self, sink: StreamSink, command: Command, chunk: Chunk | None) -> bool:
        if self.term == 0:
            return False
        self.sinks[sink.session] = sink
        enqueue = enqueue_of(command)
        assert (enqueue is None) == (chunk is None)
        self._commands.append(command)
        if enqueue is not None and chunk is not None:
            enqueue.traits = wishes_of(chunk)
            self._chunks.append(chunk)
        return True

    def resume(self, sink: StreamSink, wanted: Resume) -> Resumed | None:
        if self.term == 0:
            return None
        self.sinks[sink.session] = sink
        return self.machine.resume(wanted)

    def inspect(self, sink: StreamSink) -> bool:
        if self.term == 0:
            return False
        self._inspects.append(sink)
        return True

    def _answer_inspects(self) -> None:
        sinks, self._inspects = self._inspects, []
        for sink in sinks:
            sink.on_inspect_ok(self._uid, self.ready_count, self.consumer_count)

    def view(self, sink: StreamSink, first: int, count: int) -> View | None:
        mine = [key for key in self.machine.consumers if session_of(key) == sink.session]
        held = [self.machine.consumers[key].held.contains(first) for key in mine]
        if not any(held):
            streams = self.machine.streams
            is_over = streams is not None and sink.session >> 64 in streams.ended
            is_wrong = isinstance(sink, RemoteSession) and not is_over
            assert not is_wrong, f"message {first} is not held by who looks at it"
            return None
        if self.keeps_on_disk or self._lots.random() < 0.2:
            self._waiting[sink.session] = sink
            return None
        chunk, index = self.bodies[first]
        end = first + 1
        while end < first + count and self.bodies.get(end, (None, 0))[0] is chunk:
            end += 1
        return View(chunk, index, first, end - first)

    def forget_sink(
        self, session: SessionId, sink: StreamSink | None = None, is_cut_off: bool = False
    ) -> None:
        if sink is not None and self.sinks.get(session) is not sink:
            return
        self._inspects = [sink for sink in self._inspects if sink.session != session]
        self.sinks.pop(session, None)
        self._waiting.pop(session, None)

    # Leading

    def begin(self, term: int) -> None:
        """All entries of older terms are applied."""
        self.term = term
        self._commands.append(Leads(term))
        self.propose(0)

    def step_down(self) -> None:
        """It hears that another leads, or led in the meantime."""
        self.term = 0
        self.proposed = []
        self._commands = []
        self._chunks = []
        sinks, self.sinks = self.sinks, {}
        sinks.update({sink.session: sink for sink in self._inspects})
        self._inspects = []
        self._waiting = {}
        for sink in sinks.values():
            sink.on_leader_lost(self._uid)

    def give(self, command: Command) -> None:
        """Something that the cluster wants."""
        assert self.term > 0
        self._commands.append(command)

    def propose(self, now_ms: int) -> None:
        """Make an entry of what was handed down, or of the time."""
        self._answer_inspects()
        if not self._commands and (self.machine.has_more() or now_ms >= self.machine.due_ms):
            self._commands.append(Tick())
        if self.term > 0 and self._commands:
            self.proposed.append(Entry(self.term, now_ms, self._commands, self._chunks))
            self._commands = []
            self._chunks = []

    # Applying

    def apply(self, entry: Entry) -> None:
        self.applied += 1
        effects = self.machine.apply(entry.decoded(), entry.now_ms)
        chunks = list(entry.chunks)
        confirms: list[Enqueued] = []
        for effect in effects:
            if isinstance(effect, Enqueued | Unwanted):
                chunk = chunks.pop(0)
                assert chunk.count() == effect.count
                if isinstance(effect, Enqueued):
                    for place in range(effect.count):
                        self.bodies[effect.message_first + place] = (chunk, place)
                    confirms.append(effect)
            elif isinstance(effect, Left):
                for seq in range(effect.first, effect.first + effect.count):
                    del self.bodies[seq]
        assert not chunks
        if self.term > 0:
            self._speak(effects, confirms)

    def _speak(self, effects: list[Effect], confirms: list[Enqueued]) -> None:
        for effect in effects:
            if isinstance(effect, Refused):
                sink = self.sinks.get(effect.session)
                if sink is not None:
                    sink.on_refused(self._uid, effect.first_seq, effect.count)
        for each in confirms:
            sink = self.sinks.get(each.session)
            if sink is not None:
                sink.on_confirms(self._uid, each.first_seq + each.count - 1)
        for effect in effects:
            self._tell(effect)

    def _tell(self, effect: Effect) -> None:
        if isinstance(effect, Enqueued | Unwanted | Left | Refused):
            return
        session = getattr(effect, "session", None)
        if session is None and hasattr(effect, "key"):
            session = session_of(effect.key)
        sink = None if session is None else self.sinks.get(session)
        if sink is None:
            return
        if isinstance(effect, Applied):
            sink.on_applied(self._uid, effect.number)
            stream = self.machine.streams
            if stream is not None and effect.session not in stream.by_session:
                self.forget_sink(effect.session)
        elif isinstance(effect, ResendFrom):
            sink.on_resend(self._uid)
        elif isinstance(effect, SessionOver):
            self.forget_sink(effect.session)
            sink.on_gone(self._uid)
        else:
            tell(sink, self._uid, effect, False)

    def load(self) -> None:
        """Bodies that were waited for are there."""
        waiting, self._waiting = self._waiting, {}
        for sink in waiting.values():
            sink.on_loaded(self._uid)

    def restart(self) -> None:
        """The node restarts with what it has on disk."""
        copy = machine_of(self._options)
        decode_fifo(copy, encode_fifo(self.machine, small=int(self.machine.next_seq) % 2 * 1000))
        self.machine = copy
        self.term = 0
        self.proposed = []
        self._commands = []
        self._chunks = []
        self.sinks = {}
        self._inspects = []
        self._waiting = {}
