"""Only objects that are read are sampled; bounds; what requests may ask."""

import asyncio

import pytest
from multidict import MultiDict

from node.management.replies import ApiError
from node.management.rows import sampling
from node.management.rows.rates import CONNECTION, NODE, QUEUE, unknown
from node.management.rows.sampling import LOOKED_AT_MS, Rates, parse_ranges
from tests.unit.node.fake_clients import FakeTallies

KEY = ("/", "orders")
RANGES = {"lengths": (60, 5), "msg_rates": (60, 5), "data_rates": (60, 5)}


class Watch:
    """Rates with a clock that tests turn."""

    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000
        self.tallies = FakeTallies()
        self.rates = Rates(self.tallies, lambda: self.now_ms, 5_000)

    def pass_ms(self, ms: int) -> None:
        self.now_ms += ms
        asyncio.run(self.rates.sample())

    def set_queue(self, messages: int, published: int, key: tuple[str, str] = KEY) -> None:
        self.tallies.numbers[QUEUE, key] = (messages, messages, 0, published, *(0,) * 7)


def test_no_sample_is_missed_when_a_timer_is_early() -> None:
    """The clock of a timer may be a millisecond ahead: a sample belongs to its whole interval."""
    told = iter([0, 0, 3, 4, 4, 4, 4, 7, 8, 8])
    seen: list[int] = []

    def clock() -> int:
        now = next(told, None)
        if now is None:
            raise EOFError("the clock stops")
        seen.append(now)
        return now

    class Numbers(FakeTallies):
        def read(self, kind: str, key: object) -> None:
            read_at.append(seen[-1])

    read_at: list[int] = []
    rates = Rates(Numbers(), clock, 4)
    with pytest.raises(EOFError):
        asyncio.run(rates.run())
    assert sorted(set(read_at)) == [4, 8]


def test_nobody_is_sampled_whom_nobody_looks_at() -> None:
    watch = Watch()
    watch.set_queue(1, 1)
    watch.pass_ms(5_000)
    assert watch.tallies.reads == 2  # The node alone, which has no numbers here.
    assert watch.rates.track_count == 0


def test_the_first_look_has_no_rate_and_the_next_ones_do() -> None:
    watch = Watch()
    watch.set_queue(100, 100)
    assert watch.rates.of(QUEUE, KEY) == list(unknown(QUEUE))
    watch.set_queue(50, 200)
    watch.pass_ms(5_000)
    details = watch.rates.of(QUEUE, KEY)
    assert (details[0], details[3]) == (-10.0, 20.0)
    assert watch.rates.rate(QUEUE, KEY, 3) == 20.0


def test_a_minute_after_the_last_look_it_is_forgotten() -> None:
    watch = Watch()
    watch.set_queue(1, 1)
    watch.rates.of(QUEUE, KEY)
    watch.pass_ms(LOOKED_AT_MS)
    assert watch.rates.track_count == 1
    watch.pass_ms(5_000)
    assert watch.rates.track_count == 0


def test_an_object_that_is_gone_is_forgotten() -> None:
    watch = Watch()
    watch.set_queue(1, 1)
    watch.rates.of(QUEUE, KEY, RANGES)
    del watch.tallies.numbers[QUEUE, KEY]
    watch.pass_ms(5_000)
    assert watch.rates.track_count == 0
    assert watch.rates.of(QUEUE, KEY) == unknown(QUEUE)


def test_the_node_is_always_sampled_with_a_long_history() -> None:
    watch = Watch()
    count = len(unknown(NODE))
    watch.tallies.numbers[NODE, None] = (0,) * count
    watch.pass_ms(5_000)
    watch.tallies.numbers[NODE, None] = (50,) * count
    watch.pass_ms(5_000)
    assert watch.rates.of(NODE, None) == [10.0] * count
    detail = watch.rates.of(NODE, None, {"lengths": (86_400, 1_800)})[0]
    assert isinstance(detail, dict)
    assert detail["rate"] == 10.0


def test_samples_are_taken_at_whole_intervals() -> None:
    watch = Watch()
    watch.set_queue(0, 0)
    watch.rates.of(QUEUE, KEY, RANGES)
    watch.pass_ms(5_003)
    watch.pass_ms(5_001)
    detail = watch.rates.of(QUEUE, KEY, RANGES)[0]
    assert isinstance(detail, dict)
    assert [each["timestamp"] % 5_000 for each in detail["samples"]] == [0, 0, 0]


def test_only_so_many_objects_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "TRACKS_MAX", 2)
    watch = Watch()
    for number in range(4):
        watch.set_queue(1, 1, ("/", f"q{number}"))
        assert watch.rates.of(QUEUE, ("/", f"q{number}"))[0] is None
    assert watch.rates.track_count == 2
    watch.pass_ms(5_000)
    assert watch.rates.rate(QUEUE, ("/", "q1"), 0) == 0.0
    assert watch.rates.rate(QUEUE, ("/", "q3"), 0) is None


def test_only_so_many_have_charts_and_the_oldest_gives_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sampling, "HISTORIES_MAX", 1)
    watch = Watch()
    for name in ("a", "b"):
        watch.tallies.numbers[CONNECTION, name] = (0, 0)
    assert isinstance(watch.rates.of(CONNECTION, "a", RANGES)[0], dict)
    assert isinstance(watch.rates.of(CONNECTION, "b", RANGES)[0], dict)
    assert watch.rates.track_count == 2
    watch.pass_ms(5_000)
    detail = watch.rates.of(CONNECTION, "a", RANGES)[0]
    assert isinstance(detail, dict)
    assert len(detail["samples"]) == 2  # The last two samples are always there.


def test_a_reset_begins_anew() -> None:
    watch = Watch()
    watch.set_queue(1, 1)
    watch.rates.of(QUEUE, KEY)
    watch.rates.reset()
    assert watch.rates.track_count == 0


def test_the_task_samples_until_it_is_stopped() -> None:
    async def run() -> None:
        tallies = FakeTallies({(NODE, None): (0,) * len(unknown(NODE))})
        rates = Rates(tallies, interval_ms=20)
        rates.start()
        async with asyncio.timeout(10):
            while tallies.reads < 6:
                await asyncio.sleep(0.01)
        await rates.stop()
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())


def test_many_objects_are_sampled_in_slices() -> None:
    async def run() -> None:
        watch = Watch()
        for number in range(1_000):
            watch.set_queue(1, 1, ("/", f"q{number}"))
            watch.rates.of(QUEUE, ("/", f"q{number}"))
        watch.now_ms += 5_000
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        await watch.rates.sample()
        counting.cancel()
        assert turns >= 3

    asyncio.run(run())


def test_ranges_are_read_by_family_and_need_both_numbers() -> None:
    asked = MultiDict({"lengths_age": "60", "lengths_incr": "5", "msg_rates_age": "60"})
    assert parse_ranges(asked) == {"lengths": (60, 5)}
    assert parse_ranges(MultiDict()) == {}


@pytest.mark.parametrize("text", ["", "0", "-1", "x", "1.5", "9" * 9, "99999999", "٣"])
def test_a_range_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ApiError):
        parse_ranges(MultiDict({"data_rates_age": "60", "data_rates_incr": text}))
