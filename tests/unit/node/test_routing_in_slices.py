"""Publishes that take long to route: several turns, in the order in which they came."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.amqp091.channel import COMMIT_TRIES, Channel091
from node.amqp091.channel_owner import Owner
from node.amqp091.plans import Parted
from node.connections.hand_over import start_hand_over
from node.oversized import OversizedHeaders
from queues.hosts.host_interfaces import Steppable
from queues.machine.commands import EndSession, SessionId
from queues.routing.pace import ROUTE_MS_MAX, RoutingPace
from queues.sessions.counts import Counts
from queues.sessions.credit import CreditSpec
from queues.sessions.publishing import Held, Publisher
from tests.unit.node.test_publish_plans import Room
from tests.unit.queues.fake_queue import FakeQueue
from tests.unit.wire.frames import message, messages_of, opened
from warren.wire.amqp091 import methods
from warren.wire.amqp091.deliver import extract
from warren.wire.amqp091.events import Called, Publishes, Settles
from warren.wire.amqp091.properties import BasicProperties
from warren.wire.errors import ProtocolError

STEP_S = 0.0011
KEYS_A_TURN = int(ROUTE_MS_MAX / 1000 / STEP_S) + 1
QUEUES = [f"q{number}" for number in range(40)]


class Harness:
    """A channel above a clock that goes on by STEP_S whenever it is looked at."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.pace = RoutingPace(self._clock_s)
        self.room = Room(*QUEUES, pace=self.pace)
        self.name = "client"
        self.counts = Counts()
        self.later: list[Steppable] = []
        self.connection = opened(1)
        self.held = Held()
        self.channel = Channel091(cast(Owner, self), self.connection, 1, SessionId(9), self.held)

    def spend(self, seconds: float) -> None:
        """Others route for so long in this turn."""
        self.pace.begin()
        self.now_s += seconds
        self.pace.end()

    def _clock_s(self) -> float:
        self.now_s += STEP_S
        return self.now_s

    def credit_spec(self) -> CreditSpec:
        return CreditSpec(400, 200)

    def quorum_global_qos(self) -> bool:
        return False

    @property
    def sent_clock(self) -> None:
        return None

    @property
    def oversized(self) -> OversizedHeaders:
        return OversizedHeaders(lambda: 0)

    def plan_cache(self) -> Any:
        return self.room.cache

    def part(self, event: Publishes) -> Parted:
        return self.room.cache.part(event)

    def count_published(self, channel: Channel091, count: int) -> None:
        return

    def begin(self) -> None:
        return

    def hand_over(self, publisher: Publisher, done: Callable[[], None]) -> None:
        start_hand_over(publisher, self, done)

    def mark(self) -> None:
        return

    def mark_channel(self, channel: Channel091) -> None:
        return

    def between_steps(self, call: Callable[[], None]) -> None:
        call()

    def step_later(self, work: Steppable) -> None:
        assert work not in self.later
        self.later.append(work)

    mark_host_later = step_later

    def dispatch(self, channel: Channel091, event: Publishes | Settles | Called) -> None:
        channel.handle(event)

    def write(self, *messages: bytes) -> None:
        """All in one write."""
        for event in self.connection.receive(b"".join(messages), 0):
            assert isinstance(event, Publishes)
            self.channel.handle(event)

    def turn(self) -> None:
        self.pace.begin_turn()
        later, self.later = self.later, []
        for work in later:
            work.step(0)

    def turns(self) -> int:
        """How many turns it takes until nothing waits."""
        count = 1
        while self.later:
            self.turn()
            count += 1
        return count

    def got(self) -> list[bytes]:
        return [body for queue in self.room.queues.values() for body in bodies(queue)]


def bodies(queue: FakeQueue) -> list[bytes]:
    return [extract(each, 0, len(each))[3] for each in queue.bodies]


def to_all(body: bytes) -> bytes:
    properties = BasicProperties(headers={"CC": QUEUES[1:]})
    return message(1, body, QUEUES[0].encode(), properties)


def with_slices_of(count: int) -> Harness:
    harness = Harness()
    hand_overs = harness.pace.hand_overs
    hand_overs.queues_a_turn = hand_overs.left = count
    hand_overs.narrow = hand_overs.least = 1
    return harness


def test_a_message_for_many_queues_is_handed_over_in_several_turns_before_what_follows() -> None:
    harness = with_slices_of(7)
    harness.write(to_all(b"1"), to_all(b"2"), message(1, b"3", QUEUES[-1].encode()))
    counts = [len(harness.got())]
    while harness.later:
        harness.turn()
        counts.append(len(harness.got()))
    assert counts[-1] == 2 * len(QUEUES) + 1
    assert counts[0] == 2 * 7  # Both messages travel together.
    assert all(after - before <= 2 * 7 for before, after in pairwise(counts))
    for name in QUEUES:
        last = [b"3"] if name == QUEUES[-1] else []
        assert bodies(harness.room.queues[harness.room.uids[name]]) == [b"1", b"2", *last]


def test_a_channel_that_ends_leaves_its_queues_when_all_have_its_messages() -> None:
    harness = with_slices_of(7)
    harness.write(to_all(b"1"))
    while not harness.got():  # It is being routed.
        harness.turn()
    assert len(harness.got()) < len(QUEUES)
    harness.channel.end()
    harness.turns()
    for queue in harness.room.queues.values():
        assert bodies(queue) == [b"1"]
        (end,) = queue.commands
        assert isinstance(end, EndSession) and end.session == harness.channel.session
    assert harness.held.in_flight_bytes == 0


