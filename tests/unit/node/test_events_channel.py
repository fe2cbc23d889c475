"""Events between nodes: who watches gets each once, over links that break, fill up and restart."""

from functools import partial

import msgspec
import pytest

from node.cluster.cluster_interfaces import EVENTS
from node.cluster.services.events_channel import EventsChannel
from node.events.event_feed import Lost, Watcher
from node.events.events import RING_MAX, Event, Events
from tests.unit.node.fake_timers import FakeTimers
from tests.unit.node.peer_net import PeerNet


class Site:
    """One node."""

    def __init__(self, world: "World", member: int, process: int = 0) -> None:
        peers = world.net.add(member)
        self.events = Events(f"n{member}", lambda: 100 + member)
        process = process or 1000 + member
        self.part = EventsChannel(peers, self.events, process, world.timers.call_later)
        peers.attach(EVENTS, self.part)
        self.heard: list[str | Lost] = []
        self.ready: list[bool] = []

    def watch(self) -> None:
        ready = partial(self.ready.append, True)
        self.part.watch(Watcher(self._on_event, self.heard.append, ready))

    def _on_event(self, event: Event) -> None:
        self.heard.append(f"{event.node} {event.name} {event.properties.get('at', '')}".rstrip())


class World:
    """Three nodes, linked."""

    def __init__(self) -> None:
        self.net = PeerNet()
        self.timers = FakeTimers()
        self.sites = {member: Site(self, member) for member in (1, 2, 3)}
        self.net.join_all()

    def settle(self) -> None:
        """Frames arrive and time passes until nothing happens any more."""
        for _ in range(100):
            was_due = self.timers.pass_time()
            if self.net.pass_all() == 0 and not was_due:
                return

    def restart(self, member: int, process: int) -> Site:
        self.net.kill(member)
        site = self.sites[member] = Site(self, member, process)
        return site


def test_who_watches_hears_of_all_other_nodes_and_each_event_once() -> None:
    world = World()
    one, two, three = world.sites.values()
    two.events.tell("before")
    one.watch()
    world.settle()
    two.events.tell("queue.created", at=1)
    three.events.tell("queue.deleted", at=2)
    one.events.tell("own")
    world.settle()
    assert sorted(map(str, one.heard)) == ["n2 queue.created 1", "n3 queue.deleted 2"]


def test_who_watches_is_ready_once_all_that_can_be_reached_have_answered() -> None:
    world = World()
    one = world.sites[1]
    world.net.cut(1, 3)
    one.watch()
    assert one.ready == []
    world.settle()
    assert one.ready == [True]
    world.net.join(1, 3)
    world.settle()
    assert one.ready == [True]


def test_a_node_that_is_lost_before_it_answers_is_not_waited_for() -> None:
    world = World()
    one = world.sites[1]
    one.watch()
    world.net.cut(1, 2)
    assert one.ready == []
    world.net.cut(1, 3)
    assert one.ready == [True]


def test_a_node_that_nobody_watches_is_subscribed_to_nothing() -> None:
    world = World()
    one, two, _ = world.sites.values()
    assert not two.events.is_watched
    one.watch()
    world.settle()
    assert two.events.is_watched
    one.part.unwatch()
    world.settle()
    assert not two.events.is_watched
    two.events.tell("late")
    world.settle()
    assert one.heard == []


def test_an_event_that_crosses_the_end_of_watching_is_not_heard() -> None:
    world = World()
    one, two, _ = world.sites.values()
    one.watch()
    world.settle()
    two.events.tell("late")
    one.part.unwatch()
    world.settle()
    assert one.heard == []


def test_what_happens_while_a_link_is_broken_comes_with_the_next_one() -> None:
    world = World()
    one, two, _ = world.sites.values()
    one.watch()
    world.settle()
    two.events.tell("a")
    world.settle()
    two.events.tell("b")
    world.net.cut(1, 2)
    two.events.tell("c")
    world.settle()
    world.net.join(1, 2)
    world.settle()
    assert one.heard == ["n2 a", "n2 b", "n2 c"]


def test_what_the_ring_has_let_go_while_a_link_was_broken_is_told_as_lost() -> None:
    world = World()
    one, two, _ = world.sites.values()
    one.watch()
    world.settle()
    world.net.cut(1, 2)
    for number in range(RING_MAX + 3):
        two.events.tell("tick", at=number)
    world.net.join(1, 2)
    world.settle()
    assert one.heard[0] == Lost(3, "n2")
    assert one.heard[1] == "n2 tick 3"
    assert len(one.heard) == 1 + RING_MAX


def test_a_node_that_begins_anew_may_have_taken_events_with_it() -> None:
    world = World()
    one, two, _ = world.sites.values()
    one.watch()
    world.settle()
    two.events.tell("a")
    world.settle()
    two = world.restart(2, 7777)
    two.events.tell("first")
    world.net.join(1, 2)
    world.settle()
    two.events.tell("second")
    world.settle()
    assert one.heard == ["n2 a", Lost(0, "n2"), "n2 second"]


def test_a_full_link_holds_events_up_and_loses_none() -> None:
    world = World()
    one, two, _ = world.sites.values()
    world.net.room = 0
    one.watch()
    for _ in range(3):  # What is sent now is lost.
        world.timers.pass_time()
    world.net.room = 10
    world.settle()
    for number in range(600):
        two.events.tell("tick", at=number)
    world.settle()
    assert one.heard == [f"n2 tick {number}" for number in range(600)]


def test_large_events_go_without_their_properties_and_many_in_several_frames() -> None:
    world = World()
    one, two, _ = world.sites.values()
    one.watch()
    world.settle()
    two.events.tell("large", at="x" * 100_000)
    for _ in range(4):
        two.events.tell("broad", at="y" * 50_000)
    world.settle()
    assert one.heard == ["n2 large", *[f"n2 broad {'y' * 50_000}"] * 4]


def test_a_member_that_is_removed_is_forgotten() -> None:
    world = World()
    one, two, _ = world.sites.values()
    one.watch()
    world.settle()
    two.part.peer_removed(1)
    one.part.peer_removed(2)
    assert not two.events.is_watched


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x02",
        b"\x01",
        b"\x01" + msgspec.msgpack.encode([4]),
        b"\x01" + msgspec.msgpack.encode([1, 5]),
        b"\x01" + msgspec.msgpack.encode([1, 5, -1]),
        b"\x01" + msgspec.msgpack.encode([3, 1, 1, 0, "n2"]),
        b"\x01" + msgspec.msgpack.encode([3, 1, 0, 0, "n2", []]),
        b"\x01" + msgspec.msgpack.encode([3, 1, 1, 0, "n2", ["text"]]),
        b"\x01" + msgspec.msgpack.encode([3, 1, 1, 0, "n2", [b"\x01"]]),
    ],
)
def test_frames_that_make_no_sense_end_the_link(payload: bytes) -> None:
    world = World()
    world.sites[1].watch()
    world.settle()
    world.net.under_way[2, 1].append((EVENTS, payload))
    world.settle()
    assert len(world.net.faults) == 1
