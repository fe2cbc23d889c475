"""/api/stream/...: clients of the stream protocol, and what streams remember by name.

Paths and columns are those of RabbitMQ's plug-in rabbitmq_stream_management. Monitoring users see
all clients; others see their own.
"""

from collections.abc import AsyncIterator
from typing import Any, Final

from aiohttp import web

from node.definitions.super_streams import creation, deletion, partition_fault, rollback
from node.management.access import Context, asked_vhosts, caller_of
from node.management.api.connections import closed
from node.management.bodies import Body, arguments, path_name, read_body, text, whole
from node.management.changes import HttpActor, acting, change, refused
from node.management.replies import ApiError, json_reply
from node.management.rows.client_lists import ClientLists
from node.management.rows.client_view import Chosen
from node.management.rows.listing import object_reply
from node.management.rows.rates import CONNECTION, STREAM_CONSUMER, STREAM_PUBLISHER, Row
from node.management.rows.view import StreamTracking
from node.streams.commands import stream_arguments
from node.streams.endpoint import PROTOCOL
from queues.definitions.metadata.commands import Command
from queues.definitions.super_streams import PARTITIONS_MAX, partition_bindings, partition_names
from queues.machine.commands import NAME_BYTES_MAX
from warren.wire.errors import ProtocolError

TRACKING: Final = "stream tracking"  # a question to other nodes: [vhost, stream]
CONNECTIONS: Final = "/api/stream/connections"
SUPER_STREAM: Final = "/api/stream/super-streams/{vhost}/{name}"


