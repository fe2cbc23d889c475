"""Link credit in both directions, against models that count without wrapping."""

from hypothesis import given, settings
from hypothesis import strategies as st

from warren.wire.amqp10.codec.serial import MASK, UINT_MAX, plus
from warren.wire.amqp10.receiver import Receiver
from warren.wire.amqp10.sender import Run, Sender

BOUNDED = settings(max_examples=100, deadline=None, database=None)
NEAR_THE_WRAP = st.integers(min_value=-300, max_value=300).map(lambda number: number & MASK)


# As receiver


def granted(credit_max: int = 170) -> Receiver:
    receiver = Receiver(credit_max, 0)
    receiver.attached(MASK - 5)
    assert receiver.is_due()
    receiver.regrant()
    return receiver


def test_a_publisher_is_granted_170_at_once() -> None:
    receiver = granted()
    assert (receiver.credit, receiver.is_due()) == (170, False)


def test_credit_is_granted_again_at_85_and_not_at_86() -> None:
    receiver = granted()
    receiver.take(84)
    assert not receiver.is_due()
    receiver.take(1)
    assert receiver.is_due()
    receiver.regrant()
    assert receiver.credit == 170


def test_no_credit_is_granted_while_170_messages_are_unconfirmed() -> None:
    receiver = granted()
    receiver.take(170)
    receiver.unconfirmed = 170
    assert not receiver.is_due()
    receiver.confirm(1)
    assert receiver.is_due()
    receiver.regrant()
    assert receiver.credit == 170


def test_a_flow_for_another_reason_leaves_the_credit_as_it_is() -> None:
    receiver = granted()
    receiver.take(20)
    receiver.flow_due = True
    assert receiver.is_due()
    receiver.regrant()
    assert (receiver.credit, receiver.is_due()) == (150, False)


def test_a_sender_that_skips_credit_has_used_it() -> None:
    receiver = granted(10)
    receiver.follow(plus(receiver.delivery_count, 4))
    assert receiver.credit == 6
    receiver.follow(plus(receiver.delivery_count, -2))
    assert receiver.credit == 6
    receiver.follow(plus(receiver.delivery_count, 9))
    assert receiver.credit == 0


@BOUNDED
@given(
    st.integers(1, 30),
    NEAR_THE_WRAP,
    st.lists(st.tuples(st.sampled_from(["send", "confirm", "read", "flow"]), st.integers(1, 9))),
)
def test_grants_follow_the_rule_whatever_comes_when(
    credit_max: int, initial: int, steps: list[tuple[str, int]]
) -> None:
    receiver, sender = Receiver(credit_max, 0), Sender(initial, 0)
    receiver.attached(initial)
    flows: list[tuple[int, int]] = []
    sent = confirmed = 0
    limit = 0  # of all that was granted, in numbers that do not wrap
    for step, count in steps:
        if step == "send":
            count = min(count, int(sender.credit))
            sender.offer(Run(1, 1, count, False))
            sender.begin(count)
            receiver.take(count)
            receiver.unconfirmed += count
            sent += count
        elif step == "confirm":
            count = min(count, sent - confirmed)
            receiver.confirm(count)
            confirmed += count
        elif step == "flow":
            due = (limit - sent) * 2 <= credit_max and sent - confirmed < credit_max
            assert receiver.is_due() == due
            if due:
                receiver.regrant()
                limit = sent + credit_max
                flows.append((int(receiver.delivery_count), int(receiver.credit)))
        elif flows:
            sender.update(*flows.pop(0), False)
        assert receiver.credit == limit - sent
        assert receiver.delivery_count == plus(initial, sent)
        assert sender.credit <= receiver.credit


# As sender: credit of the receiver


def test_there_is_no_credit_before_the_first_flow() -> None:
    sender = Sender(MASK, 256)
    assert sender.credit == 0
    assert sender.queue_credit() is None
    assert sender.offer(Run(1, 1, 3, False)) == 0


def test_credit_is_absolute_and_not_added() -> None:
    sender = Sender(MASK, 256)
    sender.update(None, 50, False)
    sender.update(MASK, 50, False)
    assert sender.credit == 50


def test_what_is_under_way_is_taken_off_across_the_wrap() -> None:
    sender = Sender(MASK - 1, 256)
    sender.update(None, 10, False)
    sender.offer(Run(1, 1, 4, False))
    sender.begin(4)
    sender.update(MASK, 10, False)
    assert (sender.delivery_count, sender.credit) == (2, 7)
    sender.update(MASK, 2, False)
    assert sender.credit == 0


