"""What an exchange kind may ask of a message of AMQP 1.0 (`content.Content`). What cannot be read
of the message counts as absent."""

from queues.conversion.to_amqp091 import headers_of
from warren.wire.amqp10.codec.message import CORRELATION_ID, MESSAGE_ID, Sections
from warren.wire.amqp10.transfers import payload_at


class Content10:
    """The message `data[start:end]` in stored form 2."""

    __slots__ = ("_data", "_headers", "_sections")

    def __init__(self, data: bytes, start: int, end: int) -> None:
        self._data = data
        self._sections = Sections()
        self._headers: dict[str, object] | None = None  # None: not asked for yet
        self._sections.find(data, int(payload_at(data, start)), end)

    def headers(self) -> dict[str, object]:
        """Application properties and annotations named `x-...`, as 0-9-1 has them."""
        if self._headers is None:
            self._headers = headers_of(self._data, self._sections)
        return self._headers

    def text(self, name: str) -> bytes:
        """`message_id`, `correlation_id` or `timestamp` (seconds); empty if absent."""
        if name == "timestamp":
            created = self._sections.properties(self._data).creation_time
            return b"" if created is None else str(created // 1000).encode()
        place = MESSAGE_ID if name == "message_id" else CORRELATION_ID
        value = self._sections.property(self._data, int(place))
        if value is None:
            return b""
        return value if isinstance(value, bytes) else str(value).encode()
