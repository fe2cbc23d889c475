"""Runs of messages that were published by AMQP 1.0, as AMQP 0-9-1 stores them."""

from itertools import accumulate

import pytest

from queues.conversion.chunks import in_form_1, names_for, names_of
from queues.message import FORMAT_091, FORMAT_10, Chunk
from tests.unit.queues.messages import bodies_of
from warren.wire.amqp091.deliver import extract
from warren.wire.amqp10.codec.values import Described, ULong
from warren.wire.amqp10.codec.writer import encode_value
from warren.wire.amqp10.transfers import store


def test_each_message_of_the_run_has_the_names_of_its_chunk() -> None:
    bodies = [b"one", b"", b"three"]
    messages = [store(encode_value(Described(ULong(0x75), body))) for body in bodies]
    base = 7
    table = [base, *accumulate(map(len, messages), initial=base)][1:]
    offsets = b"".join(place.to_bytes(4, "little") for place in table)
    names = names_for("ex", b"a.\xff")
    chunk = Chunk(FORMAT_10, b"".join(messages), base, offsets, 1, names)
    shown = in_form_1(chunk, 1, 2)
    assert (int(shown.format_tag), int(shown.info)) == (FORMAT_091, 1)
    assert shown.data is not None
    found = [extract(message, 0, len(message)) for message in bodies_of(shown)]
    assert [(exchange, key, body) for exchange, key, _, body in found] == [
        ("ex", b"a.\xff", b""),
        ("ex", b"a.\xff", b"three"),
    ]


def test_names_come_back_as_they_went_and_long_ones_are_refused() -> None:
    assert names_of(names_for("", b"")) == ("", b"")
    assert names_of(names_for("x" * 255, b"\0" * 255)) == ("x" * 255, b"\0" * 255)
    with pytest.raises(ValueError, match="255"):
        names_for("ü" * 128, b"")
    with pytest.raises(ValueError, match="255"):
        names_for("", bytes(256))
