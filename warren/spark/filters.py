"""Conditions of a query as a filter of the broker, and as bounds of offsets. No I/O.

    pushed = push(filters)
    pushed.sql                # for the option `filter`; "": nothing can be pushed
    pushed.begin, pushed.end  # offsets, exclusively at the end; None: no bound

Spark looks at each row again, so the broker may let rows through that the query does not want, but
never leave one out that it wants. So a condition is pushed only if it means the same to the broker:

- of `content_type` and `reply_to`, which are texts at the broker too;
- of `message_id` and `correlation_id` if they are compared with a text that no number, UUID or
  binary is shown as: ids of AMQP 1.0 may be such, and the columns have their texts;
- of `priority`, which the broker takes for 4 where the column is null, and of `durable`;
- of `offset`, as bounds.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

SQL_MAX: Final = 3000  # characters of all conditions; the broker takes 4096
TEXTS: Final = {"content_type": "p.content_type", "reply_to": "p.reply_to"}
IDS: Final = {"message_id": "p.message_id", "correlation_id": "p.correlation_id"}
# What a number, a UUID, a binary or a truth value is shown as.
OTHER_ID: Final = re.compile(r"-?[0-9].*|[0-9a-fA-F]{8}-.*|b['\"].*|True|False", re.DOTALL)
SIGNS: Final[dict[type[Filter], str]] = {
    EqualTo: "=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}
LIKE: Final[dict[type[Filter], str]] = {
    StringStartsWith: "{}%",
    StringEndsWith: "%{}",
    StringContains: "%{}%",
}


@dataclass(frozen=True)
class Pushed:
    """What the broker is asked for."""

    sql: str = ""
    begin: int | None = None
    end: int | None = None


def push(filters: Iterable[Filter]) -> Pushed:
    """The conditions, of which all must hold, as far as they can be pushed."""
    begins: list[int] = []
    ends: list[int] = []
    parts: list[str] = []
    for each in filters:
        column = ".".join(getattr(each, "attribute", ()))
        if column == "offset":
            _bound(each, begins, ends)
        sql = _sql(column, each)
        if sql is not None and sum(map(len, parts)) + len(sql) + 8 * len(parts) < SQL_MAX:
            parts.append(sql)
    return Pushed(" AND ".join(parts), max(begins, default=None), min(ends, default=None))


def _bound(each: Filter, begins: list[int], ends: list[int]) -> None:
    value = getattr(each, "value", None)
    if not isinstance(value, int) or isinstance(value, bool):
        return
    if isinstance(each, (EqualTo, GreaterThanOrEqual)):
        begins.append(value)
    if isinstance(each, GreaterThan):
        begins.append(value + 1)
    if isinstance(each, (EqualTo, LessThanOrEqual)):
        ends.append(value + 1)
    if isinstance(each, LessThan):
        ends.append(value)


def _sql(column: str, each: Filter) -> str | None:
    """None: it cannot be pushed."""
    if column in TEXTS:
        return _text(TEXTS[column], each, lambda text: True)
    if column in IDS:
        return _text(IDS[column], each, lambda text: not OTHER_ID.fullmatch(text))
    value = getattr(each, "value", None)
    if column == "durable" and isinstance(each, EqualTo) and isinstance(value, bool):
        return f"h.durable = {'TRUE' if value else 'FALSE'}"
    if column == "priority" and type(value) is int and type(each) in SIGNS and value >= 0:
        return f"h.priority {SIGNS[type(each)]} {value}"
    return None


def _text(field: str, each: Filter, is_text: Callable[[str], bool]) -> str | None:
    if isinstance(each, IsNotNull):
        return f"{field} IS NOT NULL"
    if isinstance(each, In):
        values: tuple[Any, ...] = each.value
        if values and all(isinstance(one, str) and is_text(one) for one in values):
            return f"{field} IN ({', '.join(map(quoted, values))})"
        return None
    value = getattr(each, "value", None)
    if not isinstance(value, str):
        return None
    if isinstance(each, EqualTo) and is_text(value):
        return f"{field} = {quoted(value)}"
    # A part of a text may be a part of what a number or UUID is shown as.
    if type(each) in LIKE and field not in IDS.values():
        plain = re.sub(r"([\\%_])", r"\\\1", value)
        return f"{field} LIKE {quoted(LIKE[type(each)].format(plain))} ESCAPE '\\'"
    return None


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
