"""The limit of a whole channel (basic.qos global), with the queues' own machines behind it."""

from dataclasses import dataclass, field

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from node.amqp091.deliveries import Consumer091, Deliveries
from node.amqp091.transaction import Transaction
from node.oversized import OversizedHeaders
from queues.machine.commands import (
    Attach,
    Command,
    Credit,
    Detach,
    Enqueue,
    Get,
    Purge,
    SessionId,
    consumer_key,
)
from queues.machine.effects import Delivers, Drained, Got
from queues.machine.fifo import Fifo
from queues.sessions.counts import Counts
from queues.sessions.publishing import Held
from tests.unit.queues.fake_queue import FakeQueue
from tests.unit.queues.fake_sink import FakeSink
from tests.unit.queues.messages import chunk_of
from tests.unit.wire.frames import message, opened
from warren.wire.amqp091 import events
from warren.wire.amqp091.events import Settles

CHANNEL = 3
PUBLISHER = SessionId(9 << 64 | 1)
PLENTY = 1 << 20


@dataclass
class Queue:
    """A queue machine, and what it has been told and not applied."""

    uid: int
    machine: Fifo = field(default_factory=Fifo)
    published: int = 0
    fake: FakeQueue = field(init=False)

    def __post_init__(self) -> None:
        self.fake = FakeQueue(self.uid)
        self.fake.stored = [(1, chunk_of([message(1, b"body")] * 1000))]

    def publish(self, count: int) -> None:
        first = self.published + 1
        self.published += count
        self.fake.commands.append(Enqueue(PUBLISHER, first, count, None))


@dataclass
class Channel:
    """Deliveries of one channel and its queues; deliveries are written as soon as they come."""

    queues: list[Queue]
    deliveries: Deliveries = field(init=False)
    sink: FakeSink = field(default_factory=FakeSink)
    got: list[int] = field(default_factory=list)  # what basic.get has brought
    tags: dict[str, list[int]] = field(default_factory=dict)  # outstanding, by consumer
    taken: dict[str, int] = field(default_factory=dict)  # deliveries so far
    commands: int = 0

    def __post_init__(self) -> None:
        oversized = OversizedHeaders(lambda: 0)
        sink, counts = self.sink, Counts()
        self.deliveries = Deliveries(sink, sink, opened(CHANNEL), CHANNEL, counts, oversized)

    def consume(self, tag: str, queue: Queue, no_ack: bool = False, prefetch: int = 0) -> None:
        self.deliveries.prefetch = prefetch
        self.deliveries.attach(tag, queue.fake, no_ack, False, 0)
        self.taken[tag] = 0
        self.tags[tag] = []

    def settle_down(self) -> None:
        """Apply commands and write deliveries until nothing happens any more."""
        while any(queue.fake.commands for queue in self.queues):
            for queue in self.queues:
                taken: list[Command] = []
                taken, queue.fake.commands = queue.fake.commands, taken
                self.commands += len(taken)
                for effect in queue.machine.apply(taken, 1000):
                    self.on_effect(queue.uid, effect)
            self.write()

    def on_effect(self, uid: int, effect: object) -> None:
        if isinstance(effect, Delivers):
            number, first, count = effect.key & 0xFFFF, effect.first, effect.count
            self.deliveries.on_delivers(uid, number, effect.delivery_seq, first, count, False, 0)
        elif isinstance(effect, Drained):
            self.deliveries.on_drained(effect.key & 0xFFFF, effect.delivery_count)
        elif isinstance(effect, Got):
            self.got.append(effect.message)

    def write(self) -> None:
        waiting = self.deliveries.waiting()
        tag = self.deliveries.next_tag
        for pending in waiting:
            name = pending.consumer.tag
            self.taken[name] += pending.count
            if not pending.consumer.no_ack:
                self.tags[name] += range(tag, tag + pending.count)
            tag += pending.count
        self.deliveries.write(PLENTY)

    def ack(self, tag: int) -> None:
        for each in self.tags.values():
            if tag in each:
                each.remove(tag)
        self.deliveries.settle(Settles(CHANNEL, events.ACK, tag, tag, False, False))

    def outstanding(self) -> list[int]:
        return sorted(tag for tags in self.tags.values() for tag in tags)

    def consumer(self, tag: str) -> Consumer091:
        return self.deliveries.by_tag[tag]


