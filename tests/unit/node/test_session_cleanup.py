"""A session that is gone takes leave of very many queues in slices."""

import pytest

from node.connections.session_cleanup import QUEUES_MAX, SessionCleanup
from queues.machine.commands import Attach, consumer_key
from tests.unit.queues.fake_node import FakeNode
from tests.unit.queues.fake_sink import FakeSink


@pytest.mark.parametrize("count", [1, QUEUES_MAX, QUEUES_MAX + 1, 2 * QUEUES_MAX + 3])
def test_some_queues_are_told_in_each_turn_and_all_in_the_end(count: int) -> None:
    node, sink = FakeNode(), FakeSink()
    hosts = [node.queue(uid) for uid in range(1, count + 1)]
    for host in hosts:
        host.command(sink, Attach(consumer_key(sink.session, 1), 10, True, False, 0))
    node.turn()
    session_cleanup = SessionCleanup(sink, list(hosts), node.mark_host_later)
    session_cleanup.step(0)
    left: list[int] = []
    while not left or left[-1]:
        node.turn()
        left.append(sum(host.consumer_count for host in hosts))
    # The first turn has the first slice, of the turn before, and the second.
    assert left == [max(count - QUEUES_MAX * (turn + 2), 0) for turn in range(len(left))]


def test_a_queue_that_is_gone_by_then_does_not_mind() -> None:
    node, sink = FakeNode(), FakeSink()
    hosts = [node.queue(uid) for uid in range(1, QUEUES_MAX + 3)]
    SessionCleanup(sink, list(hosts), node.mark_host_later).step(0)
    hosts[-1].delete()
    node.turn()
    node.turn()
    assert not node.later


@pytest.mark.parametrize("count", [0, 1, QUEUES_MAX, 2 * QUEUES_MAX + 3])
def test_consumers_are_told_of_in_the_same_slices_though_there_are_more_of_them(count: int) -> None:
    node, sink = FakeNode(), FakeSink()
    told: list[tuple[int, int]] = []

    def tell(begin: int, end: int) -> None:
        told.append((begin, end))

    SessionCleanup(sink, [node.queue(1)], node.mark_host_later, count, tell).step(0)
    while node.later:
        node.turn()
    begins = range(0, count, QUEUES_MAX)
    assert told == [(begin, min(begin + QUEUES_MAX, count)) for begin in begins]
