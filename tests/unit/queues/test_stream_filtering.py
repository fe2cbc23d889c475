"""Filter values of messages, and which of them a consumer wants."""

import pytest

from queues.message import FORMAT_091, FORMAT_10, Chunk
from queues.streams.filtering import StreamFilter, filter_value, parse_filter, values_of
from warren.storage.streams.chunk_format import bloom_of
from warren.wire.amqp091.deliver import build
from warren.wire.amqp091.fields import encode_table

EU = StreamFilter(frozenset({b"eu"}))
ALL = StreamFilter(frozenset({b"eu", b""}))


def message(value: object) -> bytes:
    """With that header x-stream-filter-value; None: with none."""
    headers: dict[str, object] = {"a": 1} if value is None else {"x-stream-filter-value": value}
    return build("", b"q", b"\x20\x00" + encode_table(headers), b"body")


def chunk_of(*values: object) -> Chunk:
    messages = [message(value) for value in values]
    places = [0]
    for each in messages:
        places.append(places[-1] + len(each))
    offsets = b"".join([place.to_bytes(4, "little") for place in places])
    return Chunk(FORMAT_091, b"".join(messages), 0, offsets, 0)


def test_values_are_those_of_the_header_and_empty_without_one() -> None:
    chunk = chunk_of("eu", None, "us", 7)
    assert [filter_value(chunk, index) for index in range(4)] == [b"eu", b"", b"us", b""]
    assert values_of([chunk]) == {b"eu", b"us", b""}
    assert values_of([chunk_of(None, None)]) == set()


def test_a_message_that_is_damaged_has_no_value() -> None:
    data = b"\x02\x00\x00\x00\x00\x00\x04x-stream-filter-value"
    offsets = bytes(4) + len(data).to_bytes(4, "little")
    assert filter_value(Chunk(FORMAT_10, data, 0, offsets, 0), 0) == b""


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
