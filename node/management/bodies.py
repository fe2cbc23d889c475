"""Bodies of requests: JSON objects, and what of them is a name, a flag, a number or arguments.

Whatever is wrong is an ApiError 400 in RabbitMQ's words. Unknown keys are ignored,
as RabbitMQ does. What is nested deeper than DEPTH_MAX is refused before it is parsed.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from aiohttp import web
from aiohttp.http import HttpProcessingError

from node.management.replies import ApiError
from queues.definitions.arguments import brief_term, cut, decode_arguments, encode_arguments
from queues.definitions.expressions import Expression, ExpressionError
from queues.definitions.queue_arguments import NAME_BYTES_MAX
from warren.wire.errors import ProtocolError

Body = dict[str, object]

PLAIN: Final = msgspec.json.Encoder()
_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])

LINE_MAX: Final = 80
DEPTH_MAX: Final = 64  # of arrays and objects in each other
BODY_BYTES_MAX: Final = 1024 * 1024
DEFINITIONS_BYTES_MAX: Final = 20 * 1024 * 1024
ARGUMENTS_BYTES_MAX: Final = 128 * 1024  # of a field table, as a method frame of AMQP has them
ON_LOOP_BYTES: Final = 64 * 1024  # decoded at once; a larger body in a thread
BODY: Final = web.RequestKey("body", bytes)  # as it came: a handler may run twice
BODY_SECONDS: Final = 60.0  # for a client to send what it has announced


async def read_raw(request: web.Request, limit: int = BODY_BYTES_MAX) -> bytes:
    """The body as it is; ApiError if it does not come, is too large or cannot be unpacked."""
    if BODY in request:
        return request[BODY]
    try:
        async with asyncio.timeout(BODY_SECONDS):
            body = request[BODY] = await request.clone(client_max_size=limit).read()
            return body
    except web.HTTPRequestEntityTooLarge as error:
        reason = f"the body is larger than {limit:,} bytes, which is allowed for this resource"
        raise ApiError(413, "payload_too_large", reason) from error
    except TimeoutError as error:
        raise ApiError(408, "timeout", "the body did not come in time") from error
    except (HttpProcessingError, web.RequestPayloadError) as error:
        raise ApiError.bad_request("the body cannot be decoded") from error


async def read_json(request: web.Request) -> object:
    """Whatever JSON the body is; an empty body is an empty object."""
    raw = await read_raw(request)
    if len(raw) > ON_LOOP_BYTES:
        return await asyncio.to_thread(decoded, raw)
    return decoded(raw) if raw else {}


async def read_with_payload(request: web.Request, payload: str, *needed: str) -> Body:
    """As `read_body`; the member `payload` may be as large as definitions, the rest may not."""
    raw = await read_raw(request, DEFINITIONS_BYTES_MAX)
    if len(raw) <= BODY_BYTES_MAX:
        body = decoded(raw) if raw else {}
    else:
        body = await asyncio.to_thread(_decoded_members, raw, payload)
    if not isinstance(body, dict):
        raise ApiError.bad_request("not_json")
    need(body, *needed)
    return body


def _decoded_members(raw: bytes, payload: str) -> Body:
    try:
        members = _MEMBERS.decode(raw)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise ApiError.bad_request("not_json") from error
    for name, each in members.items():
        whole_text = name == payload and bytes(each)[:1] == b'"'
        if len(bytes(each)) > BODY_BYTES_MAX and not whole_text:
            reason = f"{cut(name)} is larger than {BODY_BYTES_MAX:,} bytes"
            raise ApiError(413, "payload_too_large", reason)
    return {name: decoded(each) for name, each in members.items()}


def decoded(raw: bytes | msgspec.Raw) -> object:
    """ApiError 400 for what is no JSON, or is nested too deeply."""
    try:
        value = msgspec.json.decode(raw)  # Which takes no lone surrogates, unlike the library's.
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise ApiError.bad_request("not_json") from error
    if is_too_deep(value):
        raise ApiError.bad_request("not_json")
    return value


def is_too_deep(value: object) -> bool:
    """Whether arrays and objects are in each other more than DEPTH_MAX times."""
    level = [value]
    for _ in range(DEPTH_MAX):
        below: list[object] = []
        for each in level:
            if isinstance(each, dict):
                below += [item for item in each.values() if isinstance(item, (dict, list))]
            elif isinstance(each, list):
                below += [item for item in each if isinstance(item, (dict, list))]
        if not below:
            return False
        level = below
    return True


async def read_body(request: web.Request, *needed: str) -> Body:
    """The object in the body, in which none of the `needed` keys is missing."""
    body = await read_json(request)
    if not isinstance(body, dict):
        raise ApiError.bad_request("not_json")
    need(body, *needed)
    return body


def need(body: Mapping[str, object], *keys: str) -> None:
    missing = [f"{{key_missing,{key.replace('-', '_')}}}" for key in keys if key not in body]
    if missing:
        whole = f"[{','.join(missing)}]"
        if len(whole) > LINE_MAX:  # So RabbitMQ breaks its lines.
            whole = f"[{f',{chr(10)} '.join(missing)}]"
        raise ApiError.bad_request(whole)


def flag(body: Mapping[str, object], key: str, default: bool = False) -> bool:
    """A boolean, or its name as text."""
    value = body.get(key, default)
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return value == "true"
    raise ApiError.bad_request(
        ["not_boolean", cut(value) if isinstance(value, str) else brief_term(value)]
    )


def query_flag(request: web.Request, key: str) -> bool:
    return flag(request.query, key)


def text(body: Mapping[str, object], key: str, default: str = "") -> str:
    value = body.get(key, default)
    if not isinstance(value, str):
        raise ApiError.bad_request(f"{key} should be a string, actually was {brief_term(value)}")
    return value


def whole(
    body: Mapping[str, object], key: str, default: int, low: int = 0, high: int = 1 << 31
) -> int:
    """A number, or one as text, as some clients send it."""
    value = body.get(key, default)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ApiError.bad_request(f"{key} should be a number, actually was {brief_term(value)}")
    return value


def arguments(body: Mapping[str, object], key: str = "arguments") -> Body:
    """Arguments of a queue, exchange or binding, that can be written as a field table."""
    value = body.get(key) or {}
    if not isinstance(value, dict):
        raise ApiError.bad_request(f"{key} should be a map, actually was {brief_term(value)}")
    try:
        encoded = encode_arguments(value)
        if len(encoded) > ARGUMENTS_BYTES_MAX:
            raise ValueError(
                f"{len(encoded):,} bytes as a field table; allowed: {ARGUMENTS_BYTES_MAX:,}"
            )
        decode_arguments(encoded)  # Which refuses what AMQP clients could not send.
    except ProtocolError as error:
        raise ApiError.bad_request(f"{key}: {error.text}") from error
    except (ValueError, OverflowError, RecursionError) as error:
        raise ApiError.bad_request(f"{key}: {cut(str(error))}") from error
    return value


def stored(value: object, encoder: msgspec.json.Encoder = PLAIN) -> bytes:
    """The value as JSON, as definitions keep it; ApiError 400 for a number that is too large."""
    try:
        return encoder.encode(value)
    except (OverflowError, ValueError, TypeError) as error:
        raise ApiError.bad_request(f"the value cannot be kept: {error}") from error


def words(value: object) -> tuple[str, ...]:
    """Tags: a list of strings, or one string with commas."""
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ApiError.bad_request(
            f"tags should be a list of strings, actually was {brief_term(value)}"
        )
    found = (each.strip() for each in value)
    return tuple(dict.fromkeys(each for each in found if each))


def path_name(request: web.Request, key: str) -> str:
    """A name in the path that can be one on the wire."""
    return short(request.match_info[key], f"{key} name")


def name_in(body: Mapping[str, object], key: str, default: str = "") -> str:
    """A text that can be a name on the wire."""
    return short(text(body, key, default), key)


def short(name: str, what: str) -> str:
    if len(name.encode()) > NAME_BYTES_MAX:
        raise ApiError.bad_request(f"{what} is longer than {NAME_BYTES_MAX} bytes")
    return name


def matching(body: Mapping[str, object]) -> Callable[[str, str], bool]:
    """Whether vhost and name have `vhost_pattern` and `queue_pattern` anywhere in them."""
    vhost = pattern_of(body, "vhost_pattern")
    name = pattern_of(body, "queue_pattern")
    return lambda of_vhost, of_name: vhost.is_found_in(of_vhost) and name.is_found_in(of_name)


def pattern_of(body: Mapping[str, object], key: str) -> Expression:
    return expression(text(body, key, ".*"), key)


def expression(pattern: str, key: str) -> Expression:
    """ApiError 400 for what cannot be compiled."""
    try:
        return Expression(pattern)
    except ExpressionError as error:
        raise ApiError.bad_request(f"{key} is not a regular expression: {error}") from error
