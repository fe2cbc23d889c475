"""How much a session sends in one go."""

import pytest

from tests.unit.wire.amqp10.peers import MESSAGE, RECEIVER, AllThere, Raw, data_section, run_of
from warren.wire.amqp10.link import Link
from warren.wire.amqp10.session import Session


def consumed(frame_bytes: int = 1 << 17) -> tuple[Raw, Session, Link]:
    """A session with one consumer, and windows that do not end here."""
    raw = Raw()
    raw.open(max_frame_size=frame_bytes)
    raw.begin(0, 100_000)
    link = raw.attach(0, RECEIVER)
    raw.flow(handle=0, delivery_count=0, link_credit=10_000)
    raw.bytes_out()
    return raw, raw.core.sessions[0], link


def test_a_budget_stops_the_writing() -> None:
    raw, session, link = consumed()
    session.offer(link, run_of([data_section(b"x" * 1_000)] * 100))
    session.write(AllThere(), 10_000)
    assert 8 <= len(raw.answers()) <= 12
    assert session.has_work()


@pytest.mark.parametrize(("frame_bytes", "share"), [(1 << 17, 4), (12_000, 2), (4_096, 1)])
def test_payloads_that_are_not_copied_take_a_part_of_the_budget(
    frame_bytes: int, share: int
) -> None:
    """Whether they go in a frame each or in several."""
    raw, session, link = consumed(frame_bytes)
    session.offer(link, run_of([data_section(b"x" * 16_000)] * 50))
    session.write(AllThere(), 100_000)
    written = sum(len(payload) for _, _, payload in raw.frames())
    assert 0.9 <= written / (share * 100_000) <= 1.2
    assert session.has_work()


def test_what_a_conversion_cost_is_taken_from_the_budget_once() -> None:
    raw, session, link = consumed()
    for _ in range(5):
        run = run_of([MESSAGE] * 3)
        run.cost = 4_000
        session.offer(link, run)
    session.write(AllThere(), 10_000)
    assert len(raw.answers()) == 9  # Three runs: the third one goes beyond the budget.
    session.write(AllThere(), 10_000)
    assert len(raw.answers()) == 6
