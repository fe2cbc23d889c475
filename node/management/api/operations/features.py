"""GET /api/feature-flags and /api/deprecated-features: what tools ask to learn what a broker can.

RabbitMQ's flags switch parts of it on once all nodes know them. Here they are always on, so each
flag that a tool may ask for is enabled and required, and enabling it again does nothing. What
RabbitMQ has deprecated or removed (mirrors, lazy mode, global prefetch, transient queues) is meant
to stay here: the lists of deprecated features are empty.
"""

from typing import Final

from aiohttp import web

from node.management.access import Context, caller_of
from node.management.replies import ApiError, json_reply

PROVIDER: Final = "warren"
FLAGS: Final = {
    "drop_unroutable_metric": "Messages that were dropped as unroutable are counted",
    "empty_basic_get_metric": "Gets of empty queues are counted",
    "implicit_default_bindings": "Bindings to the default exchange are not kept",
    "maintenance_mode_status": "Nodes can be drained and revived",
    "quorum_queue": "Queues of the type quorum",
    "user_limits": "Limits of connections and channels of a user",
    "virtual_host_metadata": "Virtual hosts have a description and tags",
}


class Features:
    """The same on every node."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/api/feature-flags", self.flags),
            web.put("/api/feature-flags/{name}/enable", self.enable),
            web.get("/api/deprecated-features", self.deprecated),
            web.get("/api/deprecated-features/used", self.deprecated),
        ]

    async def flags(self, request: web.Request) -> web.Response:
        rows = [
            {
                "name": name,
                "desc": text,
                "doc_url": "",
                "state": "enabled",
                "stability": "required",
                "provided_by": PROVIDER,
            }
            for name, text in FLAGS.items()
        ]
        return json_reply(rows)

    async def enable(self, request: web.Request) -> web.Response:
        caller_of(request).require_administrator()
        if request.match_info["name"] not in FLAGS:
            raise ApiError.bad_request("The feature flag is not supported by all nodes")
        return web.Response(status=204)

    async def deprecated(self, request: web.Request) -> web.Response:
        caller_of(request).require_monitor()
        return json_reply([])
