"""Sessions of another node at a quorum queue that this node leads: what it takes and refuses."""

import pytest

from queues.machine.commands import (
    Attach,
    Command,
    EndProcess,
    EndSession,
    Get,
    SessionId,
    consumer_key,
)
from queues.machine.consuming.numbered_sessions import Resume
from queues.machine.options import Options
from queues.remote.home import SessionStubs
from queues.remote.items import (
    APPLIED,
    BODIES,
    CONFIRMS,
    CONFIRMS_HELD,
    DELIVERS,
    GONE,
    INSPECT,
    INSPECT_OK,
    NOT_LEADER,
    NUMBERED,
    PUBLISH,
    RELEASED,
    RESEND,
    RESUMED,
    TAKEN,
    BadItem,
    Item,
    put_command,
    put_numbers,
    put_resume,
    put_run,
    take_items,
)
from queues.remote.remote_interfaces import Ending, HomeEnd
from queues.sessions.credit import CreditActor, CreditSpec
from tests.sim.queues.roaming_end import End
from tests.unit.queues.fake_queue import FakeQueue
from tests.unit.queues.messages import chunk_of

UID = 5
SESSION = SessionId(7 << 64 | 1)
KEY = consumer_key(SESSION, 1)
TERM = 3


class Never:
    """Nothing goes badly."""

    def random(self) -> float:
        return 0.9


class Leader:
    """A node that leads, and the session stubs of one other node."""

    def __init__(self) -> None:
        self.end = End(UID, Options(), Never())
        self._marked: list[Ending] = []
        self._sent: list[bytes] = []
        self.plain: FakeQueue | None = None  # the queue for sessions that do not number
        self.stubs = SessionStubs(lambda uid: self.plain, self._send, self, self._find_end)
        self.end.begin(TERM)
        self.commit()

    def _send(self, parts: list[bytes]) -> None:
        self._sent.append(b"".join(parts))

    def _find_end(self, uid: int) -> HomeEnd | None:
        return self.end if uid == UID else None

    def mark_away(self, ending: Ending) -> None:
        self._marked.append(ending)

    def commit(self) -> None:
        self.end.propose(1_000)
        proposed, self.end.proposed = self.end.proposed, []
        for entry in proposed:
            self.end.apply(entry)

    def hear(self, *parts: bytes) -> None:
        self.stubs.received(b"".join(parts))

    def give(self, number: int, command: Command, term: int = TERM) -> None:
        address = put_numbers(NUMBERED, UID, SESSION, term, number, 0)
        self.hear(address, put_command(UID, SESSION, command))

    def publish(self, number: int, body: bytes, first_seq: int) -> None:
        address = put_numbers(NUMBERED, UID, SESSION, TERM, number, 0)
        self.hear(address, *put_run(PUBLISH, UID, SESSION, first_seq, chunk_of([body]), 0, 1))

    def said(self) -> list[Item]:
        self.commit()
        while self._marked:
            marked, self._marked = self._marked, []
            for each in marked:
                each.end_turn()
        sent, self._sent = self._sent, []
        return take_items(b"".join(sent))

    def kinds(self) -> list[int]:
        return [item.kind for item in self.said()]


def test_a_command_for_an_earlier_leadership_of_this_node_is_refused() -> None:
    leader = Leader()
    leader.give(1, Get(SESSION), term=TERM - 1)
    (refusal,) = leader.said()
    assert (refusal.kind, refusal.numbers) == (NOT_LEADER, (TERM - 1,))
    assert leader.stubs.count == 0
    assert leader.end.machine.resume(Resume(SESSION, 0, 0, [])).number == 0


def test_a_session_that_only_inspects_leaves_no_stub() -> None:
    leader = Leader()
    leader.hear(put_numbers(INSPECT, UID, SESSION, TERM))
    (answer,) = leader.said()
    assert (answer.kind, answer.numbers) == (INSPECT_OK, (0, 0))
    assert leader.stubs.count == 0
    leader.publish(1, b"a", 1)
    leader.commit()
    leader.hear(put_numbers(INSPECT, UID, SESSION, TERM))
    assert leader.said()[-1].numbers == (1, 0)
    assert leader.stubs.count == 1
    leader.hear(put_numbers(INSPECT, UID, SESSION, TERM - 1))
    assert leader.kinds() == [NOT_LEADER]


def test_a_node_without_the_queue_does_not_lead_it() -> None:
    leader = Leader()
    leader.hear(put_resume(99, TERM, 1, Resume(SESSION, 0, 0, [])))
    assert leader.kinds() == [NOT_LEADER]


def test_a_publish_is_confirmed_and_then_said_to_be_applied() -> None:
    leader = Leader()
    leader.publish(1, b"a", 1)
    assert leader.kinds() == [CONFIRMS, APPLIED]
    assert leader.end.ready_count == 1


def test_a_gap_is_answered() -> None:
    leader = Leader()
    leader.give(2, Get(SESSION))
    assert leader.kinds() == [RESEND]


