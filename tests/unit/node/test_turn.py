"""The turn of the loop: what is stepped when, and when it ends early."""

from collections.abc import Callable

from node.turn import GROUP_ROUNDS_MAX, STEPS_MAX, Turn
from tests.unit.queues.fake_node import FakeNode


class Loop:
    """Callbacks that the turn has asked for."""

    def __init__(self) -> None:
        self.callbacks: list[Callable[[], None]] = []
        self.failures: list[Exception] = []
        self.now_s = 50.0
        self.turn = Turn(self.callbacks.append, self.failures.append, lambda: self.now_s)
        self.turn.journal = FakeNode().journal
        self.turn.now_ms = lambda: 1000

    def run(self) -> int:
        """Run what is there now; return how many callbacks that were."""
        callbacks, self.callbacks[:] = list(self.callbacks), []
        for callback in callbacks:
            callback()
        for failure in self.failures:
            raise failure
        return len(callbacks)


class Host:
    """Marks itself again `again` times."""

    def __init__(self, loop: Loop, again: int = 0, later: bool = False) -> None:
        self.loop = loop
        self.again = again
        self.later = later
        self.steps = 0

    def step(self, now_ms: int) -> None:
        self.steps += 1
        if self.steps <= self.again:
            mark = self.loop.turn.mark_host_later if self.later else self.loop.turn.mark_host
            mark(self)


def test_a_marked_host_is_stepped_once_at_the_end_of_the_turn() -> None:
    loop = Loop()
    host = Host(loop)
    loop.turn.mark_host(host)
    assert host.steps == 0
    assert loop.run() == 1
    assert (host.steps, loop.run()) == (1, 0)


def test_hosts_that_mark_each_other_for_ever_do_not_hold_the_loop() -> None:
    loop = Loop()
    host = Host(loop, again=1_000)
    loop.turn.mark_host(host)
    loop.run()
    assert host.steps <= 2 * STEPS_MAX
    assert len(loop.callbacks) == 1  # The rest goes on in the next turn.


def test_what_is_marked_for_later_belongs_to_the_next_turn() -> None:
    loop = Loop()
    host = Host(loop, again=2, later=True)
    loop.turn.mark_host(host)
    assert [(loop.run(), host.steps) for _ in range(3)] == [(1, 1), (1, 2), (1, 3)]
    assert loop.run() == 0


def test_what_is_marked_for_later_while_no_turn_is_under_way_begins_one() -> None:
    loop = Loop()
    host = Host(loop)
    loop.turn.mark_host_later(host)
    for _ in range(2):
        loop.run()
    assert host.steps == 1


def test_a_host_that_asks_twice_for_the_next_turn_is_stepped_once_in_it() -> None:
    """As a queue does that has more to expire and more to dead-letter."""
    loop = Loop()

    class Eager(Host):
        def step(self, now_ms: int) -> None:
            self.steps += 1
            for _ in range(2):
                loop.turn.mark_host_later(self)

    host = Eager(loop)
    loop.turn.mark_host(host)
    for _ in range(10):
        loop.run()
    assert host.steps == 10


def test_a_turn_that_reads_for_long_ends_in_the_midst_of_it() -> None:
    loop = Loop()
    host = Host(loop)
    loop.turn.mark_host(host)
    loop.now_s += 0.0039
    loop.turn.end_if_long()
    assert host.steps == 0
    loop.now_s += 0.0002
    loop.turn.end_if_long()
    assert host.steps == 1
    assert loop.turn.count == 1
    loop.run()  # The callback that would have ended it finds nothing, and counts nothing.
    assert loop.turn.count == 1


def test_a_failure_in_a_turn_is_told_and_not_raised_into_the_loop() -> None:
    loop = Loop()

    class Wrong:
        def step(self, now_ms: int) -> None:
            raise ValueError("wrong")

    loop.turn.mark_host(Wrong())
    callback = loop.callbacks.pop()
    callback()
    assert [str(failure) for failure in loop.failures] == ["wrong"]


def test_what_a_step_leads_to_waits_until_no_host_is_in_the_midst_of_one() -> None:
    loop = Loop()
    turn = loop.turn
    story: list[str] = []

    class Asking(Host):
        def step(self, now_ms: int) -> None:
            super().step(now_ms)
            turn.between_steps(publish)

    def publish() -> None:
        story.append(f"other stepped {other.steps} times")
        turn.mark_host(other)

    asking, other = Asking(loop), Host(loop)
    turn.mark_host(asking)
    turn.mark_host(other)
    loop.run()
    assert story == ["other stepped 1 times"]
    assert other.steps == 2
    turn.between_steps(lambda: story.append("at once"))
    assert story[-1] == "at once"


# Log groups, and what goes to other nodes


