"""Who gets nothing while others do is found, unless there is a reason for it."""

from collections.abc import Iterator
from typing import Any

from warren.testing.history import Kind, Verdict, judge

SECOND_NS = 1_000_000_000
RATE = 30  # messages a second: 20 s are 600


class Tale:
    """A history in which time passes. Consumers that are named take turns."""

    def __init__(self, *consumers: str) -> None:
        self.events: list[dict[str, Any]] = []
        self.ns = 0
        self._number = 0
        for name in consumers:
            self.attach(name)

    def attach(self, name: str) -> None:
        self.add("attached", queue="q", consumer=name)

    def add(self, event: str, **fields: Any) -> None:
        self.events.append({"event": event, "at_ns": self.ns, **fields})

    def pass_by(self, seconds: float, *consumers: str, settle: bool = True) -> None:
        """Messages are published, confirmed, and come to these in turn; to no consumer, if there
        are none."""
        takers: Iterator[str] = (consumers[at % len(consumers)] for at in range(10**6))
        for _ in range(int(seconds * RATE)):
            self.ns += SECOND_NS // RATE
            self._number += 1
            name = f"p:{self._number}"
            self.add("published", queue="q", id=name, publisher="p")
            self.add("confirmed", id=name)
            if consumers:
                self.take(name, next(takers), settle)

    def take(self, name: str, consumer: str, settle: bool = True) -> None:
        self.add("delivered", queue="q", id=name, consumer=consumer, redelivered=False)
        if settle:
            self.add("settled", id=name, consumer=consumer, outcome="accept")

    def judge(self) -> Verdict:
        return judge({**event, "line": line} for line, event in enumerate(self.events, 1))


def starved(tale: Tale) -> list[tuple[str, int]]:
    """Who, and since which line."""
    found = tale.judge().findings
    return [(each.message, each.line) for each in found if each.kind is Kind.STARVED]


def test_one_of_two_that_gets_nothing_any_more_is_found() -> None:
    tale = Tale("a", "b")
    tale.pass_by(1, "a", "b")
    last = max(at for at, event in enumerate(tale.events, 1) if event.get("consumer") == "b")
    tale.pass_by(21, "a")
    (found,) = starved(tale)
    assert found == ("b", last - 1)  # That of the delivery; then it was settled.


def test_it_is_found_when_it_gets_something_at_last_and_when_it_ends() -> None:
    for end in ("delivered", "ended"):
        tale = Tale("a", "b")
        tale.pass_by(21, "a")
        if end == "ended":
            tale.add("ended", consumer="b", clean=False)
        else:
            tale.pass_by(1, "b")
        tale.pass_by(5, "a")
        assert starved(tale) == [("b", 2)], end


def test_one_that_never_got_anything_is_found() -> None:
    tale = Tale("a")
    tale.pass_by(5, "a")
    tale.attach("late")
    tale.pass_by(21, "a")
    assert [name for name, _ in starved(tale)] == ["late"]


def test_all_starve_where_what_is_confirmed_comes_to_nobody() -> None:
    tale = Tale("a", "b")
    tale.pass_by(21)
    assert [name for name, _ in starved(tale)] == ["a", "b"]


def test_times_with_a_fault_do_not_count() -> None:
    tale = Tale("a", "b")
    tale.pass_by(15, "a")
    tale.add("fault", name="kill", target="n2")
    tale.pass_by(30, "a")
    tale.add("healed", name="kill", target="n2")
    tale.pass_by(4, "a")
    assert starved(tale) == []
    tale.pass_by(2, "a")
    assert [name for name, _ in starved(tale)] == ["b"]


def test_who_has_not_settled_what_came_may_have_no_credit() -> None:
    tale = Tale("a", "b")
    tale.pass_by(1, "b", settle=False)
    tale.pass_by(21, "a")
    assert starved(tale) == []


def test_where_nothing_passes_by_nobody_starves() -> None:
    tale = Tale("a", "b")
    tale.pass_by(5, "a")
    tale.ns += 60 * SECOND_NS
    tale.pass_by(1, "a")
    assert starved(tale) == []


def test_consumers_that_did_not_say_that_they_are_alike_are_not_judged() -> None:
    tale = Tale("a")
    tale.pass_by(1, "a", "standby")
    tale.pass_by(21, "a")
    assert starved(tale) == []
