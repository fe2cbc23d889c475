"""Publishing links of this node by the queue that their target names. Not compiled: seldom busy.

A link whose target is `/queues/:queue` is detached with `amqp:resource-deleted` when that queue is
deleted, whether it has published or not. Limits: one entry for each such link.
"""

from typing import Protocol


class NamedLink(Protocol):
    """The part of a publishing link that is called here."""

    def target_deleted(self) -> None:
        """Detach the link: its queue was deleted."""


class NamedTargets:
    """Invariant: a link is registered from `join` until `leave`, under the uid of its queue."""

    def __init__(self) -> None:
        self._links: dict[int, list[NamedLink]] = {}

    def join(self, uid: int, link: NamedLink) -> None:
        self._links.setdefault(uid, []).append(link)

    def leave(self, uid: int, link: NamedLink) -> None:
        """Forget the link; it may be forgotten already."""
        links = self._links.get(uid, [])
        if link in links:
            links.remove(link)
        if not links:
            self._links.pop(uid, None)

    def queue_deleted(self, uid: int) -> None:
        for link in self._links.pop(uid, []):
            link.target_deleted()
