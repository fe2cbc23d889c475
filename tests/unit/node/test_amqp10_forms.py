"""Messages of AMQP 0-9-1 as a consumer of AMQP 1.0 gets them, remembered or converted."""

import pytest

from node.amqp10.forms import COST_MAX, COUNT_MAX, KNOWN_MAX, Forms, converted
from queues.conversion.costs import CONVERTED, REPEATED
from queues.message import FORMAT_091, FORMAT_10, Chunk
from queues.queue_host import View
from warren.wire.amqp091.deliver import build
from warren.wire.amqp091.properties import BasicProperties
from warren.wire.amqp10.codec.message import Sections
from warren.wire.amqp10.sender import Run
from warren.wire.amqp10.transfers import payload_at, store

SECTIONS = b"\x00\x53\x77\xa1\x01v"  # a value, encoded
PLENTY = 1 << 20
BAD_HEADERS = b"\x20\x00\x00\x00\x00\x04\xff\xff\xff\xff"


def message(body: bytes, properties: bytes = b"\x00\x00", key: bytes = b"k") -> bytes:
    return build("ex", key, properties, body)


def chunk_of(messages: list[bytes], format_tag: int = FORMAT_091, names: bytes = b"") -> Chunk:
    places = [sum(map(len, messages[:count])) for count in range(len(messages) + 1)]
    offsets = b"".join(place.to_bytes(4, "little") for place in places)
    return Chunk(format_tag, b"".join(messages), 0, offsets, 0, names)


def put(forms: Forms, chunk: Chunk, *limits: int) -> Run:
    """All of the chunk, as far as the run takes it at once."""
    count = len(chunk.offsets) // 4 - 1
    run = Run(1, 1, count, False)
    forms.put(run, View(chunk, 0, 1, count), *limits)
    return run


def payloads(run: Run) -> list[bytes]:
    """The sections of each message that is ready."""
    found = []
    for place in range(int(run.ready)):
        start, end = (
            int.from_bytes(run.offsets[4 * at : 4 * at + 4], "little") - run.base
            for at in (run.index + place, run.index + place + 1)
        )
        found.append(run.data[payload_at(run.data, start) : end])
    return found


@pytest.mark.parametrize(
    "properties",
    [
        b"\x00\x00",
        BasicProperties(message_id="m", headers={"a": 1, "x-b": "c"}).encode(),
        BasicProperties(type="amqp-1.0").encode(),
        BasicProperties(type="other", delivery_mode=2, priority=9).encode(),
        BAD_HEADERS,
    ],
)
def test_what_is_remembered_is_what_a_conversion_gives(properties: bytes) -> None:
    bodies = [b"", b"x", bytes(255), bytes(256), SECTIONS, b"x"]
    messages = [message(body, properties) for body in bodies]
    expected = [converted(each, 0, len(each), "ex", b"k") for each in messages]
    found = payloads(put(Forms(), chunk_of(messages)))
    assert found == expected
    assert all(Sections().walk(each, 0, len(each)) for each in found)


def test_more_ways_than_are_remembered_are_told_apart() -> None:
    forms = Forms()
    keys = [b"%d" % number for number in range(2 * KNOWN_MAX)]
    for _ in range(2):
        found = payloads(put(forms, chunk_of([message(b"", key=key) for key in keys]), PLENTY))
        for key, each in zip(keys, found, strict=True):
            assert b"x-routing-key\xa1" + bytes((len(key),)) + key in each


def test_large_messages_are_converted_a_few_at_a_time() -> None:
    messages = [message(bytes(COST_MAX)) for _ in range(3)]
    assert put(Forms(), chunk_of(messages)).ready == 1


def test_small_messages_are_converted_as_few_at_a_time_as_their_conversion_costs() -> None:
    forms = Forms()
    alike = put(forms, chunk_of([message(b"x")] * 1000))
    assert alike.ready == COUNT_MAX
    assert alike.cost == CONVERTED + (COUNT_MAX - 1) * REPEATED
    others = [message(b"x", key=b"%d" % number) for number in range(1000)]
    found = put(forms, chunk_of(others))
    assert found.ready == COST_MAX // CONVERTED
    assert found.cost == COST_MAX


def test_messages_of_amqp_10_go_as_they_came_with_their_route_in_front() -> None:
    stored = store(SECTIONS)
    run = put(Forms(), chunk_of([stored, stored], FORMAT_10, b"\x02ex\x01k"))
    assert payloads(run) == [SECTIONS, SECTIONS]
    assert run.heads is not None
    head = run.heads.head(run.data, payload_at(run.data, 0), len(stored), 0, False)
    assert b"x-exchange\xa1\x02ex" in head
    assert b"x-routing-key\xa1\x01k" in head
