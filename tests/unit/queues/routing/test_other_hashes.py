"""Exchanges that hash by modulus or draw lots, and the hashes beneath them."""

from collections import Counter
from math import log2
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queues.definitions.broker_objects import Binding, Destination, Uid
from queues.routing.hashing import (
    FRACTION_BITS,
    distance,
    jump,
    key_hash,
    mix,
    name_hash,
    share,
)
from queues.routing.modulus_hash import ModulusHash
from queues.routing.outside import CountedRandom, OneNode, Outside
from queues.routing.random_one import RandomOne
from queues.routing.router import Router
from tests.unit.queues.definitions.steps import Steps, bind, link
from tests.unit.queues.routing.bindings import binding, matched

ALONE = Outside(CountedRandom(), OneNode())
BOUNDED = settings(max_examples=200, deadline=None, database=None)
words = st.integers(0, 2**32 - 1)


class Lot:
    """Always this one."""

    def __init__(self, place: int) -> None:
        self.place = place
        self.stops: list[int] = []

    def randrange(self, stop: int, /) -> int:
        self.stops.append(stop)
        return self.place


class Here:
    """The leaders that are on this node."""

    def __init__(self, *uids: int) -> None:
        self.uids = list(uids)

    def is_local(self, uid: int, /) -> bool:
        return uid in self.uids


def test_hashes_are_what_they_have_always_been() -> None:
    assert [mix(value) for value in (0, 1, 2**32 - 1)] == [0, 3979630085, 624041220]
    assert [key_hash(key) for key in (b"", b"a", b"key")] == [0, 489994239, 252112946]
    assert name_hash(b"q:orders") == (3791584799, 2191007729)


@BOUNDED
@given(words, words)
def test_different_numbers_mix_to_different_numbers(one: int, other: int) -> None:
    assert 0 <= mix(one) < 2**32
    assert (mix(one) == mix(other)) == (one == other)


@BOUNDED
@given(words, st.integers(1, 10**6))
def test_shares_are_of_equal_size_and_in_order(value: int, count: int) -> None:
    assert share(value, count) == value * count // 2**32


@BOUNDED
@given(words | st.integers(0, 70) | st.integers(2**32 - 70, 2**32 - 1))
def test_a_distance_is_a_logarithm(value: int) -> None:
    exact = 32 - log2(value + 1)
    assert abs(distance(value) / 2**FRACTION_BITS - exact) < 1e-6


@BOUNDED
@given(words, st.integers(1, 10**6), st.integers(1, 1000))
def test_a_jump_stays_or_goes_to_a_new_bucket(value: int, count: int, more: int) -> None:
    before, after = jump(value, count), jump(value, count + more)
    assert 0 <= before < count
    assert after == before or count <= after < count + more


def test_jumps_are_even() -> None:
    counts = Counter(jump(key_hash(b"%d" % number), 10) for number in range(10_000))
    assert all(900 < counts[bucket] < 1100 for bucket in range(10))


def test_modulus_takes_bindings_in_the_order_of_names() -> None:
    keys = [b"k%d" % number for number in range(200)]
    first, second = ModulusHash(), ModulusHash()
    for number in (1, 2, 3):
        first.add(binding(number, number))
    for number in (3, 1, 2):
        second.add(binding(10 + number, number))
    assert [matched(first, key) for key in keys] == [matched(second, key) for key in keys]
    assert [matched(first, key) for key in keys] == [[key_hash(key) % 3 + 1] for key in keys]


def test_modulus_counts_every_binding() -> None:
    kind = ModulusHash()
    kind.add(binding(1, 1, b"a"))
    kind.add(binding(2, 1, b"b"))
    kind.add(binding(3, 2))
    counts = Counter(matched(kind, b"k%d" % number)[0] for number in range(3000))
    assert 1.8 < counts[1] / counts[2] < 2.2


def test_modulus_without_bindings_finds_nothing() -> None:
    kind = ModulusHash()
    assert matched(kind, b"k") == [] and kind.is_empty()
    kind.add(binding(1, 7))
    assert matched(kind, b"k") == [7] and not kind.is_empty()
    kind.remove(binding(1, 7))
    assert matched(kind, b"k") == [] and kind.is_empty()