def test_the_largest_credit_is_taken_whole() -> None:
    sender = Sender(5, 256)
    sender.update(None, UINT_MAX, False)
    assert sender.credit == UINT_MAX
    asked = sender.queue_credit()
    assert asked is not None
    assert (asked.arrived, asked.credit) == (0, 256)


def test_without_a_delivery_count_the_receiver_counts_from_its_beginning() -> None:
    sender = Sender(7, 256)
    sender.update(None, 5, False)
    sender.offer(Run(1, 1, 2, False))
    sender.begin(2)
    sender.update(None, 5, False)
    assert sender.credit == 3


# As sender: credit for the queue


def credit_of(sender: Sender) -> tuple[int, int, bool] | None:
    asked = sender.queue_credit()
    return None if asked is None else (int(asked.arrived), int(asked.credit), asked.drain)


def test_the_queue_is_topped_up_when_half_is_used() -> None:
    sender = Sender(0, 256)
    sender.update(None, 1000, False)
    assert credit_of(sender) == (0, 256, False)
    sender.offer(Run(1, 1, 127, False))
    sender.begin(127)
    assert credit_of(sender) is None
    sender.offer(Run(1, 128, 1, False))
    assert credit_of(sender) is None
    sender.begin(1)
    assert credit_of(sender) == (128, 256, False)


def test_what_waits_for_the_window_counts_against_the_queue() -> None:
    sender = Sender(0, 256)
    sender.update(None, 1000, False)
    sender.queue_credit()
    sender.offer(Run(1, 1, 256, False))
    assert credit_of(sender) is None
    sender.begin(128)
    assert credit_of(sender) == (256, 128, False)


def test_stop_takes_the_credit_of_the_queue_back_and_what_waits() -> None:
    sender = Sender(0, 256)
    sender.update(None, 100, False)
    sender.queue_credit()
    sender.offer(Run(4, 1, 10, False))
    sender.offer(Run(4, 11, 5, False))
    sender.update(0, 3, False)
    assert sender.withdraw() == [(4, 11, 5), (4, 4, 7)]
    assert credit_of(sender) == (15, 0, False)
    sender.update(0, 0, False)
    assert sender.withdraw() == [(4, 1, 3)]
    assert sender.waiting == 0


def test_what_a_queue_hands_over_too_late_is_not_taken() -> None:
    sender = Sender(0, 256)
    sender.update(None, 10, False)
    sender.queue_credit()
    sender.update(0, 4, False)
    late = Run(1, 1, 10, False)
    assert sender.offer(late) == 4
    assert late.count == 4
    assert credit_of(sender) is None


def test_a_small_credit_is_passed_on_as_it_grows() -> None:
    sender = Sender(0, 256)
    for credit in (1, 2, 10):
        sender.update(0, credit, False)
        assert credit_of(sender) == (0, credit, False)


# Drain


def test_an_empty_queue_drains_at_once() -> None:
    sender = Sender(MASK, 256)
    sender.update(None, 10, True)
    assert credit_of(sender) == (0, 10, True)
    assert not sender.may_finish_drain()
    sender.drained(10)
    assert sender.may_finish_drain()
    sender.finish_drain()
    assert (sender.credit, sender.delivery_count, sender.draining) == (0, 9, False)
    assert credit_of(sender) is None


def test_a_drain_waits_for_what_the_queue_had() -> None:
    sender = Sender(0, 256)
    sender.update(None, 10, True)
    sender.queue_credit()
    sender.offer(Run(1, 1, 3, False))
    sender.drained(10)
    assert not sender.may_finish_drain()
    sender.begin(3)
    assert sender.may_finish_drain()
    sender.finish_drain()
    assert sender.delivery_count == 10


def test_a_large_drain_asks_the_queue_again_until_it_has_no_more() -> None:
    sender = Sender(0, 256)
    sender.update(None, 1000, True)
    asked = []
    ready = 600
    arrived = 0
    while (credit := sender.queue_credit()) is not None:
        asked.append((int(credit.arrived), int(credit.credit)))
        count = min(ready, int(credit.credit))
        ready -= count
        sender.offer(Run(1, arrived + 1, count, False))
        sender.begin(count)
        arrived = int(credit.arrived + credit.credit)
        sender.drained(arrived)
    assert asked == [(0, 256), (256, 256), (512, 256)]
    sender.finish_drain()
    assert sender.delivery_count == 1000


