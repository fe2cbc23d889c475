"""Arguments: their canonical bytes, how texts show them, and the table of queue arguments."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.definitions.arguments import (
    comparable,
    decode_arguments,
    encode_arguments,
    inequivalence,
    is_canonical,
    term,
    type_name,
)
from queues.definitions.queue_arguments import RULES, argument_fault, queue_type, redeclare_fault
from warren.wire.amqp091.fields import encode_table
from warren.wire.amqp091.values import (
    Float32,
    Int8,
    Int16,
    Int64,
    Timestamp,
    UInt8,
    UInt16,
    UInt32,
)

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
    st.binary().map(bytearray),
    st.integers(0, 255).map(UInt8),
    st.integers(0, (1 << 64) - 1).map(Timestamp),
    st.integers(-1000, 1000).map(Int64),
    st.decimals(-1000, 1000, places=3),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=10), values, max_size=6))
def test_the_order_of_arguments_does_not_show_in_their_bytes(table: dict[str, object]) -> None:
    data = encode_arguments(table)
    turned = encode_arguments(dict(reversed(table.items())))
    assert data == turned and is_canonical(data)
    assert encode_arguments(decode_arguments(data)) == data


def test_no_arguments_are_no_bytes() -> None:
    assert encode_arguments({}) == b"" and decode_arguments(b"") == {}
    assert is_canonical(b"") and not is_canonical(encode_table({}))
    assert not is_canonical(encode_table({"b": 1, "a": 2}))


@pytest.mark.parametrize(
    ("value", "name", "text"),
    [
        (True, "bool", "true"),
        (5, "signedint", "5"),
        (1 << 31, "long", "2147483648"),
        (Int64(5), "long", "5"),
        (Int8(-5), "byte", "-5"),
        (UInt8(5), "unsignedbyte", "5"),
        (Int16(5), "short", "5"),
        (UInt16(5), "unsignedshort", "5"),
        (UInt32(5), "unsignedint", "5"),
        (Timestamp(5), "timestamp", "5"),
        (Float32(0.5), "float", "0.5"),
        (0.5, "double", "0.5"),
        (Decimal("1.5"), "decimal", "1.5"),
        ("five", "longstr", '<<"five">>'),
        (b"\xff", "longstr", "<<255>>"),
        (bytearray(b"ab"), "binary", '<<"ab">>'),
        ({"a": 1}, "table", '[{<<"a">>,{signedint,1}}]'),
        ([1, "b"], "array", '[{signedint,1},{longstr,<<"b">>}]'),
        (None, "void", "undefined"),
    ],
)
def test_values_are_shown_with_rabbitmqs_names(value: object, name: str, text: str) -> None:
    assert (type_name(value), term(value)) == (name, text)


def test_values_compare_by_number_or_by_kind() -> None:
    assert comparable(1) == comparable(Int64(1)) == comparable(1.0)
    different: list[object] = [1, True, "1", b"1", bytearray(b"1"), [1], {"1": 1}, None]
    assert len({comparable(each) for each in different}) == len(different)


def test_a_difference_shows_the_kind_only_where_one_side_has_no_value() -> None:
    start = "inequivalent arg 'k' for thing: received "
    assert inequivalence("k", "thing", {"k": 1}, {"k": Int64(1)}) is None
    assert inequivalence("k", "thing", {}, {}) is None
    both = inequivalence("k", "thing", {"k": "a"}, {"k": 2})
    assert both == start + "'a' but current is '2'"
    one = inequivalence("k", "thing", {"k": True}, {})
    assert one == start + "the value 'true' of type 'bool' but current is none"


CLASSIC: dict[str, object] = {}
QUORUM: dict[str, object] = {"x-queue-type": "quorum"}
STREAM: dict[str, object] = {"x-queue-type": "stream"}
WITH_DLX: dict[str, object] = {"x-dead-letter-exchange": "dlx"}

BLOCKING: dict[str, object] = {**CLASSIC, "x-address-full-policy": "BLOCK"}

GOOD: list[tuple[dict[str, object], str, list[object]]] = [
    (CLASSIC, "x-queue-type", ["classic", "quorum", "stream"]),
    (CLASSIC, "x-queue-mode", ["default", "lazy"]),
    (CLASSIC, "x-queue-version", [1, 2, UInt8(2)]),
    (CLASSIC, "x-expires", [1, 315_360_000_000]),
    (CLASSIC, "x-message-ttl", [0, 1, Int64(60_000)]),
    (QUORUM, "x-max-length", [0, 5]),
    (STREAM, "x-max-length-bytes", [0, 5]),
    (CLASSIC, "x-overflow", ["drop-head", "reject-publish", "reject-publish-dlx"]),
    (QUORUM, "x-dead-letter-exchange", ["", "dlx"]),
    (WITH_DLX, "x-dead-letter-routing-key", ["", "key"]),
    (QUORUM, "x-dead-letter-strategy", ["at-most-once", "at-least-once"]),
    (CLASSIC, "x-max-priority", [0, 10, 255]),
    (QUORUM, "x-single-active-consumer", [True, False]),
    (CLASSIC, "x-consumer-timeout", [0, 1000]),
    (QUORUM, "x-consumer-disconnected-timeout", [0, 1000, 315_360_000_000]),
    (QUORUM, "x-delivery-limit", [-1, 0, 20]),
    (QUORUM, "x-delivery-limit-counts", ["failed", "returned"]),
    (QUORUM, "x-delayed-retry-type", ["disabled", "all", "failed", "returned"]),
    (QUORUM, "x-delayed-retry-min", [0, 5]),
    (QUORUM, "x-delayed-retry-max", [0, 5]),
    (QUORUM, "x-quorum-initial-group-size", [1, 5]),
    (STREAM, "x-initial-cluster-size", [1, 5]),
    (STREAM, "x-queue-leader-locator", ["client-local", "balanced", "min-masters"]),
    (STREAM, "x-member-placement-tag", ["zone"]),
    (STREAM, "x-max-age", ["5Y", "30D", "1h", "10s"]),
    (STREAM, "x-stream-max-segment-size-bytes", [0, 3_000_000_000]),
    (STREAM, "x-stream-filter-size-bytes", [16, 255]),
    (STREAM, "x-stream-offload", [True, False]),
    (STREAM, "x-stream-local-max-bytes", [0, 5]),
    (QUORUM, "x-max-in-memory-length", [0]),
    (QUORUM, "x-max-in-memory-length-bytes", [0]),
    (QUORUM, "x-max-in-memory-bytes", [0]),
    (CLASSIC, "x-consumer-window-size", [-1, 0, 1_048_576]),
    (QUORUM, "x-consumer-max-rate", [1, 1_000]),
    (CLASSIC, "x-redelivery-delay", [0, 5_000]),
    (QUORUM, "x-redelivery-delay-multiplier", [1, 1.5]),
    (CLASSIC, "x-max-delivery-attempts", [-1, 1, 10]),
    (CLASSIC, "x-redelivery-collision-avoidance-factor", [0, 0.5, 1]),
    (CLASSIC, "x-max-redelivery-delay", [0, 50_000]),
    (CLASSIC, "x-expiry-delay", [0, 10]),
    (QUORUM, "x-min-expiry-delay", [0, 10]),
    (CLASSIC, "x-max-expiry-delay", [0, 10]),
    (CLASSIC, "x-consumers-before-dispatch", [0, 3]),
    (QUORUM, "x-delay-before-dispatch", [-1, 0, 500]),
    (CLASSIC, "x-slow-consumer-threshold", [1, 100]),
    (QUORUM, "x-slow-consumer-check-period", [1, 5]),
    (CLASSIC, "x-slow-consumer-policy", ["NOTIFY", "KILL"]),
    (QUORUM, "x-id-cache-size", [0, 20_000]),
    (STREAM, "x-id-cache-size", [0, 20_000]),
    (CLASSIC, "x-last-value-key", ["symbol"]),
    (CLASSIC, "x-non-destructive", [True, False]),
    (CLASSIC, "x-group-buckets", [0, 1024]),
    (QUORUM, "x-ring-size", [1, 100]),
    (CLASSIC, "x-max-size-bytes", [-1, 1_048_576]),
    (QUORUM, "x-max-size-messages", [-1, 10]),
    (CLASSIC, "x-address-full-policy", ["PAGE", "BLOCK", "DROP", "FAIL"]),
    (BLOCKING, "x-max-size-bytes-reject-threshold", [-1, 10]),
    (CLASSIC, "x-page-limit-bytes", [-1, 10]),
    (QUORUM, "x-page-limit-messages", [-1, 10]),
    (CLASSIC, "x-page-full-policy", ["DROP", "FAIL"]),
    (QUORUM, "x-producer-max-rate", [-1, 10]),
    (QUORUM, "x-producer-window-size", [-1, 1024, 1 << 40]),
    (CLASSIC, "x-amqp-credits", [1, 100]),
    (QUORUM, "x-amqp-low-credits", [0, 30]),
    (CLASSIC, "x-enable-ingress-timestamp", [True, False]),
]

BAD: list[tuple[dict[str, object], str, object, str]] = [
    (CLASSIC, "x-queue-type", "lifo", "\"unsupported queue type 'lifo'\""),
    (CLASSIC, "x-queue-type", 5, "{unacceptable_type,signedint}"),
    (CLASSIC, "x-queue-mode", "hasty", "\"unsupported queue mode 'hasty'\""),
    (CLASSIC, "x-queue-version", 3, "{unsupported_queue_version,3}"),
    (CLASSIC, "x-expires", 0, "{value_zero,0}"),
    (CLASSIC, "x-expires", -1, "{value_negative,-1}"),
    (CLASSIC, "x-expires", 315_360_000_001, "{value_too_large,315360000001}"),
    *[
        (QUORUM, "x-consumer-disconnected-timeout", value, reason)
        for value, reason in [
            (-1, "{value_negative,-1}"),
            ("1000", "{unacceptable_type,longstr}"),
            (1 << 40, "{value_too_large,1099511627776}"),
        ]
    ],
    (QUORUM, "x-message-ttl", 1 << 40, "{value_too_large,1099511627776}"),
    (CLASSIC, "x-dead-letter-exchange", "x" * 256, "{max_value_exceeded,256}"),
    (CLASSIC, "x-expires", "5", "{unacceptable_type,longstr}"),
    (CLASSIC, "x-expires", True, "{unacceptable_type,bool}"),
    (CLASSIC, "x-expires", Timestamp(5), "{unacceptable_type,timestamp}"),
    (CLASSIC, "x-message-ttl", -1, "{value_negative,-1}"),
    (CLASSIC, "x-message-ttl", 1.0, "{unacceptable_type,double}"),
    (CLASSIC, "x-max-length", -5, "{value_negative,-5}"),
    (CLASSIC, "x-max-length-bytes", None, "{unacceptable_type,void}"),
    (CLASSIC, "x-overflow", "explode", "invalid_overflow"),
    (CLASSIC, "x-overflow", 1, "{unacceptable_type,signedint}"),
    (CLASSIC, "x-dead-letter-exchange", 1, "{unacceptable_type,signedint}"),
    (CLASSIC, "x-dead-letter-routing-key", "key", "routing_key_but_no_dlx_defined"),
    (WITH_DLX, "x-dead-letter-routing-key", 1, "{unacceptable_type,signedint}"),
    (QUORUM, "x-dead-letter-strategy", "maybe", "invalid_dlx_strategy"),
    (CLASSIC, "x-max-priority", 256, "{max_value_exceeded,256}"),
    (CLASSIC, "x-max-priority", -1, "{value_negative,-1}"),
    (CLASSIC, "x-single-active-consumer", 1, "{unacceptable_type,signedint}"),
    (QUORUM, "x-delivery-limit", "20", "{unacceptable_type,longstr}"),
    (QUORUM, "x-delayed-retry-type", "some", "invalid_delayed_retry_type"),
    (QUORUM, "x-quorum-initial-group-size", 0, "{value_zero,0}"),
    (CLASSIC, "x-queue-leader-locator", "mars", "invalid_queue_locator_arg"),
    (STREAM, "x-max-age", "5 days", "invalid_max_age"),
    (STREAM, "x-max-age", "h", "invalid_max_age"),
    (STREAM, "x-stream-max-segment-size-bytes", 3_000_000_001, "{max_value_exceeded,3000000001}"),
    (STREAM, "x-stream-filter-size-bytes", 256, "{max_value_exceeded,256}"),
    (STREAM, "x-stream-filter-size-bytes", 15, "{value_too_small,15}"),
]


@pytest.mark.parametrize(("others", "name", "goods"), GOOD)
def test_good_queue_arguments_are_taken(
    others: dict[str, object], name: str, goods: list[object]
) -> None:
    for value in goods:
        assert argument_fault("queue 'q' in vhost '/'", {**others, name: value}) is None


@pytest.mark.parametrize(("others", "name", "value", "reason"), BAD)
def test_bad_queue_arguments_are_refused_with_a_reason(
    others: dict[str, object], name: str, value: object, reason: str
) -> None:
    subject = "queue 'q' in vhost '/'"
    expected = f"invalid arg '{name}' for {subject}: {reason}"
    assert argument_fault(subject, {**others, name: value}) == expected


def test_every_rule_of_the_table_has_a_good_value() -> None:
    assert {rule.name for rule in RULES} <= {name for _, name, _ in GOOD}


def test_an_argument_of_another_queue_type_is_refused() -> None:
    subject = "queue 'q' in vhost '/'"
    for others, name, value, kind in (
        (QUORUM, "x-max-priority", 5, "quorum"),
        (CLASSIC, "x-delivery-limit", 5, "classic"),
        (STREAM, "x-expires", 5, "stream"),
    ):
        expected = f"invalid arg '{name}' for {subject} of queue type rabbit_{kind}_queue"
        assert argument_fault(subject, {**others, name: value}) == expected


def test_arguments_that_no_rule_knows_are_taken() -> None:
    arguments: dict[str, object] = {"x-mine": [1], "mine": None, "x-queue-type": "classic"}
    assert argument_fault("q", arguments) is None and queue_type(arguments) == "classic"
    assert redeclare_fault("q", arguments, {}) is None
