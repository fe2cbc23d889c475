"""Addresses of AMQP 1.0 termini, version 2.

    /queues/:queue                        source or target: the queue of that name
    /exchanges/:exchange/:routing-key     target
    /exchanges/:exchange                  target; the routing key is empty

Each part is percent-encoded by RFC 3986. The default exchange has no address: its queues have.
"""

from typing import Final
from urllib.parse import quote, unquote_to_bytes

from msgspec import Struct

from warren.wire.amqp10.errors import Condition, ProtocolError, Scope

QUEUES: Final = "/queues/"
EXCHANGES: Final = "/exchanges/"
HEX: Final = frozenset("0123456789abcdefABCDEF")


class Target(Struct, frozen=True):
    """Where messages go: exchange "" and the queue's name for a queue."""

    exchange: str
    routing_key: bytes
    queue: str | None = None  # the one that was named


def queue_address(name: str) -> str:
    """The address of the queue."""
    return QUEUES + quote(name, safe="")


def parse_source(address: object) -> str:
    """The queue to consume from. ProtocolError amqp:invalid-field, for the link."""
    if not isinstance(address, str) or not address.startswith(QUEUES):
        raise malformed(address)
    return _queue(address)


def parse_target(address: object) -> Target:
    """Where to publish to; not for the anonymous terminus, which has none."""
    if not isinstance(address, str):
        raise malformed(address)
    if address.startswith(QUEUES):
        name = _queue(address)
        return Target("", name.encode(), name)
    if not address.startswith(EXCHANGES):
        raise malformed(address)
    name, _, key = address[len(EXCHANGES) :].partition("/")
    if "/" in key:
        raise malformed(address)
    exchange = _text(name, address)
    if exchange in ("", "amq.default"):
        raise malformed(address)
    return Target(exchange, _unquoted(key, address))


def malformed(address: object) -> ProtocolError:
    text = f"malformed address {address!r}: expected /queues/:queue or /exchanges/:exchange/:key"
    return ProtocolError(Condition.INVALID_FIELD, text, Scope.LINK)


def _queue(address: str) -> str:
    name = _text(address[len(QUEUES) :], address)
    if name == "":
        raise malformed(address)
    return name


def _text(part: str, address: str) -> str:
    try:
        return _unquoted(part, address).decode()
    except UnicodeDecodeError:
        raise malformed(address) from None


def _unquoted(part: str, address: str) -> bytes:
    """The part's bytes; a slash inside, or a % without two digits, makes it malformed."""
    pieces = part.split("%")
    if "/" in part or any(len(piece) < 2 or not HEX.issuperset(piece[:2]) for piece in pieces[1:]):
        raise malformed(address)
    return unquote_to_bytes(part)
