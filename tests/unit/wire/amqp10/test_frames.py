"""The frame layer: sizes, heads, heartbeats, and every wrong one."""

import pytest

from tests.unit.wire.amqp10.messages import frame
from warren.wire.amqp10.codec.frames import AMQP, FRAME_HEAD, SASL, FrameScanner
from warren.wire.amqp10.errors import Condition, ProtocolError, Scope


def test_a_frame_is_found_where_it_begins() -> None:
    scanner = FrameScanner()
    data = b"xyz" + frame(b"body", 258)
    assert scanner.scan(data, 3)
    assert (scanner.kind, scanner.channel) == (AMQP, 258)
    assert data[scanner.body_at : scanner.end] == b"body"
    assert scanner.end == len(data)


def test_an_empty_frame_is_a_heartbeat() -> None:
    scanner = FrameScanner()
    assert scanner.scan(frame(b""), 0)
    assert scanner.body_at == scanner.end


def test_an_extended_header_is_passed_over() -> None:
    scanner = FrameScanner()
    assert scanner.scan(b"\x00\x00\x00\x0e\x03\x01\xff\xffxxxxok", 0)
    assert (scanner.kind, scanner.channel, scanner.body_at) == (SASL, 0xFFFF, 12)


def test_every_split_says_how_much_is_needed() -> None:
    data = frame(b"body")
    scanner = FrameScanner()
    for there in range(len(data)):
        assert not scanner.scan(data[:there], 0)
        assert scanner.end == (FRAME_HEAD if there < FRAME_HEAD else len(data))
    assert scanner.scan(data, 0)


@pytest.mark.parametrize(
    ("head", "text"),
    [
        ("00000008 01 00 0000", "a frame of 8 bytes whose body begins at word 1"),
        ("00000008 03 00 0000", "a frame of 8 bytes whose body begins at word 3"),
        ("00000007 02 00 0000", "a frame of 7 bytes whose body begins at word 2"),
        ("00000000 00 00 0000", "a frame of 0 bytes whose body begins at word 0"),
        ("00000008 02 02 0000", "unknown frame type 2"),
        ("00000201 02 00 0000", "a frame of 513 bytes, where 512 are allowed"),
        ("ffffffff 02 00 0000", "a frame of 4294967295 bytes, where 512 are allowed"),
        ("414d5150 03 01 0000", "a frame of 1095586128 bytes, where 512 are allowed"),
    ],
)
def test_a_wrong_head_is_a_framing_error_before_the_frame_is_whole(head: str, text: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        FrameScanner().scan(bytes.fromhex(head), 0)
    assert caught.value.condition == Condition.FRAMING_ERROR
    assert (caught.value.text, caught.value.scope) == (text, Scope.CONNECTION)


def test_the_largest_frame_is_taken() -> None:
    data = frame(bytes(1016))
    assert FrameScanner(1024).scan(data, 0)
    with pytest.raises(ProtocolError):
        FrameScanner(1023).scan(data, 0)
