"""Management over AMQP 1.0: carries out requests, whatever link they came on.

`Management.handle` takes a request of one connection and answers by callback: at once where it only
reads, else when the command is committed and applied here, or the queue has purged. It checks
rights and locks as AMQP 0-9-1 does (`definitions`); nothing is raised, every failure is a status
and a text. Owns one session towards queues, for purges; `close` ends it.

| Status | |
|---|---|
| 200 201 204 | done; created; done and nothing to say |
| 400 | what the request says is wrong, or the broker cannot do it as things stand |
| 403 | no permission, a reserved name, the default exchange |
| 404 405 | GET of a queue that is not there, or no such path; no such method there |
| 409 | there is one of that name with other properties |
| 503 | the definitions cannot be changed now, or no node can answer for the queue |
"""

from collections.abc import Callable
from typing import Final, Protocol

from node.amqp10 import descriptions
from node.amqp10.lease_requests import Broker as LeasedFrom
from node.amqp10.lease_requests import LeaseRequests
from node.amqp10.looking import Broker as LookedAt
from node.amqp10.looking import Looking, decode_peek
from node.amqp10.purges import Purges, Standing
from node.amqp10.requests import (
    BindingFields,
    Reply,
    Request,
    RequestError,
    decode_binding,
    decode_binding_query,
    decode_binding_segment,
    decode_exchange,
    decode_name,
    decode_queue,
    split_target,
)
from node.auth.asked_access import Undecided
from node.auth.permissions import CONFIGURE, READ
from node.cluster.services.topology import topology_of
from node.cluster.services.whereis import NodePlace, WhereIs
from node.connections.connection_registry import ConnectionRegistry
from node.definitions.definition_changes import (
    Actor,
    ChangedDefinitions,
    DefiningBroker,
    ServedQueues,
    binding,
    exchange_declaration,
    queue_declaration,
    queue_deletion,
    readable_queue,
)
from node.definitions.queue_churn import QueueChanges
from node.events.authors import Author
from node.process_identity import ProcessIdentity
from queues.definitions.arguments import cut, decode_arguments
from queues.definitions.broker_objects import (
    DEFAULT_EXCHANGE,
    RESERVED_PREFIX,
    Binding,
    Destination,
    Queue,
)
from queues.definitions.metadata.commands import Bind, Command, DeleteExchange, Unbind
from queues.definitions.metadata.machine import Metadata
from queues.definitions.metadata.outcomes import Created, Outcome, Refused
from queues.definitions.super_streams import partition_bindings, partition_names
from queues.queue_host import QueueHost
from queues.routing.kinds import KINDS
from warren.wire.errors import ProtocolError, ReplyCode

Done = Callable[[Reply], None]

KNOWN: Final = frozenset({"queues", "exchanges", "bindings", "auth", "nodes", "leases"})


class Queues(ServedQueues, Protocol):
    """See `node.definitions.queue_registry`."""

    def is_at_rest(self, uid: int) -> bool: ...

    def is_home(self, queue: Queue) -> bool: ...

    def is_down(self, queue: Queue) -> bool: ...

    def host(self, uid: int) -> QueueHost: ...


class ManagedBroker(DefiningBroker, LookedAt, LeasedFrom, Protocol):
    """The broker, as this module asks it."""

    metadata: Metadata
    whereis: WhereIs

    connections: ConnectionRegistry

    @property
    def queues(self) -> Queues: ...

    @property
    def definitions(self) -> ChangedDefinitions: ...

    @property
    def changes(self) -> QueueChanges: ...

    @property
    def identity(self) -> ProcessIdentity: ...


class Requester(Actor, Protocol):
    """The connection that asks."""

    @property
    def user(self) -> str: ...

    owns_queues: bool  # set before an exclusive queue is declared

    @property
    def broker(self) -> ManagedBroker: ...

    def author(self) -> Author:
        """Of what it has changed."""

    def when(self, undecided: Undecided, call: Callable[[], None]) -> None:
        """Call in a turn in which that is decided, if the connection is still there."""

    def urls_of(self, node: str) -> list[str]:
        """Where others reach that node as this connection reached this one: `amqp://host:port`."""


