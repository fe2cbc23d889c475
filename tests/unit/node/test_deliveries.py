"""The consuming side of a channel: what is written, what goes back, credit, and the tags' fate."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.amqp091.deliveries import (
    QUORUM_PREFETCH,
    WINDOW,
    Consumer091,
    Deliveries,
    messages_within,
    outcome_of,
)
from node.amqp091.transaction import Transaction
from node.oversized import OversizedHeaders
from queues.conversion.chunks import names_for
from queues.conversion.costs import CONVERTED, REPEATED, REWRITTEN
from queues.machine.commands import (
    ACCEPT,
    FAIL,
    REJECT,
    REJECT_TOO_LARGE,
    RELEASE,
    RETURN_UNSEEN,
    Attach,
    Credit,
    Detach,
    Settle,
)
from queues.message import FORMAT_091, FORMAT_10, Chunk
from queues.sessions.counts import Counts
from queues.sessions.publishing import Held
from tests.unit.queues.fake_queue import FakeQueue
from tests.unit.queues.fake_sink import FakeSink
from tests.unit.queues.messages import chunk_of, table
from tests.unit.wire.frames import message, opened, split_frames
from warren.wire.amqp091 import events
from warren.wire.amqp091.connection import Connection
from warren.wire.amqp091.deliver import fitting_headers, header_frame_bytes
from warren.wire.amqp091.events import Settles
from warren.wire.amqp091.methods import BasicDeliver, decode_method
from warren.wire.amqp091.properties import BasicProperties, decode_properties
from warren.wire.amqp10.transfers import store
from warren.wire.errors import ProtocolError

BOUNDED = settings(max_examples=200, deadline=None, database=None)
CHANNEL = 3
PLENTY = 1 << 20

Written = tuple[str, int, bool, bytes]  # consumer tag, delivery tag, redelivered, body


def stored(bodies: list[bytes], properties: BasicProperties | None = None) -> Chunk:
    """A chunk as a channel publishes it, of messages in stored form 1."""
    whole = [message(1, body, properties=properties) for body in bodies]
    return Chunk(FORMAT_091, b"".join(whole), 0, table(whole, 0), 0)


@dataclass
class Channel:
    """Deliveries of a channel, and queues that hold 64 messages each: `uid`-1, `uid`-2, ..."""

    deliveries: Deliveries
    counts: Counts
    connection: Connection
    sink: FakeSink
    queues: dict[int, FakeQueue]
    delivery_seqs: dict[int, int] = field(default_factory=dict)

    def consume(
        self, uid: int = 1, no_ack: bool = False, prefetch: int = 0, tag: str = ""
    ) -> Consumer091:
        self.deliveries.prefetch = prefetch
        name = tag or f"c{len(self.delivery_seqs) + 1}"
        consumer = self.deliveries.attach(name, self.queues[uid], no_ack, False, 0)
        self.delivery_seqs[consumer.number] = 1
        return consumer

    def deliver(
        self,
        number: int,
        first: int,
        count: int,
        redelivered: bool = False,
        attempts: int = 0,
        uid: int = 1,
    ) -> bool:
        seq = self.delivery_seqs[number]
        self.delivery_seqs[number] = seq + count
        return self.deliveries.on_delivers(uid, number, seq, first, count, redelivered, attempts)

    def write(self, budget: int = PLENTY) -> list[Written]:
        """What goes to the client now."""
        self.deliveries.write(budget)
        return written(self.connection.data_to_send())

    def settle(
        self, first: int, last: int, kind: int = events.ACK, multiple: bool = False,
        requeue: bool = False,
    ) -> None:  # fmt: skip
        self.deliveries.settle(Settles(CHANNEL, kind, first, last, multiple, requeue))

    def commands(self, uid: int = 1) -> list[object]:
        """The commands that queue `uid` got since the last time, as tuples."""
        taken, self.queues[uid].commands = self.queues[uid].commands, []
        told: list[object] = []
        for command in taken:
            if isinstance(command, Settle):
                told.append(("settle", command.key & 0xFFFF, command.outcome, command.runs))
            elif isinstance(command, Credit):
                count = (command.delivery_count, command.credit, command.auto_return)
                kind = "drain" if command.drain else "credit"
                told.append((kind, command.key & 0xFFFF, *count))
            elif isinstance(command, Attach):
                told.append(("attach", command.credit, command.auto_return, command.timeout_ms))
            elif isinstance(command, Detach):
                told.append(("detach", command.key & 0xFFFF))
        return told


def new_channel(quorum: bool = False) -> Channel:
    connection = opened(CHANNEL)
    sink = FakeSink()
    counts = Counts()
    deliveries = Deliveries(sink, sink, connection, CHANNEL, counts, OversizedHeaders(lambda: 0))
    queues = {uid: FakeQueue(uid, quorum=quorum) for uid in (1, 2)}
    for uid, queue in queues.items():
        for first in range(1, 65, 8):
            bodies = [b"%d-%d" % (uid, seq) for seq in range(first, first + 8)]
            queue.stored.append((first, stored(bodies)))
    return Channel(deliveries, counts, connection, sink, queues)


def written(data: bytes) -> list[Written]:
    """The deliveries in the bytes for the client."""
    found: list[Written] = []
    for kind, channel, payload in split_frames(data):
        assert channel == CHANNEL
        if kind == 1:
            method = decode_method(payload)
            assert isinstance(method, BasicDeliver)
            found.append((method.consumer_tag, method.delivery_tag, method.redelivered, b""))
        elif kind == 3:
            found[-1] = (*found[-1][:3], found[-1][3] + payload)
    return found


def headers_in(data: bytes) -> list[dict[str, object] | None]:
    """The headers of each delivery."""
    frames = split_frames(data)
    return [decode_properties(payload[12:]).headers for kind, _, payload in frames if kind == 2]


@dataclass
class Story:
    """Random steps of one channel, and the naive account of every message."""

    channel: Channel = field(default_factory=new_channel)
    fresh: dict[int, int] = field(default_factory=dict)  # queue -> next message to deliver
    waiting: list[tuple[int, int, int]] = field(default_factory=list)  # consumer, uid, message
    held: dict[int, tuple[int, int, int]] = field(default_factory=dict)  # tag -> the same
    done: list[tuple[int, int, int, int]] = field(default_factory=list)  # and the outcome
    seen: list[tuple[int, int, int, int]] = field(default_factory=list)  # as the queues heard it
    parted: list[tuple[int, int]] = field(default_factory=list)  # cancelled consumer, uid
    next_tag: int = 1

    def step(self, what: str, choice: int, count: int) -> None:
        if what == "deliver":
            self.deliver(choice, count)
        elif what == "write":
            self.write(choice)
        elif what == "consume":
            self.channel.consume(1 + choice % 2, no_ack=choice == 5)
        elif what == "cancel":
            self.cancel(choice)
        elif self.held:
            self.settle(what, choice, count)
        self.listen()

    def deliver(self, choice: int, count: int) -> None:
        consumers = self.channel.deliveries.consumers.values()
        takers = [(each.number, each.host.uid) for each in consumers] + self.parted
        if not takers:
            return
        number, uid = takers[choice % len(takers)]
        first = self.fresh.get(uid, 1)
        if first + count > 64:
            return
        self.fresh[uid] = first + count
        self.channel.deliver(number, first, count, uid=uid)
        came = [(number, uid, seq) for seq in range(first, first + count)]
        if (number, uid) in self.parted:
            self.done += [(*each, RETURN_UNSEEN) for each in came]
        else:
            self.waiting += came

    def write(self, choice: int) -> None:
        got = self.channel.write(1 + 120 * choice)
        assert got or not self.waiting
        for _, tag, _, body in got:
            number, uid, seq = self.waiting.pop(0)
            assert body == b"%d-%d" % (uid, seq)
            assert tag == self.next_tag
            self.next_tag += 1
            if self.is_automatic(number):
                self.done.append((number, uid, seq, ACCEPT))
            else:
                self.held[tag] = (number, uid, seq)

    def is_automatic(self, number: int) -> bool:
        return self.channel.deliveries.consumers[number].no_ack

    def cancel(self, choice: int) -> None:
        consumers = list(self.channel.deliveries.consumers.values())
        if not consumers:
            return
        consumer = consumers[choice % len(consumers)]
        self.channel.deliveries.cancel(consumer)
        self.parted.append((consumer.number, consumer.host.uid))
        back = [each for each in self.waiting if each[0] == consumer.number]
        self.done += [(*each, RETURN_UNSEEN) for each in back]
        self.waiting = [each for each in self.waiting if each[0] != consumer.number]

    def settle(self, what: str, choice: int, count: int) -> None:
        tags = sorted(self.held)
        tag = tags[choice % len(tags)]
        if what == "ack":
            self.finish([tag], ACCEPT)
            self.channel.settle(tag, tag)
        elif what == "multiple":
            self.finish([each for each in tags if each <= tag], RELEASE)
            self.channel.settle(tag, tag, events.NACK, multiple=True, requeue=True)
        elif what == "reject":
            requeue = count % 2 == 0
            self.finish([tag], FAIL if requeue else REJECT)
            self.channel.settle(tag, tag, events.REJECT, requeue=requeue)
        else:
            self.finish(tags, RELEASE)
            self.channel.deliveries.recover()

    def finish(self, tags: list[int], outcome: int) -> None:
        self.done += [(*self.held.pop(tag), outcome) for tag in tags]

    def listen(self) -> None:
        """The commands to the queues are what the account says, message by message."""
        for uid in self.channel.queues:
            for told in self.channel.commands(uid):
                match told:
                    case ("settle", int(number), int(outcome), list(runs)):
                        for first, count in runs:
                            seqs = range(first, first + count)
                            self.seen += [(number, uid, seq, outcome) for seq in seqs]
        assert sorted(self.seen) == sorted(self.done)
        assert self.channel.deliveries.unacked.count == len(self.held)


@BOUNDED
@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                ["deliver"] * 3
                + ["write"] * 2
                + ["consume", "cancel", "ack", "ack", "multiple", "reject", "recover"]
            ),
            st.integers(0, 5),
            st.integers(1, 6),
        ),
        max_size=40,
    )
)
def test_every_message_is_settled_once_with_the_outcome_that_was_asked_for(
    steps: list[tuple[str, int, int]],
) -> None:
    story = Story()
    story.channel.consume(1)
    for step in steps:
        story.step(*step)
    while story.waiting:
        story.write(1)
        story.listen()
    assert len(story.held) + len(story.done) == sum(story.fresh.values()) - len(story.fresh)


def test_an_unknown_tag_is_refused_and_the_known_ones_before_it_are_settled() -> None:
    channel = new_channel()
    consumer = channel.consume()
    channel.deliver(consumer.number, 1, 3)
    channel.write()
    channel.commands()
    with pytest.raises(ProtocolError, match="PRECONDITION_FAILED - unknown delivery tag 4"):
        channel.settle(2, 5)
    assert channel.commands() == [("settle", 1, ACCEPT, [(2, 2)])]
    with pytest.raises(ProtocolError, match="unknown delivery tag 2"):
        channel.settle(2, 2, multiple=True)
    assert channel.commands() == []


def test_only_basic_reject_counts_as_a_failed_delivery() -> None:
    kinds = [(events.ACK, False), (events.REJECT, True), (events.REJECT, False)]
    kinds += [(events.NACK, True), (events.NACK, False)]
    outcomes = [outcome_of(Settles(1, kind, 1, 1, False, requeue)) for kind, requeue in kinds]
    assert outcomes == [ACCEPT, FAIL, REJECT, RELEASE, REJECT]


def test_the_limit_of_the_channel_gives_back_what_is_over_it_and_regrants_what_was_acked() -> None:
    channel = new_channel()
    channel.deliveries.limit = 3
    consumer = channel.consume()
    assert channel.commands() == [("attach", 3, False, -1)]
    channel.deliver(consumer.number, 1, 5)
    assert [tag for _, tag, _, _ in channel.write()] == [1, 2, 3]
    unseen = ("settle", 1, RETURN_UNSEEN, [(4, 2)])
    assert channel.commands() == [unseen, ("credit", 1, 0, 0, False)]
    channel.settle(1, 1)
    granted = [("settle", 1, ACCEPT, [(1, 1)]), ("credit", 1, 5, 1, False)]
    assert channel.commands() == granted


def test_a_limit_of_the_channel_above_the_window_is_used_whole_before_anything_is_acked() -> None:
    channel = new_channel()
    channel.deliveries.limit = 2 * WINDOW
    channel.consume()
    assert channel.commands() == [("attach", 2 * WINDOW, False, -1)]


def test_a_consumer_without_limit_is_granted_a_window_as_it_is_written() -> None:
    channel = new_channel()
    consumer = channel.consume()
    assert channel.commands() == [("attach", WINDOW, False, -1)]
    half = WINDOW // 2
    channel.queues[1].stored = [(1, stored([b"body"] * WINDOW))]
    channel.deliver(consumer.number, 1, half - 1)
    assert len(channel.write()) == half - 1
    assert channel.commands() == []
    channel.deliver(consumer.number, half, 1)
    channel.write()
    assert channel.commands() == [("credit", 1, half, WINDOW, False)]


def test_no_limit_means_two_thousand_for_a_quorum_queue_unless_nothing_is_acked() -> None:
    channel = new_channel(quorum=True)
    channel.consume()
    channel.consume(no_ack=True)
    channel.consume(prefetch=7)
    credits = [told[1:3] for told in channel.commands() if isinstance(told, tuple)]
    assert credits == [(QUORUM_PREFETCH, True), (WINDOW, False), (7, True)]


def test_the_limit_of_the_channel_does_not_touch_consumers_of_quorum_queues() -> None:
    channel = new_channel(quorum=True)
    consumer = channel.consume(prefetch=10)
    channel.commands()
    channel.deliveries.set_limit(1)
    assert channel.commands() == []
    channel.deliver(consumer.number, 1, 5)
    assert len(channel.write()) == 5
    channel.settle(5, 5, multiple=True)
    assert channel.commands() == [("settle", 1, ACCEPT, [(1, 5)])]
    channel.consume(prefetch=10)
    assert channel.commands() == [("attach", 10, True, -1)]


def test_the_limit_of_the_channel_spans_quorum_queues_where_it_is_told_to() -> None:
    channel = new_channel(quorum=True)
    channel.deliveries.spans_quorum = True
    channel.deliveries.limit = 2
    consumer = channel.consume()
    assert channel.commands() == [("attach", 2, False, -1)]
    channel.deliver(consumer.number, 1, 3)
    assert len(channel.write()) == 2
    channel.commands()
    channel.settle(1, 1)
    granted = [("settle", 1, ACCEPT, [(1, 1)]), ("credit", 1, 3, 1, False)]
    assert channel.commands() == granted


def test_both_limits_hold_together_and_what_is_unacked_counts_against_them() -> None:
    channel = new_channel()
    consumer = channel.consume(prefetch=4)
    channel.deliver(consumer.number, 1, 4)
    channel.write()
    channel.settle(1, 2, multiple=False)
    channel.commands()
    channel.deliveries.set_limit(9)
    assert channel.commands() == [("credit", 1, 4, 2, False)]
    channel.deliveries.set_limit(3)
    assert channel.commands() == [("credit", 1, 4, 1, False)]


def test_redelivered_messages_of_a_quorum_queue_tell_how_often_they_were_tried() -> None:
    channel = new_channel()
    properties = BasicProperties(
        headers={"x-delivery-count": 99, "keep": "me"}, delivery_mode=2, message_id="m"
    )
    channel.queues[1].stored = [(1, stored([b"a", b"b"], properties))]
    consumer = channel.consume()
    channel.deliver(consumer.number, 1, 2, True, 5 << 32 | 3)
    channel.deliver(consumer.number, 1, 1, True, 1 << 32)
    channel.deliver(consumer.number, 2, 1, False)
    channel.deliveries.write(PLENTY)
    data = channel.connection.data_to_send()
    assert [body for _, _, _, body in written(data)] == [b"a", b"b", b"a", b"b"]
    tried = {"keep": "me", "x-acquired-count": 5, "x-delivery-count": 3}
    once = {"keep": "me", "x-acquired-count": 1}
    assert headers_in(data) == [tried, tried, once, {"x-delivery-count": 99, "keep": "me"}]
    assert b"\x10x-acquired-countl" + (5).to_bytes(8, "big") in data
    assert data.count(b"\x01m") == 4


def test_a_message_without_headers_gets_some_and_broken_ones_stay_as_they_are() -> None:
    channel = new_channel()
    broken = message(1, b"body", properties=BasicProperties(headers={"key": "value"}))
    broken = broken.replace(b"keyS", b"key?")
    channel.queues[1].stored = [(1, stored([b"bare"])), (2, chunk_of([broken]))]
    consumer = channel.consume()
    channel.deliver(consumer.number, 1, 1, True, 2 << 32 | 1)
    channel.deliveries.write(PLENTY)
    data = channel.connection.data_to_send()
    assert headers_in(data) == [{"x-acquired-count": 2, "x-delivery-count": 1}]
    channel.deliver(consumer.number, 2, 1, True, 2 << 32 | 1)
    channel.deliveries.write(PLENTY)
    data = channel.connection.data_to_send()
    assert b"key?" in data
    assert b"x-acquired-count" not in data


def test_tags_of_a_consumer_that_timed_out_are_ignored_once_and_then_unknown() -> None:
    channel = new_channel()
    late = channel.consume(1)
    other = channel.consume(2)
    channel.deliver(late.number, 1, 2)
    channel.deliver(other.number, 1, 1)
    channel.write()
    channel.deliver(late.number, 3, 2)
    channel.commands(1)
    assert channel.deliveries.time_out(1, late.number) is late
    assert channel.deliveries.unacked.count == 1
    assert not channel.deliveries.has_work()
    channel.settle(1, 1)
    channel.settle(3, 3, multiple=True)
    assert channel.commands(1) == []
    assert channel.commands(2)[1:] == [("settle", 2, ACCEPT, [(1, 1)])]
    with pytest.raises(ProtocolError, match="unknown delivery tag 1"):
        channel.settle(1, 1)
    assert channel.counts.acknowledged == 1
    assert channel.deliveries.time_out(1, late.number) is None


def test_a_consumer_that_ends_at_a_failover_gives_all_back_and_its_tags_stay_known() -> None:
    channel = new_channel()
    failing, staying = channel.consume(prefetch=10), channel.consume(uid=2, prefetch=10)
    channel.deliver(failing.number, 1, 2)
    channel.deliver(staying.number, 1, 1)
    channel.write()
    channel.deliver(failing.number, 3, 1)
    channel.commands()
    assert channel.deliveries.take_cancelled(failing.number) is failing
    assert channel.commands(1) == [
        ("settle", 1, RETURN_UNSEEN, [(3, 1)]),
        ("settle", 1, RELEASE, [(1, 2)]),
        ("detach", 1),
    ]
    channel.settle(1, 2)
    channel.settle(3, 3)
    assert channel.commands(1) == []
    assert channel.commands(2)[1:] == [("settle", 2, ACCEPT, [(1, 1)])]
    assert channel.deliveries.take_cancelled(failing.number) is None


def test_a_transaction_keeps_what_is_settled_and_the_queues_hear_nothing() -> None:
    channel = new_channel()
    consumer = channel.consume(prefetch=10)
    channel.deliver(consumer.number, 1, 4)
    channel.write()
    channel.commands()
    transaction = Transaction(Held())
    channel.deliveries.transaction = transaction
    channel.settle(1, 2)
    channel.settle(3, 3, events.REJECT, requeue=True)
    assert channel.commands() == []
    with pytest.raises(ProtocolError, match="unknown delivery tag 1"):
        channel.settle(1, 1)
    outcomes = [(outcome, len(runs)) for outcome, runs in transaction.take_settled()]
    assert outcomes == [(ACCEPT, 1), (FAIL, 1), (ACCEPT, 0)]


def test_what_a_transaction_keeps_counts_against_the_limit_until_it_is_committed() -> None:
    channel = new_channel()
    channel.deliveries.limit = 2
    transaction = Transaction(Held())
    channel.deliveries.transaction = transaction
    consumer = channel.consume()
    channel.deliver(consumer.number, 1, 2)
    channel.write()
    channel.commands()
    channel.settle(1, 2)
    channel.deliver(consumer.number, 3, 1)
    withdrawn = ("credit", 1, 0, 0, False)
    assert channel.commands() == [("settle", 1, RETURN_UNSEEN, [(3, 1)]), withdrawn]
    for outcome, runs in transaction.take_settled():
        channel.deliveries.settle_runs(runs, outcome)
    assert channel.commands() == [("settle", 1, ACCEPT, [(1, 2)]), ("credit", 1, 3, 2, False)]


def test_a_deleted_queue_hears_of_no_settlement_and_its_consumers_are_named() -> None:
    channel = new_channel()
    gone, stays = channel.consume(1), channel.consume(2)
    for consumer in (gone, stays):
        channel.deliver(consumer.number, 1, 1)
    channel.write()
    channel.commands(1)
    channel.commands(2)
    assert channel.deliveries.queue_gone(1) == [gone]
    channel.settle(0, 0, multiple=True)
    assert channel.commands(1) == []
    assert channel.commands(2) == [("settle", 2, ACCEPT, [(1, 1)])]


def test_at_the_end_what_waits_goes_back_to_the_consumers_it_came_for() -> None:
    channel = new_channel()
    first, second, third = channel.consume(1), channel.consume(2), channel.consume(1)
    channel.deliver(first.number, 1, 2)
    channel.write()
    channel.deliver(first.number, 3, 1)
    channel.deliver(second.number, 1, 1)
    channel.deliver(first.number, 7, 2)
    channel.commands(1)
    channel.commands(2)
    channel.deliveries.end()
    assert channel.commands(1) == [("settle", first.number, RETURN_UNSEEN, [(3, 1), (7, 2)])]
    assert channel.commands(2) == [("settle", second.number, RETURN_UNSEEN, [(1, 1)])]
    assert not channel.deliveries.has_work()
    assert (first.cancelled, second.cancelled, third.cancelled) == (True, True, True)


def test_bodies_that_are_on_disk_hold_up_the_rest_until_they_are_loaded() -> None:
    channel = new_channel()
    chunks = channel.queues[1].stored
    channel.queues[1].stored = []
    consumer = channel.consume(1)
    assert channel.deliver(consumer.number, 1, 2)
    assert channel.write() == []
    assert not channel.deliveries.has_work()
    assert not channel.deliver(consumer.number, 3, 1)
    channel.queues[1].stored = chunks
    assert channel.deliveries.on_loaded()
    assert [body for _, _, _, body in channel.write()] == [b"1-1", b"1-2", b"1-3"]


@BOUNDED
@given(st.lists(st.integers(1, 50), min_size=1, max_size=20), st.integers(0, 600))
def test_a_run_is_cut_where_the_budget_ends_but_never_to_nothing(
    sizes: list[int], budget: int
) -> None:
    chunk = chunk_of([b"x" * size for size in sizes])
    fits = [n for n in range(1, len(sizes) + 1) if sum(sizes[:n]) <= budget]
    assert messages_within(chunk, 0, len(sizes), budget) == max(fits, default=1)


def test_a_turn_converts_few_messages_of_the_other_protocol() -> None:
    channel = new_channel()
    consumer = channel.consume()
    whole = [store(b"\x00\x53\x77\xa1\x01x")] * 64  # a value: each is converted by itself
    channel.queues[1].stored[:] = [
        (1, Chunk(FORMAT_10, b"".join(whole), 0, table(whole, 0), 0, names_for("", b"q")))
    ]
    channel.deliver(consumer.number, 1, 64)
    assert len(channel.write(budget=4 * CONVERTED)) == 4
    assert len(channel.write()) == 60


def test_a_turn_repeats_more_messages_that_begin_alike() -> None:
    channel = new_channel()
    consumer = channel.consume()
    whole = [store(b"\x00\x53\x75\xa0\x01x")] * 64  # one data section
    chunks = [
        (
            first,
            Chunk(FORMAT_10, b"".join(whole[:8]), 0, table(whole[:8], 0), 0, names_for("", b"q")),
        )
        for first in range(1, 65, 8)
    ]
    channel.queues[1].stored[:] = chunks
    channel.deliver(consumer.number, 1, 64)
    found = channel.write(budget=CONVERTED + 20 * REPEATED)
    assert [body for *_, body in found] == 21 * [b"x"]
    assert [tag for _, tag, _, _ in channel.write()] == list(range(22, 65))


def test_a_turn_writes_few_messages_that_were_tried_before() -> None:
    channel = new_channel()
    consumer = channel.consume()
    channel.deliver(consumer.number, 1, 64, redelivered=True, attempts=1)
    assert len(channel.write(budget=5 * REWRITTEN)) == 5
    assert len(channel.write()) == 59


def test_a_message_with_too_large_a_header_frame_is_rejected_and_those_around_it_written() -> None:
    channel = new_channel()
    large = BasicProperties(headers={"large": "x" * 200_000})
    bodies = [message(1, b"1"), message(1, b"2", properties=large), message(1, b"3" * 200_000)]
    chunk = Chunk(FORMAT_091, b"".join(bodies), 0, table(bodies, 0), 0)
    channel.queues[1].stored = [(1, chunk)]
    consumer = channel.consume(prefetch=3)
    channel.commands()
    channel.deliver(consumer.number, 1, 3)
    assert [(tag, body[:1]) for _, tag, _, body in channel.write()] == [(1, b"1"), (2, b"3")]
    assert channel.commands() == [("settle", 1, REJECT_TOO_LARGE, [(2, 1)])]
    assert consumer.held == 2
    channel.settle(1, 2, multiple=True)
    assert channel.commands() == [("settle", 1, ACCEPT, [(1, 1), (3, 1)])]
    assert consumer.held == 0


def test_a_rejected_header_frame_leaves_room_under_the_limit_of_the_channel() -> None:
    channel = new_channel()
    large = BasicProperties(headers={"large": "x" * 200_000})
    channel.queues[1].stored = [(1, stored([b"large"], large))]
    channel.deliveries.set_limit(1)
    consumer = channel.consume()
    channel.commands()
    channel.deliver(consumer.number, 1, 1)
    assert channel.write() == []
    assert channel.commands() == [
        ("settle", 1, REJECT_TOO_LARGE, [(1, 1)]),
        ("credit", 1, 1, 1, False),
    ]


@pytest.mark.parametrize(("frame_max", "fitting"), [(8192, 1), (10_100, 3)])
def test_only_header_frames_are_measured_against_frame_max(frame_max: int, fitting: int) -> None:
    large = BasicProperties(headers={"large": "x" * 10_000})
    bodies = [message(1, b"x" * 20_000), message(1, b"", properties=large), message(1, b"")]
    chunk = Chunk(FORMAT_091, b"".join(bodies), 0, table(bodies, 0), 0)
    assert chunk.data is not None
    assert fitting_headers(chunk.data, 0, chunk.offsets, 0, 3, frame_max) == fitting
    size = header_frame_bytes(chunk.data, len(bodies[0]))
    assert fitting_headers(chunk.data, 0, chunk.offsets, 1, 3, size) == 2
    assert fitting_headers(chunk.data, 0, chunk.offsets, 1, 3, size - 1) == 0


def test_one_line_a_minute_and_queue_tells_of_rejected_headers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now_ms = 1000
    oversized = OversizedHeaders(lambda: now_ms)
    first, second = FakeQueue(1), FakeQueue(2)
    for queue in (first, first, second):
        oversized.note(queue, 9000, 8192)
    assert len(caplog.records) == 2
    now_ms += 60_000
    oversized.note(first, 9000, 8192)
    assert len(caplog.records) == 3
    assert "9000 bytes" in caplog.text and "frame_max is 8192" in caplog.text
    assert oversized.count == 4
