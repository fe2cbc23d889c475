"""Alarms of other nodes: who waits for whom, and until when."""

from collections.abc import Callable

import pytest

from node.cluster.cluster_interfaces import ALARMS
from node.cluster.services.alarms_channel import GRACE_S, AlarmsChannel
from node.resources.alarms import LOW_DISK, LOW_MEMORY, Alarms
from node.resources.disk_monitor import DiskReading
from tests.unit.node.fake_timers import FakeHandle, FakeTimers
from tests.unit.node.peer_net import PeerNet
from warren.wire.peer.codes import PeerFault


class World:
    """Three nodes with alarms at 100 bytes of memory and 50 of disk."""

    def __init__(self) -> None:
        self.net = PeerNet()
        self.timers = FakeTimers()
        self.changes = dict.fromkeys((1, 2, 3), 0)
        self.alarms: dict[int, Alarms] = {}
        self.parts: dict[int, AlarmsChannel] = {}
        for member in (1, 2, 3):
            alarms = Alarms(100, 50, self.changed(member))
            alarms.observe_disk(DiskReading(1000))
            peers = self.net.add(member)
            part = AlarmsChannel(peers, alarms, self.call_later)
            peers.attach(ALARMS, part)
            alarms.on_local = part.tell
            self.alarms[member], self.parts[member] = alarms, part
        self.net.join_all()
        self.net.run()

    def changed(self, member: int) -> Callable[[], None]:
        def change() -> None:
            self.changes[member] += 1

        return change

    def call_later(self, seconds: float, call: Callable[[], None]) -> FakeHandle:
        assert seconds == GRACE_S
        return self.timers.call_later(seconds, call)

    def reasons(self) -> list[str]:
        return [alarms.reason() for alarms in self.alarms.values()]


def test_one_node_in_alarm_stops_publishers_on_all() -> None:
    world = World()
    world.alarms[1].observe_memory(100)
    world.net.run()
    assert world.reasons() == [LOW_MEMORY] * 3
    assert [alarms.is_set() for alarms in world.alarms.values()] == [True] * 3
    assert [alarms.memory for alarms in world.alarms.values()] == [True, False, False]
    assert world.parts[2].by_member() == {1: (True, False)}
    world.alarms[1].observe_memory(10)
    world.net.run()
    assert world.reasons() == [""] * 3
    assert world.parts[2].by_member() == {}


def test_it_ends_when_the_last_node_is_out_of_alarm() -> None:
    world = World()
    world.alarms[1].observe_memory(100)
    world.alarms[2].observe_memory(100)
    world.alarms[2].observe_disk(DiskReading(10))
    world.net.run()
    assert world.reasons() == [f"{LOW_MEMORY} & {LOW_DISK}"] * 3
    world.alarms[1].observe_memory(10)
    world.net.run()
    assert world.reasons() == [f"{LOW_MEMORY} & {LOW_DISK}"] * 3
    world.alarms[2].observe_memory(10)
    world.net.run()
    assert world.reasons() == [LOW_DISK] * 3
    world.alarms[2].observe_disk(DiskReading(1000))
    world.net.run()
    assert world.reasons() == [""] * 3


def test_publishers_are_told_only_of_changes() -> None:
    world = World()
    world.alarms[1].observe_memory(100)
    world.net.run()
    assert world.changes == {1: 1, 2: 1, 3: 1}
    world.alarms[2].observe_memory(100)
    world.net.run()
    assert world.changes[3] == 1
    world.alarms[1].observe_memory(10)
    world.net.run()
    assert world.changes[3] == 1


def test_what_changed_while_there_was_no_link_is_said_when_there_is_one() -> None:
    world = World()
    world.net.cut(1, 3)
    world.alarms[1].observe_memory(100)
    world.net.run()
    assert world.reasons() == [LOW_MEMORY, LOW_MEMORY, ""]
    world.net.join(1, 3)
    world.net.run()
    assert world.reasons() == [LOW_MEMORY] * 3


def test_a_link_that_comes_again_at_once_changes_nothing() -> None:
    world = World()
    world.alarms[1].observe_memory(100)
    world.net.run()
    world.net.cut(1, 2)
    assert world.alarms[2].is_set()
    world.net.join(1, 2)
    world.net.run()
    world.timers.pass_time()
    assert world.alarms[2].is_set()
    assert world.changes[2] == 1


def test_a_node_that_stays_away_counts_as_clear() -> None:
    world = World()
    world.alarms[1].observe_memory(100)
    world.net.run()
    world.net.cut(1, 2)
    world.timers.pass_time()
    assert not world.alarms[2].is_set()
    assert world.alarms[3].is_set()
    world.timers.pass_time()
    world.net.join(1, 2)
    world.net.run()
    assert world.alarms[2].is_set()


def test_a_node_that_is_removed_is_clear_at_once() -> None:
    world = World()
    world.alarms[1].observe_memory(100)
    world.net.run()
    world.net.cut(1, 2)
    world.parts[2].peer_removed(1)
    assert not world.alarms[2].is_set()
    world.timers.pass_time()
    assert not world.alarms[2].is_set()


@pytest.mark.parametrize("payload", [b"", b"\x01", b"\x02\x01", b"\x01\x04", b"\x01\x01\x00"])
def test_a_frame_that_is_no_word_about_alarms_ends_the_link(payload: bytes) -> None:
    world = World()
    with pytest.raises(PeerFault):
        world.parts[1].peer_received(2, memoryview(payload))
    assert not world.alarms[1].is_set()
