"""Declares and deletes the rings of retroactive exchanges (`queues.definitions.retroactive`).

Each node looks at the definitions soon after they have changed; the node that leads the definitions
proposes what is missing, and deletes rings whose exchange is gone or keeps no messages any more.
While there is such an exchange or ring, it looks again every CHECK_MS, because another node may
have begun to lead. How many messages a ring keeps follows from the exchange's rules
(`EffectiveRules`), so a change of the number needs no new ring.
"""

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Protocol

from node.events.logs import ids_of
from queues.definitions.arguments import encode_arguments
from queues.definitions.broker_objects import Exchange, Queue
from queues.definitions.metadata.commands import Command, DeclareQueue, DeleteQueue
from queues.definitions.metadata.outcomes import Outcome, Refused
from queues.definitions.metadata.vhost import VHost
from queues.definitions.queue_arguments import QUEUE_TYPE, QUORUM
from queues.definitions.retroactive import (
    RETROACTIVE,
    RETROACTIVE_ARGUMENT,
    RING_ARGUMENT,
    RING_PREFIX,
    exchange_of_ring,
    ring_name,
)

if TYPE_CHECKING:
    from node.definitions.broker_definitions import BrokerDefinitions
    from node.definitions.effective_rules import EffectiveRules
    from node.timers import Timers
    from queues.definitions.metadata.machine import Metadata

log = logging.getLogger("warren.addresses")

SOON_MS: Final = 20  # after a change, so that several are looked at together
CHECK_MS: Final = 1000
ARGUMENTS: Final = encode_arguments({QUEUE_TYPE: QUORUM, RING_ARGUMENT: True})


class Node(Protocol):
    """The broker, as this module needs it."""

    metadata: "Metadata"
    timers: "Timers"
    definitions: "BrokerDefinitions"
    rules: "EffectiveRules"

    @property
    def node_name(self) -> str: ...

    def now_ms(self) -> int: ...


class RingKeeper:
    """Invariant: `_open` has the names of rings whose proposal is not answered yet."""

    def __init__(self, broker: Node) -> None:
        self._broker = broker
        self._open: set[tuple[str, str]] = set()  # vhost and name
        self._refused: set[tuple[str, str]] = set()  # that the log has a line about

    def changed(self) -> None:
        """The definitions are others now."""
        self._broker.timers.wake(self, self._broker.now_ms() + SOON_MS)

    # The timer (node.timers.Sleeper)

    @property
    def is_gone(self) -> bool:
        return False

    def on_timer(self) -> None:
        commands: list[Command] = []
        is_used = False
        for vhost in self._broker.metadata.vhosts.values():
            wanted = {ring_name(each): each for each in self._retroactive(vhost)}
            rings = {name: queue for name, queue in vhost.queues.items() if _is_ring(name)}
            is_used = is_used or bool(wanted) or bool(rings)
            commands += self._missing(vhost.name, wanted, rings)
        if self._broker.definitions.group.is_leader:
            for command in commands:
                self._propose(command)
        if is_used:
            self._broker.timers.wake(self, self._broker.now_ms() + CHECK_MS)

    def _retroactive(self, vhost: VHost) -> Iterator[Exchange]:
        """The exchanges that keep messages."""
        key, argument = RETROACTIVE.encode(), RETROACTIVE_ARGUMENT.encode()
        is_asked = any(key in policy.definition for policy in vhost.policies)
        for exchange in vhost.exchanges.values():
            may_be = is_asked or argument in exchange.arguments
            if may_be and self._broker.rules.retroactive_count(exchange) > 0:
                yield exchange

    def _missing(
        self, vhost: str, wanted: dict[str, Exchange], rings: dict[str, Queue]
    ) -> Iterator[Command]:
        """What makes the rings those that are wanted."""
        for name in wanted.keys() - rings.keys():
            yield DeclareQueue(
                vhost,
                name,
                durable=True,
                arguments=ARGUMENTS,
                node=self._broker.node_name,
                server_named=True,
            )
        for name in rings.keys() - wanted.keys():
            yield DeleteQueue(vhost, name, rings[name].uid)

    def _propose(self, command: Command) -> None:
        assert isinstance(command, (DeclareQueue, DeleteQueue))
        place = (command.vhost, command.name)
        if place in self._open:
            return
        self._open.add(place)

        def done(outcome: Outcome) -> None:
            self._open.discard(place)
            if isinstance(outcome, Refused) and place not in self._refused:
                self._refused.add(place)
                log.warning(
                    "queue '%s' in vhost '%s', which keeps the newest messages of an exchange, "
                    "cannot be changed: %s",
                    *(command.name, command.vhost, outcome.text),
                    extra=ids_of(queue=command.name, vhost=command.vhost),
                )

        self._broker.definitions.propose(command, done)


def _is_ring(name: str) -> bool:
    return name.startswith(RING_PREFIX) and exchange_of_ring(name) > 0
