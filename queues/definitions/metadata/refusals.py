"""What the metadata machine refuses, in the words that clients know.

A function answers None where nothing speaks against the command.
"""

from typing import Final

import msgspec

from queues.addresses.limits import KEYS, arguments_fault
from queues.definitions import retroactive
from queues.definitions.arguments import (
    cut,
    decode_arguments,
    encode_arguments,
    inequivalence,
    inequivalent,
    type_name,
)
from queues.definitions.broker_objects import (
    DEFAULT_EXCHANGE,
    RESERVED_PREFIX,
    Destination,
    Exchange,
    Queue,
)
from queues.definitions.metadata import commands
from queues.definitions.metadata.outcomes import Refused
from queues.definitions.metadata.vhost import VHost
from queues.definitions.queue_arguments import (
    CLASSIC,
    QUEUE_TYPE,
    QUORUM,
    STREAM,
    argument_fault,
    queue_type,
    redeclare_fault,
)
from queues.definitions.retroactive import RETROACTIVE_ARGUMENT, exchange_of_ring
from queues.definitions.vhost_limits import MAX_QUEUES, vhost_limit
from queues.routing.kinds import KINDS
from queues.routing.router import ALTERNATE_ARGUMENT
from warren.wire.errors import ReplyCode

ON_DEFAULT_EXCHANGE: Final = Refused(
    ReplyCode.ACCESS_REFUSED, "operation not permitted on the default exchange"
)


def no_vhost(name: str) -> Refused:
    return Refused(ReplyCode.NOT_ALLOWED, f"vhost {name} not found")


def exchange_declare_refusal(vhost: VHost, command: commands.DeclareExchange) -> Refused | None:
    """Whether there is such an exchange already or not."""
    if command.type not in KINDS:
        return _precondition(f"unknown exchange type '{cut(command.type)}'")
    if command.name == DEFAULT_EXCHANGE:
        return ON_DEFAULT_EXCHANGE
    old = vhost.exchanges.get(command.name)
    if old is not None:
        fault = _exchange_difference(command, old)
        return _precondition(fault) if fault else None
    if command.name.startswith(RESERVED_PREFIX):
        return _reserved("exchange", command.name)
    arguments = decode_arguments(command.arguments)
    alternate = arguments.get(ALTERNATE_ARGUMENT, "")
    if not isinstance(alternate, str):
        kind, where = type_name(alternate), exchange_text(command.name, vhost)
        return _precondition(f"invalid type '{kind}' for arg '{ALTERNATE_ARGUMENT}' in {where}")
    wrong = arguments_fault(arguments)
    if wrong is not None:
        where = exchange_text(command.name, vhost)
        return _precondition(f"invalid arg '{wrong[0]}' for {where}: \"{wrong[1]}\"")
    fault = retroactive.argument_fault(command.type, arguments)
    if fault is not None:
        where = exchange_text(command.name, vhost)
        return _precondition(f"invalid arg '{RETROACTIVE_ARGUMENT}' for {where}: \"{fault}\"")
    fault = KINDS[command.type].exchange_fault(arguments)
    return _precondition(fault) if fault is not None else None


def exchange_delete_refusal(vhost: VHost, command: commands.DeleteExchange) -> Refused | None:
    if command.name == DEFAULT_EXCHANGE:
        return ON_DEFAULT_EXCHANGE
    text = exchange_text(command.name, vhost)
    if command.name.startswith(RESERVED_PREFIX):
        return Refused(ReplyCode.ACCESS_REFUSED, f"deletion of system {text} not allowed")
    if command.if_unused and vhost.has_bindings_from(command.name):
        return _precondition(f"{text} in use")
    return None


def queue_declare_refusal(vhost: VHost, command: commands.DeclareQueue) -> Refused | None:
    """Whether there is such a queue already or not."""
    old = vhost.queues.get(command.name)
    if old is not None:
        return _queue_difference(command, old)
    if command.name.startswith(RESERVED_PREFIX) and not command.server_named:
        return _reserved("queue", command.name)
    arguments = decode_arguments(command.arguments)
    fault = argument_fault(queue_text(command.name, vhost), arguments)
    if fault is not None:
        return _precondition(fault)
    kind = queue_type(arguments)
    if kind in (QUORUM, STREAM):
        return _replicated_refusal(kind, queue_text(command.name, vhost), command)
    return None


def queue_limit_refusal(vhost: VHost, command: commands.DeclareQueue) -> Refused | None:
    """Whether the vhost may have one more queue."""
    limit = vhost_limit(vhost.parameters, MAX_QUEUES)
    if limit < 0 or len(vhost.queues) < limit:
        return None
    text = f"cannot declare queue '{command.name}': queue limit in vhost '{vhost.name}'"
    return _precondition(f"{text} ({limit}) is reached")


