"""Who has a definition changed: for events and for the audit log. Values alone.

Channels and links name the author of what they propose. Requests of the management API are carried
out in one task each, which sets `REQUESTED_BY` for all that it does. What the broker does by itself
has the author that RabbitMQ names for that.
"""

from contextvars import ContextVar
from typing import Final

from msgspec import Struct

AMQP: Final = "amqp"  # ways
HTTP: Final = "http"


class Author(Struct, frozen=True):
    """A user, and where the wish came from; nothing of it is kept beside the change."""

    user: str
    address: str = ""
    way: str = ""


BROKER: Final = Author("rmq-internal")
REQUESTED_BY: Final[ContextVar[Author]] = ContextVar("REQUESTED_BY", default=BROKER)
