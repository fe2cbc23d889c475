"""Consistent hashing: who gets which key, whatever the order of binding; and what is refused."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queues.definitions.broker_objects import Binding, Destination, Uid
from queues.definitions.metadata.machine import Metadata
from queues.definitions.metadata.outcomes import Created
from queues.routing.consistent_hash import ConsistentHash
from queues.routing.router import Router
from tests.unit.queues.definitions.steps import Steps, bind, declare_exchange, link, unbinding
from tests.unit.queues.routing.bindings import FakeContent, matched

HASH = "x-consistent-hash"
RING: dict[str, object] = {"x-algorithm": "ring"}
JUMP: dict[str, object] = {"x-algorithm": "jump"}
ALGORITHMS = pytest.mark.parametrize("arguments", [{}, RING, JUMP])
KEYS = [b"key-%d" % number for number in range(3000)]
BOUNDED = settings(max_examples=40, deadline=None, database=None)

Member = tuple[int, str, int]  # target, name, weight

members = st.lists(
    st.tuples(st.integers(1, 99), st.sampled_from([1, 1, 1, 2, 7, 10_000])),
    min_size=1,
    max_size=8,
    unique_by=lambda member: member[0],
)


def bound(uid: int, target: int, weight: int | bytes = 1, name: str = "") -> Binding:
    """A binding to a queue with a name of its own, of weight `weight`."""
    key = weight if isinstance(weight, bytes) else b"%d" % weight
    place = name or f"q{target}"
    return Binding(Uid(uid), "/", "x", Destination.QUEUE, place, key, b"", target)


def exchange_of(weights: dict[int, int], arguments: dict[str, object]) -> ConsistentHash:
    kind = ConsistentHash(arguments)
    for uid, (target, weight) in enumerate(weights.items(), 1):
        assert kind.add(bound(uid, target, weight)) == ""
    return kind


def owners(kind: ConsistentHash, keys: list[bytes] = KEYS) -> list[int]:
    chosen = [matched(kind, key) for key in keys]
    assert all(len(each) == 1 for each in chosen)
    return [each[0] for each in chosen]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (RING, [20, 20, 18, 18, 18, 20, 20, 20]),
        (JUMP, [20, 19, 20, 18, 20, 20, 20, 20]),
    ],
)
def test_where_keys_go_never_changes(arguments: dict[str, object], expected: list[int]) -> None:
    kind = exchange_of({17: 1, 18: 2, 19: 1, 20: 5}, arguments)
    assert owners(kind, [b"", b"a", b"b", b"order.1", b"order.2", b"\xff", b"x" * 255, b"1"]) == (
        expected
    )


@ALGORITHMS
def test_without_bindings_nothing_is_found(arguments: dict[str, object]) -> None:
    kind = ConsistentHash(arguments)
    assert matched(kind, b"k") == [] and kind.is_empty()
    kind.add(bound(1, 7))
    assert matched(kind, b"k") == [7] and not kind.is_empty()
    kind.remove(bound(1, 7))
    assert matched(kind, b"k") == [] and kind.is_empty()


@ALGORITHMS
@BOUNDED
@given(weights=members, data=st.data())
def test_who_gets_a_key_follows_from_names_and_weights_alone(
    arguments: dict[str, object], weights: list[tuple[int, int]], data: st.DataObject
) -> None:
    kind = exchange_of(dict(weights), arguments)
    other = ConsistentHash(arguments)
    order = data.draw(st.permutations(weights))
    passing = data.draw(st.lists(st.integers(100, 120), unique=True, max_size=3))
    for uid, target in enumerate(passing, 50):
        other.add(bound(uid, target, 3))
    for uid, (target, weight) in enumerate(order, 60):
        other.add(bound(uid, target, weight))
        matched(other, b"an owner is remembered")
    for uid, target in enumerate(passing, 50):
        other.remove(bound(uid, target, 3))
    assert owners(kind, KEYS[:100]) == owners(other, KEYS[:100])


@ALGORITHMS
def test_the_uid_of_a_destination_does_not_matter(arguments: dict[str, object]) -> None:
    first, second = ConsistentHash(arguments), ConsistentHash(arguments)
    for number in range(1, 9):
        first.add(bound(number, number, name=f"queue {number}"))
        second.add(bound(number, 1009 - number, name=f"queue {number}"))
    assert owners(second) == [1009 - target for target in owners(first)]


@BOUNDED
@given(weights=members, newcomer=st.integers(200, 300), weight=st.sampled_from([1, 5, 10_000]))
def test_on_a_ring_keys_move_only_to_who_comes_and_from_who_goes(
    weights: list[tuple[int, int]], newcomer: int, weight: int
) -> None:
    kind = exchange_of(dict(weights), RING)
    before = owners(kind, KEYS[:300])
    kind.add(bound(99, newcomer, weight))
    for old, new in zip(before, owners(kind, KEYS[:300]), strict=True):
        assert new in (old, newcomer)
    kind.remove(bound(99, newcomer, weight))
    assert owners(kind, KEYS[:300]) == before


def test_with_jump_keys_move_only_to_who_comes_last_in_the_order_of_names() -> None:
    kind = exchange_of(dict.fromkeys(range(1, 12), 2), JUMP)  # q9 is before q10.
    before = owners(kind)
    kind.add(bound(99, 12, 3))
    after = owners(kind)
    moved = [new for old, new in zip(before, after, strict=True) if old != new]
    assert set(moved) == {12} and moved


@ALGORITHMS
def test_a_newcomer_takes_its_share_and_no_more(arguments: dict[str, object]) -> None:
    kind = exchange_of(dict.fromkeys(range(100, 109), 10), arguments)
    before = owners(kind)
    kind.add(bound(99, 109, 10))
    moved = sum(old != new for old, new in zip(before, owners(kind), strict=True))
    assert 0.7 < moved / len(KEYS) * 10 < 1.3


@ALGORITHMS
def test_equal_weights_get_equal_shares(arguments: dict[str, object]) -> None:
    keys = [b"user.%d" % number for number in range(20_000)]
    counts = Counter(owners(exchange_of(dict.fromkeys(range(1, 21), 1), arguments), keys))
    assert len(counts) == 20
    assert all(0.85 < count / 1000 < 1.15 for count in counts.values())


@ALGORITHMS
def test_shares_are_as_the_weights_say(arguments: dict[str, object]) -> None:
    weights = {1: 1, 2: 2, 3: 3, 4: 4, 5: 10}
    keys = [b"user.%d" % number for number in range(20_000)]
    counts = Counter(owners(exchange_of(weights, arguments), keys))
    for target, weight in weights.items():
        assert 0.9 < counts[target] / (1000 * weight) < 1.1


@ALGORITHMS
def test_the_heaviest_and_the_lightest_go_together(arguments: dict[str, object]) -> None:
    counts = Counter(owners(exchange_of({1: 10_000, 2: 10_000, 3: 1}, arguments)))
    assert 0.9 < counts[1] / counts[2] < 1.1 and counts[3] < 10


@ALGORITHMS
def test_a_queue_and_an_exchange_of_one_name_are_two(arguments: dict[str, object]) -> None:
    kind = ConsistentHash(arguments)
    kind.add(bound(1, 7, name="same"))
    kind.add(Binding(Uid(2), "/", "x", Destination.EXCHANGE, "same", b"1", b"", -8))
    assert set(owners(kind)) == {7, -8}


def test_a_second_binding_to_a_destination_is_ignored_with_a_warning() -> None:
    kind = exchange_of({7: 1, 8: 1}, {})
    before = owners(kind)
    assert kind.add(bound(9, 7, 1000)) == (
        "exchange 'x' in vhost '/' takes one binding from each destination: 'q7' keeps weight 1, "
        "and 1000 is ignored"
    )
    assert owners(kind) == before
    kind.remove(bound(9, 7, 1000))
    assert owners(kind) == before


def test_what_was_ignored_counts_when_the_older_binding_is_gone() -> None:
    kind = exchange_of({7: 1, 8: 1}, {})
    kind.add(bound(9, 7, 1000))
    kind.remove(bound(1, 7, 1))
    kind.add(bound(10, 7, 2))
    assert Counter(owners(kind))[7] > 0.9 * len(KEYS)
    kind.remove(bound(10, 7, 2))
    assert Counter(owners(kind))[7] > 0.9 * len(KEYS)
    kind.add(bound(11, 7, 1))
    kind.add(bound(12, 7, 1))
    kind.remove(bound(12, 7, 1))
    assert Counter(owners(kind))[7] > 0.9 * len(KEYS)


def test_the_router_hands_on_the_warning_once() -> None:
    steps = Steps()
    steps.exchange("x", HASH)
    steps.queue("q")
    steps.bind("x", "q", b"1")
    assert steps.router.take_warnings() == []
    steps.bind("x", "q", b"2")
    assert len(steps.router.take_warnings()) == 1
    assert steps.router.take_warnings() == []
    for number in range(3, 300):
        steps.bind("x", "q", b"%d" % number)
    assert len(steps.router.take_warnings()) == 100


@pytest.mark.parametrize("argument", ["hash-header", "x-hash-on"])
def test_a_header_is_hashed_in_place_of_the_key(argument: str) -> None:
    by_key = exchange_of(dict.fromkeys(range(1, 9), 1), {})
    kind = exchange_of(dict.fromkeys(range(1, 9), 1), {argument: "who"})
    for value in ("ann", "", "å", "\udcff"):
        encoded = value.encode("utf-8", "surrogateescape")
        assert matched(kind, b"any", {"who": value}) == matched(by_key, encoded)
        assert matched(kind, b"any", {"who": encoded}) == matched(by_key, encoded)
    assert matched(kind, b"any", {"other": "ann"}) == matched(by_key, b"")
    assert matched(kind, b"any") == matched(by_key, b"")


@pytest.mark.parametrize(
    ("value", "text"),
    [(17, b"17"), (True, b"true"), (None, b"undefined"), ([1], b"[{signedint,1}]"), (0.5, b"0.5")],
)
def test_a_header_that_is_no_text_is_hashed_as_it_is_shown(value: object, text: bytes) -> None:
    by_key = exchange_of(dict.fromkeys(range(1, 99), 1), {})
    kind = exchange_of(dict.fromkeys(range(1, 99), 1), {"hash-header": "n"})
    assert matched(kind, b"any", {"n": value}) == matched(by_key, text)


@pytest.mark.parametrize("name", ["message_id", "correlation_id", "timestamp"])
def test_a_property_is_hashed_in_place_of_the_key(name: str) -> None:
    by_key = exchange_of(dict.fromkeys(range(1, 99), 1), {})
    kind = exchange_of(dict.fromkeys(range(1, 99), 1), {"hash-property": name})
    assert matched(kind, b"any", None, **{name: b"1700000000"}) == matched(by_key, b"1700000000")
    assert matched(kind, b"any") == matched(by_key, b"")


def test_nothing_of_the_message_is_read_if_the_key_decides() -> None:
    content = FakeContent({"a": 1})
    found: set[int] = set()
    exchange_of({1: 1}, {}).match(b"k", content, found)
    assert found == {1} and content.asked == []


@pytest.mark.parametrize("key", [b"1", b"10000", b"+5", b"007", b"0000000010000"])
def test_weights_from_1_to_10000_are_taken(key: bytes) -> None:
    steps = Steps()
    steps.exchange("x", HASH)
    queue = steps.queue("q")
    assert isinstance(steps.bind("x", "q", key), Created)
    assert steps.route("x", b"k") == (queue.uid,)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (b"0", "The binding key must be greater than 0"),
        (b"-1", "The binding key must be greater than 0"),
        (b"-0", "The binding key must be greater than 0"),
        (b"000", "The binding key must be greater than 0"),
        (b"10001", "The binding key must not exceed 10000"),
        (b"9" * 255, "The binding key must not exceed 10000"),
        (b"", "The binding key must be an integer: <<>>"),
        (b"ten", 'The binding key must be an integer: <<"ten">>'),
        (b"1.5", 'The binding key must be an integer: <<"1.5">>'),
        (b" 1", 'The binding key must be an integer: <<" 1">>'),
        (b"1\n", "The binding key must be an integer: <<49,10>>"),
        (b"1_0", 'The binding key must be an integer: <<"1_0">>'),
        (b"+", 'The binding key must be an integer: <<"+">>'),
        (b"\xff", "The binding key must be an integer: <<255>>"),
        ("\u0661".encode(), "The binding key must be an integer: <<217,161>>"),
    ],
)
def test_other_binding_keys_are_refused(key: bytes, text: str) -> None:
    steps = Steps()
    steps.exchange("x", HASH)
    steps.queue("q")
    assert steps.refused(bind("x", "q", key)) == (406, text)
    assert steps.refused(link("x", "amq.fanout", key)) == (406, text)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"hash-header": "h", "hash-property": "message_id"},
            "hash-header and hash-property are mutually exclusive",
        ),
        (
            {"x-hash-on": "h", "hash-property": "message_id"},
            "hash-header and hash-property are mutually exclusive",
        ),
        ({"hash-property": "app_id"}, "Unsupported property: app_id"),
        ({"hash-property": ""}, "Unsupported property: "),
        ({"x-algorithm": "maglev"}, "Unsupported algorithm: maglev"),
        ({"x-algorithm": 1}, "invalid type 'signedint' for arg 'x-algorithm'"),
        ({"hash-header": True}, "invalid type 'bool' for arg 'hash-header'"),
        ({"x-hash-on": ["h"]}, "invalid type 'array' for arg 'x-hash-on'"),
        ({"hash-property": None}, "invalid type 'void' for arg 'hash-property'"),
    ],
)
def test_bad_arguments_of_the_exchange_are_refused(arguments: dict[str, object], text: str) -> None:
    assert Steps().refused(declare_exchange("x", HASH, arguments)) == (406, text)


def test_other_kinds_take_no_notice_of_these_arguments() -> None:
    assert Steps().exchange("x", "direct", {"x-algorithm": "maglev"}).name == "x"


@ALGORITHMS
def test_a_restart_leaves_every_key_where_it_was(arguments: dict[str, object]) -> None:
    steps = Steps()
    steps.exchange("x", HASH, arguments)
    for number in range(9):
        steps.queue(f"q{number}")
        steps.bind("x", f"q{number}", b"3")
    steps.bind("x", "q5", b"10000")
    steps.do(unbinding(bind("x", "q4", b"3")))
    before = [steps.route("x", key) for key in KEYS[:200]]
    fresh = Router("/")
    for subject in Metadata.restore(steps.machine.snapshot()).vhosts["/"].definitions():
        fresh.add(subject)
    assert [fresh.route("x", key).queues for key in KEYS[:200]] == before


def test_messages_go_on_through_an_exchange_that_has_the_key() -> None:
    steps = Steps()
    steps.exchange("x", HASH)
    near, far = steps.queue("near"), steps.queue("far")
    steps.bind("x", "near", b"5")
    steps.link("x", "amq.fanout", b"5")
    steps.bind("amq.fanout", "far")
    routes = {steps.route("x", key) for key in KEYS[:100]}
    assert routes == {(near.uid,), (far.uid,)}
