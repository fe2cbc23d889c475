"""One ring at a time, without faults but those that a test makes."""

from collections import deque
from collections.abc import Sequence

from raft.entries import Config, HardState, SnapshotPoint
from raft.messages import AppendRequest, AppendResponse, Message, SnapshotSlice
from raft.ready import Ready
from raft.recovery import Restored, founded
from raft.ring import Ring
from raft.ring_view import EARLY_MAX, Early, RingView, successor
from raft.settings import Settings
from raft.status import LEADER

SLICES = [b"a" * 100, b"b" * 100, b"c" * 100, b"d" * 100]


class Rings:
    """Members whose disks are fast; `held` members' disks sync nothing; `cut` links lose all."""

    def __init__(self, members: Sequence[int]) -> None:
        self.cores: dict[int, Ring] = {}
        self.sent: list[tuple[int, int, Message]] = []
        self.applied: dict[int, list[bytes]] = {}
        self.held: set[int] = set()
        self.cut: set[tuple[int, int]] = set()
        self._cut_counts: dict[Ring, int] = {}  # of slices, in order, by each process
        self._under_way: deque[tuple[int, int, Message]] = deque()
        self._unsynced: dict[int, list[Ready]] = {}
        self.view = RingView(1, 1, members, [1] * len(members), members)
        self.take(self.view)

    def take(self, view: RingView, *members: int) -> None:
        """All members, or these, learn of a view."""
        self.view = view
        for member in members or view.members:
            core = self.cores.get(member)
            if core is None or core.is_retired or core.joined != view.joined_in(member):
                core = Ring(member, view.joined_in(member), founded(Config(())), Settings())
                self.cores[member] = core
                self.applied[member] = []
                self._unsynced[member] = []
            core.change_view(view)
        self.run()

    def run(self) -> None:
        """Until nothing is under way."""
        moved = True
        while moved:
            moved = False
            for member, core in self.cores.items():
                while core.has_ready:
                    moved = True
                    self._do(member, core, core.ready())
                if member not in self.held:
                    moved = self._sync(member, core) or moved
            while self._under_way:
                moved = True
                source, target, message = self._under_way.popleft()
                if (source, target) not in self.cut and target in self.cores:
                    self.cores[target].step(source, message)

    def _do(self, member: int, core: Ring, ready: Ready) -> None:
        self._say(member, ready.messages)
        self._unsynced[member].append(ready)
        for entry in ready.committed:
            self.applied[member].append(b"".join(entry.parts))
        for load in ready.slice_loads:
            number = load.slice_number
            known = self._cut_counts.get(core, 0)
            if number > known:
                core.slice_lost(load)
                continue
            self._cut_counts[core] = max(known, number + 1)
            core.slice_loaded(load, [SLICES[number]], number == len(SLICES) - 1)
        assert not ready.loads

    def _sync(self, member: int, core: Ring) -> bool:
        batches = self._unsynced[member]
        self._unsynced[member] = []
        for ready in batches:
            self._say(member, ready.messages_after_sync)
            if ready.base is not None:
                core.based(ready.base)
            for piece in ready.slices:
                core.slice_stored(piece)
            if ready.entries:
                core.durable(ready.entries[-1].index, ready.entries[-1].term)
        return len(batches) > 0

    def _say(self, member: int, messages: Sequence[tuple[int, Message]]) -> None:
        for target, message in messages:
            self.sent.append((member, target, message))
            self._under_way.append((member, target, message))

    def tick(self, count: int = 1) -> None:
        for _ in range(count):
            for core in self.cores.values():
                core.tick()
            self.run()

    def publish(self, *contents: bytes) -> None:
        for content in contents:
            assert self.cores[self.view.leader].propose([content]) is not None
        self.run()

    def restart(self, member: int) -> None:
        """Its process, so fast that no member misses it; all that it has is in its snapshot."""
        old = self.cores[member]
        point = old.snapshot_point(old.snapshot_index)
        assert point.index == old.last_index
        hard_state = HardState(old.epoch, old.joined)
        core = Ring(
            member, old.joined, Restored(hard_state, point, point.index, [], []), Settings()
        )
        core.restore_whole()
        core.copy_limit.bytes_per_tick = old.copy_limit.bytes_per_tick
        self.cores[member] = core
        self._unsynced[member] = []
        core.change_view(self.view)
        self.run()

    def snapshot(self, member: int) -> SnapshotPoint:
        core = self.cores[member]
        point = core.snapshot_point(core.snapshot_limit)
        core.snapshot_taken(point)
        self.run()
        return point

    def entry_bytes(self, source: int) -> int:
        """Of all entries that it has sent."""
        return sum(
            int(entry.byte_count)
            for sender, _, message in self.sent
            if sender == source and isinstance(message, AppendRequest)
            for entry in message.entries
        )


