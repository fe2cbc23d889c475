"""Where the dead of the simulated quorum queue go: queues that take their time, and may refuse.

Each `Target` belongs to the world and outlives all nodes; a node reaches it by a `TargetHost` of
its own. What is published there is decided later, by lots: taken and then confirmed, refused, or
lost with the target's host, which is another one from then on. What a node that has crashed had on
its way may still arrive.
"""

from dataclasses import dataclass, field
from random import Random

from queues.hosts.host_interfaces import Addressed
from queues.machine.commands import Command, SessionId
from queues.message import Chunk
from queues.queue_host import SessionSink, View
from queues.sessions.credit import CreditActor, CreditSpec
from tests.sim.queues.group_node import GroupNode
from tests.unit.queues.messages import bodies_of

TARGETS = (101, 102)


@dataclass(slots=True)
class Published:
    """Some messages on their way."""

    host: "TargetHost"
    sink: SessionSink
    first_seq: int
    payloads: list[bytes]


@dataclass(slots=True)
class Target:
    uid: int
    arrived: dict[bytes, int] = field(default_factory=dict)  # how often
    under_way: list[Published] = field(default_factory=list)
    reliable: bool = False

    def decide(self, random: Random) -> None:
        """Something becomes of what is first in line of one of the sessions."""
        if not self.under_way:
            return
        chosen = random.choice(self.under_way)
        mine = [each for each in self.under_way if each.host is chosen.host]
        lot = 1.0 if self.reliable else random.random()
        if lot < 0.05:
            self.lose(chosen.host, random)
            return
        one = mine[0]
        self.under_way.remove(one)
        if lot > 0.25:
            self._take(one)
        one.host.answer(one, lot > 0.25)

    def _take(self, one: Published) -> None:
        for payload in one.payloads:
            self.arrived[payload] = self.arrived.get(payload, 0) + 1

    def lose(self, host: "TargetHost", random: Random) -> None:
        """What was on its way by that host has arrived or not, without a report."""
        for each in [each for each in self.under_way if each.host is host]:
            self.under_way.remove(each)
            if random.random() < 0.5:
                self._take(each)
        host.go()


class TargetHost:
    """A target as the sessions of one life of a node see it (`QueueHost`)."""

    quorum = False
    single_active = False
    ready_count = 0
    checked_out_count = 0
    consumer_count = 0
    vhost = "/"

    def __init__(self, node: GroupNode, target: Target) -> None:
        self.node = node
        self.target = target
        self.credit = CreditActor("target", CreditSpec(400, 200))
        self.next_seqs: dict[SessionId, int] = {}
        self.sinks: dict[SessionId, SessionSink] = {}
        self.is_gone = False

    @property
    def uid(self) -> int:
        return self.target.uid

    @property
    def name(self) -> str:
        return f"target {self.target.uid}"

    def publish(self, sink: SessionSink, chunk: Chunk, first_seq: int) -> None:
        if self.is_gone:  # Since the letter was addressed, some turns ago.
            sink.on_gone(self.uid)
            return
        expected = self.next_seqs.get(sink.session, 1)
        assert first_seq == expected, f"{first_seq} is not {expected}"
        payloads = bodies_of(chunk)
        self.next_seqs[sink.session] = first_seq + len(payloads)
        self.sinks[sink.session] = sink
        self.target.under_way.append(Published(self, sink, first_seq, payloads))

    def command(self, sink: SessionSink, command: Command) -> None:
        self.sinks.pop(sink.session, None)

    def view(self, sink: SessionSink, first: int, count: int) -> View | None:
        raise AssertionError("no client consumes here")

    def answer(self, one: Published, is_taken: bool) -> None:
        sink = self.sinks.get(one.sink.session)
        if sink is None or not self.node.is_alive():
            return
        self.node.turn.begin()
        if not is_taken:
            sink.on_refused(self.uid, one.first_seq, len(one.payloads))
        sink.on_confirms(self.uid, one.first_seq + len(one.payloads) - 1)

    def go(self) -> None:
        self.is_gone = True
        if self.node.is_alive():
            self.node.turn.begin()
            for sink in list(self.sinks.values()):
                sink.on_gone(self.uid)


class SimUndertaker:
    """Addresses letters of one node's queue (`DeadLetterPublisher`): to one target, both, or
    none."""

    def __init__(self, node: GroupNode, targets: dict[int, Target], random: Random) -> None:
        self._node = node
        self._targets = targets
        self._random = random
        self._hosts: dict[int, TargetHost] = {}
        self._sessions = 0
        self.pending_dead_letters = 0

    def bury(self, chunk: Chunk, index: int, count: int, reason: str, first: int) -> int:
        raise AssertionError("dead letters go at least once")

    def close(self) -> None:
        return

    def new_session(self) -> SessionId:
        self._sessions += 1
        return SessionId(self._random.getrandbits(60) << 64 | self._sessions)

    def address(self, chunk: Chunk, index: int, reason: str) -> Addressed:
        """Not always the same queues, as if bindings came and went; in the end, all."""
        data = chunk.data
        assert data is not None
        begin, end = chunk.span(index)
        offsets = bytes(4) + (end - begin).to_bytes(4, "little")
        letter = Chunk(chunk.format_tag, data[begin:end], 0, offsets, chunk.info)
        chosen = [
            each for each in self._targets.values() if each.reliable or self._random.random() < 0.7
        ]
        return Addressed(letter, [self._host(each) for each in chosen], False, False)

    def _host(self, target: Target) -> TargetHost:
        known = self._hosts.get(target.uid)
        if known is None or known.is_gone:
            known = TargetHost(self._node, target)
            self._hosts[target.uid] = known
        return known

    def is_spent(self) -> bool:
        return False

    def queues_now(self, width: int) -> int:
        """As if the targets were very many: some of them in later turns."""
        return self._random.randint(1, width)

    def note_pending_dead_letters(self, reason: str, count: int) -> None:
        self.pending_dead_letters += count

    def note_confirmed(self, count: int) -> None:
        return
