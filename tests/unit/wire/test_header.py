"""Which protocol the first eight bytes choose."""

import pytest

from warren.wire.amqp091.header import HEADER_091, Protocol, negotiate


@pytest.mark.parametrize(
    ("header", "protocol"),
    [
        (b"AMQP\x00\x00\x09\x01", Protocol.AMQP_091),
        (b"AMQP\x01\x01\x00\x09", Protocol.AMQP_091),
        (b"AMQP\x00\x01\x00\x00", Protocol.AMQP_10),
        (b"AMQP\x03\x01\x00\x00", Protocol.AMQP_10_SASL),
        (b"AMQP\x02\x01\x00\x00", Protocol.AMQP_10),
        (b"AMQP\x00\x00\x08\x00", Protocol.UNKNOWN),
        (b"GET / HT", Protocol.UNKNOWN),
        (b"\x16\x03\x01\x00\xff\x01\x00\x00", Protocol.UNKNOWN),
    ],
)
def test_eight_bytes_decide_the_protocol(header: bytes, protocol: Protocol) -> None:
    assert negotiate(header) is protocol
    assert negotiate(header + b"more") is protocol


def test_a_header_is_undecided_up_to_its_last_byte() -> None:
    for size in range(8):
        assert negotiate(HEADER_091[:size]) is Protocol.UNDECIDED


def test_what_cannot_become_a_header_is_unknown_at_once() -> None:
    assert negotiate(b"G") is Protocol.UNKNOWN
    assert negotiate(b"AMQP\x07") is Protocol.UNKNOWN
