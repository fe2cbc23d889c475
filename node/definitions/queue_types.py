"""Apply the settings of this node about queue types to a declaration before it is proposed.

All nodes apply the same committed commands, whatever their own settings say. So the node that
proposes a declaration decides, and writes what it decided into the command:

- `default_queue_type`: the type of a queue whose declaration and vhost name none.
- `quorum_queue.property_equivalence.relaxed_checks_on_redeclaration`: a quorum queue that is
  declared again as a classic queue. As in RabbitMQ, only the arguments `COMPARED` have to agree
  then. The metadata machine refuses those that do not.

Only `BrokerDefinitions.propose` uses it, by way of the broker.
"""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from queues.definitions.arguments import decode_arguments, encode_arguments
from queues.definitions.broker_objects import Queue
from queues.definitions.metadata.commands import Batch, Command, DeclareQueue, default_types_in
from queues.definitions.metadata.machine import Metadata
from queues.definitions.metadata.refusals import with_default_type
from queues.definitions.queue_arguments import CLASSIC, QUEUE_TYPE, QUORUM

# The arguments that RabbitMQ compares in `perform_limited_equivalence_checks_on_qq_redeclaration`.
COMPARED: Final = (
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-expires",
    "x-max-length",
    "x-max-length-bytes",
    "x-single-active-consumer",
    "x-message-ttl",
)


class QueueTypes:
    """See the module."""

    def __init__(self, metadata: Metadata, default_type: str, is_relaxed: bool) -> None:
        self._metadata = metadata
        self._default_type = default_type
        self._is_relaxed = is_relaxed
        self._changes = is_relaxed or default_type != CLASSIC

    def typed(self, command: Command) -> Command:
        """The command as it is to be proposed; the same object where no setting applies."""
        if not self._changes:
            return command
        if isinstance(command, DeclareQueue):
            return self._typed(command, {})
        if isinstance(command, Batch):
            vhosts = default_types_in(command)
            return Batch(
                tuple(
                    self._typed(each, vhosts) if isinstance(each, DeclareQueue) else each
                    for each in command.commands
                )
            )
        return command

    def _typed(self, command: DeclareQueue, new_vhosts: Mapping[str, str]) -> DeclareQueue:
        """`new_vhosts`: default types of vhosts that the same batch declares."""
        vhost = self._metadata.vhosts.get(command.vhost)
        own_default = new_vhosts.get(command.vhost, "")
        if vhost is not None:
            own_default = own_default or vhost.entry.default_queue_type
        if not own_default and self._default_type != CLASSIC:
            command = with_default_type(command, self._default_type)
        old = None if vhost is None else vhost.queues.get(command.name)
        has_default = own_default != "" or self._default_type != CLASSIC
        if old is None or not (self._is_relaxed and has_default):
            return command
        return as_quorum(command, old)


def as_quorum(command: DeclareQueue, old: Queue) -> DeclareQueue:
    """A declaration of a classic queue as one of the quorum queue that has its name."""
    received, current = decode_arguments(command.arguments), decode_arguments(old.arguments)
    if received.get(QUEUE_TYPE) != CLASSIC or current.get(QUEUE_TYPE) != QUORUM:
        return command
    kept = {key: value for key, value in current.items() if key not in COMPARED}
    compared = {key: value for key, value in received.items() if key in COMPARED}
    return replace(
        command,
        durable=old.durable,
        exclusive_owner=old.exclusive_owner,
        auto_delete=old.auto_delete,
        arguments=encode_arguments({**kept, **compared}),
    )
