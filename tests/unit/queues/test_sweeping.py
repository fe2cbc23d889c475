"""What is let go of in slices: the bodies of a deleted queue, and what a snapshot made dead."""

from itertools import pairwise
from random import Random

import pytest

from queues.bodies.store import SPAN_MESSAGES, SPAN_SLOTS
from queues.hosts.sweeping import Sweep, runs_both, runs_without, sets_alive
from queues.machine.commands import Attach, Enqueue, SessionId, Settle, consumer_key
from queues.machine.fifo import Fifo
from queues.runs.seqset import SeqSet
from tests.unit.queues.classic_harness import Harness
from tests.unit.queues.runs import runs_of, seqs_of

ONE = SessionId(7 << 64 | 1)
KEY = consumer_key(ONE, 1)
COUNT = 60


@pytest.mark.parametrize("seed", range(20))
def test_runs_without_others_are_what_a_set_would_leave(seed: int) -> None:
    lots = Random(seed)
    some = set(lots.sample(range(1, 40), lots.randrange(40 - 1)))
    others = set(lots.sample(range(1, 40), lots.randrange(40 - 1)))
    found = runs_without(runs_of(some), runs_of(others))
    assert seqs_of(found) == sorted(some - others)


@pytest.mark.parametrize("seed", range(20))
def test_runs_of_both_are_what_is_in_two_sets(seed: int) -> None:
    lots = Random(seed)
    some = set(lots.sample(range(1, 40), lots.randrange(40 - 1)))
    cuts = sorted({1, 40, *lots.sample(range(2, 40), 9)})  # Of spans that may follow each other.
    spans = [(at, end - at) for at, end in pairwise(cuts) if lots.random() < 0.7]
    others = set(seqs_of(spans))
    assert runs_both(runs_of(some), spans) == runs_of(some & others)


def machine_of(alive: set[int], next_seq: int) -> Fifo:
    """Those are ready or with a consumer."""
    machine = Fifo()
    machine.apply([Attach(KEY, next_seq // 2, True, False, 0)], 1)
    machine.apply([Enqueue(ONE, 1, next_seq - 1)], 1)
    held = machine.consumers[KEY].held.runs()
    gone = [seq for seq in seqs_of(held) if seq not in alive]
    machine.apply([Settle(KEY, 1, runs_of(gone))], 1)
    return machine


def alive_in(machine: Fifo) -> set[int]:
    return set(seqs_of(machine.alive_within(1, machine.next_seq)))


@pytest.mark.parametrize("seed", range(10))
def test_dead_is_what_the_snapshot_has_not_though_it_lives_on(seed: int) -> None:
    lots = Random(seed)
    old = machine_of(set(lots.sample(range(1, COUNT), COUNT // 2)), COUNT)
    passed = SeqSet()
    passed.add(COUNT, 7)
    fresh = machine_of(set(lots.sample(range(1, COUNT), COUNT // 3)), COUNT + 10)
    dead = (alive_in(old) | set(range(COUNT, COUNT + 7))) - alive_in(fresh)
    sweep = Sweep(old, passed, sets_alive(fresh), fresh.next_seq, 1)
    for _ in range(20):
        first, count = lots.randrange(1, COUNT), lots.randrange(1, COUNT)
        named = set(range(first, first + count))
        assert set(seqs_of(sweep.within(first, count))) == dead & named
        fresh.apply([Settle(KEY, 1, fresh.consumers[KEY].held.runs_from(1, 1))], 1)


@pytest.mark.parametrize("size", [1, 3000])
def test_a_long_queue_that_is_deleted_goes_in_slices(size: int) -> None:
    harness = Harness()
    chunks = 2 * SPAN_SLOTS if size == 1 else 2 * SPAN_MESSAGES // size + 2
    for _ in range(chunks):
        harness.publish([b"a"] * size)
    harness.turn()
    harness.sync()
    assert harness.host.delete() == chunks * size
    assert harness.node.budget.used_bytes > 0
    assert 0 < harness.node.log.live[1] < chunks * size
    for _ in range(4):
        harness.turn()
    assert not harness.node.later
    assert harness.node.log.live == {1: 0}
    assert harness.node.budget.used_bytes == 0
    assert harness.host.core.store.is_empty()
    assert [record[0] for record in harness.node.log.take() if record[0] != "publish"] == [
        "deleted"
    ]
