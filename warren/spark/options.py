"""The options of the data source, checked before Spark plans anything. No I/O, no Spark.

Names ignore the case, as all options of Spark do. An unknown name is refused.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final

from warren.client.url import parse_url

COMMON: Final = ("url", "timeout")
READ: Final = (
    *COMMON,
    *("stream", "superStream", "queue", "lease", "leaseTimeout"),
    *("startingOffset", "startingTimestamp"),
    *("endingOffset", "endingTimestamp", "numPartitions"),
    *("maxMessagesPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"),
    *("filter", "pushFilters", "failOnDataLoss", "readAt"),
    *("columns", "bodyFormat", "schema", "avroSchema", "badBody"),
)
WRITE: Final = (
    *COMMON,
    *("queue", "exchange", "routingKey", "publisherId", "rejectedQueue", "maxRowsPerSecond"),
)
PUBLISHER_ID_MAX: Final = 128  # characters
SPARKS_OWN: Final = frozenset({"checkpointlocation"})  # Spark hands them on to the source
FLAGS: Final = {"true": True, "false": False}
BODY_FORMATS: Final = ("binary", "text", "json", "avro")
SCHEMAS: Final = {"json": "schema", "avro": "avroSchema"}  # the option that a format needs
TRIGGER_DELAY: Final = "15m"
LEASE_TIMEOUT: Final = "5m"
LEASE_TIMEOUT_MAX_S: Final = 7 * 86_400
LEASE_BYTES_MAX: Final = 255  # of the name
OF_STREAMS: Final = (  # options that mean nothing to a queue
    *("startingOffset", "startingTimestamp", "endingOffset", "endingTimestamp"),
    *("minOffsetsPerTrigger", "maxTriggerDelay", "filter", "pushFilters"),
)
FILTER_MAX: Final = 4096  # characters, as the broker takes them
UNITS_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
UNITS: Final = ", ".join(UNITS_S)
COUNTED: Final = ("maxMessagesPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger")
TIME_MAX_MS: Final = (1 << 63) - 1
INTERVAL: Final = re.compile(r"([0-9]{1,9}) *(ms|[smhd])")


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
    starting_ms: int | None  # since 1970, in place of an offset: messages that are not older
    ending_offset: int | None  # exclusively; None: at the newest message
    ending_ms: int | None  # since 1970: only messages that are older
    partitions: int  # tasks that read at the same time, at least one for each stream
    limits: "TriggerLimits"
    fail_on_data_loss: bool  # False: go on with the oldest message that there is
    at_leader: bool  # False: tasks read at the node of `url`
    body_format: str  # one of BODY_FORMATS
    schema: str  # of bodies in JSON or Avro; "": another format
    null_bad_bodies: bool  # False: a body that does not fit fails the query
    queue: str = ""  # "": it is a stream
    lease: str = ""  # the name under which the queue keeps what was read
    lease_timeout_ms: int = 0  # for which it does so without a reader
    filter: str = ""  # SQL by which the broker selects messages of a stream; "": all
    push_filters: bool = False  # whether conditions of a batch go to the broker
    columns: tuple[str, ...] = ()  # of the rows, in this order; (): all


@dataclass(frozen=True)
class TriggerLimits:
    """Sizes of a micro-batch."""

    messages_max: int | None = None
    bytes_max: int | None = None  # of bodies, estimated
    messages_min: int | None = None  # fewer wait for more
    delay_max_s: float = 0.0  # but not longer


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
    stream, super_stream, queue = (
        options.get(each, "") for each in ("stream", "superstream", "queue")
    )
    if sum(map(bool, (stream, super_stream, queue))) != 1:
        raise OptionError("give one of the options 'stream', 'superStream' and 'queue'")
    lease, lease_timeout_ms = _lease(options, queue)
    start, end = _start(options, super_stream), _end(options, super_stream)
    body_format, schema = _body(options)
    return ReadOptions(
        url,
        timeout_s,
        stream,
        super_stream,
        start,
        _time(options, "startingTimestamp", "startingOffset"),
        end,
        _time(options, "endingTimestamp", "endingOffset"),
        _number("numPartitions", options.get("numpartitions", "1"), 1),
        _limits(options),
        FLAGS[_chosen(options, "failOnDataLoss", tuple(FLAGS))],
        _chosen(options, "readAt", ("leader", "url")) == "leader",
        body_format,
        schema,
        _chosen(options, "badBody", ("fail", "null")) == "null",
        queue,
        lease,
        lease_timeout_ms,
        _filter(options),
        FLAGS[_chosen(options, "pushFilters", ("false", "true"))],
        _columns(options),
    )


def _columns(options: Mapping[str, str]) -> tuple[str, ...]:
    """Which of them there are, `columns` says (`schema_of`)."""
    if "columns" not in options:
        return ()
    names = tuple(each.strip() for each in options["columns"].split(","))
    if "" in names or len(set(names)) < len(names):
        raise OptionError(
            f"option 'columns' is '{options['columns'][:200]}'; allowed: names of columns with "
            "commas between them, each once, such as offset, body"
        )
    return names


def _filter(options: Mapping[str, str]) -> str:
    text = options.get("filter", "").strip()
    if "filter" in options and not 0 < len(text) <= FILTER_MAX:
        raise OptionError(
            f"option 'filter' has {len(text)} characters; allowed: an expression of 1 to "
            f"{FILTER_MAX}, such as properties.subject = 'order'"
        )
    return text


def _lease(options: Mapping[str, str], queue: str) -> tuple[str, int]:
    """Name and time limit in milliseconds; of a stream: none."""
    if not queue:
        for name in ("lease", "leaseTimeout"):
            if name.lower() in options:
                raise OptionError(f"option '{name}' needs the option 'queue'")
        return "", 0
    for name in OF_STREAMS:
        if name.lower() in options:
            raise OptionError(f"option '{name}' is for streams: a queue has no offsets")
    lease = options.get("lease", "")
    if not 0 < len(lease.encode("utf-8", "replace")) <= LEASE_BYTES_MAX:
        raise OptionError(
            f"option 'lease' is '{lease[:40]}'; a query that reads a queue needs a name of its "
            f"own of 1 to {LEASE_BYTES_MAX} bytes, the same after a restart"
        )
    seconds = _interval("leaseTimeout", options.get("leasetimeout", LEASE_TIMEOUT))
    if not 1 <= seconds <= LEASE_TIMEOUT_MAX_S:
        raise OptionError("option 'leaseTimeout': allowed: 1s to 7d")
    return lease, round(1000 * seconds)


def _interval(name: str, text: str) -> float:
    """Seconds."""
    found = INTERVAL.fullmatch(text)
    if found is None:
        raise OptionError(
            f"option '{name}' is '{text}'; allowed: a number and a unit ({UNITS}), such as 15m"
        )
    return int(found[1]) * UNITS_S[found[2]]


def _start(options: Mapping[str, str], super_stream: str) -> int | str:
    start = options.get("startingoffset", "first")
    if start in ("first", "next"):
        return start
    if super_stream:
        raise OptionError(f"option 'startingOffset' is '{start}'; allowed: first, next")
    return _number("startingOffset", start, 0, "first, next, or ")


def _end(options: Mapping[str, str], super_stream: str) -> int | None:
    end = options.get("endingoffset")
    if end is not None and super_stream:
        raise OptionError("option 'endingOffset' needs the option 'stream'; use 'endingTimestamp'")
    return None if end is None else _number("endingOffset", end, 0)


def _time(options: Mapping[str, str], name: str, other: str) -> int | None:
    """Milliseconds since 1970."""
    text = options.get(name.lower())
    if text is None:
        return None
    if other.lower() in options:
        raise OptionError(f"give one of the options '{other}' and '{name}'")
    if text.isascii() and text.isdigit():
        return min(int(text), TIME_MAX_MS)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise OptionError(
            f"option '{name}' is '{text}'; allowed: milliseconds since 1970, or a time such as "
            "2026-11-24T08:30:00Z (without a zone: UTC)"
        ) from None
    zoned = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return max(0, round(zoned.timestamp() * 1000))


def _limits(options: Mapping[str, str]) -> TriggerLimits:
    given = {name: options.get(name.lower()) for name in COUNTED}
    most, size, least = (
        None if text is None else _number(name, text, 1) for name, text in given.items()
    )
    if most is not None and least is not None and least > most:
        raise OptionError(
            f"option 'minOffsetsPerTrigger' is '{least}'; allowed: at most maxMessagesPerTrigger, "
            f"which is {most}"
        )
    if least is None and "maxtriggerdelay" in options:
        raise OptionError("option 'maxTriggerDelay' needs the option 'minOffsetsPerTrigger'")
    delay_s = _interval("maxTriggerDelay", options.get("maxtriggerdelay", TRIGGER_DELAY))
    return TriggerLimits(most, size, least, delay_s)


def _body(options: Mapping[str, str]) -> tuple[str, str]:
    """Format and schema."""
    form = _chosen(options, "bodyFormat", BODY_FORMATS)
    for of, name in SCHEMAS.items():
        if of != form and name.lower() in options:
            raise OptionError(
                f"option '{name}' is for the option 'bodyFormat' '{of}', not '{form}'"
            )
    schema = options.get(SCHEMAS[form].lower(), "").strip() if form in SCHEMAS else ""
    if form in SCHEMAS and not schema:
        raise OptionError(f"option 'bodyFormat' is '{form}', which needs '{SCHEMAS[form]}'")
    if form == "binary" and "badbody" in options:
        raise OptionError("option 'badBody' needs the option 'bodyFormat': any body is binary")
    return form, schema


def _chosen(options: Mapping[str, str], name: str, allowed: Sequence[str]) -> str:
    """One of the words; the first is the default."""
    found = options.get(name.lower(), allowed[0]).lower()
    if found not in allowed:
        raise OptionError(f"option '{name}' is '{found}'; allowed: {', '.join(allowed)}")
    return found


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
