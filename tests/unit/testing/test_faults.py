"""Faults by name: each begins and heals, and leaves what it must leave."""

from collections.abc import Iterable
from itertools import islice
from random import Random

import pytest

from node.cli.chaos.arguments import SCENARIOS
from warren.testing.chaos.faults import ALL_AT_ONCE, MAKERS, TOXIC_KINDS, make
from warren.testing.chaos.scenarios import CLIENT_FAULTS, PROCESS_FAULTS, names, scenario

SEEDS = range(40)


class FakeTarget:
    """Keeps `Target`: which nodes run, and which links are broken, in which direction."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.running = set(range(1, count + 1))
        self.paused: set[int] = set()
        self.wiped: set[int] = set()
        self.broken: set[tuple[int, int]] = set()
        self.clients_broken: set[int] = set()
        self.lowest = count  # how many were well at the worst moment

    def name(self, number: int) -> str:
        return f"n{number}"

    def kill9(self, numbers: Iterable[int]) -> None:
        self.running -= set(numbers)
        self._look()

    def stop(self, numbers: Iterable[int]) -> None:
        self.kill9(numbers)

    def start(self, numbers: Iterable[int]) -> None:
        chosen = set(numbers)
        assert not chosen & self.running
        self.running |= chosen

    def pause(self, numbers: Iterable[int]) -> None:
        self.paused |= set(numbers)
        self._look()

    def resume(self, numbers: Iterable[int]) -> None:
        assert self.paused == set(numbers)
        self.paused.clear()

    def wipe(self, number: int) -> None:
        assert number not in self.running
        self.wiped.add(number)

    def toxic(self, source: int, target: int, kind: str, /, **attributes: int) -> None:
        assert source != target
        self.broken.add((source, target))

    def cut(self, one: int, two: int) -> None:
        assert one != two
        self.broken |= {(one, two), (two, one)}

    def client_toxic(self, number: int, kind: str, /, **attributes: int) -> None:
        self.clients_broken.add(number)

    def client_cut(self, number: int) -> None:
        self.clients_broken.add(number)

    def heal_links(self) -> None:
        self.broken.clear()
        self.clients_broken.clear()

    def is_whole(self) -> bool:
        is_linked = not self.broken and not self.clients_broken
        return len(self.running) == self.count and not self.paused and is_linked

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


@pytest.mark.parametrize("name", sorted(PROCESS_FAULTS - ALL_AT_ONCE))
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


@pytest.mark.parametrize("name", sorted(ALL_AT_ONCE))
def test_what_hits_all_at_once_leaves_nobody(name: str) -> None:
    target = FakeTarget(5)
    fault = make(name, target, Random(1))
    fault.begin()
    assert target.lowest == 0
    assert fault.where == "all"


@pytest.mark.parametrize("name", CLIENT_FAULTS)
def test_faults_of_clients_hit_one_node_a_minority_or_all_and_no_links_between_nodes(
    name: str,
) -> None:
    hit: set[int] = set()
    for seed in SEEDS:
        target = FakeTarget(5)
        make(name, target, Random(seed)).begin()
        hit.add(len(target.clients_broken))
        assert not target.broken
    assert hit == {1, 2, 5}


def test_each_kind_of_toxic_is_there_for_links_between_nodes_and_for_those_of_clients() -> None:
    kinds = "latency bandwidth slow_close timeout reset_peer slicer limit_data"  # Of Toxiproxy.
    assert {kind for kind, _ in TOXIC_KINDS.values()} == set(kinds.split())
    assert {"jitter", "down", *TOXIC_KINDS} <= set(scenario("network").faults)
    assert len(scenario("clients").faults) == len(scenario("network").faults)


def test_all_has_every_fault_once() -> None:
    assert sorted(scenario("all").faults) == sorted(MAKERS)


def test_a_pace_bounds_how_long_faults_and_rests_last() -> None:
    paced = scenario("network").at_pace(2.0)
    drawn = Random(1)
    assert all(2.0 <= paced.lasts(drawn) <= 2.6 for _ in range(50))
    assert all(1.0 <= paced.rests(drawn) <= 1.3 for _ in range(50))
    assert paced.faults == scenario("network").faults
    assert paced.each_s() == pytest.approx(len(paced.faults) * 3.45)


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
    assert scenario("client-slicer").needs_links
    assert scenario("clients").breaks_clients
    assert scenario("all").breaks_clients
    assert not scenario("network").breaks_clients


def test_the_command_knows_all_scenarios_and_no_others() -> None:
    assert list(SCENARIOS) == names()
    with pytest.raises(KeyError):
        scenario("earthquake")
