"""Sessions of another node use a classic queue that gets mirrors: they leave its old home."""

from collections.abc import Sequence

import pytest

from queues.hosts.classic import ClassicHost
from queues.hosts.founding import Founding
from queues.machine.commands import ACCEPT, EndSession, Get, Settle, consumer_key, decode
from queues.machine.fifo import Fifo
from queues.queue_host import SessionSink
from queues.remote.items import (
    APPLIED,
    MOVED,
    PUBLISH,
    RESUME,
    BadItem,
    put_head,
    put_moved,
    put_numbers,
    take_items,
)
from queues.remote.moving import Mirrored, Moved, Taker
from queues.remote.remote_interfaces import HomeEnd
from tests.unit.queues.fake_queue import FakeQueue
from tests.unit.queues.fake_sink import Told
from tests.unit.queues.messages import body_of, chunk_of
from tests.unit.queues.remote.test_quorum_proxy import THERE, UID, FakeRoad, numbers_of
from tests.unit.queues.remote.test_quorum_proxy import Harness as Proxied
from tests.unit.queues.remote.two_nodes import TwoNodes

EPOCH = 3


class Relayed:
    """`home` and `away`: the proxies by which both nodes reach the mirrored queue, which its old
    home leads. `route`: what `away` says to another leader."""

    def __init__(self) -> None:
        self.home = Proxied()
        self.away = Proxied()
        self.nodes = TwoNodes(roams=self.away.quorum_proxies, find_end=self._find_end, movers=self)
        self.sink = self.away.sink = self.nodes.sink
        self.is_founded = False
        self.plain_since = 0  # the epoch in which it became a plain queue again

    def _find_end(self, uid: int) -> HomeEnd:
        return self.home.end

    def mirrored(self, uid: int) -> Mirrored | None:
        return self.home.proxy if self.is_founded and not self.plain_since else None

    def is_plain_again(self, uid: int, epoch: int) -> bool:
        return self.plain_since >= epoch

    @property
    def machine(self) -> Fifo:
        host = self.nodes.hosts[UID]
        assert isinstance(host, ClassicHost)
        return host.core.machine

    def found(self) -> None:
        """The queue gets mirrors, its home leads it, and the other node learns of it."""
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
        nodes.proxies.relay(UID, self.away.proxy, EPOCH)
        for _ in range(10):
            nodes.home.turn()
            nodes.home.sync()
        assert self.is_founded
        self.home.end.machine = self.machine
        for first, count in self.machine.queue_within(1, 1000):
            for seq in range(first, first + count):
                self.home.end.bodies[seq] = (chunk_of([b"%d" % seq]), 0)
        self.home.lead_here(1)
        self.away.peer_route = self.nodes.proxies  # type: ignore[assignment]
        self.away.proxy.leader(THERE, 1)

    def turn(self) -> list[Told]:
        """Let everything pass that is under way, and commit it: what the session received."""
        told: list[Told] = []
        for _ in range(5):
            told += self.nodes.turn()
            self.home.commit()
        return told

    def body(self, seq: int) -> bytes | None:
        view = self.away.proxy.view(self.sink, seq, 1)
        return None if view is None else body_of(view.chunk, view.index)

    @property
    def is_moved(self) -> bool:
        """No session goes by way of the old home."""
        return self.away.proxy.relayed is None and UID not in self.nodes.proxies.hosts

    def go_elsewhere(self) -> FakeRoad:
        """Another node leads; the way there."""
        route = self.away.peer_route = FakeRoad()
        self.away.proxy.leader(THERE, 2)
        return route


def in_use() -> Relayed:
    """A consumer on the other node holds two of three messages when the queue gets mirrors; the
    old home has not heard yet that the session is to move."""
    relayed = Relayed()
    relayed.nodes.publish([b"a", b"b", b"c"])
    relayed.nodes.attach(1, 2)
    assert ("delivers", UID, 1, 1, 1, 2, False) in relayed.nodes.turn()
    relayed.nodes.sync()
    relayed.found()
    return relayed


def test_a_consumer_keeps_what_it_holds_and_gets_what_comes_from_the_leader() -> None:
    relayed = in_use()
    assert relayed.turn() == []
    assert relayed.is_moved
    key = consumer_key(relayed.sink.session, 1)
    relayed.away.proxy.command(relayed.sink, Settle(key, ACCEPT, [(1, 2)]))
    assert relayed.turn() == [("delivers", UID, 1, 3, 3, 1, False)]
    assert relayed.body(3) == b"3"


