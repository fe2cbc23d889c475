"""The runtime parameter `shovel`: RabbitMQ's keys, defaults and error texts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec import Struct

from federation.pacing import NO_RATES, Rates
from federation.parameter_checks import (
    MANDATORY,
    OPTIONAL,
    Spec,
    as_stored,
    boolean,
    faults_of,
    number,
    one_of,
    table,
    text,
    uri,
)
from federation.uris import BadUri, parse_uri
from queues.definitions.arguments import brief_term

ON_CONFIRM: Final = "on-confirm"
ON_PUBLISH: Final = "on-publish"
NO_ACK: Final = "no-ack"
ACK_MODES: Final = (NO_ACK, ON_PUBLISH, ON_CONFIRM)
AMQP_091: Final = "amqp091"
AMQP_10: Final = "amqp10"
LOCAL: Final = "local"  # AMQP 0-9-1 to this cluster itself: the URI's host does not count
NEVER: Final = "never"
QUEUE_LENGTH: Final = "queue-length"
PREFETCH: Final = 1000
PREFETCH_MAX: Final = 65_535
RECONNECT_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class SourceEnd:
    """Where messages come from."""

    uris: tuple[str, ...] = field(repr=False)
    protocol: str = AMQP_091
    queue: str = ""  # or, of AMQP 1.0, the address
    exchange: str = ""
    exchange_key: str = ""
    queue_arguments: Mapping[str, object] = field(default_factory=dict)
    consumer_arguments: Mapping[str, object] = field(default_factory=dict)
    prefetch: int = PREFETCH
    predeclared: bool = False


@dataclass(frozen=True, slots=True)
class TargetEnd:
    """Where they go. `exchange` None: each message keeps its own; `key` None likewise."""

    uris: tuple[str, ...] = field(repr=False)
    protocol: str = AMQP_091
    queue: str = ""  # or, of AMQP 1.0, the address
    exchange: str | None = None
    exchange_key: str | None = None
    queue_arguments: Mapping[str, object] = field(default_factory=dict)
    properties: Mapping[str, object] = field(default_factory=dict)
    add_forward_headers: bool = False
    add_timestamp_header: bool = False
    predeclared: bool = False


class ShovelConfig(Struct, frozen=True):
    """A shovel as its parameter defines it."""

    vhost: str
    name: str
    source: SourceEnd
    target: TargetEnd
    ack_mode: str = ON_CONFIRM
    delete_after: int | str = NEVER  # a number of messages, NEVER or QUEUE_LENGTH
    reconnect_s: float = RECONNECT_S
    rates: Rates = NO_RATES
    marks_ids: bool = False  # so that queues of the target leave out what they have had


PROTOCOL_OF: Final = {"src-uri": "src-protocol", "dest-uri": "dest-protocol"}
_PROTOCOL: Final = one_of(AMQP_10, AMQP_091, LOCAL)


def _delete_after(key: str, value: object) -> str | None:
    if value in (NEVER, QUEUE_LENGTH):
        return None
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return None
    return (
        f'{key} should be a number greater than or equal to 0, "never" or "queue-length", '
        f"actually was {brief_term(value)}"
    )


def _delete_after_10(key: str, value: object) -> str | None:
    """AMQP 1.0 does not tell the length of a queue."""
    if value == NEVER or (value != QUEUE_LENGTH and _delete_after(key, value) is None):
        return None
    return (
        f'{key} should be a number greater than or equal to 0 or "never", '
        f"actually was {brief_term(value)}"
    )


_COMMON: Final[Spec] = {
    "internal": (boolean, OPTIONAL),
    "reconnect-delay": (number, OPTIONAL),
    "ack-mode": (one_of(*ACK_MODES), OPTIONAL),
    "federation-dedup": (boolean, OPTIONAL),
    "max-messages-per-second": (number, OPTIONAL),
    "max-bytes-per-second": (number, OPTIONAL),
    "src-protocol": (_PROTOCOL, OPTIONAL),
    "dest-protocol": (_PROTOCOL, OPTIONAL),
}
_SOURCE: Final[Mapping[str, Spec]] = {
    AMQP_091: {
        "src-uri": (uri, MANDATORY),
        "src-exchange": (text, OPTIONAL),
        "src-exchange-key": (text, OPTIONAL),
        "src-queue": (text, OPTIONAL),
        "src-queue-args": (table, OPTIONAL),
        "src-consumer-args": (table, OPTIONAL),
        "prefetch-count": (number, OPTIONAL),
        "src-prefetch-count": (number, OPTIONAL),
        "delete-after": (_delete_after, OPTIONAL),
        "src-delete-after": (_delete_after, OPTIONAL),
        "src-predeclared": (boolean, OPTIONAL),
    },
    AMQP_10: {
        "src-uri": (uri, MANDATORY),
        "src-address": (text, MANDATORY),
        "src-prefetch-count": (number, OPTIONAL),
        "src-delete-after": (_delete_after_10, OPTIONAL),
    },
}
_TARGET: Final[Mapping[str, Spec]] = {
    AMQP_091: {
        "dest-uri": (uri, MANDATORY),
        "dest-exchange": (text, OPTIONAL),
        "dest-exchange-key": (text, OPTIONAL),
        "dest-queue": (text, OPTIONAL),
        "dest-queue-args": (table, OPTIONAL),
        "add-forward-headers": (boolean, OPTIONAL),
        "add-timestamp-header": (boolean, OPTIONAL),
        "dest-add-forward-headers": (boolean, OPTIONAL),
        "dest-add-timestamp-header": (boolean, OPTIONAL),
        "publish-properties": (table, OPTIONAL),
        "dest-publish-properties": (table, OPTIONAL),
        "dest-predeclared": (boolean, OPTIONAL),
    },
    AMQP_10: {
        "dest-uri": (uri, MANDATORY),
        "dest-address": (text, MANDATORY),
        "dest-add-forward-headers": (boolean, OPTIONAL),
        "dest-add-timestamp-header": (boolean, OPTIONAL),
        "dest-application-properties": (table, OPTIONAL),
        "dest-message-annotations": (table, OPTIONAL),
        "dest-properties": (table, OPTIONAL),
    },
}


def shovel_faults(name: str, value: object) -> list[str]:
    """What is wrong with a shovel's value; []: it can be set."""
    return _faults(name, value, lambda spec: spec)


