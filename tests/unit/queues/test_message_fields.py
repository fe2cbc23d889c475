"""Fields of messages as filters see them, from bytes of both protocols."""

import pytest

from queues.message import FORMAT_091, FORMAT_10, Chunk
from queues.selectors.message_fields import property_filter, selector_of
from queues.selectors.sql import parse_sql
from warren.wire.amqp091.deliver import build
from warren.wire.amqp091.fields import encode_table
from warren.wire.amqp10.codec.values import (
    Byte,
    Described,
    Float32,
    Int,
    Short,
    UByte,
    UInt,
    ULong,
    UShort,
)
from warren.wire.amqp10.codec.writer import encode_value
from warren.wire.amqp10.transfers import store

DATA = encode_value(Described(ULong(0x75), b"body"))


def chunk_of(messages: list[bytes], format_tag: int) -> Chunk:
    places = [0]
    for each in messages:
        places.append(places[-1] + len(each))
    offsets = b"".join([place.to_bytes(4, "little") for place in places])
    return Chunk(format_tag, b"".join(messages), 0, offsets, 0)


def with_properties(*messages: dict[str, object]) -> Chunk:
    stored = [
        store(encode_value(Described(ULong(0x74), properties)) + DATA) for properties in messages
    ]
    return chunk_of(stored, FORMAT_10)


def selected(text: str, chunk: Chunk) -> list[bool]:
    selector = selector_of([parse_sql(text)], lambda: 0)
    assert selector is not None
    return [selector(chunk, index) for index in range(chunk.count())]


@pytest.mark.parametrize(
    "number",
    [
        *(-(1 << 63), -(1 << 31) - 1, (1 << 63) - 1, -1, 0, 127, 128, -128, -129),
        *(Int(-(1 << 31)), Int(-1), Int(0), Int(127), Int(128), Int((1 << 31) - 1)),
        *(Byte(-1), Short(-300), UByte(255), UShort(65535)),
        *(UInt(0), UInt(255), UInt((1 << 32) - 1), ULong(0), ULong(7), ULong((1 << 64) - 1)),
        *(2.5, Float32(0.5)),
    ],
)
def test_numbers_of_all_types_compare_by_their_value(number: int | float) -> None:
    chunk = with_properties({"other": 1, "n": number})
    assert selected(f"n = {number!r}", chunk) == [True]
    assert selected(f"n > {number!r} - 1 AND n < {number!r} + 1", chunk) == [True]
    wanted = selector_of([property_filter("application_properties", {"n": number})], lambda: 0)
    assert wanted is not None
    assert wanted(chunk, 0)


def test_each_message_has_its_own_fields() -> None:
    chunk = with_properties({"n": 107}, {"m": 107}, {"n": 207, "m": 0}, {}, {"nn": 107})
    assert selected("n > 10 AND n % 100 = 7", chunk) == [True, False, True, False, False]
    assert selected("n IS NULL", chunk) == [False, True, False, True, True]
    assert selected("n IS NULL OR n + n = 414", chunk) == [False, True, True, True, True]


def test_names_of_one_length_are_not_confused() -> None:
    chunk = with_properties({"ab": "x", "ba": "y"}, {"ba": "x"})
    assert selected("ab = 'x'", chunk) == [True, False]
    assert selected("ba = 'x' OR ba = 'y'", chunk) == [True, True]


def test_headers_of_amqp_0_9_1_are_application_properties() -> None:
    headers: list[dict[str, object]] = [{"n": 107}, {"n": 8}, {}]
    messages = [build("", b"q", b"\x20\x00" + encode_table(each), b"body") for each in headers]
    chunk = chunk_of(messages, FORMAT_091)
    assert selected("n > 10 AND n % 100 = 7", chunk) == [True, False, False]
    assert selected("n IS NULL", chunk) == [False, False, True]
