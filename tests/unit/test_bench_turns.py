"""What benches say of long turns: they read the node's own words, and leave the machine's out."""

import io
import logging
import time

from bench.turns import Moment, longest_turn_ms, stall_of, turns_of
from node.events.logs import TEXT
from node.events.slow_turns import words_of
from node.turn_stages import SlowTurn


def log_of(turn: SlowTurn, ended_s: float) -> str:
    record = logging.LogRecord(
        "warren.turn", logging.DEBUG, "", 0, "%s", (words_of(turn, 0.0),), None
    )
    record.created, record.msecs = ended_s, 1000 * (ended_s % 1)
    return logging.Formatter(TEXT).format(record) + "\n"


def test_the_words_of_the_log_are_understood() -> None:
    ended_s = float(int(time.time())) + 0.25
    told = log_of(SlowTurn(0.0, 64.4, 41.2, [1.0, 60.0, 0.0, 0.0, 0.0, 0.0]), ended_s)
    other = "2026-11-22 14:27:29,355 [INFO] warren.node: recovered 0 queues\n"
    assert turns_of(io.StringIO(other + told)) == [Moment(ended_s - 0.064, ended_s, 41.0)]


def test_a_turn_coincides_with_a_stall_that_it_overlaps_or_touches() -> None:
    stall = stall_of("1795358265.4540 94.9 25.9")
    assert stall.cpu_ms == 25.9
    assert 94 < stall.ms < 96
    assert Moment(1795358265.30, 1795358265.37, 40.0).coincides(stall)
    assert Moment(1795358265.40, 1795358265.41, 40.0).coincides(stall)
    assert not Moment(1795358265.20, 1795358265.33, 40.0).coincides(stall)
    assert not Moment(1795358265.50, 1795358265.55, 40.0).coincides(stall)


def test_the_longest_turn_is_of_the_time_between() -> None:
    before = {1.0: 5, 20.0: 6, 1000.0: 7}
    assert longest_turn_ms(before, {1.0: 9, 20.0: 11, 1000.0: 12}) == 20.0
    assert longest_turn_ms(before, before) == 0.0