def test_a_random_exchange_takes_the_destination_drawn() -> None:
    for place, target in enumerate((5, 6, 7)):
        lot = Lot(place)
        kind = RandomOne(Outside(lot, OneNode()), False)
        for uid, each in enumerate((5, 6, 7, 5), 1):
            kind.add(binding(uid, each, b"key %d" % uid))
        assert matched(kind, b"whatever") == [target]
        assert lot.stops == [3]


def test_random_destinations_get_equal_shares() -> None:
    for outside in (ALONE, Outside(Random(1), OneNode())):
        kind = RandomOne(outside, False)
        for number in (1, 2, 3, 4, 5):
            kind.add(binding(number, number))
        counts = Counter(matched(kind)[0] for _ in range(5000))
        assert all(850 < counts[number] < 1150 for number in (1, 2, 3, 4, 5))


@pytest.mark.parametrize("local", [False, True])
def test_a_destination_is_drawn_until_its_last_binding_is_gone(local: bool) -> None:
    kind = RandomOne(ALONE, local)
    assert matched(kind) == [] and kind.is_empty()
    kind.add(binding(1, 7))
    kind.add(binding(2, 7, arguments={"x": 1}))
    kind.remove(binding(1, 7))
    assert matched(kind) == [7] and not kind.is_empty()
    kind.remove(binding(2, 7, arguments={"x": 1}))
    assert matched(kind) == [] and kind.is_empty()


def test_a_local_random_exchange_draws_among_queues_of_this_node() -> None:
    here = Here(6, 8)
    lot = Lot(1)
    kind = RandomOne(Outside(lot, here), True)
    for number in (5, 6, 7, 8):
        kind.add(binding(number, number))
    assert matched(kind) == [8] and lot.stops == [2]
    here.uids = [5, 6, 7]
    assert matched(kind) == [6]
    here.uids = []
    assert matched(kind) == [] and lot.stops == [2, 3]


def test_a_message_that_no_local_queue_takes_goes_to_the_alternate() -> None:
    steps = Steps()
    steps.exchange("x", "x-local-random", {"alternate-exchange": "amq.fanout"})
    steps.queue("far")
    near = steps.queue("near")
    steps.bind("x", "far")
    steps.bind("amq.fanout", "near")
    router = Router("/", locality=Here(near.uid))
    for subject in steps.vhost.definitions():
        router.add(subject)
    route = router.route("x", b"any")
    assert route.queues == (near.uid,) and route.per_message


def test_the_router_draws_with_the_lots_it_was_given() -> None:
    steps = Steps()
    steps.exchange("x", "x-random")
    queues = [steps.queue(f"q{number}") for number in range(3)]
    for queue in queues:
        steps.bind("x", queue.name)
    for place in range(3):
        router = Router("/", Lot(place))
        for subject in steps.vhost.definitions():
            router.add(subject)
        assert router.route("x", b"").queues == (queues[place].uid,)


def test_a_local_random_exchange_takes_no_binding_key_and_no_exchange() -> None:
    steps = Steps()
    steps.exchange("x", "x-local-random")
    steps.queue("q")
    assert steps.refused(bind("x", "q", b"k")) == (
        406,
        "Non empty binding 'k' key not permitted",
    )
    assert steps.refused(link("x", "amq.fanout", b"")) == (406, "Destination not found")


def test_other_exchanges_of_lots_and_modulus_lead_on_to_exchanges() -> None:
    for name in ("x-random", "x-modulus-hash"):
        steps = Steps()
        queue = steps.queue("q")
        steps.exchange("x", name)
        steps.link("x", "amq.fanout", b"any")
        steps.bind("amq.fanout", "q")
        assert steps.route("x", b"k") == (queue.uid,)


def test_a_queue_and_an_exchange_of_one_name_are_told_apart_by_modulus() -> None:
    kind = ModulusHash()
    kind.add(binding(1, 7))
    kind.add(Binding(Uid(2), "/", "x", Destination.EXCHANGE, "q7", b"", b"", -8))
    assert {matched(kind, b"%d" % number)[0] for number in range(20)} == {7, -8}
