"""Byte windows and rates of consumers, in the machine and in the host of a classic queue."""

import gc
import struct
import sys
from collections import Counter
from types import FrameType

import pytest

from queues.definitions.address_keys import value_fault
from queues.machine.address_settings import AddressSettings
from queues.machine.commands import (
    ACCEPT,
    QUEUE_LIMIT,
    Attach,
    Configure,
    ConsumerKey,
    Enqueue,
    SessionId,
    Settle,
    consumer_key,
)
from queues.machine.effects import Delivers, Effect, SizesWanted
from queues.machine.expiry import FAR
from queues.machine.fifo import Fifo
from queues.machine.fifo_snapshot import decode_fifo, encode_fifo
from queues.machine.options import Options
from queues.machine.traits import Traits
from tests.unit.queues.classic_harness import Harness

PUBLISHER = SessionId(7 << 64 | 1)
SLOW = consumer_key(SessionId(7 << 64 | 2), 1)
FAST = consumer_key(SessionId(7 << 64 | 3), 1)


def queue_of(*sizes: int, window: int = -1, rate: int = -1) -> Fifo:
    """A machine with messages of these sizes."""
    fifo = Fifo(Options(address=AddressSettings(window, rate)))
    fifo.apply([enqueue(1, *sizes)], 0)
    return fifo


def enqueue(first: int, *sizes: int) -> Enqueue:
    column = struct.pack(f"<{len(sizes)}i", *sizes)
    return Enqueue(PUBLISHER, first, len(sizes), Traits(sizes=column))


def attach(key: ConsumerKey, window: int = QUEUE_LIMIT, rate: int = QUEUE_LIMIT) -> Attach:
    return Attach(key, 10_000_000, True, False, 0, -1, window, rate)


def delivered(effects: list[Effect], key: ConsumerKey = SLOW) -> list[int]:
    return [
        effect.first + place
        for effect in effects
        if isinstance(effect, Delivers) and effect.key == key
        for place in range(effect.count)
    ]


def test_consumer_gets_messages_until_its_window_is_full_or_exceeded_by_one() -> None:
    fifo = queue_of(40, 40, 40, 40, 40, window=100)
    assert delivered(fifo.apply([attach(SLOW)], 1)) == [1, 2, 3]
    assert delivered(fifo.apply([Settle(SLOW, ACCEPT, [(2, 1)])], 2)) == [4]
    assert delivered(fifo.apply([Settle(SLOW, ACCEPT, [(1, 1), (3, 1)])], 3)) == [5]


def test_message_larger_than_the_window_is_delivered_alone() -> None:
    fifo = queue_of(500, 10, window=100)
    assert delivered(fifo.apply([attach(SLOW)], 1)) == [1]
    assert delivered(fifo.apply([Settle(SLOW, ACCEPT, [(1, 1)])], 2)) == [2]


def test_with_a_window_of_0_consumers_take_turns_with_one_message_each() -> None:
    fifo = queue_of(*[1] * 6, window=0)
    effects = fifo.apply([attach(SLOW), attach(FAST)], 1)
    assert (delivered(effects), delivered(effects, FAST)) == ([1], [2])
    effects = fifo.apply([Settle(FAST, ACCEPT, [(2, 1)])], 2)
    assert (delivered(effects), delivered(effects, FAST)) == ([], [3])
    effects = fifo.apply([Settle(FAST, ACCEPT, [(3, 1)]), Settle(SLOW, ACCEPT, [(1, 1)])], 3)
    assert (delivered(effects), delivered(effects, FAST)) == ([5], [4])


def test_slow_consumer_with_a_window_of_0_adds_no_work_to_messages_of_a_fast_one() -> None:
    """Calls are counted, of Python and of C, from the settlement to the next delivery."""
    alone, beside = (calls_for_each_message(with_slow) for with_slow in (False, True))
    assert len(alone) > 0
    assert beside == alone


def calls_for_each_message(with_slow: bool) -> dict[str, int]:
    """What the host of a classic queue calls for 50 messages of a fast consumer."""
    harness = Harness()
    harness.publish([b"x"] * 100)
    harness.sync()
    first = 1
    for number in (1, 2) if with_slow else (2,):
        key = consumer_key(harness.sink.session, number)
        harness.host.command(harness.sink, attach(key, window=0))
        harness.turn()
        first += number == 1  # The slow one holds the first message.
    calls: Counter[str] = Counter()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            calls[frame.f_code.co_qualname] += 1
        elif event == "c_call":
            calls[getattr(argument, "__qualname__", "")] += 1

    before = sys.getprofile()
    gc.disable()  # Other tests have it call them.
    for seq in range(first, first + 60):
        if seq == first + 10:
            sys.setprofile(note)
        harness.settle(2, ACCEPT, [(seq, 1)])
        assert len(harness.turn()) > 0
    sys.setprofile(before)
    gc.enable()
    return dict(calls)


