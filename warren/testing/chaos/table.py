"""What a run has shown, by kind of fault: a table in Markdown, for a document or a terminal.

Takes the timeline and the verdict of one history; gives a row for each kind of fault that was
there, one for the times without any, and one for all.

A confirm counts for the fault in whose time it came. What was lost is put down to the fault in
whose time the message was published, or else the next one after that; what was delivered again, or
wrong in another way, to the fault that was there then, or else the last before. The longest time
without any confirm is taken for each fault that was there; a row has the median and the
maximum of its faults.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from warren.testing.chaos.faults import MAKERS
from warren.testing.chaos.timeline import QUIET, SILENCE_S, Span, Timeline
from warren.testing.history import Kind, Verdict

ALL: Final = "all"
LOSSES: Final = frozenset({Kind.LOST, Kind.STRANDED, Kind.STALE_ACK})
DOUBLES: Final = frozenset({Kind.DOUBLED, Kind.REPEATED})
HEADS: Final = (
    "fault",
    "times",
    "confirmed meanwhile",
    "lost",
    "doubled",
    "otherwise wrong",
    "no confirm for, median",
    "at most",
)


@dataclass(slots=True)
class Row:
    """One kind of fault. Seconds of 0 are shorter than `SILENCE_S`; None: there is no such."""

    fault: str
    injected: int | None = None
    confirmed: int = 0
    lost: int = 0
    doubled: int = 0
    other: int = 0
    median_s: float | None = None
    longest_s: float = 0.0


def rows(made: Timeline, verdict: Verdict) -> list[Row]:
    """A row for each kind of fault, in the order of `faults.MAKERS`; then no fault, then all."""
    by_kind: dict[str, list[Span]] = {}
    for span in made.faults:
        by_kind.setdefault(span.name, []).append(span)
    found = {name: _row(name, by_kind[name]) for name in sorted(by_kind, key=_place)}
    found[QUIET] = Row(QUIET, longest_s=made.longest_silences().get(QUIET, 0.0))
    found[QUIET].confirmed = verdict.confirmed - sum(span.confirmed for span in made.faults)
    for kind, lines in verdict.lines.items():
        for line in lines:
            row = found[_fault_of(made.faults, kind, line)]
            row.lost += kind in LOSSES
            row.doubled += kind in DOUBLES
            row.other += kind not in LOSSES | DOUBLES
    return [*found.values(), _sum(list(found.values()), verdict, len(made.faults))]


def markdown(table: Sequence[Row]) -> str:
    """The table, aligned so that it can be read as it is."""
    cells = [HEADS, *(_cells(row) for row in table)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEADS))]
    lines = [_line(line, widths) for line in cells]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join([lines[0], "| " + " | ".join(rule) + " |", *lines[1:]]) + "\n"


def _row(name: str, spans: Sequence[Span]) -> Row:
    silences = [span.longest_silence_s for span in spans]
    return Row(
        name,
        injected=len(spans),
        confirmed=sum(span.confirmed for span in spans),
        median_s=median(silences),
        longest_s=max(silences),
    )


def _sum(table: Sequence[Row], verdict: Verdict, injected: int) -> Row:
    return Row(
        ALL,
        injected=injected,
        confirmed=verdict.confirmed,
        lost=sum(row.lost for row in table),
        doubled=sum(row.doubled for row in table),
        other=sum(row.other for row in table),
        longest_s=max(row.longest_s for row in table),
    )


def _place(name: str) -> tuple[int, str]:
    """Where a kind of fault stands; those of other tools come last."""
    known = list(MAKERS)
    return (known.index(name) if name in known else len(known), name)


def _fault_of(spans: Sequence[Span], kind: Kind, line: int) -> str:
    """The fault that a finding is put down to. Spans are in the order of their beginnings."""
    begun = bisect_right(spans, line, key=lambda span: span.begin_line)
    if kind not in LOSSES:
        return spans[begun - 1].name if begun else QUIET
    if begun and line <= spans[begun - 1].end_line:
        return spans[begun - 1].name
    return spans[begun].name if begun < len(spans) else QUIET


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.fault,
        "" if row.injected is None else f"{row.injected:,}",
        f"{row.confirmed:,}",
        f"{row.lost:,}",
        f"{row.doubled:,}",
        f"{row.other:,}",
        "" if row.median_s is None else _seconds(row.median_s),
        _seconds(row.longest_s),
    )


def _seconds(seconds: float) -> str:
    return f"< {SILENCE_S} s" if seconds < SILENCE_S else f"{seconds:.2f} s"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = zip(cells, widths, strict=True)
    words = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)]
    return "| " + " | ".join(words) + " |"
