"""Address settings of queues beside windows and rates: redelivery, lifetimes, dispatch."""

import struct
from typing import Any

import pytest

from queues.definitions.address_keys import ADDRESS_KEYS, IDS, address_settings
from queues.definitions.policy_keys import policy_fault
from queues.definitions.queue_arguments import argument_fault
from queues.definitions.queue_options import QueueDefaults, can_refuse, options_of, without_copies
from queues.hosts.message_digests import DUPLICATE_IDS, digests_of
from queues.machine.address_settings import AddressSettings
from queues.machine.commands import (
    ACCEPT,
    FAIL,
    REJECT,
    RELEASE,
    RETURN_UNSEEN,
    Attach,
    Command,
    Configure,
    ConsumerKey,
    Detach,
    Enqueue,
    Get,
    Purge,
    SessionId,
    Settle,
    consumer_key,
)
from queues.machine.delays import redelivery_wait_ms
from queues.machine.effects import (
    LEFT_DUPLICATE,
    LEFT_REPLACED,
    Delivers,
    Effect,
    Got,
    Left,
    SlowConsumer,
    TimedOut,
)
from queues.machine.fifo import DUE_SLICE, Fifo
from queues.machine.fifo_snapshot import decode_fifo, encode_fifo
from queues.machine.options import DROP_HEAD, REJECT_PUBLISH, Options
from queues.machine.traits import Traits
from queues.message import FORMAT_091, Chunk
from tests.unit.queues.classic_harness import Harness
from tests.unit.queues.messages import table
from warren.wire.amqp091.deliver import build
from warren.wire.amqp091.fields import encode_table

PUBLISHER = SessionId(7 << 64 | 1)
KEYS = [consumer_key(SessionId(7 << 64 | counter), 1) for counter in (2, 3, 4)]
KEY = KEYS[0]


def queue_with(**settings: Any) -> Fifo:
    return Fifo(Options(address=AddressSettings(**settings)))


def attach(place: int) -> Attach:
    return Attach(KEYS[place], 100, True, False, 0)


def delivered(effects: list[Effect]) -> list[int]:
    found = [each for each in effects if isinstance(each, Delivers)]
    return [each.first + place for each in found for place in range(each.count)]


def left(effects: list[Effect]) -> list[int]:
    found = [each for each in effects if isinstance(each, Left)]
    return [each.first + place for each in found for place in range(each.count)]


# Redelivery


@pytest.mark.parametrize("outcome", [RELEASE, FAIL])
def test_classic_queue_redelivers_after_a_delay_that_is_multiplied(outcome: int) -> None:
    fifo = queue_with(redelivery_ms=100, redelivery_multiplier=2500, redelivery_max_ms=500)
    now_ms = 1000
    assert delivered(fifo.apply([Enqueue(PUBLISHER, 1, 1), attach(0)], now_ms)) == [1]
    for wait_ms in (100, 250, 500, 500):
        fifo.apply([Settle(KEY, outcome, [(1, 1)])], now_ms)
        assert delivered(fifo.apply([], now_ms + wait_ms - 1)) == []
        now_ms += wait_ms + 5
        assert delivered(fifo.apply([], now_ms)) == [1]


def test_what_was_never_sent_is_not_delayed() -> None:
    fifo = queue_with(redelivery_ms=100)
    fifo.apply([Enqueue(PUBLISHER, 1, 1), attach(0)], 1000)
    assert delivered(fifo.apply([Settle(KEY, RETURN_UNSEEN, [(1, 1)])], 1000)) == [1]


def test_greatest_delay_is_ten_times_the_first_unless_it_is_given() -> None:
    address = AddressSettings(redelivery_ms=70, redelivery_multiplier=3000)
    assert [redelivery_wait_ms(address, 1, count) for count in (1, 2, 3, 4, 99)] == [
        *(70, 210, 630, 700, 700)
    ]


def test_collision_avoidance_spreads_delays_within_its_factor_and_always_alike() -> None:
    address = AddressSettings(redelivery_ms=1000, redelivery_collision=200, redelivery_max_ms=5000)
    waits = [redelivery_wait_ms(address, seq, 1) for seq in range(1, 500)]
    assert waits == [redelivery_wait_ms(address, seq, 1) for seq in range(1, 500)]
    assert 800 <= min(waits) < 840
    assert 1160 < max(waits) <= 1200
    assert 980 < sum(waits) / len(waits) < 1020
    assert len(set(waits)) > 200