def test_an_entry_is_applied_by_all_members() -> None:
    rings = Rings([1, 2, 3])
    rings.publish(b"x", b"y")
    rings.tick(4)
    assert [rings.applied[n][1:] for n in (1, 2, 3)] == [[b"x", b"y"]] * 3
    assert all(core.is_idle for core in rings.cores.values())


def test_the_leader_sends_each_entry_once_however_many_mirrors_there_are() -> None:
    sent = []
    for count in (2, 4, 6):
        rings = Rings(range(1, count + 2))
        rings.publish(*[b"x" * 1000] * 50)
        assert len(rings.applied[1]) == 51
        sent.append(rings.entry_bytes(1))
    assert sent[0] == sent[1] == sent[2]


def test_an_entry_waits_for_the_disk_of_every_member() -> None:
    for slow in (1, 2, 3):
        rings = Rings([1, 2, 3])
        before = rings.cores[1].commit_index
        rings.held = {slow}
        rings.publish(b"x")
        rings.tick(10)
        assert rings.cores[1].commit_index == before
        rings.held = set()
        rings.tick(3)
        assert rings.cores[1].commit_index == before + 1


def test_the_left_neighbour_sees_which_mirror_is_slow() -> None:
    for slow in (2, 3):
        rings = Rings([1, 2, 3])
        rings.held = {slow}
        rings.publish(b"x")
        rings.tick(10)
        behind = [m for m in (1, 2) if rings.cores[m].right_acked_index < rings.cores[m].last_index]
        assert behind == [slow - 1]
        rings.held = set()
        rings.tick(3)
        assert rings.cores[slow - 1].right_acked_index == rings.cores[slow - 1].last_index
        assert rings.cores[3].right_acked_index == -1


def test_a_mirror_that_leaves_is_not_waited_for() -> None:
    rings = Rings([1, 2, 3])
    rings.cut = {(1, 2), (2, 1), (2, 3), (3, 2)}
    rings.publish(b"x")
    rings.tick(10)
    assert rings.applied[1][1:] == []
    rings.take(rings.view.without(2, 2))
    rings.tick(3)
    assert rings.applied[1][1:] == rings.applied[3][1:] == [b"x"]
    assert rings.cores[1].term == 1, "the leader stays, and so do its sessions"


def test_the_left_neighbour_sends_again_what_a_dead_member_had() -> None:
    rings = Rings([1, 2, 3, 4])
    rings.cut = {(3, 4)}
    rings.publish(b"x")
    assert rings.cores[3].last_index == 2 and rings.cores[4].last_index == 1
    rings.take(rings.view.without(3, 2), 1, 2, 4)
    assert rings.applied[1][1:] == [b"x"]


def test_the_oldest_synchronised_mirror_leads_and_keeps_what_it_has() -> None:
    rings = Rings([1, 2, 3])
    rings.cut = {(2, 3), (3, 1)}
    rings.publish(b"x")
    assert successor(rings.view, [1], False) == 2
    rings.cut = set()
    del rings.cores[1]
    rings.take(rings.view.led_by(2, [1], 2))
    assert rings.cores[2].role == LEADER
    rings.publish(b"y")
    rings.tick(4)
    assert rings.applied[2] == rings.applied[3]
    assert [content for content in rings.applied[3] if content] == [b"x", b"y"]


def test_an_old_leader_confirms_nothing_and_its_entries_are_replaced() -> None:
    rings = Rings([1, 2, 3])
    rings.cut = {(1, 2)}
    rings.publish(b"old")
    rings.cut = set()
    rings.take(rings.view.led_by(2, [], 2), 2, 3)
    rings.tick(10)
    assert rings.cores[1].role == LEADER, "it has not heard of the view"
    assert rings.applied[1][1:] == []
    rings.publish(b"new")
    rings.take(rings.view, 1)
    rings.tick(5)
    assert [content for content in rings.applied[1] if content] == [b"new"]
    assert rings.cores[1].role != LEADER


def joined(rings: Rings) -> None:
    """Member 3 joins after a few messages, and takes part."""
    rings.publish(b"x", b"y")
    rings.take(rings.view.with_mirror(3, 2))
    rings.tick(3)


