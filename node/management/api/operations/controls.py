"""What operators set on a running node, until it restarts: limits of alarms, its listener, and in
tests its clock.

    PUT  /api/nodes/{node}/limits     {"vm_memory_high_watermark": {"relative": 0.5}
                                                                 | {"absolute": 1000000000},
                                       "disk_free_limit": {"absolute": 50000000}
                                                        | {"mem_relative": 1.0}}
    POST /api/nodes/{node}/listeners  {"action": "suspend" | "resume"}
    PUT  /api/nodes/{node}/clock      {"advance_ms": 3600000}

Administrators ask any node of the cluster for any other. A suspended listener takes no new clients;
those that are in stay. Nothing of it is kept in the definitions.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from aiohttp import web

from node.cluster.services.status_channel import NoAnswer, Unanswerable
from node.management.access import Context, caller_of
from node.management.bodies import read_body
from node.management.operations import NOT_ADJUSTABLE, NodeControls
from node.management.replies import ApiError
from queues.definitions.arguments import term

CONTROL: Final = "control"  # the question to other nodes: what, value
LIMITS: Final = "limits"
LISTENERS: Final = "listeners"
CLOCK: Final = "clock"
ADVANCE_MS_MAX: Final = 100 * 365 * 86_400_000
MEMORY: Final = "vm_memory_high_watermark"
DISK: Final = "disk_free_limit"
BYTES_MAX: Final = 1 << 60


class Controls:
    """See the module."""

    def __init__(self, context: Context, controls: NodeControls) -> None:
        self._context = context
        self._controls = controls
        if context.cluster is not None:
            context.cluster.operating.status.serve(CONTROL, self._asked)

    def routes(self) -> list[web.RouteDef]:
        return [
            web.put("/api/nodes/{node}/limits", self.limits),
            web.post("/api/nodes/{node}/listeners", self.listeners),
            web.put("/api/nodes/{node}/clock", self.clock),
        ]

    async def limits(self, request: web.Request) -> web.Response:
        caller_of(request).require_administrator()
        body = await read_body(request)
        total = self._controls.memory_total_bytes
        limits = [
            limit_of(body, MEMORY, "relative", total),
            limit_of(body, DISK, "mem_relative", total),
        ]
        if limits == [None, None]:
            raise ApiError.bad_request(f"nothing to set; known: {MEMORY}, {DISK}")
        return await self._have(request.match_info["node"], LIMITS, limits)

    async def listeners(self, request: web.Request) -> web.Response:
        caller_of(request).require_administrator()
        action = (await read_body(request, "action"))["action"]
        if action not in ("suspend", "resume"):
            raise ApiError.bad_request(f"unknown action: {term(action)}; known: suspend, resume")
        return await self._have(request.match_info["node"], LISTENERS, action == "resume")

    async def clock(self, request: web.Request) -> web.Response:
        """Have time to live, delays and queue expiry act as if the time had passed."""
        caller_of(request).require_administrator()
        config = self._context.config
        if config is None or not config.testing.adjustable_clock:
            raise ApiError.bad_request(NOT_ADJUSTABLE)
        ms = (await read_body(request, "advance_ms"))["advance_ms"]
        if not isinstance(ms, int) or isinstance(ms, bool) or not 0 <= ms <= ADVANCE_MS_MAX:
            raise ApiError.bad_request(
                f"advance_ms is {term(ms)}; allowed: whole numbers from 0 to {ADVANCE_MS_MAX}"
            )
        return await self._have(request.match_info["node"], CLOCK, ms)

    async def _have(self, node: str, what: str, value: object) -> web.Response:
        """Have that node do it."""
        cluster = self._context.cluster
        try:
            if cluster is None or node == self._context.view.node().name:
                await self._do(what, value)
                return web.Response(status=204)
            member = cluster.operating.cluster_snapshot.member_named(node)
            if member is None:
                raise ApiError.not_found()
            await cluster.operating.status.ask(member.id, CONTROL, [what, value])
        except (NoAnswer, OSError) as error:
            raise ApiError(503, "unavailable", str(error)) from error
        return web.Response(status=204)

    async def _asked(self, asker: int, about: Any) -> AsyncIterator[object]:
        what, value = about
        try:
            await self._do(what, value)
        except OSError as error:
            raise Unanswerable(str(error)) from error
        yield True

    async def _do(self, what: str, value: Any) -> None:
        if what == LIMITS:
            self._controls.set_limits(*value)
        elif what == LISTENERS:
            await self._controls.set_listening(value is True)
        elif what == CLOCK:
            self._controls.advance_clock(value)
        else:
            raise Unanswerable(f"unknown: {what}")


def limit_of(body: Mapping[str, object], key: str, share: str, total: int) -> int | None:
    """A limit in bytes; None: it is not asked for. `share`: what a part of the memory is called."""
    if key not in body:
        return None
    asked = body[key]
    wrong = ApiError.bad_request(f"{key} should be {{{share}: share}} or {{absolute: bytes}}")
    if not isinstance(asked, dict) or len(asked) != 1:
        raise wrong
    (name, value), *_ = asked.items()
    if name not in (share, "absolute") or isinstance(value, bool):
        raise wrong
    if not isinstance(value, (int, float)):
        raise wrong
    if key == MEMORY and name == share and value > 1:
        raise ApiError.bad_request(f"{key}: the share is {value}; allowed: 0.0 to 1.0")
    limit = value * total if name == share else value
    if not 0 <= limit <= BYTES_MAX:
        raise ApiError.bad_request(f"{key} is out of range")
    return int(limit)
