"""When a queue holds its publishers in favour of its consumers."""

from typing import Final

from queues.machine.commands import ACCEPT, Detach, consumer_key
from queues.sessions.balance import (
    HOLD_MS,
    LEAD_BYTES,
    LEAD_MAX,
    LEAD_MIN,
    PERIOD_MS,
    REST_MAX_MS,
    REST_MS,
    Balance,
    lead_max_of,
)
from tests.unit.queues.classic_harness import Harness

INITIAL_CREDIT: Final = 400  # of a publisher towards the queue


class Judged:
    """A balance, and the queue that it judges."""

    def __init__(self, backlog: int = 0) -> None:
        self.balance = Balance(backlog)
        self.accepted = backlog
        self.taken = 0

    @property
    def backlog(self) -> int:
        return self.accepted - self.taken

    def after(self, now_ms: int, accepted: int, taken: int, unsettled: int = 1 << 40) -> bool:
        self.accepted += accepted
        self.taken += taken
        return self.balance.judge(
            now_ms, self.accepted, self.taken, self.backlog, unsettled, LEAD_MAX
        )


def test_publishers_wait_until_consumers_have_halved_the_lead() -> None:
    judged = Judged()
    assert not judged.after(0, LEAD_MAX, 0)
    assert judged.after(1, 1, 0)
    assert judged.after(2, 0, LEAD_MAX // 2)
    assert not judged.after(3, 0, 1)


def test_backlog_from_before_does_not_stop_publishers() -> None:
    judged = Judged(1_000_000)
    for turn in range(1000):
        assert not judged.after(turn, 2000, 2000)


def test_consumers_that_reduce_a_backlog_set_a_new_start() -> None:
    judged = Judged(1_000_000)
    assert not judged.after(0, 0, 500_000)
    assert not judged.after(1, LEAD_MAX, 0)
    assert judged.after(2, 1, 0)


def test_consumers_that_take_nothing_hold_publishers_for_one_period() -> None:
    judged = Judged()
    assert judged.after(0, LEAD_MAX + 1, 0)
    assert judged.balance.due_ms == PERIOD_MS
    assert judged.after(PERIOD_MS - 1, 0, 0)
    assert not judged.after(PERIOD_MS, 0, 0)


def test_slow_consumers_hold_publishers_for_a_small_part_of_the_time() -> None:
    judged = Judged()
    held = 0
    for now_ms in range(100_000):
        if judged.after(now_ms, 0 if judged.balance.is_holding else 300, 1):
            held += 1
    assert 0 < held <= 100_000 // 50
    assert judged.backlog > 100_000 * 250


def test_rests_grow_up_to_a_bound_and_shrink_after_a_success() -> None:
    judged = Judged()
    rest_ms = REST_MS
    now_ms = 0
    for _ in range(12):
        assert judged.after(now_ms, LEAD_MAX + 1, 0)
        now_ms = judged.balance.due_ms
        assert not judged.after(now_ms, 0, 0)
        assert not judged.after(now_ms + rest_ms - 1, LEAD_MAX + 1, 0)
        now_ms += rest_ms
        rest_ms = min(2 * rest_ms, REST_MAX_MS)
    assert judged.after(now_ms, LEAD_MAX + 1, 0)
    assert not judged.after(now_ms + 1, 0, LEAD_MAX)
    assert judged.after(now_ms + 2, LEAD_MAX, 0)


def test_hold_ends_however_much_consumers_take() -> None:
    judged = Judged()
    assert judged.after(0, 1 << 40, 0)
    now_ms = 0
    while judged.balance.is_holding:
        now_ms = judged.balance.due_ms
        judged.after(now_ms, 0, judged.backlog // 2)
    assert now_ms == HOLD_MS


def test_consumers_that_their_prefetch_limits_are_not_slow() -> None:
    judged = Judged()
    assert judged.after(0, 2 * LEAD_MAX, 0)
    assert judged.after(PERIOD_MS, 0, 100, unsettled=100)
    assert not judged.after(2 * PERIOD_MS, 0, 99, unsettled=100)


def test_what_comes_during_a_hold_does_not_make_consumers_slow() -> None:
    judged = Judged()
    assert judged.after(0, LEAD_MAX + 1, 0)
    assert judged.after(PERIOD_MS, 3 * LEAD_MAX, LEAD_MAX // 2)


def test_hold_ends_with_a_purge() -> None:
    balance = Balance(0)
    assert balance.judge(0, LEAD_MAX + 1, 0, LEAD_MAX + 1, 0, LEAD_MAX)
    assert not balance.judge(1, LEAD_MAX + 1, 0, 0, 0, LEAD_MAX)


def test_lead_of_large_messages_is_bounded_by_bytes() -> None:
    assert lead_max_of(0, 0) == LEAD_MAX
    assert lead_max_of(1000, 12_000) == LEAD_MAX
    assert lead_max_of(1000, 1000 * 8192) == LEAD_BYTES // 8192
    assert lead_max_of(10, 10 * 1_000_000) == LEAD_MIN


class Busy:
    """A queue whose consumer has `prefetch` messages at a time, and a publisher."""

    def __init__(self, prefetch: int = 100) -> None:
        self.harness = Harness(durable=False)
        self.prefetch = prefetch
        self.settled = 0
        self.harness.attach(1, prefetch)
        self.harness.turn()

    def publish(self, count: int) -> None:
        self.harness.publish([b"body"] * count, persistent=False)
        self.harness.turn()

    def overtake(self) -> None:
        """Publish more than the lead, and what credit is left then."""
        self.publish(LEAD_MAX + 1)
        self.publish(INITIAL_CREDIT)

    def settle_all(self) -> None:
        """Settle what the consumer holds; it gets as many in exchange."""
        held = self.harness.host.checked_out_count
        self.harness.settle(1, ACCEPT, [(self.settled + 1, held)])
        self.settled += held
        self.harness.turn()

    def pass_time(self) -> None:
        """Let the time of the last alarm come."""
        node = self.harness.node
        waking, node.now_ms = node.wakes[-1]
        waking.on_timer()
        node.turn()

    @property
    def is_held(self) -> bool:
        return self.harness.sink.credit.is_blocked()


def test_host_grants_no_credit_until_consumers_have_caught_up() -> None:
    busy = Busy()
    busy.publish(LEAD_MAX + 2 * busy.prefetch)
    busy.publish(INITIAL_CREDIT)
    assert not busy.is_held  # The lead is counted from the first messages that waited.
    busy.overtake()
    assert busy.is_held
    rounds = 0
    while busy.is_held:
        busy.settle_all()
        rounds += 1
    assert rounds == (LEAD_MAX // 2 + 2 * INITIAL_CREDIT) // busy.prefetch + 1


def test_host_releases_publishers_with_its_last_consumer() -> None:
    busy = Busy()
    busy.publish(LEAD_MAX)
    busy.overtake()
    assert busy.is_held
    harness = busy.harness
    harness.host.command(harness.sink, Detach(consumer_key(harness.sink.session, 1)))
    harness.turn()
    assert not busy.is_held


def test_host_without_consumers_grants_credit() -> None:
    harness = Harness(durable=False)
    for _ in range(10):
        harness.publish([b"body"] * LEAD_MAX, persistent=False)
        harness.turn()
        assert not harness.sink.credit.is_blocked()


def test_host_grants_credit_when_consumers_take_nothing_in_time() -> None:
    busy = Busy()
    busy.publish(LEAD_MAX)
    busy.overtake()
    assert busy.is_held
    busy.pass_time()
    assert not busy.is_held
    busy.overtake()
    assert not busy.is_held


def test_host_holds_on_while_consumers_are_fast_enough() -> None:
    busy = Busy(prefetch=LEAD_MAX // 4)
    busy.publish(LEAD_MAX)
    busy.overtake()
    busy.settle_all()
    busy.settle_all()
    busy.pass_time()
    assert busy.is_held
    busy.pass_time()
    assert not busy.is_held


def test_host_that_serves_elsewhere_releases_publishers() -> None:
    busy = Busy()
    busy.publish(LEAD_MAX)
    busy.overtake()
    assert busy.is_held
    busy.harness.host.core.forget_balance()
    assert not busy.is_held
