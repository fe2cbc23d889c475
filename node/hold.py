"""Publishers wait while the log's upkeep is behind: by credit, until it has caught up. Compiled.

Readers of connections that have published lose their last credit towards `actor`; one that begins
to publish meanwhile does so, too. Nothing is told to the clients: it is a matter of moments.
"""

from collections.abc import Iterable
from typing import Protocol, final

from queues.credit import CreditActor, CreditSpec


class Holdable(Protocol):
    """A connection."""

    has_published: bool

    @property
    def reader(self) -> CreditActor: ...

    def mark(self) -> None:
        """Judge again whether to read."""


@final
class Hold:
    """Who has the credit of the readers that wait."""

    def __init__(self) -> None:
        self.actor = CreditActor("rewriting", CreditSpec(1, 1))
        self.is_on = False

    def turn(self, on: bool, connections: Iterable[Holdable]) -> None:
        """Begin, or end, to hold these."""
        self.is_on = on
        for connection in connections:
            if not on:
                self.actor.ack(connection.reader, 1)
            elif connection.has_published:
                connection.reader.send(self.actor, 1)
            connection.mark()

    def begins_to_publish(self, reader: CreditActor) -> None:
        """The connection of this reader has published for the first time."""
        if self.is_on:
            reader.send(self.actor, 1)
