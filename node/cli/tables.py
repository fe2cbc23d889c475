"""Tables, CSV and JSON on the terminal. `rich` is imported for a drawn table alone."""

import csv
import json
from collections.abc import Sequence
from typing import Final, TextIO

FORMATTERS: Final = ("table", "pretty_table", "json", "csv")
TABLES: Final = ("table", "pretty_table")  # for people


def write_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    out: TextIO,
    with_names: bool = True,
    formatter: str = "table",
) -> None:
    """A drawn table on a terminal, and anywhere if it is asked to be pretty; into a pipe, values
    between tabs, or between commas as CSV."""
    if formatter == "csv":
        writer = csv.writer(out, lineterminator="\n")
        if with_names:
            writer.writerow(columns)
        writer.writerows([cell(value) for value in row] for row in rows)
        return
    if formatter == "pretty_table" or out.isatty():
        _draw(columns, rows, out, with_names)
        return
    if with_names:
        print("\t".join(columns), file=out)
    for row in rows:
        print("\t".join(cell(value) for value in row), file=out)


def write_json(value: object, out: TextIO) -> None:
    print(json.dumps(value, ensure_ascii=False), file=out)


def size(count: int) -> str:
    """Bytes for people: `1.5 GiB`."""
    value, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"


def duration(ms: int) -> str:
    """The two largest units of a time: `3 d 4 h`."""
    seconds = ms // 1000
    for unit, name, part, part_name in (
        (86_400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if seconds >= unit:
            return f"{seconds // unit} {name} {seconds % unit // part} {part_name}"
    return f"{seconds} s"


def cell(value: object) -> str:
    """A value on one line, with nothing in it that a terminal or a script would take as its own."""
    if value is None:
        return ""
    if isinstance(value, (bool, dict, list)):
        return json.dumps(value, ensure_ascii=False)
    text = str(value)
    return text if text.isprintable() else json.dumps(text)[1:-1]


def _draw(
    columns: Sequence[str], rows: Sequence[Sequence[object]], out: TextIO, with_names: bool
) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=with_names)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell(value)) for value in row))
    Console(file=out).print(table)
