"""Publishes rows with confirms. Knows the client, not Spark.

Columns: `body` (binary or string) must be there; `routing_key`, `message_id`, `correlation_id`,
`content_type` (strings) and `headers` (a map) may be. Other columns are refused before anything
is sent.
"""

import asyncio
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final
from urllib.parse import quote

from warren.client import ClientError, Message, Publisher, connect
from warren.spark.options import OptionError, WriteOptions

BATCH: Final = 1000  # rows whose confirms are awaited together
TEXTS: Final = ("message_id", "correlation_id", "content_type")
TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "body": ("binary", "string"),
    "routing_key": ("string",),
    "headers": ("map",),
    **dict.fromkeys(TEXTS, ("string",)),
}


class WriteError(Exception):
    """A row was not accepted by the broker, or the broker cannot be reached."""


def check_columns(columns: Mapping[str, str], options: WriteOptions) -> None:
    """`columns`: type names by column. OptionError names the column that does not fit."""
    if "body" not in columns:
        raise OptionError(f"column 'body' is missing; there are: {', '.join(columns)}")
    for name, kind in columns.items():
        allowed = TYPES.get(name)
        if allowed is None:
            raise OptionError(f"column '{name}' is unknown; known: {', '.join(TYPES)}")
        if kind not in allowed:
            raise OptionError(
                f"column '{name}' has the type '{kind}'; allowed: {', '.join(allowed)}"
            )
    if "routing_key" in columns and options.exchange is None:
        raise OptionError("column 'routing_key' needs the option 'exchange'")


def publish(options: WriteOptions, rows: Iterable[Any]) -> int:
    """Publish all rows; how many. WriteError: one of them was not accepted."""
    try:
        return asyncio.run(_publish(options, rows))
    except (ClientError, OSError, TimeoutError) as error:
        raise WriteError(f"{_target(options)}: {error or 'no confirm in time'}") from error


async def _publish(options: WriteOptions, rows: Iterable[Any]) -> int:
    count = 0
    left = iter(rows)
    async with await connect(options.url, timeout_s=options.timeout_s) as connection:
        # Without a routing key of their own all rows go to one address.
        publisher = await connection.publisher(
            None if options.exchange is not None else f"/queues/{quote(options.queue or '', '')}"
        )
        while batch := [message_of(options, row.asDict()) for row in islice(left, BATCH)]:
            await _send(options, publisher, batch, count)
            count += len(batch)
    return count


async def _send(
    options: WriteOptions, publisher: Publisher, batch: list[Message], count: int
) -> None:
    outcomes = await publisher.publish_many(batch, timeout_s=options.timeout_s)
    for place, outcome in enumerate(outcomes):
        if not outcome.is_accepted:
            why = outcome.error or "no queue took it"
            raise WriteError(
                f"{_target(options)}: row {count + place} of this task was {outcome.kind}: {why}"
            )


def message_of(options: WriteOptions, row: Mapping[str, Any]) -> Message:
    """One row as a durable message."""
    body = row["body"]
    if body is None:
        raise WriteError("column 'body' is null in a row")
    message = Message(
        body.encode() if isinstance(body, str) else bytes(body),
        application_properties=dict(row.get("headers") or {}),
        **{name: row[name] for name in TEXTS if row.get(name) is not None},
    )
    if options.exchange is not None:
        key = row.get("routing_key")
        message.to = _exchange(options.exchange, options.routing_key if key is None else key)
    return message


def _exchange(name: str, key: str) -> str:
    address = f"/exchanges/{quote(name, '')}"
    return f"{address}/{quote(key, '')}" if key else address


def _target(options: WriteOptions) -> str:
    kind = "queue" if options.exchange is None else "exchange"
    return f"{kind} '{options.queue if options.exchange is None else options.exchange}'"
