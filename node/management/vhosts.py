"""GET /api/vhosts and /api/vhosts/{vhost}."""

from aiohttp import web

from node.management.access import Context, asked_vhosts
from node.management.listing import list_reply
from node.management.replies import json_reply
from node.management.view import VhostView


class Vhosts:
    """The vhosts that the caller sees."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/api/vhosts", self.every), web.get("/api/vhosts/{vhost}", self.one)]

    async def every(self, request: web.Request) -> web.StreamResponse:
        node = self._context.view.node().name
        by_name = {each.name: each for each in self._context.view.vhosts()}
        names = asked_vhosts(self._context, request)
        return await list_reply(request, names, str, lambda name: vhost_row(by_name[name], node))

    async def one(self, request: web.Request) -> web.Response:
        (asked,) = asked_vhosts(self._context, request)
        node = self._context.view.node().name
        (vhost,) = (each for each in self._context.view.vhosts() if each.name == asked)
        return json_reply(vhost_row(vhost, node))


def vhost_row(vhost: VhostView, node: str) -> dict[str, object]:
    return {
        "name": vhost.name,
        "description": "",
        "tags": [],
        "default_queue_type": "classic",
        "tracing": False,
        "cluster_state": {node: "running" if vhost.running else "stopped"},
        "messages": vhost.messages_ready + vhost.messages_unacknowledged,
        "messages_ready": vhost.messages_ready,
        "messages_unacknowledged": vhost.messages_unacknowledged,
    }