def test_during_a_drain_the_latest_request_is_kept_and_applied_afterwards() -> None:
    sender = Sender(0, 256)
    sender.update(None, 10, True)
    sender.queue_credit()
    assert not sender.update(0, 50, False)
    assert not sender.update(0, 30, False)
    assert sender.credit == 10
    sender.drained(10)
    sender.finish_drain()
    assert sender.unstash()
    assert (sender.credit, sender.draining) == (20, False)
    assert not sender.unstash()


def test_a_drain_without_credit_is_over_at_once() -> None:
    sender = Sender(0, 256)
    sender.update(None, 0, True)
    assert credit_of(sender) is None
    assert sender.may_finish_drain()


class NaiveQueue:
    """A queue that hands over what it has, in numbers that do not wrap; answers come late."""

    def __init__(self) -> None:
        self.ready = 0
        self.count = 0  # deliveries to this consumer
        self.limit = 0
        self.knows_it = True  # the consumer; what one says that it has put out is not heard
        self.answers: list[tuple[str, int]] = []

    def put_out(self) -> None:
        """The consumer was too slow: it holds nothing any more."""
        if self.knows_it:
            self.knows_it = False
            self.limit = self.count
            self.answers.append(("put out", 0))

    def take_in(self, arrived: int) -> None:
        self.knows_it = True
        self.count = self.limit = arrived

    def credit(self, arrived: int, credit: int, drain: bool) -> None:
        if not self.knows_it:
            return
        self.limit = arrived + credit
        self.work()
        if drain:
            self.count = max(self.count, self.limit)
            self.answers.append(("drained", self.count))

    def work(self) -> None:
        count = max(min(self.ready, self.limit - self.count), 0)
        if count > 0:
            self.ready -= count
            self.count += count
            self.answers.append(("hand over", count))


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["flow", "drain", "fill", "answer", "answer", "send", "send", "ask", "put out"]
        ),
        st.integers(0, 40),
    ),
    max_size=60,
)


@BOUNDED
@given(NEAR_THE_WRAP, st.integers(1, 12), STEPS)
def test_a_sender_never_outruns_its_receiver_nor_floods_with_its_queue(
    initial: int, queue_max: int, steps: list[tuple[str, int]]
) -> None:
    sender, queue = Sender(initial, queue_max), NaiveQueue()
    used = 0  # of the receiver's credit: sent, or used up by drains
    limit = 0
    stash: tuple[int, bool] | None = None
    returned = 0
    for step, number in [*steps, *[("flow", 0)], *[("ask", 0), ("answer", 0), ("send", 99)] * 200]:
        if step in ("flow", "drain"):
            if sender.update(plus(initial, used), number, step == "drain"):
                limit = used + number
            else:
                stash = (used + number, step == "drain")
            returned += sum(count for _, _, count in sender.withdraw())
        elif step == "fill":
            queue.ready += number
            queue.work()
        elif step == "ask":
            asked = sender.queue_credit()
            if asked is not None:
                assert asked.credit + sender.waiting <= queue_max
                queue.credit(int(asked.arrived), int(asked.credit), asked.drain)
        elif step == "answer" and queue.answers:
            kind, number = queue.answers.pop(0)
            if kind == "drained":
                sender.drained(number)
            elif kind == "put out":
                queue.ready += int(sender.waiting)
                sender.renew()
                queue.take_in(int(sender.arrived))
            else:
                returned += number - int(sender.offer(Run(1, 1, number, False)))
        elif step == "put out":
            queue.put_out()
        elif step == "send":
            count = min(number, int(sender.waiting))
            sender.begin(count)
            while count > 0 and sender.runs[0].count <= count:
                count -= int(sender.runs.popleft().count)
            if count > 0:
                sender.runs[0].advance(count)
            used = used_now(sender, initial, used)
        while sender.may_finish_drain():
            sender.finish_drain()
            used = used_now(sender, initial, used)
            assert used == limit
            assert sender.credit == 0
            if not sender.unstash():
                break
            assert stash is not None
            limit, stash = max(stash[0], used), None
        assert sender.credit == max(limit, used) - used
        assert 0 <= sender.waiting <= sender.credit
    assert not sender.draining  # Nothing is stuck once the queue has answered.
    assert sender.credit == 0


def used_now(sender: Sender, initial: int, used: int) -> int:
    """The sender's delivery count without the wrap; it moves by far less than half at once."""
    return used + ((int(sender.delivery_count) - initial - used) & MASK)
