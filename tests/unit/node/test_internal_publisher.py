"""Messages of the node itself: where they go, what they look like, and what is too much."""

from typing import Any, cast

from node.config.settings import Config
from node.events.event_exchange import EXCHANGE, EventExchange
from node.events.events import Events
from node.events.internal_publisher import (
    LETTERS_A_TURN,
    WAITING_BYTES,
    WAITING_MAX,
    InternalPublisher,
    Letter,
)
from node.process_identity import ProcessIdentity
from queues.definitions.metadata.commands import DeleteParameter, PutParameter
from queues.definitions.metadata.machine import Metadata
from queues.routing.pace import RoutingPace
from queues.sessions.publishing import QUEUES_A_TURN
from tests.unit.queues.definitions.steps import Steps
from tests.unit.queues.fake_queue import FakeQueue
from warren.wire.amqp091.deliver import extract
from warren.wire.amqp091.properties import BasicProperties, decode_properties


class FakeTurn:
    """Steps what was marked when the test says so."""

    def __init__(self) -> None:
        self.marked: list[InternalPublisher] = []
        self.begun = 0
        self.routing = RoutingPace(lambda: 0.0)

    def begin(self) -> None:
        self.begun += 1

    def mark_host_later(self, host: InternalPublisher) -> None:
        self.marked.append(host)

    def run(self) -> None:
        marked, self.marked = self.marked, []
        for each in marked:
            each.step(0)


class Site:
    """As much of a broker as publishing asks for: a real machine and router, fake queues."""

    def __init__(self, config: Config | None = None) -> None:
        self.steps = Steps()
        self.turn = FakeTurn()
        self.identity = ProcessIdentity()
        self.fake_queues: dict[int, FakeQueue] = {}
        self.deleted: set[int] = set()
        self.routers = {"/": self.steps.router}
        self.config = config or Config()
        self.events = Events("n1", lambda: 5_678)
        self.publisher = InternalPublisher(cast("Any", self))

    def event_exchange(self) -> EventExchange:
        return EventExchange(self.events, self.metadata, self.config.events, self.publisher)

    @property
    def metadata(self) -> Metadata:
        return self.steps.machine

    @property
    def queues(self) -> "Site":
        """The broker and its queues are one fake."""
        return self

    def now_ms(self) -> int:
        return 5_678

    def host(self, uid: int) -> FakeQueue:
        """KeyError: it is deleted."""
        if uid in self.deleted:
            raise KeyError(uid)
        return self.fake_queues.setdefault(uid, FakeQueue(uid))

    def bound(self, name: str, key: bytes = b"#") -> FakeQueue:
        """A queue at the event exchange."""
        queue = self.steps.queue(name)
        self.steps.bind(EXCHANGE, name, key)
        return self.host(queue.uid)

    def switch(self, exchange: EventExchange, value: bytes) -> None:
        self.steps.do(PutParameter("", "", "event-exchange", value))
        exchange.parameter_changed()


def letter(key: str = "a", **headers: object) -> Letter:
    return Letter("/", EXCHANGE, key, headers, b"", 12_345, True)


def message(queue: FakeQueue, place: int = 0) -> tuple[str, bytes, BasicProperties, bytes]:
    chunk = queue.chunks[place]
    assert chunk.data is not None
    exchange, key, raw, body = extract(chunk.data, *chunk.span(0))
    return exchange, key, decode_properties(raw), body


def test_a_letter_goes_to_the_queues_that_are_bound_in_a_later_turn() -> None:
    site = Site()
    queue, other = site.bound("q", b"a.#"), site.bound("other", b"b")
    site.publisher.offer(letter("a.b", name="x", count=3, flag=True, list=["y", 1]))
    assert queue.bodies == []
    site.turn.run()
    exchange, key, properties, body = message(queue)
    assert (exchange, key, body) == (EXCHANGE, b"a.b", b"")
    assert properties.headers == {"name": "x", "count": 3, "flag": True, "list": ["y", 1]}
    assert (properties.delivery_mode, properties.timestamp) == (2, 12)
    assert queue.persistent == [True]
    assert other.bodies == []


def test_letters_are_numbered_for_each_queue_and_go_in_order() -> None:
    site = Site()
    all_of_them, some = site.bound("all"), site.bound("some", b"b")
    for key in ("a", "b", "a", "b"):
        site.publisher.offer(letter(key))
    site.turn.run()  # A fake queue asserts the numbers.
    assert [message(all_of_them, place)[1] for place in range(4)] == [b"a", b"b", b"a", b"b"]
    assert len(some.bodies) == 2


