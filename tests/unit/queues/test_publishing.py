"""The publishing side of a channel: order per queue, one ack or nack for each tag, and no more."""

from dataclasses import dataclass, field
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from queues.message import FORMAT_091
from queues.queue_host import QueueHost
from queues.sessions.counts import Counts
from queues.sessions.publishing import (
    LEAST,
    QUEUES_A_TURN,
    HandOverRoom,
    Held,
    Part,
    Publisher,
    Targets,
    chunk_of,
)
from tests.unit.queues.fake_queue import FakeQueue
from tests.unit.queues.fake_sink import FakeSink
from tests.unit.queues.messages import bodies_of, event_of
from warren.wire.amqp091.events import (
    INFO_EXPIRATION,
    INFO_HEADERS,
    INFO_PERSISTENT,
    INFO_PRIORITY,
)

BOUNDED = settings(max_examples=250, deadline=None, database=None)
ROUTES = [(), (1,), (2,), (3,), (1, 2), (2, 3), (1, 2, 3)]

# A run: which of ROUTES, persistent or not, how many messages.
RUNS = st.lists(
    st.tuples(st.integers(0, len(ROUTES) - 1), st.booleans(), st.integers(1, 3)),
    min_size=1,
    max_size=8,
)
# Between two events: (what, queue, how many, how many are passed over before).
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["take", "confirm", "confirm", "refuse", "gone"]),
        st.integers(1, 3),
        st.integers(1, 6),
        st.integers(0, 3),
    ),
    max_size=6,
)


@dataclass
class Channel:
    """A publisher, its queues, and the naive account of what must come of it."""

    publisher: Publisher
    counts: Counts
    held: Held
    queues: dict[int, FakeQueue]
    targets: list[Targets]
    expected: dict[int, list[tuple[bytes, bool]]]
    waits: dict[int, dict[int, int]] = field(default_factory=dict)  # tag -> queue -> last number
    confirmed: dict[int, int] = field(default_factory=dict)  # queue -> highest number
    acked: set[int] = field(default_factory=set)
    nacked: set[int] = field(default_factory=set)
    tags: dict[int, list[int]] = field(default_factory=dict)  # queue -> tag of each number
    refused: set[int] = field(default_factory=set)  # tags that some queue refused
    next_tag: int = 1
    count: int = 0

    def publish(self, runs: list[tuple[int, bool, int]]) -> None:
        made: list[tuple[bytes, bool, list[bytes]]] = []
        plans: list[Targets] = []
        tags: list[int] = []
        last: dict[int, int] = {}
        for route, persistent, count in runs:
            bodies = [b"message %d" % (self.count + place) for place in range(count)]
            self.count += count
            made.append((b"key %d" % route, persistent, bodies))
            plans.append(self.targets[route])
            for body in bodies:
                tags.append(self.next_tag)
                self.next_tag += 1
                for uid in ROUTES[route]:
                    self.expected[uid].append((body, persistent))
                    self.tags.setdefault(uid, []).append(tags[-1])
                    last[uid] = len(self.expected[uid])
        for tag in tags:
            self.waits[tag] = dict(last)
        due = self.publisher.publish(event_of(made), plans)
        assert due == (last == {} and self.publisher.confirming)

    def is_due(self, tag: int) -> bool:
        return all(self.confirmed.get(uid, 0) >= last for uid, last in self.waits[tag].items())

    def step(self, what: str, uid: int, count: int, skip: int) -> None:
        if what == "take":
            self.take()
        elif what == "confirm":
            self.confirm(uid, count)
        elif what == "refuse":
            self.refuse(uid, count, skip)
        else:
            self.confirmed[uid] = len(self.queues[uid].bodies)
            self.publisher.on_gone(uid)
            self.queues[uid].bodies.clear()
            self.forget(uid)

    def confirm(self, uid: int, count: int) -> None:
        """Queue `uid` has decided on `count` more."""
        has = len(self.queues[uid].bodies)
        upto = min(has, self.confirmed.get(uid, 0) + count)
        if upto > self.confirmed.get(uid, 0):
            self.confirmed[uid] = upto
            self.publisher.on_confirms(uid, upto)

    def refuse(self, uid: int, count: int, skip: int) -> None:
        """Queue `uid` refuses `count` of those that it has not decided on."""
        first = self.confirmed.get(uid, 0) + 1 + skip
        last = min(first + count - 1, len(self.queues[uid].bodies))
        if first > last:
            return
        if self.publisher.confirming:
            self.refused |= set(self.tags[uid][first - 1 : last])
        self.publisher.on_refused(uid, first, last - first + 1)

    def forget(self, uid: int) -> None:
        """Publishes to the deleted queue count as accepted; a queue of that uid starts again."""
        self.expected[uid] = []
        self.tags[uid] = []
        self.queues[uid].persistent.clear()
        self.confirmed.pop(uid)
        for queues in self.waits.values():
            queues.pop(uid, None)

    def take(self) -> None:
        """Every tag once, none too early; `multiple` takes all lower ones that were not told."""
        for tag, multiple, accepted in self.publisher.take_confirms():
            told = self.acked | self.nacked
            open_tags = set(self.waits) - told
            tags = {each for each in open_tags if each <= tag} if multiple else {tag}
            assert tag in tags, f"tag {tag} is answered twice"
            assert all(self.is_due(each) for each in tags), f"{tags}: some are answered too early"
            assert all((each in self.refused) is not accepted for each in tags)
            assert not tags & told
            (self.acked if accepted else self.nacked).update(tags)
        assert self.acked | self.nacked == {tag for tag in self.waits if self.is_due(tag)}

    def check_queues(self) -> None:
        for uid, queue in self.queues.items():
            assert list(zip(queue.bodies, queue.persistent, strict=True)) == self.expected[uid]