class Management:
    """The requests of one connection. Those under way when it closes are not answered."""

    def __init__(self, requester: Requester) -> None:
        self._requester = requester
        self._broker = requester.broker
        self._purges = Purges(requester.broker.identity.new_session())
        self._looking = Looking(requester.broker)
        self._leases = LeaseRequests(requester, requester.broker)
        self._closed = False

    def close(self) -> None:
        self._closed = True
        self._purges.close()
        self._looking.close()
        self._leases.close()

    def handle(self, request: Request, done: Done) -> None:
        """Carry out the request; `done` hears the reply, now or later."""

        def answer(reply: Reply) -> None:
            if not self._closed:
                done(reply)

        def route() -> None:
            segments, query = split_target(request.target)
            try:
                self._route(request.method, segments, query, request.body, answer)
            except Undecided as undecided:
                self._requester.when(undecided, lambda: _guard(answer, route))

        _guard(answer, route)

    def _route(
        self, method: str, segments: list[str], query: dict[str, str], body: object, done: Done
    ) -> None:
        match method, segments:
            case "GET", ["queues", name]:
                self._describe(self._queue_to_see(name), 200, done)
            case "PUT", ["queues", name]:
                self._put_queue(decode_name(name), body, done)
            case "DELETE", ["queues", name]:
                self._delete_queue(decode_name(name), done)
            case "DELETE", ["queues", name, "messages"]:
                self._purge_queue(decode_name(name), done)
            case "POST", ["queues", name, "peek"]:
                queue = readable_queue(self._requester, decode_name(name))
                self._looking.peek(queue, decode_peek(body), done)
            case "GET", ["queues", name, "topology"]:
                done(Reply(200, self._topology(self._queue_to_see(name))))
            case "PUT", ["exchanges", name]:
                self._put_exchange(decode_name(name), body, done)
            case "DELETE", ["exchanges", name]:
                self._delete_exchange(decode_name(name), done)
            case "GET", ["exchanges", name, "partitions"]:
                done(Reply(200, list(self._partitions(decode_name(name)))))
            case "POST", ["bindings"]:
                self._bind(decode_binding(body), done)
            case "GET", ["bindings"]:
                found = self._bindings_between(decode_binding_query(query))
                done(Reply(200, [descriptions.binding_description(each) for each in found]))
            case "DELETE", ["bindings", segment]:
                self._unbind(decode_binding_segment(segment), done)
            case _, ["leases", *rest]:
                self._leases.handle(method, rest, body, done)
            case "GET", ["nodes"]:
                done(Reply(200, self._nodes()))
            case "PUT", ["auth", "tokens"]:
                raise RequestError(400, "the connection was not authenticated by a token")
            case _:
                path = "/" + "/".join(segments)
                if segments[0] in KNOWN:
                    raise RequestError(405, f"no method {method} for '{path}'"[:500])
                raise RequestError(404, f"no such path: '{path}'"[:500])

    # Queues

    def _queue_to_see(self, segment: str) -> Queue:
        """The queue, for users with any permission for it."""
        requester = self._requester
        name = decode_name(segment)
        requester.permissions.require_any("queue", name)
        queue = self._broker.definitions.queue(requester.vhost, name)
        if queue is None:
            raise RequestError(404, f"{self._text('queue', name)} not found")
        return queue

    def _describe(self, queue: Queue, status: int, done: Done) -> None:
        """Answer with the queue as it stands, when that is known."""
        self._broker.queues.check_served(queue)
        at_rest = self._broker.queues.is_at_rest(queue.uid)
        counts = None if at_rest else self._broker.queues.host(queue.uid)
        place = self._broker.whereis.place(queue)
        if counts is None or self._broker.queues.is_home(queue):
            done(Reply(status, descriptions.queue_description(queue, place, counts)))
            return

        def looked(standing: Standing | None) -> None:
            if standing is None:
                done(Reply(404, f"{self._text('queue', queue.name)} not found"))
            else:
                done(Reply(status, descriptions.queue_description(queue, place, standing)))

        self._purges.look(counts, looked)

    def _topology(self, queue: Queue) -> descriptions.Description:
        whereis = self._broker.whereis
        place = whereis.place(queue)
        topology = topology_of(place, whereis, self._requester.urls_of)
        return descriptions.topology_description(topology)

    def _put_queue(self, name: str, body: object, done: Done) -> None:
        fields = decode_queue(body)
        if name == "":
            raise RequestError(400, "declare queue with empty name not allowed")
        self._refuse_reserved("queue", name)
        command = queue_declaration(
            self._requester,
            name,
            durable=fields.durable,
            exclusive=fields.exclusive,
            auto_delete=fields.auto_delete,
            arguments=fields.arguments,
        )
        if fields.exclusive:
            self._requester.owns_queues = True  # Also if it is gone when this is committed.

        def declared(outcome: Outcome) -> None:
            queue = self._broker.definitions.queue(command.vhost, name)
            if isinstance(outcome, Refused):
                raise RequestError(_status(outcome, queue is not None), outcome.text)
            assert queue is not None
            self._broker.changes.churn.count_declared()
            self._describe(queue, 201 if isinstance(outcome, Created) else 200, done)

        self._propose(command, declared, done)

    def _delete_queue(self, name: str, done: Done) -> None:
        command = queue_deletion(self._requester, name)
        if command is None:
            done(Reply(200, descriptions.removed_description(0)))
            return
        uid = command.uid
        queue = self._broker.definitions.queue(command.vhost, name)
        assert queue is not None

        def delete(ready: int) -> None:
            def deleted(outcome: Outcome) -> None:
                _refuse(outcome)
                count = max(ready, self._broker.changes.ready_of_removed(uid))
                done(Reply(200, descriptions.removed_description(count)))

            self._propose(command, deleted, done)

        def looked(standing: Standing | None) -> None:
            delete(0 if standing is None else standing.ready_count)

        if self._broker.queues.is_home(queue) or self._broker.queues.is_down(queue):
            delete(0)
        else:
            self._purges.look(self._broker.queues.host(uid), looked)

    def _purge_queue(self, name: str, done: Done) -> None:
        queue = readable_queue(self._requester, name)

        def purged(count: int | None) -> None:
            if count is None:
                done(Reply(400, f"no {self._text('queue', name)}"))
            else:
                done(Reply(200, descriptions.removed_description(count)))

        self._purges.purge(self._broker.queues.host(queue.uid), purged)

    # Exchanges

    def _put_exchange(self, name: str, body: object, done: Done) -> None:
        fields = decode_exchange(body)
        if fields.type not in KINDS:
            raise RequestError(400, f"unknown exchange type '{cut(fields.type)}'")
        _refuse_default(name)
        vhost = self._requester.vhost
        if not self._broker.definitions.has_exchange(vhost, name):
            self._refuse_reserved("exchange", name)
        command = exchange_declaration(
            self._requester,
            name,
            fields.type,
            durable=fields.durable,
            auto_delete=fields.auto_delete,
            internal=fields.internal,
            arguments=fields.arguments,
        )

        def declared(outcome: Outcome) -> None:
            if isinstance(outcome, Refused):
                exists = self._broker.definitions.has_exchange(vhost, name)
                raise RequestError(_status(outcome, exists), outcome.text)
            done(Reply(204))

        self._propose(command, declared, done)

    def _delete_exchange(self, name: str, done: Done) -> None:
        _refuse_default(name)
        self._refuse_reserved("exchange", name)
        self._requester.permissions.require(CONFIGURE, "exchange", name)
        self._change(DeleteExchange(self._requester.vhost, name), done)

    def _partitions(self, name: str) -> list[str]:
        """The streams of a super stream, in their order; for users who may read from it."""
        self._requester.permissions.require(READ, "exchange", name)
        metadata = self._broker.metadata
        found = partition_bindings(metadata, self._requester.vhost, name)
        if found is None:
            raise RequestError(404, f"no super stream '{name}' in vhost '{self._requester.vhost}'")
        return partition_names(metadata, found)

    # Bindings

    def _bind(self, fields: BindingFields, done: Done) -> None:
        self._change(self._binding(Bind, fields, fields.arguments), done)

    def _unbind(self, fields: BindingFields, done: Done) -> None:
        self._binding(Unbind, fields, {})  # May the requester do this at all?
        for each in self._bindings(fields):
            if descriptions.arguments_hash(each.arguments) == fields.arguments_hash:
                arguments = decode_arguments(each.arguments)
                self._change(self._binding(Unbind, fields, arguments), done)
                return
        done(Reply(204))

    def _binding(
        self, what: type[Bind] | type[Unbind], fields: BindingFields, arguments: dict[str, object]
    ) -> Bind | Unbind:
        _refuse_default(fields.source)
        if fields.kind is Destination.EXCHANGE:
            _refuse_default(fields.destination)
        return binding(
            self._requester,
            what,
            fields.source,
            fields.kind,
            fields.destination,
            fields.key,
            arguments,
        )

    def _bindings_between(self, fields: BindingFields) -> list[Binding]:
        """Those with that key, for users with any permission for both ends."""
        permissions = self._requester.permissions
        kind = "queue" if fields.kind is Destination.QUEUE else "exchange"
        permissions.require_any("exchange", fields.source)
        permissions.require_any(kind, fields.destination)
        return self._bindings(fields)

    def _bindings(self, fields: BindingFields) -> list[Binding]:
        vhost = self._broker.metadata.vhosts.get(self._requester.vhost)
        if vhost is None:
            return []
        return [
            each
            for each in vhost.bindings_to(fields.kind, fields.destination)
            if each.source == fields.source and each.binding_key == fields.key
        ]

    # Nodes

    def _nodes(self) -> list[descriptions.Description]:
        urls_of = self._requester.urls_of
        nodes = self._broker.whereis.nodes()
        return [
            descriptions.node_description(each, urls_of(each.name), self._load(each))
            for each in nodes
        ]

    def _load(self, node: NodePlace) -> descriptions.Description | None:
        """As it was reported; this node knows its own."""
        if node.load is not None:
            return descriptions.load_description(node.load.connections, node.load.leaders)
        broker = self._broker
        if node.name != broker.node_name:
            return None
        return descriptions.load_description(
            len(broker.connections.open), broker.metadata.queue_count
        )

    # What they share

    def _change(self, command: Command, done: Done) -> None:
        """Have the command committed; 204."""

        def changed(outcome: Outcome) -> None:
            _refuse(outcome)
            done(Reply(204))

        self._propose(command, changed, done)

    def _propose(self, command: Command, then: Callable[[Outcome], None], done: Done) -> None:
        author = self._requester.author()
        self._broker.definitions.propose(
            command, lambda outcome: _guard(done, lambda: then(outcome)), author
        )

    def _refuse_reserved(self, kind: str, name: str) -> None:
        if name.startswith(RESERVED_PREFIX):
            text = f"{self._text(kind, name)} starts with reserved prefix '{RESERVED_PREFIX}'"
            raise RequestError(403, text)

    def _text(self, kind: str, name: str) -> str:
        return f"{kind} '{name}' in vhost '{self._requester.vhost}'"


def _guard(done: Done, step: Callable[[], None]) -> None:
    """Take the step, and answer what it raises."""
    try:
        step()
    except RequestError as error:
        done(Reply(error.status, error.text))
    except ProtocolError as error:
        done(Reply(403 if error.code is ReplyCode.ACCESS_REFUSED else 400, error.text))


def _refuse(outcome: Outcome) -> None:
    if isinstance(outcome, Refused):
        raise RequestError(_status(outcome, False), outcome.text)


def _status(refused: Refused, exists: bool) -> int:
    """`exists`: there is one, so a failed precondition is that it is not the same."""
    if refused.code is ReplyCode.ACCESS_REFUSED:
        return 403
    if refused.code in (ReplyCode.INTERNAL_ERROR, ReplyCode.RESOURCE_ERROR):
        return 503  # The definitions of the cluster cannot be changed now.
    return 409 if exists and refused.code is ReplyCode.PRECONDITION_FAILED else 400


def _refuse_default(name: str) -> None:
    if name == DEFAULT_EXCHANGE:
        raise RequestError(403, "operation not permitted on the default exchange")