def test_a_new_mirror_takes_part_at_once_and_is_synchronised_by_a_snapshot() -> None:
    rings = Rings([1, 2])
    joined(rings)
    assert rings.cores[3].is_hollow and rings.cores[1].next_partial == 3
    rings.publish(b"z")
    assert rings.applied[1][-1] == b"z"
    assert rings.cores[3].last_index == rings.cores[1].last_index
    assert rings.cores[2].wanted_snapshot_index > 0
    rings.snapshot(2)
    rings.tick(3)
    assert not rings.cores[3].is_hollow
    assert rings.cores[1].next_synchronised == 3
    slices = [source for source, _, message in rings.sent if isinstance(message, SnapshotSlice)]
    assert set(slices) == {2}, "the left neighbour sends it, not the leader"


def test_a_mirror_is_not_synchronised_while_committed_entries_are_on_their_way() -> None:
    rings = Rings([1, 2])
    rings.publish(b"x", b"y")
    rings.cut = {(2, 3)}
    view = rings.view.with_mirror(3, 2)
    rings.take(view)
    leader = rings.cores[1]
    needed_index = leader.commit_index
    leader.step(3, AppendResponse(view.epoch, True, needed_index - 1, 0))
    assert leader.next_synchronised == 0, "it has a snapshot, and not all behind it"
    leader.step(3, AppendResponse(view.epoch, True, needed_index, 0))
    assert leader.next_synchronised == 3


def test_what_a_leader_had_before_it_restarted_counts_as_committed_for_a_new_mirror() -> None:
    """It cannot know which of its entries are: a mirror without one of them could lead next."""
    rings = Rings([1])
    rings.publish(b"x", b"y")
    last_index = int(rings.cores[1].last_index)
    point = SnapshotPoint(0, 0, 0, Config(()))
    restored = Restored(HardState(1, 1), point, last_index, [(1, 1, 1)], [])
    leader = rings.cores[1] = Ring(1, 1, restored, Settings())
    leader.restore_whole()
    view = rings.view.led_by(1, [], 2).with_mirror(2, 3)
    rings.cut = {(1, 2)}
    rings.take(view)
    assert leader.role == LEADER and leader.commit_index == 0
    first_index = last_index + 1  # of its new term
    leader.step(2, AppendResponse(view.epoch, True, first_index - 1, 0))
    assert leader.next_synchronised == 0
    leader.step(2, AppendResponse(view.epoch, True, first_index, 0))
    assert leader.next_synchronised == 2


def test_synchronisation_can_be_cancelled_and_begun_again() -> None:
    rings = Rings([1, 2])
    rings.cores[2].synchronise(False)
    joined(rings)
    rings.publish(b"z")
    rings.snapshot(2)
    rings.tick(20)
    assert rings.cores[3].is_hollow
    rings.cores[2].synchronise(True)
    rings.tick(3)
    assert not rings.cores[3].is_hollow


def test_a_ring_rests_while_a_mirror_is_left_unsynchronised() -> None:
    rings = Rings([1, 2])
    rings.cores[2].synchronise(False)
    joined(rings)
    rings.publish(b"z")
    rings.tick(3)
    assert not rings.cores[3].is_idle, "the leader has to have it declared partial"
    rings.take(rings.view.with_partial(3, 3))
    rings.tick(5)
    assert all(core.is_idle for core in rings.cores.values())
    sent = len(rings.sent)
    rings.cores[3].tick()
    rings.run()
    assert len(rings.sent) == sent
    rings.publish(b"last")
    rings.tick(5)
    assert rings.applied[1][-1] == b"last"


def test_the_throughput_of_a_synchronisation_is_limited() -> None:
    rings = Rings([1, 2])
    rings.cores[2].copy_limit.bytes_per_tick = 25
    joined(rings)
    rings.publish(b"z")
    rings.snapshot(2)
    ticks = 0
    while rings.cores[3].is_hollow:
        rings.tick()
        ticks += 1
        assert ticks < 50
    assert ticks >= 8, "400 bytes, of which the last 100 need not be waited for, at 25 a tick"


def test_a_synchronisation_survives_a_restart_of_the_left_neighbour() -> None:
    rings = Rings([1, 2])
    rings.cores[2].copy_limit.bytes_per_tick = 25
    joined(rings)
    rings.publish(b"z")
    rings.tick(3)  # All know that it is committed.
    rings.snapshot(2)
    rings.tick(10)
    assert rings.cores[3].is_hollow
    assert rings.cores[2].copied_slices[0] == 3
    rings.restart(2)
    rings.tick(100)
    assert not rings.cores[3].is_hollow


