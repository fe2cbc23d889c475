"""Consumers on nodes that cannot be reached wait, and go on when they can, whichever member leads
then.
"""

import pytest

from node.cluster.queues.suspending import ENDED_MS, LedQueue, Suspending
from queues.machine.commands import (
    Attach,
    Command,
    EndProcess,
    EndSession,
    Enqueue,
    Get,
    Numbered,
    SessionId,
    consumer_key,
)
from queues.machine.effects import Delivers, Effect
from queues.machine.fifo import Fifo

NEAR = 7  # the process that publishes
FAR = 8  # the one with the consumers
PATIENCE_MS = 5000
NOW_MS = 1000
PUBLISHER = SessionId(NEAR << 64 | 1)


def patience_ms(queue: LedQueue, has_ended: bool) -> int:
    return ENDED_MS if has_ended else PATIENCE_MS


class Queue:
    """The machine of a queue, which all members have the same, and its log."""

    def __init__(self) -> None:
        self.machine = Fifo()
        self.machine.begin_streams()
        self.leader = ""
        self.proposed: list[Command] = []
        self._numbers: dict[SessionId, int] = {}

    def commit(self) -> list[Effect]:
        """What was proposed is applied, by all."""
        commands, self.proposed = self.proposed, []
        return self.machine.apply(commands, NOW_MS)

    def give(self, session: SessionId, command: Command) -> list[Effect]:
        number = self._numbers[session] = self._numbers.get(session, 0) + 1
        self.proposed.append(Numbered(session, number, 0, command))
        return self.commit()

    def consume(self, session: SessionId) -> list[Effect]:
        return self.give(session, Attach(consumer_key(session, 1), 100, True, False, 0))


class End:
    """Its member on one node (`node.cluster.queues.suspending.LedQueue`)."""

    def __init__(self, name: str, queue: Queue) -> None:
        self.name = name
        self._queue = queue

    @property
    def is_leading(self) -> bool:
        return self._queue.leader == self.name

    def processes(self) -> set[int]:
        streams = self._queue.machine.streams
        assert streams is not None
        return {session >> 64 for session in streams.by_session}

    def suspended(self) -> set[int]:
        streams = self._queue.machine.streams
        assert streams is not None
        return set(streams.suspended)

    def order(self, command: Command) -> bool:
        assert self.is_leading
        self._queue.proposed.append(command)
        return True


class World:
    """Two nodes with a member each, and a consumer on a third one."""

    def __init__(self) -> None:
        self.queue = Queue()
        self.known = {NEAR, FAR}
        self.ends = {name: End(name, self.queue) for name in ("one", "two")}
        self.nodes = {
            name: Suspending([{1: end}], self.known.__contains__, patience_ms)
            for name, end in self.ends.items()
        }
        self.published = 0
        self.lead("one")
        self.queue.consume(SessionId(FAR << 64 | 1))

    def lead(self, name: str) -> None:
        """That node leads; what was proposed before and is not committed is lost."""
        self.queue.proposed.clear()
        self.queue.leader = name
        if name:
            self.nodes[name].led(self.ends[name])

    def delivered(self) -> int:
        """How many consumers get the next message, after what is under way."""
        effects = self.queue.commit()
        self.published += 1
        effects += self.queue.give(PUBLISHER, Enqueue(PUBLISHER, self.published, 1))
        return sum(isinstance(effect, Delivers) for effect in effects)


def test_consumers_of_a_node_that_cannot_be_reached_wait_until_it_can() -> None:
    world = World()
    world.nodes["one"].reach({FAR}, set())
    assert world.delivered() == 0
    world.nodes["one"].reach(set(), set())
    assert world.delivered() == 2


@pytest.mark.parametrize(
    ("ended", "after_ms"), [(set[int](), PATIENCE_MS), ({FAR}, ENDED_MS)], ids=["silent", "ended"]
)
def test_what_consumers_hold_that_cannot_be_reached_for_too_long_is_returned(
    ended: set[int], after_ms: int
) -> None:
    world = World()
    assert world.delivered() == 1
    assert world.queue.machine.checked_out == 1
    world.nodes["one"].reach({FAR}, ended)
    world.queue.commit()
    for now_ms, held in ((NOW_MS + after_ms - 1, 1), (NOW_MS + after_ms, 0)):
        world.queue.machine.apply([], now_ms)
        assert world.queue.machine.checked_out == held


def test_a_process_that_connects_again_in_time_keeps_its_messages() -> None:
    world = World()
    assert world.delivered() == 1
    world.nodes["one"].reach({FAR}, {FAR})
    world.queue.commit()
    world.nodes["one"].reach(set(), set())
    world.queue.commit()
    world.queue.machine.apply([], NOW_MS + PATIENCE_MS)
    assert world.queue.machine.checked_out == 1


