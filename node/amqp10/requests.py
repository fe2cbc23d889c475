"""Requests to `/management`: from path, query and body to plain values. Pure.

A request is a method, a target (path with query, each part percent-encoded) and a body. What is
wrong with one raises RequestError with the status and the text of the answer. Names are at most
255 bytes, as AMQP 0-9-1 has them, and have neither CR nor LF.
"""

import re
from typing import Final
from urllib.parse import parse_qsl, unquote_to_bytes

from msgspec import Struct

from queues.conversion.values import DROPPED, pairs_of, to_091
from queues.definitions.broker_objects import DEFAULT_EXCHANGE, Destination
from warren.wire.amqp10.codec.values import Pairs

NAME_BYTES_MAX: Final = 255
QUERY_FIELDS_MAX: Final = 16

_BROKEN_ESCAPE: Final = re.compile("%(?![0-9A-Fa-f]{2})")
_BINDING: Final = re.compile(
    r"src=([0-9A-Za-z.\-_~%]+);dst([eq])=([0-9A-Za-z.\-_~%]+);"
    r"key=([0-9A-Za-z.\-_~%]*);args=([0-9A-Za-z\-_]*)"
)


class RequestError(Exception):
    """The request is not carried out; `status` and `text` are the answer."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status} {text}")
        self.status = status
        self.text = text


class Request(Struct, frozen=True):
    method: str
    target: str
    body: object = None


class Reply(Struct, frozen=True):
    status: int
    body: object = None  # a map or a list; with an error its text


class QueueFields(Struct, frozen=True, kw_only=True):
    durable: bool = True
    auto_delete: bool = False
    exclusive: bool = False
    arguments: dict[str, object]


class ExchangeFields(Struct, frozen=True, kw_only=True):
    type: str = "direct"
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: dict[str, object]


class BindingFields(Struct, frozen=True):
    """A binding; `arguments_hash` instead of arguments where a path names it."""

    source: str
    kind: Destination
    destination: str
    key: bytes
    arguments: dict[str, object]
    arguments_hash: str = ""


# Paths


def split_target(target: str) -> tuple[list[str], dict[str, str]]:
    """Segments of the path, still encoded; fields of the query, decoded."""
    path, _, query = target.partition("?")
    if not path.startswith("/"):
        raise RequestError(400, f"bad path '{path}'")
    try:
        fields = parse_qsl(query, True, errors="strict", max_num_fields=QUERY_FIELDS_MAX)
    except ValueError as error:
        raise RequestError(400, f"bad query '{query}'") from error
    return path[1:].split("/"), dict(fields)


def decode_name(segment: str) -> str:
    """The name in a segment of a path."""
    try:
        name = _unquoted(segment).decode()
    except UnicodeDecodeError:
        raise RequestError(400, f"bad path segment '{segment}'") from None
    return checked_name(name)


def checked_name(name: str) -> str:
    if "\n" in name or "\r" in name:
        text = f"Bad name '{name}': line feed and carriage return characters not allowed"
        raise RequestError(400, text)
    if len(name.encode("utf-8", "replace")) > NAME_BYTES_MAX:
        raise RequestError(400, f"Bad name: longer than {NAME_BYTES_MAX} bytes")
    return name


def checked_key(key: bytes) -> bytes:
    if len(key) > NAME_BYTES_MAX:
        raise RequestError(400, f"Bad binding key: longer than {NAME_BYTES_MAX} bytes")
    return key


def decode_binding_segment(segment: str) -> BindingFields:
    """`src=..;dstq=..;key=..;args=..`: one binding, its arguments by their hash."""
    found = _BINDING.fullmatch(segment)
    if found is None:
        raise RequestError(400, f"bad binding path segment '{segment}'")
    source, kind, destination, key, arguments_hash = found.groups()
    return BindingFields(
        decode_name(source),
        Destination.QUEUE if kind == "q" else Destination.EXCHANGE,
        decode_name(destination),
        checked_key(_unquoted(key)),
        {},
        arguments_hash,
    )


def decode_binding_query(query: dict[str, str]) -> BindingFields:
    """`src`, `dstq` or `dste`, `key`: the bindings between two ends with one key."""
    for name in ("src", "key"):
        if name not in query:
            raise RequestError(400, f"missing '{name}' in query: {query}")
    if "dste" in query:
        kind, destination = Destination.EXCHANGE, query["dste"]
    elif "dstq" in query:
        kind, destination = Destination.QUEUE, query["dstq"]
    else:
        raise RequestError(400, f"missing 'dste' or 'dstq' in query: {query}")
    key = checked_key(query["key"].encode())
    return BindingFields(checked_name(query["src"]), kind, checked_name(destination), key, {})


def _unquoted(part: str) -> bytes:
    if _BROKEN_ESCAPE.search(part):
        raise RequestError(400, f"bad path segment '{part}'")
    return unquote_to_bytes(part)


# Bodies


def decode_queue(body: object) -> QueueFields:
    flags, texts, arguments = _fields(body, "queue property", flags=QUEUE_FLAGS)
    assert not texts
    return QueueFields(arguments=arguments, **flags)


def decode_exchange(body: object) -> ExchangeFields:
    flags, texts, arguments = _fields(
        body, "exchange property", flags=EXCHANGE_FLAGS, texts=frozenset({"type"})
    )
    return ExchangeFields(type=texts.get("type", "direct"), arguments=arguments, **flags)


def decode_binding(body: object) -> BindingFields:
    _, texts, arguments = _fields(body, "binding field", texts=BINDING_TEXTS)
    for name in ("source", "binding_key"):
        if name not in texts:
            raise RequestError(400, f"missing binding field '{name}'")
    queue, exchange = texts.get("destination_queue"), texts.get("destination_exchange")
    if (queue is None) == (exchange is None):
        text = "one of 'destination_queue' and 'destination_exchange' must be in the binding"
        raise RequestError(400, text)
    return BindingFields(
        checked_name(texts["source"]),
        Destination.EXCHANGE if queue is None else Destination.QUEUE,
        checked_name(queue or exchange or DEFAULT_EXCHANGE),
        checked_key(texts["binding_key"].encode()),
        arguments,
    )


QUEUE_FLAGS: Final = frozenset({"durable", "auto_delete", "exclusive"})
EXCHANGE_FLAGS: Final = frozenset({"durable", "auto_delete", "internal"})
BINDING_TEXTS: Final = frozenset(
    {"source", "destination_queue", "destination_exchange", "binding_key"}
)
NOTHING: Final[frozenset[str]] = frozenset()


def _fields(
    body: object,
    what: str,
    *,
    flags: frozenset[str] = NOTHING,
    texts: frozenset[str] = NOTHING,
) -> tuple[dict[str, bool], dict[str, str], dict[str, object]]:
    """Booleans, texts and arguments of a body; anything else in it is an error."""
    found_flags: dict[str, bool] = {}
    found_texts: dict[str, str] = {}
    arguments: dict[str, object] = {}
    if body is None:
        body = {}
    if not isinstance(body, dict):
        raise RequestError(400, "the body must be a map")
    for name, value in body.items():
        if name in flags and isinstance(value, bool):
            found_flags[str(name)] = value
        elif name in texts and type(value) is str:
            found_texts[str(name)] = value
        elif name == "arguments":
            arguments = decode_arguments_map(value)
        else:
            raise RequestError(400, f"bad {what} {name!r}: {value!r}"[:500])
    return found_flags, found_texts, arguments


def decode_arguments_map(value: object) -> dict[str, object]:
    """Arguments as AMQP 0-9-1 has them; a value that it cannot hold is an error."""
    if not isinstance(value, (dict, Pairs)):
        raise RequestError(400, "arguments must be a map")
    arguments: dict[str, object] = {}
    for name, item in pairs_of(value):
        converted = to_091(item)
        fits = isinstance(name, str) and len(name.encode()) <= NAME_BYTES_MAX
        if converted is DROPPED or not fits:
            raise RequestError(400, f"unsupported argument {name!r}: {item!r}"[:500])
        arguments[str(name)] = converted
    return arguments
