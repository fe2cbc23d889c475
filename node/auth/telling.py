"""Tells the events of a node of the logins that were decided.

Successes of AMQP alone: with HTTP every request is a login. Failures of all; no password and no
response of a client is in any of them.
"""

from collections.abc import Callable

from node.auth.source import Source
from node.events import Events

SUCCESS = "user.authentication.success"
FAILURE = "user.authentication.failure"


def login_teller(events: Events) -> Callable[[Source, str, str], None]:
    """For `LoginDesk.on_login`."""

    def tell(source: Source, user: str, why_not: str) -> None:
        if why_not:
            events.tell(
                FAILURE,
                name=user,
                protocol=source.protocol,
                peer_host=source.address,
                error=why_not,
            )
        elif source.protocol != "http":
            events.tell(SUCCESS, name=user, protocol=source.protocol, peer_host=source.address)

    return tell