def new_channel(confirming: bool = True, room: HandOverRoom | None = None) -> Channel:
    counts = Counts()
    held = Held()
    publisher = Publisher(FakeSink(), counts, held, room)
    publisher.confirming = confirming
    queues = {uid: FakeQueue(uid) for uid in (1, 2, 3)}
    targets = [Targets([queues[uid] for uid in route]) for route in ROUTES]
    return Channel(publisher, counts, held, queues, targets, {uid: [] for uid in queues})


@BOUNDED
@given(st.lists(RUNS, min_size=1, max_size=4))
def test_each_queue_gets_its_messages_in_the_order_of_the_publisher(
    events: list[list[tuple[int, bool, int]]],
) -> None:
    channel = new_channel()
    for runs in events:
        channel.publish(runs)
        channel.check_queues()


@BOUNDED
@given(st.lists(st.tuples(RUNS, STEPS), min_size=1, max_size=6))
def test_every_tag_is_acked_or_nacked_once_and_never_before_all_its_queues(
    story: list[tuple[list[tuple[int, bool, int]], list[tuple[str, int, int, int]]]],
) -> None:
    channel = new_channel()
    for runs, steps in story:
        channel.publish(runs)
        for step in steps:
            channel.step(*step)
    channel.take()
    for uid in channel.queues:
        channel.confirm(uid, 1_000)
    channel.take()
    assert channel.nacked == channel.refused
    assert channel.acked == set(channel.waits) - channel.refused
    assert channel.publisher.all_decided()
    assert channel.publisher.in_flight_bytes == 0
    assert channel.held.in_flight_bytes == 0
    assert channel.counts.confirmed == len(channel.acked)


# What happens in the turns after an event: some are handed on, some are decided.
TURNS = st.lists(
    st.tuples(
        st.sampled_from(["hand on", "take", "confirm", "confirm", "refuse"]),
        st.integers(1, 3),
        st.integers(1, 6),
        st.integers(0, 3),
    ),
    max_size=8,
)


