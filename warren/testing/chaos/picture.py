"""A timeline as a picture: SVG text, written here, that any browser shows.

Three panels over one axis of time: rates, latencies of confirms on a logarithmic scale, and the
faults, each in a lane of its kind. Faults are shaded through all panels; new leaders are lines.
Each fault and leader has a tooltip. The width is fixed, the height grows with the kinds of faults.
"""

import math
from collections.abc import Callable, Iterable
from typing import Final
from xml.sax.saxutils import escape

from warren.testing.chaos.timeline import Mark, Span, Timeline

WIDTH: Final = 1200
LEFT: Final = 70  # where the axis of time begins
RIGHT: Final = 20
TOP: Final = 56
PANEL: Final = 190  # height of rates and of latencies
GAP: Final = 46
LANE: Final = 18
LATENCIES_MS: Final = (0.1, 1.0, 10.0, 100.0, 1000.0, 10_000.0)
MARKS_MAX: Final = 400  # leaders that are drawn

STYLE: Final = """
svg { font: 12px system-ui, sans-serif; background: #fff; color: #1c2430 }
text { fill: #1c2430 } .faint { fill: #66707f } .title { font-size: 16px; font-weight: 600 }
.grid { stroke: #e3e7ee } .axis { stroke: #9aa4b2 }
.line { fill: none; stroke-width: 1.5 }
.published { stroke: #8b95a5 } .confirmed { stroke: #0a7d5a } .delivered { stroke: #2563c9 }
.p50 { stroke: #0a7d5a } .p99 { stroke: #c2410c }
.fault { fill: #d9480f; opacity: .75 } .shade { fill: #d9480f; opacity: .07 }
.leader { stroke: #7c3aed; stroke-dasharray: 3 3 }
"""


