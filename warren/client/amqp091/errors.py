"""What a broker of AMQP 0-9-1 answers when it refuses something: a reply code and a text.

The codes are those of the standard (`warren.wire.errors.ReplyCode`): 404 not there, 403 not
permitted, 405 locked by another connection, 406 there with other properties, 312 no route.
"""

from warren.client.errors import PeerError
from warren.wire.errors import ReplyCode


class ReplyError(PeerError):
    """The broker closed a channel or the connection, or gave a message back."""

    def __init__(self, code: int, text: str) -> None:
        name = name_of(code)
        description = "" if text == name else text.removeprefix(f"{name} - ")
        super().__init__(f"{code} {name}", description)
        self.code = code


def name_of(code: int) -> str:
    try:
        return ReplyCode(code).name
    except ValueError:
        return "UNKNOWN"
