"""What an exchange kind may ask of a message beyond its routing key. Compiled.

Nothing is decoded before it is asked for, and nothing twice. Headers that are malformed, as
messages from data of earlier builds may have them, raise ProtocolError 501 when they are asked for.
"""

from typing import Final, Protocol, final

from mypy_extensions import i64

from warren.wire.amqp091.fields import Reader
from warren.wire.amqp091.properties import (
    CORRELATION_ID,
    MESSAGE_ID,
    TIMESTAMP,
    find_property,
    headers_of,
    readable_headers_of,
    text_of,
)


class Content(Protocol):
    """The parts of one message that routing may depend on."""

    def headers(self) -> dict[str, object]:
        """Empty if there are none."""

    def text(self, name: str) -> bytes:
        """One of `TEXTS`; empty if absent, digits for a number."""


TEXTS: Final = ("message_id", "correlation_id", "timestamp")


@final
class NoContent:
    """A message of which nothing but the routing key is known."""

    def headers(self) -> dict[str, object]:
        return {}

    def text(self, name: str) -> bytes:
        return b""


@final
class Content091:
    """The message at `data[start:]` in stored form 1 (`warren.wire.amqp091.events`).

    `headers` of one that a client publishes is ProtocolError 501 if they are malformed
    (`is_arriving`); of one that is stored already, what cannot be read is left out.
    """

    def __init__(self, data: bytes, start: i64, is_arriving: bool = False) -> None:
        self._data = data
        self._is_arriving = is_arriving
        self._start: i64 = start
        self._headers: dict[str, object] | None = None  # None: not asked for yet

    def headers(self) -> dict[str, object]:
        if self._headers is None:
            read = headers_of if self._is_arriving else readable_headers_of
            self._headers = read(self._data, self._start) or {}
        return self._headers

    def text(self, name: str) -> bytes:
        if name == "timestamp":
            pos = find_property(self._data, self._start, TIMESTAMP)
            return b"" if pos < 0 else str(Reader(self._data, pos, pos + 8).longlong()).encode()
        flag = MESSAGE_ID if name == "message_id" else CORRELATION_ID
        return text_of(self._data, self._start, flag) or b""