def with_default_type(command: commands.DeclareQueue, kind: str) -> commands.DeclareQueue:
    """The command as in a vhost whose queues are of this kind, if nothing else is said and it can
    be.
    """
    fits = command.durable and not (command.exclusive_owner or command.server_named)
    arguments = decode_arguments(command.arguments)
    if QUEUE_TYPE in arguments or not (fits or kind == CLASSIC):
        return command
    typed = encode_arguments({**arguments, QUEUE_TYPE: kind})
    return msgspec.structs.replace(command, arguments=typed)


def _replicated_refusal(kind: str, text: str, command: commands.DeclareQueue) -> Refused | None:
    """What a quorum queue or a stream cannot be."""
    if command.server_named and exchange_of_ring(command.name) == 0:
        return _precondition(f"Cannot declare a server-named queue for type rabbit_{kind}_queue")
    if kind == STREAM and command.auto_delete:
        return _precondition(f"invalid property 'auto-delete' for {text}")
    if not command.durable:
        return _precondition(f"invalid property 'non-durable' for {text}")
    if command.exclusive_owner:
        return _precondition(f"invalid property 'exclusive-owner' for {text}")
    return None


def binding_refusal(vhost: VHost, command: commands.Bind | commands.Unbind) -> Refused | None:
    """What forbids binding and unbinding alike."""
    to_queue = command.destination_kind is Destination.QUEUE
    if command.source == DEFAULT_EXCHANGE:
        return ON_DEFAULT_EXCHANGE
    if command.destination == DEFAULT_EXCHANGE and not to_queue:
        return ON_DEFAULT_EXCHANGE
    queue = vhost.queues.get(command.destination) if to_queue else None
    if queue is not None and is_locked(queue, command.connection):
        return locked(queue)
    return None


def binding_fault(source: Exchange, command: commands.Bind) -> Refused | None:
    """What the kind of the exchange has against the binding."""
    arguments = decode_arguments(command.arguments)
    kind = KINDS[source.type]
    fault = kind.binding_fault(command.destination_kind, command.binding_key, arguments)
    return _precondition(fault) if fault is not None else None


def _exchange_difference(command: commands.DeclareExchange, old: Exchange) -> str | None:
    """The sentence for the first property in which the command differs from what there is."""
    text = f"exchange '{old.name}' in vhost '{old.vhost}'"
    if command.type != old.type:
        return inequivalent("type", text, f"'{command.type}'", f"'{old.type}'")
    properties = (
        ("durable", command.durable, old.durable),
        ("auto_delete", command.auto_delete, old.auto_delete),
        ("internal", command.internal, old.internal),
    )
    for name, received, current in properties:
        if received != current:
            return inequivalent(name, text, _boolean_text(received), _boolean_text(current))
    arguments = (decode_arguments(command.arguments), decode_arguments(old.arguments))
    compared = (ALTERNATE_ARGUMENT, RETROACTIVE_ARGUMENT, *(f"x-{key.name}" for key in KEYS))
    faults = (inequivalence(name, text, *arguments) for name in compared)
    return next((fault for fault in faults if fault is not None), None)


def _queue_difference(command: commands.DeclareQueue, old: Queue) -> Refused | None:
    if command.exclusive_owner != old.exclusive_owner:
        return locked(old)
    text = f"queue '{old.name}' in vhost '{old.vhost}'"
    properties = (
        ("durable", command.durable, old.durable),
        ("auto_delete", command.auto_delete, old.auto_delete),
    )
    for name, received, current in properties:
        if received != current:
            sides = (_boolean_text(received), _boolean_text(current))
            return _precondition(inequivalent(name, text, *sides))
    if command.arguments == old.arguments:
        return None
    arguments = (decode_arguments(command.arguments), decode_arguments(old.arguments))
    fault = redeclare_fault(text, *arguments)
    return _precondition(fault) if fault is not None else None


def _precondition(text: str) -> Refused:
    return Refused(ReplyCode.PRECONDITION_FAILED, text)


def is_locked(queue: Queue, connection: str) -> bool:
    return queue.exclusive_owner != "" and connection not in ("", queue.exclusive_owner)


def locked(queue: Queue) -> Refused:
    text = (
        f"cannot obtain exclusive access to locked queue '{queue.name}' in vhost '{queue.vhost}'. "
        "It could be originally declared on another connection or the exclusive property value "
        "does not match that of the original declaration."
    )
    return Refused(ReplyCode.RESOURCE_LOCKED, text)


def _reserved(kind: str, name: str) -> Refused:
    text = f"{kind} name '{name}' contains reserved prefix '{RESERVED_PREFIX}*'"
    return Refused(ReplyCode.ACCESS_REFUSED, text)


def missing(text: str) -> Refused:
    return Refused(ReplyCode.NOT_FOUND, f"no {text}")


def exchange_text(name: str, vhost: VHost) -> str:
    return f"exchange '{name}' in vhost '{vhost.name}'"


def queue_text(name: str, vhost: VHost) -> str:
    return f"queue '{name}' in vhost '{vhost.name}'"


def _boolean_text(value: bool) -> str:
    return "'true'" if value else "'false'"
