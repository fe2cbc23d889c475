"""Where queues are in a cluster, from the definitions, the table of leaders and the detector."""

import pytest

from node.cluster.coordination.coordination_interface import Load
from node.cluster.queues.places import ClusterPlaces, OnLeader
from node.cluster.services.whereis import Place
from queues.definitions.broker_objects import Queue, Uid
from queues.definitions.members import Member

QUORUM = Queue(Uid(20), "/", "q", True, "", False, b"", "n1", (1, 2, 3))
CLASSIC = Queue(Uid(21), "/", "c", True, "", False, b"", "n2")


class Cluster:
    """What `ClusterPlaces` asks: leaders, members, trust."""

    def __init__(self) -> None:
        self.member = 1
        self.leaders: dict[int, tuple[int, int]] = {20: (2, 7), 21: (2, 3)}
        self.trusted = {1, 2, 3}
        self.queues: dict[int, Queue] = {20: QUORUM, 21: CLASSIC}
        self.watchers: dict[int, list[OnLeader]] = {}
        self.loads: dict[int, Load] = {}
        self.lags: dict[int, int] = {}
        self.members = [
            Member(3, "n3", 33, "h3", 1, zone="east", amqp="h3:5672"),
            Member(1, "n1", 11, "h1", 1),
            Member(2, "n2", 22, "h2", 1, amqp="h2:5672"),
            Member(4, "", 0, "h4", 1),
        ]
        self.places = ClusterPlaces(
            "n1",
            self,
            self,
            lambda: self.members,
            self.queues.get,
            lambda uid: self.lags,
            lambda: self.loads,
        )

    def leader_of(self, uid: int) -> tuple[int, int] | None:
        return self.leaders.get(uid)

    def watch(self, uid: int, told: OnLeader) -> None:
        self.watchers.setdefault(uid, []).append(told)

    def unwatch(self, uid: int, told: OnLeader) -> None:
        self.watchers[uid].remove(told)

    def is_trusted(self, member: int) -> bool:
        return member in self.trusted


def test_a_quorum_queue_is_where_its_leader_is() -> None:
    cluster = Cluster()
    assert cluster.places.place(QUORUM) == Place("n2", 7, ("n1", "n2", "n3"), "running")


@pytest.mark.parametrize(("trusted", "state"), [({1, 2}, "electing"), ({1}, "minority")])
def test_without_a_leader_it_is_electing_or_a_minority(trusted: set[int], state: str) -> None:
    cluster = Cluster()
    cluster.leaders.clear()
    cluster.trusted = trusted
    assert cluster.places.place(QUORUM) == Place(None, 0, ("n1", "n2", "n3"), state)


def test_a_classic_queue_is_led_by_its_home_while_that_is_there() -> None:
    cluster = Cluster()
    assert cluster.places.place(CLASSIC) == Place("n2", 3, ("n2",), "running")
    cluster.leaders.clear()
    assert cluster.places.place(CLASSIC) == Place(None, 0, ("n2",), "minority")


def test_members_that_the_definitions_name_now_count() -> None:
    cluster = Cluster()
    cluster.queues[20] = Queue(Uid(20), "/", "q", True, "", False, b"", "n1", (2, 3, 9))
    cluster.lags = {2: 0, 3: 5, 9: 1, 1: 8}
    place = cluster.places.place(QUORUM)
    assert (place.replicas, place.lags) == (("n2", "n3"), {"n2": 0, "n3": 5})


def test_nodes_are_told_by_name_with_address_zone_and_load() -> None:
    cluster = Cluster()
    cluster.trusted = {1, 3}
    cluster.loads = {3: Load(connections=4)}
    assert [each.name for each in cluster.places.nodes()] == ["n1", "n2", "n3"]
    node = cluster.places.node("n3")
    assert node is not None
    assert (node.amqp, node.zone, node.is_running) == ("h3:5672", "east", True)
    assert node.load == Load(connections=4)
    lost = cluster.places.node("n2")
    assert lost is not None and not lost.is_running
    assert cluster.places.node("n9") is None


def test_who_watches_hears_of_leaders_members_and_nodes_until_the_end() -> None:
    cluster = Cluster()
    told: list[int] = []

    def changed() -> None:
        told.append(len(told))

    cluster.places.watch(20, changed)
    cluster.watchers[20][0]((2, 8))
    cluster.places.queue_changed(20)
    cluster.places.queue_changed(21)
    cluster.places.nodes_changed()
    assert told == [0, 1, 2]
    cluster.places.unwatch(20, changed)
    cluster.places.unwatch(20, changed)
    cluster.places.nodes_changed()
    assert len(told) == 3 and cluster.watchers[20] == []