def test_counts_of_deliveries_end_with_the_setting() -> None:
    fifo = queue_with(redelivery_ms=100)
    fifo.apply([Enqueue(PUBLISHER, 1, 2), attach(0)], 1000)
    fifo.apply([Settle(KEY, RELEASE, [(1, 1)])], 1000)
    assert fifo.attempts.count == 1
    fifo.apply([Configure(Options())], 1001)
    assert fifo.attempts.count == 0
    assert delivered(fifo.apply([], 1200)) == [1]


# Lifetimes


@pytest.mark.parametrize(
    ("own_ms", "settings", "lifetime_ms"),
    [
        (-1, {"expiry_ms": 500}, 500),
        (-1, {"expiry_max_ms": 700}, 700),
        (-1, {"expiry_ms": 500, "expiry_max_ms": 300}, 500),
        (-1, {"expiry_min_ms": 700}, None),
        (900, {"expiry_ms": 500}, 900),
        (900, {"expiry_max_ms": 700}, 700),
        (100, {"expiry_min_ms": 300, "expiry_max_ms": 700}, 300),
        (400, {"expiry_min_ms": 300, "expiry_max_ms": 700}, 400),
    ],
)
def test_lifetime_of_a_message_is_within_the_bounds_of_the_queue(
    own_ms: int, settings: dict[str, int], lifetime_ms: int | None
) -> None:
    fifo = queue_with(**settings)
    traits = None if own_ms < 0 else Traits(-1, own_ms)
    fifo.apply([Enqueue(PUBLISHER, 1, 1, traits)], 1000)
    if lifetime_ms is None:
        assert left(fifo.apply([], 1 << 40)) == []
        return
    assert left(fifo.apply([], 1000 + lifetime_ms - 1)) == []
    assert left(fifo.apply([], 1000 + lifetime_ms + 5)) == [1]


def test_lifetimes_of_a_run_are_bounded_one_by_one() -> None:
    fifo = queue_with(expiry_min_ms=300, expiry_max_ms=700)
    traits = Traits(-1, -1, None, struct.pack("<4q", 100, -1, 500, 9000))
    fifo.apply([Enqueue(PUBLISHER, 1, 4, traits)], 1000)
    gone = [left(fifo.apply([], now_ms)) for now_ms in (1299, 1305, 1499, 1505, 1699, 1705)]
    assert gone == [[], [1], [], [3], [], [2, 4]]


def configured(fifo: Fifo, now_ms: int, **settings: Any) -> list[int]:
    """The queue has these settings now; which messages leave at once."""
    address = AddressSettings(**settings) if settings else None
    return left(fifo.apply([Configure(Options(address=address))], now_ms))


def test_lifetime_that_is_set_later_begins_then_for_messages_without_an_expiration() -> None:
    fifo = queue_with()
    fifo.apply([Enqueue(PUBLISHER, 1, 2), Enqueue(PUBLISHER, 3, 1, Traits(-1, 9000))], 1000)
    fifo.apply([Attach(KEY, 1, False, False, 0)], 1000)  # The first message is held.
    configured(fifo, 2000, expiry_ms=500)
    assert left(fifo.apply([], 2499)) == []
    assert left(fifo.apply([], 2506)) == [2]
    assert left(fifo.apply([Settle(KEY, RELEASE, [(1, 1)])], 2507)) == [1]
    assert left(fifo.apply([], 9999)) == []
    assert left(fifo.apply([], 10_012)) == [3]


@pytest.mark.parametrize(("lifetime_ms", "gone_ms"), [(300, 1300), (900, 1900)])
def test_other_default_lifetime_counts_from_the_arrival_of_messages(
    lifetime_ms: int, gone_ms: int
) -> None:
    fifo = queue_with(expiry_ms=500)
    fifo.apply([Enqueue(PUBLISHER, 1, 1), Enqueue(PUBLISHER, 2, 1, Traits(-1, 90_000))], 1000)
    configured(fifo, 1200, expiry_ms=lifetime_ms)
    assert left(fifo.apply([], gone_ms - 1)) == []
    assert left(fifo.apply([], gone_ms + 12)) == [1]
    assert left(fifo.apply([], 90_000)) == []


