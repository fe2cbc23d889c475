"""What a job has found, as text, as JSON and as a web page with a chart. No Spark."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Final

BAR_HEIGHT: Final = 18  # pixels, as all sizes here
BAR_WIDTH: Final = 420
LABEL_WIDTH: Final = 260
BARS_MAX: Final = 40
STYLE: Final = """body { font: 15px system-ui, sans-serif; margin: 2em auto; max-width: 60em; }
table { border-collapse: collapse; } th, td { border-bottom: 1px solid #ccc; padding: .3em .8em; }
td.number { text-align: right; font-variant-numeric: tabular-nums; } rect { fill: #3874a8; }"""

Cell = str | int | float | None


@dataclass(frozen=True)
class Report:
    """A table; the chart shows the numbers of the column `chart`, named by the columns `labels`."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    chart: str = ""
    labels: Sequence[str] = ()
    summary: Sequence[str] = field(default=())  # sentences above the table
    is_bad: bool = False  # the job found what it looks for: exit code 1

    def text(self) -> str:
        shown = [list(self.columns), *([_shown(each) for each in row] for row in self.rows)]
        widths = [max(len(row[place]) for row in shown) for place in range(len(self.columns))]
        lines = [
            "  ".join(
                cell.rjust(width) if _is_number(self.rows, place) else cell.ljust(width)
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in shown
        ]
        return "\n".join([self.title, *self.summary, "", *lines])

    def json(self) -> str:
        rows = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        return json.dumps({"title": self.title, "summary": list(self.summary), "rows": rows})

    def html(self) -> str:
        head = "".join(f"<th>{escape(each)}</th>" for each in self.columns)
        body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in self.rows)
        summary = "".join(f"<p>{escape(each)}</p>" for each in self.summary)
        title = escape(self.title)
        return (
            f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
            f"<style>{STYLE}</style><h1>{title}</h1>{summary}{self._chart()}"
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></html>\n"
        )

    _repr_html_ = html  # what a notebook shows

    def _chart(self) -> str:
        """Bars for the first rows."""
        if not self.chart or not self.rows:
            return ""
        value_at = self.columns.index(self.chart)
        label_at = [self.columns.index(each) for each in self.labels]
        rows = self.rows[:BARS_MAX]
        values = [row[value_at] for row in rows]
        numbers = [float(each) if isinstance(each, (int, float)) else 0.0 for each in values]
        longest = max([*numbers, 1e-9])
        bars = []
        for place, (row, number) in enumerate(zip(rows, numbers, strict=True)):
            label = escape(" ".join(_shown(row[each]) for each in label_at))
            top = place * (BAR_HEIGHT + 4)
            width = BAR_WIDTH * number / longest
            bars.append(
                f'<text x="{LABEL_WIDTH - 8}" y="{top + 14}" text-anchor="end">{label}</text>'
                f'<rect x="{LABEL_WIDTH}" y="{top}" width="{width:.1f}" height="{BAR_HEIGHT}"/>'
                f'<text x="{LABEL_WIDTH + width + 6:.1f}" y="{top + 14}">{_shown(values[place])}'
                "</text>"
            )
        size = f'width="{LABEL_WIDTH + BAR_WIDTH + 120}" height="{len(rows) * (BAR_HEIGHT + 4)}"'
        title = f"<title>{escape(self.chart)}</title>"
        return f'<svg role="img" {size}>{title}{"".join(bars)}</svg>'


def _shown(cell: Cell) -> str:
    if cell is None:
        return ""
    return (
        f"{cell:,.3f}"
        if isinstance(cell, float)
        else f"{cell:,}"
        if isinstance(cell, int)
        else cell
    )


def _cell(cell: Cell) -> str:
    is_number = isinstance(cell, (int, float))
    return f"<td{' class=number' * is_number}>{escape(_shown(cell))}</td>"


def _is_number(rows: Sequence[Sequence[Cell]], place: int) -> bool:
    return any(isinstance(row[place], (int, float)) for row in rows)
