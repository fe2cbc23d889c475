"""Error conditions of AMQP 1.0 and the one exception for a peer that is wrong. Compiled.

Source: AMQP 1.0 part 2.8.15-18 and part 4.5.8, where each condition says what it is for.
"""

from enum import Enum, StrEnum


class Condition(StrEnum):
    """What the `condition` of an error says; the values are symbols."""

    INTERNAL_ERROR = "amqp:internal-error"
    NOT_FOUND = "amqp:not-found"
    UNAUTHORIZED_ACCESS = "amqp:unauthorized-access"
    DECODE_ERROR = "amqp:decode-error"
    RESOURCE_LIMIT_EXCEEDED = "amqp:resource-limit-exceeded"
    NOT_ALLOWED = "amqp:not-allowed"
    INVALID_FIELD = "amqp:invalid-field"
    NOT_IMPLEMENTED = "amqp:not-implemented"
    RESOURCE_LOCKED = "amqp:resource-locked"
    PRECONDITION_FAILED = "amqp:precondition-failed"
    RESOURCE_DELETED = "amqp:resource-deleted"
    ILLEGAL_STATE = "amqp:illegal-state"
    FRAME_SIZE_TOO_SMALL = "amqp:frame-size-too-small"
    CONNECTION_FORCED = "amqp:connection:forced"
    FRAMING_ERROR = "amqp:connection:framing-error"
    CONNECTION_REDIRECT = "amqp:connection:redirect"
    WINDOW_VIOLATION = "amqp:session:window-violation"
    ERRANT_LINK = "amqp:session:errant-link"
    HANDLE_IN_USE = "amqp:session:handle-in-use"
    UNATTACHED_HANDLE = "amqp:session:unattached-handle"
    DETACH_FORCED = "amqp:link:detach-forced"
    TRANSFER_LIMIT_EXCEEDED = "amqp:link:transfer-limit-exceeded"
    MESSAGE_SIZE_EXCEEDED = "amqp:link:message-size-exceeded"
    LINK_REDIRECT = "amqp:link:redirect"
    STOLEN = "amqp:link:stolen"
    UNKNOWN_TRANSACTION = "amqp:transaction:unknown-id"
    TRANSACTION_ROLLBACK = "amqp:transaction:rollback"
    TRANSACTION_TIMEOUT = "amqp:transaction:timeout"


class Scope(Enum):
    """What an error closes."""

    LINK = "link"
    SESSION = "session"
    CONNECTION = "connection"


class ProtocolError(Exception):
    """The peer did what the protocol or the broker's state does not allow.

    `text` becomes the description of the error that closes what `scope` says. `info` is its map.
    """

    def __init__(
        self,
        condition: Condition,
        text: str,
        scope: Scope = Scope.CONNECTION,
        info: dict[str, object] | None = None,
    ) -> None:
        super().__init__(f"{condition.value}: {text}")
        self.condition = condition
        self.text = text
        self.scope = scope
        self.info = info
