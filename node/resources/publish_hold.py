"""Publishers wait while the log's upkeep is behind: by credit, until it has caught up. Compiled.

Readers of connections that publish lose their last credit towards `actor`; one that begins to
publish meanwhile does so, too. Clients get no notice: it is a matter of moments, many
times a second, so what it costs goes by the connections that have published since publishers were
last let go. One that has not is held when it publishes next.
"""

from typing import Protocol, final

from queues.sessions.credit import CreditActor, CreditSpec


class Holdable(Protocol):
    """A connection. `is_publishing` is ours: it has published since publishers were let go."""

    is_publishing: bool

    @property
    def reader(self) -> CreditActor: ...

    def mark(self) -> None:
        """Judge again whether to read."""


@final
class Hold:
    """Who has the credit of the readers that wait: of all in `_publishing` while it `is_on`."""

    def __init__(self) -> None:
        self.actor = CreditActor("rewriting", CreditSpec(1, 1))
        self.is_on = False
        self._publishing: dict[Holdable, None] = {}  # in the order in which they began

    def turn(self, on: bool) -> None:
        """Begin, or end, to hold them."""
        if on == self.is_on:
            return
        self.is_on = on
        if on:
            for connection in self._publishing:
                connection.reader.send(self.actor, 1)
                connection.mark()
            return
        let_go = self._publishing
        self._publishing = {}
        for connection in let_go:
            connection.is_publishing = False
            self.actor.ack(connection.reader, 1)
            connection.mark()

    def begins_to_publish(self, connection: Holdable) -> None:
        """It has published, and is not known to."""
        connection.is_publishing = True
        self._publishing[connection] = None
        if self.is_on:
            connection.reader.send(self.actor, 1)

    def gone(self, connection: Holdable) -> None:
        """The connection is no more."""
        self._publishing.pop(connection, None)
