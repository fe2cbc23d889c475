"""The audit log: who has changed what, from where, and how that went. Logger `warren.audit`.

Each change is one line (user, address, way, action, object, outcome), and an event `audit.changed`
with the same. Told by the management API of every request that may change something, refused ones
too (`requested`), and, with `log.audit = "all"`, of every definition that a client of AMQP changes,
or is refused to change (`definitions_changed`, `refused`). What a request carried is never told.
This module stores nothing: for a record, keep the log, or a queue at the event exchange.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from node.events.authors import AMQP, HTTP, Author
from node.events.events import Events
from node.events.logs import AUDIT
from queues.definitions.broker_objects import Binding, Definition
from queues.definitions.metadata.outcomes import Added, Change, Removed
from warren.wire.errors import ProtocolError, ReplyCode

Extent = Literal["off", "api", "all"]

log = logging.getLogger(AUDIT)

ACTIONS: Final = {Added: "create", Removed: "delete"}
METHODS: Final[Mapping[tuple[int, int], str]] = {
    (40, 10): "exchange.declare",
    (40, 20): "exchange.delete",
    (40, 30): "exchange.bind",
    (40, 40): "exchange.unbind",
    (50, 10): "queue.declare",
    (50, 20): "queue.bind",
    (50, 30): "queue.purge",
    (50, 40): "queue.delete",
    (50, 50): "queue.unbind",
}


class Audit:
    """See the module."""

    def __init__(self, events: Events, extent: Extent) -> None:
        self._events = events
        self._extent = extent

    @property
    def takes_requests(self) -> bool:
        return self._extent != "off"

    def requested(self, author: Author, action: str, what: str, outcome: str) -> None:
        """A request of the management API."""
        if self._extent != "off":
            self._note(author, action, what, outcome)

    def definitions_changed(self, changes: Sequence[Change], author: Author) -> None:
        """A client of AMQP has changed definitions; the API logs its own requests."""
        if self._extent != "all" or author.way != AMQP:
            return
        for change in changes:
            self._note(author, ACTIONS.get(type(change), "change"), told(change.subject), "ok")

    def refused(self, author: Author, error: ProtocolError) -> None:
        """A client of AMQP may not change a definition, or not like this. To ask for what is not
        there changes nothing, and is not told."""
        action = METHODS.get((error.class_id, error.method_id))
        if self._extent == "all" and action is not None and error.code != ReplyCode.NOT_FOUND:
            self._note(author, action, "definitions", f"refused: {error.text}")

    def _note(self, author: Author, action: str, what: str, outcome: str) -> None:
        way = author.way or HTTP
        ids = {"user": author.user, "address": author.address, "way": way}
        about = {**ids, "action": action, "object": what, "outcome": outcome}
        log.info(
            "user '%s' at %s by %s: %s %s: %s",
            author.user,
            author.address,
            way,
            action,
            what,
            outcome,
            extra={"ids": about},
        )
        self._events.tell("audit.changed", **about)


def told(subject: Definition) -> str:
    """What kind of thing it is, and which."""
    kind = type(subject).__name__.removesuffix("Entry").lower()
    if isinstance(subject, Binding):
        name = f"{subject.source} -> {subject.destination}"
    else:
        name = str(getattr(subject, "name", "") or getattr(subject, "user", ""))
    vhost = getattr(subject, "vhost", "")
    place = f" in vhost '{vhost}'" if vhost else ""
    return f"{kind} '{name}'{place}"
