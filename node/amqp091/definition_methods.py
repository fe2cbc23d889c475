"""exchange.* and queue.* of AMQP 0-9-1: from a method to a command (`definitions`), and the answer.

Each function takes the endpoint's broker, the channel and the decoded method. What changes a
definition is proposed to the metadata log; the channel waits until it is committed and applied
here, so that the answer means that this node routes by it.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from node.amqp091.stream_rules import refuse_purge
from node.auth.permissions import CONFIGURE, READ
from node.connections.direct_reply_to import REPLY_TO
from node.definitions.definition_changes import (
    UNKNOWN_COUNT,
    binding,
    check_lock,
    exchange_declaration,
    find_queue,
    queue_declaration,
    queue_deletion,
    readable_queue,
)
from queues.definitions.broker_objects import Destination, Queue
from queues.definitions.metadata.commands import Bind, Command, DeleteExchange, Unbind
from queues.definitions.metadata.outcomes import Outcome, Refused
from queues.definitions.metadata.refusals import ON_DEFAULT_EXCHANGE
from warren.wire.amqp091 import methods
from warren.wire.errors import ProtocolError, ReplyCode, Scope

if TYPE_CHECKING:
    from node.amqp091.channel import Channel091
    from node.amqp091.endpoint import Endpoint091


COUNTS_MS: Final = 1_000  # to wait for a leader that can count; then the last counts are given


def call_definition(endpoint: "Endpoint091", channel: "Channel091", method: methods.Method) -> None:
    """Carry out one method of the classes exchange and queue."""
    match method:
        case methods.QueueDeclare():
            _declare_queue(endpoint, channel, method)
        case methods.QueueDelete():
            _delete_queue(endpoint, channel, method)
        case methods.QueuePurge():
            _purge_queue(endpoint, channel, method)
        case methods.QueueBind() | methods.QueueUnbind():
            _bind_queue(endpoint, channel, method)
        case methods.ExchangeDeclare():
            _declare_exchange(endpoint, channel, method)
        case methods.ExchangeDelete():
            _delete_exchange(endpoint, channel, method)
        case methods.ExchangeBind() | methods.ExchangeUnbind():
            _bind_exchange(endpoint, channel, method)
        case _:
            raise ProtocolError(ReplyCode.NOT_IMPLEMENTED, f"{method.name} is not implemented")


def stripped(name: str) -> str:
    """The name without CR and LF, as RabbitMQ declares and deletes queues and exchanges."""
    return name.replace("\r", "").replace("\n", "")


# Queues


def _declare_queue(
    endpoint: "Endpoint091", channel: "Channel091", method: methods.QueueDeclare
) -> None:
    name = stripped(method.queue)
    if name.startswith(REPLY_TO):
        _declare_answers(endpoint, channel, name, method.no_wait)
        return
    if method.passive:
        queue = _queue(endpoint, channel, name)
        endpoint.permissions.require_any("queue", queue.name)
        check_lock(endpoint, queue)
        _answer_declare(endpoint, channel, queue, method.no_wait)
        return
    server_named = name == ""
    if server_named:
        prefix = method.arguments.get("x-name-prefix", "amq.gen-")
        name = endpoint.new_name(prefix if isinstance(prefix, str) else "amq.gen-")
    arguments = {k: v for k, v in method.arguments.items() if k != "x-name-prefix"}

    def declared(outcome: Outcome) -> None:
        queue = endpoint.broker.definitions.queue(endpoint.vhost, name)
        assert queue is not None
        endpoint.broker.queues.check_served(queue)
        endpoint.broker.changes.churn.count_declared()
        _answer_declare(endpoint, channel, queue, method.no_wait)

    def declare() -> None:
        command = queue_declaration(
            endpoint,
            name,
            durable=method.durable,
            exclusive=method.exclusive,
            auto_delete=method.auto_delete,
            arguments=arguments,
            server_named=server_named,
        )
        if method.exclusive:
            endpoint.owns_queues = True  # Also if the connection is gone when this is committed.
        propose(endpoint, channel, method, command, declared)

    endpoint.retry(channel, declare)  # With the same name.


def _declare_answers(
    endpoint: "Endpoint091", channel: "Channel091", name: str, nowait: bool
) -> None:
    """Whatever is asked for: tell whether a consumer waits for answers there."""
    answers = endpoint.broker.answers
    broker, vhost = endpoint.broker, endpoint.vhost
    is_volatile = broker.definitions.queue(vhost, name) is not None  # of a client of AMQP 1.0
    here = name == REPLY_TO or is_volatile or answers.is_here(vhost, name)
    away = None if here else answers.find(endpoint.vhost, name)
    if not here and away is None:
        raise ProtocolError(ReplyCode.NOT_FOUND, f"no queue '{name}' in vhost '{endpoint.vhost}'")
    channel.current_queue = name
    if away is None:
        _reply(channel, nowait, methods.QueueDeclareOk(name, 0, 1))
        return

    def inspected(ready: int, consumers: int) -> None:
        if not nowait:
            channel.send(methods.QueueDeclareOk(name, ready, consumers))

    channel.inspect(away, inspected)


def _answer_declare(
    endpoint: "Endpoint091", channel: "Channel091", queue: Queue, nowait: bool
) -> None:
    channel.current_queue = queue.name
    if nowait:
        channel.resume()
        return

    def inspected(ready: int, consumers: int) -> None:
        channel.send(methods.QueueDeclareOk(queue.name, ready, consumers))

    if endpoint.broker.queues.is_at_rest(queue.uid):
        _reply(channel, False, methods.QueueDeclareOk(queue.name, 0, 0))
        return
    channel.inspect(endpoint.broker.queues.host(queue.uid), inspected, COUNTS_MS)


def _delete_queue(
    endpoint: "Endpoint091", channel: "Channel091", method: methods.QueueDelete
) -> None:
    name = stripped(method.queue) or _current(channel)
    command = queue_deletion(endpoint, name)
    if command is None:
        _reply(channel, method.no_wait, methods.QueueDeleteOk(0))
        return
    uid = command.uid
    broker = endpoint.broker
    queue = broker.definitions.queue(endpoint.vhost, name)
    assert queue is not None
    checks = method.if_unused or method.if_empty

    def delete(ready: int) -> None:
        def deleted(outcome: Outcome) -> None:
            count = max(ready, broker.changes.ready_of_removed(uid))
            if not method.no_wait:
                channel.send(methods.QueueDeleteOk(count))
            channel.end_deletion()
            channel.resume()

        channel.begin_deletion(uid)
        propose(endpoint, channel, method, command, deleted)

    def inspected(ready: int, consumers: int) -> None:
        _check_deletion(queue, method, ready, consumers)
        delete(ready)

    if broker.queues.is_down(queue):
        _check_deletion(queue, method, UNKNOWN_COUNT, 0)
        delete(0)
    elif checks:
        channel.retire(broker.queues.host(uid), method.if_empty, method.if_unused, inspected)
    elif not broker.queues.is_home(queue):
        channel.inspect(broker.queues.host(uid), inspected, COUNTS_MS)
    else:
        delete(0)


def _check_deletion(queue: Queue, method: methods.QueueDelete, ready: int, consumers: int) -> None:
    """Raise 406 for a queue that is not to be deleted as it stands."""
    place = f"queue '{queue.name}' in vhost '{queue.vhost}'"
    fault = ""
    if method.if_unused and consumers > 0:
        fault = f"{place} in use"
    elif method.if_empty and ready > 0:
        fault = f"{place} not empty"
    if fault:
        raise ProtocolError(ReplyCode.PRECONDITION_FAILED, fault, Scope.CHANNEL, 50, 40)


def _purge_queue(
    endpoint: "Endpoint091", channel: "Channel091", method: methods.QueuePurge
) -> None:
    queue = _queue(endpoint, channel, method.queue)
    endpoint.permissions.require(READ, "queue", queue.name)
    check_lock(endpoint, queue)
    host = endpoint.broker.queues.host(queue.uid)
    refuse_purge(host)

    def purged(count: int, _: int) -> None:
        if not method.no_wait:
            channel.send(methods.QueuePurgeOk(count))

    channel.purge(host, purged)


def _bind_queue(
    endpoint: "Endpoint091",
    channel: "Channel091",
    method: methods.QueueBind | methods.QueueUnbind,
) -> None:
    name = method.queue or _current(channel)
    key = method.routing_key
    if method.queue == "" and key == b"":
        key = name.encode()
    binds = isinstance(method, methods.QueueBind)
    what = Bind if binds else Unbind
    kind = Destination.QUEUE
    command = binding(endpoint, what, method.exchange, kind, name, key, method.arguments)
    ok = methods.QueueBindOk() if binds else methods.QueueUnbindOk()
    nowait = isinstance(method, methods.QueueBind) and method.no_wait
    propose(endpoint, channel, method, command, _then(channel, nowait, ok))


# Exchanges


def _declare_exchange(
    endpoint: "Endpoint091", channel: "Channel091", method: methods.ExchangeDeclare
) -> None:
    name = stripped(method.exchange)
    if name == "":
        refusal = ON_DEFAULT_EXCHANGE
        raise ProtocolError(refusal.code, refusal.text)
    if method.passive:
        if not endpoint.broker.definitions.has_exchange(endpoint.vhost, name):
            raise ProtocolError(
                ReplyCode.NOT_FOUND, f"no exchange '{name}' in vhost '{endpoint.vhost}'"
            )
        endpoint.permissions.require_any("exchange", name)
        _reply(channel, method.no_wait, methods.ExchangeDeclareOk())
        return
    command = exchange_declaration(
        endpoint,
        name,
        method.type,
        durable=method.durable,
        auto_delete=method.auto_delete,
        internal=method.internal,
        arguments=method.arguments,
    )
    ok = methods.ExchangeDeclareOk()
    propose(endpoint, channel, method, command, _then(channel, method.no_wait, ok))


def _delete_exchange(
    endpoint: "Endpoint091", channel: "Channel091", method: methods.ExchangeDelete
) -> None:
    name = stripped(method.exchange)
    endpoint.permissions.require(CONFIGURE, "exchange", name)
    command = DeleteExchange(endpoint.vhost, name, method.if_unused)
    ok = methods.ExchangeDeleteOk()
    propose(endpoint, channel, method, command, _then(channel, method.no_wait, ok))


def _bind_exchange(
    endpoint: "Endpoint091",
    channel: "Channel091",
    method: methods.ExchangeBind | methods.ExchangeUnbind,
) -> None:
    binds = isinstance(method, methods.ExchangeBind)
    command = binding(
        endpoint,
        Bind if binds else Unbind,
        method.source,
        Destination.EXCHANGE,
        method.destination,
        method.routing_key,
        method.arguments,
    )
    ok = methods.ExchangeBindOk() if binds else methods.ExchangeUnbindOk()
    propose(endpoint, channel, method, command, _then(channel, method.no_wait, ok))


# What they share


def propose(
    endpoint: "Endpoint091",
    channel: "Channel091",
    method: methods.Method,
    command: Command,
    done: Callable[[Outcome], None],
) -> None:
    """Have the command committed; then call `done`, or close the channel if it was refused."""

    def committed(outcome: Outcome) -> None:
        if channel.ended:
            return
        if isinstance(outcome, Refused):
            ids = (method.identity >> 16, method.identity & 0xFFFF)
            endpoint.fail(channel, ProtocolError(outcome.code, outcome.text, None, *ids))
        else:
            endpoint.guard(channel, lambda: done(outcome))

    channel.wait(0)
    endpoint.broker.definitions.propose(command, committed, endpoint.author())


def _queue(endpoint: "Endpoint091", channel: "Channel091", name: str) -> Queue:
    """The named queue, or the channel's current one; raise 404."""
    return find_queue(endpoint, name or _current(channel))


def queue_for_read(endpoint: "Endpoint091", channel: "Channel091", name: str) -> Queue:
    """The queue to consume or get from; raise 404, 403 or 405."""
    return readable_queue(endpoint, name or _current(channel))


def _current(channel: "Channel091") -> str:
    if channel.current_queue == "":
        raise ProtocolError(ReplyCode.NOT_FOUND, "no previously declared queue")
    return channel.current_queue


def _reply(channel: "Channel091", nowait: bool, ok: methods.Method) -> None:
    if not nowait:
        channel.send(ok)
    channel.resume()


def _then(channel: "Channel091", nowait: bool, ok: methods.Method) -> Callable[[Outcome], None]:
    def done(outcome: Outcome) -> None:
        _reply(channel, nowait, ok)

    return done
