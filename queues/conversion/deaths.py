"""The history of a dead letter, as each protocol tells it.

    AMQP 0-9-1   header x-death: array of tables {[original-expiration S], count l, reason S,
                 queue S, time T, exchange S, routing-keys A of S}
    AMQP 1.0     annotation x-opt-deaths: array of maps {[ttl uint], queue string, reason symbol,
                 count ulong, first-time timestamp, last-time timestamp, exchange string,
                 routing-keys array of string}

0-9-1 has no time of the last death; 1.0 gets the first one twice then. What does not look like a
history is none; what one protocol cannot say of it is brought into its bounds.
"""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from queues.conversion.values import MS
from warren.wire.amqp091 import values as v091
from warren.wire.amqp10.codec import values as v10

X_DEATH: Final = "x-death"
X_OPT_DEATHS: Final = "x-opt-deaths"
DIGITS_MAX: Final = 20  # of an expiration
UINT_MAX: Final = 0xFFFFFFFF
COUNT_MAX: Final = (1 << 63) - 1


class Death(Struct, frozen=True):
    """How often a message died in one queue for one reason."""

    queue: str
    reason: str
    count: int
    first_ms: int
    last_ms: int
    exchange: str
    routing_keys: tuple[str, ...]
    ttl_ms: int | None = None


def with_death(past: Iterable[Death], new: Death) -> list[Death]:
    """The newest first; a pair of queue and reason that was there is counted and moves up."""
    rest: list[Death] = []
    for death in past:
        if (death.queue, death.reason) == (new.queue, new.reason):
            count = min(death.count + 1, COUNT_MAX)
            new = replace(death, count=count, last_ms=new.last_ms)
        else:
            rest.append(death)
    return [new, *rest]


def deaths_10(value: object) -> list[Death]:
    """Of the annotation."""
    items = value.items if isinstance(value, v10.Array) else value
    if not isinstance(items, list):
        return []
    return [death for death in map(_death_10, items) if death is not None]


def _death_10(item: object) -> Death | None:
    if not isinstance(item, dict):
        return None
    ttl = item.get("ttl")
    return _death(
        item,
        (item.get("first-time"), item.get("last-time")),
        1,
        int(ttl) if isinstance(ttl, int) else None,
    )


def deaths_091(value: object) -> list[Death]:
    """Of the header."""
    if not isinstance(value, list):
        return []
    return [death for death in map(_death_091, value) if death is not None]


def _death_091(item: object) -> Death | None:
    if not isinstance(item, dict):
        return None
    text = item.get("original-expiration")
    is_number = isinstance(text, str) and len(text) <= DIGITS_MAX and text.isascii()
    ttl = int(text) if is_number and isinstance(text, str) and text.isdigit() else None
    return _death(item, (item.get("time"), item.get("time")), MS, ttl)


def _death(
    item: dict[object, object], times: tuple[object, object], unit: int, ttl: int | None
) -> Death | None:
    queue, reason, exchange = (item.get(name) for name in ("queue", "reason", "exchange"))
    first, last = times
    count = item.get("count")
    if not (isinstance(queue, str) and isinstance(reason, str) and isinstance(count, int)):
        return None
    keys = item.get("routing-keys")
    names = keys.items if isinstance(keys, v10.Array) else keys
    return Death(
        _utf8(queue),
        reason.encode("ascii", "replace").decode(),
        _within(count),
        _within(first * unit) if isinstance(first, int) else 0,
        _within(last * unit) if isinstance(last, int) else 0,
        _utf8(exchange) if isinstance(exchange, str) else "",
        tuple(_utf8(name) for name in names if isinstance(name, str))
        if isinstance(names, list)
        else (),
        ttl,
    )


def _utf8(text: str) -> str:
    """The text as both protocols can say it: a `?` for each byte that is none."""
    return text.encode("utf-8", "replace").decode()


def _within(number: int) -> int:
    """The number nearest to it that both protocols have."""
    return min(max(int(number), 0), COUNT_MAX)


def annotation_of(deaths: Iterable[Death]) -> v10.Array:
    """x-opt-deaths."""
    return v10.Array("map", [_map_of(death) for death in deaths])


def _map_of(death: Death) -> dict[object, object]:
    entries: dict[object, object] = {}
    if death.ttl_ms is not None:
        entries[v10.Symbol("ttl")] = v10.UInt(min(death.ttl_ms, UINT_MAX))
    entries[v10.Symbol("queue")] = death.queue
    entries[v10.Symbol("reason")] = v10.Symbol(death.reason)
    entries[v10.Symbol("count")] = v10.ULong(death.count)
    entries[v10.Symbol("first-time")] = v10.Timestamp(death.first_ms)
    entries[v10.Symbol("last-time")] = v10.Timestamp(death.last_ms)
    entries[v10.Symbol("exchange")] = death.exchange
    entries[v10.Symbol("routing-keys")] = v10.Array("string", list(death.routing_keys))
    return entries


def header_of(deaths: Iterable[Death]) -> list[object]:
    """x-death."""
    return [_table_of(death) for death in deaths]


def _table_of(death: Death) -> dict[str, object]:
    table: dict[str, object] = {}
    if death.ttl_ms is not None:
        table["original-expiration"] = str(death.ttl_ms)
    table["count"] = v091.Int64(death.count)
    table["reason"] = death.reason
    table["queue"] = death.queue
    table["time"] = v091.Timestamp(death.first_ms // MS)
    table["exchange"] = death.exchange
    table["routing-keys"] = list(death.routing_keys)
    return table