@BOUNDED
@given(st.lists(st.tuples(RUNS, TURNS), min_size=1, max_size=6), st.integers(1, 2))
def test_messages_for_many_queues_are_handed_over_in_slices_in_order(
    story: list[tuple[list[tuple[int, bool, int]], list[tuple[str, int, int, int]]]],
    queues_a_turn: int,
) -> None:
    room = HandOverRoom(queues_a_turn, narrow=1, least=1)
    channel = new_channel(room=room)
    publisher = channel.publisher
    for runs, turns in story:
        channel.publish(runs)
        for turn in turns:
            if turn[0] == "hand on":
                room.begin_turn()
                publisher.hand_on()
            else:
                channel.step(*turn)
    while publisher.is_behind:
        room.begin_turn()
        publisher.hand_on()
    channel.check_queues()
    for uid in channel.queues:
        channel.confirm(uid, 1_000)
    channel.take()
    assert channel.acked | channel.nacked == set(channel.waits)
    assert channel.nacked == channel.refused
    assert publisher.all_decided()
    assert (publisher.in_flight_bytes, channel.held.in_flight_bytes) == (0, 0)


def test_one_turn_hands_a_message_to_no_more_than_1000_queues() -> None:
    queues = [FakeQueue(uid) for uid in range(1, 100_001)]
    held = Held()
    room = HandOverRoom()
    publisher = Publisher(FakeSink(), Counts(), held, room)
    publisher.confirming = True
    wide, narrow = Targets(list(queues)), Targets([queues[-1]])
    publisher.publish(event_of([(b"all", True, [b"first"])]), [wide])
    publisher.publish(event_of([(b"one", True, [b"second"])]), [narrow])
    assert QUEUES_A_TURN == 1000
    got = [sum(queue.ready_count for queue in queues)]
    while publisher.is_behind:
        room.begin_turn()
        publisher.hand_on()
        got.append(sum(queue.ready_count for queue in queues))
    assert got == [*range(1000, 100_001, 1000), 100_001]
    assert queues[-1].bodies == [b"first", b"second"]
    assert held.in_flight_bytes == publisher.in_flight_bytes > 0
    # A chunk is journaled once, so queues of different turns share none.
    assert len({id(queue.chunks[0]) for queue in queues}) == 100
    assert len({id(queue.chunks[0].data) for queue in queues}) == 1
    for queue in queues:
        assert publisher.take_confirms() == []
        publisher.on_confirms(queue.uid, len(queue.bodies))
    assert publisher.take_confirms() == [(2, True, True)]
    assert held.in_flight_bytes == 0


def test_publishers_share_the_room_of_a_turn_and_none_has_to_wait_for_ever() -> None:
    room = HandOverRoom()
    queues = [FakeQueue(uid) for uid in range(1, 601)]
    publishers = [Publisher(FakeSink(), Counts(), Held(), room) for _ in range(3)]
    for number, publisher in enumerate(publishers):
        some: list[QueueHost] = list(queues[200 * number : 200 * number + 200])
        for key in range(10):  # Messages of different keys, each within the room of a turn.
            publisher.publish(event_of([(b"%d" % key, True, [b"x"])]), [Targets(some)])
    assert sum(queue.ready_count for queue in queues) <= QUEUES_A_TURN + 3 * LEAST
    while any(publisher.is_behind for publisher in publishers):
        before = sum(queue.ready_count for queue in queues)
        room.begin_turn()
        for publisher in publishers:
            count = sum(queue.ready_count for queue in queues)
            was_behind = publisher.is_behind
            publisher.hand_on()
            assert not was_behind or sum(queue.ready_count for queue in queues) > count
        handed = sum(queue.ready_count for queue in queues) - before
        assert handed <= QUEUES_A_TURN + 3 * LEAST
    assert all(len(queue.bodies) == 10 for queue in queues)


@BOUNDED
@given(RUNS)
def test_messages_of_one_queue_and_kind_travel_in_one_chunk(
    runs: list[tuple[int, bool, int]],
) -> None:
    single = [(1 + route % 3, persistent, count) for route, persistent, count in runs]
    channel = new_channel()
    channel.publish(single)
    for uid, queue in channel.queues.items():
        kinds = [persistent for route, persistent, _ in single if ROUTES[route] == (uid,)]
        changes = sum(1 for a, b in pairwise(kinds) if a != b)
        assert len(queue.chunks) == (changes + 1 if kinds else 0)


