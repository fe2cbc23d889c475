"""The judge of histories finds what is wrong, and nothing that is right."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from warren.testing.history import BadHistory, Kind, Recorder, Verdict, judge, read

Story = Callable[[Recorder], None]


def judged(tmp_path: Path, story: Story, ordered: bool = True) -> Verdict:
    path = tmp_path / "history.jsonl"
    with Recorder(path) as recorder:
        story(recorder)
    return judge(read(path), ordered)


def publish(recorder: Recorder, *numbers: int, confirm: bool = True) -> None:
    for number in numbers:
        recorder.published("q", f"p:{number}", "p")
        if confirm:
            recorder.confirmed(f"p:{number}")


def take(recorder: Recorder, number: int, consumer: str = "c", redelivered: bool = False) -> None:
    recorder.delivered("q", f"p:{number}", consumer, redelivered)
    recorder.settled(f"p:{number}", consumer, "accept")


def test_a_message_that_was_published_confirmed_and_taken_is_clean(tmp_path: Path) -> None:
    def story(recorder: Recorder) -> None:
        publish(recorder, 1, 2)
        take(recorder, 1)
        take(recorder, 2)
        recorder.drained("q")

    verdict = judged(tmp_path, story)
    assert verdict.is_clean
    assert (verdict.published, verdict.confirmed, verdict.taken) == (2, 2, 2)
    assert "nothing lost" in verdict.format()


def test_a_confirmed_message_that_is_not_there_at_the_end_is_lost(tmp_path: Path) -> None:
    def story(recorder: Recorder) -> None:
        publish(recorder, 1, 2)
        take(recorder, 1)
        recorder.drained("q")

    verdict = judged(tmp_path, story)
    assert verdict.counts == {Kind.LOST: 1}
    assert verdict.findings[0].message == "p:2"


def test_without_a_drain_nobody_can_say_that_anything_is_lost(tmp_path: Path) -> None:
    verdict = judged(tmp_path, lambda recorder: publish(recorder, 1))
    assert verdict.is_clean
    assert verdict.undrained == ["q"]
    assert "not drained" in verdict.format()


def test_what_was_published_after_the_drain_is_not_judged_by_it(tmp_path: Path) -> None:
    def story(recorder: Recorder) -> None:
        recorder.drained("q")
        publish(recorder, 1)

    assert judged(tmp_path, story).undrained == ["q"]


def test_an_unconfirmed_message_may_be_lost_or_not(tmp_path: Path) -> None:
    def story(recorder: Recorder) -> None:
        publish(recorder, 1, 2, confirm=False)
        take(recorder, 1)
        recorder.drained("q")

    verdict = judged(tmp_path, story)
    assert verdict.is_clean
    assert verdict.unconfirmed_taken == 1


def test_a_message_given_back_and_never_seen_again_is_lost(tmp_path: Path) -> None:
    def story(recorder: Recorder) -> None:
        publish(recorder, 1)
        recorder.delivered("q", "p:1", "c", False)
        recorder.settled("p:1", "c", "release")
        recorder.drained("q")

    verdict = judged(tmp_path, story)
    assert verdict.counts == {Kind.LOST: 1}
    assert "given back" in verdict.findings[0].detail


def test_a_delivery_of_nothing_that_was_published_is_a_phantom(tmp_path: Path) -> None:
    verdict = judged(tmp_path, lambda r: r.delivered("q", "p:9", "c", False))
    assert verdict.counts == {Kind.PHANTOM: 1}


def test_a_delivery_after_an_answered_settlement_is_doubled_whatever_happened(
    tmp_path: Path,
) -> None:
    def story(recorder: Recorder) -> None:
        publish(recorder, 1)
        take(recorder, 1)
        recorder.answered("p:1", "c")
        recorder.fault("kill", "n1")
        recorder.delivered("q", "p:1", "c", True)

    assert judged(tmp_path, story).counts == {Kind.DOUBLED: 1}


def test_a_delivery_after_an_acknowledgement_needs_a_fault(tmp_path: Path) -> None:
    def story(recorder: Recorder) -> None:
        publish(recorder, 1)
        take(recorder, 1)
        take(recorder, 1, redelivered=True)

    assert judged(tmp_path, story).counts == {Kind.REPEATED: 1}


@pytest.mark.parametrize("when", ["before", "after", "broken"])
def test_a_delivery_after_an_acknowledgement_across_a_fault_is_allowed(
    tmp_path: Path, when: str
) -> None:
    def story(recorder: Recorder) -> None:
        publish(recorder, 1)
        if when == "before":
            recorder.fault("cut", "n1")
        take(recorder, 1)
        if when == "before":
            recorder.healed("cut", "n1")
        elif when == "after":
            recorder.fault("cut", "n1")
        else:
            recorder.ended("c", clean=False)
        take(recorder, 1, "c2", redelivered=True)
        recorder.drained("q")

    assert judged(tmp_path, story).is_clean


def test_a_second_delivery_without_the_flag_is_found(tmp_path: Path) -> None:
    def story(recorder: Recorder) -> None:
        publish(recorder, 1)
        recorder.delivered("q", "p:1", "c", False)
        recorder.ended("c", clean=True)
        take(recorder, 1, "c2", redelivered=False)

    assert judged(tmp_path, story).counts == {Kind.UNFLAGGED: 1}


def test_messages_of_a_publisher_that_overtake_each_other_are_found(tmp_path: Path) -> None:
    def story(recorder: Recorder) -> None:
        publish(recorder, 1, 2, 3)
        take(recorder, 1)
        take(recorder, 3)
        take(recorder, 2)

    assert judged(tmp_path, story).counts == {Kind.REORDERED: 1}
    (tmp_path / "history.jsonl").unlink()
    assert judged(tmp_path, story, ordered=False).is_clean


def lose_a_consumer(at_s: float, overtaken_at_s: float, clean: bool = False) -> Verdict:
    """Message 2 comes to one consumer before message 1, which was on its way to another one."""
    events: list[dict[str, Any]] = []

    def add(at_s: float, event: str, **fields: Any) -> None:
        events.append({"event": event, "at_ns": int(at_s * 1e9), **fields})

    for number in (1, 2):
        add(0, "published", queue="q", id=f"p:{number}", publisher="p")
    for number in (2, 1):
        delivery = {"queue": "q", "id": f"p:{number}", "consumer": "c", "redelivered": False}
        add(overtaken_at_s, "delivered", **delivery)
    add(at_s, "ended", consumer="lost", clean=clean)
    return judge(sorted(events, key=lambda event: event["at_ns"]))


@pytest.mark.parametrize(("at_s", "overtaken_at_s"), [(10.0, 10.1), (10.1, 10.0)])
def test_what_was_on_its_way_to_a_lost_consumer_may_come_late_and_unflagged(
    at_s: float, overtaken_at_s: float
) -> None:
    assert lose_a_consumer(at_s, overtaken_at_s).is_clean


@pytest.mark.parametrize(("at_s", "overtaken_at_s"), [(10.0, 30.0), (30.0, 10.0)])
def test_a_consumer_that_is_lost_at_another_time_excuses_nothing(
    at_s: float, overtaken_at_s: float
) -> None:
    assert lose_a_consumer(at_s, overtaken_at_s).counts == {Kind.REORDERED: 1}


def test_what_was_on_its_way_to_a_consumer_that_leaves_may_come_late_and_unflagged() -> None:
    assert lose_a_consumer(10.0, 10.1, clean=True).is_clean


@pytest.mark.parametrize(("at_s", "overtaken_at_s"), [(10.0, 30.0), (30.0, 10.0), (10.1, 10.0)])
def test_a_consumer_that_leaves_excuses_nothing_from_before_and_not_for_long(
    at_s: float, overtaken_at_s: float
) -> None:
    verdict = lose_a_consumer(at_s, overtaken_at_s, clean=True)
    assert verdict.counts == {Kind.REORDERED: 1}


def test_two_consumers_share_a_queue_each_in_order(tmp_path: Path) -> None:
    def story(recorder: Recorder) -> None:
        publish(recorder, 1, 2, 3, 4)
        take(recorder, 2, "c2")
        take(recorder, 1, "c1")
        take(recorder, 4, "c2")
        take(recorder, 3, "c1")
        recorder.drained("q")

    assert judged(tmp_path, story).is_clean


def test_a_refused_message_must_not_be_delivered(tmp_path: Path) -> None:
    def story(recorder: Recorder) -> None:
        publish(recorder, 1, confirm=False)
        recorder.refused("p:1")
        take(recorder, 1)

    assert judged(tmp_path, story).counts == {Kind.UNREFUSED: 1}


def test_a_message_comes_from_its_own_queue(tmp_path: Path) -> None:
    def story(recorder: Recorder) -> None:
        publish(recorder, 1)
        recorder.delivered("other", "p:1", "c", False)

    assert judged(tmp_path, story).counts == {Kind.WRONG_QUEUE: 1}


def test_an_acknowledgement_of_what_another_has_by_now_does_not_count(tmp_path: Path) -> None:
    def story(recorder: Recorder) -> None:
        publish(recorder, 1)
        recorder.delivered("q", "p:1", "c1", False)
        recorder.ended("c1", clean=False)
        recorder.delivered("q", "p:1", "c2", True)
        recorder.settled("p:1", "c1", "accept")
        recorder.drained("q")

    verdict = judged(tmp_path, story)
    assert verdict.counts == {Kind.STALE_ACK: 1}
    assert "of c1" in verdict.format()


def test_what_was_acknowledged_too_late_and_taken_by_its_holder_is_clean(tmp_path: Path) -> None:
    def story(recorder: Recorder) -> None:
        publish(recorder, 1)
        recorder.delivered("q", "p:1", "c1", False)
        recorder.ended("c1", clean=False)
        recorder.delivered("q", "p:1", "c2", True)
        recorder.settled("p:1", "c1", "accept")
        recorder.settled("p:1", "c2", "accept")
        recorder.drained("q")

    assert judged(tmp_path, story).is_clean


def test_what_the_queue_still_has_at_the_end_is_stranded_and_not_lost(tmp_path: Path) -> None:
    def story(recorder: Recorder) -> None:
        publish(recorder, 1, 2)
        recorder.delivered("q", "p:1", "c", False)
        recorder.settled("p:1", "c", "release")
        recorder.drained("q", left=2)

    verdict = judged(tmp_path, story)
    assert verdict.counts == {Kind.STRANDED: 2}
    assert {finding.message for finding in verdict.findings} == {"p:1", "p:2"}


def test_if_more_is_missing_than_the_queue_has_left_something_is_lost(tmp_path: Path) -> None:
    def story(recorder: Recorder) -> None:
        publish(recorder, 1, 2, 3)
        recorder.drained("q", left=2)

    verdict = judged(tmp_path, story)
    assert verdict.counts == {Kind.LOST: 3}
    assert "2 that the queue has left" in verdict.format()


def test_many_of_a_kind_are_counted_and_some_are_named(tmp_path: Path) -> None:
    def story(recorder: Recorder) -> None:
        publish(recorder, *range(1, 101))
        recorder.drained("q")

    verdict = judged(tmp_path, story)
    assert verdict.counts == {Kind.LOST: 100}
    assert len(verdict.findings) == 20
    assert verdict.lines == {Kind.LOST: list(range(1, 200, 2))}


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ("not json\n", "line 1"),
        ("[1]\n", "line 1: no event"),
        ('{"event":"danced"}\n', "danced"),
        ('{"event":"confirmed"}\n', "'id'"),
        ('{"event":"confirmed","id":"p:1"}\n', "never published"),
        (
            '{"event":"published","id":"x","queue":"q","publisher":"p"}\n',
            "does not end in a number",
        ),
        ('{"event":"published","id":"p:1","queue":"q","publisher":"p"}\n' * 2, "published twice"),
        ('{"event":"healed","name":"cut","target":"n1"}\n', "never began"),
        ('{"event":"drained","queue":"q","left":"two"}\n', "left"),
    ],
)
def test_what_is_no_history_is_refused_with_its_line(tmp_path: Path, lines: str, says: str) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(lines)
    with pytest.raises(BadHistory, match=says):
        judge(read(path))


def test_a_line_cut_short_by_a_kill_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    with Recorder(path) as recorder:
        publish(recorder, 1)
    with path.open("a") as file:
        file.write('{"event":"publ')
    assert judge(read(path)).published == 1


def test_a_message_refused_while_something_was_wrong_may_be_there_all_the_same(
    tmp_path: Path,
) -> None:
    def story(recorder: Recorder) -> None:
        publish(recorder, 1, confirm=False)
        recorder.fault("kill", "n1")
        recorder.refused("p:1")
        recorder.healed("kill", "n1")
        take(recorder, 1)
        recorder.drained("q")

    verdict = judged(tmp_path, story)
    assert verdict.is_clean
    assert verdict.refused == 1


def test_a_phantom_that_is_settled_is_still_one_finding(tmp_path: Path) -> None:
    def story(recorder: Recorder) -> None:
        recorder.delivered("q", "p:9", "c", False)
        recorder.settled("p:9", "c", "accept")

    assert judged(tmp_path, story).counts == {Kind.PHANTOM: 1}


def test_what_is_noted_for_the_picture_is_not_judged(tmp_path: Path) -> None:
    verdict = judged(tmp_path, lambda recorder: recorder.noted("leader", "q", "n2"))
    assert verdict.is_clean


def test_of_two_deliveries_that_were_read_in_the_wrong_order_one_has_the_flag(
    tmp_path: Path,
) -> None:
    def story(recorder: Recorder) -> None:
        publish(recorder, 1)
        recorder.delivered("q", "p:1", "second", True)
        recorder.delivered("q", "p:1", "first", False)
        if again:
            recorder.delivered("q", "p:1", "third", False)

    again = False
    assert judged(tmp_path, story).is_clean
    (tmp_path / "history.jsonl").unlink()
    again = True
    assert judged(tmp_path, story).counts == {Kind.UNFLAGGED: 1}
