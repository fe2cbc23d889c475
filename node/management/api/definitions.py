"""Definitions in one JSON file: GET and POST /api/definitions, and those of one vhost.

An export has the form of RabbitMQ 4, with operator policies and limits of vhosts among the
parameters as there; what RabbitMQ 3 and 4 export is imported. What is there already stays where
it would not agree: queues, exchanges and bindings are never changed. The rest takes the place of
what was there. An import is read whole and tried on a copy before anything of it is done, and then
done in order and in slices. It comes as it is, or as the field `file` of a form. The digest of the
file that was imported last is kept as a global parameter that no list shows, for
`skip_if_unchanged`; `progress` answers with lines of JSON.
For administrators; a vhost's export also for policymakers who see it.
"""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec
from aiohttp import web

from node.connections.connection_properties import PRODUCT, VERSION
from node.management.access import Context, asked_vhosts, caller_of
from node.management.api.parameters import IMPORTED, global_rows, parameter_rows, sealed_value
from node.management.api.permissions import permission_row, topic_permission_row
from node.management.api.policies import policy_rows
from node.management.bodies import DEFINITIONS_BYTES_MAX, Body, query_flag, read_raw
from node.management.changes import change, existing_vhost
from node.management.definitions_file import DefinitionsFile, file_in
from node.management.definitions_import import OPERATOR_POLICY, Importer
from node.management.definitions_run import ImportRun, failure_row, ignore_progress
from node.management.replies import ApiError, json_reply, with_warnings
from queues.definitions.arguments import decode_arguments
from queues.definitions.broker_objects import (
    DEFAULT_EXCHANGE,
    RESERVED_PREFIX,
    Binding,
    Destination,
)
from queues.definitions.metadata.commands import PutParameter
from queues.definitions.metadata.machine import Metadata
from queues.definitions.metadata.vhost import VHost
from queues.definitions.queue_arguments import queue_type
from queues.definitions.retroactive import exchange_of_ring
from queues.definitions.vhost_limits import USER_LIMITS, VHOST_LIMITS, VHOST_LIMITS_NAME, limits_in

SLICE: Final = 256  # rows between two turns of the loop
SKIP: Final = "skip_if_unchanged"
LINES: Final = "application/x-ndjson"


