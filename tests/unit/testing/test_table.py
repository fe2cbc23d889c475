"""A run by kind of fault: what is put down to which fault, and how it is written."""

from typing import Any

import pytest

from warren.testing.chaos.table import Row, markdown, rows
from warren.testing.chaos.timeline import QUIET, timeline
from warren.testing.history import judge

MS = 1_000_000


class History:
    """Events at times that the test says, on lines that count from 1."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.now_ms = 0.0

    def add(self, event: str, after_ms: float = 1.0, **fields: Any) -> None:
        self.now_ms += after_ms
        line = len(self.events) + 1
        at_ns = int(self.now_ms * MS)
        self.events.append({"event": event, "at_ns": at_ns, "line": line, **fields})

    def publish(self, number: int, after_ms: float = 1.0) -> None:
        """Confirmed so long after it."""
        self.add("published", queue="q", id=f"p:{number}", publisher="p")
        self.add("confirmed", after_ms, id=f"p:{number}")

    def take(self, number: int, again: bool = False) -> None:
        self.add("delivered", queue="q", id=f"p:{number}", consumer="c", redelivered=again)
        self.add("settled", id=f"p:{number}", consumer="c", outcome="accept")

    def table(self) -> dict[str, Row]:
        self.add("drained", queue="q")
        verdict = judge(self.events)
        return {row.fault: row for row in rows(timeline(self.events), verdict)}


def test_a_run_without_anything_has_a_row_for_no_fault_and_one_for_all() -> None:
    table = rows(timeline([]), judge([]))
    assert [row.fault for row in table] == [QUIET, "all"]
    assert all(row.lost == row.confirmed == 0 for row in table)


def test_each_kind_is_counted_with_the_median_and_the_longest_of_its_silences() -> None:
    history = History()
    history.publish(1)
    history.take(1)
    for number, silence_ms in enumerate((200, 700, 300), 2):
        history.add("fault", 5000, name="kill", target="n1")
        history.publish(number, silence_ms)
        history.add("healed", name="kill", target="n1")
        history.take(number)
    found = history.table()
    assert (found["kill"].injected, found["kill"].confirmed) == (3, 3)
    assert found["kill"].median_s == pytest.approx(0.3)
    assert found["kill"].longest_s == pytest.approx(0.7)
    assert (found[QUIET].confirmed, found[QUIET].injected) == (1, None)
    assert (found["all"].injected, found["all"].confirmed) == (3, 4)


def test_a_fault_without_a_silence_counts_as_none_in_the_median() -> None:
    history = History()
    for number, after_ms in ((1, 1.0), (2, 1.0), (3, 900.0)):
        history.add("fault", 5000, name="pause", target="n1")
        history.publish(number, after_ms)
        history.add("healed", name="pause", target="n1")
        history.take(number)
    found = history.table()
    assert found["pause"].median_s == 0.0
    assert found["pause"].longest_s == pytest.approx(0.9)


def test_what_was_lost_is_put_down_to_the_fault_of_its_time_or_else_the_next() -> None:
    history = History()
    history.publish(1)
    history.add("fault", name="kill", target="n1")
    history.publish(2)
    history.add("healed", name="kill", target="n1")
    history.publish(3)
    history.add("fault", name="wipe", target="n1")
    history.add("healed", name="wipe", target="n1")
    history.publish(4)
    found = history.table()
    assert {name: row.lost for name, row in found.items()} == {
        "kill": 2,
        "wipe": 1,
        QUIET: 1,
        "all": 4,
    }


def test_what_came_again_is_put_down_to_the_fault_of_that_time_or_else_the_last() -> None:
    history = History()
    history.publish(1)
    history.publish(2)
    for number in (1, 2):
        history.take(number)
        history.add("answered", id=f"p:{number}", consumer="c")
    history.take(1, again=True)
    history.add("fault", name="kill", target="n1")
    history.add("healed", name="kill", target="n1")
    history.take(2, again=True)
    found = history.table()
    assert (found[QUIET].doubled, found["kill"].doubled, found["all"].doubled) == (1, 1, 2)


def test_other_wrongs_are_counted_by_themselves() -> None:
    history = History()
    history.add("fault", name="kill", target="n1")
    history.add("delivered", queue="q", id="p:9", consumer="c", redelivered=False)
    history.add("healed", name="kill", target="n1")
    found = history.table()
    assert (found["kill"].other, found["kill"].lost, found["kill"].doubled) == (1, 0, 0)


def test_rows_come_in_the_order_of_the_faults_and_unknown_ones_last() -> None:
    history = History()
    for name in ("earthquake", "latency", "kill"):
        history.add("fault", name=name, target="n1")
        history.add("healed", name=name, target="n1")
    assert list(history.table()) == ["kill", "latency", "earthquake", QUIET, "all"]


def test_the_table_is_markdown_with_as_many_cells_in_each_line() -> None:
    text = markdown(
        [
            Row("kill", 3, 12_345, median_s=0.0, longest_s=1.234),
            Row(QUIET, confirmed=1, longest_s=0.3),
        ]
    )
    head, rule, first, second = text.splitlines()
    assert {line.count("|") for line in (head, rule, first, second)} == {9}
    assert len({len(line) for line in (head, rule, first, second)}) == 1
    assert [cell.strip() for cell in first.split("|")[1:-1]] == [
        "kill",
        "3",
        "12,345",
        "0",
        "0",
        "0",
        "< 0.05 s",
        "1.23 s",
    ]
    assert second.split("|")[2].strip() == ""