def test_consumer_with_a_window_of_its_own_waits_until_the_queue_counts_bytes() -> None:
    fifo = Fifo()
    fifo.apply([Enqueue(PUBLISHER, 1, 3)], 0)
    effects = fifo.apply([attach(SLOW, window=50)], 1)
    assert delivered(effects) == []
    assert any(isinstance(effect, SizesWanted) for effect in effects)
    configured = Configure(Options().counting(), [(1, 3, 30)])
    assert delivered(fifo.apply([configured], 2)) == [1, 2]


def test_own_limits_of_a_consumer_replace_those_of_the_queue() -> None:
    fifo = queue_of(10, 10, 10, window=0)
    assert delivered(fifo.apply([attach(SLOW, window=-1)], 1)) == [1, 2, 3]


def test_policy_that_ends_a_window_opens_it() -> None:
    fifo = queue_of(10, 10, 10, window=0)
    assert delivered(fifo.apply([attach(SLOW)], 1)) == [1]
    assert delivered(fifo.apply([Configure(Options())], 2)) == [2, 3]


@pytest.mark.parametrize(("rate", "stall_ms"), [(1000, 0), (1000, 60), (1, 0), (37, 0), (4999, 0)])
def test_rate_holds_in_each_of_60_seconds(rate: int, stall_ms: int) -> None:
    """The host is late for the timer in the middle of each second by `stall_ms`."""
    fifo = Fifo(Options(address=AddressSettings(-1, rate)))
    fifo.apply([Enqueue(PUBLISHER, 1, 60 * rate + 2000)], 0)
    counts = [0] * 61
    now_ms = 1000
    effects = fifo.apply([attach(SLOW)], now_ms)
    while now_ms < 61_000:
        seqs = delivered(effects)
        counts[now_ms // 1000 - 1] += len(seqs)
        assert len(seqs) <= max(rate // 10, 1)
        assert now_ms < fifo.due_ms < FAR
        late_ms = stall_ms if (now_ms // 100) % 10 == 5 else 0
        now_ms = fifo.due_ms + late_ms
        effects = fifo.apply([], now_ms)
    most = rate + max(rate // 100, 1)
    assert all(rate - max(rate // 100, 1) <= count <= most for count in counts[:60])


def test_consumer_that_was_idle_gets_no_burst() -> None:
    fifo = Fifo(Options(address=AddressSettings(-1, 1000)))
    fifo.apply([attach(SLOW)], 1000)
    effects = fifo.apply([Enqueue(PUBLISHER, 1, 5000)], 100_000)
    assert len(delivered(effects)) <= 10


def test_low_rate_fills_a_large_window() -> None:
    fifo = queue_of(*[10] * 9, window=65, rate=1)
    seen = delivered(fifo.apply([attach(SLOW)], 0))
    for second in range(1, 20):
        seen += delivered(fifo.apply([], second * 1000))
    assert seen == [1, 2, 3, 4, 5, 6, 7]


def test_snapshot_keeps_limits_of_consumers() -> None:
    fifo = queue_of(40, 40, 40, 40, 40, window=100, rate=1000)
    fifo.apply([attach(SLOW), attach(FAST, window=-1, rate=1)], 1)
    again = Fifo()
    decode_fifo(again, encode_fifo(fifo))
    assert encode_fifo(again) == encode_fifo(fifo)
    for now_ms in (2, 30, 1500):
        commands = [Settle(SLOW, ACCEPT, [(1, 5)])] if now_ms == 30 else []
        assert delivered(again.apply(list(commands), now_ms)) == delivered(
            fifo.apply(list(commands), now_ms)
        )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("consumer-window-size", -2),
        ("consumer-window-size", True),
        ("consumer-window-size", "1 MiB"),
        ("consumer-max-rate", 0),
        ("consumer-max-rate", 2.5),
        ("consumer-max-rate", 1_000_001),
    ],
)
def test_value_that_is_not_allowed_is_refused_with_what_is(key: str, value: object) -> None:
    fault = value_fault(key, value)
    assert fault is not None
    assert "-1 for no limit" in fault