class DefinitionFiles:
    """All definitions, out and in."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/api/definitions", self.export),
            web.post("/api/definitions", self.take_in),
            web.get("/api/definitions/{vhost}", self.export_vhost),
            web.post("/api/definitions/{vhost}", self.take_in_vhost),
        ]

    async def export(self, request: web.Request) -> web.Response:
        caller_of(request).require_administrator()
        metadata = self._context.operations.metadata
        body = self._head(request)
        body["users"] = user_rows(metadata)
        body["vhosts"] = [vhost_export(each) for each in metadata.vhosts.values()]
        access = metadata.access
        body["permissions"] = [permission_row(each) for each in access.permissions_by_key.values()]
        topics = access.topic_permissions_by_key.values()
        body["topic_permissions"] = [topic_permission_row(each) for each in topics]
        body["global_parameters"] = global_rows(self._context)
        rows: dict[str, list[Body]] = {part: [] for part in PARTS}
        for vhost in list(metadata.vhosts.values()):
            for part, found in (await self._parts_of(vhost)).items():
                rows[part] += found
        return json_reply({**body, **rows})

    async def export_vhost(self, request: web.Request) -> web.Response:
        (name,) = asked_vhosts(self._context, request)
        caller_of(request).require_policymaker()
        vhost = self._context.operations.metadata.vhosts[name]
        body = self._head(request)
        described = vhost_export(vhost)
        body["vhost"] = name
        for key in ("description", "metadata", "limits"):
            body[key] = described[key]
        for part, found in (await self._parts_of(vhost)).items():
            body[part] = [{key: row[key] for key in row if key != "vhost"} for row in found]
        return json_reply(body)

    def _head(self, request: web.Request) -> Body:
        node = self._context.view.node()
        return {
            "rabbit_version": VERSION,
            "rabbitmq_version": VERSION,
            "product_name": PRODUCT,
            "product_version": node.version,
            "rabbitmq_definition_format": "single_virtual_host"
            if "vhost" in request.match_info
            else "cluster",
            "original_cluster_name": node.cluster_name,
        }

    async def _parts_of(self, vhost: VHost) -> dict[str, list[Body]]:
        """Everything in the vhost that outlives a restart."""
        name = vhost.name
        return {
            "parameters": [
                *parameter_rows(self._context, name),
                *operator_rows(self._context, name),
                *limit_rows(vhost),
            ],
            "policies": policy_rows(self._context, name, operator=False),
            "queues": await _sliced(queue_rows(vhost)),
            "exchanges": await _sliced(exchange_rows(vhost)),
            "bindings": await _sliced(binding_rows(vhost)),
        }

    async def take_in(self, request: web.Request) -> web.StreamResponse:
        caller_of(request).require_administrator()
        return await self._take_in(request, None)

    async def take_in_vhost(self, request: web.Request) -> web.StreamResponse:
        caller_of(request).require_administrator()
        return await self._take_in(request, existing_vhost(self._context, request))

    async def _take_in(self, request: web.Request, vhost: str | None) -> web.StreamResponse:
        skips, is_watched = query_flag(request, SKIP), query_flag(request, "progress")
        raw = await read_raw(request, DEFINITIONS_BYTES_MAX)
        kind = request.headers.get("Content-Type", "")
        file = await asyncio.to_thread(lambda: DefinitionsFile(file_in(raw, kind)))
        if skips and self._digest(vhost) == file.digest:
            return web.Response(status=204)
        metadata = self._context.operations.metadata
        node = self._context.view.node().name
        context = self._context
        hash_of, rules = context.logins.hash_of, context.default_policies
        seal = partial(sealed_value, metadata, context.links)
        default = context.default_queue_type
        importer = Importer(metadata, node, vhost, hash_of, rules, seal, default)
        run = ImportRun(context.operations, await importer.commands_of(file))
        await run.try_out()
        if is_watched:
            return await self._watched(request, run, vhost, file.digest)
        await run.carry_out(ignore_progress)
        await self._keep_digest(vhost, file.digest)
        warnings = run.warnings()
        return json_reply({"warnings": warnings}) if warnings else web.Response(status=204)

    async def _watched(
        self, request: web.Request, run: ImportRun, vhost: str | None, digest: str
    ) -> web.StreamResponse:
        """A line of JSON for each slice. Who goes away does not end the import."""
        reply = web.StreamResponse(headers={"Content-Type": LINES, "Cache-Control": "no-cache"})
        await reply.prepare(request)

        async def tell(row: Body) -> None:
            with suppress(ConnectionError):
                await reply.write(msgspec.json.encode(row) + b"\n")

        async def told(done: int) -> None:
            await tell({"done": done, "total": run.total})

        try:
            await run.carry_out(told)
            await self._keep_digest(vhost, digest)
            await tell(with_warnings({"status": "ok"}, run.warnings()))
        except ApiError as error:
            await tell(failure_row(error))
        with suppress(ConnectionError):
            await reply.write_eof()
        return reply

    def _digest(self, vhost: str | None) -> str | None:
        """Of the file that was imported last."""
        found = self._context.operations.metadata.parameters.get((IMPORTED, vhost or ""))
        return None if found is None else str(msgspec.json.decode(found.value))

    async def _keep_digest(self, vhost: str | None, digest: str) -> None:
        if self._digest(vhost) != digest:
            value = msgspec.json.encode(digest)
            await change(self._context, PutParameter("", IMPORTED, vhost or "", value))


PARTS: Final = ("parameters", "policies", "queues", "exchanges", "bindings")


async def _sliced(rows: Iterator[Body]) -> list[Body]:
    found: list[Body] = []
    for row in rows:
        found.append(row)
        if len(found) % SLICE == 0:
            await asyncio.sleep(0)
    return found


def user_rows(metadata: Metadata) -> list[Body]:
    return [
        {
            "name": user.name,
            "password_hash": user.password_hash,
            "hashing_algorithm": user.hashing,
            "tags": list(user.tags),
            "limits": limits_in(metadata.parameters.get((USER_LIMITS, user.name))),
        }
        for user in metadata.access.users.values()
    ]


def vhost_export(vhost: VHost) -> Body:
    entry = vhost.entry
    about: Body = {"description": entry.description, "tags": list(entry.tags)}
    if entry.default_queue_type:
        about["default_queue_type"] = entry.default_queue_type
    return {
        "name": entry.name,
        **about,
        "metadata": about,
        "limits": limits_in(vhost.parameters.get((VHOST_LIMITS, VHOST_LIMITS_NAME))),
    }


def operator_rows(context: Context, vhost: str) -> Iterator[Body]:
    """Operator policies as RabbitMQ exports them: as parameters."""
    for row in policy_rows(context, vhost, operator=True):
        value = {key: row[key] for key in ("pattern", "apply-to", "definition", "priority")}
        yield {
            "vhost": vhost,
            "component": OPERATOR_POLICY,
            "name": row["name"],
            "value": value,
        }


def limit_rows(vhost: VHost) -> Iterator[Body]:
    found = vhost.parameters.get((VHOST_LIMITS, VHOST_LIMITS_NAME))
    if found is not None:
        value = msgspec.json.decode(found.value)
        yield {
            "vhost": vhost.name,
            "component": VHOST_LIMITS,
            "name": VHOST_LIMITS_NAME,
            "value": value,
        }


def queue_rows(vhost: VHost) -> Iterator[Body]:
    """All that outlive a restart, but for rings of retroactive exchanges, which the cluster makes
    by itself."""
    for queue in list(vhost.queues.values()):
        if queue.outlives_restart and exchange_of_ring(queue.name) == 0:
            arguments = decode_arguments(queue.arguments)
            yield {
                "name": queue.name,
                "vhost": vhost.name,
                "type": queue_type(arguments),
                "durable": queue.durable,
                "auto_delete": queue.auto_delete,
                "arguments": arguments,
            }


def exchange_rows(vhost: VHost) -> Iterator[Body]:
    for exchange in list(vhost.exchanges.values()):
        if exchange.durable and not _is_predeclared(exchange.name):
            yield {
                "name": exchange.name,
                "vhost": vhost.name,
                "type": exchange.type,
                "durable": exchange.durable,
                "auto_delete": exchange.auto_delete,
                "internal": exchange.internal,
                "arguments": decode_arguments(exchange.arguments),
            }


def binding_rows(vhost: VHost) -> Iterator[Body]:
    """Between what is exported, or was there from the start."""
    for each in vhost.bindings():
        if _is_lasting(vhost, each):
            to_queue = each.destination_kind is Destination.QUEUE
            yield {
                "source": each.source,
                "vhost": vhost.name,
                "destination": each.destination,
                "destination_type": "queue" if to_queue else "exchange",
                "routing_key": each.binding_key.decode("utf-8", "replace"),
                "arguments": decode_arguments(each.arguments),
            }


def _is_lasting(vhost: VHost, binding: Binding) -> bool:
    if not vhost.exchanges[binding.source].durable:
        return False
    if binding.destination_kind is Destination.QUEUE:
        return vhost.queues[binding.destination].outlives_restart
    return vhost.exchanges[binding.destination].durable


def _is_predeclared(exchange: str) -> bool:
    return exchange == DEFAULT_EXCHANGE or exchange.startswith(RESERVED_PREFIX)
