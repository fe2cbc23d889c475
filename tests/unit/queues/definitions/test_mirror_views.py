"""The next view of a mirrored queue, and the command that makes it the present one."""

from queues.definitions.broker_objects import MirrorView, Queue, Uid
from queues.definitions.metadata import commands
from queues.definitions.metadata.machine import Metadata
from queues.definitions.metadata.outcomes import Created, Exists, Replaced
from queues.definitions.mirror_policy import Wanted
from queues.definitions.mirror_views import LeaderReport, next_view
from raft.ring_view import RingView
from tests.unit.queues.definitions.test_cluster import founded

VIEW = RingView(5, 2, [1, 2, 3], [1, 2, 4], [1, 3], [2])
SAME = Wanted(1, (2, 3))


def test_nothing_changes_while_all_is_as_the_policy_wants() -> None:
    assert next_view(VIEW, (), SAME, True, LeaderReport()) is None
    assert next_view(VIEW, (), SAME, True, None) is None


def test_a_mirror_whose_node_is_down_leaves_and_joins_again_empty() -> None:
    without = next_view(VIEW, [3], SAME, True, LeaderReport())
    assert without == RingView(6, 2, [1, 2], [1, 2], [1], [2])
    assert next_view(without, [3], SAME, True, None) is None
    again = next_view(without, [], SAME, True, None)
    assert again == RingView(7, 2, [1, 2, 3], [1, 2, 7], [1], [2])


def test_the_oldest_synchronised_mirror_takes_over() -> None:
    assert next_view(VIEW, [1], SAME, False, None) == RingView(6, 6, [3, 2], [4, 2], [3], [2])


def test_without_a_synchronised_mirror_the_queue_is_down_or_one_that_takes_part_leads() -> None:
    view = RingView(5, 2, [1, 2, 3], [1, 2, 4], [1], [3])
    assert next_view(view, [1], SAME, False, None) is None
    assert next_view(view, [1], SAME, True, None) == RingView(6, 6, [3, 2], [4, 6], [3], [3])
    assert next_view(view, [1, 3], SAME, True, None) is None, "2 has nothing"


def test_the_leader_has_mirrors_declared_synchronised() -> None:
    found = next_view(VIEW, (), SAME, True, LeaderReport(synchronised=2))
    assert found == RingView(6, 2, [1, 2, 3], [1, 2, 4], [1, 3, 2])
    assert next_view(VIEW, (), SAME, True, LeaderReport(synchronised=3)) is None
    assert next_view(VIEW, (), SAME, True, LeaderReport(partial=2)) is None


def test_a_leader_that_restarted_gets_a_new_term() -> None:
    found = next_view(VIEW, (), SAME, True, LeaderReport(needs_term=True))
    assert found == RingView(6, 6, [1, 2, 3], [1, 2, 4], [1, 3], [2])


def test_new_mirrors_come_before_others_leave_and_the_leader_goes_last() -> None:
    view = RingView(5, 2, [1, 2], [1, 2], [1, 2])
    wanted = Wanted(1, (3,))
    joined = next_view(view, (), wanted, True, None)
    assert joined is not None and joined.members == (1, 2, 3)
    left = next_view(joined, (), wanted, True, None)
    assert left is not None and left.members == (1, 3)
    moved = Wanted(3, ())
    assert next_view(left, (), moved, True, None) is None, "3 is not synchronised"
    ready = next_view(left, (), moved, True, LeaderReport(synchronised=3))
    assert ready is not None
    led = next_view(ready, (), moved, True, LeaderReport())
    assert led is not None and (led.leader, led.term) == (3, led.epoch)
    alone = next_view(led, (), moved, True, None)
    assert alone is not None and alone.members == (3,)
    assert next_view(alone, (), moved, True, None) is None


# The command


def test_a_view_follows_the_one_that_its_proposer_saw() -> None:
    steps = founded()
    uid = steps.queue("q", durable=True).uid
    first = MirrorView(1, 1, (1, 2), (1, 1), (1, 2))
    for early in (MirrorView(0), MirrorView(2, 1, (1,), (1,), (1,))):
        assert "another request" in steps.refused(commands.SetMirrorView(uid, early))[1]
    outcome = steps.do(commands.SetMirrorView(uid, first))
    assert isinstance(outcome, Created) and isinstance(outcome.changes[0], Replaced)
    assert isinstance(steps.do(commands.SetMirrorView(uid, first)), Exists), "sent twice"
    other = MirrorView(1, 1, (2, 1), (1, 1), (1, 2))
    assert "another request" in steps.refused(commands.SetMirrorView(uid, other))[1]
    second = MirrorView(2, 2, (2,), (1,), (2,))
    steps.do(commands.SetMirrorView(uid, second))
    steps.do(commands.SetMirrorView(uid, MirrorView(3)))
    found = steps.vhost.queues["q"]
    assert found.mirrors == MirrorView(3), "plain again, and the epoch stays"
    assert Metadata.restore(steps.machine.snapshot()).queue(uid) == found


def test_a_queue_goes_with_the_last_node_that_had_it() -> None:
    steps = founded()
    for name, members in (("lost", (2,)), ("kept", (2, 1))):
        uid = steps.queue(name, durable=True).uid
        first = MirrorView(1, 1, members[:1], (1,), members[:1])
        steps.do(commands.SetMirrorView(uid, first))
        if len(members) > 1:
            both = MirrorView(2, 1, members, (1, 2), members)
            steps.do(commands.SetMirrorView(uid, both))
    steps.do(commands.RemoveMember(2))
    steps.do(commands.DeleteByNode("n2", 10))
    assert set(steps.vhost.queues) == {"kept"}


def test_a_view_that_cannot_be_is_refused() -> None:
    steps = founded()
    uid = steps.queue("q", durable=True).uid
    for wrong in (
        MirrorView(1, 1, (1, 9), (1, 1), (1,)),
        MirrorView(1, 1, (1, 1), (1, 1), (1,)),
        MirrorView(1, 1, (1, 2), (1,), (1,)),
        MirrorView(1, 1, (1, 2), (1, 2), (1,)),
        MirrorView(1, 1, (1, 2), (1, 1), (2,)),
        MirrorView(1, 1, (1,), (1,), (1, 2)),
        MirrorView(1, 1, (1,), (1,), (1,), (2,)),
        MirrorView(1, 2, (1,), (1,), (1,)),
        MirrorView(1, 0, (1,), (1,), (1,)),
    ):
        assert "view 1 of queue 'q'" in steps.refused(commands.SetMirrorView(uid, wrong))[1]
    assert steps.refused(commands.SetMirrorView(Uid(uid + 1), MirrorView(1)))[0] == 404
    assert steps.vhost.queues["q"].mirrors is None


def test_only_classic_queues_that_are_not_exclusive_have_mirrors() -> None:
    steps = founded()
    steps.do(commands.DeclareQueue("/", "quorum", True, members=(1, 2)))
    steps.do(commands.DeclareQueue("/", "own", exclusive_owner="c"))
    for name in ("quorum", "own"):
        queue: Queue = steps.vhost.queues[name]
        view = MirrorView(1, 1, (1,), (1,), (1,))
        assert "cannot have" in steps.refused(commands.SetMirrorView(queue.uid, view))[1]