class StreamClients:
    """See the module."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._lists = ClientLists(context)
        if context.cluster is not None:
            context.cluster.operating.status.serve(TRACKING, self._tracking_asked)

    def routes(self) -> list[web.RouteDef]:
        one = f"{CONNECTIONS}/{{vhost}}/{{name}}"
        return [
            web.get(CONNECTIONS, self.connections),
            web.get(f"{CONNECTIONS}/{{vhost}}", self.connections),
            web.get(one, self.connection),
            web.delete(one, self.close),
            web.get(f"{one}/consumers", self.consumers),
            web.get(f"{one}/publishers", self.publishers),
            web.get("/api/stream/consumers", self.consumers),
            web.get("/api/stream/consumers/{vhost}", self.consumers),
            web.get("/api/stream/publishers", self.publishers),
            web.get("/api/stream/publishers/{vhost}", self.publishers),
            web.get("/api/stream/publishers/{vhost}/{queue}", self.publishers),
            web.get("/api/stream/{vhost}/{queue}/tracking", self.tracking),
            web.post("/api/stream/{vhost}/{queue}/tracking/reset-offset", self.reset_offset),
            web.put(SUPER_STREAM, self.create),
            web.delete(SUPER_STREAM, self.delete),
        ]

    async def connections(self, request: web.Request) -> web.StreamResponse:
        return await self._lists.reply(request, CONNECTION, Chosen(protocol=PROTOCOL))

    async def connection(self, request: web.Request) -> web.Response:
        return object_reply(request, (await self._asked(request))[0])

    async def close(self, request: web.Request) -> web.Response:
        return await closed(self._context, request, *await self._asked(request))

    async def _asked(self, request: web.Request) -> tuple[Row, bool]:
        (vhost,) = asked_vhosts(self._context, request)
        row, is_here = await self._lists.one(
            request, CONNECTION, (request.match_info["name"], 0, 0)
        )
        if row["protocol"] != PROTOCOL or row["vhost"] != vhost:
            raise ApiError.not_found()
        return row, is_here

    async def consumers(self, request: web.Request) -> web.StreamResponse:
        return await self._lists.reply(request, STREAM_CONSUMER, chosen_in(request))

    async def publishers(self, request: web.Request) -> web.StreamResponse:
        return await self._lists.reply(request, STREAM_PUBLISHER, chosen_in(request))

    async def tracking(self, request: web.Request) -> web.Response:
        vhost, name = self._stream(request)
        found = await self._tracking(vhost, name)
        if found is None:
            raise no_leader()
        parts = {"offsets": dict(found.offsets), "writers": dict(found.publishers)}
        kind = request.query.get("type", "")
        if kind in ("offset", "writer"):
            parts = {f"{kind}s": parts[f"{kind}s"]}
        return json_reply(parts)

    def _stream(self, request: web.Request) -> tuple[str, str]:
        """Vhost and name in the path."""
        (vhost,) = asked_vhosts(self._context, request)
        name = request.match_info["queue"]
        queue = self._context.view.queue(vhost, name)
        if queue is None or queue.type != "stream":
            raise ApiError.not_found()
        return vhost, name

    async def reset_offset(self, request: web.Request) -> web.Response:
        """Set the offset that is stored for a consumer to 0."""
        caller_of(request).require_administrator()
        vhost, name = self._stream(request)
        reference = text(await read_body(request), "reference")
        if not 0 < len(reference.encode()) <= NAME_BYTES_MAX:
            raise ApiError.bad_request(f"reference must have 1 to {NAME_BYTES_MAX} bytes")
        operations = self._context.operations
        queue = operations.metadata.vhosts[vhost].queues[name]
        try:
            is_stored = await operations.reset_offset(queue, reference.encode())
        except TimeoutError:
            raise no_leader() from None
        if not is_stored:
            reason = f"stream '{name}' has stored no offset for '{reference}'"
            raise ApiError.not_found(reason)
        return web.Response(status=204)

    async def create(self, request: web.Request) -> web.Response:
        """201, or 204 if there is such a super stream with the same partitions."""
        actor = acting(self._context, request)
        name = path_name(request, "name")
        body = await read_body(request)
        partitions, keys = parts_of(name, body)
        declared = stream_arguments(told_arguments(body))
        if isinstance(declared, str):
            raise ApiError.bad_request(declared)
        fault = partition_fault(partitions, keys)
        if fault:
            raise ApiError.bad_request(fault)
        metadata = self._context.operations.metadata
        found = partition_bindings(metadata, actor.vhost, name)
        if found is not None and partition_names(metadata, found) == partitions:
            return web.Response(status=204)
        self._refuse_taken(actor, name, partitions)
        try:
            commands = creation(actor, name, partitions, keys, declared)
        except ProtocolError as error:
            refused(error)
        await self._carry_out(actor, name, partitions, commands)
        return web.Response(status=201)

    def _refuse_taken(self, actor: HttpActor, name: str, partitions: list[str]) -> None:
        known = self._context.operations.metadata.vhosts[actor.vhost]
        taken = [
            each
            for each in partitions
            if actor.broker.definitions.queue(actor.vhost, each) is not None
        ]
        if name in known.exchanges:
            raise ApiError.bad_request(f"there is an exchange '{name}' in vhost '{actor.vhost}'")
        if taken:
            raise ApiError.bad_request(f"there is a queue '{taken[0]}' in vhost '{actor.vhost}'")

    async def _carry_out(
        self, actor: HttpActor, name: str, partitions: list[str], commands: list[Command]
    ) -> None:
        for count, command in enumerate(commands):
            try:
                await change(self._context, command)
            except ApiError:
                for undo in rollback(actor, name, partitions, count):
                    await change(self._context, undo)
                raise

    async def delete(self, request: web.Request) -> web.Response:
        actor = acting(self._context, request)
        name, metadata = request.match_info["name"], self._context.operations.metadata
        found = partition_bindings(metadata, actor.vhost, name)
        if found is None:
            raise ApiError.not_found()
        try:
            commands = deletion(actor, name, partition_names(metadata, found))
        except ProtocolError as error:
            refused(error)
        for command in commands:
            await change(self._context, command)
        return web.Response(status=204)

    async def _tracking(self, vhost: str, name: str) -> StreamTracking | None:
        """As the leader of the stream has it; None: no leader answers."""
        found = self._context.view.stream_tracking(vhost, name)
        if found is not None or self._context.cluster is None:
            return found
        status = self._context.cluster.operating.status
        answers = await status.ask_others(TRACKING, [vhost, name])
        for parts in answers.values():
            for offsets, publishers in parts or ():
                return StreamTracking(offsets, publishers)
        return None

    async def _tracking_asked(self, asker: int, about: Any) -> AsyncIterator[object]:
        vhost, name = about
        found = self._context.view.stream_tracking(vhost, name)
        if found is not None:
            yield [dict(found.offsets), dict(found.publishers)]


def no_leader() -> ApiError:
    return ApiError(503, "service_unavailable", "The stream leader is not available")


def parts_of(name: str, body: Body) -> tuple[list[str], list[str]]:
    """Names of the partitions and their binding keys: so many, or one for each key."""
    if ("partitions" in body) == ("binding-keys" in body):
        raise ApiError.bad_request("one of partitions and binding-keys must be in the body")
    if "partitions" in body:
        keys = [str(n) for n in range(whole(body, "partitions", 0, 1, PARTITIONS_MAX + 1))]
    else:
        keys = [each.strip() for each in text(body, "binding-keys").split(",")]
    return [f"{name}-{key}" for key in keys], keys


def told_arguments(body: Body) -> dict[str, str]:
    """Arguments as the stream protocol has them: texts."""
    return {key: str(value) for key, value in arguments(body).items()}


def chosen_in(request: web.Request) -> Chosen:
    """What the path names."""
    names = request.match_info
    return Chosen(connection=names.get("name", ""), queue=names.get("queue", ""), protocol=PROTOCOL)
