"""GET /api/exchanges, /api/exchanges/{vhost} and /api/exchanges/{vhost}/{exchange}."""

from aiohttp import web

from node.management.access import Context, asked_vhosts
from node.management.listing import list_reply, sorted_in_slices
from node.management.replies import ApiError, json_reply
from node.management.view import ExchangeView


class Exchanges:
    """Exchanges of the vhosts that the caller sees. In a path, `amq.default` is the default one."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/api/exchanges", self.every),
            web.get("/api/exchanges/{vhost}", self.every),
            web.get("/api/exchanges/{vhost}/{exchange}", self.one),
        ]

    async def every(self, request: web.Request) -> web.StreamResponse:
        view = self._context.view
        keys: list[tuple[str, str]] = []
        for vhost in asked_vhosts(self._context, request):
            names = await sorted_in_slices(view.exchange_names(vhost), str)
            keys += [(vhost, name) for name in names]
        return await list_reply(request, keys, lambda key: key[1], self._row)

    async def one(self, request: web.Request) -> web.Response:
        (vhost,) = asked_vhosts(self._context, request)
        name = request.match_info["exchange"]
        row = self._row((vhost, "" if name == "amq.default" else name))
        if row is None:
            raise ApiError.not_found()
        return json_reply(row)

    def _row(self, key: tuple[str, str]) -> dict[str, object] | None:
        exchange = self._context.view.exchange(*key)
        return None if exchange is None else exchange_row(exchange)


def exchange_row(exchange: ExchangeView) -> dict[str, object]:
    return {
        "name": exchange.name,
        "vhost": exchange.vhost,
        "type": exchange.type,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": exchange.arguments,
        "policy": None,
    }