def test_a_session_stays_with_an_old_home_that_does_not_know_how_to_hand_it_over() -> None:
    relayed = Relayed()
    relayed.nodes.proxies.hands_over = False
    relayed.nodes.publish([b"a", b"b", b"c"])
    relayed.nodes.attach(1, 2)
    relayed.nodes.turn()
    relayed.nodes.sync()
    relayed.found()
    relayed.turn()
    assert not relayed.is_moved
    key = consumer_key(relayed.sink.session, 1)
    relayed.away.proxy.command(relayed.sink, Settle(key, ACCEPT, [(1, 2)]))
    assert relayed.turn() == [("delivers", UID, 1, 3, 3, 1, False)]
    relayed.away.proxy.publish(relayed.sink, chunk_of([b"d"]), 4)
    relayed.turn()
    assert relayed.sink.confirmed == {UID: 4}
    relayed.away.proxy.command(relayed.sink, EndSession(relayed.sink.session))
    relayed.turn()
    assert relayed.is_moved and relayed.machine.length() == 2


def test_a_session_that_keeps_the_way_that_it_knew_reaches_the_leader() -> None:
    relayed = in_use()
    old_way = relayed.nodes.proxy
    key = consumer_key(relayed.sink.session, 1)
    old_way.publish(relayed.sink, chunk_of([b"while it moves"]), 4)
    relayed.turn()
    assert relayed.is_moved
    old_way.command(relayed.sink, Settle(key, ACCEPT, [(1, 2)]))
    old_way.publish(relayed.sink, chunk_of([b"afterwards"]), 5)
    assert ("delivers", UID, 1, 3, 3, 1, False) in relayed.turn()
    view = old_way.view(relayed.sink, 3, 1)
    assert view is not None and body_of(view.chunk, view.index) == b"3"
    assert relayed.sink.confirmed == {UID: 5}
    old_way.command(relayed.sink, EndSession(relayed.sink.session))
    relayed.turn()
    assert relayed.away.proxy.sessions == set() and relayed.machine.length() == 3


def test_publishes_go_on_with_their_numbers_before_and_while_and_after_it_moves() -> None:
    relayed = in_use()
    relayed.away.proxy.publish(relayed.sink, chunk_of([b"while it moves"]), 4)
    relayed.turn()
    assert relayed.is_moved
    relayed.away.proxy.publish(relayed.sink, chunk_of([b"afterwards"]), 5)
    relayed.turn()
    assert relayed.sink.confirmed == {UID: 5}
    assert relayed.machine.length() == 5


def test_what_was_handed_down_by_the_old_way_is_applied_before_the_session_moves() -> None:
    relayed = Relayed()
    relayed.nodes.publish([b"a"])
    relayed.nodes.turn()
    relayed.nodes.sync()
    relayed.nodes.publish([b"b", b"c"])
    relayed.found()
    relayed.away.proxy.publish(relayed.sink, chunk_of([b"d"]), 4)
    relayed.turn()
    assert relayed.is_moved
    assert relayed.sink.confirmed == {UID: 4}
    assert relayed.machine.length() == 4


def test_bodies_that_have_come_are_looked_at_and_others_come_from_the_leader() -> None:
    relayed = Relayed()
    relayed.nodes.publish([b"x" * 900_000, b"y" * 900_000, b"z"])
    relayed.nodes.attach(1, 3)
    relayed.nodes.turn()
    relayed.nodes.sync()
    relayed.found()
    relayed.turn()
    assert relayed.is_moved
    assert relayed.body(1) == b"x" * 900_000
    assert relayed.body(2) == b"y" * 900_000
    relayed.body(3)
    relayed.turn()
    assert relayed.body(3) == b"3"


def test_a_get_that_is_not_answered_holds_up_the_move() -> None:
    relayed = Relayed()
    relayed.nodes.publish([b"a"])
    relayed.nodes.turn()
    relayed.nodes.sync()
    relayed.nodes.command(Get(relayed.sink.session))
    relayed.found()
    relayed.nodes.turn()
    assert not relayed.is_moved
    assert ("got", UID, 1, False, 0) in relayed.turn()
    assert relayed.is_moved
    assert relayed.body(1) == b"1"


def test_a_session_that_ends_while_it_moves_ends_at_the_leader() -> None:
    relayed = in_use()
    relayed.away.proxy.command(relayed.sink, EndSession(relayed.sink.session))
    assert relayed.turn() == []
    assert relayed.is_moved and relayed.away.proxy.sessions == set()
    assert relayed.home.end.ready_count == 3


def test_the_old_home_is_not_missed_when_the_session_has_moved() -> None:
    relayed = in_use()
    relayed.turn()
    relayed.go_elsewhere()
    relayed.nodes.proxies.home_lost()
    relayed.nodes.stubs.peer_lost()
    assert relayed.sink.take() == []


