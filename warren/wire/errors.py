"""Reply codes of AMQP 0-9-1 and the one exception for a peer that is wrong.

Source: AMQP 0-9-1 section 1.8.2.1 (reply codes); 311-313 and 530-541 as RabbitMQ uses them.
"""

from enum import Enum, IntEnum
from typing import Final


class ReplyCode(IntEnum):
    """Code of connection.close, channel.close and basic.return."""

    OK = 200
    CONTENT_TOO_LARGE = 311
    NO_ROUTE = 312
    NO_CONSUMERS = 313
    CONNECTION_FORCED = 320
    INVALID_PATH = 402
    ACCESS_REFUSED = 403
    NOT_FOUND = 404
    RESOURCE_LOCKED = 405
    PRECONDITION_FAILED = 406
    FRAME_ERROR = 501
    SYNTAX_ERROR = 502
    COMMAND_INVALID = 503
    CHANNEL_ERROR = 504
    UNEXPECTED_FRAME = 505
    RESOURCE_ERROR = 506
    NOT_ALLOWED = 530
    NOT_IMPLEMENTED = 540
    INTERNAL_ERROR = 541


class Scope(Enum):
    """What an error closes."""

    CHANNEL = "channel"
    CONNECTION = "connection"


CHANNEL_CODES: Final = frozenset({311, 313, 403, 404, 405, 406})


def scope_of(code: ReplyCode) -> Scope:
    """Soft errors close the channel, hard errors the connection (AMQP 0-9-1 section 1.8.2.1)."""
    return Scope.CHANNEL if code in CHANNEL_CODES else Scope.CONNECTION


class ProtocolError(Exception):
    """The peer did what the protocol or the broker's state does not allow.

    `text` is the sentence alone; `reply_text` is what goes on the wire: `CODE_NAME - text`, cut to
    the 255 bytes of a short string.
    """

    def __init__(
        self,
        code: ReplyCode,
        text: str,
        scope: Scope | None = None,
        class_id: int = 0,
        method_id: int = 0,
    ) -> None:
        super().__init__(f"{code.name} - {text}")
        self.code = code
        self.text = text
        self.scope = scope_of(code) if scope is None else scope
        self.class_id = class_id
        self.method_id = method_id

    @property
    def reply_text(self) -> str:
        whole = f"{self.code.name} - {self.text}"
        return whole.encode("utf-8", "replace")[:255].decode("utf-8", "ignore")
