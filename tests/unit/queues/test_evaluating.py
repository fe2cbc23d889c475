"""A classic queue's host evaluates selectors: in slices, from disk, and what cannot be read."""

from queues.hosts.evaluating import EVALUATED_MAX
from queues.machine.commands import QUEUE_LIMIT, Attach, Credit, consumer_key
from queues.selectors.terms import SQL, encode_terms
from tests.unit.queues.classic_harness import Harness
from tests.unit.queues.fake_sink import Told
from warren.wire.amqp091.deliver import build

EVERYTHING = encode_terms([(SQL, "missing IS NULL")])
MESSAGE = build("", b"q", b"\x00\x00", b"body" * 25)
NOTHING = encode_terms([(SQL, "missing = 1")])


def select(harness: Harness, number: int, selector: bytes, credit: int) -> None:
    key = consumer_key(harness.sink.session, number)
    limits = -1, QUEUE_LIMIT, QUEUE_LIMIT
    harness.host.command(
        harness.sink, Attach(key, credit, True, False, 0, *limits, selector=selector)
    )


def delivered(told: list[Told]) -> int:
    counts = [each[5] for each in told if each[0] == "delivers"]
    return sum(count for count in counts if isinstance(count, int))


def turns(harness: Harness) -> list[Told]:
    """All turns until nothing is left to be done."""
    found = harness.turn()
    while harness.node.later:
        found += harness.turn()
    return found


def test_a_publish_is_delivered_in_its_turn() -> None:
    harness = Harness()
    select(harness, 1, EVERYTHING, 10)
    harness.turn()
    harness.publish([MESSAGE] * 2)
    assert delivered(harness.turn()) == 2


def test_a_long_backlog_is_evaluated_in_slices() -> None:
    harness = Harness()
    count = 2 * EVALUATED_MAX + 10
    harness.publish([MESSAGE] * count)
    harness.turn()
    select(harness, 1, EVERYTHING, 10_000)
    assert delivered(harness.turn()) == EVALUATED_MAX
    assert delivered(turns(harness)) == count - EVALUATED_MAX


def test_bodies_on_disk_are_read_to_be_evaluated() -> None:
    harness = Harness(budget_bytes=0)
    for _ in range(10):
        harness.publish([MESSAGE] * 10)
        harness.turn()
        harness.sync()
    harness.host.core.store.shed(1000, 1000)
    select(harness, 1, EVERYTHING, 1000)
    assert delivered(harness.turn()) == 0
    found = 0
    while harness.node.loads:
        harness.node.answer_loads()
        found += delivered(turns(harness))
    assert found == 100


def test_a_body_that_cannot_be_read_matches_nothing_and_holds_nothing_up() -> None:
    harness = Harness(budget_bytes=0)
    for _ in range(3):
        harness.publish([MESSAGE] * 10)
        harness.turn()
        harness.sync()
    harness.host.core.store.shed(1000, 1000)
    select(harness, 1, EVERYTHING, 1000)
    harness.turn()
    (core, broken) = harness.node.loads.pop(0)
    core.load_failed(broken)
    found = delivered(turns(harness))
    while harness.node.loads:
        harness.node.answer_loads()
        found += delivered(turns(harness))
    assert found == 20
    assert harness.host.ready_count == 10


def test_a_drain_of_what_matches_nothing_is_answered_behind_the_backlog() -> None:
    harness = Harness()
    harness.publish([MESSAGE] * (EVALUATED_MAX + 10))
    harness.turn()
    select(harness, 1, NOTHING, 0)
    key = consumer_key(harness.sink.session, 1)
    harness.host.command(harness.sink, Credit(key, 0, 5, True, False))
    assert not [each for each in harness.turn() if each[0] == "drained"]
    assert [each[-1] for each in turns(harness) if each[0] == "drained"] == [5]
