"""Where dead letters go: routed once a run, one chunk for each queue, circles and gaps dropped."""

import logging
from itertools import pairwise

import pytest

from queues.dead_lettering.dead_letter_limits import WORK_PER_TURN, DeadLetterLimits
from queues.dead_lettering.dead_letter_publisher import SILENCE_MS, QueueDeadLetterPublisher
from queues.dead_lettering.dead_letters import DeadLetterRule
from queues.definitions.arguments import encode_arguments
from queues.definitions.broker_objects import Binding, Destination, Exchange, Queue, Uid
from queues.definitions.metadata.outcomes import Added, Removed
from queues.hosts.host_interfaces import HELD
from queues.machine.commands import EndSession, SessionId
from queues.message import FORMAT_091, Chunk
from queues.routing.pace import RoutingPace
from queues.routing.router import Router
from queues.sessions.counts import Counts
from queues.sessions.credit import CreditActor, CreditSpec
from queues.sessions.publishing import QUEUES_A_TURN
from tests.unit.queues.fake_queue import FakeQueue
from tests.unit.queues.messages import table
from tests.unit.wire.frames import message
from warren.wire.amqp091.deliver import extract
from warren.wire.amqp091.events import INFO_EXPIRATION, INFO_HEADERS, INFO_PERSISTENT
from warren.wire.amqp091.properties import BasicProperties, decode_properties

NOW_MS = 1_700_000_000_000


class Harness:
    """The dead-letter publisher of queue `work`, which sends its dead to exchange `dlx`."""

    def __init__(
        self,
        kind: str = "fanout",
        key: bytes | None = None,
        limits: DeadLetterLimits | None = None,
    ) -> None:
        self.limits = limits or DeadLetterLimits()
        self.router = Router("/")
        self.queues: dict[int, FakeQueue] = {}
        self.now_ms = NOW_MS
        self.next_seq = 1
        self.counts = Counts()
        self.credit = CreditActor("dead letters", CreditSpec(10, 5))
        self.exchange = Exchange(
            Uid(50), "/", "dlx", kind, True, False, False, encode_arguments({})
        )
        self.router.apply((Added(self.exchange),))
        self.dead_letter_publisher = QueueDeadLetterPublisher(
            DeadLetterRule("work", "dlx", key),
            self.router,
            lambda uid: self.queues[uid],
            lambda: self.now_ms,
            lambda: SessionId(9),
            self.credit,
            self.counts,
            "classic",
            self.limits,
        )

    def bind(self, uid: int, key: bytes = b"", **arguments: object) -> FakeQueue:
        """A queue q<uid> that is bound to the exchange."""
        nothing = encode_arguments({})
        queue = Queue(Uid(uid), "/", f"q{uid}", True, "", False, nothing, "n")
        found = encode_arguments(arguments)
        name = f"q{uid}"
        bound = Binding(Uid(100 + uid), "/", "dlx", Destination.QUEUE, name, key, found, uid)
        self.router.apply((Added(queue), Added(bound)))
        self.queues[uid] = FakeQueue(uid)
        return self.queues[uid]

    def bury(
        self, messages: list[bytes], reason: str = "rejected", info: int = INFO_PERSISTENT
    ) -> int:
        """They lie in a chunk behind another message, at some place of a bigger buffer.

        The messages of a call that took some are numbered before those of the next.
        """
        whole = [message(1, b"not this one"), *messages]
        chunk = Chunk(FORMAT_091, b"".join(whole), 500, table(whole, 500), info)
        taken = self.dead_letter_publisher.bury(chunk, 1, len(messages), reason, self.next_seq)
        self.next_seq += max(taken, 0)
        return taken


def bodies(queue: FakeQueue) -> list[bytes]:
    return [extract(each, 0, len(each))[3] for each in queue.bodies]


def test_without_its_exchange_the_dead_are_dropped_and_that_is_said_once_in_a_while(
    caplog: pytest.LogCaptureFixture,
) -> None:
    harness = Harness()
    queue = harness.bind(7)
    harness.router.apply((Removed(harness.exchange),))
    with caplog.at_level(logging.WARNING):
        harness.bury([message(1, b"a")])
        harness.bury([message(1, b"b")])
        assert [record.getMessage() for record in caplog.records] == [
            "queue 'work' in vhost '/': dead-letter exchange 'dlx' does not exist; "
            "messages are dropped"
        ]
        harness.now_ms += SILENCE_MS
        harness.bury([message(1, b"c")])
    assert len(caplog.records) == 2
    assert queue.bodies == []
    assert harness.counts.dead_lettered == {("classic", "rejected"): 3}


