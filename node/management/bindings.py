"""GET /api/bindings and /api/bindings/{vhost}.

Every queue has a binding to the default exchange by its name; it is shown, as RabbitMQ does,
though nobody keeps it.
"""

import asyncio
from itertools import chain, islice
from urllib.parse import quote

from aiohttp import web

from node.management.access import Context, asked_vhosts
from node.management.listing import SLICE, list_reply, sorted_in_slices
from node.management.view import BindingView


class Bindings:
    """Bindings of the vhosts that the caller sees, by source, destination and key."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/api/bindings", self.every),
            web.get("/api/bindings/{vhost}", self.every),
        ]

    async def every(self, request: web.Request) -> web.StreamResponse:
        bindings: list[BindingView] = []
        for vhost in asked_vhosts(self._context, request):
            bindings += await self._of_vhost(vhost)
        return await list_reply(request, bindings, lambda each: each.destination, binding_row)

    async def _of_vhost(self, vhost: str) -> list[BindingView]:
        view = self._context.view
        sources = [source for source in view.exchange_names(vhost) if source]
        every = chain(
            (_default(vhost, name) for name in view.queue_names(vhost)),
            chain.from_iterable(view.bindings(vhost, source) for source in sources),
        )
        found: list[BindingView] = []
        while taken := list(islice(every, SLICE)):
            found += taken
            await asyncio.sleep(0)
        return await sorted_in_slices(
            found, lambda each: (each.source, each.destination, each.binding_key)
        )


def binding_row(binding: BindingView) -> dict[str, object]:
    return {
        "source": binding.source,
        "vhost": binding.vhost,
        "destination": binding.destination,
        "destination_type": "queue" if binding.destination_is_queue else "exchange",
        "routing_key": binding.binding_key.decode("utf-8", "replace"),
        "arguments": binding.arguments,
        "properties_key": _properties_key(binding),
    }


def _default(vhost: str, queue: str) -> BindingView:
    return BindingView(
        vhost=vhost,
        source="",
        destination=queue,
        destination_is_queue=True,
        binding_key=queue.encode(),
        arguments={},
    )


def _properties_key(binding: BindingView) -> str:
    """What names a binding between the same two ends: its key, `~` if there is none."""
    return quote(binding.binding_key, safe="") or "~"
