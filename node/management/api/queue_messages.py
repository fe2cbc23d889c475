"""POST .../peek, .../redrive and .../skip_unreadable of a queue: messages that are looked at where
they are, dead letters that go back to where they came from, and messages that no disk gives back.

The first two take a `filter`, an object: `exchange`, `routing_key`, `death_queue`, `death_reason`,
`headers` and `properties` (objects), of which all must be so. A redrive with `progress=true`
answers with a line of JSON after each slice, the last with `"status": "ok"`; a disconnect ends
it.
"""

from functools import partial
from typing import Final

import msgspec
from aiohttp import web

from node.auth.permissions import WRITE
from node.management.access import Context
from node.management.api.definitions import LINES
from node.management.api.messages import payload_columns, queue_to_take
from node.management.auditing import NOTED
from node.management.bodies import Body, flag, name_in, query_flag, read_body, text, whole
from node.management.changes import HttpActor, acting
from node.management.operations import PublishersBlocked, shown_properties
from node.management.replies import ApiError, json_reply
from node.operations.message_filter import PROPERTIES, MessageFilter
from node.operations.operator_session import QueueGone
from node.operations.peeking import COUNT_MAX, PAYLOAD_MAX, Peeked, PeekFailed
from node.operations.redriving import COUNT_MAX as REDRIVEN_MAX
from node.operations.redriving import Order, Permit, Redriven
from queues.definitions.arguments import brief_term
from queues.definitions.broker_objects import Queue
from warren.wire.amqp091.properties import BasicProperties, readable_properties

OFFSET_MAX: Final = 1 << 62
RATE_MAX: Final = 1_000_000
SCANNED: Final = 100  # messages in one question, of a peek with a filter
SCANNED_MAX: Final = 100_000