def test_without_a_route_the_dead_are_dropped_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    harness = Harness("direct")
    queue = harness.bind(7, b"other")
    harness.bury([message(1, b"a", b"key")])
    assert (queue.bodies, caplog.records) == ([], [])


def test_a_run_is_one_chunk_with_numbers_that_go_on() -> None:
    harness = Harness()
    queue = harness.bind(7)
    harness.bury([message(1, b"a"), message(1, b"b")])
    harness.bury([message(1, b"c")], "expired")  # FakeQueue checks the numbers.
    assert bodies(queue) == [b"a", b"b", b"c"]
    assert [chunk.count() for chunk in queue.chunks] == [2, 1]
    exchange, _, properties, _ = extract(queue.bodies[0], 0, len(queue.bodies[0]))
    headers = decode_properties(properties).headers
    assert exchange == "dlx"
    assert headers is not None
    assert headers["x-first-death-queue"] == "work"


def test_each_queue_gets_a_chunk_of_its_own_with_the_same_bytes() -> None:
    harness = Harness()
    queues = [harness.bind(7), harness.bind(8)]
    harness.bury([message(1, b"a")])
    (one,), (other,) = queues[0].chunks, queues[1].chunks
    assert one is not other
    assert one.data is other.data


def test_the_info_of_a_dead_letter_is_that_of_its_message_without_expiration() -> None:
    harness = Harness()
    queue = harness.bind(7)
    properties = BasicProperties(delivery_mode=2, expiration="5")
    pending_dead_letters = message(1, b"a", properties=properties)
    harness.bury([pending_dead_letters], "expired", INFO_PERSISTENT | INFO_EXPIRATION)
    assert queue.chunks[0].info == INFO_PERSISTENT | INFO_HEADERS


def test_a_letter_goes_by_the_key_of_the_rule_or_else_by_its_own() -> None:
    for key, expected in ((None, b"own"), (b"dead", b"dead")):
        harness = Harness("direct", key)
        queues = {name: harness.bind(uid, name) for uid, name in ((7, b"own"), (8, b"dead"))}
        harness.bury([message(1, b"a", b"own")])
        assert bodies(queues[expected]) == [b"a"]
        assert sum(len(queue.bodies) for queue in queues.values()) == 1


def test_where_each_message_is_routed_by_its_content_each_goes_its_own_way() -> None:
    harness = Harness("headers")
    left = harness.bind(7, side="left")
    right = harness.bind(8, side="right")
    pending_dead_letters = [
        message(1, b"%d" % number, properties=BasicProperties(headers={"side": side}))
        for number, side in enumerate(("left", "right", "left", "none"))
    ]
    harness.bury(pending_dead_letters)
    assert bodies(left) == [b"0", b"2"]
    assert bodies(right) == [b"1"]


