"""Drain and revive: when they are refused, in which order things are done, who is asked."""

from collections.abc import Callable

import pytest

from node.cluster.membership.member_changes import Refused
from node.cluster.services import maintenance
from node.cluster.services.maintenance import REASON, MaintenanceRequests, Report
from queues.definitions.metadata.commands import PutMember
from tests.unit.node.cluster.operating_world import OperatingWorld


class FakeDoor:
    """Notes what is done with it; `fault` when it cannot be opened."""

    def __init__(self, done: list[str]) -> None:
        self.done = done
        self.fault: OSError | None = None

    def close(self) -> None:
        self.done.append("closed")

    async def open(self) -> None:
        if self.fault is not None:
            raise self.fault
        self.done.append("opened")


class Site:
    """A world in which each node can be drained; `done` is what node 1 did."""

    def __init__(self, world: OperatingWorld) -> None:
        self.world = world
        self.done = world.nodes[1].site.done
        self.doors: dict[int, FakeDoor] = {}
        self.requests: dict[int, MaintenanceRequests] = {}
        for number, node in world.nodes.items():
            self.doors[number] = FakeDoor(node.site.done)
            node.operating.open_to(self.doors[number])
            assert node.operating.maintenance is not None
            self.requests[number] = node.operating.maintenance

    def drain(self, node: str, force: bool = False, by: int = 1) -> Report:
        return self.world.run(self.requests[by].drain(node, force))

    def is_draining(self, number: int) -> bool:
        members = self.world.nodes[1].cluster_snapshot.members()
        return next(each.draining for each in members if each.id == number)


def refused(work: Callable[[], object]) -> str:
    with pytest.raises(Refused) as caught:
        work()
    return str(caught.value)


def test_a_node_that_queues_hang_on_is_not_drained_unless_it_must_be() -> None:
    world = OperatingWorld(5)
    queue = world.queue("q", (1, 2, 3), leader=1)
    site = Site(world)
    world.stop(3)
    assert "1 quorum queues have no majority" in refused(lambda: site.drain("n1"))
    assert site.done == []
    assert not site.is_draining(1)
    assert world.leader_of(queue) == 1
    assert site.drain("n1", force=True) == Report(1, 1, ())
    assert world.leader_of(queue) == 2


def test_a_node_that_the_definitions_hang_on_is_not_drained() -> None:
    world = OperatingWorld()
    site = Site(world)
    world.stop(3)
    assert "the definitions have no majority" in refused(lambda: site.drain("n1"))


def test_a_drain_takes_everything_off_the_node_and_marks_it_first() -> None:
    world = OperatingWorld()
    led = [world.queue(f"q{number}", (1, 2, 3), leader=1) for number in range(4)]
    site = Site(world)
    assert site.drain("n1") == Report(1, 4, ())
    assert site.done == ["in maintenance", "closed", REASON]
    assert isinstance(world.nodes[1].definitions.proposed[0], PutMember)
    assert site.is_draining(1)
    assert sorted(world.leader_of(each) for each in led) == [2, 2, 3, 3]


def test_what_cannot_leave_is_told() -> None:
    world = OperatingWorld()
    world.queue("only here", (1,), leader=1)
    stubborn = world.queue("stubborn", (1, 2, 3), leader=1)
    world.nodes[1].groups.stubborn.add(stubborn.uid)
    site = Site(world)
    report = site.drain("n1", force=True)
    assert report == Report(
        1, 0, ("queue 'only here' in vhost '/'", "queue 'stubborn' in vhost '/'")
    )


def test_clients_that_do_not_go_hold_up_no_drain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "CLOSED_S", 0.02)
    site = Site(OperatingWorld())
    site.world.nodes[1].site.stays = True
    assert site.drain("n1").connections == 1


def test_another_node_drains_itself_when_it_is_asked() -> None:
    world = OperatingWorld()
    queue = world.queue("q", (1, 2, 3), leader=2)
    site = Site(world)
    assert site.drain("n2", by=1) == Report(2, 1, ())
    assert site.done == []
    assert site.is_draining(2)
    assert not site.is_draining(1)
    assert world.leader_of(queue) in (1, 3)


def test_a_refusal_of_another_node_is_told_and_so_is_one_that_is_away_or_unknown() -> None:
    world = OperatingWorld()
    world.queue("q", (2,), leader=2)
    site = Site(world)
    assert "1 quorum queues" in refused(lambda: site.drain("n2"))
    assert "not a member" in refused(lambda: site.drain("n9"))
    world.stop(3)
    assert "not connected" in refused(lambda: site.drain("n3"))


def test_a_node_that_is_revived_takes_clients_again() -> None:
    world = OperatingWorld()
    site = Site(world)
    site.drain("n1")
    site.done.clear()
    world.run(site.requests[2].revive("n1"))
    assert site.done == ["opened", "in service"]
    assert not site.is_draining(1)


def test_a_node_whose_port_is_taken_stays_in_maintenance() -> None:
    world = OperatingWorld()
    site = Site(world)
    site.drain("n1")
    site.doors[1].fault = OSError("Address already in use")
    assert "already in use" in refused(lambda: world.run(site.requests[1].revive("n1")))
    assert site.is_draining(1)


def test_the_only_node_is_drained_with_all_that_it_leads() -> None:
    world = OperatingWorld(1)
    world.queue("q", (1,), leader=1)
    site = Site(world)
    assert site.drain("n1") == Report(1, 0, ("queue 'q' in vhost '/'",))
