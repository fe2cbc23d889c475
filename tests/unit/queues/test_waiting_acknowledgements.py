"""Acknowledgements of a quorum queue wait for a publish if no message waits for a consumer."""

from collections.abc import Callable

from queues.hosts.quorum_member import SETTLE_WAIT_MS, SETTLES_WAIT_MAX, QuorumMember
from queues.machine.commands import ACCEPT, REJECT
from tests.sim.queues.group_session import CREDIT, Session
from tests.sim.queues.group_world import GroupWorld

STEPS_MAX = 10_000


class Consumed:
    """A queue of one member with a consumer, which has `count` messages of `published`."""

    def __init__(self, published: int, count: int) -> None:
        self.world = GroupWorld(0, 1)
        self.world.is_calm = True
        self.world.run_until("a leader", self.world.has_leader)
        self.rest()
        self.session = self.world.new_session()
        (node,) = self.world.alive()
        self.session.connect(node)
        self.rest()
        self.session.attach()
        self.publish(published)
        self.read()
        assert len(self.session.held) == count

    @property
    def member(self) -> QuorumMember:
        node = self.world.find_leader()
        assert node is not None
        assert node.member is not None
        return node.member

    @property
    def last_index(self) -> int:
        status = self.member.status()
        assert status is not None
        return status.last_index

    def rest(self) -> None:
        """All that was begun is done."""
        (node,) = self.world.alive()
        for _ in range(STEPS_MAX):
            if not node.runner.step(node.random):
                return
        raise AssertionError("the node does not come to rest")

    def publish(self, count: int) -> None:
        first = len(self.session.published)
        self.session.publish([b"%d" % (first + place) for place in range(count)])
        self.rest()

    def read(self) -> None:
        face = self.session.face
        assert face is not None
        face.read_some()
        self.rest()

    def entries_of(self, what: Callable[[Session], None]) -> int:
        """How many entries that makes at once."""
        before = self.member.applied_index
        what(self.session)
        self.rest()
        return self.member.applied_index - before

    def pass_ms(self, ms: int) -> None:
        self.world.now_ms += ms
        for node in self.world.alive():
            node.pass_time()
        self.rest()


def accept_one(session: Session) -> None:
    session.settle([min(session.held)], ACCEPT)


def reject_one(session: Session) -> None:
    session.settle([min(session.held)], REJECT)


def test_an_acknowledgement_alone_makes_no_entry() -> None:
    queue = Consumed(published=3, count=3)
    assert queue.entries_of(accept_one) == 0
    assert queue.member.checked_out_count == 3
    assert queue.entries_of(lambda session: session.publish([b"next"])) == 1
    assert queue.member.checked_out_count == 3, "two of before, and the next one"


def test_it_waits_for_a_bounded_time() -> None:
    queue = Consumed(published=3, count=3)
    queue.entries_of(accept_one)
    queue.pass_ms(SETTLE_WAIT_MS - 1)
    assert queue.member.checked_out_count == 3
    queue.pass_ms(1)
    assert queue.member.checked_out_count == 2
    assert queue.entries_of(accept_one) == 0, "the next ones wait as long"
    queue.pass_ms(SETTLE_WAIT_MS)
    assert queue.member.checked_out_count == 1


def test_it_waits_no_longer_if_the_queue_is_woken_for_something_else_in_between() -> None:
    queue = Consumed(published=3, count=3)
    (node,) = queue.world.alive()
    node.wake_host(queue.member, int(queue.world.now_ms) + SETTLE_WAIT_MS // 2)
    queue.entries_of(accept_one)
    queue.pass_ms(SETTLE_WAIT_MS // 2)
    assert queue.member.checked_out_count == 3
    queue.pass_ms(SETTLE_WAIT_MS // 2)
    assert queue.member.checked_out_count == 2


def test_it_waits_no_longer_when_the_node_stops() -> None:
    queue = Consumed(published=3, count=3)
    queue.entries_of(accept_one)
    assert queue.member.end_wait()
    queue.rest()
    assert queue.member.checked_out_count == 2
    assert not queue.member.end_wait()


def test_it_does_not_wait_while_messages_do() -> None:
    queue = Consumed(published=CREDIT + 1, count=CREDIT)
    assert queue.entries_of(accept_one) == 1
    assert queue.member.ready_count == 0


def test_it_waits_no_longer_once_a_message_waits() -> None:
    queue = Consumed(published=CREDIT, count=CREDIT)
    session = queue.session
    before = queue.last_index
    session.publish([b"another"])
    (node,) = queue.world.alive()
    while queue.last_index == before:  # The publish is on its way to the log.
        assert node.runner.step(node.random)
    accept_one(session)
    queue.rest()
    assert queue.member.ready_count == 0, "its credit is back"
    assert queue.member.checked_out_count == CREDIT


def test_other_outcomes_do_not_wait_and_take_those_along_that_do() -> None:
    queue = Consumed(published=3, count=3)
    queue.entries_of(accept_one)
    assert queue.entries_of(reject_one) == 1
    assert queue.member.checked_out_count == 1


def test_only_so_many_wait() -> None:
    queue = Consumed(published=1, count=1)

    def accept_often(session: Session) -> None:
        for _ in range(SETTLES_WAIT_MAX - 1):
            session.settle([], ACCEPT)

    assert queue.entries_of(accept_often) == 0
    assert queue.entries_of(accept_one) == 1