def test_when_the_old_home_is_lost_first_what_waits_for_the_move_is_refused() -> None:
    relayed = in_use()
    relayed.away.proxy.publish(relayed.sink, chunk_of([b"d", b"e"]), 4)
    relayed.nodes.proxies.home_lost()
    told = relayed.sink.take()
    assert [each for each in told if each[0] in ("refused", "gone")] == [
        ("refused", UID, 4, 2),
        ("gone", UID),
    ]
    assert relayed.is_moved and relayed.away.proxy.sessions == set()


def test_when_the_old_home_is_lost_first_the_session_is_ended_at_the_leader() -> None:
    relayed = in_use()
    away = relayed.away
    relayed.nodes.publish([b"not confirmed"])
    relayed.nodes.proxies.home_lost()
    told = relayed.sink.take()
    assert ("refused", UID, 4, 1) in told and told[-1] == ("gone", UID)
    away.publish(b"again")
    route = relayed.go_elsewhere()
    away.answer_resume(7)
    assert numbers_of(route.take()) == [8]
    away.hear(put_numbers(APPLIED, UID, relayed.sink.session, 8))
    assert numbers_of(route.take()) == [1]


def test_a_session_is_ended_that_has_given_no_command_since_its_queue_has_mirrors() -> None:
    """The leader may know what it held before."""
    relayed = in_use()
    away = relayed.away
    relayed.nodes.proxies.home_lost()
    away.publish(b"again")
    route = relayed.go_elsewhere()
    assert [item.kind for item in route.take()] == [RESUME]
    away.proxy.leader(THERE, 3)
    away.answer_resume(0)
    (_, command) = route.take()
    assert isinstance(decode(command.command), EndSession)
    away.hear(put_numbers(APPLIED, UID, relayed.sink.session, 1))
    (address, publish) = route.take()
    assert (address.numbers[1], publish.kind) == (1, PUBLISH)


def test_a_session_restarts_if_its_queue_is_a_plain_one_again() -> None:
    relayed = in_use()
    relayed.plain_since = EPOCH + 1
    assert relayed.turn()[-1] == ("gone", UID)
    assert relayed.is_moved


def test_a_session_that_moves_restarts_if_its_node_knows_first_that_the_queue_is_plain() -> None:
    relayed = in_use()
    relayed.away.proxy.publish(relayed.sink, chunk_of([b"d"]), 4)
    relayed.nodes.proxies.hosts[UID].succeed()
    relayed.plain_since = EPOCH + 1
    told = relayed.turn()
    assert [each for each in told if each[0] in ("refused", "gone")] == [
        ("refused", UID, 4, 1),
        ("gone", UID),
    ]
    assert relayed.away.proxy.sessions == set()


def test_in_a_queue_that_is_plain_again_a_session_begins_behind_its_earlier_end() -> None:
    relayed = in_use()
    away = relayed.away
    relayed.nodes.proxies.home_lost()
    relayed.sink.take()
    route = relayed.go_elsewhere()
    successor = FakeQueue(UID)
    away.proxy.succeed_by(successor)
    away.publish(b"again")
    assert successor.bodies == []
    away.answer_resume(7)
    away.hear(put_numbers(APPLIED, UID, relayed.sink.session, 8))
    assert numbers_of(route.take())[-1] == 1


def test_what_a_session_takes_along_survives_its_bytes() -> None:
    gone, active = Taker(-1), Taker(500)
    gone.gone = gone.attached = True
    gone.next_seq = 7
    active.active = True
    moved = Moved(9, {1: gone, 2: active}, {1: 4})
    moved.term = 6
    (item,) = take_items(put_moved(UID, Relayed().sink.session, moved))
    assert list(item.numbers) == [9, 6, 1, 4, 7, -1, 3, 2, 1, 1, 500, 4]


@pytest.mark.parametrize(
    "numbers", [(), (1,), (-1, 0), (1, 2, 3), (3, 0, 1, 5, 4, 0, 0), (3, 0, 1, 0, 4, 0, 0)]
)
def test_a_session_that_moves_without_sense_is_refused(numbers: tuple[int, ...]) -> None:
    relayed = in_use()
    data = put_head(MOVED, UID, relayed.sink.session) + len(numbers).to_bytes(4, "little")
    data += b"".join(each.to_bytes(8, "little", signed=True) for each in numbers)
    with pytest.raises(BadItem):
        relayed.nodes.proxies.received(data)


def test_a_home_hands_over_no_session_that_did_not_ask() -> None:
    relayed = Relayed()
    relayed.nodes.publish([b"a"])
    moved = put_moved(UID, relayed.sink.session, Moved(0, {}, {}))
    with pytest.raises(BadItem):
        relayed.nodes.proxies.received(moved)