def test_many_new_keys_of_one_write_are_routed_in_several_turns_in_order() -> None:
    harness = Harness()
    everything = [
        message(1, b"%d" % (100 * turn + number), name.encode())
        for turn in range(2)
        for number, name in enumerate(QUEUES)
    ]
    harness.write(*everything[:60])
    assert len(harness.got()) == KEYS_A_TURN
    harness.write(*everything[60:])  # They wait behind the others.
    assert len(harness.got()) == KEYS_A_TURN
    assert harness.held.waiting_bytes > 0
    assert harness.turns() == 4
    for number, name in enumerate(QUEUES):
        queue = harness.room.queues[harness.room.uids[name]]
        assert bodies(queue) == [b"%d" % number, b"%d" % (100 + number)]
    assert harness.held.waiting_bytes == 0


def test_keys_that_have_a_plan_never_wait() -> None:
    harness = Harness()
    everything = [message(1, b"x", name.encode()) for name in QUEUES]
    harness.write(*everything)
    harness.turns()
    harness.spend(1.0)
    harness.write(*everything)
    assert len(harness.got()) == 2 * len(QUEUES)


def test_a_channel_routes_one_key_in_a_turn_whose_time_others_have_spent() -> None:
    harness = Harness()
    harness.spend(1.0)
    harness.write(message(1, b"a", b"q1"), message(1, b"b", b"q2"))
    for expected in ([b"a"], [b"a", b"b"]):
        assert len(harness.later) == 1
        harness.later.clear()
        harness.channel.step(0)
        assert harness.got() == expected


def test_messages_that_need_a_look_are_looked_at_in_several_turns() -> None:
    harness = Harness()
    count = 3 * KEYS_A_TURN
    expiring = BasicProperties(expiration="60000")
    harness.write(*(message(1, b"%d" % number, b"q1", expiring) for number in range(count)))
    assert 0 < len(harness.got()) <= KEYS_A_TURN
    assert 2 < harness.turns() < 6
    assert harness.got() == [b"%d" % number for number in range(count)]


def committing(harness: Harness) -> None:
    """Begin a commit of one message for each queue, whose routes are not known."""
    harness.channel.handle(Called(1, methods.TxSelect()))
    harness.write(*(message(1, b"x", name.encode()) for name in QUEUES))
    harness.turns()
    harness.room.steps.queue("another")  # No plan holds any more.
    harness.pace.begin_turn()
    harness.channel.handle(Called(1, methods.TxCommit()))


def test_commit_is_routed_in_several_turns_and_handed_down_in_one() -> None:
    harness = Harness()
    committing(harness)
    harness.write(message(1, b"next", b"q1"))  # It waits for the commit, and is kept for another.
    handed_down = []
    while harness.later:
        handed_down.append(len(harness.got()))
        harness.turn()
    assert handed_down == [0] * 3
    assert harness.got() == [b"x"] * len(QUEUES)
    assert harness.held.transaction_bytes == 0


def test_commit_whose_definitions_change_all_the_time_ends() -> None:
    harness = Harness()
    committing(harness)
    count = 1
    while harness.later:
        assert harness.got() == []
        harness.room.steps.queue(f"another {count}")
        harness.turn()
        count += 1
    assert harness.got() == [b"x"] * len(QUEUES)
    assert COMMIT_TRIES < count <= COMMIT_TRIES * len(QUEUES) // KEYS_A_TURN + 2


def test_refusal_in_a_sliced_commit_publishes_nothing() -> None:
    harness = Harness()
    harness.channel.handle(Called(1, methods.TxSelect()))
    harness.write(*(message(1, b"x", name.encode()) for name in QUEUES))
    harness.turns()
    harness.room.access.permitted.clear()
    harness.room.access.version += 1
    harness.room.steps.queue("another")
    harness.pace.begin_turn()
    with pytest.raises(ProtocolError):
        harness.channel.handle(Called(1, methods.TxCommit()))
    assert harness.got() == []


@given(st.lists(st.sampled_from([b"a", b"b", b"c"]), min_size=2, max_size=9), st.data())
def test_a_run_that_is_split_has_the_same_messages(keys: list[bytes], data: st.DataObject) -> None:
    everything = [message(1, b"%d" % number, key) for number, key in enumerate(keys)]
    [event] = opened(1).receive(b"".join(everything), 0)
    assert isinstance(event, Publishes)
    index = data.draw(st.integers(1, len(keys) - 1))
    head, rest = event.split(index)
    assert (head.count, rest.count) == (index, len(keys) - index)
    assert messages_of(head) + messages_of(rest) == messages_of(event)


def test_one_message_with_many_keys_is_routed_in_several_turns() -> None:
    harness = Harness()
    harness.room.steps.exchange("many", "topic")
    harness.room.steps.bind("many", "q1", b"#.999")
    harness.room.cache.refresh()
    headers: dict[str, object] = {"CC": [f"a.{number}" for number in range(1000)]}
    copied = message(1, b"first", b"a", BasicProperties(headers=headers), exchange="many")
    harness.write(copied, message(1, b"second", b"q1"))
    assert harness.got() == []
    assert harness.turns() == 4  # of 10 slices with 32 keys
    queue = harness.room.queues[harness.room.uids["q1"]]
    assert bodies(queue) == [b"first", b"second"]


def test_a_transaction_keeps_a_message_with_many_keys() -> None:
    harness = Harness()
    harness.room.steps.exchange("many", "topic")
    harness.room.steps.bind("many", "q1", b"#.999")
    harness.room.cache.refresh()
    headers: dict[str, object] = {"CC": [f"a.{number}" for number in range(1000)]}
    harness.channel.handle(Called(1, methods.TxSelect()))
    harness.write(message(1, b"first", b"a", BasicProperties(headers=headers), exchange="many"))
    assert harness.turns() > 1
    assert harness.got() == []
