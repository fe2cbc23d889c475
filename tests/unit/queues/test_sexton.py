"""Dead letters at least once, on one node: kept in the machine until the queues they go to have
confirmed them, sent again where they have not, and after a restart."""

import logging

import pytest

from queues.annotations import encode_words
from queues.commands import ACCEPT, REJECT, Buried, EndSession, Purge, Settle, consumer_key
from queues.fifo_snapshot import encode_fifo
from queues.hosts.quorum import decode_entry
from queues.options import REJECT_PUBLISH, Options
from tests.unit.queues.fake_queue import FakeQueue
from tests.unit.queues.messages import chunk_of
from tests.unit.queues.test_quorum_host import UID, Desk
from tests.unit.queues.test_undertaker import Desk as Exchange
from tests.unit.queues.test_undertaker import bodies
from tests.unit.wire.frames import message
from warren.wire.amqp091.deliver import extract
from warren.wire.amqp091.properties import decode_properties

OPTIONS = Options(
    overflow=REJECT_PUBLISH,
    counts_deliveries=True,
    dead_letters=True,
    keeps_dead=True,
)


class Graveyard:
    """A queue whose dead go to an exchange, which knows the queues 7 and 8 if they are bound."""

    def __init__(self, state: bytes | None = None) -> None:
        self.exchange = Exchange()
        self.desk = Desk(OPTIONS, grave=self.exchange.undertaker, state=state)

    def begin(self) -> "Graveyard":
        self.desk.begin()
        self.desk.attach(1, 100)
        self.go_on()
        return self

    def publish(self, *texts: bytes) -> None:
        self.desk.give(chunk_of([message(1, each) for each in texts]))
        self.go_on()

    def reject(self, first: int, count: int = 1) -> None:
        self.desk.settle(1, REJECT, [(first, count)])
        self.go_on()

    def go_on(self) -> None:
        """Turns and commits until nothing moves."""
        for _ in range(6):
            self.desk.turn()
            self.desk.answer_loads()
            self.desk.commit()

    def confirm(self, queue: FakeQueue, upto: int) -> None:
        sexton = self.desk.host._sexton
        assert sexton is not None
        sexton.on_confirms(queue.uid, upto)
        self.go_on()

    def refuse(self, queue: FakeQueue, seq: int) -> None:
        sexton = self.desk.host._sexton
        assert sexton is not None
        sexton.on_refused(queue.uid, seq, 1)
        self.confirm(queue, seq)

    def pass_time(self, ms: int) -> None:
        self.desk.node.now_ms += ms
        sexton = self.desk.host._sexton
        assert sexton is not None
        sexton.on_timer()
        self.go_on()

    @property
    def dying(self) -> int:
        return int(self.desk.inner.machine.dying.count)

    def buried(self) -> list[tuple[int, int]]:
        """By all entries so far."""
        found: list[tuple[int, int]] = []
        for entry in self.desk.group.entries:
            for command in decode_entry(entry)[1]:
                if isinstance(command, Buried):
                    found += command.runs
        return found


def test_what_died_stays_until_the_queue_has_confirmed_its_letter() -> None:
    yard = Graveyard()
    queue = yard.exchange.bind(7)
    yard.begin()
    yard.publish(b"a", b"b")
    alive = yard.desk.live()
    yard.reject(1)
    assert bodies(queue) == [b"a"]
    assert (yard.dying, yard.buried(), yard.desk.live()) == (1, [], alive)
    yard.confirm(queue, 1)
    yard.desk.turn()
    assert (yard.dying, yard.buried()) == (0, [(1, 1)])
    assert yard.desk.live() < alive
    counts = yard.exchange.counts
    assert counts.dead_lettered_surely == {"rejected": 1}
    assert (counts.dead_letters_confirmed, counts.dead_lettered) == (1, {})


def test_all_queues_have_to_confirm_it() -> None:
    yard = Graveyard()
    queues = [yard.exchange.bind(7), yard.exchange.bind(8)]
    yard.begin()
    yard.publish(b"a")
    yard.reject(1)
    yard.confirm(queues[0], 1)
    assert yard.dying == 1
    yard.confirm(queues[1], 1)
    assert yard.dying == 0


def test_the_letter_says_how_it_died_and_what_was_noted() -> None:
    yard = Graveyard()
    queue = yard.exchange.bind(7)
    yard.begin()
    yard.publish(b"a")
    words = encode_words({b"x-why": b"\xa1\x03bad"})
    key = consumer_key(yard.desk.sink.session, 1)
    yard.desk.host.command(yard.desk.sink, Settle(key, REJECT, [(1, 1)], words))
    yard.go_on()
    headers = decode_properties(extract(queue.bodies[0], 0, len(queue.bodies[0]))[2]).headers
    assert headers is not None
    assert (headers["x-why"], headers["x-last-death-reason"]) == ("bad", "rejected")


