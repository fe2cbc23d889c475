"""Metrics as Prometheus reads them: text, version 0.0.4. Pure.

    family = Family("rabbitmq_queues", GAUGE, "Queues", [("", 3)])
    for part in texts([family], slice_rows=500): ...

A family has one HELP and one TYPE line and all of its samples behind them; a name is never given
twice. `rows` are samples: what follows the family's name (labels, for a histogram also `_bucket`,
`_sum` or `_count`), and the value. Rows may be an iterator, which is taken as the text is made.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

GAUGE: Final = "gauge"
COUNTER: Final = "counter"
HISTOGRAM: Final = "histogram"
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Row = tuple[str, float]


class Family(Struct, frozen=True):
    """See the module. The name of a counter ends in `_total`."""

    name: str
    kind: str
    help: str
    rows: Iterable[Row]


def gauge(name: str, words: str, value: float) -> Family:
    return Family(name, GAUGE, words, [("", value)])


def counter(name: str, words: str, value: float) -> Family:
    return Family(f"{name}_total", COUNTER, words, [("", value)])


def labels(values: Mapping[str, str]) -> str:
    """In braces; empty for none."""
    if not values:
        return ""
    inner = ",".join(f'{name}="{escaped(value)}"' for name, value in values.items())
    return "{" + inner + "}"


def escaped(value: str) -> str:
    """A label's value between its quotes."""
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def histogram_rows(
    bounds: Sequence[float], counts: Sequence[int], total: float, values: Mapping[str, str]
) -> list[Row]:
    """`counts` are those of each bucket alone, with one more for what is above the last bound."""
    rows: list[Row] = []
    so_far = 0
    for bound, count in zip((*bounds, None), counts, strict=True):
        so_far += count
        upper = "+Inf" if bound is None else repr(float(bound))
        rows.append(("_bucket" + labels({**values, "le": upper}), so_far))
    rows.append(("_sum" + labels(values), total))
    rows.append(("_count" + labels(values), so_far))
    return rows


def number(value: float) -> str:
    """As Go reads it."""
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, int):
        return str(int(value))
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def texts(families: Iterable[Family], slice_rows: int) -> Iterator[str]:
    """The text in parts, none of which has more samples than that."""
    lines: list[str] = []
    count = 0
    for family in families:
        lines.append(f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.kind}\n")
        for rest, value in family.rows:
            lines.append(f"{family.name}{rest} {number(value)}\n")
            count += 1
            if count >= slice_rows:
                yield "".join(lines)
                lines, count = [], 0
    if lines:
        yield "".join(lines)
