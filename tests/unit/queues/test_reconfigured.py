"""Queues whose rules change while they hold messages: limits on bytes, dead letters, logs."""

import pytest

from queues.hosts.queue_core import DEFAULT, LAZY
from queues.hosts.size_recount import join_runs
from queues.machine.commands import ACCEPT, REJECT, Attach, Detach, Purge, consumer_key
from queues.machine.options import REJECT_PUBLISH, Options
from queues.message import FORMAT_091, Chunk
from tests.unit.queues.classic_harness import Harness
from tests.unit.queues.fake_grave import FakeGrave
from tests.unit.queues.messages import table
from warren.wire.amqp091.deliver import build
from warren.wire.amqp091.events import INFO_PERSISTENT


class Grave(FakeGrave):
    """Tells whether it was closed."""

    closed = 0

    def close(self) -> None:
        self.closed += 1


def stored(bodies: list[bytes]) -> Chunk:
    """Messages as they come from a client."""
    parts = [build("", b"key", b"\x00\x00", body) for body in bodies]
    return Chunk(FORMAT_091, b"".join(parts), 0, table(parts, 0), INFO_PERSISTENT)


def give(harness: Harness, bodies: list[bytes]) -> None:
    harness.host.publish(harness.sink, stored(bodies), harness.next_seq)
    harness.next_seq += len(bodies)


def ready(harness: Harness) -> list[int]:
    host = harness.host
    return [
        seq for first, count in host.core.live_ranges(1, 999) for seq in range(first, first + count)
    ]


def test_a_limit_on_bytes_counts_the_bodies_that_are_there_already() -> None:
    harness = Harness()
    give(harness, [bytes(100), bytes(100)])
    harness.turn()
    give(harness, [bytes(300)])
    harness.turn()
    harness.host.configure(Options(bytes_max=400), DEFAULT, None)
    harness.turn()
    assert ready(harness) == [2, 3]
    assert harness.host.core.machine.notes.ready_bytes == 400
    give(harness, [bytes(10)])
    harness.turn()
    assert ready(harness) == [3, 4]


def test_messages_that_were_handed_down_in_the_same_turn_count_too() -> None:
    harness = Harness()
    give(harness, [bytes(100)])
    give(harness, [bytes(30)])
    harness.host.configure(Options(bytes_max=140), DEFAULT, None)
    give(harness, [bytes(50)])
    harness.turn()
    assert ready(harness) == [2, 3]
    assert harness.host.core.machine.notes.ready_bytes == 80


def test_bodies_that_are_on_disk_count_as_large_as_they_are_stored() -> None:
    harness = Harness(budget_bytes=0)
    give(harness, [bytes(1000)])
    harness.turn()
    harness.sync()
    harness.host.configure(Options(bytes_max=2000), DEFAULT, None)
    harness.turn()
    assert 1000 < harness.host.core.machine.notes.ready_bytes < 1100


def test_a_limit_on_bytes_that_goes_and_comes_again_begins_anew() -> None:
    harness = Harness()
    for bytes_max in (500, -1, 500):
        harness.host.configure(Options(bytes_max=bytes_max), DEFAULT, None)
        give(harness, [bytes(100)])
        harness.turn()
    harness.settle(1, ACCEPT, [])
    harness.host.command(harness.sink, Purge(harness.sink.session))
    harness.turn()
    assert harness.host.core.machine.notes.ready_bytes == 0


def test_what_a_full_queue_does_may_change() -> None:
    harness = Harness()
    harness.host.configure(Options(length_max=1, overflow=REJECT_PUBLISH), LAZY, None)
    give(harness, [b"a", b"b"])
    told = harness.turn()
    assert ("refused", 5, 2, 1) in told
    assert harness.host.core.mode == LAZY


def test_dead_letters_go_where_the_rules_say_now() -> None:
    harness = Harness()
    first, second = Grave(), Grave()
    harness.host.configure(Options(), DEFAULT, first)
    harness.attach(1, 10)
    give(harness, [b"a", b"b", b"c"])
    harness.turn()
    harness.settle(1, REJECT, [(1, 1)])
    harness.turn()
    harness.host.configure(Options(), DEFAULT, second)
    harness.settle(1, REJECT, [(2, 1)])
    harness.turn()
    harness.host.configure(Options(), DEFAULT, None)
    harness.settle(1, REJECT, [(3, 1)])
    harness.turn()
    assert [len(each.dead) for each in (first, second)] == [1, 1]
    assert [first.closed, second.closed] == [1, 1]
    assert ready(harness) == []


def test_what_waits_to_be_buried_still_is_when_the_rule_is_taken_away() -> None:
    harness = Harness(budget_bytes=0)
    grave = Grave()
    harness.host.configure(Options(), DEFAULT, grave)
    give(harness, [b"a"])
    harness.turn()
    harness.sync()
    harness.attach(1, 1)
    harness.turn()
    harness.settle(1, REJECT, [(1, 1)])
    harness.turn()
    assert harness.host.core.is_dead_lettering
    harness.host.configure(Options(), DEFAULT, None)
    assert grave.closed == 0
    harness.node.answer_loads()
    harness.turn()
    assert [len(grave.dead), grave.closed] == [1, 1]
    assert harness.host.core.dead_letter_publisher is None and ready(harness) == []


@pytest.mark.parametrize(
    ("runs", "joined"),
    [
        ([], []),
        ([(1, 2, 5), (3, 1, 5)], [(1, 3, 5)]),
        ([(1, 2, 5), (4, 1, 5)], [(1, 2, 5), (4, 1, 5)]),
        ([(1, 2, 5), (3, 1, 6)], [(1, 2, 5), (3, 1, 6)]),
    ],
)
def test_runs_of_the_same_weight_are_joined(
    runs: list[tuple[int, int, int]], joined: list[tuple[int, int, int]]
) -> None:
    assert join_runs(runs) == joined


def test_queue_counts_bytes_while_a_consumer_has_a_window_whatever_policies_say() -> None:
    harness = Harness()
    give(harness, [bytes(30), bytes(30)])
    harness.turn()
    key = consumer_key(harness.sink.session, 1)
    harness.host.command(harness.sink, Attach(key, 9, True, False, 0, -1, 50))
    give(harness, [bytes(40), bytes(40)])  # in the same batch
    harness.turn()
    harness.turn()
    machine = harness.host.core.machine
    assert harness.host.checked_out_count == 2
    harness.settle(1, ACCEPT, [(1, 2)])
    harness.turn()
    assert harness.host.checked_out_count == 2
    assert machine.notes.bytes_of(3, 2) == 80
    harness.host.configure(Options(length_max=100), DEFAULT, None)
    harness.turn()
    assert machine.options.counts_bytes
    assert machine.options.length_max == 100
    harness.host.command(harness.sink, Detach(key))
    harness.turn()
    harness.host.configure(Options(), DEFAULT, None)
    harness.turn()
    assert not machine.options.counts_bytes
