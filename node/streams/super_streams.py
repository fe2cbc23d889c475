"""Super streams: streams that an exchange with `x-super-stream` parts messages among.

The partitions are the streams bound to it, in the order of `x-stream-partition-order`; clients
choose among them by a hash, or ask which of them a routing key leads to. Creating one is a row of
definitions, each of which is committed by itself: what is there already stays, and what was made
before a refusal is removed again.
"""

from collections.abc import Callable

from node.auth.permissions import READ
from node.definitions.super_streams import creation, deletion, partition_fault, rollback
from node.streams.connection import StreamConnection
from queues.definitions.broker_objects import Binding
from queues.definitions.metadata.commands import Command
from queues.definitions.metadata.outcomes import Outcome, Refused
from queues.definitions.super_streams import partition_bindings, partition_names
from warren.wire.errors import ProtocolError
from warren.wire.stream import codes

Done = Callable[[int, str], None]  # code, and the text of a refusal


def _bindings(endpoint: StreamConnection, name: str) -> list[Binding] | None:
    """Those of a super stream's exchange to streams, in their order; None: there is none."""
    return partition_bindings(endpoint.broker.metadata, endpoint.vhost, name)


def _names(endpoint: StreamConnection, found: list[Binding]) -> list[str]:
    return partition_names(endpoint.broker.metadata, found)


def partitions_of(endpoint: StreamConnection, name: str) -> list[str] | None:
    """None: there is no such super stream, or the user may not read it."""
    found = _bindings(endpoint, name)
    if found is None or not endpoint.permissions.allows(READ, name, "exchange"):
        return None
    return _names(endpoint, found)


def partition_of(endpoint: StreamConnection, name: str, stream: str) -> int | None:
    """The place of a stream among the partitions of a super stream; None: it is not one."""
    names = _names(endpoint, _bindings(endpoint, name) or [])
    return names.index(stream) if stream in names else None


def route_to(endpoint: StreamConnection, name: str, key: str) -> list[str] | None:
    """The partitions that messages with this routing key go to; None as `partitions_of`."""
    if _bindings(endpoint, name) is None or not endpoint.permissions.allows(READ, name, "exchange"):
        return None
    route = endpoint.broker.routers.of(endpoint.vhost).route(name, key.encode())
    queues = (endpoint.broker.metadata.queue(uid) for uid in route.queues)
    return [queue.name for queue in queues if queue is not None]


class Row:
    """Commands that are committed one after the other; the first refusal ends it."""

    def __init__(
        self, endpoint: StreamConnection, commands: list[Command], done: Callable[[str, int], None]
    ) -> None:
        """`done` gets the text of the refusal, '' for none, and how many were committed."""
        self._endpoint = endpoint
        self._commands = commands
        self._done = done
        self._count = 0
        self._next()

    def _next(self) -> None:
        if self._count == len(self._commands):
            self._done("", self._count)
            return
        command = self._commands[self._count]
        self._endpoint.broker.definitions.propose(command, self._answered, self._endpoint.author())

    def _answered(self, outcome: Outcome) -> None:
        if isinstance(outcome, Refused):
            self._done(outcome.text, self._count)
            return
        self._count += 1
        self._next()


def create_super_stream(
    endpoint: StreamConnection,
    name: str,
    partitions: list[str],
    keys: list[str],
    arguments: dict[str, object],
    done: Done,
) -> None:
    """Declare the exchange, the streams and the bindings."""
    fault = partition_fault(partitions, keys)
    if fault:
        done(codes.PRECONDITION_FAILED, fault)
        return
    broker = endpoint.broker
    if broker.definitions.exchange(endpoint.vhost, name) is not None:
        done(codes.STREAM_EXISTS, "")
        return
    if any(broker.definitions.queue(endpoint.vhost, each) is not None for each in partitions):
        done(codes.STREAM_EXISTS, "")
        return
    try:
        commands = creation(endpoint, name, partitions, keys, arguments)
    except ProtocolError as error:
        done(codes.ACCESS_REFUSED, error.text)
        return

    def ended(refusal: str, count: int) -> None:
        if not refusal:
            done(codes.OK, "")
            return
        undo = rollback(endpoint, name, partitions, count)
        Row(endpoint, undo, lambda again, left: done(codes.PRECONDITION_FAILED, refusal))

    Row(endpoint, commands, ended)


def delete_super_stream(endpoint: StreamConnection, name: str, done: Done) -> None:
    """Delete the exchange and the streams."""
    found = _bindings(endpoint, name)
    if found is None:
        done(codes.STREAM_DOES_NOT_EXIST, "")
        return
    try:
        commands = deletion(endpoint, name, _names(endpoint, found))
    except ProtocolError as error:
        done(codes.ACCESS_REFUSED, error.text)
        return

    def ended(refusal: str, count: int) -> None:
        done(codes.PRECONDITION_FAILED if refusal else codes.OK, refusal)

    Row(endpoint, commands, ended)
