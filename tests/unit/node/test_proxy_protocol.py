"""Headers of the PROXY protocol: both versions, byte by byte, and everything that is none."""

import struct
from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.tls.proxy_protocol import (
    SIGNATURE,
    BadProxyHeader,
    Forwarded,
    ProxyHeader,
    TrustedProxies,
)

V4 = Forwarded(("203.0.113.7", 40000), ("10.0.0.2", 5672))
V6 = Forwarded(("2001:db8::7", 1), ("2001:db8::1", 65535))
LINE4 = b"PROXY TCP4 203.0.113.7 10.0.0.2 40000 5672\r\n"
LINE6 = b"PROXY TCP6 2001:db8::7 2001:db8::1 1 65535\r\n"
REST = b"AMQP\x00\x00\x09\x01"


def binary(forwarded: Forwarded | None, command: int = 0x21, family: int = -1) -> bytes:
    """A header of version 2."""
    addresses = b""
    kind = 0
    if forwarded is not None:
        pair = [ip_address(each[0]) for each in (forwarded.source, forwarded.destination)]
        kind = 0x11 if pair[0].version == 4 else 0x21
        ports = struct.pack(">HH", forwarded.source[1], forwarded.destination[1])
        addresses = pair[0].packed + pair[1].packed + ports
    kind = kind if family < 0 else family
    return SIGNATURE + bytes((command, kind)) + struct.pack(">H", len(addresses)) + addresses


def read(header: bytes, slice_bytes: int = 4096) -> tuple[Forwarded | None, bytes]:
    """What it says, and what is left for the client's protocol."""
    reader = ProxyHeader()
    left = header
    while (count := reader.need()) > 0:
        taken = left[: min(count, slice_bytes)]
        assert taken, "the header wants more than there is"
        reader.take(taken)
        left = left[len(taken) :]
    return reader.source, left


@pytest.mark.parametrize(
    ("header", "source"),
    [
        (LINE4, V4),
        (LINE6, V6),
        (b"PROXY UNKNOWN\r\n", None),
        (b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", None),
        (binary(V4), V4),
        (binary(V6), V6),
        (binary(V4, command=0x20), None),  # the proxy asks for itself
        (binary(None, command=0x20), None),
        (binary(None), None),
        (binary(V4, family=0x31), None),  # a socket of its machine
    ],
)
def test_a_header_says_who_the_client_is_and_takes_nothing_of_it(
    header: bytes, source: Forwarded | None
) -> None:
    for slice_bytes in (1, 5, 4096):
        assert read(header + REST, slice_bytes) == (source, REST)


def test_further_values_of_the_proxy_are_passed_over() -> None:
    more = b"\x04\x00\x03abc"
    raw = binary(V4)
    longer = raw[:14] + struct.pack(">H", len(raw) - 16 + len(more)) + raw[16:] + more
    assert read(longer + REST) == (V4, REST)


@pytest.mark.parametrize(
    "wrong",
    [
        b"AMQP\x00\x00\x09\x01    ",
        b"GET / HTTP/1.1\r\n",
        b"PROXY TCP4 1.2.3.4 5.6.7.8 1\r\n",
        b"PROXY TCP4 1.2.3.4 5.6.7.8 1 65536\r\n",
        b"PROXY TCP4 1.2.3.4 5.6.7.8 -1 2\r\n",
        b"PROXY TCP4 1.2.3 5.6.7.8 1 2\r\n",
        b"PROXY TCP4 ::1 ::1 1 2\r\n",
        b"PROXY TCP5 1.2.3.4 5.6.7.8 1 2\r\n",
        b"PROXY  TCP4 1.2.3.4 5.6.7.8 1\r\n",
        b"PROXY " + b"x" * 120,
        binary(V4, command=0x11),
        binary(V4, command=0x22),
        SIGNATURE + b"\x21\x11\x00\x04abcd",
        SIGNATURE + b"\x21\x11\xff\xff",
    ],
)
def test_what_is_no_header_is_refused(wrong: bytes) -> None:
    with pytest.raises(BadProxyHeader):
        read(wrong)


@given(st.binary(max_size=130))
def test_any_bytes_are_a_header_or_bad_and_never_read_past(raw: bytes) -> None:
    reader = ProxyHeader()
    left = raw
    try:
        while (count := reader.need()) > 0 and left:
            assert count <= 4096
            reader.take(left[:count])
            left = left[count:]
    except BadProxyHeader:
        return


@pytest.mark.parametrize(
    ("host", "is_trusted"),
    [
        ("10.1.2.3", True), ("::ffff:10.1.2.3", True), ("11.0.0.1", False), ("2001:db8::1", True),
        ("2001:db9::1", False), ("unknown", False), ("192.0.2.5", True), ("192.0.2.6", False),
    ],
)  # fmt: skip
def test_only_hosts_of_the_trusted_networks_may_say_so(host: str, is_trusted: bool) -> None:
    trusted = TrustedProxies(("10.0.0.0/8", "2001:db8::/32", "192.0.2.5"))
    assert (host in trusted) is is_trusted
