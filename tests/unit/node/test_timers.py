"""One timer of the loop for all queue hosts: who is woken, when, how many at once."""

from collections.abc import Callable

import pytest

from node.timers import SWEEP_MIN, WAKES_MAX, Timers
from tests.unit.reachable import held


class FakeHandle:
    def __init__(self, due_ms: float, callback: Callable[[], None]) -> None:
        self.due_ms = due_ms
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class FakeLoop:
    """Time passes when the test says so; what is due then runs, a new call after the old ones."""

    def __init__(self) -> None:
        self.now_ms = 1000
        self.handles: list[FakeHandle] = []
        self.turns = 0
        self.timers = Timers(self.call_later, lambda: self.now_ms, self.begin_turn)

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> FakeHandle:
        assert delay_s >= 0
        handle = FakeHandle(self.now_ms + delay_s * 1000, callback)
        self.handles.append(handle)
        return handle

    def begin_turn(self) -> None:
        self.turns += 1

    def waiting(self) -> list[FakeHandle]:
        return [handle for handle in self.handles if not handle.cancelled]

    def fire(self) -> None:
        """One round of what is due."""
        due = [each for each in self.waiting() if each.due_ms <= self.now_ms + 0.001]
        self.handles = [each for each in self.handles if each not in due]
        for handle in due:
            handle.callback()


class Host:
    def __init__(self, loop: FakeLoop) -> None:
        self._loop = loop
        self.woken_ms: list[int] = []
        self.again_ms: list[int] = []  # what it asks for when it is woken
        self.is_gone = False

    def on_timer(self) -> None:
        self.woken_ms.append(self._loop.now_ms)
        if self.again_ms:
            self._loop.timers.wake(self, self.again_ms.pop(0))


def test_nobody_is_woken_before_the_time_and_everybody_once() -> None:
    loop = FakeLoop()
    hosts = [Host(loop) for _ in range(3)]
    for host, due_ms in zip(hosts, (1300, 1100, 1200), strict=True):
        loop.timers.wake(host, due_ms)
    for now_ms in (1099, 1100, 1250, 1299, 1300, 2000):
        loop.now_ms = now_ms
        loop.fire()
    assert [host.woken_ms for host in hosts] == [[1300], [1100], [1250]]
    assert loop.waiting() == []


def test_there_is_one_timer_of_the_loop_and_it_is_for_the_earliest() -> None:
    loop = FakeLoop()
    for due_ms in (1500, 1200, 1800, 1100):
        loop.timers.wake(Host(loop), due_ms)
        assert len(loop.waiting()) == 1
    assert [handle.due_ms for handle in loop.waiting()] == [1100]


def test_a_timer_of_the_loop_that_fires_early_wakes_nobody_and_is_set_again() -> None:
    """The node's clock may be slower than that of the loop."""
    loop = FakeLoop()
    host = Host(loop)
    loop.timers.wake(host, 1100)
    (handle,) = loop.handles
    loop.handles.clear()
    loop.now_ms = 1099
    handle.callback()
    assert host.woken_ms == []
    assert [each.due_ms for each in loop.waiting()] == [1100]


def test_a_clock_that_was_advanced_wakes_what_is_due_by_it() -> None:
    loop = FakeLoop()
    host = Host(loop)
    loop.timers.clock_advanced()
    assert loop.waiting() == []
    loop.timers.wake(host, 3_601_000)
    loop.now_ms += 3_600_000
    loop.timers.clock_advanced()
    assert [each.due_ms for each in loop.waiting()] == [loop.now_ms]
    loop.fire()
    assert host.woken_ms == [3_601_000]


def test_what_is_due_already_is_woken_in_a_call_of_its_own() -> None:
    loop = FakeLoop()
    host = Host(loop)
    loop.timers.wake(host, 500)
    assert host.woken_ms == []
    loop.fire()
    assert (host.woken_ms, loop.turns) == ([1000], 1)


def test_a_host_that_asks_again_when_it_is_woken_is_woken_again() -> None:
    loop = FakeLoop()
    host = Host(loop)
    host.again_ms = [1200, 1150]
    loop.timers.wake(host, 1100)
    for now_ms in (1100, 1150, 1200):
        loop.now_ms = now_ms
        loop.fire()
    assert host.woken_ms == [1100, 1200, 1200]


def test_many_with_the_same_time_are_spread() -> None:
    loop = FakeLoop()
    hosts = [Host(loop) for _ in range(WAKES_MAX + 1)]
    for host in hosts:
        loop.timers.wake(host, 1000)
    loop.fire()
    assert sum(len(host.woken_ms) for host in hosts) == WAKES_MAX
    loop.fire()
    assert all(host.woken_ms == [1000] for host in hosts)


def test_hosts_that_are_gone_are_swept_out_and_the_others_stay() -> None:
    loop = FakeLoop()
    stays = Host(loop)
    loop.timers.wake(stays, 5000)
    for _ in range(3 * SWEEP_MIN):
        host = Host(loop)
        host.is_gone = True
        loop.timers.wake(host, 4000)
    assert len(held(loop.timers, Host)) <= SWEEP_MIN
    loop.now_ms = 5000
    loop.fire()
    loop.fire()
    assert stays.woken_ms == [5000]


def test_many_that_are_not_gone_are_all_kept() -> None:
    loop = FakeLoop()
    hosts = [Host(loop) for _ in range(2 * SWEEP_MIN)]
    for place, host in enumerate(hosts):
        loop.timers.wake(host, 9000 - place)
    loop.now_ms = 9000
    for _ in range(2 * SWEEP_MIN // WAKES_MAX):
        loop.fire()
    assert all(host.woken_ms == [9000] for host in hosts)


def test_a_host_that_asks_for_earlier_times_again_and_again_takes_one_place() -> None:
    loop = FakeLoop()
    host = Host(loop)
    far = 1 << 40
    for _ in range(3 * SWEEP_MIN):  # One message lives long, others short: as a queue would.
        loop.timers.wake(host, far)
        loop.timers.wake(host, loop.now_ms + 4)
        loop.now_ms += 4
        loop.fire()
    assert len(host.woken_ms) == 3 * SWEEP_MIN
    assert len(held(loop.timers, tuple)) <= SWEEP_MIN


def test_a_later_time_that_was_asked_for_first_wakes_nobody() -> None:
    loop = FakeLoop()
    host = Host(loop)
    loop.timers.wake(host, 1300)
    loop.timers.wake(host, 1100)
    loop.timers.wake(host, 1200)
    for now_ms in (1100, 1200, 1300):
        loop.now_ms = now_ms
        loop.fire()
    assert host.woken_ms == [1100]


def test_host_that_fails_when_it_is_woken_holds_up_no_other() -> None:
    class Failing(Host):
        def on_timer(self) -> None:
            raise RuntimeError("broken")

    loop = FakeLoop()
    failing, other, later = Failing(loop), Host(loop), Host(loop)
    for host, due_ms in ((failing, 1100), (other, 1101), (later, 1200)):
        loop.timers.wake(host, due_ms)
    loop.now_ms = 1150
    with pytest.raises(RuntimeError, match="broken"):
        loop.fire()
    loop.fire()
    assert other.woken_ms == [1150]
    loop.now_ms = 1200
    loop.fire()
    assert later.woken_ms == [1200]
