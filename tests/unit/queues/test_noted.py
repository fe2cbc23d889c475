"""What consumers noted on messages, through the hosts: the next consumer and the dead-letter
exchange see it, and nothing is kept of what has gone.
"""

import pytest

from queues.conversion.annotated import words_of
from queues.conversion.chunks import names_for
from queues.hosts.classic import ClassicHost
from queues.hosts.queue_core import DEFAULT
from queues.machine.annotations import Annotations
from queues.machine.commands import (
    ACCEPT,
    FAIL,
    REJECT,
    RELEASE,
    Settle,
    consumer_key,
)
from queues.machine.options import Options
from queues.message import FORMAT_10, Chunk
from tests.unit.queues.classic_harness import Harness
from tests.unit.queues.fake_grave import FakeGrave
from tests.unit.queues.fake_sink import FakeSink
from tests.unit.queues.messages import table
from tests.unit.reachable import held
from tests.unit.wire.amqp10.messages import DATA, section
from warren.wire.amqp10.codec.message import Sections
from warren.wire.amqp10.transfers import payload_at, store

WHY = words_of({"x-why": "bad"})
AGAIN = words_of({"x-why": "worse", "x-n": 2})
BODIES = [store(section(DATA, body)) for body in (b"one", b"two", b"three", b"four")]
Found = tuple[bytes, object]  # body, annotations


def chunk_of_all(bodies: list[bytes]) -> Chunk:
    return Chunk(FORMAT_10, b"".join(bodies), 7, table(bodies, 7), 1, names_for("", b"q"))


def found_in(chunk: Chunk, index: int) -> Found:
    data = chunk.data
    assert data is not None
    start, end = chunk.span(index)
    sections = Sections()
    assert sections.walk(data, payload_at(data, start), end)
    return sections.body_data(data) or b"", sections.annotations(data)


def seen(host: ClassicHost, sink: FakeSink, first: int, count: int) -> list[Found]:
    """Messages first.. as the session gets them."""
    found: list[Found] = []
    while len(found) < count:
        view = host.view(sink, first + len(found), count - len(found))
        assert view is not None
        found += [found_in(view.chunk, view.index + place) for place in range(view.count)]
    return found


class Grave(FakeGrave):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[Found] = []

    def bury(self, chunk: Chunk, index: int, count: int, reason: str, first: int) -> int:
        taken = super().bury(chunk, index, count, reason, first)
        self.found += [found_in(chunk, at) for at in range(index, index + taken)]
        return taken


def busy_harness(grave: FakeGrave | None = None, options: Options | None = None) -> Harness:
    """A queue with four messages, all with consumer 1, who has credit for more."""
    harness = Harness()
    harness.host.configure(options or Options(dead_letters=grave is not None), DEFAULT, grave)
    harness.turn()
    harness.host.publish(harness.sink, chunk_of_all(BODIES), 1)
    harness.attach(1, 9)
    end(harness)
    return harness


def end(harness: Harness) -> None:
    harness.turn()
    harness.sync()
    harness.turn()
    harness.sync()


def settle(harness: Harness, outcome: int, runs: list[tuple[int, int]], words: bytes) -> None:
    key = consumer_key(harness.sink.session, 1)
    harness.host.command(harness.sink, Settle(key, outcome, runs, words))
    end(harness)


@pytest.mark.parametrize("outcome", [RELEASE, FAIL])
def test_the_next_consumer_sees_what_was_noted_and_only_there(outcome: int) -> None:
    harness = busy_harness()
    settle(harness, outcome, [(2, 1), (4, 1)], WHY)
    why: dict[str, object] = {"x-why": "bad"}
    expected: list[Found] = [(b"one", {}), (b"two", why), (b"three", {}), (b"four", why)]
    assert seen(harness.host, harness.sink, 1, 4) == expected
    settle(harness, outcome, [(4, 1)], AGAIN)
    settle(harness, outcome, [(2, 1)], b"")
    expected[3] = (b"four", {"x-why": "worse", "x-n": 2})
    assert seen(harness.host, harness.sink, 1, 4) == expected


def test_the_dead_letter_exchange_sees_what_was_noted_at_the_end_and_before() -> None:
    grave = Grave()
    harness = busy_harness(grave)
    settle(harness, RELEASE, [(2, 1)], words_of({"x-n": 1}))
    settle(harness, REJECT, [(1, 3)], WHY)
    assert grave.found == [
        (b"one", {"x-why": "bad"}),
        (b"two", {"x-n": 1, "x-why": "bad"}),
        (b"three", {"x-why": "bad"}),
    ]
    settle(harness, REJECT, [(4, 1)], b"")
    assert grave.found[3:] == [(b"four", {})]


def test_nothing_is_kept_of_messages_that_are_gone() -> None:
    harness = busy_harness(Grave())
    settle(harness, RELEASE, [(1, 4)], WHY)
    settle(harness, ACCEPT, [(1, 1)], WHY)
    settle(harness, REJECT, [(2, 3)], b"")
    machine = harness.host.core.machine
    assert (machine.annotations.words, machine.annotations.total_bytes) == ({}, 0)
    assert all(each.words == {} for each in held(harness.host.core, Annotations))


def test_what_was_accepted_is_noted_nowhere() -> None:
    harness = busy_harness()
    settle(harness, ACCEPT, [(1, 1)], WHY)
    assert harness.host.core.machine.annotations.words == {}
