"""What a consumer of a stream keeps of its deliveries: nothing of what it has settled."""

from typing import Any

import pytest

from queues.machine.commands import Attach, consumer_key
from queues.streams.host import Delivered, StreamConsumer
from queues.streams.offsets import NEXT
from tests.unit.queues.fake_sink import FakeSink
from tests.unit.queues.messages import chunk_of


def consumer_with(*counts: int) -> StreamConsumer:
    """A consumer that received runs of so many messages, the first one with number 1."""
    sink = FakeSink()
    attach = Attach(consumer_key(sink.session, 1), 0, True, False, 0)
    unread: Any = None
    consumer = StreamConsumer(sink, attach, (NEXT, sink), unread)
    first = 1
    for count in counts:
        consumer.delivered.append(Delivered(first, count, chunk_of([b"x"] * count), 0))
        first += count
    return consumer


def kept(consumer: StreamConsumer) -> list[tuple[int, int]]:
    """First number and unsettled messages of each run that is kept."""
    return [(each.first, each.unsettled) for each in consumer.delivered]


@pytest.mark.parametrize("numbers", [range(1, 7), range(6, 0, -1), (2, 6, 4, 1, 3, 5)])
def test_messages_settled_one_by_one_release_their_runs(numbers: list[int]) -> None:
    consumer = consumer_with(3, 1, 2)
    for number in numbers:
        consumer.settle([(number, 1)])
    assert kept(consumer) == []
    assert consumer.credit == 6


def test_settled_runs_behind_an_unsettled_message_are_released() -> None:
    consumer = consumer_with(2, 2, 2)
    consumer.settle([(2, 1), (3, 2), (5, 1)])
    assert kept(consumer) == [(1, 1), (5, 1)]
    assert consumer.find(1, 1) is not None and consumer.find(3, 1) is None
    consumer.settle([(1, 1)])
    assert kept(consumer) == [(5, 1)]


def test_a_settlement_over_several_runs_releases_them() -> None:
    consumer = consumer_with(2, 3, 2)
    consumer.settle([(1, 6)])
    assert kept(consumer) == [(6, 1)]
