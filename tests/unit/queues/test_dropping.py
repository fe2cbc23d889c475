"""A limit on the length that begins, or is shortened, while very many messages are there."""

import struct

import pytest

from queues.machine.commands import (
    ACCEPT,
    RELEASE,
    Attach,
    Configure,
    Detach,
    Enqueue,
    SessionId,
    Settle,
    Tick,
    consumer_key,
)
from queues.machine.effects import LEFT_MAXLEN, Effect, Left
from queues.machine.fifo import Fifo
from queues.machine.notes import MANY
from queues.machine.options import Options
from queues.machine.traits import Traits
from tests.unit.queues.runs import runs_of, seqs_of

ONE = SessionId(7 << 64 | 1)
KEY = consumer_key(ONE, 1)
COUNT = 4 * MANY


def scattered(levels: int) -> Fifo:
    """Of COUNT messages every second one is there; those of the second half have priority 1."""
    machine = Fifo(Options(levels=levels))
    machine.apply([Attach(KEY, COUNT, False, False, 0)], 1)
    for first, priority in ((1, 0), (COUNT // 2 + 1, 1)):
        half = COUNT // 2
        traits = Traits(-1, -1, struct.pack(f"<{half}i", *[priority] * half), None, None)
        machine.apply([Enqueue(ONE, first, half, traits if levels > 1 else None)], 1)
    machine.apply([Settle(KEY, ACCEPT, runs_of(range(1, COUNT + 1, 2)))], 1)
    machine.apply([Settle(KEY, RELEASE, runs_of(range(2, COUNT + 1, 2)))], 1)
    machine.apply([Detach(KEY)], 1)
    assert machine.ready.count == COUNT // 2
    return machine


def dropped(machine: Fifo, *limits: int) -> list[int]:
    """What leaves, in order, when these limits come one after the other."""
    found: list[int] = []
    for limit in limits:
        options = Options(levels=machine.options.levels, length_max=limit)
        effects = machine.apply([Configure(options)], 2)
        found += lefts(effects)
    while machine.has_more():
        found += lefts(machine.apply([Tick()], 2))
    return found


def lefts(effects: list[Effect]) -> list[int]:
    left = [each for each in effects if isinstance(each, Left)]
    assert all(each.reason == LEFT_MAXLEN for each in left)
    return seqs_of([(each.first, each.count) for each in left])


@pytest.mark.parametrize("limits", [(10,), (MANY, 0), (MANY + 1, MANY, 3)])
def test_the_oldest_go_however_many_they_are(limits: tuple[int, ...]) -> None:
    machine = scattered(1)
    there = seqs_of(machine.ready.runs())
    found = dropped(machine, *limits)
    assert sorted(found) == there[: len(there) - limits[-1]]
    assert seqs_of(machine.ready.runs()) == there[len(there) - limits[-1] :]


def test_the_lowest_level_goes_first() -> None:
    machine = scattered(2)
    there = seqs_of(machine.ready.runs())
    assert machine.ready.lanes[1].count == MANY
    found = dropped(machine, MANY + 5, MANY - 5)
    assert sorted(found) == there[: MANY + 5]
    assert machine.ready.lanes[1].count == machine.ready.count == MANY - 5


def test_what_is_dropped_at_once_leaves_with_what_was_dropped_before() -> None:
    one, other = scattered(1), scattered(1)
    assert dropped(one, 2 * MANY - 5, 7) == dropped(other, 7)
