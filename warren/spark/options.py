"""The options of the data source, checked before Spark plans anything. No I/O, no Spark.

Names ignore the case, as all options of Spark do. An unknown name is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from warren.client.url import parse_url

COMMON: Final = ("url", "timeout")
READ: Final = (
    *COMMON,
    *("stream", "superStream", "startingOffset", "numPartitions", "maxMessagesPerTrigger"),
    "failOnDataLoss",
)
WRITE: Final = (
    *COMMON,
    *("queue", "exchange", "routingKey", "publisherId", "rejectedQueue", "maxRowsPerSecond"),
)
PUBLISHER_ID_MAX: Final = 128  # characters
SPARKS_OWN: Final = frozenset({"checkpointlocation"})  # Spark hands them on to the source
FLAGS: Final = {"true": True, "false": False}


class OptionError(ValueError):
    """An option is missing, unknown or has a bad value."""


@dataclass(frozen=True)
class ReadOptions:
    """Of `spark.read` and `spark.readStream`."""

    url: str
    timeout_s: int  # for an answer of the broker
    stream: str  # "": it is a super stream
    super_stream: str
    starting_offset: int | str  # `first`: the oldest message; `next`: what comes from now on
    partitions: int  # tasks that read at the same time, at least one for each stream
    per_trigger_max: int | None  # messages in one micro-batch
    fail_on_data_loss: bool  # False: go on with the oldest message that there is


@dataclass(frozen=True)
class WriteOptions:
    """Of `df.write` and `df.writeStream`."""

    url: str
    timeout_s: int
    queue: str | None
    exchange: str | None
    routing_key: str  # of rows without a column `routing_key`
    publisher_id: str  # under which the queue knows rows that Spark repeats; "": it does not
    per_second_max: int | None  # rows of each task
    rejected_queue: str | None  # takes rows that the broker refuses; None: they fail the query


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """OptionError names the option, its value and what is allowed."""
    options = _known(given, READ)
    url, timeout_s = _common(options)
    stream, super_stream = options.get("stream", ""), options.get("superstream", "")
    if bool(stream) == bool(super_stream):
        raise OptionError("give one of the options 'stream' and 'superStream'")
    start: int | str = options.get("startingoffset", "first")
    if start not in ("first", "next"):
        if super_stream:
            raise OptionError(f"option 'startingOffset' is '{start}'; allowed: first, next")
        start = _number("startingOffset", str(start), 0, "first, next, or ")
    limit = options.get("maxmessagespertrigger")
    flag = options.get("failondataloss", "true").lower()
    if flag not in FLAGS:
        raise OptionError(f"option 'failOnDataLoss' is '{flag}'; allowed: true, false")
    return ReadOptions(
        url,
        timeout_s,
        stream,
        super_stream,
        start,
        _number("numPartitions", options.get("numpartitions", "1"), 1),
        None if limit is None else _number("maxMessagesPerTrigger", limit, 1),
        FLAGS[flag],
    )


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """OptionError names the option, its value and what is allowed."""
    options = _known(given, WRITE)
    url, timeout_s = _common(options)
    queue, exchange = options.get("queue"), options.get("exchange")
    if (queue is None) == (exchange is None):
        raise OptionError("give one of the options 'queue' and 'exchange'")
    key = options.get("routingkey", "")
    if queue is not None and key:
        raise OptionError("option 'routingKey' needs the option 'exchange'")
    publisher_id = options.get("publisherid", "")
    if len(publisher_id) > PUBLISHER_ID_MAX:
        raise OptionError(f"option 'publisherId' has more than {PUBLISHER_ID_MAX} characters")
    rejected = options.get("rejectedqueue")
    if rejected is not None and rejected in ("", queue):
        raise OptionError("option 'rejectedQueue' needs the name of another queue")
    rate = options.get("maxrowspersecond")
    per_second = None if rate is None else _number("maxRowsPerSecond", rate, 1)
    return WriteOptions(url, timeout_s, queue, exchange, key, publisher_id, per_second, rejected)


def _known(given: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    options = {name.lower(): value for name, value in given.items()}
    unknown = sorted(options.keys() - SPARKS_OWN - {name.lower() for name in names})
    if unknown:
        raise OptionError(f"unknown option '{unknown[0]}'; known: {', '.join(names)}")
    return options


def _common(options: Mapping[str, str]) -> tuple[str, int]:
    if not options.get("url"):
        raise OptionError("option 'url' is missing")
    try:
        parse_url(options["url"])
    except ValueError:  # Its text has the password.
        raise OptionError("option 'url': expected amqp://USER:PASSWORD@HOST:PORT/VHOST") from None
    return options["url"], _number("timeout", options.get("timeout", "30"), 1)


def _number(name: str, value: str, least: int, other: str = "") -> int:
    if not (value.isascii() and value.isdigit()) or int(value) < least:
        raise OptionError(
            f"option '{name}' is '{value}'; allowed: {other}a whole number from {least} on"
        )
    return int(value)


def split(begin: int, end: int, parts: int) -> list[tuple[int, int]]:
    """Up to `parts` ranges of nearly equal size that cover `begin` to `end` exclusively."""
    count = end - begin
    parts = min(parts, count)
    cuts = [begin + count * n // parts for n in range(parts + 1)] if parts > 0 else []
    return list(pairwise(cuts))