@pytest.mark.parametrize(("is_told", "held"), [(True, 1), (False, 0)], ids=["told", "not told"])
def test_what_a_process_gets_that_can_be_reached_again_is_kept_if_the_queue_is_told_before(
    is_told: bool, held: int
) -> None:
    world = World()
    world.nodes["one"].reach({FAR}, set())
    assert world.delivered() == 0
    if is_told:
        world.nodes["one"].reach(set(), set())
    session = SessionId(FAR << 64 | 2)
    world.queue.give(session, Get(session))
    assert world.queue.machine.checked_out == 1
    world.queue.machine.apply([], NOW_MS + PATIENCE_MS)
    assert world.queue.machine.checked_out == held


def test_a_new_leader_requeues_messages_of_a_process_whose_connection_has_ended() -> None:
    world = World()
    assert world.delivered() == 1
    world.nodes["two"].reach({FAR}, {FAR})
    world.lead("two")
    world.queue.commit()
    world.queue.machine.apply([], NOW_MS + ENDED_MS)
    assert world.queue.machine.checked_out == 0


def test_a_node_that_came_back_while_nobody_led_is_served_by_who_leads_next() -> None:
    for successor in ("two", "one"):
        world = World()
        world.nodes["one"].reach({FAR}, set())
        assert world.delivered() == 0
        world.lead("")
        world.nodes["one"].reach(set(), set())
        world.lead(successor)
        assert world.delivered() == 2, successor


def test_a_word_of_its_return_that_was_lost_with_the_leader_is_said_again() -> None:
    world = World()
    world.nodes["one"].reach({FAR}, set())
    assert world.delivered() == 0
    world.nodes["one"].reach(set(), set())
    world.lead("two")
    assert world.delivered() == 2


def test_a_node_that_comes_back_before_its_suspension_is_committed_is_not_suspended() -> None:
    world = World()
    world.nodes["one"].reach({FAR}, set())
    world.nodes["one"].reach(set(), set())
    assert world.delivered() == 1


def test_a_node_whose_sessions_have_all_ended_meanwhile_is_served_when_it_is_back() -> None:
    world = World()
    world.nodes["one"].reach({FAR}, set())
    world.queue.commit()
    session = SessionId(FAR << 64 | 1)
    world.queue.give(session, EndSession(session))
    world.nodes["one"].reach(set(), set())
    world.queue.commit()
    world.queue.consume(SessionId(FAR << 64 | 2))
    assert world.delivered() == 1


def test_a_new_leader_suspends_whom_it_cannot_reach_itself() -> None:
    world = World()
    world.nodes["two"].reach({FAR}, set())
    assert world.delivered() == 1
    world.lead("two")
    assert world.delivered() == 0


def test_a_new_leader_ends_processes_that_are_gone_suspended_or_not() -> None:
    for suspends in (False, True):
        world = World()
        if suspends:
            world.nodes["one"].reach({FAR}, set())
            world.queue.commit()
        world.known.remove(FAR)
        world.lead("two")
        world.queue.commit()
        assert FAR not in world.ends["two"].processes() | world.ends["two"].suspended()


@pytest.mark.parametrize("is_given_up", [False, True])
def test_a_process_that_was_given_up_has_failed_no_delivery(is_given_up: bool) -> None:
    world = World()
    world.nodes["one"].ended(FAR, is_given_up)
    assert [each.is_cut_off for each in orders(world)] == [is_given_up]
    world.nodes["two"].ended(FAR, is_given_up)
    world.known.remove(FAR)
    world.lead("two")  # What the old leader ordered is lost.
    assert [each.is_cut_off for each in orders(world)] == [is_given_up]


def orders(world: World) -> list[EndProcess]:
    return [each for each in world.queue.proposed if isinstance(each, EndProcess)]


def test_a_process_that_has_ended_is_ended_where_it_is_known_and_led() -> None:
    world = World()
    world.nodes["one"].ended(FAR)
    world.nodes["two"].ended(FAR)
    world.queue.commit()
    assert FAR not in world.ends["one"].processes()
    world.nodes["one"].ended(99)
    assert not world.queue.proposed


def test_nothing_is_ordered_where_nothing_has_changed() -> None:
    world = World()
    world.nodes["one"].reach({FAR}, set())
    world.queue.commit()
    world.nodes["one"].reach({FAR}, set())
    world.lead("one")
    world.nodes["two"].reach({FAR}, set())
    world.nodes["two"].reach(set(), set())
    assert not world.queue.proposed
