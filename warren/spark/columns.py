"""Arrow batches of messages of a stream or queue. Knows neither Spark nor the broker.

What is made of a section (a text, a map) is made once for all messages with the same bytes, and
then spread over the rows by Arrow. Maps and arrays without entries are null.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Final, TypeVar, final

import pyarrow

from warren.client.message import try_decode
from warren.spark.body_types import Type, ddl_of
from warren.spark.options import OptionError, ReadOptions
from warren.wire.amqp10.codec.performatives import Header, Properties, read_header, read_properties
from warren.wire.amqp10.codec.reader import Reader
from warren.wire.amqp10.codec.values import Array, Described, Pairs
from warren.wire.amqp10.rows import Samples, StreamRows

T = TypeVar("T")
Values = dict[str, object]
Column = Callable[[Sequence[T]], pyarrow.Array]
Columns = dict[str, pyarrow.Array]  # by name

# Annotations that have columns of their own.
OFFSET: Final = "x-stream-offset"
EXCHANGE: Final = "x-exchange"
ROUTING_KEY: Final = "x-routing-key"
INGRESS_TIME: Final = "x-opt-ingress-time"
DEATHS: Final = "x-opt-deaths"
OWN: Final = (OFFSET, EXCHANGE, ROUTING_KEY, INGRESS_TIME, DEATHS)
TEXT: Final = pyarrow.string()
TIME: Final = pyarrow.timestamp("us", "UTC")
TIME_MAX_MS: Final = 253_402_300_799_999  # 31 December 9999
TEXTS: Final = pyarrow.map_(TEXT, TEXT)
DEATH: Final = pyarrow.struct(
    [
        ("queue", TEXT),
        ("reason", TEXT),
        ("count", pyarrow.int64()),
        ("exchange", TEXT),
        ("routing_keys", pyarrow.list_(TEXT)),
        ("first_time", TIME),
        ("last_time", TIME),
        ("ttl_ms", pyarrow.int64()),
    ]
)
COLUMNS: Final = pyarrow.schema(
    [
        ("queue", TEXT),
        ("exchange", TEXT),
        ("routing_key", TEXT),
        ("offset", pyarrow.int64()),
        ("message_id", TEXT),
        ("correlation_id", TEXT),
        ("content_type", TEXT),
        ("reply_to", TEXT),
        ("user_id", TEXT),
        ("timestamp", TIME),
        ("ingress_time", TIME),
        ("durable", pyarrow.bool_()),
        ("priority", pyarrow.int32()),
        ("expiration_ms", pyarrow.int64()),
        ("delivery_count", pyarrow.int64()),
        ("deaths", pyarrow.list_(DEATH)),
        ("headers", TEXTS),
        ("annotations", TEXTS),
        ("body", pyarrow.binary()),
    ]
)


def schema_of(options: ReadOptions, body: Type) -> str:
    """The columns for Spark; `body` is the type of that column. OptionError: a name is none."""
    types = {field.name: field.type for field in COLUMNS} | {"body": body}
    unknown = [name for name in options.columns if name not in types]
    if unknown:
        raise OptionError(f"option 'columns' has '{unknown[0]}'; allowed: {', '.join(types)}")
    return ", ".join(f"{name} {ddl_of(types[name])}" for name in options.columns or types)


@final
class Batches:
    """Makes the batches of one reader. A section that all messages of a batch share is mostly that
    of the next batch too, so its columns are kept: a batch takes as many rows of them as it has.

    Invariant: `_kept` has one sample for each section, and columns of it that are equally long.
    """

    def __init__(self, name: str, columns: Sequence[str] = COLUMNS.names) -> None:
        """`name`: of the stream or queue."""
        self._name = name.encode()
        self._schema = pyarrow.schema([COLUMNS.field(each) for each in columns])
        self._wanted = frozenset(columns)
        self._kept: dict[str, tuple[bytes, int, Columns]] = {}

    def of(self, rows: StreamRows) -> pyarrow.RecordBatch:
        """The columns of all messages of `rows`."""
        count = int(rows.count)
        offsets = pyarrow.py_buffer(rows.offsets.getvalue())
        found = {
            "offset": pyarrow.Array.from_buffers(pyarrow.int64(), count, [None, offsets])
            if offsets.size
            else pyarrow.nulls(count, pyarrow.int64()),
            "body": pyarrow.Array.from_buffers(
                pyarrow.binary(),
                count,
                [
                    None,
                    *(pyarrow.py_buffer(each.getvalue()) for each in (rows.body_ends, rows.bodies)),
                ],
            ),
        }
        found |= self._same("name", self._name, count, bytes.decode, NAMES)
        found |= self._spread("header", rows.header, count, _header, HEADER)
        found |= self._spread("properties", rows.properties, count, _properties, PROPERTIES)
        found |= self._spread("annotations", rows.annotations, count, _map, ANNOTATIONS)
        found |= self._spread("headers", rows.application_properties, count, _map, HEADERS)
        columns = [found[each] for each in self._schema.names]
        return pyarrow.RecordBatch.from_arrays(columns, schema=self._schema)

    def _spread(
        self,
        section: str,
        samples: Samples,
        count: int,
        read: Callable[[bytes], T],
        columns: Mapping[str, Column[T]],
    ) -> Columns:
        """The wanted columns of those that are made of one section."""
        if self._wanted.isdisjoint(columns):
            return {}
        if len(samples.samples) == 1:
            return self._same(section, samples.samples[0], count, read, columns)
        buffers = [None, pyarrow.py_buffer(samples.places.getvalue())]
        places = pyarrow.Array.from_buffers(pyarrow.int32(), count, buffers)
        made = self._made(samples.samples, read, columns)
        return {name: each.take(places) for name, each in made.items()}

    def _same(
        self,
        section: str,
        sample: bytes,
        count: int,
        read: Callable[[bytes], T],
        columns: Mapping[str, Column[T]],
    ) -> Columns:
        """The same, if all messages have the same section."""
        before, rows, kept = self._kept.get(section, (b"", 0, {}))
        if before != sample or rows < count:
            rows, made = count, self._made([sample], read, columns)
            kept = {name: _repeated(each, count) for name, each in made.items()}
            self._kept[section] = (sample, rows, kept)
        return kept if rows == count else {name: each[:count] for name, each in kept.items()}

    def _made(
        self, samples: list[bytes], read: Callable[[bytes], T], columns: Mapping[str, Column[T]]
    ) -> Columns:
        """A row for each sample."""
        values = [read(each) for each in samples]
        return {name: make(values) for name, make in columns.items() if name in self._wanted}


def batches_for(options: ReadOptions) -> Batches:
    """With the columns that the query has, and those that an error names."""
    name = options.stream or options.queue
    columns = options.columns
    return Batches(
        name, [*dict.fromkeys((*columns, "queue", "offset"))] if columns else COLUMNS.names
    )


def body_of(message: bytes) -> bytes:
    """The bytes of a body that is not one data section: those of its text, if it is a value."""
    body = try_decode(message, 0, len(message)).body
    return body if isinstance(body, bytes) else str(body).encode()


def _repeated(single: pyarrow.Array, count: int) -> pyarrow.Array:
    if single.null_count:
        return pyarrow.nulls(count, single.type)
    return pyarrow.repeat(single[0], count)


def _header(sample: bytes) -> Header:
    return _composite(sample, read_header) if sample else Header()


def _properties(sample: bytes) -> Properties:
    return _composite(sample, read_properties) if sample else Properties()


def _composite(sample: bytes, read: Callable[[Reader], T]) -> T:
    reader = Reader(sample, 0, len(sample))
    reader.descriptor()
    return read(reader)


def _map(sample: bytes) -> Values:
    """The map of a section; entries whose keys are not texts are left out."""
    if not sample:
        return {}
    section = Reader(sample, 0, len(sample)).value()
    assert isinstance(section, Described)
    value = section.value
    assert isinstance(value, (dict, Pairs))
    pairs: Iterable[tuple[object, object]] = value if isinstance(value, Pairs) else value.items()
    return {str(key): each for key, each in pairs if isinstance(key, str)}


def _field(name: str) -> Column[object]:
    return lambda values: _texts([getattr(each, name) for each in values])


def _entry(name: str) -> Column[Values]:
    return lambda values: _texts([each.get(name) for each in values])


def _times(values: Sequence[Properties]) -> pyarrow.Array:
    return pyarrow.array([_micros(each.creation_time) for each in values], TIME)


def _users(values: Sequence[Properties]) -> pyarrow.Array:
    given = [each.user_id for each in values]
    return _texts([None if each is None else each.decode("utf-8", "replace") for each in given])


def _others(annotations: Values) -> Values:
    return {name: value for name, value in annotations.items() if name not in OWN}


def _ingress_times(values: Sequence[Values]) -> pyarrow.Array:
    return pyarrow.array([_micros(each.get(INGRESS_TIME)) for each in values], TIME)


def _deaths(values: Sequence[Values]) -> pyarrow.Array:
    found = [each.get(DEATHS) for each in values]
    rows = [each.items if isinstance(each, Array) else None for each in found]
    return pyarrow.array(
        [row and [_death(each) for each in row if isinstance(each, dict)] for row in rows],
        pyarrow.list_(DEATH),
    )


def _death(entry: Values) -> Values:
    keys = entry.get("routing-keys")
    count, ttl = entry.get("count"), entry.get("ttl")
    return {
        **{name: _text(entry.get(name)) for name in ("queue", "reason", "exchange")},
        "count": int(count) if isinstance(count, int) else None,
        "routing_keys": [str(each) for each in keys.items] if isinstance(keys, Array) else [],
        "first_time": _micros(entry.get("first-time")),
        "last_time": _micros(entry.get("last-time")),
        "ttl_ms": int(ttl) if isinstance(ttl, int) else None,
    }


def _micros(ms: object) -> int | None:
    """None: publishers may set any number, also one that Spark has no time for."""
    return 1000 * ms if isinstance(ms, int) and abs(ms) <= TIME_MAX_MS else None


def _maps(rows: Sequence[Values]) -> pyarrow.Array:
    # Flat keys and values: a list of pairs per row costs pyarrow more than twice the time. Spark
    # takes some microseconds for a map without entries, and nothing for null.
    ends = accumulate(map(len, rows), initial=0)
    begins = [begin if row else None for begin, row in zip(ends, rows, strict=False)]
    return pyarrow.MapArray.from_arrays(
        pyarrow.array([*begins, sum(map(len, rows))], pyarrow.int32()),
        _texts([name for row in rows for name in row]),
        _texts([each for row in rows for each in row.values()]),
    )


def _texts(values: Sequence[object]) -> pyarrow.Array:
    return pyarrow.array([_text(each) for each in values], TEXT)


def _text(value: object) -> str | None:
    """Maps and lists as JSON."""
    if value is None or type(value) is str:
        return value
    if isinstance(value, (dict, list, Array, Pairs)):
        return json.dumps(_plain(value), ensure_ascii=False)
    return str(value)


def _plain(value: object) -> object:
    """For JSON: keys are texts; what JSON has no form for is its text."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, Pairs):
        return {str(key): _plain(each) for key, each in value}
    if isinstance(value, (list, Array)):
        return [_plain(each) for each in (value if isinstance(value, list) else value.items)]
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value)
    return value if type(value) is float else str(value)


