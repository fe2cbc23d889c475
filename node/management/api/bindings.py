"""Bindings: /api/bindings, by vhost, and between two ends; POST makes one, DELETE takes one away.

Every queue has a binding to the default exchange by its name; it is shown, as RabbitMQ does,
though it is not stored.
"""

import asyncio
from itertools import chain, islice
from typing import Final
from urllib.parse import quote, quote_plus, unquote_plus

from aiohttp import web

from node.amqp10.descriptions import arguments_hash
from node.definitions.definition_changes import binding
from node.management.access import Context, asked_vhosts
from node.management.bodies import arguments, name_in, read_body
from node.management.changes import HttpActor, acting, change, located, refused
from node.management.replies import ApiError, json_reply
from node.management.rows.columns import SLICE
from node.management.rows.listing import list_reply, sorted_in_slices
from node.management.rows.view import BindingView
from queues.definitions.arguments import encode_arguments
from queues.definitions.broker_objects import Destination
from queues.definitions.metadata.commands import Bind, Unbind
from warren.wire.errors import ProtocolError

PAIR: Final = "/api/bindings/{vhost}/e/{source}/{kind:[qe]}/{destination}"
ONE: Final = PAIR + "/{key}"
ENDS: Final = ("source", "destination")


class Bindings:
    """Bindings of the vhosts that the caller sees, by source, destination and key."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/api/bindings", self.every),
            web.get("/api/bindings/{vhost}", self.every),
            web.get("/api/queues/{vhost}/{queue}/bindings", self.to_queue),
            web.get("/api/exchanges/{vhost}/{exchange}/bindings/{end}", self.at_exchange),
            web.get(PAIR, self.between),
            web.post(PAIR, self.bind),
            web.get(ONE, self.one),
            web.delete(ONE, self.unbind),
        ]

    async def every(self, request: web.Request) -> web.StreamResponse:
        bindings: list[BindingView] = []
        for vhost in asked_vhosts(self._context, request):
            bindings += await self._of_vhost(vhost)
        return await list_reply(request, bindings, lambda each: each.destination, binding_row)

    async def to_queue(self, request: web.Request) -> web.StreamResponse:
        (vhost,) = asked_vhosts(self._context, request)
        name = request.match_info["queue"]
        if self._context.view.queue(vhost, name) is None:
            raise ApiError.not_found()
        every = await self._of_vhost(vhost)
        found = [each for each in every if each.destination_is_queue and each.destination == name]
        return await list_reply(request, found, lambda each: each.source, binding_row)

    async def at_exchange(self, request: web.Request) -> web.StreamResponse:
        """`source`: those that leave it; `destination`: those that lead there."""
        (vhost,) = asked_vhosts(self._context, request)
        name, end = _exchange(request, "exchange"), request.match_info["end"]
        if self._context.view.exchange(vhost, name) is None or end not in ENDS:
            raise ApiError.not_found()
        found = [
            each
            for each in await self._of_vhost(vhost)
            if (each.source == name and end == "source")
            or (each.destination == name and not each.destination_is_queue and end != "source")
        ]
        return await list_reply(request, found, lambda each: each.destination, binding_row)

    async def between(self, request: web.Request) -> web.StreamResponse:
        return await list_reply(
            request, self._between(request), lambda each: each.destination, binding_row
        )

    async def one(self, request: web.Request) -> web.Response:
        return json_reply(binding_row(self._named(request)))

    async def bind(self, request: web.Request) -> web.Response:
        actor = acting(self._context, request)
        self._between(request)
        body = await read_body(request)
        key = name_in(body, "routing_key").encode()
        wanted = BindingView(
            vhost=actor.vhost,
            source=_exchange(request, "source"),
            destination=request.match_info["destination"],
            destination_is_queue=request.match_info["kind"] == "q",
            binding_key=key,
            arguments=arguments(body),
        )
        await change(self._context, self._command(actor, Bind, wanted))
        place = "/".join(quote(part, safe="") for part in (actor.vhost, "e", wanted.source))
        place += f"/{request.match_info['kind']}/{quote(wanted.destination, safe='')}"
        return located(f"/api/bindings/{place}/{quote(properties_key(wanted), safe='')}")

    async def unbind(self, request: web.Request) -> web.Response:
        actor = acting(self._context, request)
        found = self._named(request)
        await change(self._context, self._command(actor, Unbind, found))
        return web.Response(status=204)

    def _command(
        self, actor: HttpActor, command: type[Bind] | type[Unbind], wanted: BindingView
    ) -> Bind | Unbind:
        kind = Destination.QUEUE if wanted.destination_is_queue else Destination.EXCHANGE
        try:
            return binding(
                *(actor, command, wanted.source, kind, wanted.destination, wanted.binding_key),
                dict(wanted.arguments),
            )
        except ProtocolError as error:
            refused(error)

    def _between(self, request: web.Request) -> list[BindingView]:
        """Those from the source to the destination of the path; 404 unless both exist."""
        (vhost,) = asked_vhosts(self._context, request)
        view = self._context.view
        source, name = _exchange(request, "source"), request.match_info["destination"]
        to_queue = request.match_info["kind"] == "q"
        there = view.queue(vhost, name) if to_queue else view.exchange(vhost, name)
        if there is None:
            what = "queue" if to_queue else "exchange"
            raise ApiError.not_found(f"no {what} '{name}' in vhost '{vhost}'")
        if view.exchange(vhost, source) is None:
            raise ApiError.not_found(f"no exchange '{source}' in vhost '{vhost}'")
        if not source:
            return [_default(vhost, name)] if to_queue else []
        return [
            each
            for each in view.bindings(vhost, source)
            if each.destination == name and each.destination_is_queue == to_queue
        ]

    def _named(self, request: web.Request) -> BindingView:
        """The binding that the properties key names, in either of the ways clients write it."""
        wanted = request.match_info["key"]
        for each in self._between(request):
            key = properties_key(each)
            if wanted in (key, unquote_plus(key)):
                return each
        raise ApiError.not_found()

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


def binding_row(each: BindingView) -> dict[str, object]:
    return {
        "source": each.source,
        "vhost": each.vhost,
        "destination": each.destination,
        "destination_type": "queue" if each.destination_is_queue else "exchange",
        "routing_key": each.binding_key.decode("utf-8", "replace"),
        "arguments": each.arguments,
        "properties_key": properties_key(each),
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


def properties_key(each: BindingView) -> str:
    """What names a binding between the same two ends: its key, `~` if there is none, and a hash of
    its arguments where it has some.
    """
    key = quote_plus(each.binding_key, safe="").replace("~", "%7E")
    if not each.arguments:
        return key or "~"
    return f"{key}~{arguments_hash(encode_arguments(dict(each.arguments)))}"


def _exchange(request: web.Request, part: str) -> str:
    name = request.match_info[part]
    return "" if name == "amq.default" else name