def test_a_message_to_several_queues_is_one_chunk_in_all_of_them() -> None:
    channel = new_channel()
    channel.publish([(6, True, 3)])
    chunks = {id(chunk) for queue in channel.queues.values() for chunk in queue.chunks}
    assert len(chunks) == 1


def test_a_message_that_no_queue_gets_is_confirmed_at_once() -> None:
    channel = new_channel()
    channel.publish([(0, True, 2)])
    assert channel.publisher.take_confirms() == [(2, True, True)]


def test_multiple_stops_at_the_lowest_tag_that_is_not_confirmed() -> None:
    channel = new_channel()
    for route in (1, 2, 3):
        channel.publish([(route, True, 1)])
    channel.publisher.on_confirms(3, 1)
    assert channel.publisher.take_confirms() == [(3, False, True)]
    channel.publisher.on_confirms(1, 1)
    assert channel.publisher.take_confirms() == [(1, False, True)]
    channel.publisher.on_confirms(2, 1)
    assert channel.publisher.take_confirms() == [(2, False, True)]


def test_without_confirm_mode_nothing_is_confirmed_but_the_bytes_are_counted() -> None:
    channel = new_channel(confirming=False)
    channel.publish([(4, True, 2)])
    assert channel.publisher.in_flight_bytes == 2 * len(b"message 0message 1")
    channel.publisher.on_confirms(1, 2)
    channel.publisher.on_confirms(2, 2)
    assert channel.publisher.in_flight_bytes == 0
    assert channel.publisher.take_confirms() == []


def test_what_was_published_before_confirm_select_is_never_confirmed() -> None:
    channel = new_channel(confirming=False)
    channel.publish([(1, True, 3)])
    channel.publisher.confirming = True
    channel.publisher.publish(event_of([(b"key", True, [b"first"])]), [channel.targets[2]])
    assert not channel.publisher.on_confirms(1, 3)
    assert channel.publisher.take_confirms() == []
    assert channel.publisher.on_confirms(2, 1)
    assert channel.publisher.take_confirms() == [(1, False, True)]


def test_a_deleted_queue_counts_as_accepted() -> None:
    channel = new_channel()
    channel.publish([(4, True, 1)])
    channel.publisher.on_confirms(1, 1)
    assert channel.publisher.take_confirms() == []
    assert channel.publisher.on_gone(2)
    assert channel.publisher.take_confirms() == [(1, False, True)]
    assert not channel.publisher.on_gone(2)
    assert not channel.publisher.on_confirms(2, 1)


def test_a_long_time_of_confirms_one_by_one_keeps_the_books() -> None:
    channel = new_channel()
    for _ in range(600):
        channel.publish([(1, True, 1)])
        channel.publish([(2, True, 1)])
    for _ in range(600):
        channel.confirm(1, 1)
        channel.take()
    for _ in range(599):
        channel.confirm(2, 1)
    channel.take()
    assert channel.acked == set(range(1, 1200))


def test_a_chunk_shares_the_bytes_of_the_event_where_most_are_wanted() -> None:
    event = event_of([(b"key", True, [b"aaaa", b"bbbb", b"cccc", b"d"])])
    nowhere = Targets([])
    whole = Part(nowhere, INFO_PERSISTENT, 0, 3)
    shared = chunk_of(FORMAT_091, event.data, event.offsets, whole, b"")
    assert shared.data is event.data
    assert bodies_of(shared) == [b"aaaa", b"bbbb", b"cccc"]
    second = Part(nowhere, INFO_PERSISTENT, 1, 2)
    cut = chunk_of(FORMAT_091, event.data, event.offsets, second, b"")
    assert cut.data == b"bbbb"
    assert bodies_of(cut) == [b"bbbb"]
    others = Part(nowhere, 0, 0, 1)
    others.extend(0, 2, 4)
    gathered = chunk_of(FORMAT_091, event.data, event.offsets, others, b"")
    assert bodies_of(gathered) == [b"aaaa", b"cccc", b"d"]
    assert gathered.info == 0


