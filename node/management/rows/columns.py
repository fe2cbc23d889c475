"""A column of an object of the HTTP API: its name, its value and what kind of value it is.

Rows and the entries of the OpenAPI document are made of tables of these: a column more is one line.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct

T = TypeVar("T")
K = TypeVar("K")

SLICE: Final = 100  # rows made in one go


class Kind(Enum):
    TEXT = "text"
    TEXT_OR_NULL = "text or null"
    FLAG = "flag"
    MAP = "map"
    TEXTS_BY_NAME = "texts by name"
    NUMBER = "number"
    COUNT = "count"
    COUNT_OR_NULL = "count or null"  # null if only a node that does not answer knows it
    SHARE_OR_NULL = "share or null"  # of 1
    COUNTS_BY_NAME = "counts by name"
    TEXTS = "texts"
    QUEUE_NAME = "queue name"  # and its vhost
    CONNECTION_DETAILS = "connection details"
    STREAM_CONNECTION_DETAILS = "stream connection details"
    CHANNEL_DETAILS = "channel details"
    VHOST_METADATA = "vhost metadata"


class Column(Struct, Generic[T], frozen=True):
    """`is_bare`: shown even where statistics are not (`disable_stats`)."""

    name: str
    kind: Kind
    value: Callable[[T], Any]
    is_bare: bool = False


def field_column(name: str, kind: Kind, path: str = "") -> Column[Any]:
    """The value is that of a field, whose path is given where its name is another."""
    return Column(name, kind, attrgetter(path or name))


def row_of(columns: Iterable[Column[T]], item: T) -> dict[str, Any]:
    return {each.name: each.value(item) for each in columns}


def kinds_of(columns: Iterable[Column[T]]) -> Mapping[str, Kind]:
    return {each.name: each.kind for each in columns}


def column_of(
    row_of: Callable[[K], dict[str, object] | None], path: Sequence[str]
) -> Callable[[K], object]:
    """The value of a column, from the row."""

    def value(key: K) -> object:
        row = row_of(key)
        return None if row is None else at_path(row, path)

    return value


def at_path(row: dict[str, object], path: Iterable[str]) -> object:
    """The value there; None: there is none."""
    value: object = row
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value
