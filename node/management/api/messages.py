"""POST .../publish of an exchange and .../get of a queue: messages one by one, for a try."""

import base64
import binascii
from typing import Final

from aiohttp import web

from node.auth.permissions import WRITE
from node.definitions.definition_changes import readable_queue
from node.management.access import Context, caller_of
from node.management.bodies import (
    Body,
    arguments,
    name_in,
    read_body,
    read_with_payload,
    text,
    whole,
)
from node.management.changes import HttpActor, acting, refused
from node.management.operations import Got, PublishersBlocked
from node.management.replies import ApiError, json_reply
from queues.definitions.arguments import brief_term, cut
from queues.definitions.broker_objects import Queue
from queues.definitions.queue_arguments import DURATION_MS_MAX
from queues.machine.commands import ACCEPT, REJECT, RELEASE
from warren.wire.amqp091.properties import BasicProperties
from warren.wire.errors import ProtocolError

COUNT_MAX: Final = 1000
TEXTS: Final = (
    "content_type", "content_encoding", "correlation_id", "reply_to", "message_id", "type",
    "user_id", "app_id", "cluster_id",
)  # fmt: skip
OUTCOMES: Final = {
    "ack_requeue_true": RELEASE,
    "ack_requeue_false": ACCEPT,
    "reject_requeue_true": RELEASE,
    "reject_requeue_false": REJECT,
}


class Messages:
    """Into exchanges, out of queues."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/api/exchanges/{vhost}/{exchange}/publish", self.publish),
            web.post("/api/queues/{vhost}/{queue}/get", self.get),
        ]

    async def publish(self, request: web.Request) -> web.Response:
        actor = acting(self._context, request)
        name = request.match_info["exchange"]
        name = "" if name == "amq.default" else name
        body = await read_with_payload(
            request, "payload", "routing_key", "properties", "payload", "payload_encoding"
        )
        key = name_in(body, "routing_key").encode()
        properties = properties_of(body, caller_of(request).name)
        payload = payload_of(body)
        try:
            actor.permissions.require(WRITE, "exchange", name)
            if self._context.operations.broker.definitions.is_topic(actor.vhost, name):
                keys = (key, *more_keys(body))
                topic_refused = actor.permissions.keys_refusal(WRITE, name, keys)
                if topic_refused is not None:
                    refused(topic_refused)
            routed = await self._context.operations.publish(
                actor.vhost, name, key, properties, payload
            )
        except ProtocolError as error:
            refused(error)
        except LookupError as error:
            raise ApiError.not_found("exchange_not_found") from error
        except PublishersBlocked as error:
            raise ApiError(503, "unavailable", str(error)) from error
        except ValueError as error:
            raise ApiError.bad_request(str(error)) from error
        return json_reply({"routed": routed})

    async def get(self, request: web.Request) -> web.Response:
        actor = acting(self._context, request)
        body = await read_body(request, "ackmode", "count", "encoding")
        outcome = OUTCOMES.get(text(body, "ackmode"))
        if outcome is None:
            raise ApiError.bad_request(["invalid_ackmode", cut(text(body, "ackmode"))])
        count = whole(body, "count", 1, 1, COUNT_MAX)
        encoding = text(body, "encoding")
        if encoding not in ("auto", "base64"):
            raise ApiError.bad_request(["unsupported_encoding", cut(encoding)])
        size = whole(body, "truncate", -1, -1) if "truncate" in body else -1
        queue = queue_to_take(self._context, request, actor)
        try:
            found = await self._context.operations.get(queue, count, outcome)
        except ProtocolError as error:
            refused(error)
        return json_reply([got_row(each, encoding == "auto", size) for each in found])


def queue_to_take(context: Context, request: web.Request, actor: HttpActor) -> Queue:
    """The queue in the path, if the caller may take messages from it."""
    name = request.match_info["queue"]
    if context.operations.broker.definitions.queue(actor.vhost, name) is None:
        raise ApiError.not_found("queue_not_found")
    try:
        return readable_queue(actor, name)
    except ProtocolError as error:
        refused(error)


def payload_of(body: Body) -> bytes:
    payload, encoding = text(body, "payload"), text(body, "payload_encoding")
    if encoding == "string":
        return payload.encode()
    if encoding != "base64":
        raise ApiError.bad_request(["unsupported_encoding", cut(encoding)])
    try:
        return base64.b64decode(payload, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ApiError.bad_request("payload is not base64") from error


def properties_of(body: Body, user: str) -> bytes:
    """The properties in their stored form; ApiError 400 for values that cannot be theirs."""
    given = body["properties"] or {}
    if not isinstance(given, dict):
        raise ApiError.bad_request(f"properties should be a map, actually was {brief_term(given)}")
    properties = BasicProperties()
    for name in TEXTS:
        if name in given:
            setattr(properties, name, text(given, name))
    if properties.user_id not in (None, user):
        reason = f"user_id property set to '{properties.user_id}' but authenticated user was"
        raise ApiError.bad_request(f"{reason} '{user}'")
    if "headers" in given:
        properties.headers = arguments(given, "headers")
    if "delivery_mode" in given:
        properties.delivery_mode = whole(given, "delivery_mode", 1, 1, 2)
    if "priority" in given:
        properties.priority = whole(given, "priority", 0, 0, 255)
    if "timestamp" in given:
        properties.timestamp = whole(given, "timestamp", 0, 0, (1 << 63) - 1)
    if "expiration" in given:
        properties.expiration = str(whole(given, "expiration", 0, 0, DURATION_MS_MAX))
    try:
        return properties.encode()
    except (ValueError, OverflowError) as error:
        raise ApiError.bad_request(f"properties: {error}") from error


def got_row(got: Got, as_text: bool, size: int) -> Body:
    payload = got.payload if size < 0 else got.payload[:size]
    return {
        "payload_bytes": len(got.payload),
        "redelivered": got.redelivered,
        "exchange": got.exchange,
        "routing_key": got.routing_key,
        "message_count": got.remaining,
        "properties": got.properties or [],
        **payload_columns(payload, as_text),
    }


def payload_columns(payload: bytes, as_text: bool) -> Body:
    """As text, if it may be and is; else in base64."""
    shown = text_of(payload) if as_text else None
    if shown is not None:
        return {"payload": shown, "payload_encoding": "string"}
    return {"payload": base64.b64encode(payload).decode(), "payload_encoding": "base64"}


def text_of(payload: bytes) -> str | None:
    """None: it is no text."""
    try:
        return payload.decode("utf-8")
    except UnicodeDecodeError:
        return None


def more_keys(body: Body) -> list[bytes]:
    """The keys that the headers CC and BCC name; what is no key of theirs is refused elsewhere."""
    properties = body.get("properties")
    headers = properties.get("headers") if isinstance(properties, dict) else None
    if not isinstance(headers, dict):
        return []
    lists = [headers.get(name) for name in ("CC", "BCC")]
    keys = [key for each in lists if isinstance(each, list) for key in each]
    return [key.encode("utf-8", "surrogateescape") for key in keys if isinstance(key, str)]
