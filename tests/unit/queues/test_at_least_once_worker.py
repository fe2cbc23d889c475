"""Letters at least once: one for very many queues reaches some of them in each turn, in order."""

from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from queues.dead_lettering.at_least_once_worker import AtLeastOnceWorker
from queues.hosts.host_interfaces import Steppable, Steps, Waking
from queues.machine.commands import Command, ReleaseDeadLetters, SessionId
from queues.machine.pending_dead_letters import DEATHS
from queues.message import FORMAT_091, Chunk
from queues.queue_host import SessionSink, View
from queues.sessions.publishing import QUEUES_A_TURN
from tests.unit.queues.fake_queue import FakeQueue
from tests.unit.queues.messages import table
from tests.unit.queues.test_dead_letter_publisher import Harness, begin_turn, bodies, got, sliced
from tests.unit.wire.frames import message

if TYPE_CHECKING:
    from queues.hosts.queue_core import QueueCore

pytestmark = pytest.mark.source  # Compiled code takes no other object for a QueueCore.

REJECTED = next(number for number, name in DEATHS.items() if name == "rejected")


class Work:
    """A worker above the dead-letter publisher of a harness. Message n of its queue is `n`."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.released: list[tuple[int, int]] = []
        self.marked: list[Steppable] = []
        self.counts = [0]
        self.name = "work"
        self.machine = SimpleNamespace(now_ms=0)
        self.dead_letter_publisher = harness.dead_letter_publisher
        self.reading = SimpleNamespace(end_session=lambda session: None)
        self.worker = AtLeastOnceWorker(cast("QueueCore", self), cast(Steps, self), self._bury)

    def _bury(self, command: Command) -> None:
        assert isinstance(command, ReleaseDeadLetters)
        self.released += command.runs

    def view(self, sink: SessionSink, first: int, count: int) -> View:
        body = message(1, b"%d" % first)
        return View(Chunk(FORMAT_091, body, 0, table([body], 0), 1), 0, first, 1)

    # Steps

    def mark_host(self, host: Steppable) -> None:
        self.marked.append(host)

    mark_host_later = mark_host

    def wake_host(self, host: Waking, due_ms: int) -> None:
        return

    def turns(self, most: int = 1000) -> None:
        while self.marked and most > 0:
            begin_turn(self.harness)
            marked, self.marked = self.marked, []
            for each in marked:
                each.step(0)
            self.counts.append(got(self.harness))
            most -= 1

    def confirm(self, queue: FakeQueue) -> None:
        self.worker.on_confirms(queue.uid, len(queue.bodies))

    @property
    def slices(self) -> list[int]:
        return [after - before for before, after in pairwise(self.counts)]


def test_a_letter_for_many_queues_is_handed_over_in_several_turns_before_the_next() -> None:
    work = Work(sliced())
    work.worker.died(1, 2, REJECTED)
    work.turns()
    assert max(work.slices) <= 7 and work.counts[-1] == 2 * 40
    queues = list(work.harness.queues.values())
    assert all(bodies(queue) == [b"1", b"2"] for queue in queues)
    for queue in queues[:-1]:
        work.confirm(queue)
    work.turns()
    assert work.released == []
    work.confirm(queues[-1])
    work.turns()
    assert work.released == [(1, 2)]


def test_a_letter_for_thousands_of_queues_reaches_a_thousand_of_them_in_a_turn() -> None:
    harness = Harness()
    for uid in range(100, 2600):
        harness.bind(uid)
    work = Work(harness)
    work.worker.died(1, 1, REJECTED)
    work.turns()
    assert work.counts[-1] == 2500 and 900 < max(work.slices) <= QUEUES_A_TURN


def test_a_purge_ends_a_hand_over_and_others_follow() -> None:
    work = Work(sliced())
    work.worker.died(1, 1, REJECTED)
    work.turns(1)
    work.worker.purge()
    work.worker.died(2, 1, REJECTED)
    work.turns()
    assert work.released == [(1, 1)]
    found = [bodies(queue) for queue in work.harness.queues.values()]
    assert found.count([b"1", b"2"]) == 7 and found.count([b"2"]) == 33


def test_a_queue_without_a_dead_letter_exchange_any_more_drops_the_rest_of_a_hand_over() -> None:
    work = Work(sliced())
    work.worker.died(1, 1, REJECTED)
    work.turns(1)
    work.dead_letter_publisher = None  # type: ignore[assignment]
    work.turns()
    assert work.released == [(1, 1)] and got(work.harness) == 7


def test_a_queue_that_goes_before_it_has_the_letter_is_not_waited_for() -> None:
    work = Work(sliced())
    work.worker.died(1, 1, REJECTED)
    work.turns(1)
    queues = list(work.harness.queues.values())
    last = queues[-1]

    def say_gone(sink: SessionSink, chunk: Chunk, first_seq: int) -> None:
        sink.on_gone(last.uid)

    last.publish = say_gone  # type: ignore[method-assign]
    work.worker.on_gone(last.uid)
    work.turns()
    for queue in queues[:-1]:
        work.confirm(queue)
    work.turns()
    assert work.released == [(1, 1)]


def test_a_worker_that_ends_hands_nothing_on() -> None:
    work = Work(sliced())
    work.worker.died(1, 1, REJECTED)
    work.turns(1)
    work.worker.close()
    work.turns()
    assert got(work.harness) == 7
    assert work.worker.session == SessionId(9)