class Away:
    """Keeps `queues.remote.remote_interfaces.Ending`."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self.tell = tell

    def end_turn(self) -> None:
        self.tell()


class Groups:
    """Keeps `node.turn.Groups`: `work` is what their turn brings about, each once."""

    def __init__(self, loop: Loop, *work: Callable[[], None]) -> None:
        self.loop = loop
        self.work = list(work)
        self.turns = 0
        loop.turn.groups = self
        self.waits_for = 1 << 60  # nothing of theirs waits for a sync before this place in the log

    def on_durable(self, lsn: int) -> None:
        if lsn >= self.waits_for:
            self.loop.turn.begin_groups()

    def end_turn(self) -> None:
        self.turns += 1
        if self.work:
            self.work.pop(0)()


def test_groups_are_worked_only_when_they_have_asked() -> None:
    loop = Loop()
    groups = Groups(loop)
    loop.turn.begin()
    loop.run()
    assert groups.turns == 0
    loop.turn.begin_groups()
    assert (loop.run(), groups.turns) == (1, 1)
    assert loop.run() == 0


def test_what_groups_apply_is_stepped_and_sent_in_the_same_turn() -> None:
    loop = Loop()
    story: list[str] = []

    class Told(Host):
        def step(self, now_ms: int) -> None:
            story.append("stepped")

        def flush(self) -> None:
            story.append("flushed")

    host = Told(loop)

    def apply() -> None:
        story.append("applied")
        loop.turn.mark_host(host)
        loop.turn.mark_endpoint(host)

    Groups(loop, apply)
    loop.turn.away = Away(lambda: story.append("away"))
    loop.turn.begin_groups()
    loop.run()
    assert story == ["applied", "stepped", "flushed", "away"]
    assert loop.run() == 0


def test_what_has_more_to_write_is_flushed_behind_what_is_new() -> None:
    loop = Loop()
    story: list[str] = []

    class Reader:
        def flush(self) -> None:
            story.append("reader")
            if len(story) < 6:
                loop.turn.mark_endpoint(self)

    class Publisher:
        def flush(self) -> None:
            story.append("confirmed")

    loop.turn.mark_endpoint(Reader())
    loop.run()
    assert story[0] == "reader"
    story.clear()
    for _ in range(2):
        loop.turn.mark_endpoint(Publisher())
        loop.turn.run()
    assert story == ["confirmed", "reader"] * 2
    loop.run()
    assert story[4:] == ["reader"] * 2


def test_what_is_stepped_first_may_be_proposed_in_the_same_turn() -> None:
    loop = Loop()

    class Proposing(Host):
        def step(self, now_ms: int) -> None:
            super().step(now_ms)
            self.loop.turn.begin_groups()

    groups = Groups(loop)
    host = Proposing(loop)
    loop.turn.mark_host(host)
    loop.run()
    assert (host.steps, groups.turns) == (1, 1)


def test_groups_that_ask_for_ever_do_not_hold_the_loop() -> None:
    loop = Loop()
    turn = loop.turn
    groups = Groups(loop, *[turn.begin_groups] * 1000)
    turn.begin_groups()
    assert (loop.run(), groups.turns) == (1, GROUP_ROUNDS_MAX)
    assert (loop.run(), groups.turns) == (1, 2 * GROUP_ROUNDS_MAX)


def test_what_sending_away_brings_about_begins_another_turn() -> None:
    loop = Loop()
    host = Host(loop)
    calls: list[int] = []

    def send() -> None:
        calls.append(host.steps)
        if len(calls) == 1:
            loop.turn.mark_host(host)

    loop.turn.away = Away(send)
    loop.turn.begin()
    loop.run()
    assert (calls, host.steps) == ([0], 0)
    loop.run()
    assert calls == [0, 1]
    assert loop.run() == 0


def test_a_sync_that_something_waits_for_ends_its_turn_without_the_loop() -> None:
    loop = Loop()
    groups = Groups(loop)
    groups.waits_for = 10
    loop.turn.on_durable(10)
    assert (groups.turns, loop.turn.count, loop.callbacks) == (1, 1, [])


def test_a_sync_that_nothing_waits_for_costs_no_turn() -> None:
    loop = Loop()
    groups = Groups(loop)
    groups.waits_for = 10
    loop.turn.on_durable(9)
    assert (groups.turns, loop.turn.count, loop.callbacks) == (0, 0, [])
    loop.turn.begin()
    assert loop.run() == 1  # What is begun behind it asks the loop again.
    assert loop.turn.count == 1


def test_a_sync_ends_the_turn_that_a_read_has_begun() -> None:
    loop = Loop()
    Groups(loop)
    host = Host(loop)
    loop.turn.mark_host(host)
    loop.turn.on_durable(9)
    assert host.steps == 1
    loop.run()
    assert loop.turn.count == 1


def test_a_fault_behind_a_sync_is_reported() -> None:
    loop = Loop()
    groups = Groups(loop)

    def fail(lsn: int) -> None:
        raise ValueError(lsn)

    groups.on_durable = fail  # type: ignore[method-assign]
    loop.turn.on_durable(7)
    assert [str(each) for each in loop.failures] == ["7"]


def test_connections_to_other_nodes_write_once_at_the_end_of_the_turn() -> None:
    loop = Loop()
    story: list[str] = []
    socket = Away(lambda: story.append("written"))
    assert not loop.turn.mark_peer(socket)  # No turn is under way: write now.
    loop.turn.away = Away(lambda: story.append("others asked"))
    loop.turn.begin()
    assert loop.turn.mark_peer(socket)
    assert story == []
    loop.run()
    assert story == ["others asked", "written"]
    loop.turn.begin()
    loop.run()
    assert story == ["others asked", "written", "others asked"]
