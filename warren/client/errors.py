"""What can go wrong for a user of the client. Waits that take too long raise TimeoutError."""

from warren.wire.amqp10.codec.performatives import Error


class ClientError(Exception):
    """All errors of this client."""


class ConnectionLost(ClientError):
    """The connection is gone. What was sent and not answered may or may not have arrived."""


class LoginFailed(ClientError):
    """The broker refused the credentials, or offers no mechanism that this client knows."""


class PeerError(ClientError):
    """The broker ended a link, a session or the connection, and said why."""

    def __init__(
        self, condition: str, description: str = "", info: dict[str, object] | None = None
    ) -> None:
        super().__init__(f"{condition}: {description}" if description else condition)
        self.condition = condition
        self.description = description
        self.info = info or {}


class PublisherFull(ClientError):
    """Too many messages wait to be sent. `publish` and `ready` wait for room instead."""


class RequestFailed(ClientError):
    """A management request was answered by an error: 404, 409, ..."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status} {text}")
        self.status = status
        self.text = text


def peer_error(error: Error | None, otherwise: str) -> PeerError:
    """The error that the peer told; `otherwise`: it gave none."""
    if error is None:
        return PeerError(otherwise)
    return PeerError(str(error.condition), error.description or "", error.info)