NAMES: Final[Mapping[str, Column[str]]] = {"queue": lambda values: pyarrow.array(values, TEXT)}
HEADER: Final[Mapping[str, Column[Header]]] = {
    "durable": lambda values: pyarrow.array(
        [each.durable is True for each in values], pyarrow.bool_()
    ),
    "priority": lambda values: pyarrow.array([each.priority for each in values], pyarrow.int32()),
    "expiration_ms": lambda values: pyarrow.array([each.ttl for each in values], pyarrow.int64()),
    "delivery_count": lambda values: pyarrow.array(
        [each.delivery_count or 0 for each in values], pyarrow.int64()
    ),
}
PROPERTIES: Final[Mapping[str, Column[Properties]]] = {
    **{name: _field(name) for name in ("message_id", "correlation_id", "content_type", "reply_to")},
    "user_id": _users,
    "timestamp": _times,
}
ANNOTATIONS: Final[Mapping[str, Column[Values]]] = {
    "exchange": _entry(EXCHANGE),
    "routing_key": _entry(ROUTING_KEY),
    "ingress_time": _ingress_times,
    "deaths": _deaths,
    "annotations": lambda values: _maps([_others(each) for each in values]),
}
HEADERS: Final[Mapping[str, Column[Values]]] = {"headers": _maps}
