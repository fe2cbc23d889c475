"""Publishes that take long to route: several turns, in the order in which they came."""

from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.amqp091.channel import COMMIT_TRIES, Channel091
from node.amqp091.channel_owner import Owner, Parted
from node.auth.permissions import PermissionCache
from node.oversized import OversizedHeaders
from queues.machine.commands import SessionId
from queues.routing.pace import ROUTE_MS_MAX, RoutingPace
from queues.sessions.counts import Counts
from queues.sessions.credit import CreditSpec
from queues.sessions.publishing import Held
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


class Desk:
    """A channel above a clock that goes on by STEP_S whenever it is looked at."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.pace = RoutingPace(self._clock_s)
        self.room = Room(*QUEUES, pace=self.pace)
        self.name = "client"
        self.counts = Counts()
        self.later: list[Channel091] = []
        self.connection = opened(1)
        self.held = Held()
        self.channel = Channel091(cast(Owner, self), self.connection, 1, SessionId(9), self.held)

    def _clock_s(self) -> float:
        self.now_s += STEP_S
        return self.now_s

    def credit_spec(self) -> CreditSpec:
        return CreditSpec(400, 200)

    def quorum_global_qos(self) -> bool:
        return False

    @property
    def oversized(self) -> OversizedHeaders:
        return OversizedHeaders(lambda: 0)

    def plan_cache(self) -> Any:
        return self.room.cache

    def part(self, event: Publishes) -> Parted:
        return self.room.cache.part(event)

    def count_published(self, channel: Channel091, count: int) -> None:
        return

    def mark(self) -> None:
        return

    def mark_channel(self, channel: Channel091) -> None:
        return

    def between_steps(self, call: Callable[[], None]) -> None:
        call()

    def step_later(self, channel: Channel091) -> None:
        assert channel not in self.later
        self.later.append(channel)

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
        for channel in later:
            channel.step(0)

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


def test_many_new_keys_of_one_write_are_routed_in_several_turns_in_order() -> None:
    desk = Desk()
    everything = [
        message(1, b"%d" % (100 * turn + number), name.encode())
        for turn in range(2)
        for number, name in enumerate(QUEUES)
    ]
    desk.write(*everything[:60])
    assert len(desk.got()) == KEYS_A_TURN
    desk.write(*everything[60:])  # They wait behind the others.
    assert len(desk.got()) == KEYS_A_TURN
    assert desk.held.waiting_bytes > 0
    assert desk.turns() == 4
    for number, name in enumerate(QUEUES):
        queue = desk.room.queues[desk.room.uids[name]]
        assert bodies(queue) == [b"%d" % number, b"%d" % (100 + number)]
    assert desk.held.waiting_bytes == 0


def test_keys_that_have_a_plan_never_wait() -> None:
    desk = Desk()
    everything = [message(1, b"x", name.encode()) for name in QUEUES]
    desk.write(*everything)
    desk.turns()
    desk.pace._spent_s = 1.0
    desk.write(*everything)
    assert len(desk.got()) == 2 * len(QUEUES)


def test_a_channel_routes_one_key_in_a_turn_whose_time_others_have_spent() -> None:
    desk = Desk()
    desk.pace._spent_s = 1.0
    desk.write(message(1, b"a", b"q1"), message(1, b"b", b"q2"))
    for expected in ([b"a"], [b"a", b"b"]):
        assert len(desk.later) == 1
        desk.later.clear()
        desk.channel.step(0)
        assert desk.got() == expected


def test_messages_that_need_a_look_are_looked_at_in_several_turns() -> None:
    desk = Desk()
    count = 3 * KEYS_A_TURN
    expiring = BasicProperties(expiration="60000")
    desk.write(*(message(1, b"%d" % number, b"q1", expiring) for number in range(count)))
    assert 0 < len(desk.got()) <= KEYS_A_TURN
    assert 2 < desk.turns() < 6
    assert desk.got() == [b"%d" % number for number in range(count)]


def committing(desk: Desk) -> None:
    """Begin a commit of one message for each queue, whose routes are not known."""
    desk.channel._select_transactions()
    desk.write(*(message(1, b"x", name.encode()) for name in QUEUES))
    desk.turns()
    desk.room.steps.queue("another")  # No plan holds any more.
    desk.pace.begin_turn()
    desk.channel.handle(Called(1, methods.TxCommit()))


def test_commit_is_routed_in_several_turns_and_handed_down_in_one() -> None:
    desk = Desk()
    committing(desk)
    desk.write(message(1, b"next", b"q1"))  # It waits for the commit, and is kept for another.
    handed_down = []
    while desk.later:
        handed_down.append(len(desk.got()))
        desk.turn()
    assert handed_down == [0] * 3
    assert desk.got() == [b"x"] * len(QUEUES)
    assert desk.held.transaction_bytes == 0


def test_commit_whose_definitions_change_all_the_time_ends() -> None:
    desk = Desk()
    committing(desk)
    count = 1
    while desk.later:
        assert desk.got() == []
        desk.room.steps.queue(f"another {count}")
        desk.turn()
        count += 1
    assert desk.got() == [b"x"] * len(QUEUES)
    assert COMMIT_TRIES < count <= COMMIT_TRIES * len(QUEUES) // KEYS_A_TURN + 2


def test_refusal_in_a_sliced_commit_publishes_nothing() -> None:
    desk = Desk()
    desk.channel._select_transactions()
    desk.write(*(message(1, b"x", name.encode()) for name in QUEUES))
    desk.turns()
    desk.room.access.permitted.clear()
    desk.room.cache._permissions = PermissionCache(desk.room.access, "guest", "/")
    desk.room.steps.queue("another")
    desk.pace.begin_turn()
    with pytest.raises(ProtocolError):
        desk.channel.handle(Called(1, methods.TxCommit()))
    assert desk.got() == []


@given(st.lists(st.sampled_from([b"a", b"b", b"c"]), min_size=2, max_size=9), st.data())
def test_a_run_that_is_split_has_the_same_messages(keys: list[bytes], data: st.DataObject) -> None:
    everything = [message(1, b"%d" % number, key) for number, key in enumerate(keys)]
    [event] = opened(1).receive(b"".join(everything), 0)
    assert isinstance(event, Publishes)
    index = data.draw(st.integers(1, len(keys) - 1))
    head, rest = event.split(index)
    assert (head.count, rest.count) == (index, len(keys) - index)
    assert messages_of(head) + messages_of(rest) == messages_of(event)