def test_a_full_queue_is_asked_again_and_nobody_else() -> None:
    yard = Graveyard()
    full, free = yard.exchange.bind(7), yard.exchange.bind(8)
    yard.begin()
    yard.publish(b"a")
    yard.reject(1)
    yard.confirm(free, 1)
    yard.refuse(full, 1)
    assert yard.dying == 1
    yard.pass_time(1_000)
    assert (bodies(full), bodies(free)) == ([b"a", b"a"], [b"a"])
    yard.confirm(full, 2)
    assert yard.dying == 0


def test_without_exchange_or_route_the_dead_are_kept_and_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    yard = Graveyard().begin()
    with caplog.at_level(logging.WARNING):
        yard.publish(b"a", b"b")
        yard.reject(1, 2)
    assert "has no queue for 'q'; messages are kept" in caplog.text
    assert yard.dying == 2
    queue = yard.exchange.bind(7)
    yard.pass_time(1_000)
    assert bodies(queue) == [b"a", b"b"]
    yard.confirm(queue, 2)
    assert (yard.dying, yard.buried()) == (0, [(1, 2)])


def test_what_would_go_round_in_a_circle_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    """It comes from q7, where it expired, and expires here."""
    first = Exchange()
    first.undertaker.rule.queue = "q7"
    work = first.bind(5)
    first.bury([message(1, b"a")], "expired")
    yard = Graveyard()
    queue = yard.exchange.bind(7)
    yard.begin()
    yard.desk.inner.machine.set_options(
        Options(
            overflow=REJECT_PUBLISH,
            dead_letters=True,
            keeps_dead=True,
            delivery_limit=0,
            counts_deliveries=True,
        )
    )
    yard.desk.give(chunk_of([work.bodies[0]]))
    yard.go_on()
    with caplog.at_level(logging.WARNING):
        yard.desk.host.command(yard.desk.sink, EndSession(yard.desk.sink.session))
        yard.go_on()
    assert "in a circle" in caplog.text
    assert (bodies(queue), yard.dying, yard.buried()) == ([], 0, [(1, 1)])


def test_a_queue_without_an_exchange_by_now_buries_its_dead() -> None:
    yard = Graveyard().begin()
    yard.publish(b"a")
    yard.reject(1)
    assert yard.dying == 1
    yard.desk.host.configure(Options(counts_deliveries=True), None)
    yard.pass_time(1_000)
    assert (yard.dying, yard.buried()) == (0, [(1, 1)])


def test_after_a_restart_what_was_dying_is_sent_again() -> None:
    yard = Graveyard()
    yard.exchange.bind(7)
    yard.begin()
    yard.publish(b"a", b"b")
    yard.reject(2)
    again = Graveyard(encode_fifo(yard.desk.inner.machine))
    queue = again.exchange.bind(7)
    again.desk.host.begin_recovery(again.desk.group)
    for seq, text in ((1, b"a"), (2, b"b")):
        data = message(1, text)
        chunk = chunk_of([data])
        place = again.desk.node.log.put(data, len(data))
        chunk.file_id, chunk.file_offset, chunk.durable = place.file_id, place.offset, True
        chunk.data = None
        again.desk.inner.recover(chunk, seq, [(seq, 1)], b"", 0)
    again.desk.host.recovered(2)
    again.go_on()
    assert bodies(queue) == [b"b"]
    again.confirm(queue, 1)
    assert (again.dying, again.desk.inner.ready_count) == (0, 1)


def test_at_its_end_the_queues_hear_that_its_session_is_over() -> None:
    yard = Graveyard()
    queue = yard.exchange.bind(7)
    yard.begin()
    yard.publish(b"a")
    yard.reject(1)
    yard.desk.host.delete()
    yard.desk.inner.delete()
    (command,) = queue.commands
    assert isinstance(command, EndSession)


def test_a_queue_that_is_deleted_meanwhile_is_waited_for_no_more() -> None:
    yard = Graveyard()
    one, other = yard.exchange.bind(7), yard.exchange.bind(8)
    yard.begin()
    yard.publish(b"a")
    yard.reject(1)
    sexton = yard.desk.host._sexton
    assert sexton is not None
    sexton.on_gone(one.uid)
    assert yard.dying == 1
    yard.confirm(other, 1)
    assert yard.dying == 0


def test_a_message_that_is_accepted_leaves_as_ever() -> None:
    yard = Graveyard()
    yard.begin()
    yard.publish(b"a")
    yard.desk.settle(1, ACCEPT, [(1, 1)])
    yard.go_on()
    yard.desk.turn()
    assert (yard.dying, yard.desk.live()) == (0, 0)
    assert yard.desk.host._sexton is None
    assert yard.desk.host.uid == UID


def test_a_purge_takes_what_waits_for_its_dead_letter_as_well() -> None:
    yard = Graveyard()  # No queue is bound: letters wait.
    yard.begin()
    yard.publish(b"a", b"b")
    yard.reject(1)
    assert yard.dying == 1
    yard.desk.host.command(yard.desk.sink, Purge(yard.desk.sink.session))
    yard.desk.turn()
    yard.go_on()
    yard.desk.turn()
    assert (yard.dying, yard.buried()) == (0, [(1, 1)])
