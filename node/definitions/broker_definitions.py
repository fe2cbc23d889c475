"""The definitions as parts of a node use them: look objects up, propose changes.

A command is proposed to the log group of the definitions; once it is committed, it is applied to
the machine of each node, `ChangeFollower` brings routers and queues to what the machine says, and
the proposer gets its outcome.
"""

from collections.abc import Callable, Container
from typing import Protocol

from node.cluster.definitions.definitions_group import DefinitionsGroup
from node.definitions.routes import Routers
from node.events.authors import BROKER, Author
from queues.definitions.broker_objects import Binding, Destination, Exchange, Queue
from queues.definitions.metadata.commands import (
    Bind,
    Command,
    DeclareExchange,
    DeclareQueue,
    may_grow,
)
from queues.definitions.metadata.machine import Metadata
from queues.definitions.metadata.outcomes import Outcome, Refused
from queues.definitions.standby import standby_parameter
from warren.storage.wal import RESERVE
from warren.wire.errors import ReplyCode

Done = Callable[[Outcome], None]


class Retroactive(Protocol):
    """See `node.addresses.history`."""

    def bind(self, command: Bind, propose: Callable[[Done], None], done: Done) -> bool:
        """Copy, propose and answer; False: there is nothing to copy."""


class BrokerDefinitions:
    """See the module. All methods run on the loop thread."""

    def __init__(
        self,
        metadata: Metadata,
        group: DefinitionsGroup,
        routers: Routers,
        place: Callable[[Command], Command],
        faults: Container[str],
        history: Retroactive,
    ) -> None:
        """`place`: chooses the nodes of a queue that is declared. `faults`: of the disk. `history`:
        copies what an exchange has kept to a queue that is bound to it."""
        self.group = group
        self._metadata = metadata
        self._routers = routers
        self._place = place
        self._faults = faults
        self._history = history

    def propose(
        self,
        command: Command,
        done: Callable[[Outcome], None] | None = None,
        author: Author = BROKER,
    ) -> None:
        """Have a command committed; `done` gets the outcome once it is applied here, or at once for
        a declare of what this node knows to be there."""
        refusal = self._room_refusal(command)
        if refusal is not None and done is not None:
            done(refusal)
            return
        if isinstance(command, (DeclareQueue, DeclareExchange)) and done is not None:
            existing = self._metadata.existing(command)
            if existing is not None:  # Needs no majority, and writes nothing.
                done(existing)
                return
        if isinstance(command, Bind) and done is not None:

            def propose(told: Done) -> None:
                self.group.propose(command, told, author)

            if self._history.bind(command, propose, done):
                return
        self.group.propose(self._place(command), done, author)

    def _room_refusal(self, command: Command) -> Refused | None:
        """Refuse a new definition while the disk has no room for the log's reserve.

        The files that the log still has are kept for settlements and deletes, which make room.
        """
        if RESERVE not in self._faults or not may_grow(command):
            return None
        if isinstance(command, DeclareQueue) and self.queue(command.vhost, command.name):
            return None
        return Refused(
            ReplyCode.PRECONDITION_FAILED,
            "the disk is full: new definitions are refused until space is free; "
            "deletes and acknowledgements are accepted",
        )

    def has_vhost(self, vhost: str) -> bool:
        return vhost in self._metadata.vhosts

    def is_standby(self, vhost: str) -> bool:
        """Whether it gets its messages from another cluster, and serves no client."""
        return standby_parameter(self._metadata, vhost) is not None

    def queue(self, vhost: str, name: str) -> Queue | None:
        found = self._metadata.vhosts.get(vhost)
        return None if found is None else found.queues.get(name)

    def bindings_to_queue(self, vhost: str, name: str) -> list[Binding]:
        found = self._metadata.vhosts.get(vhost)
        return [] if found is None else found.bindings_to(Destination.QUEUE, name)

    def exchange(self, vhost: str, name: str) -> Exchange | None:
        found = self._metadata.vhosts.get(vhost)
        return None if found is None else found.exchanges.get(name)

    def has_exchange(self, vhost: str, name: str) -> bool:
        return self.exchange(vhost, name) is not None

    def is_topic(self, vhost: str, exchange: str) -> bool:
        """Whether the keys of the exchange are under topic permissions."""
        return self._routers.of(vhost).is_topic(exchange)