def test_a_refused_run_in_the_middle_parts_the_acks_around_it() -> None:
    channel = new_channel()
    channel.publish([(1, True, 3), (1, True, 3)])
    channel.publisher.on_refused(1, 3, 2)
    assert channel.publisher.take_confirms() == []
    assert channel.publisher.on_confirms(1, 6)
    expected = [(2, True, True), (4, True, False), (6, True, True)]
    assert channel.publisher.take_confirms() == expected
    assert channel.counts.confirmed == 4


def test_the_numbers_of_a_gathered_chunk_lead_back_to_their_tags() -> None:
    channel = new_channel()
    channel.publish([(1, True, 2), (2, True, 1), (1, True, 2)])  # Tags 1, 2, 4 and 5 go to q1.
    channel.publisher.on_refused(1, 2, 2)
    channel.publisher.on_confirms(1, 4)
    channel.publisher.on_confirms(2, 1)
    expected = [
        (1, False, True),
        (2, False, False),
        (3, False, True),
        (4, False, False),
        (5, False, True),
    ]
    assert channel.publisher.take_confirms() == expected


def test_one_queue_that_refuses_is_enough_and_two_count_once() -> None:
    channel = new_channel()
    channel.publish([(6, True, 2)])
    channel.publisher.on_refused(1, 1, 1)
    channel.publisher.on_refused(2, 1, 1)
    channel.publisher.on_confirms(1, 2)
    channel.publisher.on_confirms(2, 2)
    assert channel.publisher.on_gone(3)
    assert channel.publisher.take_confirms() == [(1, False, False), (2, False, True)]
    assert channel.counts.confirmed == 1


def test_a_nack_that_is_told_before_lower_tags_are_decided_is_not_told_again() -> None:
    channel = new_channel()
    channel.publish([(1, True, 1)])
    channel.publish([(2, True, 2)])
    channel.publisher.on_refused(2, 2, 1)
    channel.publisher.on_confirms(2, 2)
    assert channel.publisher.take_confirms() == [(2, False, True), (3, False, False)]
    channel.publisher.on_confirms(1, 1)
    assert channel.publisher.take_confirms() == [(1, False, True)]
    assert channel.counts.confirmed == 2


def test_without_confirm_mode_a_refusal_is_silent() -> None:
    channel = new_channel(confirming=False)
    channel.publish([(1, True, 2)])
    channel.publisher.on_refused(1, 1, 2)
    assert not channel.publisher.on_confirms(1, 2)
    assert channel.publisher.take_confirms() == []


def test_a_channel_that_ends_gives_its_bytes_in_flight_back_once() -> None:
    channel = new_channel()
    channel.publish([(1, True, 2)])
    assert channel.held.in_flight_bytes == channel.publisher.in_flight_bytes > 0
    channel.publisher.let_go()
    assert channel.held.in_flight_bytes == 0
    channel.publisher.on_confirms(1, 2)
    assert channel.held.in_flight_bytes == 0


def test_a_chunk_tells_which_properties_some_message_of_it_has() -> None:
    channel = new_channel()
    event = event_of([(b"a", True, [b"1"]), (b"b", True, [b"2"]), (b"a", True, [b"3"])])
    event.infos = [INFO_PERSISTENT | INFO_HEADERS, INFO_PERSISTENT | INFO_PRIORITY | 3 << 8, 1]
    channel.publisher.publish(event, [channel.targets[1]] * 3)
    event.infos = [0, INFO_PRIORITY, INFO_EXPIRATION]
    plans = [channel.targets[1], channel.targets[2], channel.targets[1]]
    channel.publisher.publish(event, plans)
    infos = [[chunk.info for chunk in channel.queues[uid].chunks] for uid in (1, 2)]
    assert infos == [[INFO_PERSISTENT | INFO_PRIORITY, INFO_EXPIRATION], [INFO_PRIORITY]]
