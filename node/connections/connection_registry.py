"""The connections of this node: who is connected, and the end of what only they own.

    registry = ConnectionRegistry(events, hold, propose)
    registry.arrived(connection)      # the client has sent its protocol header
    registry.opened(connection)       # it has opened a vhost
    registry.closed(connection)       # its socket is gone

Called on the loop thread. Counts only grow, so that rates can be taken of them.
"""

from collections.abc import Callable
from typing import Final, Protocol, final

from node.connections.client_connection import ClientConnection
from node.connections.half_closed import Partings
from node.events.event_sources import tell_connection_closed, tell_connection_created
from node.events.events import Events
from node.resources.publish_hold import Hold
from queues.definitions.metadata.commands import Command, DeleteByOwner
from queues.definitions.metadata.outcomes import Deleted, Outcome

DELETED_QUEUES_MAX: Final = 512  # exclusive queues in one entry of the log: 2 to 3 ms


class Propose(Protocol):
    """Commit a command; `done` gets its outcome (`BrokerDefinitions.propose`)."""

    def __call__(self, command: Command, done: Callable[[Outcome], None], /) -> None: ...


@final
class ConnectionRegistry:
    """See the module. Invariant: `open` and `open_by_name` have the same connections, all of which
    are in `all`."""

    def __init__(self, events: Events, hold: Hold, propose: Propose) -> None:
        self._events = events
        self._hold = hold
        self._propose = propose
        self.all: dict[str, ClientConnection] = {}  # by id
        self.open: dict[str, ClientConnection] = {}  # those with a vhost, by id
        self.open_by_name: dict[str, ClientConnection] = {}
        self._expires_at_ms: dict[str, int] = {}  # of logins by token, by id
        self.half_closed = Partings()
        self.opened_count = self.closed_count = 0
        self.channels_opened_count = self.channels_closed_count = 0

    def arrived(self, connection: ClientConnection) -> None:
        self.all[connection.id] = connection

    def opened(self, connection: ClientConnection) -> None:
        self.open[connection.id] = connection
        self.open_by_name[connection.name] = connection
        self.opened_count += 1
        tell_connection_created(self._events, connection)

    def logged_in(self, connection: ClientConnection, expires_at_ms: int) -> None:
        """Its login holds until then; 0: for ever. Called again when a token is renewed."""
        if expires_at_ms > 0:
            self._expires_at_ms[connection.id] = expires_at_ms
        else:
            self._expires_at_ms.pop(connection.id, None)

    def close_expired(self, now_ms: int) -> None:
        """Begin to close the connections whose tokens are not good any more."""
        over = [each for each, at_ms in self._expires_at_ms.items() if at_ms <= now_ms]
        for each in over:
            del self._expires_at_ms[each]
            connection = self.all.get(each)
            if connection is not None:
                connection.close(f"the token of user '{connection.user}' has expired")

    def closed(self, connection: ClientConnection) -> None:
        self.all.pop(connection.id, None)
        self._expires_at_ms.pop(connection.id, None)
        self._hold.gone(connection)
        if self.open.pop(connection.id, None) is not None:
            self.closed_count += 1
            self.open_by_name.pop(connection.name, None)
            tell_connection_closed(self._events, connection)

    def channel_count(self) -> int:
        """Channels and sessions of all connections."""
        return sum(each.channel_count() for each in self.open.values())

    def mark_all(self) -> None:
        """Have each connection judge again whether it reads."""
        for each in list(self.open.values()):
            each.mark()

    def close_all(self, reason: str) -> int:
        """Begin to close all connections with reply code 320; how many there are."""
        connections = list(self.all.values())
        for each in connections:
            each.close(reason)
        return len(connections)

    def close_users(self, is_meant: Callable[[int], bool], reason: str) -> int:
        """Begin to close the connections that use one of these queues; how many there are."""
        users = [each for each in self.open.values() if any(map(is_meant, each.queue_uids()))]
        for each in users:
            each.close(reason)
        return len(users)

    def close_vhost(self, vhost: str) -> None:
        """Begin to close the connections to a vhost that was deleted."""
        for each in list(self.open.values()):
            if each.vhost == vhost:
                each.close(f"vhost '{vhost}' is deleted")

    def delete_queues_of(self, owner: str, done: Callable[[], None] | None = None) -> None:
        """Delete the exclusive queues of a connection by its id, DELETED_QUEUES_MAX per command."""

        def committed(outcome: Outcome) -> None:
            if isinstance(outcome, Deleted) and len(outcome.subjects) == DELETED_QUEUES_MAX:
                self.delete_queues_of(owner, done)
            elif done is not None:
                done()

        self._propose(DeleteByOwner(owner, DELETED_QUEUES_MAX), committed)
