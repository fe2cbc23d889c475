"""Queues: /api/queues, by vhost and name; PUT declares, DELETE deletes, contents are purged."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, Final, TypeAlias

from aiohttp import web

from node.definitions import queue_declaration, queue_deletion, readable_queue
from node.management.access import Context, asked_vhosts, caller_of, not_authorized
from node.management.bodies import arguments, flag, path_name, query_flag, read_body
from node.management.changes import acting, delete, put, refused
from node.management.client_lists import ClientLists
from node.management.client_rows import deliveries_of
from node.management.client_view import Chosen
from node.management.listing import (
    column_of,
    list_reply,
    object_reply,
    query_is_true,
    sorted_in_slices,
)
from node.management.node_stats import watched_queue
from node.management.rates import (
    COLUMNS,
    DEPTHS,
    NO_RANGES,
    QUEUE,
    Ranges,
    Row,
    path_of,
    put_details,
)
from node.management.replies import ApiError
from node.management.sampling import parse_ranges
from node.management.view import QueueView
from warren.wire.errors import ProtocolError

Key: TypeAlias = tuple[str, str]  # vhost and name

NO_INCOMING: Final[list[object]] = []  # by exchange they are not counted for each queue
BARE: Final = (
    "name", "vhost", "type", "durable", "auto_delete", "exclusive", "arguments", "node", "state",
    "policy", "operator_policy", "leader", "members", "online", "owner_pid_details",
)  # fmt: skip
RATE_PLACES: Final = {  # by the path of a column in a row
    f"{path_of(column)}_details.rate": place for place, column in enumerate(COLUMNS[QUEUE])
}
COUNT_PLACES: Final = {path_of(column): place for place, column in enumerate(COLUMNS[QUEUE])}


class Queues:
    """Queues of the vhosts that the caller sees."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._clients = ClientLists(context)

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/api/queues", self.every),
            web.get("/api/queues/detailed", self.every),
            web.get("/api/users/{user}/queues", self.of_user),
            web.get("/api/queues/{vhost}", self.every),
            web.get("/api/queues/{vhost}/{queue}", self.one),
            web.get("/api/queues/{vhost}/{queue}/topology", self.topology),
            web.put("/api/queues/{vhost}/{queue}", self.declare),
            web.delete("/api/queues/{vhost}/{queue}", self.delete),
            web.delete("/api/queues/{vhost}/{queue}/contents", self.purge),
            web.post("/api/queues/{vhost}/{queue}/actions", self.act),
        ]

    async def every(self, request: web.Request) -> web.StreamResponse:
        return await self._list(request, asked_vhosts(self._context, request))

    async def of_user(self, request: web.Request) -> web.StreamResponse:
        """Of the vhosts in which that user has permissions, as far as the caller sees them."""
        name, access = request.match_info["user"], self._context.access
        if all(each.name != name for each in self._context.view.users()):
            raise ApiError.not_found()
        visible = asked_vhosts(self._context, request)
        return await self._list(
            request, [each for each in visible if access.permissions(name, each) is not None]
        )

    async def _list(self, request: web.Request, vhosts: list[str]) -> web.StreamResponse:
        view = self._context.view
        keys: list[Key] = []
        for vhost in vhosts:
            names = await sorted_in_slices(view.queue_names(vhost), str)
            keys += [(vhost, name) for name in names]
        rows = QueueRows(self._context, request, vhosts)
        return await list_reply(
            request, keys, queue_name, rows.row, prepare=rows.prepare, value_of=rows.value_of
        )

    async def one(self, request: web.Request) -> web.Response:
        (vhost,) = asked_vhosts(self._context, request)
        name, ranges = request.match_info["queue"], parse_ranges(request.query)
        queue = await self._live(vhost, name, ranges)
        if queue is None:
            raise ApiError.not_found()
        row = queue_row(queue, queue.rates)
        row["head_message_timestamp"] = queue.head_timestamp
        own = await self._clients.consumers(Chosen(vhost=vhost, queue=name))
        row["consumer_details"] = own
        row["deliveries"] = deliveries_of(own, by_queue=False)
        row["incoming"] = NO_INCOMING
        return object_reply(request, row)

    async def _live(self, vhost: str, name: str, ranges: Ranges = NO_RANGES) -> QueueView | None:
        """As its leader sees it."""
        if self._context.cluster is not None:
            return await self._context.cluster.live_queue(vhost, name, ranges)
        return watched_queue(self._context.view, self._context.rates, (vhost, name), ranges)

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
        asked = await read_body(request, "action")
        if asked["action"] != "accept_damage":
            raise ApiError.bad_request("unknown action; known: accept_damage")
        refusal = await self._context.view.accept_damage(vhost, name)
        if refusal:
            raise ApiError.bad_request(refusal)
        return web.Response(status=204)


class QueueRows:
    """Rows of one request for a list: those that other nodes lead come from these."""

    def __init__(self, context: Context, request: web.Request, vhosts: Sequence[str]) -> None:
        self._context = context
        self._vhosts = vhosts
        self._live: dict[Key, QueueView] = {}
        self._is_bare = query_is_true(request.query, "disable_stats")
        self._has_totals = query_is_true(request.query, "enable_queue_totals")
        self._ranges: Ranges | None = None if self._is_bare else parse_ranges(request.query)

    async def prepare(self, shown: Sequence[Key]) -> None:
        cluster = self._context.cluster
        if cluster is not None and not (self._is_bare and not self._has_totals):
            self._live.update(await cluster.live_queues(shown, self._vhosts, self._ranges))

    def row(self, key: Key) -> Row | None:
        queue = self._live.get(key)
        if queue is not None:
            details = queue.rates
        else:
            queue = self._context.view.queue(*key)
            if queue is None:
                return None
            rates = self._context.rates
            details = () if self._ranges is None else rates.of(QUEUE, key, self._ranges)
        row = queue_row(queue, details)
        return bare(row, self._has_totals) if self._is_bare else row

    def value_of(self, sort: str) -> Callable[[Key], object] | None:
        """A short way to columns by which pages sort; those of queues elsewhere take a row."""
        if sort in ("name", "vhost"):
            place = 0 if sort == "vhost" else 1
            return lambda key: key[place]
        place_of_rate, place_of_count = RATE_PLACES.get(sort), COUNT_PLACES.get(sort)
        rates, from_row = self._context.rates, column_of(self.row, sort.split("."))

        def rate(key: Key) -> object:
            assert place_of_rate is not None
            return from_row(key) if key in self._live else rates.rate(QUEUE, key, place_of_rate)

        def count(key: Key) -> object:
            assert place_of_count is not None
            values = None if key in self._live else rates.values(QUEUE, key)
            return from_row(key) if values is None else values[place_of_count]

        if place_of_rate is not None:
            return rate
        return None if place_of_count is None else count


def queue_name(key: Key) -> str:
    return key[1]


def bare(row: Row, with_totals: bool) -> Row:
    """What a queue is, without what is counted of it (`disable_stats`)."""
    kept = (*BARE, *DEPTHS) if with_totals else BARE
    return {name: row[name] for name in kept if name in row}


def queue_row(queue: QueueView, details: Sequence[Any] = ()) -> Row:
    row: Row = {
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
        "messages_delayed": queue.messages_delayed,
        "messages_dlx": queue.messages_dying,
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
    return put_details(row, QUEUE, details)