class Letters:
    """See the module."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/api/queues/{vhost}/{queue}/peek", self.peek),
            web.post("/api/queues/{vhost}/{queue}/redrive", self.redrive),
            web.post("/api/queues/{vhost}/{queue}/skip_unreadable", self.skip_unreadable),
        ]

    async def peek(self, request: web.Request) -> web.Response:
        """Messages from a position on; nothing of the queue changes."""
        actor = acting(self._context, request)
        body = await read_body(request)
        offset = whole(body, "offset", 0, 0, OFFSET_MAX)
        count = whole(body, "count", 1, 1, COUNT_MAX)
        size = whole(body, "truncate", PAYLOAD_MAX, 0)
        encoding = text(body, "encoding", "auto")
        if encoding not in ("auto", "base64"):
            raise ApiError.bad_request(["unsupported_encoding", encoding])
        wanted = filter_in(body)
        queue = queue_to_take(self._context, request, actor)
        try:
            found = await self._peeked(queue, offset, count, size, wanted)
        except PeekFailed as error:
            raise ApiError(503, "unavailable", str(error)) from error
        return json_reply([peeked_row(each, encoding == "auto") for each in found])

    async def _peeked(
        self, queue: Queue, offset: int, count: int, size: int, wanted: MessageFilter | None
    ) -> list[Peeked]:
        peek = self._context.operations.peek
        if wanted is None:
            return list(await peek(queue, offset, count, size))
        found: list[Peeked] = []
        end = offset + SCANNED_MAX
        while offset < end and len(found) < count:
            some = await peek(queue, offset, SCANNED, size)
            if not some:
                break
            found += [each for each in some if is_meant(wanted, each)]
            offset = some[-1].position + 1
        return found[:count]

    async def redrive(self, request: web.Request) -> web.StreamResponse:
        """Dead letters go back: those that some queue has taken, and no others, leave this one."""
        actor = acting(self._context, request)
        order = order_in(await read_body(request))
        queue = queue_to_take(self._context, request, actor)
        permit = partial(may_publish, actor)
        if query_flag(request, "progress"):
            return await self._watched(request, queue, order, permit)
        try:
            done = await self._context.operations.redrive(queue, order, permit)
        except (PeekFailed, PublishersBlocked, QueueGone) as error:
            raise ApiError(503, "unavailable", reason_of(error)) from error
        return json_reply(redriven_row(done))

    async def skip_unreadable(self, request: web.Request) -> web.Response:
        """What cannot be read leaves the queue for good; users that may purge it may do this."""
        queue = queue_to_take(self._context, request, acting(self._context, request))
        try:
            taken = await self._context.operations.skip_unreadable(queue)
        except PeekFailed as error:
            raise ApiError(503, "unavailable", str(error)) from error
        request[NOTED] = f"messages {', '.join(map(str, taken))}" if taken else "no message"
        return json_reply({"skipped": len(taken), "messages": list(taken)})

    async def _watched(
        self, request: web.Request, queue: Queue, order: Order, permit: Permit
    ) -> web.StreamResponse:
        reply = web.StreamResponse(headers={"Content-Type": LINES, "Cache-Control": "no-cache"})
        await reply.prepare(request)

        async def tell(row: Body) -> None:
            await reply.write(msgspec.json.encode(row) + b"\n")

        async def told(done: Redriven) -> None:
            await tell(redriven_row(done))

        try:
            done = await self._context.operations.redrive(queue, order, permit, told)
            await tell({**redriven_row(done), "status": "ok"})
        except (PeekFailed, PublishersBlocked, QueueGone) as error:
            await tell({"error": "unavailable", "reason": reason_of(error)})
        except ConnectionError:
            return reply  # The caller no longer waits for it.
        await reply.write_eof()
        return reply


def reason_of(error: PeekFailed | PublishersBlocked | QueueGone) -> str:
    return str(error) or "the queue is gone"


def order_in(body: Body) -> Order:
    """ApiError 400 for one that makes no sense."""
    exchange = name_in(body, "exchange") if "exchange" in body else None
    key = name_in(body, "routing_key").encode() if "routing_key" in body else None
    if key is not None and exchange is None:
        raise ApiError.bad_request("routing_key without exchange")
    return Order(
        count=whole(body, "count", REDRIVEN_MAX, 1, REDRIVEN_MAX),
        exchange="" if exchange == "amq.default" else exchange,
        routing_key=key,
        keep_deaths=flag(body, "keep_deaths"),
        filter=filter_in(body),
        rate=whole(body, "rate", 0, 0, RATE_MAX),
        is_dry=flag(body, "dry_run"),
    )


def filter_in(body: Body) -> MessageFilter | None:
    """ApiError 400 for one that nothing could be held against."""
    given = body.get("filter")
    if given is None:
        return None
    if not isinstance(given, dict):
        raise ApiError.bad_request(f"filter should be a map, actually was {brief_term(given)}")
    unknown = sorted(given.keys() - KNOWN)
    if unknown:
        raise ApiError.bad_request(f"filter: unknown: {', '.join(unknown)}")
    headers, properties = table_in(given, "headers"), table_in(given, "properties")
    strange = sorted(properties.keys() - set(PROPERTIES))
    if strange:
        raise ApiError.bad_request(f"filter: unknown properties: {', '.join(strange)}")
    texts = {key: text(given, key) for key in TEXTS if key in given}
    return MessageFilter(
        exchange=texts.get("exchange"),
        routing_key=texts["routing_key"].encode() if "routing_key" in texts else None,
        death_queue=texts.get("death_queue"),
        death_reason=texts.get("death_reason"),
        headers=headers,
        properties={name: text(properties, name) for name in properties},
    )


TEXTS: Final = ("exchange", "routing_key", "death_queue", "death_reason")
KNOWN: Final = frozenset((*TEXTS, "headers", "properties"))


def table_in(body: Body, key: str) -> Body:
    value = body.get(key, {})
    if not isinstance(value, dict):
        raise ApiError.bad_request(f"{key} should be a map, actually was {brief_term(value)}")
    return value


def is_meant(wanted: MessageFilter, peeked: Peeked) -> bool:
    if not peeked.is_readable:
        return False
    properties = readable_properties(peeked.properties)
    return wanted.matches(peeked.exchange, peeked.routing_key, properties)


def may_publish(actor: HttpActor, exchange: str, key: bytes) -> bool:
    """Whether the caller may, to this exchange with this key. Undecided."""
    if not actor.permissions.allows(WRITE, exchange, "exchange"):
        return False
    if not actor.broker.definitions.is_topic(actor.vhost, exchange):
        return True
    return actor.permissions.topic_refusal(WRITE, exchange, key) is None


def redriven_row(done: Redriven) -> Body:
    return {"moved": done.moved, "kept": done.kept, "reasons": dict(done.reasons)}


def peeked_row(peeked: Peeked, as_text: bool) -> Body:
    properties = readable_properties(peeked.properties) if peeked.properties else BasicProperties()
    return {
        "position": peeked.position,
        "readable": peeked.is_readable,
        "redelivered": peeked.redelivered,
        "failed_deliveries": peeked.failures,
        "exchange": peeked.exchange,
        "routing_key": peeked.routing_key.decode("utf-8", "replace"),
        "properties": shown_properties(properties) or [],
        "payload_bytes": peeked.payload_bytes,
        **payload_columns(peeked.payload, as_text),
    }