def test_who_resumes_gets_what_is_held_and_its_bodies_but_not_what_was_promised_before() -> None:
    leader = Leader()
    leader.publish(1, b"a", 1)
    leader.give(2, Attach(KEY, 5, True, False, 0))
    assert leader.kinds().count(BODIES) == 1
    leader.hear(put_resume(UID, TERM, 4, Resume(SESSION, 2, 1, [(1, 1)])))
    said = leader.said()
    assert (said[0].kind, said[0].numbers) == (RESUMED, (TERM, 4, 2))
    assert [item.kind for item in said].count(DELIVERS) == 1
    assert [item.kind for item in said].count(BODIES) == 1


def test_when_this_node_leads_no_more_its_visitors_are_told_and_leave() -> None:
    leader = Leader()
    leader.publish(1, b"a", 1)
    leader.said()
    leader.end.step_down()
    assert leader.kinds() == [NOT_LEADER]
    assert leader.stubs.count == 0


def test_a_session_that_has_ended_leaves_when_its_end_is_applied() -> None:
    leader = Leader()
    leader.publish(1, b"a", 1)
    leader.said()
    leader.give(2, EndSession(SESSION))
    assert leader.stubs.count == 1
    assert leader.kinds() == [APPLIED]
    assert leader.stubs.count == 0


def test_a_session_that_the_cluster_ends_is_told() -> None:
    leader = Leader()
    leader.publish(1, b"a", 1)
    leader.said()
    leader.end.give(EndProcess(7))
    assert leader.kinds() == [GONE]
    assert leader.stubs.count == 0


def test_a_node_that_is_lost_takes_its_visitors_along_and_their_sessions_go_on() -> None:
    leader = Leader()
    leader.publish(1, b"a", 1)
    leader.said()
    leader.stubs.peer_lost()
    leader.commit()
    assert leader.stubs.count == 0
    assert leader.end.machine.resume(Resume(SESSION, 0, 0, [])).number == 1


def test_what_was_looked_at_by_a_session_that_left_is_nothing() -> None:
    leader = Leader()
    leader.hear(put_numbers(TAKEN, UID, SESSION, 5))
    assert leader.kinds() == []
    assert leader.stubs.count == 0


@pytest.mark.parametrize(
    "parts",
    [
        [put_numbers(NUMBERED, UID, SESSION, TERM, 1, 0)],
        [
            put_numbers(NUMBERED, UID, SESSION, TERM, 1, 0),
            put_numbers(TAKEN, UID, SESSION, 5),
        ],
        [
            put_numbers(NUMBERED, UID, SESSION, TERM, 0, 0),
            put_command(UID, SESSION, Get(SESSION)),
        ],
        [
            put_numbers(NUMBERED, UID, SESSION, TERM, 1, 0),
            put_command(UID, SESSION, Get(SessionId(9))),
        ],
        [
            put_numbers(NUMBERED, UID, SessionId(9), TERM, 1, 0),
            put_command(UID, SESSION, Get(SESSION)),
        ],
        [
            put_numbers(NUMBERED, UID, SESSION, TERM, 1, 0),
            put_command(UID, SESSION, EndProcess(7)),
        ],
    ],
    ids=["nothing", "no command", "number 0", "of another", "for another", "not a session's"],
)
def test_what_no_proxy_says_is_refused(parts: list[bytes]) -> None:
    with pytest.raises(BadItem):
        Leader().hear(*parts)


def test_a_session_that_the_queue_holds_has_its_confirms_and_gets_credit_later() -> None:
    leader = Leader()
    queue = CreditActor("queue", CreditSpec(1, 1))
    leader.publish(1, b"a", 1)
    (stub,) = leader.end.sinks.values()
    stub.credit.send(queue, 1)
    assert leader.kinds() == [CONFIRMS_HELD, APPLIED]
    leader.publish(2, b"b", 2)
    assert leader.kinds() == [CONFIRMS_HELD, APPLIED]
    queue.ack(stub.credit, 1)
    assert leader.kinds() == [RELEASED]
    leader.publish(3, b"c", 3)
    assert leader.kinds() == [CONFIRMS, APPLIED]


def test_a_session_that_begins_again_without_numbers_is_served() -> None:
    """Its queue has no mirrors any more, and its use of it by numbers is over; and the other way
    round."""
    leader = Leader()
    leader.publish(1, b"a", 1)
    leader.commit()
    leader.plain = FakeQueue(UID)
    leader.hear(*put_run(PUBLISH, UID, SESSION, 1, chunk_of([b"b"]), 0, 1))
    assert leader.plain.bodies == [b"b"]
    assert SESSION not in leader.end.sinks
    leader.publish(2, b"c", 2)
    (ended,) = leader.plain.commands
    assert isinstance(ended, EndSession)
    assert leader.kinds() == 2 * [CONFIRMS, APPLIED]
