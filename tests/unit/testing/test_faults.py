"""Faults by name: each begins and heals, and leaves what it must leave."""

from collections.abc import Iterable
from itertools import islice
from random import Random

import pytest

from node.cli.chaos_arguments import SCENARIOS
from warren.testing.chaos.faults import MAKERS, make
from warren.testing.chaos.scenarios import PROCESS_FAULTS, names, scenario

SEEDS = range(40)


class FakeTarget:
    """Keeps `Target`: which nodes run, and which links are broken, in which direction."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.running = set(range(1, count + 1))
        self.paused: set[int] = set()
        self.wiped: set[int] = set()
        self.broken: set[tuple[int, int]] = set()
        self.lowest = count  # how many were well at the worst moment

    def name(self, number: int) -> str:
        return f"n{number}"

    def kill9(self, numbers: Iterable[int]) -> None:
        self.running -= set(numbers)
        self._look()

    def stop(self, number: int) -> None:
        self.kill9([number])

    def start(self, numbers: Iterable[int]) -> None:
        chosen = set(numbers)
        assert not chosen & self.running
        self.running |= chosen

    def pause(self, number: int) -> None:
        self.paused.add(number)
        self._look()

    def resume(self, number: int) -> None:
        self.paused.remove(number)

    def wipe(self, number: int) -> None:
        assert number not in self.running
        self.wiped.add(number)

    def toxic(self, source: int, target: int, kind: str, /, **attributes: int) -> None:
        assert source != target
        self.broken.add((source, target))

    def cut(self, one: int, two: int) -> None:
        assert one != two
        self.broken |= {(one, two), (two, one)}

    def heal_links(self) -> None:
        self.broken.clear()

    def is_whole(self) -> bool:
        return len(self.running) == self.count and not self.paused and not self.broken

    def _look(self) -> None:
        self.lowest = min(self.lowest, len(self.running - self.paused))


@pytest.mark.parametrize("count", [3, 5, 7])
@pytest.mark.parametrize("name", MAKERS)
def test_every_fault_breaks_something_and_heals_all_of_it(name: str, count: int) -> None:
    for seed in SEEDS:
        target = FakeTarget(count)
        fault = make(name, target, Random(seed))
        fault.begin()
        assert not target.is_whole()
        assert fault.name == name
        fault.heal()
        assert target.is_whole()


@pytest.mark.parametrize("name", sorted(PROCESS_FAULTS - {"kill-all"}))
def test_faults_of_processes_leave_a_majority(name: str) -> None:
    for seed in SEEDS:
        target = FakeTarget(3)
        make(name, target, Random(seed)).begin()
        assert target.lowest >= 2


@pytest.mark.parametrize("count", [3, 5, 7])
def test_halves_cuts_every_link_between_a_minority_and_the_others(count: int) -> None:
    for seed in SEEDS:
        target = FakeTarget(count)
        make("halves", target, Random(seed)).begin()
        minority = (count - 1) // 2
        assert len(target.broken) == 2 * minority * (count - minority)


def test_one_way_breaks_one_direction_and_deaf_all_that_a_node_hears() -> None:
    for seed in SEEDS:
        target = FakeTarget(3)
        make("one-way", target, Random(seed)).begin()
        assert len(target.broken) == 1
        target = FakeTarget(3)
        make("deaf", target, Random(seed)).begin()
        assert len(target.broken) == 2
        assert len({sink for _, sink in target.broken}) == 1


def test_the_same_seed_draws_the_same_faults() -> None:
    chosen = scenario("all")
    first = list(islice(chosen.order(Random(5)), 40))
    assert first == list(islice(chosen.order(Random(5)), 40))
    assert first != list(islice(chosen.order(Random(6)), 40))


def test_each_fault_of_a_scenario_comes_as_often_as_any_other() -> None:
    chosen = scenario("partitions")
    drawn = list(islice(chosen.order(Random(1)), 3 * len(chosen.faults)))
    assert {drawn.count(name) for name in chosen.faults} == {3}


def test_only_scenarios_that_break_links_need_something_before_them() -> None:
    assert not scenario("processes").needs_links
    assert not scenario("kill").needs_links
    assert scenario("all").needs_links
    assert scenario("slicer").needs_links


def test_the_command_knows_all_scenarios_and_no_others() -> None:
    assert list(SCENARIOS) == names()
    with pytest.raises(KeyError):
        scenario("earthquake")