def test_a_turn_takes_so_many_and_the_rest_waits_for_the_next() -> None:
    site = Site()
    queue = site.bound("q")
    for _ in range(LETTERS_A_TURN + 1):
        site.publisher.offer(letter())
    site.turn.run()
    assert len(queue.bodies) == LETTERS_A_TURN
    assert site.publisher.waiting_count == 1
    site.turn.run()
    assert len(queue.bodies) == LETTERS_A_TURN + 1
    assert site.turn.marked == []


def test_what_is_beyond_the_limit_is_dropped_and_counted() -> None:
    site = Site()
    site.bound("q")
    for _ in range(WAITING_MAX + 3):
        site.publisher.offer(letter())
    assert site.publisher.waiting_count == WAITING_MAX
    assert site.publisher.dropped_count == 3


def test_a_letter_for_very_many_queues_is_handed_over_in_several_turns() -> None:
    site = Site()
    queues = [site.bound(f"q{number}") for number in range(QUEUES_A_TURN + 100)]
    site.publisher.offer(letter("a"))
    site.publisher.offer(letter("b"))

    def turn() -> list[int]:
        """How many letters each queue has."""
        site.turn.routing.begin_turn()
        site.turn.run()
        return [len(queue.bodies) for queue in queues]

    assert turn() == [1] * QUEUES_A_TURN + [0] * 100
    site.fake_queues.pop(queues[-1].uid)
    gone = queues.pop()
    site.deleted.add(gone.uid)
    assert turn() == [2] * (QUEUES_A_TURN - 100) + [1] * 199
    assert turn() == [2] * len(queues)
    assert gone.bodies == []
    assert site.turn.marked == []
    assert [message(queues[-1], place)[1] for place in range(2)] == [b"a", b"b"]


def test_bodies_count_towards_the_limit() -> None:
    site = Site()
    large = Letter("/", EXCHANGE, "a", {}, bytes(WAITING_BYTES // 2))
    site.publisher.offer(large)
    site.publisher.offer(large)
    assert (site.publisher.waiting_count, site.publisher.dropped_count) == (1, 1)
    site.turn.run()
    site.publisher.offer(large)
    assert site.publisher.waiting_count == 1


def test_what_cannot_be_written_as_a_message_is_dropped_and_the_next_goes() -> None:
    site = Site()
    queue = site.bound("q")
    site.publisher.offer(letter(odd=object()))
    site.publisher.offer(letter(large="x" * 200_000))
    site.publisher.offer(letter(huge=1 << 70))
    site.turn.run()
    assert site.publisher.dropped_count == 2
    assert message(queue)[2].headers == {"huge": str(1 << 70)}


def test_a_queue_that_is_deleted_begins_anew_when_it_is_there_again() -> None:
    site = Site()
    queue = site.bound("q")
    site.publisher.offer(letter())
    site.turn.run()
    site.publisher.on_gone(queue.uid)
    site.fake_queues[queue.uid] = fresh = FakeQueue(queue.uid)
    site.publisher.offer(letter())
    site.turn.run()
    assert len(fresh.bodies) == 1


def test_the_event_exchange_is_off_unless_the_settings_say_otherwise() -> None:
    site = Site()
    exchange = site.event_exchange()
    exchange.load()
    assert not exchange.is_on
    assert not site.events.is_watched


def test_the_parameter_switches_the_event_exchange_on_and_off() -> None:
    site = Site()
    queue = site.bound("q")
    exchange = site.event_exchange()
    exchange.load()
    site.switch(exchange, b'{"enabled": true}')
    site.switch(exchange, b'{"enabled": true}')
    site.events.tell("queue.created", name="x")
    site.switch(exchange, b'{"enabled": false}')
    site.events.tell("queue.deleted", name="x")
    site.turn.run()
    assert len(queue.bodies) == 1
    _, key, properties, _ = message(queue)
    assert key == b"queue.created"
    assert properties.headers == {"timestamp_in_ms": 5678, "node": "n1", "name": "x"}
    site.steps.do(DeleteParameter("", "", "event-exchange"))
    exchange.parameter_changed()
    assert not exchange.is_on


def test_a_parameter_that_makes_no_sense_leaves_what_the_settings_say() -> None:
    site = Site()
    exchange = site.event_exchange()
    for value in (b'{"enabled": "yes"}', b"[]", b'"on"'):
        site.switch(exchange, value)
        assert not exchange.is_on


def test_with_nothing_bound_an_event_makes_no_message() -> None:
    site = Site()
    exchange = site.event_exchange()
    site.switch(exchange, b'{"enabled": true}')
    site.events.tell("queue.created", name="x")
    assert site.publisher.waiting_count == 0
    site.switch(exchange, b'{"enabled": true, "vhost": "none"}')
    site.events.tell("queue.created", name="x")
    assert (site.publisher.waiting_count, site.turn.begun) == (0, 0)
