"""Accounts of addresses against a naive ledger; how far producers together exceed a limit."""

from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queues.addresses.account import Account, Entry, Gate, refusal_text
from queues.addresses.limits import AddressLimits, limits_of, together_fault, value_fault
from queues.addresses.node_size import NodeSize
from queues.addresses.rate import BURST_S, ProducerRate, rate_after

BOUNDED = settings(max_examples=300, deadline=None, database=None)
LATER_UID = 7


def offsets_of(sizes: list[int]) -> bytes:
    places = [0]
    for size in sizes:
        places.append(places[-1] + size)
    return b"".join(place.to_bytes(4, "little") for place in places)


@dataclass
class Node:
    """Queues that take at the end of the turn what was handed down, and one that takes it later."""

    turn: int = 0
    stored: list[int] = field(default_factory=list)
    handed: list[int] = field(default_factory=list)  # in this turn
    under_way: list[list[int]] = field(default_factory=list)  # to the queue that decides later

    def account(self, limits: AddressLimits) -> Account:
        def measure() -> tuple[int, int]:
            return sum(self.stored), len(self.stored)

        return Account(1, "/", "exchange", "x", limits, measure, lambda: self.turn)

    def end_turn(self) -> None:
        self.turn += 1
        self.stored += self.handed
        self.handed = []

    def everything(self) -> list[int]:
        return [*self.stored, *self.handed, *(size for run in self.under_way for size in run)]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.lists(st.integers(1, 40), min_size=1, max_size=6)),
        st.tuples(st.just("publish later"), st.lists(st.integers(1, 40), min_size=1, max_size=6)),
        st.tuples(st.sampled_from(["decide", "consume", "end turn", "look"]), st.just([1])),
    ),
    max_size=60,
)


@BOUNDED
@given(STEPS, st.integers(-1, 200), st.integers(-1, 8), st.sampled_from(["FAIL", "DROP"]))
def test_the_account_is_never_less_than_what_the_queues_hold(
    steps: list[tuple[str, list[int]]], bytes_max: int, count_max: int, policy: str
) -> None:
    """It takes what a ledger of every message would take, or less: never more."""
    node = Node()
    account = node.account(AddressLimits(bytes_max, count_max, policy))
    now, later = (
        Gate([Entry(account, 1, frozenset())]),
        Gate([Entry(account, 0, frozenset({LATER_UID}))]),
    )
    lost = 0
    for what, sizes in steps:
        if what == "end turn":
            node.end_turn()
        elif what == "consume":
            del node.stored[:1]
        elif what == "look":
            account.is_full()
        elif what == "decide" and node.under_way:
            run = node.under_way.pop(0)
            node.stored += run
            later.decided(LATER_UID, sum(run), len(run))
        elif what.startswith("publish"):
            gate = now if what == "publish" else later
            before = node.everything()
            kept, refused_by = gate.admit(offsets_of(sizes), 0, len(sizes))
            lost += len(sizes) - kept
            assert kept == len(sizes) or refused_by == (0 if policy == "DROP" else -1)
            for size in sizes[:kept]:
                assert bytes_max < 0 or sum(before) < bytes_max
                assert count_max < 0 or len(before) < count_max
                before.append(size)
            if kept and gate is now:
                node.handed += sizes[:kept]
            elif kept:
                node.under_way.append(sizes[:kept])
        assert account.size_bytes >= sum(node.everything())
        assert account.size_count >= len(node.everything())
    assert account.refused_count + account.dropped_count == lost


def test_what_a_queue_has_taken_and_decided_on_in_one_turn_counts_once() -> None:
    """Also if its size is read in between, and no turn follows for a while."""
    node = Node()
    account = node.account(AddressLimits(100, -1, "BLOCK"))
    later = Gate([Entry(account, 0, frozenset({LATER_UID}))])
    later.admit(offsets_of([90]), 0, 1)
    node.end_turn()
    node.stored.append(90)
    account.refresh()
    later.decided(LATER_UID, 90, 1)
    assert not account.is_blocking()
    account.refresh()
    assert (account.size_bytes, account.size_count) == (90, 1)