def test_message_that_is_older_than_a_new_default_lifetime_expires_at_once() -> None:
    fifo = queue_with(expiry_ms=500)
    fifo.apply([Enqueue(PUBLISHER, 1, 2)], 1000)
    assert configured(fifo, 1200, expiry_ms=100) == [1, 2]


def test_message_without_an_expiration_stays_once_the_default_lifetime_is_gone() -> None:
    fifo = queue_with(expiry_ms=500)
    fifo.apply([Enqueue(PUBLISHER, 1, 1), Enqueue(PUBLISHER, 2, 1, Traits(-1, 900))], 1000)
    configured(fifo, 1200)
    assert left(fifo.apply([], 1 << 40)) == [2]
    assert fifo.calendar.count == 0


def test_bounds_that_are_set_later_hold_from_then_on_for_expirations_of_messages() -> None:
    fifo = queue_with()
    lifetimes = struct.pack("<4q", 300, 9000, 20_000, 5000)
    fifo.apply([Enqueue(PUBLISHER, 1, 4, Traits(-1, -1, None, lifetimes))], 1000)
    configured(fifo, 1100, expiry_min_ms=1000, expiry_max_ms=7000)
    gone = [left(fifo.apply([], now_ms)) for now_ms in (2099, 2112, 5999, 6020, 8099, 8120)]
    assert gone == [[], [1], [], [4], [], [2, 3]]


