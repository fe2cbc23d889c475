"""Filter values of messages, and which of them a consumer wants."""

import pytest

from queues.message import FORMAT_091, FORMAT_10, Chunk
from queues.streams.filtering import StreamFilter, filter_value, parse_filter, values_of
from warren.storage.streams.chunk_format import bloom_of
from warren.wire.amqp091.deliver import build
from warren.wire.amqp091.fields import encode_table
from warren.wire.amqp10.transfers import store

EU = StreamFilter(frozenset({b"eu"}))
ALL = StreamFilter(frozenset({b"eu", b""}))


def message(value: object) -> bytes:
    """With that header x-stream-filter-value; None: with none."""
    headers: dict[str, object] = {"a": 1} if value is None else {"x-stream-filter-value": value}
    return build("", b"q", b"\x20\x00" + encode_table(headers), b"body")


def chunk_of(*values: object) -> Chunk:
    return chunk_in(FORMAT_091, [message(value) for value in values])


def chunk_in(format_tag: int, messages: list[bytes]) -> Chunk:
    places = [0]
    for each in messages:
        places.append(places[-1] + len(each))
    offsets = b"".join([place.to_bytes(4, "little") for place in places])
    return Chunk(format_tag, b"".join(messages), 0, offsets, 0)


def test_values_are_those_of_the_header_and_empty_without_one() -> None:
    chunk = chunk_of("eu", None, "us", 7)
    assert [filter_value(chunk, index) for index in range(4)] == [b"eu", b"", b"us", b""]
    assert values_of([chunk]) == {b"eu", b"us", b""}
    assert values_of([chunk_of(None, None)]) == set()


def test_a_message_that_is_damaged_has_no_value() -> None:
    data = b"\x02\x00\x00\x00\x00\x00\x04x-stream-filter-value"
    offsets = bytes(4) + len(data).to_bytes(4, "little")
    assert filter_value(Chunk(FORMAT_10, data, 0, offsets, 0), 0) == b""


KEY = b"x-stream-filter-value"
PLAIN = store(b"\x00\x53\x75\xa0\x15" + KEY)  # The key is its body.
EU_MAP = b"\xc1\x1c\x02\xa3\x15" + KEY + b"\xa1\x02eu"
HEADER = b"\x00\x53\x70\x45"


@pytest.mark.parametrize("before", [b"", HEADER, b"\x00\x53\x71\xc1\x01\x00"])
@pytest.mark.parametrize("descriptor", [b"\x53\x72", b"\x80" + b"\x72".rjust(8, b"\x00")])
def test_a_value_is_found_among_messages_without_one(before: bytes, descriptor: bytes) -> None:
    annotated = store(before + b"\x00" + descriptor + EU_MAP + b"\x00\x53\x75\xa0\x00")
    plain = [PLAIN, store(HEADER + b"\x00\x53\x75\xa0\x00")]
    assert values_of([chunk_in(FORMAT_10, plain)]) == set()
    assert values_of([chunk_in(FORMAT_10, [*plain, annotated])]) == {b"", b"eu"}


def test_a_key_in_a_body_of_amqp_091_is_no_value() -> None:
    plain = build("", b"q", b"\x00\x00", KEY)
    assert values_of([chunk_in(FORMAT_091, [plain, message(None)])]) == set()
    assert values_of([chunk_in(FORMAT_091, [plain, message("eu")])]) == {b"", b"eu"}


def test_runs_of_wanted_messages_are_found_in_order() -> None:
    chunk = chunk_of("us", "eu", "eu", None, "eu")
    assert EU.run_in(chunk, 0, 9) == (1, 2)
    assert EU.run_in(chunk, 0, 1) == (1, 0)
    assert EU.run_in(chunk, 2, 9) == (2, 1)
    assert EU.run_in(chunk, 3, 9) == (4, 1)
    assert ALL.run_in(chunk, 0, 9) == (1, 4)
    assert EU.run_in(chunk_of("us"), 0, 9) == (1, 0)


@pytest.mark.parametrize(
    ("values", "by_eu", "by_all"),
    [(["eu", "us"], True, True), (["us"], False, False), (["us", None], False, True)],
)
def test_chunks_are_wanted_by_their_bloom_filter(
    values: list[str | None], by_eu: bool, by_all: bool
) -> None:
    bloom = bloom_of(values_of([chunk_of(*values)]), 255)
    assert EU.wants_chunk(bloom) == by_eu
    assert ALL.wants_chunk(bloom) == by_all


def test_a_chunk_without_values_is_wanted_by_who_takes_unfiltered_messages() -> None:
    assert not EU.wants_chunk(b"")
    assert ALL.wants_chunk(b"")


@pytest.mark.parametrize(
    ("values", "match_unfiltered", "found"),
    [
        ("eu", False, EU),
        (["eu"], None, EU),
        (["eu"], True, ALL),
        (7, False, None),
        (["eu", 7], False, None),
        (["v"] * 1025, False, None),
    ],
)
def test_a_filter_is_parsed_or_refused(
    values: object, match_unfiltered: object, found: StreamFilter | None
) -> None:
    assert parse_filter(values, match_unfiltered) == found
