"""Queues: /api/queues, by vhost and name; PUT declares, DELETE deletes, contents are purged."""

from typing import Final

import msgspec
from aiohttp import web

from node.cluster.membership.member_changes import Refused
from node.definitions.definition_changes import queue_declaration, queue_deletion, readable_queue
from node.management.access import Context, asked_vhosts, caller_of, not_authorized
from node.management.bodies import arguments, flag, matching, path_name, query_flag, read_body
from node.management.changes import acting, delete, put, refused
from node.management.replies import ApiError, json_reply
from node.management.rows.client_lists import ClientLists
from node.management.rows.client_rows import deliveries_of
from node.management.rows.client_view import Chosen
from node.management.rows.listing import list_reply, object_reply, sorted_in_slices
from node.management.rows.node_stats import watched_queue
from node.management.rows.queue_lists import QueueRows, active_consumers, put_active
from node.management.rows.queue_rows import Key, queue_row
from node.management.rows.rates import NO_RANGES, Ranges
from node.management.rows.sampling import parse_ranges
from node.management.rows.view import QueueView
from warren.wire.errors import ProtocolError

ACCEPT_DAMAGE: Final = "accept_damage"
SYNC: Final = "sync"
CANCEL_SYNC: Final = "cancel_sync"


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
            web.post("/api/queues/actions", self.act_on_many),
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
        return await list_reply(request, keys, queue_name, rows.row, rows.prepare, rows.values_of)

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
        put_active(row, active_consumers(own).get((vhost, name)))
        row["deliveries"] = deliveries_of(own, by_queue=False)
        row["incoming"] = await self._context.pairs.into_queue(vhost, name, ranges)
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
        return object_reply(request, msgspec.to_builtins(found))

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
        if_unused, if_empty = query_flag(request, "if-unused"), query_flag(request, "if-empty")
        operations = self._context.operations
        queue = operations.broker.definitions.queue(actor.vhost, name)
        if queue is None or not (if_unused or if_empty):
            return await delete(self._context, command)
        place = f"queue '{name}' in vhost '{actor.vhost}'"
        try:
            async with operations.retired(queue, if_empty=if_empty, if_unused=if_unused) as counts:
                ready, consumers = counts
                if if_unused and consumers:
                    raise ApiError.bad_request(f"{place} in use")
                if if_empty and ready:
                    raise ApiError.bad_request(f"{place} not empty")
                return await delete(self._context, command)
        except TimeoutError as error:
            raise ApiError(503, "unavailable", f"no node serves {place}") from error

    async def purge(self, request: web.Request) -> web.Response:
        actor = acting(self._context, request)
        name = request.match_info["queue"]
        if self._context.view.queue(actor.vhost, name) is None:
            raise ApiError.not_found()
        try:
            await self._context.operations.purge(readable_queue(actor, name))
        except ProtocolError as error:
            refused(error)
        return web.Response(status=204)

    async def act(self, request: web.Request) -> web.Response:
        """`{"action": "accept_damage"}` puts a crashed queue back into service; `sync` and
        `cancel_sync` are about the mirrors of a queue."""
        (vhost,) = asked_vhosts(self._context, request)
        name = request.match_info["queue"]
        if not caller_of(request).is_administrator:
            raise not_authorized("Not administrator user")
        if self._context.view.queue(vhost, name) is None:
            raise ApiError.not_found()
        asked = await read_body(request, "action")
        if asked["action"] in (SYNC, CANCEL_SYNC):
            await self._synchronise(vhost, name, asked["action"] == SYNC)
            return web.Response(status=204)
        if asked["action"] != ACCEPT_DAMAGE:
            known = f"{SYNC}, {CANCEL_SYNC}, {ACCEPT_DAMAGE}"
            raise ApiError.bad_request(f"unknown action; known: {known}")
        refusal = await self._context.view.accept_damage(vhost, name)
        if refusal:
            raise ApiError.bad_request(refusal)
        return web.Response(status=204)

    async def _synchronise(self, vhost: str, name: str, is_wanted: bool) -> None:
        cluster = self._context.cluster
        mirrors = None if cluster is None else cluster.operating.mirrors
        queue = self._context.operations.broker.definitions.queue(vhost, name)
        if mirrors is None or queue is None:
            raise ApiError.bad_request(f"queue '{name}' in vhost '{vhost}' is not mirrored")
        try:
            await mirrors.synchronise(queue, is_wanted)
        except Refused as error:
            raise ApiError.bad_request(str(error)) from error

    async def act_on_many(self, request: web.Request) -> web.Response:
        """`accept_damage` for all crashed queues of this node, or those that match; a row each."""
        caller_of(request).require_administrator()
        body = await read_body(request, "action")
        if body["action"] != ACCEPT_DAMAGE:
            raise ApiError.bad_request(f"unknown action; known: {ACCEPT_DAMAGE}")
        matches = matching(body)
        rows: list[dict[str, str]] = []
        for vhost, name in self._context.view.node().crashed_queues:
            if matches(vhost, name):
                refusal = await self._context.view.accept_damage(vhost, name)
                rows.append({"vhost": vhost, "name": name, "result": refusal or "ok"})
        return json_reply(rows)


def queue_name(key: Key) -> str:
    return key[1]
