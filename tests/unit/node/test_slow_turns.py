"""Turns that took long: what they went to, and what the log says of them."""

import gc
import logging

import pytest

from node.events.slow_turns import REST_S, WARN_MS, SlowTurns, words_of
from node.turn_stages import JOURNAL, LOOK_S, QUEUES, SLOW_MS, SOCKETS, SlowTurn, Stages


class Clocks:
    """Both clocks of `Stages`, and what it has told."""

    def __init__(self) -> None:
        self.now_s = 50.0
        self.cpu_s = 3.0
        self.looks = 0
        self.told: list[SlowTurn] = []
        self.stages = Stages(lambda: self.now_s, self.look)
        self.stages.on_slow = self.told.append

    def look(self) -> float:
        self.looks += 1
        return self.cpu_s

    def turn(self, *parts: tuple[int, float]) -> float:
        """A turn of such stages, in ms; half of each is on a CPU."""
        self.stages.begin()
        for stage, took_ms in parts:
            self.now_s += took_ms / 1000
            self.cpu_s += took_ms / 2000
            self.stages.end_of(stage)
        return self.stages.end()


def slow(took_ms: float) -> SlowTurn:
    return SlowTurn(0.0, took_ms, 30.0, [0.0, took_ms, 0.0, 0.0, 0.0, 0.0])


def test_a_turn_that_took_long_is_told_by_its_stages() -> None:
    clocks = Clocks()
    clocks.turn((QUEUES, 11.0))
    took_ms = clocks.turn((QUEUES, 30.0), (JOURNAL, 4.0), (SOCKETS, 5.0), (QUEUES, 1.0))
    assert took_ms == pytest.approx(40.0)
    told = clocks.told[-1]
    assert len(clocks.told) == 1
    assert told.took_ms == pytest.approx(40.0)
    assert told.cpu_ms == pytest.approx(20.0)
    assert told.stages_ms == pytest.approx([0.0, 31.0, 4.0, 0.0, 5.0, 0.0])


def test_a_turn_that_is_not_long_is_not_told_and_its_cpu_time_seldom_looked_at() -> None:
    clocks = Clocks()
    for _ in range(1000):
        clocks.turn((QUEUES, 0.1))
    assert clocks.looks <= 1 + 100 / (1000 * LOOK_S)
    clocks.turn((QUEUES, SLOW_MS - 0.1))
    assert clocks.told == []


def test_the_cpu_time_of_a_long_turn_is_known_but_for_what_lies_between_two_looks() -> None:
    clocks = Clocks()
    for _ in range(77):
        clocks.turn((QUEUES, 0.1))
    clocks.turn((JOURNAL, 100.0))
    assert clocks.told[0].cpu_ms + 1e-6 >= 50.0
    assert clocks.told[0].cpu_ms <= 50.0 + 1000 * LOOK_S


def test_the_most_comes_first_and_what_took_nothing_is_left_out() -> None:
    turn = SlowTurn(0.0, 250.0, 61.0, [0.2, 30.0, 200.0, 0.0, 20.0, 0.0])
    assert words_of(turn, 12.0) == (
        "a turn of 250 ms, 61 ms on a CPU: journal 200 ms, queues 30 ms, sockets 20 ms, "
        "of it garbage collection 12 ms"
    )


def test_one_warning_a_minute_tells_of_those_between(caplog: pytest.LogCaptureFixture) -> None:
    now_s = [100.0]
    turns = SlowTurns(lambda: now_s[0])
    with caplog.at_level(logging.INFO, "warren.turn"):
        turns.note(slow(WARN_MS - 1))
        for _ in range(3):
            turns.note(slow(WARN_MS))
        now_s[0] += REST_S
        turns.note(slow(WARN_MS + 1))
    first, second = [record.getMessage() for record in caplog.records]
    assert first == "a turn of 200 ms, 30 ms on a CPU: queues 200 ms"
    assert second.endswith("queues 201 ms; 2 more since the last warning")


def test_each_long_turn_is_told_at_the_level_debug(caplog: pytest.LogCaptureFixture) -> None:
    turns = SlowTurns()
    with caplog.at_level(logging.DEBUG, "warren.turn"):
        turns.note(slow(21.0))
        turns.note(slow(22.0))
    assert [record.levelname for record in caplog.records] == ["DEBUG", "DEBUG"]


def test_collections_of_garbage_are_watched_until_the_node_ends() -> None:
    turns = SlowTurns()
    before = len(gc.callbacks)
    turns.watch_collections()
    gc.collect()
    assert turns.collecting_ms(0.0) > 0
    turns.end()
    assert len(gc.callbacks) == before


class Collecting(float):
    """A time; who compares another one with it has garbage collected."""

    def __le__(self, other: float) -> bool:
        gc.collect()
        return super().__le__(other)


def test_a_collection_while_earlier_ones_are_counted_does_no_harm() -> None:
    turns = SlowTurns()
    turns.watch_collections()
    try:
        gc.collect()
        assert turns.collecting_ms(Collecting(0.0)) > 0.0
    finally:
        turns.end()
