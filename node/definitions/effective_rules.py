"""What the arguments of a queue and the policies of its vhost say together."""

import logging
from collections.abc import Callable, Set

from msgspec import Struct

from queues.dead_lettering.dead_letters import DeadLetterRule
from queues.definitions.address_keys import RING
from queues.definitions.arguments import decode_arguments
from queues.definitions.broker_objects import Exchange, Queue
from queues.definitions.metadata.machine import Metadata
from queues.definitions.policies import EXCHANGE, NOTHING, Effective, with_policy
from queues.definitions.queue_arguments import QUORUM, STREAM, queue_type
from queues.definitions.queue_options import (
    EXPIRES,
    QueueDefaults,
    SharedOptions,
    at_least_once_fault,
    can_refuse,
    dead_letter_rule,
    is_lazy,
    options_of,
    wants_at_least_once,
    without_copies,
)
from queues.definitions.retroactive import exchange_of_ring, retroactive_count
from queues.definitions.standby import standby_parameter, without_effects
from queues.hosts.queue_core import DEFAULT, LAZY
from queues.machine.options import Options
from queues.placement.leader_traffic import OFF, mode_of

log = logging.getLogger("warren.dead_letters")


class QueueRules(Struct, frozen=True):
    """How a queue behaves."""

    type: str
    first_options: Options  # with which its machine begins
    options: Options  # which hold now
    mode: int
    dead_letters: DeadLetterRule | None
    expires: bool
    follows: str = OFF  # where its leader goes (`queues.placement.leader_traffic`)

    replicated: bool = False  # its options change through the log of its group


class EffectiveRules:
    """Reads the rules of queues and exchanges from the definitions; changes nothing."""

    def __init__(
        self,
        metadata: Metadata,
        defaults: QueueDefaults,
        is_as_3x: bool,
        paging: Set[int],
        is_found: Callable[[int], bool],
    ) -> None:
        """`is_as_3x`: dead letters are made as RabbitMQ 3.x makes them. `paging`: uids of queues
        whose address is full. `is_found`: whether the disk has a member of the queue's group."""
        self._metadata = metadata
        self._defaults = defaults
        self._is_as_3x = is_as_3x
        self._paging = paging
        self._is_found = is_found
        self._options = SharedOptions()
        self._warned: set[int] = set()  # uids of queues whose dead-letter strategy has no effect

    def effective(self, vhost: str, kind: str, name: str) -> Effective:
        """The policies of a queue of this type, or of an exchange."""
        found = self._metadata.vhosts.get(vhost)
        return NOTHING if found is None else found.policies.effective(kind, name)

    def arguments_of(self, queue: Queue) -> dict[str, object]:
        """Its arguments together with what policies say."""
        declared = decode_arguments(queue.arguments)
        if exchange_of_ring(queue.name) > 0:
            return self._ring_arguments(queue, declared)
        found = self._metadata.vhosts.get(queue.vhost)
        if found is None or found.policies.is_empty():
            return declared
        kind = queue_type(declared)
        policy = found.policies.effective(kind, queue.name)
        if kind == STREAM:  # RabbitMQ lets the policy of a stream replace its arguments.
            return declared | {f"x-{key}": value for key, value in policy.definition.items()}
        return with_policy(declared, policy.definition)

    def _ring_arguments(self, queue: Queue, declared: dict[str, object]) -> dict[str, object]:
        """Those of the ring of a retroactive exchange: its size is that of the exchange, and
        policies for queues, which would dead-letter or expire its messages, do not hold for it."""
        uid = exchange_of_ring(queue.name)
        for exchange in self._metadata.vhosts[queue.vhost].exchanges.values():
            if exchange.uid == uid:
                return declared | {f"x-{RING}": self.retroactive_count(exchange)}
        return declared

    def retroactive_count(self, exchange: Exchange) -> int:
        """How many of its newest messages an exchange keeps for queues that are bound later."""
        policy = self.effective(exchange.vhost, EXCHANGE, exchange.name).definition
        return retroactive_count(exchange, decode_arguments(exchange.arguments), policy)

    def can_refuse(self, queue: Queue) -> bool:
        """Whether it refuses messages because of its length, now and then."""
        return can_refuse(self.arguments_of(queue))

    def rules_of(self, queue: Queue) -> QueueRules:
        """What its arguments and policies say."""
        declared = decode_arguments(queue.arguments)
        kind = queue_type(declared)
        arguments = self.arguments_of(queue)
        if standby_parameter(self._metadata, queue.vhost) is not None:
            arguments = without_effects(arguments)
        quorum = kind == QUORUM
        replicated = quorum or len(queue.holders) > 0 or self._is_found(queue.uid)
        if replicated:
            arguments = without_copies(arguments)
        options = self._options.of(options_of(arguments, self._defaults))
        if quorum:
            self._check_strategy(queue, arguments)
        return QueueRules(
            kind,
            self._options.of(options_of(declared, self._defaults)) if replicated else options,
            options,
            LAZY if self._is_lazy(queue, arguments) and not replicated else DEFAULT,
            dead_letter_rule(queue.name, arguments, self._is_as_3x),
            EXPIRES in arguments,
            mode_of(self.effective(queue.vhost, kind, queue.name).definition) if quorum else OFF,
            replicated,
        )

    def _is_lazy(self, queue: Queue, arguments: dict[str, object]) -> bool:
        """Whether bodies stay on disk alone: by its mode, or because its address is full."""
        return is_lazy(arguments) or queue.uid in self._paging

    def _check_strategy(self, queue: Queue, arguments: dict[str, object]) -> None:
        """Warn once per queue if at-least-once dead-lettering is asked for and not possible."""
        fault = at_least_once_fault(arguments) if wants_at_least_once(arguments) else ""
        if not fault:
            self._warned.discard(queue.uid)
        elif queue.uid not in self._warned:
            self._warned.add(queue.uid)
            log.warning(
                "queue '%s' in vhost '%s': dead letters go at most once, for %s",
                *(queue.name, queue.vhost, fault),
            )
