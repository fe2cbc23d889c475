"""Commands that a leader has taken and not applied yet: its session counts, and sends them again.

The queue has one member: it is led here.
"""

from queues.machine.commands import EndProcess
from queues.remote.quorum_proxy import QuorumProxies, QuorumProxy
from queues.remote.remote_interfaces import Ending
from queues.sessions.credit import CreditSpec
from tests.sim.queues.group_node import UID
from tests.sim.queues.group_session import Session
from tests.unit.queues.fake_sink import FakeSink
from tests.unit.queues.messages import chunk_of
from tests.unit.queues.test_waiting_acknowledgements import Consumed


def connect(queue: Consumed, session: Session) -> None:
    (node,) = queue.world.alive()
    session.disconnect()
    session.connect(node)
    node.run_loop()  # The disk does nothing meanwhile.


def propose(queue: Consumed) -> None:
    """What was handed down is in the log, and not applied."""
    before = queue.last_index
    (node,) = queue.world.alive()
    while queue.last_index == before:
        assert node.runner.step(node.random)
    assert queue.member.applied_index == before


class Proxied:
    """A session, always the same one, and a proxy of the queue on the leader's node."""

    def __init__(self, queue: Consumed) -> None:
        self.queue = queue
        self.sink = FakeSink()
        (self.node,) = queue.world.alive()
        proxies = QuorumProxies(self.node.number, lambda uid: queue.member, lambda node: None, self)
        self.proxy = QuorumProxy(UID, "/", "q", False, CreditSpec(400, 200), proxies)
        proxies.add(self.proxy)
        self.proxy.leader(self.node.number, int(queue.member.term))

    def mark_away(self, ending: Ending) -> None:
        raise AssertionError("nothing is sent to another node")

    def publish(self, body: bytes) -> None:
        self.node.turn.begin()
        self.proxy.publish(self.sink, chunk_of([body], base=3), 1)
        self.queue.rest()


def test_a_command_that_is_sent_again_makes_one_entry() -> None:
    queue = Consumed(published=1, count=1)
    session = queue.session
    before = queue.last_index
    session.publish([b"first"])
    propose(queue)
    connect(queue, session)
    assert session.kept, "the entry is not applied"
    session.publish([b"second"])
    queue.rest()
    assert queue.last_index == before + 2
    assert session.confirmed == 3
    assert not session.kept
    queue.read()
    assert len(session.held) == 3


def test_a_process_is_known_and_can_end_before_its_first_command_is_applied() -> None:
    """Else its consumer would come once no end of the process follows."""
    queue = Consumed(published=1, count=1)
    other = queue.world.new_session()
    connect(queue, other)
    other.attach()
    propose(queue)
    process = int(other.session) >> 64
    assert process in queue.member.processes()
    queue.member.order(EndProcess(process))
    queue.rest()
    assert process not in queue.member.processes()
    assert queue.member.consumer_count == 1, "that of the other session"


def test_a_session_that_begins_again_as_its_last_use_ends_gets_its_answers() -> None:
    """The queue had mirrors before, was a classic one in between, and has mirrors again."""
    queue = Consumed(published=1, count=1)
    used, reused = Proxied(queue), Proxied(queue)
    used.publish(b"before")
    reused.proxy.end_session(reused.sink)
    reused.publish(b"after")  # Waits for the end of the first use.
    assert reused.sink.take() == [("confirms", UID, 1)]
