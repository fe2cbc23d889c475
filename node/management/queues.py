"""GET /api/queues, /api/queues/{vhost} and /api/queues/{vhost}/{queue}; POST .../actions."""

from aiohttp import web

from node.management.access import Context, asked_vhosts, caller_of, not_authorized
from node.management.listing import list_reply, sorted_in_slices
from node.management.replies import ApiError, json_reply
from node.management.view import QueueView


class Queues:
    """Queues of the vhosts that the caller sees."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/api/queues", self.every),
            web.get("/api/queues/{vhost}", self.every),
            web.get("/api/queues/{vhost}/{queue}", self.one),
            web.post("/api/queues/{vhost}/{queue}/actions", self.act),
        ]

    async def every(self, request: web.Request) -> web.StreamResponse:
        view = self._context.view
        keys: list[tuple[str, str]] = []
        for vhost in asked_vhosts(self._context, request):
            names = await sorted_in_slices(view.queue_names(vhost), str)
            keys += [(vhost, name) for name in names]
        return await list_reply(request, keys, lambda key: key[1], self._row)

    async def one(self, request: web.Request) -> web.Response:
        (vhost,) = asked_vhosts(self._context, request)
        row = self._row((vhost, request.match_info["queue"]))
        if row is None:
            raise ApiError.not_found()
        return json_reply(row)

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

    def _row(self, key: tuple[str, str]) -> dict[str, object] | None:
        queue = self._context.view.queue(*key)
        return None if queue is None else queue_row(queue)


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
        "policy": None,
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
    if queue.exclusive:
        row["owner_pid_details"] = {"name": queue.owner}
    return row
