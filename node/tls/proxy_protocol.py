"""The header of the PROXY protocol: who the client behind a load balancer is. No I/O.

A connection from a proxy begins with it, before TLS and AMQP. `need` says how many bytes to read
next, never one too many, for what follows belongs to the client:

    header = ProxyHeader()
    while (count := header.need()) > 0:
        header.take(the next `count` bytes, or fewer)
    header.source                      # None: the connection is the proxy's own, or says nothing

Version 1 is a line of at most 107 bytes, `PROXY TCP4 10.0.0.1 10.0.0.2 40000 5672` with CR and LF.
Version 2: 12 bytes of signature, version and command (u8), family and transport (u8), size of the
rest (u16, big-endian), addresses and ports, and further values, which are skipped. What makes no
sense is a `BadProxyHeader`. Source: HAProxy's "The PROXY protocol", versions 1 and 2.
"""

import struct
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

from msgspec import Struct

SIGNATURE: Final = b"\r\n\r\n\x00\r\nQUIT\n"
FIRST_BYTES: Final = len(SIGNATURE)  # no header of version 1 is shorter
HEAD_BYTES: Final = 16  # of version 2
LINE_BYTES_MAX: Final = 107  # of version 1
REST_BYTES_MAX: Final = 4096  # of version 2: addresses and what else the proxy tells
LOCAL: Final = 0x20
PROXY: Final = 0x21
OVER_IPV4: Final = 0x11  # TCP
OVER_IPV6: Final = 0x21


class BadProxyHeader(Exception):
    """This is no header of the PROXY protocol."""


class Forwarded(Struct, frozen=True):
    """A connection as the proxy has it: from the client's address to the proxy's own."""

    source: tuple[str, int]
    destination: tuple[str, int]


class TrustedProxies:
    """Who may say so: hosts of these networks."""

    def __init__(self, networks: tuple[str, ...]) -> None:
        """ValueError: one of them is no network."""
        self._networks = [ip_network(each) for each in networks]

    def __contains__(self, host: str) -> bool:
        try:
            address = ip_address(host.partition("%")[0])
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None)
        return any((mapped or address) in network for network in self._networks)


class ProxyHeader:
    """See the module."""

    def __init__(self) -> None:
        self.source: Forwarded | None = None
        self._raw = b""
        self._is_done = False

    def need(self) -> int:
        """How many bytes are to be read next; 0: that was all."""
        if self._is_done:
            return 0
        if len(self._raw) < FIRST_BYTES:
            return FIRST_BYTES - len(self._raw)
        if not self._raw.startswith(SIGNATURE):
            return 1  # The end of the line is not known before it is there.
        return self._whole_bytes() - len(self._raw)

    def take(self, read: bytes) -> None:
        self._raw += read
        raw = self._raw
        if raw[:FIRST_BYTES] != SIGNATURE[: len(raw)] and not _begins_line(raw):
            raise BadProxyHeader("neither version 1 nor version 2")
        if len(raw) < FIRST_BYTES:
            return
        if not raw.startswith(SIGNATURE):
            self._take_line(raw)
        elif len(raw) >= HEAD_BYTES and len(raw) == self._whole_bytes():
            self._is_done = True
            self.source = _binary(raw)

    def _take_line(self, raw: bytes) -> None:
        if raw.endswith(b"\r\n"):
            self._is_done = True
            self.source = _line(raw[:-2])
        elif len(raw) >= LINE_BYTES_MAX:
            raise BadProxyHeader(f"a line of more than {LINE_BYTES_MAX} bytes")

    def _whole_bytes(self) -> int:
        """Of version 2, as far as it is known."""
        if len(self._raw) < HEAD_BYTES:
            return HEAD_BYTES
        (rest,) = struct.unpack_from(">H", self._raw, HEAD_BYTES - 2)
        if rest > REST_BYTES_MAX:
            raise BadProxyHeader(f"a header of more than {REST_BYTES_MAX} bytes")
        return HEAD_BYTES + int(rest)


def _begins_line(raw: bytes) -> bool:
    return raw[:6] == b"PROXY "[: len(raw)]


def _line(line: bytes) -> Forwarded | None:
    words = line.decode("ascii", "replace").split(" ")
    if words[1] == "UNKNOWN":
        return None
    if len(words) != 6 or words[1] not in ("TCP4", "TCP6"):
        raise BadProxyHeader("a line that is not: PROXY TCP4|TCP6 source destination port port")
    kind = IPv4Address if words[1] == "TCP4" else IPv6Address
    try:
        source, destination = str(kind(words[2])), str(kind(words[3]))
    except ValueError as error:
        raise BadProxyHeader(f"no address: {error}") from error
    return Forwarded((source, _port(words[4])), (destination, _port(words[5])))


def _port(word: str) -> int:
    if not (word.isascii() and word.isdigit() and len(word) <= 5 and int(word) <= 65535):
        raise BadProxyHeader("no port")
    return int(word)


def _binary(raw: bytes) -> Forwarded | None:
    command, family = raw[12], raw[13]
    if command == LOCAL:
        return None
    if command != PROXY:
        raise BadProxyHeader(f"version and command {command:#x}")
    if family == OVER_IPV4:
        form = ">4s4sHH"
    elif family == OVER_IPV6:
        form = ">16s16sHH"
    else:
        return None  # Of a kind that has no address for us.
    if len(raw) < HEAD_BYTES + struct.calcsize(form):
        raise BadProxyHeader("addresses that end too early")
    source, destination, port, other = struct.unpack_from(form, raw, HEAD_BYTES)
    return Forwarded((str(ip_address(source)), port), (str(ip_address(destination)), other))
