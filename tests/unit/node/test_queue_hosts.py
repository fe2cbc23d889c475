"""Hosts of queues are made when they are needed, with the numbers that the log knew."""

import pytest

from node.definitions.queue_hosts import QueueHosts
from queues.definitions.broker_objects import Queue, Uid
from queues.hosts.queue_core import QueueCore
from queues.machine.commands import Attach, consumer_key
from tests.unit.queues.fake_node import FakeNode
from tests.unit.queues.fake_sink import FakeSink
from tests.unit.queues.messages import chunk_of

UID = 5


class Desk:
    """A node with the one queue that it has a definition of."""

    def __init__(self) -> None:
        self.node = FakeNode(1 << 30)
        self.queue = Queue(Uid(UID), "/", "q", True, "", False, b"", "n")
        self.found: dict[int, Queue] = {UID: self.queue}
        self.made = 0
        self.hosts = QueueHosts(self.found.get, self.make)

    def make(self, queue: Queue) -> QueueCore:
        self.made += 1
        return self.node.core(queue.uid, queue.durable)

    def publish(self) -> int:
        """One message; its number."""
        host = self.hosts[UID]
        host.publish(FakeSink(), chunk_of([b"body"], True), 1)
        self.node.turn()
        return host.core.machine.next_seq - 1


def test_a_queue_has_no_host_until_it_is_used() -> None:
    desk = Desk()
    desk.hosts.rest({})
    assert UID in desk.hosts and not desk.hosts.awake and desk.made == 0
    host = desk.hosts[UID]
    assert desk.hosts[UID] is host and desk.hosts.awake == {UID: host.core}
    desk.node.turn()
    assert desk.node.log.take() == [("mark", UID, 0)]
    assert 6 not in desk.hosts
    with pytest.raises(KeyError):
        desk.hosts[6]


@pytest.mark.parametrize("mark", [-1, 0, 7, 9])
def test_numbers_go_on_behind_those_that_the_log_knows(mark: int) -> None:
    desk = Desk()
    desk.hosts.rest({UID: (9, mark)})
    assert desk.hosts.mark(UID) == max(mark, 0)
    assert desk.made == 0
    assert desk.publish() == 10
    assert desk.hosts.mark(UID) >= max(mark, 0)
    assert ("mark", UID, 0) not in desk.node.log.take() or mark <= 0


def test_the_log_is_told_how_far_a_queue_has_delivered_before_and_since() -> None:
    """It writes the mark again when the file with the newest one goes."""
    desk = Desk()
    desk.hosts.rest({UID: (9, 7)})
    assert desk.hosts.mark(UID) == 7
    sink = FakeSink()
    desk.hosts[UID].command(sink, Attach(consumer_key(sink.session, 1), 10, True, False, 0))
    assert desk.publish() == 10
    assert desk.hosts.mark(UID) == 10
    assert desk.hosts.mark(6) == 0


def test_the_log_hears_of_the_end_of_a_queue_that_it_knows() -> None:
    desk = Desk()
    desk.hosts.rest({UID: (9, 2)})
    del desk.found[UID]
    assert desk.hosts.remove(desk.queue) == 0
    desk.node.turn()
    assert desk.node.log.take() == [("deleted", UID)]
    assert UID not in desk.hosts and desk.hosts.mark(UID) == 0


def test_the_end_of_a_queue_that_was_never_used_is_nothing_to_the_log() -> None:
    desk = Desk()
    desk.hosts.rest({})
    del desk.found[UID]
    assert desk.hosts.remove(desk.queue) == 0
    desk.node.turn()
    assert desk.node.log.take() == [] and desk.made == 0


def test_the_end_of_a_queue_in_use_tells_how_much_was_ready() -> None:
    desk = Desk()
    desk.hosts.rest({})
    desk.publish()
    del desk.found[UID]
    assert desk.hosts.remove(desk.queue) == 1
    assert desk.hosts.awake == {}
