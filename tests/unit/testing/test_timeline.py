"""A history as rates, latencies, faults and silences; and as a picture."""

import xml.etree.ElementTree as ET
from typing import Any

import pytest

from warren.testing.chaos.picture import draw
from warren.testing.chaos.timeline import QUIET, Timeline, timeline

MS = 1_000_000


class History:
    """Events at times that the test says."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def add(self, at_ms: float, event: str, **fields: Any) -> None:
        self.events.append({"event": event, "at_ns": int(at_ms * MS), **fields})

    def confirmed(self, message: int, at_ms: float, after_ms: float) -> None:
        self.add(at_ms, "published", queue="q", id=f"p:{message}", publisher="p")
        self.add(at_ms + after_ms, "confirmed", id=f"p:{message}")

    def made(self, width_s: float = 1.0) -> Timeline:
        return timeline(self.events, width_s)


def test_what_happens_is_counted_in_its_slot() -> None:
    history = History()
    history.confirmed(1, 100, 5)
    history.confirmed(2, 900, 15)
    history.add(1200, "delivered", queue="q", id="p:1", consumer="c", redelivered=False)
    slots = history.made().slots
    assert [(slot.published, slot.confirmed, slot.delivered) for slot in slots] == [
        (2, 2, 0),
        (0, 0, 1),
    ]
    assert slots[0].latencies_ms == [5.0, 15.0]


def test_a_percentile_of_nothing_is_none() -> None:
    history = History()
    history.add(0, "published", queue="q", id="p:1", publisher="p")
    slot = history.made().slots[0]
    assert slot.latency_ms(0.5) is None
    slot.latencies_ms = [3.0, 1.0, 2.0, 4.0]
    assert (slot.latency_ms(0.5), slot.latency_ms(0.99)) == (3.0, 4.0)


def test_a_silence_belongs_to_the_fault_in_which_it_was() -> None:
    history = History()
    history.confirmed(1, 0, 1)
    history.add(10, "fault", name="kill", target="n1")
    history.confirmed(2, 20, 480)
    history.add(600, "healed", name="kill", target="n1")
    made = history.made()
    assert [(round(each.seconds, 3), each.fault) for each in made.silences] == [(0.48, "kill")]
    assert made.longest_silences() == {"kill": pytest.approx(0.48)}


def test_a_silence_right_after_a_fault_is_put_down_to_it_and_a_later_one_is_not() -> None:
    history = History()
    history.add(0, "fault", name="pause", target="n1")
    history.add(100, "healed", name="pause", target="n1")
    history.confirmed(1, 200, 700)
    history.confirmed(2, 9000, 300)
    assert [each.fault for each in history.made().silences] == ["pause", QUIET]


def test_a_cluster_that_never_confirms_again_is_silent_to_the_last_publish() -> None:
    history = History()
    history.confirmed(1, 0, 1)
    history.add(1000, "fault", name="kill-all", target="all")
    history.add(1100, "published", queue="q", id="p:2", publisher="p")
    history.add(3100, "published", queue="q", id="p:3", publisher="p")
    history.add(60_000, "drained", queue="q")
    made = history.made()
    assert [(round(each.seconds, 3), each.fault) for each in made.silences] == [(2.0, "kill-all")]
    assert made.faults[0].longest_silence_s == pytest.approx(2.0)


def test_a_fault_knows_what_was_confirmed_in_its_time_and_its_longest_silence() -> None:
    history = History()
    history.confirmed(1, 0, 1)
    history.add(10, "fault", name="kill", target="n1")
    history.confirmed(2, 20, 100)
    history.confirmed(3, 200, 300)
    history.add(600, "healed", name="kill", target="n1")
    history.confirmed(4, 700, 200)
    (span,) = history.made().faults
    assert span.confirmed == 2
    assert span.longest_silence_s == pytest.approx(0.3)


def test_a_silence_over_two_faults_belongs_to_the_first() -> None:
    history = History()
    history.confirmed(1, 0, 1)
    history.add(10, "fault", name="kill", target="n1")
    history.add(20, "published", queue="q", id="p:2", publisher="p")
    history.add(300, "healed", name="kill", target="n1")
    history.add(400, "fault", name="pause", target="n1")
    history.add(500, "confirmed", id="p:2")
    assert [each.fault for each in history.made().silences] == ["kill"]


def test_no_silence_is_counted_while_nobody_publishes() -> None:
    history = History()
    history.confirmed(1, 0, 1)
    history.confirmed(2, 60_000, 1)
    assert history.made().silences == []


def test_a_refused_message_has_no_latency() -> None:
    history = History()
    history.add(0, "published", queue="q", id="p:1", publisher="p")
    history.add(1, "refused", id="p:1")
    history.add(2, "confirmed", id="p:1")
    assert history.made().slots[0].latencies_ms == []


def test_a_fault_that_was_never_healed_lasts_to_the_end() -> None:
    history = History()
    history.add(0, "fault", name="kill", target="n2")
    history.add(5000, "drained", queue="q")
    (span,) = history.made().faults
    assert (span.begin_s, span.end_s) == (0.0, 5.0)


def test_the_picture_is_xml_with_a_bar_for_each_fault_and_a_line_for_each_leader() -> None:
    history = History()
    history.confirmed(1, 0, 1)
    history.add(1000, "fault", name="kill", target="n1 & <n2>")
    history.add(1200, "noted", what="leader", target="orders", text="n2")
    history.add(3000, "healed", name="kill", target="n1 & <n2>")
    history.confirmed(2, 3500, 2)
    root = ET.fromstring(draw(history.made(), "a <title>"))
    space = "{http://www.w3.org/2000/svg}"
    bars = [each for each in root.iter(f"{space}rect") if each.get("class") == "fault"]
    leaders = [each for each in root.iter(f"{space}line") if each.get("class") == "leader"]
    assert [bar.findtext(f"{space}title") for bar in bars] == ["kill n1 & <n2>: 1.0 s to 3.0 s"]
    assert [each.findtext(f"{space}title") for each in leaders] == ["1.2 s: n2 leads orders"]
    assert float(bars[0].get("width", "0")) > 100


def test_a_history_in_which_nothing_happened_has_a_picture_too() -> None:
    ET.fromstring(draw(timeline([]), "nothing"))