def test_messages_whose_lifetime_is_over_are_not_revived_by_a_longer_one() -> None:
    fifo = queue_with()
    count = 2 * DUE_SLICE + 1000  # More than a batch looks at are due.
    lifetimes = struct.pack(f"<{count}q", *[300, -1] * (count // 2))
    fifo.apply([Enqueue(PUBLISHER, 1, count, Traits(-1, -1, None, lifetimes))], 1000)
    gone = configured(fifo, 2000, expiry_min_ms=9000)
    while fifo.has_more():
        gone += left(fifo.apply([], 2001))
    assert len(gone) == count // 2


# Dispatch


def test_no_consumer_is_served_before_there_are_enough() -> None:
    fifo = queue_with(dispatch_consumers=3)
    assert delivered(fifo.apply([Enqueue(PUBLISHER, 1, 6), attach(0), attach(1)], 1000)) == []
    assert delivered(fifo.apply([], 9_000_000)) == []
    assert sorted(delivered(fifo.apply([attach(2)], 9_000_001))) == [1, 2, 3, 4, 5, 6]


def test_consumers_are_served_on_while_one_is_left_and_wait_again_after_the_last() -> None:
    fifo = queue_with(dispatch_consumers=2)
    fifo.apply([attach(0), attach(1), Detach(KEYS[1])], 1000)
    assert delivered(fifo.apply([Enqueue(PUBLISHER, 1, 1)], 1001)) == [1]
    fifo.apply([Settle(KEY, ACCEPT, [(1, 1)]), Detach(KEY)], 1002)
    assert delivered(fifo.apply([Enqueue(PUBLISHER, 2, 1), attach(2)], 1003)) == []


def test_delay_before_dispatch_begins_with_the_first_consumer() -> None:
    fifo = queue_with(dispatch_consumers=5, dispatch_delay_ms=200)
    fifo.apply([Enqueue(PUBLISHER, 1, 1)], 1000)
    fifo.apply([attach(0)], 2000)
    assert fifo.due_ms == 2200
    assert delivered(fifo.apply([attach(1)], 2199)) == []
    assert delivered(fifo.apply([], 2200)) == [1]


def test_end_of_the_setting_serves_consumers_that_wait() -> None:
    fifo = queue_with(dispatch_consumers=5)
    fifo.apply([Enqueue(PUBLISHER, 1, 2), attach(0)], 1000)
    assert delivered(fifo.apply([Configure(Options())], 1001)) == [1, 2]


# Slow consumers


def slow_in(effects: list[Effect]) -> list[tuple[int, int, bool]]:
    found = [each for each in effects if isinstance(each, SlowConsumer)]
    return [(each.key, each.settled_count, each.is_killed) for each in found]


def queue_that_watches(kills: int = 0) -> Fifo:
    """A threshold of 2 messages per second, with a look each second; two consumers."""
    fifo = queue_with(slow_threshold=2, slow_period_ms=1000, slow_kills=kills, window_bytes=0)
    fifo.apply([Enqueue(PUBLISHER, 1, 50), attach(0), attach(1)], 1000)
    fifo.apply([], 2000)
    return fifo


def test_consumer_below_the_threshold_is_reported_while_messages_wait() -> None:
    fifo = queue_that_watches()
    fifo.apply([Settle(KEYS[1], ACCEPT, [(2, 1)])], 2100)
    fifo.apply([Settle(KEYS[1], ACCEPT, [(3, 1)])], 2200)
    fifo.apply([Settle(KEYS[0], ACCEPT, [(1, 1)])], 2300)
    assert slow_in(fifo.apply([], 2999)) == []
    effects = fifo.apply([], 3000)
    assert slow_in(effects) == [(KEYS[0], 1, False)]
    assert not any(isinstance(each, TimedOut) for each in effects)
    assert slow_in(fifo.apply([], 4000)) == [(KEYS[0], 0, False), (KEYS[1], 0, False)]


def test_slow_consumer_is_killed_and_its_messages_go_to_others() -> None:
    fifo = queue_that_watches(kills=1)
    fifo.apply([Settle(KEYS[1], ACCEPT, [(2, 1)])], 2100)
    fifo.apply([Settle(KEYS[1], ACCEPT, [(3, 1)])], 2200)
    effects = fifo.apply([], 3000)
    assert slow_in(effects) == [(KEYS[0], 0, True)]
    assert [each.timeout_ms for each in effects if isinstance(each, TimedOut)] == [0]
    assert list(fifo.consumers) == [KEYS[1]]
    assert delivered(fifo.apply([Settle(KEYS[1], ACCEPT, [(4, 1)])], 3001)) == [1]


def test_consumer_for_which_nothing_waits_is_not_slow() -> None:
    fifo = queue_with(slow_threshold=100, slow_period_ms=1000)
    fifo.apply([attach(0)], 1000)
    for now_ms in range(1500, 9000, 1000):
        fifo.apply([Enqueue(PUBLISHER, now_ms // 1000, 1)], now_ms)
        fifo.apply([Settle(KEY, ACCEPT, [(now_ms // 1000, 1)])], now_ms + 10)
        assert slow_in(fifo.apply([], now_ms + 500)) == []


def test_host_tells_the_node_of_a_slow_consumer() -> None:
    harness = Harness()
    address = AddressSettings(slow_threshold=1, slow_period_ms=1000)
    harness.host.configure(Options(address=address), 0, None)
    harness.publish([b"x"] * 3)
    harness.attach(1, 1)
    harness.turn()
    for _ in range(2):
        harness.node.now_ms += 1000
        harness.host.on_timer()
        harness.turn()
    assert [uid for uid, _ in harness.node.slow] == [5]


# Rings


def test_ring_keeps_the_newest_messages() -> None:
    options = options_of({"x-ring-size": 3, "x-max-length": 9}, QueueDefaults())
    fifo = Fifo(options)
    fifo.apply([Enqueue(PUBLISHER, 1, 8)], 1000)
    assert fifo.ready.runs() == [(6, 3)]


def test_ring_excludes_refusing_publishes() -> None:
    fault = argument_fault(
        "queue 'q' in vhost '/'", {"x-ring-size": 3, "x-overflow": "reject-publish"}
    )
    assert fault is not None
    assert (
        "ring-size drops the oldest messages, which excludes the overflow reject-publish" in fault
    )
    definition = {"ring-size": 3, "overflow": "reject-publish"}
    assert policy_fault(".*", "queues", 0, definition, False) is not None
    both = {"x-ring-size": 3, "x-overflow": "reject-publish"}
    assert options_of(dict(both), QueueDefaults()).overflow == DROP_HEAD
    assert not can_refuse(dict(both))


# Duplicates


def ids_of(*numbers: int) -> Traits:
    """Traits of messages with these ids, 0 for none."""
    return Traits(ids=b"".join(number.to_bytes(16, "big") for number in numbers))


def ready_in(fifo: Fifo) -> list[int]:
    return [first + place for first, count in fifo.ready.runs() for place in range(count)]


def test_message_whose_id_is_known_is_confirmed_and_gone() -> None:
    fifo = queue_with(id_cache_size=10)
    effects = fifo.apply([Enqueue(PUBLISHER, 1, 5, ids_of(7, 0, 8, 7, 0))], 1000)
    assert ready_in(fifo) == [1, 2, 3, 5]
    assert [(each.first, each.reason) for each in effects if isinstance(each, Left)] == [
        (4, LEFT_DUPLICATE)
    ]
    fifo.apply([attach(0), Settle(KEY, ACCEPT, [(1, 5)])], 1001)
    assert left(fifo.apply([Enqueue(PUBLISHER, 6, 2, ids_of(8, 9))], 1002)) == [6]


def test_oldest_id_is_forgotten_first() -> None:
    fifo = queue_with(id_cache_size=2)
    fifo.apply([Enqueue(PUBLISHER, 1, 3, ids_of(1, 2, 3))], 1000)
    assert left(fifo.apply([Enqueue(PUBLISHER, 4, 3, ids_of(3, 2, 1))], 1001)) == [4, 5]


def test_refused_message_may_come_again_and_costs_no_id_that_is_known() -> None:
    address = AddressSettings(id_cache_size=2)
    fifo = Fifo(Options(length_max=2, overflow=REJECT_PUBLISH, address=address))
    fifo.apply([Enqueue(PUBLISHER, 1, 2, ids_of(1, 2))], 1000)
    fifo.apply([Enqueue(PUBLISHER, 3, 1, ids_of(3))], 1001)
    fifo.apply([Purge(PUBLISHER)], 1002)
    assert left(fifo.apply([Enqueue(PUBLISHER, 4, 2, ids_of(1, 3))], 1003)) == [4]
    assert ready_in(fifo) == [5]


def test_snapshot_keeps_ids() -> None:
    fifo = queue_with(id_cache_size=5)
    fifo.apply([Enqueue(PUBLISHER, 1, 3, ids_of(1, 2, 3))], 1000)
    again = Fifo()
    decode_fifo(again, encode_fifo(fifo))
    assert encode_fifo(again) == encode_fifo(fifo)
    assert left(again.apply([Enqueue(PUBLISHER, 4, 2, ids_of(3, 4))], 1001)) == [4]


@pytest.mark.parametrize("name", ["_AMQ_DUPL_ID", "x-deduplication-header"])
def test_id_is_read_from_a_header(name: str) -> None:
    chunk = chunk_with({name: "a-17"}, {"other": name}, {name: "a-18"}, {name: b"a-17"}, {})
    found = digests_of(chunk, DUPLICATE_IDS)
    assert found is not None
    digests = [found[place : place + 16] for place in range(0, 80, 16)]
    assert digests[0] == digests[3] != digests[2]
    assert digests[1] == digests[4] == bytes(16)
    assert digests_of(chunk_with({"other": name}), DUPLICATE_IDS) is None


def chunk_with(*headers: dict[str, object]) -> Chunk:
    messages = [build("", b"q", b"\x20\x00" + encode_table(each), b"body") for each in headers]
    return Chunk(FORMAT_091, b"".join(messages), 0, table(messages, 0), 0)


# Last values


def keys_of(*numbers: int) -> Traits:
    """Traits of messages with these keys, 0 for none."""
    return Traits(keys=b"".join(number.to_bytes(16, "big") for number in numbers))


def queue_of_last_values(**settings: Any) -> Fifo:
    return queue_with(last_value_key="key", **settings)


def test_newer_message_replaces_the_ready_one_with_its_key() -> None:
    fifo = queue_of_last_values()
    effects = fifo.apply([Enqueue(PUBLISHER, 1, 5, keys_of(1, 2, 0, 1, 0))], 1000)
    assert ready_in(fifo) == [2, 3, 4, 5]
    assert [(each.first, each.reason) for each in effects if isinstance(each, Left)] == [
        (1, LEFT_REPLACED)
    ]
    assert left(fifo.apply([Enqueue(PUBLISHER, 6, 2, keys_of(2, 9))], 1001)) == [2]


def test_message_that_a_consumer_holds_stays_with_it_and_does_not_return() -> None:
    fifo = queue_of_last_values()
    fifo.apply([Enqueue(PUBLISHER, 1, 1, keys_of(1)), attach(0)], 1000)
    assert delivered(fifo.apply([Enqueue(PUBLISHER, 2, 1, keys_of(1))], 1001)) == [2]
    assert left(fifo.apply([Settle(KEY, ACCEPT, [(2, 1)])], 1002)) == [2]
    assert left(fifo.apply([Settle(KEY, RELEASE, [(1, 1)])], 1003)) == [1]
    assert delivered(fifo.apply([Enqueue(PUBLISHER, 3, 1, keys_of(1))], 1004)) == [3]
    assert delivered(fifo.apply([Settle(KEY, RELEASE, [(3, 1)])], 1005)) == [3]
    fifo.apply([Settle(KEY, ACCEPT, [(3, 1)])], 1006)
    assert fifo.last_values is not None
    assert fifo.last_values.encode() == b""  # Nothing is known of messages that are gone.


def test_message_that_waits_for_its_redelivery_is_replaced_too() -> None:
    fifo = queue_of_last_values(redelivery_ms=500)
    fifo.apply([Enqueue(PUBLISHER, 1, 1, keys_of(1)), attach(0)], 1000)
    fifo.apply([Settle(KEY, RELEASE, [(1, 1)]), Detach(KEY)], 1001)
    assert left(fifo.apply([Enqueue(PUBLISHER, 2, 1, keys_of(1))], 1002)) == [1]


def test_sizes_of_replaced_messages_are_given_back() -> None:
    address = AddressSettings(last_value_key="key")
    fifo = Fifo(Options(bytes_max=100, address=address))
    sizes = struct.pack("<3i", 40, 40, 40)
    keys = keys_of(1, 1, 1).keys
    fifo.apply([Enqueue(PUBLISHER, 1, 3, Traits(sizes=sizes, keys=keys))], 1000)
    assert (ready_in(fifo), fifo.notes.ready_bytes) == ([3], 40)


def test_snapshot_keeps_keys() -> None:
    fifo = queue_of_last_values()
    fifo.apply([Enqueue(PUBLISHER, 1, 2, keys_of(1, 2)), attach(0)], 1000)
    fifo.apply([Enqueue(PUBLISHER, 3, 1, keys_of(1)), Detach(KEY)], 1001)
    again = Fifo()
    decode_fifo(again, encode_fifo(fifo))
    assert encode_fifo(again) == encode_fifo(fifo)
    for machine in (fifo, again):
        machine.apply([Settle(KEY, RELEASE, [(1, 3)])], 1002)
        assert ready_in(machine) == [2, 3]


# Non-destructive queues


def copied(effects: list[Effect], key: ConsumerKey) -> list[int]:
    return [
        seq
        for each in effects
        if isinstance(each, Delivers) and each.key == key
        for seq in range(each.first, each.first + each.count)
    ]


def test_each_consumer_of_a_non_destructive_queue_gets_all_messages() -> None:
    fifo = queue_with(copies=1)
    first = fifo.apply([Enqueue(PUBLISHER, 1, 3), attach(0)], 1000)
    assert copied(first, KEYS[0]) == [1, 2, 3]
    both = fifo.apply([attach(1), Enqueue(PUBLISHER, 4, 2)], 1001)
    assert (copied(both, KEYS[0]), copied(both, KEYS[1])) == ([4, 5], [1, 2, 3, 4, 5])
    assert ready_in(fifo) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("outcome", [ACCEPT, FAIL, RELEASE, REJECT])
def test_settlement_returns_credit_and_leaves_the_message_in_the_queue(outcome: int) -> None:
    fifo = queue_with(copies=1)
    begun: list[Command] = [Enqueue(PUBLISHER, 1, 5), Attach(KEY, 2, True, False, 0)]
    assert copied(fifo.apply(begun, 1000), KEY) == [1, 2]
    assert copied(fifo.apply([Settle(KEY, outcome, [(1, 2)])], 1001), KEY) == [3, 4]
    assert copied(fifo.apply([Settle(KEY, outcome, [(3, 1)])], 1002), KEY) == [5]
    assert left(fifo.apply([Settle(KEY, outcome, [(4, 2)]), Detach(KEY)], 1003)) == []
    assert (ready_in(fifo), fifo.checked_out) == ([1, 2, 3, 4, 5], 0)
    assert copied(fifo.apply([attach(0)], 1004), KEY) == [1, 2, 3, 4, 5]  # A new consumer.


def test_settlements_of_copies_return_no_more_credit_than_was_used() -> None:
    fifo = queue_with(copies=1)
    fifo.apply([Enqueue(PUBLISHER, 1, 9), Attach(KEY, 2, True, False, 0)], 1000)
    assert copied(fifo.apply([Settle(KEY, ACCEPT, [(1, 9)])], 1001), KEY) == [3, 4]


def test_copies_skip_messages_that_have_left() -> None:
    fifo = queue_with(copies=1, last_value_key="key")
    fifo.apply([Enqueue(PUBLISHER, 1, 4, keys_of(1, 2, 1, 3))], 1000)
    assert copied(fifo.apply([attach(0)], 1001), KEY) == [2, 3, 4]
    newer = fifo.apply([Enqueue(PUBLISHER, 5, 1, keys_of(2))], 1002)
    assert (copied(newer, KEY), left(newer), ready_in(fifo)) == ([5], [2], [3, 4, 5])
    assert copied(fifo.apply([Purge(PUBLISHER)], 1003), KEY) == []
    assert copied(fifo.apply([Enqueue(PUBLISHER, 6, 1)], 1004), KEY) == [6]


def test_ring_of_copies_drops_the_oldest() -> None:
    fifo = Fifo(Options(length_max=2, address=AddressSettings(copies=1)))
    effects = fifo.apply([attach(0), Enqueue(PUBLISHER, 1, 5)], 1000)
    assert (copied(effects, KEY), ready_in(fifo)) == ([1, 2, 3, 4, 5], [4, 5])


def test_window_of_nothing_and_rate_bound_copies() -> None:
    fifo = queue_with(copies=1, window_bytes=0)
    assert copied(fifo.apply([Enqueue(PUBLISHER, 1, 3), attach(0)], 1000), KEY) == [1]
    assert copied(fifo.apply([Settle(KEY, ACCEPT, [(1, 1)])], 1001), KEY) == [2]
    fifo = queue_with(copies=1, rate_max=10)
    assert copied(fifo.apply([Enqueue(PUBLISHER, 1, 3), attach(0)], 1000), KEY) == [1]
    assert copied(fifo.apply([], 1050), KEY) == []
    assert copied(fifo.apply([], 1101), KEY) == [2]


def test_window_of_bytes_bounds_copies() -> None:
    fifo = queue_with(copies=1, window_bytes=25, counts_bytes=1)
    sizes = Traits(sizes=struct.pack("<9i", *[10] * 9))
    begun: list[Command] = [Enqueue(PUBLISHER, 1, 9, sizes), attach(0)]
    assert copied(fifo.apply(begun, 1000), KEY) == [1, 2, 3]
    assert copied(fifo.apply([Settle(KEY, RELEASE, [(2, 1)])], 1001), KEY) == [4]
    assert copied(fifo.apply([Purge(PUBLISHER)], 1002), KEY) == []
    later = fifo.apply(
        [Enqueue(PUBLISHER, 10, 9, Traits(sizes=struct.pack("<9i", *[10] * 9)))], 1003
    )
    assert copied(later, KEY) == []
    assert copied(fifo.apply([Settle(KEY, ACCEPT, [(1, 4)])], 1004), KEY) == [10, 11, 12]


def test_get_of_a_non_destructive_queue_leaves_the_oldest_message() -> None:
    fifo = queue_with(copies=1)
    fifo.apply([Enqueue(PUBLISHER, 1, 2)], 1000)
    for _ in range(2):
        (got,) = fifo.apply([Get(PUBLISHER)], 1001)
        assert isinstance(got, Got)
        assert (got.message, fifo.checked_out) == (1, 0)


def test_queue_that_becomes_destructive_takes_settlements_of_copies() -> None:
    fifo = queue_with(copies=1)
    fifo.apply([Enqueue(PUBLISHER, 1, 4), Attach(KEY, 2, True, False, 0)], 1000)
    assert copied(fifo.apply([Configure(Options())], 1001), KEY) == []
    assert copied(fifo.apply([Settle(KEY, ACCEPT, [(1, 2)])], 1002), KEY) == [1, 2]
    assert left(fifo.apply([Settle(KEY, ACCEPT, [(1, 2)])], 1003)) == [1, 2]


# Keys


GOOD = (3, 1, 500, "kill", "key", True)  # One of them is good for each key.


def test_each_key_sets_its_setting_and_all_but_the_ids_are_refused_for_streams() -> None:
    for key in ADDRESS_KEYS:
        value = next(
            each for each in (3, 1, 500, "kill", "key", True) if key.convert(each) is not None
        )
        made = address_settings({f"x-{key.name}": value})
        assert (made is None) == (key.setting == "")
        assert made is None or getattr(made, key.setting) == key.convert(value)
        fault = policy_fault(".*", "streams", 0, {key.name: value}, False)
        if key.name == IDS:
            assert fault is None
        else:
            assert fault is not None
            assert f"{key.name} does not apply to streams" in fault
        assert policy_fault(".*", "queues", 0, {key.name: value}, False) is None


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("redelivery-delay-multiplier", 0.5, "a number from 1 to 1000"),
        ("redelivery-collision-avoidance-factor", 1.5, "a number from 0 to 1"),
        ("max-redelivery-delay", -2, "or -1 for ten times the redelivery delay"),
        ("consumers-before-dispatch", -1, "a number from 0 to 100000"),
        ("expiry-delay", "soon", "milliseconds from 0 to ten years, or -1 for none"),
    ],
)
def test_policy_with_a_wrong_value_is_refused_with_what_is_allowed(
    key: str, value: object, allowed: str
) -> None:
    fault = policy_fault(".*", "queues", 0, {key: value}, False)
    assert fault is not None
    assert allowed in fault


@pytest.mark.parametrize(
    ("kind", "attempts", "limit", "expected"),
    [
        ("classic", 10, None, 9),
        ("classic", -1, None, -1),
        ("quorum", 10, None, 9),
        ("quorum", 30, 5, 5),
        ("quorum", 3, 5, 2),
        ("quorum", -1, None, 20),
    ],
)
def test_delivery_attempts_are_one_more_than_the_failures_that_a_message_survives(
    kind: str, attempts: int, limit: int | None, expected: int
) -> None:
    arguments: dict[str, object] = {"x-queue-type": kind, "x-max-delivery-attempts": attempts}
    if limit is not None:
        arguments["x-delivery-limit"] = limit
    options = options_of(arguments, QueueDefaults())
    assert options.delivery_limit == expected
    assert options.counts_returns == (attempts > 0)


def test_non_destructive_is_refused_where_it_makes_no_sense() -> None:
    flag: dict[str, object] = {"x-non-destructive": True}
    assert argument_fault("q", dict(flag)) is None
    for kind in ("quorum", "stream"):
        assert argument_fault("q", {**flag, "x-queue-type": kind}) is not None
    fault = argument_fault("q", {**flag, "x-redelivery-delay": 5})
    assert fault is not None and "nothing is redelivered" in str(fault)
    assert argument_fault("q", {"x-non-destructive": 1}) is not None
    for other in ("ha-mode", "slow-consumer-threshold"):
        value = "all" if other == "ha-mode" else 5
        definition = {"non-destructive": True, other: value}
        assert "excludes" in str(policy_fault(".*", "queues", 0, definition, False))
    for_quorum = policy_fault(".*", "quorum_queues", 0, {"non-destructive": True}, False)
    assert "does not apply to quorum queues" in str(for_quorum)
    assert not options_of(without_copies(flag), QueueDefaults()).copies
