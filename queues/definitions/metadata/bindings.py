"""Commands of the metadata machine about bindings, and the end of exchanges.

Functions that the machine calls with the vhost in which something is to be changed; each answers
with the outcome. They draw no uid for what changes nothing.
"""

from queues.definitions.arguments import is_canonical
from queues.definitions.broker_objects import Binding, Destination
from queues.definitions.metadata import commands
from queues.definitions.metadata.outcomes import NOTHING_DELETED, Created, Deleted, Exists, Outcome
from queues.definitions.metadata.refusals import (
    binding_fault,
    binding_refusal,
    exchange_delete_refusal,
    exchange_text,
    missing,
    queue_text,
)
from queues.definitions.metadata.rules import TakeUid
from queues.definitions.metadata.vhost import VHost


def bind(vhost: VHost, command: commands.Bind, take_uid: TakeUid) -> Outcome:
    assert is_canonical(command.arguments)
    refusal = binding_refusal(vhost, command)
    if refusal is not None:
        return refusal
    source = vhost.exchanges.get(command.source)
    if source is None:
        return missing(exchange_text(command.source, vhost))
    if command.destination_kind is Destination.QUEUE:
        queue = vhost.queues.get(command.destination)
        target = 0 if queue is None else queue.uid
        text = queue_text(command.destination, vhost)
    else:
        exchange = vhost.exchanges.get(command.destination)
        target = 0 if exchange is None else -exchange.uid
        text = exchange_text(command.destination, vhost)
    if target == 0:
        return missing(text)
    old = vhost.binding(_binding_key(command))
    if old is not None:
        return Exists(old)
    refusal = binding_fault(source, command)
    if refusal is not None:
        return refusal
    shared = vhost.shared(Binding(take_uid(), vhost.name, *_binding_key(command), target))
    return Created(shared, (vhost.add(shared),))


def unbind(vhost: VHost, command: commands.Unbind) -> Outcome:
    refusal = binding_refusal(vhost, command)
    if refusal is not None:
        return refusal
    binding = vhost.binding(_binding_key(command))
    if binding is None:
        return NOTHING_DELETED
    return Deleted((binding,), tuple(vhost.remove(binding)))


def _binding_key(
    command: commands.Bind | commands.Unbind,
) -> tuple[str, Destination, str, bytes, bytes]:
    return (
        command.source,
        command.destination_kind,
        command.destination,
        command.binding_key,
        command.arguments,
    )


def delete_exchange(vhost: VHost, command: commands.DeleteExchange) -> Outcome:
    refusal = exchange_delete_refusal(vhost, command)
    if refusal is not None:
        return refusal
    exchange = vhost.exchanges.get(command.name)
    if exchange is None:
        return NOTHING_DELETED
    return Deleted((exchange,), tuple(vhost.remove(exchange)))
