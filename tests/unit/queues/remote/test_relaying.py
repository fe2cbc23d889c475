"""Sessions of another node use a classic queue that gets mirrors: they stay with its old home."""

from collections.abc import Sequence

from queues.hosts.classic import ClassicHost
from queues.hosts.founding import Founding
from queues.machine.commands import ACCEPT, Settle, consumer_key
from queues.machine.fifo import Fifo
from queues.queue_host import SessionSink
from queues.remote.items import APPLIED, RESUME, put_numbers
from queues.remote.proxy import Roams
from tests.unit.queues.fake_sink import FakeSink
from tests.unit.queues.messages import chunk_of
from tests.unit.queues.remote.test_quorum_proxy import THERE, UID, numbers_of
from tests.unit.queues.remote.test_quorum_proxy import Harness as Proxied
from tests.unit.queues.remote.two_nodes import TwoNodes


class Relayed:
    """`home` and `away`: the proxies by which both nodes reach the mirrored queue."""

    def __init__(self, roams: Roams | None = None) -> None:
        self.nodes = TwoNodes(roams=roams)
        self.sink = self.nodes.sink
        self.home = Proxied()
        self.away = Proxied()
        self.is_founded = False

    @property
    def machine(self) -> Fifo:
        host = self.nodes.hosts[UID]
        assert isinstance(host, ClassicHost)
        return host.core.machine

    def mirror(self) -> None:
        """The queue gets mirrors, and its home leads it."""
        nodes = self.nodes
        host = nodes.hosts[UID]
        assert isinstance(host, ClassicHost)
        host.divert(self.home.proxy)

        def done(sinks: Sequence[SessionSink]) -> None:
            self.is_founded = True
            nodes.stubs.move(UID, self.home.proxy)
            host.core.begin_group()
            for sink in sinks:
                self.home.proxy.adopt(sink, host.core.machine)

        Founding(host, nodes.home, lambda: nodes.home.now_ms, done).begin()
        nodes.proxies.relay(UID, self.away.proxy)
        for _ in range(10):
            nodes.home.turn()
            nodes.home.sync()
        assert self.is_founded
        self.home.end.machine = self.machine
        for first, count in self.machine.queue_within(1, 1000):
            for seq in range(first, first + count):
                self.home.end.bodies[seq] = (chunk_of([b"%d" % seq]), 0)
        self.home.lead_here(1)

    def commit(self) -> None:
        self.nodes.turn()
        self.home.commit()


def in_use(roams: Roams | None = None) -> Relayed:
    """A consumer on the other node holds two of three messages."""
    relayed = Relayed(roams)
    relayed.nodes.publish([b"a", b"b", b"c"])
    relayed.nodes.attach(1, 2)
    assert ("delivers", UID, 1, 1, 1, 2, False) in relayed.nodes.turn()
    relayed.nodes.sync()
    relayed.mirror()
    assert relayed.nodes.turn() == []
    return relayed


def test_a_consumer_of_another_node_keeps_what_it_holds_and_gets_what_comes() -> None:
    relayed = in_use()
    key = consumer_key(relayed.sink.session, 1)
    relayed.away.proxy.command(relayed.sink, Settle(key, ACCEPT, [(1, 2)]))
    relayed.commit()
    assert relayed.nodes.turn() == [("delivers", UID, 1, 3, 3, 1, False)]
    assert relayed.nodes.body(3) == b"3"


def test_its_publishes_go_on_with_their_numbers() -> None:
    relayed = in_use()
    relayed.nodes.publish([b"by its old way"])
    relayed.away.proxy.publish(relayed.sink, chunk_of([b"by its new way"]), 5)
    relayed.commit()
    relayed.nodes.turn()
    assert relayed.sink.confirmed == {UID: 5}
    assert relayed.machine.length() == 5


def test_what_another_session_gets_does_not_go_to_it() -> None:
    taken: list[int] = []

    class Taking:
        def take(self, member: int, item: object) -> None:
            taken.append(member)

        def lost(self, member: int) -> None:
            raise AssertionError("no node is lost")

    relayed = in_use(Taking())
    taken.clear()
    relayed.nodes.proxies.received(put_numbers(APPLIED, UID, FakeSink(2).session, 1))
    assert len(taken) == 1


def test_a_session_that_ends_leaves_the_old_home() -> None:
    relayed = in_use()
    relayed.nodes.proxy.home_lost()
    assert relayed.away.proxy.relayed is None
    assert UID not in relayed.nodes.proxies.hosts


def test_when_the_old_home_is_gone_the_session_is_ended_at_the_leader_and_may_begin_again() -> None:
    relayed = in_use()
    relayed.nodes.publish([b"not confirmed"])
    relayed.nodes.proxies.home_lost()
    told = relayed.sink.take()
    assert ("refused", UID, 4, 1) in told and told[-1] == ("gone", UID)
    away = relayed.away
    away.sink = relayed.sink
    away.publish(b"again")
    away.proxy.leader(THERE, 2)
    away.answer_resume(7)
    assert numbers_of(away.peer_route.take()) == [8]
    away.hear(put_numbers(APPLIED, UID, relayed.sink.session, 8))
    assert numbers_of(away.peer_route.take()) == [1]


def test_a_leader_that_does_not_know_the_session_need_not_end_it() -> None:
    relayed = in_use()
    relayed.nodes.proxies.home_lost()
    away = relayed.away
    away.sink = relayed.sink
    away.publish(b"again")
    away.proxy.leader(THERE, 2)
    assert [item.kind for item in away.peer_route.take()] == [RESUME]
    away.proxy.leader(THERE, 3)
    away.answer_resume(0)
    assert numbers_of(away.peer_route.take()) == [1]
