"""Queues: /api/queues, by vhost and name; PUT declares, DELETE deletes, contents are purged."""

from collections.abc import Sequence
from dataclasses import asdict

from aiohttp import web

from node.definitions import queue_declaration, queue_deletion, readable_queue
from node.management.access import Context, asked_vhosts, caller_of, not_authorized
from node.management.bodies import arguments, flag, path_name, query_flag, read_body
from node.management.changes import acting, delete, put, refused
from node.management.listing import list_reply, object_reply, sorted_in_slices
from node.management.replies import ApiError
from node.management.view import QueueView
from warren.wire.errors import ProtocolError


class Queues:
    """Queues of the vhosts that the caller sees."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/api/queues", self.every),
            web.get("/api/queues/{vhost}", self.every),
            web.get("/api/queues/{vhost}/{queue}", self.one),
            web.get("/api/queues/{vhost}/{queue}/topology", self.topology),
            web.put("/api/queues/{vhost}/{queue}", self.declare),
            web.delete("/api/queues/{vhost}/{queue}", self.delete),
            web.delete("/api/queues/{vhost}/{queue}/contents", self.purge),
            web.post("/api/queues/{vhost}/{queue}/actions", self.act),
        ]

    async def every(self, request: web.Request) -> web.StreamResponse:
        view = self._context.view
        keys: list[tuple[str, str]] = []
        vhosts = asked_vhosts(self._context, request)
        for vhost in vhosts:
            names = await sorted_in_slices(view.queue_names(vhost), str)
            keys += [(vhost, name) for name in names]
        cluster = self._context.cluster
        live: dict[tuple[str, str], QueueView] = {}

        async def prepare(shown: Sequence[tuple[str, str]]) -> None:
            if cluster is not None:
                live.update(await cluster.live_queues(shown, vhosts))

        def row_of(key: tuple[str, str]) -> dict[str, object] | None:
            queue = live.get(key) or view.queue(*key)
            return None if queue is None else queue_row(queue)

        return await list_reply(request, keys, lambda key: key[1], row_of, prepare)

    async def one(self, request: web.Request) -> web.Response:
        (vhost,) = asked_vhosts(self._context, request)
        queue = await self._live(vhost, request.match_info["queue"])
        if queue is None:
            raise ApiError.not_found()
        return object_reply(request, queue_row(queue))

    async def _live(self, vhost: str, name: str) -> QueueView | None:
        """As its leader sees it."""
        cluster = self._context.cluster
        if cluster is None:
            return self._context.view.queue(vhost, name)
        return await cluster.live_queue(vhost, name)

    async def topology(self, request: web.Request) -> web.Response:
        """Where the leader and the members are, and how to reach them."""
        (vhost,) = asked_vhosts(self._context, request)
        found = self._context.view.topology(vhost, request.match_info["queue"])
        if found is None:
            raise ApiError.not_found()
        return object_reply(request, asdict(found))

    async def declare(self, request: web.Request) -> web.Response:
        actor = acting(self._context, request)
        body = await read_body(request)
        try:
            command = queue_declaration(
                actor,
                path_name(request, "queue"),
                durable=flag(body, "durable"),
                exclusive=False,
                auto_delete=flag(body, "auto_delete"),
                arguments=arguments(body),
            )
        except ProtocolError as error:
            refused(error)
        return await put(self._context, command)

    async def delete(self, request: web.Request) -> web.Response:
        actor = acting(self._context, request)
        name = request.match_info["queue"]
        try:
            command = queue_deletion(actor, name)
        except ProtocolError as error:
            refused(error)
        if command is None:
            raise ApiError.not_found()
        queue = await self._live(actor.vhost, name)
        place = f"queue '{name}' in vhost '{actor.vhost}'"
        if query_flag(request, "if-unused") and queue is not None and queue.consumers:
            raise ApiError.bad_request(f"{place} in use")
        if query_flag(request, "if-empty") and queue is not None and queue.messages_ready:
            raise ApiError.bad_request(f"{place} not empty")
        return await delete(self._context, command)

    async def purge(self, request: web.Request) -> web.Response:
        actor = acting(self._context, request)
        name = request.match_info["queue"]
        if self._context.view.queue(actor.vhost, name) is None:
            raise ApiError.not_found()
        try:
            queue = readable_queue(actor, name)
        except ProtocolError as error:
            refused(error)
        await self._context.operations.purge(queue)
        return web.Response(status=204)

    async def act(self, request: web.Request) -> web.Response:
        """`{"action": "accept_damage"}`: administrators put a crashed queue back into service."""
        (vhost,) = asked_vhosts(self._context, request)
        name = request.match_info["queue"]
        if not caller_of(request).is_administrator:
            raise not_authorized("Not administrator user")
        if self._context.view.queue(vhost, name) is None:
            raise ApiError.not_found()
        try:
            asked = await request.json()
        except ValueError as error:
            raise ApiError.bad_request("not JSON") from error
        if not isinstance(asked, dict) or asked.get("action") != "accept_damage":
            raise ApiError.bad_request("unknown action; known: accept_damage")
        refusal = await self._context.view.accept_damage(vhost, name)
        if refusal:
            raise ApiError.bad_request(refusal)
        return web.Response(status=204)


def queue_row(queue: QueueView) -> dict[str, object]:
    row: dict[str, object] = {
        "name": queue.name,
        "vhost": queue.vhost,
        "type": queue.type,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "exclusive": queue.exclusive,
        "arguments": queue.arguments,
        "node": queue.node,
        "state": queue.state,
        "reason": queue.reason,
        "policy": queue.policy.name,
        "operator_policy": queue.policy.operator,
        "effective_policy_definition": queue.policy.definition,
        "messages": queue.messages_ready + queue.messages_unacknowledged,
        "messages_ready": queue.messages_ready,
        "messages_unacknowledged": queue.messages_unacknowledged,
        "message_bytes": queue.message_bytes_ready + queue.message_bytes_unacknowledged,
        "message_bytes_ready": queue.message_bytes_ready,
        "message_bytes_unacknowledged": queue.message_bytes_unacknowledged,
        "messages_ram": queue.messages_ram,
        "messages_paged_out": queue.messages_paged_out,
        "message_bytes_ram": queue.message_bytes_ram,
        "message_bytes_paged_out": queue.message_bytes_paged_out,
        "memory": queue.memory_bytes,
        "consumers": queue.consumers,
        "consumer_capacity": round(queue.consumer_capacity, 4),
        "consumer_utilisation": round(queue.consumer_capacity, 4),
        "message_stats": {
            "publish": queue.published,
            "deliver": queue.delivered,
            "deliver_no_ack": queue.delivered_no_ack,
            "get": queue.got,
            "get_no_ack": queue.got_no_ack,
            "deliver_get": queue.delivered + queue.delivered_no_ack + queue.got + queue.got_no_ack,
            "redeliver": queue.redelivered,
            "ack": queue.acknowledged,
        },
    }
    if queue.members:
        row["leader"] = queue.leader
        row["members"] = list(queue.members)
        row["online"] = list(queue.online)
    if queue.exclusive:
        row["owner_pid_details"] = {"name": queue.owner}
    return row
