"""GET /api/channels, and one by its name: that of its connection, and its number in brackets.

Sessions of AMQP 1.0 are channels here, so that the list is as long as the totals say (0047).
"""

from aiohttp import web

from node.management.access import Context
from node.management.replies import ApiError
from node.management.rows.client_lists import ClientLists
from node.management.rows.client_rows import deliveries_of
from node.management.rows.client_view import Chosen, channel_key, channel_name
from node.management.rows.listing import object_reply
from node.management.rows.rates import CHANNEL, CONNECTION
from node.management.rows.sampling import parse_ranges


class Channels:
    """All channels for monitoring users; for others, their own."""

    def __init__(self, context: Context) -> None:
        self._lists = ClientLists(context)
        self._pairs = context.pairs

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/api/channels", self.every),
            web.get("/api/channels/{name}", self.one),
            web.get("/api/vhosts/{vhost}/channels", self.every),
            web.get("/api/connections/{name}/channels", self.of_connection),
        ]

    async def every(self, request: web.Request) -> web.StreamResponse:
        return await self._lists.reply(request, CHANNEL)

    async def of_connection(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        await self._lists.one(request, CONNECTION, (name, 0, 0))
        return await self._lists.reply(request, CHANNEL, Chosen(connection=name))

    async def one(self, request: web.Request) -> web.Response:
        """With its consumers, and what went to them from each queue."""
        key = channel_key(request.match_info["name"])
        if key is None:
            raise ApiError.not_found()
        row, _ = await self._lists.one(request, CHANNEL, key)
        of_connection = await self._lists.consumers(Chosen(connection=key[0]))
        own = [each for each in of_connection if each["channel_details"]["number"] == key[1]]
        row["consumer_details"] = own
        row["deliveries"] = deliveries_of(own, by_queue=True)
        name, ranges = channel_name(key[0], key[1]), parse_ranges(request.query)
        row["publishes"] = await self._pairs.of_channel(name, ranges)
        return object_reply(request, row)