def test_a_letter_does_not_go_round_in_a_circle_for_ever(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It died in q7 and now in work, without a client's doing: it does not go to q7 again."""
    harness = Harness()
    queue = harness.bind(7)
    other = harness.bind(8)
    first = Harness()
    first.dead_letter_publisher.rule = DeadLetterRule("q7", "dlx")
    work = first.bind(5)
    first.bury([message(1, b"a")], "expired")
    letter = work.bodies[0]
    harness.bury([letter], "expired")
    assert (bodies(queue), bodies(other)) == ([], [b"a"])
    assert "in a circle: work <- q7" in caplog.text
    harness.bury([letter], "rejected")
    assert bodies(queue) == [b"a"]


def test_at_the_end_the_queues_that_it_used_hear_of_it_but_not_those_that_went_before() -> None:
    harness = Harness()
    queues = [harness.bind(7), harness.bind(8)]
    unused = FakeQueue(9)
    harness.queues[9] = unused
    harness.bury([message(1, b"a")])
    harness.dead_letter_publisher.on_gone(8)
    del harness.queues[8]
    harness.dead_letter_publisher.close()
    (command,) = queues[0].commands
    assert isinstance(command, EndSession)
    assert command.session == SessionId(9)
    assert (queues[1].commands, unused.commands) == ([], [])
    harness.dead_letter_publisher.close()
    assert len(queues[0].commands) == 1


def test_the_letters_of_a_turn_are_bounded_and_the_rest_follow_in_order() -> None:
    harness = Harness(limits=DeadLetterLimits(work_per_turn=33))
    left, right = harness.bind(7), harness.bind(8)
    pending_dead_letters = [message(1, b"%d" % number) for number in range(6)]
    taken: list[int] = []
    while pending_dead_letters:
        some = harness.bury(pending_dead_letters)
        pending_dead_letters = pending_dead_letters[some:]
        taken.append(some)
        if some == 0:
            harness.limits.begin_turn()
    # A letter alone costs 2 * (1 + 7) = 16, a chunk of two 18: three chunks fill a turn of 33.
    assert taken == [1, 1, 1, 0, 2, 1]
    assert bodies(left) == bodies(right) == [b"%d" % number for number in range(6)]


class Clock:
    """CPU time that goes on by 6 ms whenever it is looked at."""

    now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 0.006
        return self.now_s


@pytest.mark.parametrize("kind", ["fanout", "headers"])
def test_dead_letters_whose_routing_is_slow_follow_in_later_turns_in_order(kind: str) -> None:
    routing = RoutingPace(Clock())
    harness = Harness(kind, limits=DeadLetterLimits(routing=routing))
    queue = harness.bind(7)
    expiring = [message(1, b"%d" % number, b"key%d" % number) for number in range(6)]
    turns = 0
    while expiring:
        routing.begin_turn()
        some = harness.bury(expiring)
        assert 0 < some <= 2
        expiring = expiring[some:]
        while not routing.is_spent() and expiring:
            some = harness.bury(expiring)
            expiring = expiring[some:]
        assert harness.bury(expiring or [message(1, b"", b"")]) == 0
        turns += 1
    assert turns == 3
    assert bodies(queue) == [b"%d" % number for number in range(6)]


def hop(harness: Harness, reason: str = "expired") -> None:
    """The newest letter of the first queue dies again, in a queue with another name."""
    letter = harness.queues[7].bodies[-1]
    harness.dead_letter_publisher.rule.queue = f"hop{len(harness.queues[7].bodies)}"
    harness.bury([letter], reason)


def test_a_message_makes_a_bounded_number_of_hops(caplog: pytest.LogCaptureFixture) -> None:
    harness = Harness(limits=DeadLetterLimits(hops_max=3))
    queue = harness.bind(7)
    harness.bury([message(1, b"a")], "expired")
    for _ in range(5):
        hop(harness)
    assert len(queue.bodies) == 3
    assert harness.counts.dead_letters_dropped_hops == 3
    assert [record.getMessage() for record in caplog.records] == [
        "queue 'hop3' in vhost '/': a message was dead-lettered more than 3 times in a row; "
        "messages are dropped (limits.dead_letter_hops_max)"
    ]


def test_a_rejection_by_a_client_starts_the_count_of_hops_again() -> None:
    harness = Harness(limits=DeadLetterLimits(hops_max=3))
    queue = harness.bind(7)
    harness.bury([message(1, b"a")], "expired")
    for number in range(2, 30):
        hop(harness, "rejected" if number % 3 == 0 else "expired")
    assert len(queue.bodies) == 29
    assert harness.counts.dead_letters_dropped_hops == 0


@pytest.mark.parametrize(
    ("alarm", "queue_count", "info", "is_held"),
    [
        ("low_memory", 2, 0, True),
        ("low_memory", 1, INFO_PERSISTENT, False),
        ("low_disk", 2, 0, True),
        ("low_disk", 1, INFO_PERSISTENT, True),
        ("low_disk", 1, 0, False),
        ("low_disk", 0, INFO_PERSISTENT, False),
    ],
)
def test_an_alarm_holds_the_letters_that_would_make_it_worse(
    alarm: str, queue_count: int, info: int, is_held: bool
) -> None:
    harness = Harness()
    queues = [harness.bind(7 + number) for number in range(queue_count)]
    setattr(harness.limits, alarm, True)
    taken = harness.bury([message(1, b"a")], info=info)
    assert taken == (HELD if is_held else 1)
    setattr(harness.limits, alarm, False)
    if is_held:
        assert harness.counts.dead_lettered == {("classic", "rejected"): 0}
        assert harness.bury([message(1, b"a")], info=info) == 1
    assert [bodies(queue) for queue in queues] == [[b"a"]] * queue_count


def test_a_dead_letter_with_many_keys_is_routed_in_several_turns() -> None:
    """Its `x-death` has another time at each try."""
    now_s = 0.0

    def clock_s() -> float:
        nonlocal now_s
        now_s += 0.0011
        return now_s

    pace = RoutingPace(clock_s)
    harness = Harness("topic", limits=DeadLetterLimits(routing=pace))
    queue = harness.bind(7, b"#.999")
    keys = [f"a.{number}" for number in range(1000)]
    letters = [message(1, b"a", b"k", BasicProperties(headers={"CC": keys}))]
    tries = 1
    while harness.bury(letters, info=INFO_PERSISTENT | INFO_HEADERS) == 0:
        tries += 1
        harness.now_ms += 1500
        pace.begin_turn()
    assert tries == 4  # 32 keys for each look at the clock
    assert bodies(queue) == [b"a"]


def sliced(queues_a_turn: int = 7, kind: str = "fanout") -> Harness:
    """Its letters go to 40 queues."""
    harness = Harness(kind)
    hand_overs = harness.limits.routing.hand_overs
    hand_overs.queues_a_turn = hand_overs.left = queues_a_turn
    hand_overs.narrow = hand_overs.least = 1
    for uid in range(100, 140):
        harness.bind(uid, side="left")
    return harness


def begin_turn(harness: Harness) -> None:
    harness.limits.begin_turn()
    harness.limits.routing.begin_turn()


def got(harness: Harness) -> int:
    return sum(len(queue.bodies) for queue in harness.queues.values())


@pytest.mark.parametrize("kind", ["fanout", "headers"])
def test_letters_for_many_queues_are_handed_over_in_several_turns_in_order(kind: str) -> None:
    harness = sliced(kind=kind)
    headers = BasicProperties(headers={"side": "left"})
    waiting = [message(1, b"%d" % number, properties=headers) for number in range(3)]
    counts = [0]
    while waiting:
        begin_turn(harness)
        taken = harness.bury(waiting, info=INFO_PERSISTENT | INFO_HEADERS)
        assert taken == 0 or all(queue.bodies for queue in harness.queues.values())
        waiting = waiting[taken:]
        counts.append(got(harness))
    assert counts[-1] == 3 * 40
    # Letters that go the same way are handed over together.
    assert max(after - before for before, after in pairwise(counts)) <= 3 * 7
    assert len(counts) > 6
    for queue in harness.queues.values():
        assert bodies(queue) == [b"0", b"1", b"2"]
    assert harness.counts.dead_lettered == {("classic", "rejected"): 3}


def test_one_message_for_thousands_of_queues_reaches_a_thousand_of_them_in_a_turn() -> None:
    harness = Harness()
    for uid in range(100, 2600):
        harness.bind(uid)
    waiting = [message(1, b"%d" % number) for number in range(100)]  # the cost is not known yet
    counts = [0]
    while got(harness) < 2500 * 2:
        begin_turn(harness)
        taken = harness.bury(waiting)
        waiting = waiting[taken:]
        counts.append(got(harness))
    assert max(after - before for before, after in pairwise(counts)) <= WORK_PER_TURN
    assert QUEUES_A_TURN == 1000


def test_the_queues_of_all_messages_for_many_queues_share_the_room_of_a_turn() -> None:
    harness = sliced()
    begin_turn(harness)
    harness.limits.routing.hand_overs.left = 0  # Publishers have used it.
    assert harness.bury([message(1, b"a")]) == 0
    assert got(harness) == 1


def test_a_hand_over_holds_during_an_alarm_and_goes_on() -> None:
    harness = sliced()
    letters = [message(1, b"a")]
    assert harness.bury(letters) == 0
    harness.limits.low_memory = True
    begin_turn(harness)
    assert harness.bury(letters) == HELD
    assert got(harness) == 7
    harness.limits.low_memory = False
    while harness.bury(letters) == 0:
        begin_turn(harness)
    assert [bodies(queue) for queue in harness.queues.values()] == [[b"a"]] * 40


def test_a_queue_that_goes_during_a_hand_over_is_passed_over() -> None:
    harness = sliced()
    assert harness.bury([message(1, b"a")]) == 0
    gone = harness.queues.pop(139)
    while harness.bury([message(1, b"a")]) == 0:
        begin_turn(harness)
    assert [bodies(queue) for queue in harness.queues.values()] == [[b"a"]] * 39
    assert gone.bodies == []


def test_a_hand_over_is_for_one_message_of_the_queue() -> None:
    """The body of the first message could not be read, or the queue is led here again."""
    harness = sliced()
    assert harness.bury([message(1, b"a")]) == 0
    harness.next_seq += 1
    begin_turn(harness)
    while harness.bury([message(1, b"b")]) == 0:
        begin_turn(harness)
    assert all(bodies(queue)[-1] == b"b" for queue in harness.queues.values())
    assert [bodies(queue) for queue in harness.queues.values()].count([b"a", b"b"]) == 7


def test_many_hops_of_a_letter_for_many_queues_are_counted_once() -> None:
    harness = sliced()
    harness.limits.hops_max = 0
    assert harness.bury([message(1, b"a")], "expired") == 1
    assert (got(harness), harness.counts.dead_letters_dropped_hops) == (0, 1)
