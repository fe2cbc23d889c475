"""GET /api/consumers, and those of one vhost: consumers of AMQP 0-9-1, links of AMQP 1.0."""

from aiohttp import web

from node.management.access import Context
from node.management.rows.client_lists import ClientLists
from node.management.rows.rates import CONSUMER


class Consumers:
    """All consumers for monitoring users; for others, those of their own connections."""

    def __init__(self, context: Context) -> None:
        self._lists = ClientLists(context)

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/api/consumers", self.every),
            web.get("/api/consumers/{vhost}", self.every),
        ]

    async def every(self, request: web.Request) -> web.StreamResponse:
        return await self._lists.reply(request, CONSUMER)
