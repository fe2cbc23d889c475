"""Requests of operators as sessions of queues: a message for very many queues in several turns."""

import asyncio
from itertools import pairwise

from node.operations.operator_session import OperatorSession
from queues.machine.commands import SessionId
from queues.message import FORMAT_091, Chunk
from queues.routing.pace import RoutingPace
from queues.sessions.publishing import QUEUES_A_TURN
from tests.unit.queues.fake_queue import FakeQueue
from tests.unit.queues.messages import table
from tests.unit.wire.frames import message


class Turns:
    """Ends a turn as the node does: behind the callbacks that are ready. The queues that got a
    message in it confirm then."""

    def __init__(self, session: OperatorSession, queues: list[FakeQueue]) -> None:
        self.routing = RoutingPace(lambda: 0.0)
        self.counts: list[int] = [0]
        self._session = session
        self._queues = queues

    def begin(self) -> None:
        asyncio.get_running_loop().call_soon(self._end)

    def _end(self) -> None:
        before = self.counts[-1]
        self.counts.append(sum(len(queue.bodies) for queue in self._queues))
        for queue in self._queues[before : self.counts[-1]]:
            self._session.on_confirms(queue.uid, 1)
        self.routing.begin_turn()


def publish(count: int) -> tuple[bool, list[FakeQueue], list[int]]:
    """Whether all took it, the queues, and how many had it after each turn."""

    session = OperatorSession(SessionId(9))
    queues = [FakeQueue(uid) for uid in range(1, count + 1)]
    turns = Turns(session, queues)
    body = message(1, b"a")
    chunk = Chunk(FORMAT_091, body, 0, table([body], 0), 1)
    return asyncio.run(session.publish(queues, chunk, turns)), queues, turns.counts


def test_a_message_for_very_many_queues_is_handed_over_in_several_turns() -> None:
    taken, queues, counts = publish(3500)
    assert taken
    assert counts[-1] == 3500
    assert max(after - before for before, after in pairwise(counts)) <= QUEUES_A_TURN
    assert len(counts) == 5
    assert len({id(queue.chunks[0]) for queue in queues}) == 4  # One for the queues of each turn.


def test_a_message_for_few_queues_is_handed_over_at_once() -> None:
    taken, queues, counts = publish(3)
    assert taken and counts == [0, 3]
    assert len({id(queue.chunks[0]) for queue in queues}) == 1