def channel_with(queue_count: int, limit: int) -> Channel:
    channel = Channel([Queue(uid) for uid in range(1, queue_count + 1)])
    channel.deliveries.set_limit(limit)
    return channel


@pytest.mark.parametrize("begins_empty", [False, True])
def test_queues_of_a_channel_share_its_limit_in_turn(begins_empty: bool) -> None:
    channel = channel_with(3, 10)
    for queue in channel.queues:
        if not begins_empty:
            queue.publish(300)
        channel.consume(f"q{queue.uid}", queue)
        channel.settle_down()
    for queue in channel.queues:
        if begins_empty:
            queue.publish(300)
    channel.settle_down()
    for _ in range(300):
        assert len(channel.outstanding()) == 10
        channel.ack(channel.outstanding()[0])
        channel.settle_down()
    assert sum(channel.taken.values()) == 310
    assert max(channel.taken.values()) - min(channel.taken.values()) <= 11


def test_consumers_of_one_queue_share_the_limit_in_turn() -> None:
    channel = channel_with(1, 10)
    channel.queues[0].publish(40)
    for tag in ("one", "other"):
        channel.consume(tag, channel.queues[0])
        channel.settle_down()
    for _ in range(20):
        channel.ack(channel.outstanding()[0])
        channel.settle_down()
    assert channel.taken == {"one": 20, "other": 10}


def test_an_acknowledgement_of_many_is_shared_among_all_that_wait() -> None:
    channel = channel_with(3, 12)
    for queue in channel.queues:
        queue.publish(300)
        channel.consume(f"q{queue.uid}", queue)
    channel.settle_down()
    before = dict(channel.taken)
    channel.deliveries.settle(Settles(CHANNEL, events.ACK, 0, 0, True, False))
    channel.settle_down()
    assert {tag: channel.taken[tag] - before[tag] for tag in before} == dict.fromkeys(before, 4)


def test_a_consumer_whose_queue_ran_empty_keeps_no_room_from_the_others() -> None:
    channel = channel_with(2, 1)
    busy, empty = channel.queues
    for queue in (empty, busy):
        queue.publish(2 if queue is empty else 300)
        channel.consume("empty" if queue is empty else "busy", queue)
        channel.settle_down()
    empty.fake.commands.append(Purge(PUBLISHER))
    channel.settle_down()
    for _ in range(100):
        channel.ack(channel.outstanding()[0])
        channel.settle_down()
        assert len(channel.outstanding()) == 1
    assert channel.taken["busy"] >= 99
    empty.publish(1)
    for _ in range(2):
        channel.settle_down()
        channel.ack(channel.outstanding()[0])
    channel.settle_down()
    assert channel.taken["empty"] == 2


def test_an_acknowledgement_costs_the_same_however_many_consumers_wait() -> None:
    costs = []
    for queue_count in (5, 50):
        channel = channel_with(queue_count, 4)
        for queue in channel.queues:
            queue.publish(300)
            channel.consume(f"q{queue.uid}", queue)
        channel.settle_down()
        channel.commands = 0
        for _ in range(100):
            channel.ack(channel.outstanding()[0])
            channel.settle_down()
        costs.append(channel.commands)
    assert costs == [200, 200]  # A Settle and a Credit for each.