def stored_shovel_faults(name: str, value: object) -> list[str]:
    """The same of a stored value; options of its URIs are errors of the shovel."""
    return _faults(name, value, as_stored)


def _faults(name: str, value: object, adapted: Callable[[Spec], Spec]) -> list[str]:
    if not isinstance(value, dict):
        return [f"{name} should be a JSON object, actually was {brief_term(value)}"]
    source, target = _protocol(value, "src-protocol"), _protocol(value, "dest-protocol")
    found = _queue_or_exchange_faults(value) if source != AMQP_10 else []
    found += _counted_faults(value)
    if target != AMQP_10 and "dest-exchange" in value and "dest-queue" in value:
        found.append("Cannot specify 'dest-exchange' and 'dest-queue'")
    spec = {
        **_COMMON,
        **_SOURCE[AMQP_10 if source == AMQP_10 else AMQP_091],
        **_TARGET[AMQP_10 if target == AMQP_10 else AMQP_091],
    }
    return found + faults_of(name, adapted(spec), value)


def _queue_or_exchange_faults(value: Mapping[str, object]) -> list[str]:
    named = ("src-exchange" in value) + ("src-queue" in value)
    if named == 0:
        return ["Must specify 'src-exchange' or 'src-queue'"]
    return ["Cannot specify 'src-exchange' and 'src-queue'"] if named == 2 else []


def _counted_faults(value: Mapping[str, object]) -> list[str]:
    is_counted = isinstance(_first(value, "src-delete-after", "delete-after"), int)
    if is_counted and value.get("ack-mode") == NO_ACK:
        return ["Cannot specify 'no-ack' and numerical 'delete-after'"]
    return []


def _protocol(value: Mapping[str, object], key: str) -> str:
    named = value.get(key)
    return str(named) if named in (AMQP_10, LOCAL) else AMQP_091


def shovel_config(vhost: str, name: str, value: Mapping[str, object]) -> ShovelConfig:
    """The shovel of a value without faults, whose URIs are not sealed."""
    delete_after = _first(value, "src-delete-after", "delete-after")
    return ShovelConfig(
        vhost,
        name,
        _source(value),
        _target(value),
        str(value.get("ack-mode", ON_CONFIRM)),
        delete_after if isinstance(delete_after, int) else str(delete_after or NEVER),
        _number(value.get("reconnect-delay"), RECONNECT_S),
        rates_of(value),
        value.get("federation-dedup") is True,
    )


def rates_of(value: Mapping[str, object]) -> Rates:
    return Rates(
        _number(value.get("max-messages-per-second"), 0.0),
        _number(value.get("max-bytes-per-second"), 0.0),
    )


def _source(value: Mapping[str, object]) -> SourceEnd:
    prefetch = _number(_first(value, "src-prefetch-count", "prefetch-count"), PREFETCH)
    return SourceEnd(
        uris_of(value["src-uri"]),
        _protocol(value, "src-protocol"),
        str(_first(value, "src-queue", "src-address") or ""),
        str(value.get("src-exchange", "")),
        str(value.get("src-exchange-key", "")),
        _table(value.get("src-queue-args")),
        _table(value.get("src-consumer-args")),
        min(max(1, int(prefetch)), PREFETCH_MAX),
        value.get("src-predeclared") is True,
    )


def _target(value: Mapping[str, object]) -> TargetEnd:
    exchange, key = value.get("dest-exchange"), value.get("dest-exchange-key")
    forward = _first(value, "dest-add-forward-headers", "add-forward-headers")
    stamped = _first(value, "dest-add-timestamp-header", "add-timestamp-header")
    return TargetEnd(
        uris_of(value["dest-uri"]),
        _protocol(value, "dest-protocol"),
        str(_first(value, "dest-queue", "dest-address") or ""),
        None if exchange is None else str(exchange),
        None if key is None else str(key),
        _table(value.get("dest-queue-args")),
        _table(_first(value, "dest-publish-properties", "publish-properties", "dest-properties")),
        forward is True,
        stamped is True,
        value.get("dest-predeclared") is True,
    )


def uris_of(value: object) -> tuple[str, ...]:
    return tuple(str(each) for each in value) if isinstance(value, list) else (str(value),)


def _first(value: Mapping[str, object], *keys: str) -> object:
    return next((value[key] for key in keys if key in value), None)


def _number(value: object, otherwise: float) -> float:
    return float(value) if isinstance(value, (int, float)) else otherwise


def _table(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def local_vhosts(value: object) -> list[str]:
    """The vhosts of this cluster that the shovel's URIs name without a user: the node connects to
    them as itself."""
    found: list[str] = []
    for key in ("src-uri", "dest-uri"):
        is_here = isinstance(value, dict) and value.get(PROTOCOL_OF[key]) == LOCAL
        uris = uris_of(value.get(key, "")) if isinstance(value, dict) else ()
        for each in uris:
            try:
                uri = parse_uri(each)
            except BadUri:
                continue  # Reported as a fault of the value, or sealed: it has a user.
            if (uri.is_local or is_here) and not uri.user:
                found.append(uri.vhost or "/")
    return found