@BOUNDED
@given(st.lists(st.integers(1, 40), min_size=1, max_size=30), st.integers(0, 300))
def test_after_a_turn_the_account_takes_all_that_there_is_room_for(
    sizes: list[int], bytes_max: int
) -> None:
    node = Node()
    gate = Gate([Entry(node.account(AddressLimits(bytes_max, -1, "FAIL")), 1, frozenset())])
    for size in sizes:
        has_room = sum(node.stored) < bytes_max
        kept, _ = gate.admit(offsets_of([size]), 0, 1)
        assert kept == (1 if has_room else 0)
        node.handed += [size] * kept
        node.end_turn()
        del node.stored[: len(node.stored) // 2]


def test_each_queue_that_gets_a_message_counts() -> None:
    node = Node()
    account = node.account(AddressLimits(-1, 7, "FAIL"))
    gate = Gate([Entry(account, 2, frozenset({LATER_UID}))])
    assert gate.admit(offsets_of([1] * 5), 0, 5) == (3, -1)
    assert account.size_count == 9  # A message is taken whole, or not at all.


def test_the_stricter_of_two_accounts_holds_and_the_other_is_charged_no_more() -> None:
    node = Node()
    wide = node.account(AddressLimits(-1, 100, "FAIL"))
    narrow = node.account(AddressLimits(-1, 2, "DROP"))
    gate = Gate([Entry(wide, 1, frozenset()), Entry(narrow, 1, frozenset())])
    assert gate.admit(offsets_of([1] * 5), 0, 5) == (2, 0)
    assert (wide.size_count, narrow.size_count) == (2, 2)
    assert (wide.refused_count, narrow.dropped_count) == (0, 3)


def test_a_producer_is_granted_what_the_strictest_blocking_address_takes() -> None:
    node = Node()
    wide, narrow = (node.account(AddressLimits(size, -1, "BLOCK")) for size in (1000, 400))
    unbounded = node.account(AddressLimits(10, -1, "FAIL"))
    gate = Gate([Entry(wide, 1, frozenset()), Entry(narrow, 1, frozenset({LATER_UID}))])
    assert Gate([Entry(unbounded, 1, frozenset())]).room_bytes(5000) == 5000
    assert gate.room_bytes(50) == 50
    assert gate.room_bytes(5000) == 200  # Two queues get each message.
    gate.admit(offsets_of([80]), 0, 1)
    assert gate.room_bytes(5000) == 120
    node.handed.append(80)
    node.end_turn()
    assert gate.room_bytes(5000) == 120
    node.stored.clear()
    node.end_turn()
    gate.decided(LATER_UID, 80, 1)
    assert gate.room_bytes(5000) == 200
    gate.admit(offsets_of([900]), 0, 1)
    assert gate.room_bytes(5000) == 0


@pytest.mark.parametrize("seed", range(30))
def test_producers_together_exceed_a_blocking_limit_by_their_last_batch_each(seed: int) -> None:
    """Deterministic simulation: each producer sends batches of up to `batch_bytes`, and waits as
    soon as it hears that the address is full."""
    random = Random(seed)
    batch_bytes, limit, producers = 64, 1000, random.randint(1, 100)
    node = Node()
    account = node.account(AddressLimits(limit, -1, "BLOCK"))
    gate = Gate(
        [
            Entry(account, 1, frozenset()),
        ]
    )
    waiting: set[int] = set()
    sent = [0] * producers
    most = 0
    for _ in range(300):
        for producer in random.sample(range(producers), producers):
            if producer in waiting:
                continue
            size = random.randint(1, batch_bytes)
            kept, _ = gate.admit(offsets_of([size]), 0, 1)
            assert kept == 1  # BLOCK refuses nothing.
            node.handed.append(size)
            sent[producer] += 1
            if gate.must_wait():
                waiting.add(producer)
        node.end_turn()
        most = max(most, sum(node.stored))
        del node.stored[: random.randint(0, 20)]
        account.refresh()
        if not account.is_blocking():
            waiting.clear()
    assert most <= limit + producers * batch_bytes
    assert account.over_bytes <= producers * batch_bytes
    assert min(sent) > 0
    assert sum(sent) > producers or most < limit


# Settings


def test_settings_become_limits() -> None:
    limits = limits_of({"max-size-bytes": 10, "address-full-policy": "FAIL", "max-length": 3})
    assert limits == AddressLimits(bytes_max=10, policy="FAIL")
    assert limits_of({"max-length": 3}) is None


def test_one_credit_key_alone_gives_the_other() -> None:
    assert limits_of({"amqp-credits": 10}) == AddressLimits(credits=10, credits_low=5)
    assert limits_of({"amqp-low-credits": 20}) == AddressLimits(credits=100, credits_low=20)


@pytest.mark.parametrize(
    ("key", "value"),
    [("max-size-bytes", -2), ("max-size-bytes", True), ("address-full-policy", "page"),
     ("producer-max-rate", 0), ("producer-window-size", 1023), ("amqp-credits", 0),
     ("page-full-policy", "BLOCK")],
)  # fmt: skip
def test_a_wrong_value_is_refused_with_what_is_allowed(key: str, value: object) -> None:
    assert str(value_fault(key, value)).startswith("expected ")


@pytest.mark.parametrize(
    "definition",
    [
        {"max-size-bytes": 5, "max-size-bytes-reject-threshold": 9},
        {"address-full-policy": "FAIL", "page-limit-bytes": 9},
        {"address-full-policy": "BLOCK", "max-size-bytes": 9, "max-size-bytes-reject-threshold": 5},
        {"amqp-credits": 10, "amqp-low-credits": 10},
    ],
)
def test_settings_that_do_not_go_together_are_refused(definition: dict[str, object]) -> None:
    assert together_fault(definition) is not None


# Rates


@pytest.mark.parametrize("per_second", [1000, 20_000])
def test_a_publisher_that_always_has_messages_keeps_its_rate_to_one_percent(
    per_second: int,
) -> None:
    """Timers fire up to 3 ms late."""
    random = Random(1)
    now_s, rate = 0.0, ProducerRate(per_second, 0.0)
    by_second: dict[int, int] = {}
    while now_s < 60.0:
        count = rate.allowed(now_s)
        rate.take(count)
        by_second[int(now_s)] = by_second.get(int(now_s), 0) + count
        now_s += rate.wait_ms() / 1000 + random.random() * 0.003
    for second in range(1, 59):
        assert by_second[second] == pytest.approx(per_second, rel=0.01)


@pytest.mark.parametrize("per_second", [1, 10, 999, 50_000])
def test_a_rate_holds_in_each_second_and_allows_no_burst_after_a_pause(per_second: int) -> None:
    random = Random(per_second)
    now_s, sent, rate = 0.0, [], ProducerRate(per_second, 0.0)
    while now_s < 60.0:
        count = min(rate.allowed(now_s), random.randint(1, 2 * per_second))
        rate.take(count)
        sent.append((now_s, count))
        wait_s = rate.wait_ms() / 1000
        now_s += wait_s + (random.random() * 0.002 if now_s < 20 or now_s > 25 else 0.0)
    burst = max(1.0, per_second * BURST_S)
    for begin in range(59):
        inside = sum(count for at_s, count in sent if begin <= at_s < begin + 1)
        assert inside <= per_second + burst + 1
    total = sum(count for at_s, count in sent if at_s >= 1)
    assert total == pytest.approx(59 * per_second, rel=0.12, abs=2)


def test_what_was_published_before_the_rate_was_known_is_waited_for() -> None:
    gate = Gate([Entry(Node().account(AddressLimits(rate_max=100)), 1, frozenset())])
    rate = rate_after(gate, None, 205, 0.0)
    assert rate is not None
    assert rate.allowed(1.9) == 0
    assert rate.allowed(2.1) > 0
    assert rate_after(Gate([]), rate, 1, 3.0) is None


# All queues of a node together


class NodeWithLimit(Node):
    """Its addresses share one size."""

    def __init__(self, bytes_max: int) -> None:
        super().__init__()
        self.size = NodeSize(bytes_max, lambda: self.turn)

    def account(self, limits: AddressLimits) -> Account:
        account = super().account(limits)
        account.node_size = self.size
        return account


def publish(account: Account, *sizes: int) -> int:
    """How many of the messages the address takes."""
    gate = Gate([Entry(account, 1, frozenset())])
    return gate.admit(offsets_of(list(sizes)), 0, len(sizes))[0]


@pytest.mark.parametrize("policy", ["FAIL", "DROP"])
def test_addresses_together_take_up_to_the_global_size(policy: str) -> None:
    node = NodeWithLimit(100)
    first, second = node.account(limits_of_policy(policy)), node.account(limits_of_policy(policy))
    assert publish(first, 30, 30) == 2
    assert publish(second, 30, 30, 30) == 2  # It takes a message while it is below the limit.
    assert (first.is_full(), second.is_full()) == (True, True)
    assert (publish(first, 1), publish(second, 1)) == (0, 0)
    assert (first.dropped_count, first.refused_count) == ((1, 0) if policy == "DROP" else (0, 1))
    node.end_turn()
    node.size.measured(70)
    assert publish(first, 30) == 1
    assert publish(first, 30) == 0


def test_measured_size_keeps_what_was_charged_in_the_same_turn() -> None:
    node = NodeWithLimit(100)
    account = node.account(limits_of_policy("FAIL"))
    publish(account, 60)
    node.size.measured(0)
    assert node.size.size_bytes == 60  # Queues take it at the end of the turn.
    node.end_turn()
    node.size.measured(60)
    assert node.size.size_bytes == 60


def test_full_node_blocks_publishers_of_blocking_addresses_alone() -> None:
    node = NodeWithLimit(100)
    blocking, paging = node.account(limits_of_policy("BLOCK")), node.account(AddressLimits())
    node.size.measured(100)
    assert (blocking.is_blocking(), paging.is_blocking()) == (True, False)
    assert paging.is_paging()
    assert publish(paging, 10, 10) == 2
    assert "addresses.global_max_size is 100" in refusal_text(blocking)
    node.end_turn()
    node.size.measured(99)
    assert (blocking.is_blocking(), paging.is_paging()) == (False, False)


@pytest.mark.parametrize("policy", ["BLOCK", "FAIL", "DROP", "PAGE"])
def test_full_node_elsewhere_has_an_address_apply_its_policy(policy: str) -> None:
    full = [True]
    account = Account(
        *(1, "/", "queue", "q", limits_of_policy(policy), lambda: (0, 0), lambda: 1),
        is_full_elsewhere=lambda: full[0],
    )
    assert account.is_full()
    assert account.is_blocking() == (policy == "BLOCK")
    assert publish(account, 10) == (0 if policy in ("FAIL", "DROP") else 1)
    assert "have reached addresses.global_max_size" in refusal_text(account)
    full[0] = False
    assert not account.is_full()
    assert publish(account, 10) == 1


def limits_of_policy(policy: str) -> AddressLimits:
    return AddressLimits(policy=policy)
