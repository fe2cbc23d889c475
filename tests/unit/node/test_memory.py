"""When free memory is given back, and that it is; when bodies leave memory, and which."""

import os
import subprocess
import sys

from node.auth.passwords import ARGON2_MEMORY_KIB
from node.resources.memory import IDLE_MIN_BYTES, QUIET_TURNS, REST_S, BodyPaging, MemoryKeeper
from queues.bodies.paging import Pager
from queues.bodies.store import BodyBudget, Store
from tests.unit.queues.fake_pages import FakePages
from tests.unit.queues.messages import chunk_of


def rested() -> MemoryKeeper:
    keeper = MemoryKeeper()
    for _ in range(REST_S):
        assert not keeper.should_trim(0, 0, 0)
    return keeper


def test_a_quiet_node_with_much_unused_memory_gives_it_back_and_then_rests() -> None:
    keeper = rested()
    assert keeper.should_trim(2 * IDLE_MIN_BYTES, 0, 1)
    keeper.trim()
    assert not keeper.should_trim(2 * IDLE_MIN_BYTES, 0, 2)


def test_memory_that_holds_bodies_is_not_unused() -> None:
    assert not rested().should_trim(4 * IDLE_MIN_BYTES, 4 * IDLE_MIN_BYTES, 1)


def test_a_busy_node_is_left_alone() -> None:
    assert not rested().should_trim(2 * IDLE_MIN_BYTES, 0, QUIET_TURNS)


# Paging bodies out

MARK = 1000 << 20  # the watermark; bodies leave memory from half of it on


class Queues:
    """Two queues with 100 bodies of 1 MB each, and the node's paging."""

    def __init__(self, limit_bytes: int) -> None:
        self.budget = BodyBudget(limit_bytes)
        self.pages = FakePages(1000)
        self.pager = Pager(self.pages, self.budget)
        self.stores = [Store(self.budget), Store(self.budget)]
        self.paging = BodyPaging(self.budget, self.pager, lambda: self.stores)
        for store in self.stores:
            for seq in range(1, 101):
                store.add(seq, chunk_of([bytes(1 << 20)], persistent=False), 0, 1, False)

    def observe(self, used_bytes: int) -> None:
        self.paging.observe(used_bytes, MARK)
        steps = 0
        while self.paging.has_work():
            steps += 1
            assert steps < 1000
            self.paging.work()
            self.pager.end_turn()
            self.pages.complete()

    def in_memory(self, store: Store) -> list[int]:
        return [slot.first for slot in store.slots() if slot.chunk.data is not None]


def test_nothing_leaves_memory_while_there_is_enough_of_it() -> None:
    queues = Queues(1 << 40)
    queues.observe(MARK // 2 - 1)
    assert queues.pages.write_count == 0
    assert queues.paging.look_s < 1


def test_at_half_of_the_watermark_so_much_leaves_memory_as_is_too_much_from_the_end() -> None:
    queues = Queues(1 << 40)
    queues.observe(MARK // 2 + (35 << 20))
    assert 35 <= queues.pages.write_count <= 70
    for store in queues.stores:
        kept = queues.in_memory(store)
        assert kept == list(range(1, len(kept) + 1))
    assert queues.budget.is_over()  # What comes now leaves memory as soon as it can.
    written = queues.pages.write_count
    queues.observe(MARK // 2 + (35 << 20))  # What they left is free, if not given back yet.
    assert not queues.budget.is_over()
    assert queues.pages.write_count == written


def test_bodies_over_their_budget_leave_memory_after_page_files_could_not_be_written() -> None:
    queues = Queues(50 << 20)
    queues.pager.failed()
    queues.observe(MARK // 3)
    assert queues.pages.write_count == 0
    queues.pager.try_again()
    queues.observe(MARK // 3)
    assert queues.budget.used_bytes <= 55 << 20


def test_a_round_that_finds_nothing_is_not_repeated_at_once() -> None:
    queues = Queues(1 << 40)
    for store in queues.stores:
        store.clear()
    for _ in range(20):
        queues.observe(MARK)
    assert queues.paging.round_count < 5


# The C library

PASSWORDS = """
from node.auth.passwords import hash_password
from node.resources.memory import bound_allocator
import psutil

bound_allocator()
hash_password("first")
before = psutil.Process().memory_info().rss
for word in ("one", "two", "three"):
    hash_password(word)
print(psutil.Process().memory_info().rss - before)
"""


def test_what_checking_a_password_takes_is_given_back_at_once() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PASSWORDS],
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert int(done.stdout) < ARGON2_MEMORY_KIB * 1024 // 4
