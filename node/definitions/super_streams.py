"""Changes of definitions that make and delete super streams, in the order of their commands.

Each is committed by itself. After a refusal the commands of `deletion` take back what was made.
"""

from collections.abc import Sequence

from node.auth.permissions import CONFIGURE
from node.definitions.definition_changes import (
    Actor,
    binding,
    exchange_declaration,
    queue_declaration,
    queue_deletion,
)
from queues.definitions.broker_objects import Destination
from queues.definitions.metadata.commands import Bind, Command, DeleteExchange
from queues.definitions.super_streams import MARK, ORDER, PARTITIONS_MAX


def partition_fault(partitions: Sequence[str], keys: Sequence[str]) -> str:
    """What is wrong with the names of partitions and their binding keys; '': nothing."""
    if not partitions or len(partitions) > PARTITIONS_MAX:
        return f"{len(partitions)} partitions; allowed: 1 to {PARTITIONS_MAX}"
    if len(set(partitions)) != len(partitions) or "" in partitions:
        return "each partition of a super stream has a name of its own"
    if len(keys) != len(partitions):
        return f"{len(partitions)} partitions and {len(keys)} binding keys"
    return ""


def creation(
    actor: Actor,
    name: str,
    partitions: Sequence[str],
    keys: Sequence[str],
    arguments: dict[str, object],
) -> list[Command]:
    """Of the exchange, the streams and the bindings. ProtocolError: the user may not."""
    streams = [
        queue_declaration(
            actor, each, durable=True, exclusive=False, auto_delete=False, arguments=arguments
        )
        for each in partitions
    ]
    exchange = exchange_declaration(
        *(actor, name, "direct"),
        durable=True,
        auto_delete=False,
        internal=False,
        arguments={MARK: True},
    )
    bound = [
        binding(
            *(actor, Bind, name, Destination.QUEUE, partition, key.encode()),
            {ORDER: place},
        )
        for place, (partition, key) in enumerate(zip(partitions, keys, strict=True))
    ]
    return [exchange, *streams, *bound]


def rollback(actor: Actor, name: str, partitions: Sequence[str], made_count: int) -> list[Command]:
    """Take back the first commands of a creation."""
    if made_count == 0:
        return []
    return deletion(actor, name, partitions[: made_count - 1])


def deletion(actor: Actor, name: str, partitions: Sequence[str]) -> list[Command]:
    """Of the streams and the exchange. ProtocolError: the user may not."""
    actor.permissions.require(CONFIGURE, "exchange", name)
    found = (queue_deletion(actor, each) for each in partitions)
    streams: list[Command] = [command for command in found if command is not None]
    return [*streams, DeleteExchange(actor.vhost, name)]