class Picture:
    """Text of an SVG that grows; `x_of` and `y` are places in it."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._parts: list[str] = []
        self._seconds = max(timeline.seconds, timeline.width_s)

    def x_of(self, at_s: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * at_s / self._seconds

    def add(self, part: str) -> None:
        self._parts.append(part)

    def text(self, x: float, y: float, words: str, style: str = "", anchor: str = "start") -> None:
        self.add(
            f'<text x="{x:.1f}" y="{y:.1f}" class="{style}" text-anchor="{anchor}">'
            f"{escape(words)}</text>"
        )

    def rule(self, x1: float, y1: float, x2: float, y2: float, style: str) -> None:
        self.add(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{style}"/>')

    def curve(self, points: Iterable[tuple[float, float] | None], style: str) -> None:
        """A line through the points; None is a gap."""
        path: list[str] = []
        pen = "M"
        for point in points:
            if point is None:
                pen = "M"
                continue
            path.append(f"{pen}{point[0]:.1f} {point[1]:.1f}")
            pen = "L"
        self.add(f'<path class="line {style}" d="{" ".join(path)}"/>')

    def legend(self, y: float, title: str, names: Iterable[tuple[str, str]]) -> None:
        """The title of a panel, and what its lines are."""
        self.text(LEFT, y, title)
        x = float(WIDTH - RIGHT)
        for words, style in reversed(list(names)):
            x -= 7.0 * len(words)
            self.text(x, y, words, "faint")
            self.rule(x - 24, y - 4, x - 6, y - 4, f"line {style}")
            x -= 40

    def finish(self, height: float) -> str:
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" '
            f'width="{WIDTH}" height="{height:.0f}"><style>{STYLE}</style>'
        )
        return head + "\n".join(self._parts) + "\n</svg>\n"


def draw(timeline: Timeline, title: str) -> str:
    """The text of the SVG."""
    picture = Picture(timeline)
    kinds = list(dict.fromkeys(span.name for span in timeline.faults))
    latency_top = TOP + PANEL + GAP
    fault_top = latency_top + PANEL + GAP
    bottom = fault_top + max(1, len(kinds)) * LANE
    picture.text(LEFT, 24, title, "title")
    for span in timeline.faults:
        _shade(picture, span, bottom)
    _rates(picture, timeline, TOP)
    _latencies(picture, timeline, latency_top)
    _faults(picture, timeline, kinds, fault_top)
    for mark in timeline.leaders[:MARKS_MAX]:
        _leader(picture, mark, bottom)
    _time_axis(picture, timeline, bottom)
    return picture.finish(bottom + 40)


def _rates(picture: Picture, timeline: Timeline, top: float) -> None:
    names = ("published", "confirmed", "delivered")
    width = timeline.width_s
    rows = [
        (slot.published / width, slot.confirmed / width, slot.delivered / width)
        for slot in timeline.slots
    ]
    most = _round_up(max((value for row in rows for value in row), default=1.0))

    def y_of(value: float) -> float:
        return top + PANEL * (1 - value / most)

    picture.legend(top - 10, "messages per second", [(name, name) for name in names])
    _grid(picture, [most * step / 4 for step in range(5)], y_of, lambda value: f"{value:,.0f}")
    for column, name in enumerate(names):
        points = (
            (picture.x_of((place + 0.5) * width), y_of(row[column]))
            for place, row in enumerate(rows)
        )
        picture.curve(points, name)


def _latencies(picture: Picture, timeline: Timeline, top: float) -> None:
    low, high = math.log10(LATENCIES_MS[0]), math.log10(LATENCIES_MS[-1])

    def y_of(value: float) -> float:
        place = (math.log10(min(max(value, LATENCIES_MS[0]), LATENCIES_MS[-1])) - low) / (
            high - low
        )
        return top + PANEL * (1 - place)

    picture.legend(
        top - 10, "publish to confirm, ms", [("half of them", "p50"), ("99 of 100", "p99")]
    )
    _grid(picture, LATENCIES_MS, y_of, lambda value: f"{value:g}")
    for share, style in ((0.5, "p50"), (0.99, "p99")):
        points: list[tuple[float, float] | None] = []
        for place, slot in enumerate(timeline.slots):
            value = slot.latency_ms(share)
            x = picture.x_of((place + 0.5) * timeline.width_s)
            points.append(None if value is None else (x, y_of(value)))
        picture.curve(points, style)


def _faults(picture: Picture, timeline: Timeline, kinds: list[str], top: float) -> None:
    picture.legend(top - 10, "faults", [("new leader", "leader")])
    for lane, kind in enumerate(kinds):
        y = top + lane * LANE
        picture.text(LEFT - 6, y + 13, kind, "faint", "end")
        for span in timeline.faults:
            if span.name == kind:
                _bar(picture, span, y)


def _bar(picture: Picture, span: Span, y: float) -> None:
    x = picture.x_of(span.begin_s)
    width = max(2.0, picture.x_of(span.end_s) - x)
    words = f"{span.name} {span.where}: {span.begin_s:.1f} s to {span.end_s:.1f} s"
    picture.add(
        f'<rect class="fault" x="{x:.1f}" y="{y + 2:.1f}" width="{width:.1f}" '
        f'height="{LANE - 4}" rx="2"><title>{escape(words)}</title></rect>'
    )


def _shade(picture: Picture, span: Span, bottom: float) -> None:
    x = picture.x_of(span.begin_s)
    width = max(1.0, picture.x_of(span.end_s) - x)
    picture.add(
        f'<rect class="shade" x="{x:.1f}" y="{TOP}" width="{width:.1f}" '
        f'height="{bottom - TOP:.1f}"/>'
    )


def _leader(picture: Picture, mark: Mark, bottom: float) -> None:
    x = picture.x_of(mark.at_s)
    words = f"{mark.at_s:.1f} s: {mark.leader} leads {mark.queue}"
    picture.add(
        f'<line class="leader" x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{bottom:.1f}">'
        f"<title>{escape(words)}</title></line>"
    )


def _grid(
    picture: Picture,
    values: Iterable[float],
    y_of: Callable[[float], float],
    words: Callable[[float], str],
) -> None:
    for value in values:
        y = y_of(value)
        picture.rule(LEFT, y, WIDTH - RIGHT, y, "grid")
        picture.text(LEFT - 6, y + 4, words(value), "faint", "end")


def _time_axis(picture: Picture, timeline: Timeline, bottom: float) -> None:
    picture.rule(LEFT, bottom, WIDTH - RIGHT, bottom, "axis")
    step = _round_up(max(timeline.seconds, 1.0) / 10)
    at_s = 0.0
    while at_s <= timeline.seconds:
        x = picture.x_of(at_s)
        picture.rule(x, bottom, x, bottom + 4, "axis")
        picture.text(x, bottom + 18, f"{at_s:g} s", "faint", "middle")
        at_s += step


def _round_up(value: float) -> float:
    """The next of 1, 2, 5, 10, 20, 50, ... that is not less."""
    power = 10.0 ** math.floor(math.log10(max(value, 1e-9)))
    for factor in (1, 2, 5, 10):
        if factor * power >= value:
            return factor * power
    raise AssertionError(value)
