"""Messages of a stream taken apart for columns."""

import struct
from dataclasses import replace
from itertools import accumulate

import pytest

from warren.client import Message
from warren.wire.amqp10.rows import NotOfStream, StreamRows
from warren.wire.amqp10.transfers import Transfers, store
from warren.wire.amqp10.values import ULong

OFFSET = "x-stream-offset"


def run_of(payloads: list[bytes]) -> Transfers:
    """As the connection finds them."""
    stored = [store(each) for each in payloads]
    offsets = list(accumulate(map(len, stored), initial=0))
    table = struct.pack(f"<{len(offsets)}I", *offsets)
    return Transfers(0, 0, 1, True, 0, b"".join(stored), table, [0], [0])


def encoded(first: int, messages: list[Message]) -> list[bytes]:
    """With the offsets that the broker adds, behind the annotations of the message."""
    return [
        replace(each, annotations={**each.annotations, OFFSET: ULong(offset)}).encode()
        for offset, each in enumerate(messages, first)
    ]


def test_sections_that_are_alike_are_kept_once() -> None:
    rows = StreamRows()
    named = Message(b"b", message_id="m", annotations={"x-a": 1})
    messages = [Message(b"a"), named, replace(named, body=b"c"), Message(b"d", message_id="n")]
    run = run_of(encoded(250, messages))
    assert rows.add(run, 1000) == 4
    assert rows.offsets == [250, 251, 252, 253]
    assert rows.bodies == [b"a", b"b", b"c", b"d"]
    assert rows.header.places == [0, 0, 0, 0]
    assert rows.annotations.places == [0, 1, 1, 0]
    assert rows.properties.places == [0, 1, 1, 2]
    assert rows.application_properties.samples == [b""]


def test_messages_behind_the_end_are_left_out() -> None:
    rows = StreamRows()
    run = run_of(encoded(5, [Message(b"aa"), Message("odd"), Message(b"cc")]))
    assert rows.add(run, 6) == 1
    assert (rows.offsets, rows.bodies, rows.odd, rows.size) == ([5], [b"aa"], {}, 2)
    assert rows.add(run, 5) == 0


@pytest.mark.parametrize(
    "payload",
    [
        Message(b"x").encode(),
        Message(b"x", annotations={"x-other": 1}).encode(),
        Message(b"x", annotations={OFFSET: "5"}).encode(),
        Message(b"x", annotations={OFFSET: ULong(1)}).encode()[:-1],
        b"",
        b"garbage",
    ],
)
def test_a_message_without_an_offset_is_not_of_a_stream(payload: bytes) -> None:
    with pytest.raises(NotOfStream):
        StreamRows().add(run_of([payload]), 10)
