"""Bodies that could not be read back from disk: what the log says of them, and operators see.

A client may come back for such a body for ever, so that each place is logged once, and once more
when it can be read again. The queue is shown as `down` with the reason until then, or until it is
empty. At most PLACES_MAX places of a queue are kept and logged.
"""

import logging
from typing import Final, Protocol

from node.events.logs import ids_of

log = logging.getLogger("warren.broker")

PLACES_MAX: Final = 1000


class QueueNamed(Protocol):
    """What it needs of a queue host."""

    name: str
    vhost: str

    @property
    def uid(self) -> int: ...


class Unreadable:
    """By queue and by place, which is file and offset. All calls on the loop thread."""

    def __init__(self) -> None:
        self._places: dict[int, dict[tuple[int, int], str]] = {}

    def failed(self, host: QueueNamed, file_id: int, offset: int, error: Exception) -> None:
        """A read for the queue has failed."""
        places = self._places.setdefault(host.uid, {})
        if (file_id, offset) in places or len(places) >= PLACES_MAX:
            return
        text = f"a message at offset {offset} of {file_of(file_id)} cannot be read: {error}"
        places[file_id, offset] = text
        ids = ids_of(queue=host.name, vhost=host.vhost)
        log.error("queue '%s' in vhost '%s': %s", host.name, host.vhost, text, extra=ids)

    def succeeded(self, host: QueueNamed, file_id: int, offset: int) -> None:
        """A read for the queue has succeeded."""
        places = self._places.get(host.uid)
        if places is None or places.pop((file_id, offset), None) is None:
            return
        log.warning(
            "queue '%s' in vhost '%s': the message at offset %d of %s is read again",
            host.name,
            host.vhost,
            offset,
            file_of(file_id),
            extra=ids_of(queue=host.name, vhost=host.vhost),
        )
        if not places:
            del self._places[host.uid]

    def forget(self, uid: int) -> None:
        """The queue is gone, or has no messages."""
        self._places.pop(uid, None)

    def reason(self, uid: int) -> str:
        """Why the queue is down; "" if it is not."""
        places = self._places.get(uid)
        if not places:
            return ""
        first = next(iter(places.values()))
        more = len(places) - 1
        return f"{first} (and {more} more)" if more else first


def file_of(file_id: int) -> str:
    """A file as operators see it; ids of page files are shown as negative ones."""
    return f"log file {file_id}" if file_id >= 0 else f"page file {-file_id}"
