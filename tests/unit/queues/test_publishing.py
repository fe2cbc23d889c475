"""The publishing side of a channel: order per queue, one confirm for each tag, and no more."""

from dataclasses import dataclass, field
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from queues.counts import Counts
from queues.publishing import Publisher, Targets, make_chunk
from tests.unit.queues.fake_queue import FakeQueue
from tests.unit.queues.fake_sink import FakeSink
from tests.unit.queues.messages import bodies_of, event_of

BOUNDED = settings(max_examples=250, deadline=None, database=None)
ROUTES = [(), (1,), (2,), (3,), (1, 2), (2, 3), (1, 2, 3)]

# A run: which of ROUTES, persistent or not, how many messages.
RUNS = st.lists(
    st.tuples(st.integers(0, len(ROUTES) - 1), st.booleans(), st.integers(1, 3)),
    min_size=1,
    max_size=8,
)
# Between two events, queue `uid` confirms so much of what it has; 0 for `uid`: take the confirms.
CONFIRMS = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 6)), max_size=6)


@dataclass
class Channel:
    """A publisher, its queues, and the naive account of what must come of it."""

    publisher: Publisher
    counts: Counts
    queues: dict[int, FakeQueue]
    targets: list[Targets]
    expected: dict[int, list[tuple[bytes, bool]]]
    waits: dict[int, dict[int, int]] = field(default_factory=dict)  # tag -> queue -> last number
    confirmed: dict[int, int] = field(default_factory=dict)  # queue -> highest number
    acked: set[int] = field(default_factory=set)
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
                    last[uid] = len(self.expected[uid])
        for tag in tags:
            self.waits[tag] = dict(last)
        due = self.publisher.publish(event_of(made), plans)
        assert due == (last == {} and self.publisher.confirming)

    def is_due(self, tag: int) -> bool:
        return all(self.confirmed.get(uid, 0) >= last for uid, last in self.waits[tag].items())

    def confirm(self, uid: int, count: int) -> None:
        """Queue `uid` has `count` more, or is deleted (with `count` 6: everything)."""
        if uid not in self.queues:
            return
        has = len(self.queues[uid].bodies)
        if count == 6:
            self.confirmed[uid] = has
            self.publisher.on_gone(uid)
            self.queues[uid].bodies.clear()
            self.forget(uid)
            return
        upto = min(has, self.confirmed.get(uid, 0) + count)
        if upto > self.confirmed.get(uid, 0):
            self.confirmed[uid] = upto
            self.publisher.on_confirms(uid, upto)

    def forget(self, uid: int) -> None:
        """Publishes to the deleted queue count as accepted; a queue of that uid begins anew."""
        self.expected[uid] = []
        self.queues[uid].persistent.clear()
        self.confirmed.pop(uid)
        for queues in self.waits.values():
            queues.pop(uid, None)

    def take(self) -> None:
        """Every tag once or covered, none too early, `multiple` up to the lowest unconfirmed."""
        for tag, multiple in self.publisher.take_confirms():
            first = min(set(self.waits) - self.acked, default=tag) if multiple else tag
            for each in range(first, tag + 1):
                assert self.is_due(each), f"tag {each} is confirmed too early"
            if not multiple:
                assert tag not in self.acked, f"tag {tag} is confirmed twice"
            self.acked |= set(range(first, tag + 1))
        assert self.acked == {tag for tag in self.waits if self.is_due(tag)}

    def check_queues(self) -> None:
        for uid, queue in self.queues.items():
            assert list(zip(queue.bodies, queue.persistent, strict=True)) == self.expected[uid]


def new_channel(confirming: bool = True) -> Channel:
    counts = Counts()
    publisher = Publisher(FakeSink(), counts)
    publisher.confirming = confirming
    queues = {uid: FakeQueue(uid) for uid in (1, 2, 3)}
    targets = [Targets([queues[uid] for uid in route]) for route in ROUTES]
    return Channel(publisher, counts, queues, targets, {uid: [] for uid in queues})


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
@given(st.lists(st.tuples(RUNS, CONFIRMS), min_size=1, max_size=6))
def test_every_tag_is_confirmed_once_and_never_before_all_its_queues(
    story: list[tuple[list[tuple[int, bool, int]], list[tuple[int, int]]]],
) -> None:
    channel = new_channel()
    for runs, confirms in story:
        channel.publish(runs)
        for uid, count in confirms:
            if uid == 0:
                channel.take()
            else:
                channel.confirm(uid, count)
    channel.take()
    for uid in channel.queues:
        channel.confirm(uid, 1_000)
    channel.take()
    assert channel.acked == set(channel.waits)
    assert channel.publisher.in_flight_bytes == 0
    assert channel.counts.confirmed == len(channel.waits)


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
    assert channel.publisher.take_confirms() == [(2, True)]


def test_multiple_stops_at_the_lowest_tag_that_is_not_confirmed() -> None:
    channel = new_channel()
    for route in (1, 2, 3):
        channel.publish([(route, True, 1)])
    channel.publisher.on_confirms(3, 1)
    assert channel.publisher.take_confirms() == [(3, False)]
    channel.publisher.on_confirms(1, 1)
    assert channel.publisher.take_confirms() == [(1, True)]
    channel.publisher.on_confirms(2, 1)
    assert channel.publisher.take_confirms() == [(3, True)]


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
    assert channel.publisher.take_confirms() == [(1, True)]


def test_a_deleted_queue_counts_as_accepted() -> None:
    channel = new_channel()
    channel.publish([(4, True, 1)])
    channel.publisher.on_confirms(1, 1)
    assert channel.publisher.take_confirms() == []
    assert channel.publisher.on_gone(2)
    assert channel.publisher.take_confirms() == [(1, True)]
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
    shared = make_chunk(event, [(0, 3)], True)
    assert shared.data is event.data
    assert bodies_of(shared) == [b"aaaa", b"bbbb", b"cccc"]
    cut = make_chunk(event, [(1, 2)], True)
    assert cut.data == b"bbbb"
    assert bodies_of(cut) == [b"bbbb"]
    gathered = make_chunk(event, [(0, 1), (2, 4)], False)
    assert bodies_of(gathered) == [b"aaaa", b"cccc", b"d"]
    assert gathered.info == 0
