"""A mirror ring of one member becomes a classic queue, once the log says what is dead."""

from collections.abc import Callable
from typing import cast

from queues.hosts.classic import ClassicHost
from queues.hosts.disbanding import Disbanding
from queues.hosts.queue_core import DEFAULT, QueueCore
from queues.hosts.quorum_member import QuorumMember
from queues.machine.commands import Enqueue, SessionId
from queues.sessions.credit import CreditActor, CreditSpec
from tests.unit.queues.fake_node import FakeNode

FIRST_SEQ = 10


class AppliedMember:
    """A member of a ring that has applied everything."""

    def __init__(self, node: FakeNode) -> None:
        credit = CreditActor("q5", CreditSpec(400, 200))
        arguments = node.journal, node.budget, node, credit, False, None, DEFAULT, True
        self.core = QueueCore(5, "/", "q5", True, *arguments)

    def retire(self) -> bool:
        return True


def test_snapshots_go_when_the_log_says_durably_what_is_dead() -> None:
    node = FakeNode()
    story: list[str] = []

    def forget(done: Callable[[], None]) -> None:
        story.append("forget")
        done()

    def done(host: ClassicHost) -> None:
        story.append("done")

    member = cast(QuorumMember, AppliedMember(node))
    Disbanding(member, FIRST_SEQ, node, forget, done).begin()
    for _ in range(3):
        node.turn()
    assert ("settle", 5, [(1, FIRST_SEQ - 1)]) in node.log.records
    assert story == [], "a crash now finds neither the ring nor what is dead of it"
    node.sync()
    assert story == ["forget", "done"]


def test_messages_that_a_member_took_since_it_leads_again_alone_keep_their_numbers() -> None:
    """After a restart it leads in the term of the view without mirrors, and sessions find it."""
    node = FakeNode()
    member = AppliedMember(node)
    machine = member.core.machine
    machine.next_seq = FIRST_SEQ
    machine.apply([Enqueue(SessionId(1), 1, 2)], 0)
    hosts: list[ClassicHost] = []
    Disbanding(
        cast(QuorumMember, member), FIRST_SEQ, node, lambda done: done(), hosts.append
    ).begin()
    for _ in range(3):
        node.turn()
    node.sync()
    (host,) = hosts
    machine.apply([Enqueue(SessionId(1), 3, 1)], 0)
    assert (host.core.machine.ready.count, machine.next_seq) == (3, FIRST_SEQ + 3)
