"""Vhosts: /api/vhosts and by name; PUT makes or changes one, DELETE deletes it with all in it.

What a PUT leaves out of a vhost that is there stays as it is. A protected one cannot be deleted.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from aiohttp import web

from node.config.default_policies import default_policies
from node.management.access import Context, asked_vhosts, caller_of
from node.management.bodies import Body, flag, path_name, read_body, text, words
from node.management.changes import change, existing_vhost, put
from node.management.replies import ApiError
from node.management.rows.columns import row_of
from node.management.rows.listing import list_reply, object_reply
from node.management.rows.rates import QUEUE_STATS, VHOST, Measured, Ranges, put_details, summed
from node.management.rows.sampling import parse_ranges
from node.management.rows.vhost_columns import VHOST_COLUMNS, DefinedVhost
from node.management.rows.view import VhostView
from queues.definitions.arguments import cut
from queues.definitions.broker_objects import Uid, VhostEntry
from queues.definitions.metadata.commands import DeclareVhost, SetPermissions
from queues.definitions.queue_arguments import CLASSIC, QUORUM

# By vhost and node: ready, unsettled, whether it runs, details of rates, counts.
Others = Mapping[str, Mapping[str, Sequence[Any]]]

CREATED: Final = 201
TYPES: Final = (CLASSIC, QUORUM)  # that can be a default


class Vhosts:
    """The vhosts that the caller sees; administrators change them."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def routes(self) -> list[web.RouteDef]:
        protection = "/api/vhosts/{vhost}/deletion/protection"
        return [
            web.get("/api/vhosts", self.every),
            web.get("/api/vhosts/{vhost}", self.one),
            web.put("/api/vhosts/{vhost}", self.set),
            web.delete("/api/vhosts/{vhost}", self.delete),
            web.post("/api/vhosts/{vhost}/start/{node}", self.start),
            web.post(protection, self.protect),
            web.delete(protection, self.unprotect),
        ]

    async def every(self, request: web.Request) -> web.StreamResponse:
        by_name = {each.name: each for each in self._context.view.vhosts()}
        names = asked_vhosts(self._context, request)
        ranges = parse_ranges(request.query)
        others = await self._others(ranges)
        return await list_reply(
            request,
            names,
            str,
            lambda name: with_others(self._row(by_name[name]), others, self._rates(name, ranges)),
        )

    async def one(self, request: web.Request) -> web.Response:
        (asked,) = asked_vhosts(self._context, request)
        (vhost,) = (each for each in self._context.view.vhosts() if each.name == asked)
        ranges = parse_ranges(request.query)
        others = await self._others(ranges)
        row = with_others(self._row(vhost), others, self._rates(asked, ranges))
        return object_reply(request, row)

    def _rates(self, name: str, ranges: Ranges) -> Sequence[Measured]:
        return self._context.rates.of(VHOST, name, ranges)

    async def _others(self, ranges: Ranges) -> Others:
        """What other nodes say of their vhosts."""
        cluster = self._context.cluster
        return {} if cluster is None else await cluster.vhosts(ranges)

    async def set(self, request: web.Request) -> web.Response:
        caller_of(request).require_administrator()
        body = await read_body(request)
        name = path_name(request, "vhost")
        found = self._context.operations.metadata.vhosts.get(name)
        old = VhostEntry(Uid(0), name, "", ()) if found is None else found.entry
        answer = await put(self._context, vhost_command(name, body, old))
        if answer.status == CREATED:  # As with RabbitMQ, who makes it may use it.
            rights = SetPermissions(caller_of(request).name, name, ".*", ".*", ".*")
            await self._context.operations.carry_out(rights)
            for policy in default_policies(self._context.default_policies, name):
                await self._context.operations.carry_out(policy)
        return answer

    async def delete(self, request: web.Request) -> web.Response:
        caller_of(request).require_administrator()
        name = existing_vhost(self._context, request)
        if self._context.operations.metadata.vhosts[name].entry.protected:
            reason = (
                f"Refusing to delete virtual host '{name}' because it is protected from deletion"
            )
            raise ApiError(412, "precondition_failed", reason)
        await self._context.operations.delete_vhost(name)
        return web.Response(status=204)

    async def start(self, request: web.Request) -> web.Response:
        """They all run wherever their nodes do."""
        caller_of(request).require_administrator()
        existing_vhost(self._context, request)
        names = {self._context.view.node().name}
        if self._context.cluster is not None:
            members = self._context.cluster.operating.cluster_snapshot.members()
            names = {each.name for each in members}
        if request.match_info["node"] not in names:
            raise ApiError.not_found()
        return web.Response(status=204)

    async def protect(self, request: web.Request) -> web.Response:
        return await self._protect(request, True)

    async def unprotect(self, request: web.Request) -> web.Response:
        return await self._protect(request, False)

    async def _protect(self, request: web.Request, on: bool) -> web.Response:
        caller_of(request).require_administrator()
        entry = self._context.operations.metadata.vhosts[
            existing_vhost(self._context, request)
        ].entry
        body: Body = {"protected_from_deletion": on}
        await change(self._context, vhost_command(entry.name, body, entry))
        return web.Response(status=204)

    def _row(self, vhost: VhostView) -> Body:
        found = self._context.operations.metadata.vhosts.get(vhost.name)
        entry = VhostEntry(Uid(0), vhost.name, "", ()) if found is None else found.entry
        default_type = self._context.default_queue_type
        defined = DefinedVhost(entry, vhost, self._context.view.node().name, default_type)
        return row_of(VHOST_COLUMNS, defined)


def with_others(row: Body, others: Others, rates: Sequence[Measured]) -> Body:
    """The row with the counts of the other nodes; `rates` are those of this one."""
    details = [rates]
    states = row["cluster_state"]
    assert isinstance(states, dict)
    stats = row["message_stats"]
    assert isinstance(stats, dict)
    for node, (ready, unsettled, runs, theirs, counts) in others.get(str(row["name"]), {}).items():
        details.append(theirs)
        for stat, count in zip(QUEUE_STATS, counts, strict=True):
            stats[stat] += count
        states[node] = "running" if runs else "stopped"
        for key, count in (("messages_ready", ready), ("messages_unacknowledged", unsettled)):
            own = row[key]
            assert isinstance(own, int)
            row[key] = own + count
            total = row["messages"]
            assert isinstance(total, int)
            row["messages"] = total + count
    return put_details(row, VHOST, [summed(column) for column in zip(*details, strict=True)])


def vhost_command(name: str, body: Body, old: VhostEntry) -> DeclareVhost:
    """ApiError 400 for a type that queues cannot have."""
    kind = body.get("default_queue_type", old.default_queue_type)
    if kind in (None, "undefined", ""):
        kind = ""
    elif isinstance(kind, str):
        # Exports may name the module that makes such queues.
        kind = kind.removeprefix("rabbit_").removesuffix("_queue")
    if kind and kind not in TYPES:
        raise ApiError.bad_request(f"Unsupported default queue type: {cut(str(kind))}")
    return DeclareVhost(
        name,
        text(body, "description", old.description),
        words(body.get("tags", list(old.tags))),
        str(kind),
        flag(body, "tracing", old.tracing),
        flag(body, "protected_from_deletion", old.protected),
    )
