"""A queue in use over a connection that breaks: nothing is lost, doubled or out of order."""

import random

import pytest

from queues.machine.commands import ACCEPT, Attach, Configure, Settle, consumer_key
from queues.machine.options import Options
from queues.queue_host import QueueHost
from queues.remote.items import BadItem
from queues.remote.peer_queues import PeerQueues
from queues.remote.proxy import Proxy
from queues.remote.remote_interfaces import Ending
from queues.sessions.credit import CreditSpec
from tests.unit.queues.fake_node import FakeNode
from tests.unit.queues.fake_sink import FakeSink
from tests.unit.queues.messages import body_of, chunk_of

UID = 5


class Side:
    """One node: what is to end its turn, and its neighbour."""

    def __init__(self, process: int, hosts: dict[int, QueueHost]) -> None:
        self.hosts = hosts
        self.marked: list[Ending] = []
        self.sent: list[bytes] = []
        self.peer_queues = PeerQueues(process, hosts.get, self._send, self)

    def _send(self, frame: list[bytes]) -> None:
        self.sent.append(b"".join(frame))

    def mark_away(self, ending: Ending) -> None:
        self.marked.append(ending)

    def end_turn(self) -> None:
        self.peer_queues.settle()
        while self.marked:
            marked, self.marked = self.marked, []
            for each in marked:
                each.end_turn()
        self.peer_queues.end_turn()


class World:
    """The home of a queue, a node that uses it, and what is under way between them."""

    def __init__(self) -> None:
        self.node = FakeNode()
        self.host = self.node.queue(UID)
        self.home = Side(11, {UID: self.host})
        self.user = Side(22, {})
        proxies = self.user.peer_queues.proxies
        self.proxy = Proxy(UID, "/", "q5", False, False, CreditSpec(400, 200), proxies)
        proxies.add(self.proxy)
        self.sink = FakeSink()

    def connect(self) -> None:
        """What was under way is lost."""
        for side in (self.home, self.user):
            side.sent = []
            side.peer_queues.disconnected()
            side.peer_queues.connected()

    def pass_on(self, count: int = 1_000_000) -> None:
        """Some of what is under way arrives, and both nodes have a turn."""
        for side, other in ((self.user, self.home), (self.home, self.user)):
            some = side.sent[:count]
            del side.sent[:count]
            for frame in some:
                other.peer_queues.received(frame)
        self.node.turn()
        self.home.end_turn()
        self.user.end_turn()

    def settle(self) -> None:
        for _ in range(8):
            self.pass_on()
            self.node.sync()


def test_a_publish_made_while_there_is_no_connection_arrives_when_there_is_one() -> None:
    world = World()
    world.proxy.publish(world.sink, chunk_of([b"early"]), 1)
    world.settle()
    assert world.home.hosts[UID].ready_count == 0
    world.connect()
    world.settle()
    assert world.home.hosts[UID].ready_count == 1
    assert world.sink.confirmed[UID] == 1


def test_a_user_that_began_anew_has_left_its_sessions() -> None:
    world = World()
    world.connect()
    world.proxy.command(world.sink, Attach(consumer_key(world.sink.session, 1), 5, True, False, 0))
    world.settle()
    assert world.home.hosts[UID].consumer_count == 1
    world.user = Side(33, {})
    world.connect()
    world.settle()
    assert world.home.hosts[UID].consumer_count == 0


@pytest.mark.parametrize("is_given_up", [True, False])
def test_a_delivery_has_failed_if_the_user_began_anew_not_if_it_cannot_be_reached(
    is_given_up: bool,
) -> None:
    world = World()
    world.connect()
    world.host.command(world.sink, Configure(Options(delivery_limit=5)))
    world.proxy.publish(world.sink, chunk_of([b"a"]), 1)
    world.proxy.command(world.sink, Attach(consumer_key(world.sink.session, 1), 5, True, False, 0))
    world.settle()
    assert world.host.checked_out_count == 1
    if is_given_up:
        world.home.peer_queues.give_up(44)
    else:
        world.user = Side(33, {})
        world.connect()
    world.settle()
    tries = world.host.core.machine.attempts.get(1)
    assert (tries >> 32, tries & 0xFFFFFFFF) == (1, 0 if is_given_up else 1)


def test_a_home_that_began_anew_has_lost_what_was_under_way() -> None:
    world = World()
    world.connect()
    world.settle()
    world.proxy.publish(world.sink, chunk_of([b"a"]), 1)
    world.home = Side(33, {UID: FakeNode().queue(UID)})
    world.connect()
    world.settle()
    told = [each[0] for each in world.sink.take()]
    assert told == ["refused", "confirms", "gone"]


def test_a_message_for_nobody_is_refused() -> None:
    world = World()
    world.connect()
    world.settle()
    world.home.peer_queues.stream.send([b"\x07what"])
    world.home.end_turn()
    (frame,) = world.home.sent
    with pytest.raises(BadItem):
        world.user.peer_queues.received(frame)


@pytest.mark.parametrize("seed", range(25))
def test_whatever_breaks_every_message_is_confirmed_and_taken_once_in_order(seed: int) -> None:
    draw = random.Random(seed)
    world = World()
    world.connect()
    key = consumer_key(world.sink.session, 1)
    world.proxy.command(world.sink, Attach(key, 7, True, False, 0))
    published = 0
    taken: list[bytes] = []
    waiting: list[int] = []

    def take_news() -> None:
        for told in world.sink.take():
            if told[0] == "delivers":
                first, count = int(str(told[4])), int(str(told[5]))
                waiting.extend(range(first, first + count))
        while waiting:
            view = world.proxy.view(world.sink, waiting[0], 1)
            if view is None:
                break
            seq = waiting.pop(0)
            taken.append(body_of(view.chunk, view.index))
            world.proxy.command(world.sink, Settle(key, ACCEPT, [(seq, 1)]))

    for _ in range(300):
        kind = draw.random()
        if kind < 0.3:
            bodies = [b"%d" % (published + 1 + each) for each in range(draw.randrange(1, 4))]
            world.proxy.publish(world.sink, chunk_of(bodies), published + 1)
            published += len(bodies)
        elif kind < 0.85:
            world.pass_on(draw.randrange(4))
        elif kind < 0.93:
            world.node.sync()
        else:
            world.connect()
        take_news()
    world.connect()
    for _ in range(published + 8):
        world.settle()
        take_news()
    assert taken == [b"%d" % (each + 1) for each in range(published)]
    assert world.sink.confirmed.get(UID, 0) == published
    assert world.home.hosts[UID].checked_out_count == 0