def test_a_limit_of_throughput_is_used_up() -> None:
    rings = Rings([1, 2])
    rings.cores[2].copy_limit.bytes_per_tick = 250
    joined(rings)
    rings.publish(b"z")
    rings.snapshot(2)
    ticks = 0
    while rings.cores[3].is_hollow:
        rings.tick()
        ticks += 1
        assert ticks < 2, "400 bytes, in slices of 100"


def test_the_blocking_form_takes_no_proposals_until_all_are_synchronised() -> None:
    rings = Rings([1, 2])
    rings.cores[1].blocks = True
    joined(rings)
    assert rings.cores[1].propose([b"z"]) is None
    assert rings.cores[1].is_blocked
    rings.snapshot(2)
    rings.tick(3)
    rings.take(rings.view.with_synchronised(rings.cores[1].next_synchronised, 3))
    rings.publish(b"z")


def test_a_mirror_that_joins_again_begins_empty() -> None:
    rings = Rings([1, 2])
    rings.publish(b"x")
    rings.take(rings.view.without(2, 2), 1)
    old = rings.cores[2]
    again = rings.view.with_mirror(2, 3)
    old.change_view(again)
    assert old.is_retired
    rings.take(again)
    assert rings.cores[2] is not old and rings.cores[2].is_hollow


def test_without_a_synchronised_mirror_the_policy_decides() -> None:
    view = RingView(5, 1, [1, 2, 3, 4], [1, 2, 3, 4], [1], [3, 4])
    assert successor(view, [1], promotes_always=False) == 0
    assert successor(view, [1], promotes_always=True) == 3, "2 has nothing at all"
    lossy = view.led_by(3, [1], 6)
    assert lossy == RingView(6, 6, [3, 2, 4], [3, 6, 6], [3], [3])


def test_a_promoted_mirror_says_what_it_lacks() -> None:
    rings = Rings([1, 2])
    rings.cores[2].synchronise(False)
    joined(rings)
    rings.publish(b"z")
    base = rings.cores[3].base_index
    rings.take(rings.view.with_partial(3, 3))
    del rings.cores[1], rings.cores[2]
    view = RingView(4, 1, [1, 3], [1, 2], [1], [3])
    rings.take(view.led_by(successor(view, [1], True), [1], 5))
    assert rings.cores[3].role == LEADER and rings.cores[3].lost_index == base
    assert rings.applied[3][-2:] == [b"z", b""], "what came since then is kept"
    assert base > 0


def test_a_leader_that_restarts_needs_a_new_term() -> None:
    rings = Rings([1])
    core = rings.cores[1]
    rings.publish(b"x")
    restored = founded(Config(()))
    restored.hard_state.term = core.epoch
    restored.hard_state.vote = core.joined
    again = Ring(1, 1, restored, Settings())
    again.change_view(rings.view)
    assert again.needs_term and again.role != LEADER
    again.change_view(rings.view.led_by(1, [], 2))
    assert not again.needs_term


def test_members_that_learn_of_a_view_later_than_others_hold_up_nothing() -> None:
    rings = Rings([1, 2, 3])
    rings.publish(b"x")
    view = RingView(2, 1, [1, 2, 3], [1, 1, 1], [1, 2, 3])
    for member, content in ((1, b"y"), (2, b"z"), (3, b"w")):
        rings.take(view, member)
        rings.publish(content)
    assert rings.applied[1][1:] == [b"x", b"y", b"z", b"w"]


def test_a_first_message_of_a_view_that_is_lost_is_sent_again_at_the_next_tick() -> None:
    rings = Rings([1, 2])
    rings.cut = {(1, 2)}
    rings.take(RingView(2, 1, [1, 2], [1, 1], [1, 2]))
    rings.publish(b"x")
    rings.cut = set()
    rings.tick()
    assert rings.applied[1][1:] == [b"x"]


def test_only_messages_of_newer_views_are_kept_and_only_some() -> None:
    early = Early()
    answers = [AppendResponse(epoch, True, epoch, 0) for epoch in range(2, 2 * EARLY_MAX)]
    for answer in answers:
        early.keep(2, answer, 2)
    assert [message.term for _, message in early.take(EARLY_MAX)] == [EARLY_MAX]
    assert early.take(2) == []
    assert [message.term for _, message in early.take(2 * EARLY_MAX - 1)] == [2 * EARLY_MAX - 1]
    assert early.take(EARLY_MAX + 1) == []
