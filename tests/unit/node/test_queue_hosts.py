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


class Harness:
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
    harness = Harness()
    harness.hosts.rest({})
    assert UID in harness.hosts and not harness.hosts.awake and harness.made == 0
    host = harness.hosts[UID]
    assert harness.hosts[UID] is host and harness.hosts.awake == {UID: host.core}
    harness.node.turn()
    assert harness.node.log.take() == [("mark", UID, 0)]
    assert 6 not in harness.hosts
    with pytest.raises(KeyError):
        harness.hosts[6]


@pytest.mark.parametrize("mark", [-1, 0, 7, 9])
def test_numbers_go_on_behind_those_that_the_log_knows(mark: int) -> None:
    harness = Harness()
    harness.hosts.rest({UID: (9, mark)})
    assert harness.hosts.mark(UID) == max(mark, 0)
    assert harness.made == 0
    assert harness.publish() == 10
    assert harness.hosts.mark(UID) >= max(mark, 0)
    assert ("mark", UID, 0) not in harness.node.log.take() or mark <= 0


def test_the_log_is_told_how_far_a_queue_has_delivered_before_and_since() -> None:
    """It writes the mark again when the file with the newest one goes."""
    harness = Harness()
    harness.hosts.rest({UID: (9, 7)})
    assert harness.hosts.mark(UID) == 7
    sink = FakeSink()
    harness.hosts[UID].command(sink, Attach(consumer_key(sink.session, 1), 10, True, False, 0))
    assert harness.publish() == 10
    assert harness.hosts.mark(UID) == 10
    assert harness.hosts.mark(6) == 0


def test_the_log_hears_of_the_end_of_a_queue_that_it_knows() -> None:
    harness = Harness()
    harness.hosts.rest({UID: (9, 2)})
    del harness.found[UID]
    assert harness.hosts.remove(harness.queue) == 0
    harness.node.turn()
    assert harness.node.log.take() == [("deleted", UID)]
    assert UID not in harness.hosts and harness.hosts.mark(UID) == 0


def test_the_end_of_a_queue_that_was_never_used_is_nothing_to_the_log() -> None:
    harness = Harness()
    harness.hosts.rest({})
    del harness.found[UID]
    assert harness.hosts.remove(harness.queue) == 0
    harness.node.turn()
    assert harness.node.log.take() == [] and harness.made == 0


def test_the_end_of_a_queue_in_use_tells_how_much_was_ready() -> None:
    harness = Harness()
    harness.hosts.rest({})
    harness.publish()
    del harness.found[UID]
    assert harness.hosts.remove(harness.queue) == 1
    assert harness.hosts.awake == {}


def test_what_a_start_found_of_a_queue_goes_when_a_member_begins() -> None:
    """The log has the messages of a mirror that left, and they count for the files that they are
    in until they are released."""
    harness = Harness()
    harness.hosts.rest({})
    harness.publish()
    log = harness.node.log
    assert sum(log.live.values()) == len(b"body")
    log.take()
    core = harness.hosts.add_core(harness.queue)
    harness.node.turn()
    assert (harness.hosts.awake, harness.hosts.classic) == ({UID: core}, {})
    assert sum(log.live.values()) == 0
    assert log.take() == [], "the same messages may come again"