def test_what_basic_get_took_does_not_count_against_the_limit() -> None:
    channel = channel_with(1, 2)
    queue = channel.queues[0]
    queue.publish(10)
    for _ in range(3):
        queue.fake.commands.append(Get(channel.sink.session))
    channel.settle_down()
    assert channel.got == [1, 2, 3]
    for message_seq in channel.got:
        tag = channel.deliveries.next_tag
        channel.deliveries.next_tag = tag + 1
        channel.deliveries.unacked.add(tag, 1, queue.uid, 0, message_seq)
    channel.consume("one", queue)
    channel.settle_down()
    assert channel.taken["one"] == 2
    for tag in (1, 2, 3):
        channel.ack(tag)
        channel.settle_down()
    assert channel.taken["one"] == 2
    channel.ack(4)
    channel.settle_down()
    assert channel.taken["one"] == 3


def test_a_consumer_without_acks_gets_nothing_while_the_limit_is_used_up() -> None:
    channel = channel_with(2, 1)
    one, other = channel.queues
    one.publish(2)
    other.publish(5)
    channel.consume("acks", one)
    channel.settle_down()
    channel.consume("none", other, no_ack=True)
    channel.settle_down()
    assert channel.taken == {"acks": 1, "none": 0}
    channel.ack(1)
    channel.settle_down()
    channel.ack(channel.outstanding()[0])
    channel.settle_down()
    assert channel.taken == {"acks": 2, "none": 5}
    assert other.machine.length() == 0


def test_a_consumer_without_acks_that_had_credit_gets_nothing_while_the_limit_is_used_up() -> None:
    channel = channel_with(2, 1)
    one, other = channel.queues
    channel.consume("none", other, no_ack=True)
    channel.consume("acks", one)
    channel.settle_down()
    one.publish(1)
    channel.settle_down()
    other.publish(5)
    channel.settle_down()
    assert channel.taken == {"acks": 1, "none": 0}
    channel.ack(1)
    channel.settle_down()
    assert channel.taken == {"acks": 1, "none": 5}


def test_a_consumer_without_acks_uses_up_nothing_of_the_limit() -> None:
    channel = channel_with(1, 1)
    channel.consume("none", channel.queues[0], no_ack=True)
    for _ in range(3):
        channel.queues[0].publish(10)
        channel.settle_down()
    assert channel.taken["none"] == 30


@pytest.mark.parametrize("limit", [1, 5, 50])
def test_a_limit_that_begins_or_ends_while_consumers_run_holds_from_then_on(limit: int) -> None:
    channel = channel_with(2, 0)
    for queue in channel.queues:
        channel.consume(f"q{queue.uid}", queue)
        channel.settle_down()
    channel.deliveries.set_limit(limit)
    channel.settle_down()
    for queue in channel.queues:
        queue.publish(100)
    channel.settle_down()
    assert len(channel.outstanding()) == limit
    channel.deliveries.set_limit(0)
    channel.settle_down()
    assert channel.taken == {"q1": 100, "q2": 100}


def test_the_own_prefetch_of_a_consumer_holds_within_the_limit() -> None:
    channel = channel_with(2, 10)
    for queue, prefetch in zip(channel.queues, (2, 0), strict=True):
        queue.publish(100)
        channel.consume(f"q{queue.uid}", queue, prefetch=prefetch)
        channel.settle_down()
    assert channel.taken == {"q1": 2, "q2": 8}
    for _ in range(30):
        channel.ack(channel.outstanding()[0])
        channel.settle_down()
        assert len(channel.tags["q1"]) <= 2
        assert len(channel.outstanding()) == 10


def test_a_consumer_that_is_cancelled_gives_its_room_to_the_others() -> None:
    channel = channel_with(2, 2)
    for queue in channel.queues:
        queue.publish(10)
        channel.consume(f"q{queue.uid}", queue)
        channel.settle_down()
    channel.ack(1)  # Its room is reserved for the second queue,
    channel.deliveries.cancel(channel.consumer("q2"))  # which wants it no more.
    channel.settle_down()
    assert len(channel.tags["q1"]) == 2


def test_room_of_a_transaction_is_free_at_the_commit_and_not_at_a_rollback() -> None:
    channel = channel_with(1, 2)
    transaction = Transaction(Held())
    channel.deliveries.transaction = transaction
    channel.queues[0].publish(10)
    channel.consume("one", channel.queues[0])
    channel.settle_down()
    channel.ack(1)
    channel.ack(2)
    channel.settle_down()
    assert channel.taken["one"] == 2
    restored = [run for _, runs in transaction.take_settled() for run in runs]
    channel.deliveries.unacked.restore(restored)
    channel.deliveries.set_limit(2)
    channel.settle_down()
    assert channel.taken["one"] == 2
    channel.ack(1)
    for outcome, runs in transaction.take_settled():
        channel.deliveries.settle_runs(runs, outcome)
    channel.settle_down()
    assert channel.taken["one"] == 3


def test_a_delivery_that_timed_out_frees_its_room() -> None:
    channel = channel_with(2, 2)
    for queue in channel.queues:
        queue.publish(10)
        channel.consume(f"q{queue.uid}", queue)
        channel.settle_down()
    assert channel.taken == {"q1": 2, "q2": 0}
    channel.deliveries.time_out(1, channel.consumer("q1").number)
    channel.settle_down()
    assert channel.taken["q2"] == 2


def test_commands_of_the_limit_name_the_consumer_and_its_delivery_count() -> None:
    channel = channel_with(2, 4)
    for queue in channel.queues:
        queue.publish(10)
        channel.consume(f"q{queue.uid}", queue)
    attached = channel.queues[0].fake.commands[-1]
    assert isinstance(attached, Attach)
    assert (attached.credit, attached.auto_return) == (4, False)
    channel.settle_down()
    channel.ack(1)
    granted = [each for queue in channel.queues for each in queue.fake.commands]
    credit = [each for each in granted if isinstance(each, Credit)]
    assert [(each.credit, each.drain, each.auto_return) for each in credit] == [(1, True, False)]
    assert not any(isinstance(each, Detach) for each in granted)
    assert credit[0].key == consumer_key(channel.sink.session, 1)


@settings(max_examples=200, deadline=None, database=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                ["publish"] * 2 + ["ack"] * 4 + ["consume", "cancel", "purge", "limit"]
            ),
            st.integers(0, 7),
            st.integers(0, 7),
            st.booleans(),
        ),
        max_size=40,
    )
)
@example(
    [
        ("consume", 5, 3, True),
        ("consume", 0, 1, True),
        ("limit", 5, 4, False),
        ("publish", 2, 1, False),
        ("limit", 3, 7, False),
    ]
)
@example(
    [
        ("consume", 2, 7, False),
        ("consume", 1, 1, True),
        ("limit", 1, 4, False),
        ("limit", 0, 2, True),
    ]
)
def test_no_room_is_left_while_a_consumer_could_be_served(
    steps: list[tuple[str, int, int, bool]],
) -> None:
    channel = channel_with(3, 3)
    for place, (what, one, other, settles) in enumerate(steps):
        queue = channel.queues[one % 3]
        tags = channel.outstanding()
        if what == "publish":
            queue.publish(1 + other)
        elif what == "consume":
            channel.consume(f"c{place}", queue, no_ack=one > 5, prefetch=other % 4)
        elif what == "cancel" and channel.deliveries.by_tag:
            names = sorted(channel.deliveries.by_tag)
            channel.deliveries.cancel(channel.consumer(names[other % len(names)]))
        elif what == "purge":
            queue.fake.commands.append(Purge(PUBLISHER))
        elif what == "limit":
            channel.deliveries.set_limit(other)
        elif tags:
            channel.ack(tags[other % len(tags)])
        if settles:
            channel.settle_down()
    channel.settle_down()
    deliveries = channel.deliveries
    assert deliveries.room() == deliveries.limit - len(channel.outstanding())
    for consumer in deliveries.consumers.values():
        is_full = deliveries.limit > 0 and deliveries.room() <= 0
        own_is_full = not consumer.no_ack and 0 < consumer.prefetch <= consumer.held
        waiting = channel.queues[int(consumer.host.uid) - 1].machine.ready.count
        assert is_full or own_is_full or waiting == 0
