"""Messages under way that are called off: before a detach, and when a queue takes all back."""

from tests.unit.wire.amqp10.peers import (
    MESSAGE,
    RECEIVER,
    AllThere,
    Raw,
    data_section,
    only,
    run_of,
    write_all,
)
from warren.wire.amqp10.arrivals import Received
from warren.wire.amqp10.codec.performatives import Detach, Flow, Performative, Transfer
from warren.wire.amqp10.errors import Condition, ProtocolError, Scope
from warren.wire.amqp10.link import Link
from warren.wire.amqp10.session import Session

LARGE = data_section(b"x" * 3_000)
GONE = ProtocolError(Condition.RESOURCE_DELETED, "queue 'q' was deleted", Scope.LINK)


class Harness:
    """A session with a consumer whose large message is under way: `window` frames of seven."""

    def __init__(self, window: int, credit: int = 10) -> None:
        self.raw = Raw()
        self.raw.open(max_frame_size=512)
        self.session: Session = self.raw.begin(window=window)
        self.link: Link = self.raw.attach(0, RECEIVER)
        self.sent = AllThere()
        self.raw.flow(handle=0, delivery_count=0, link_credit=credit)
        self.raw.bytes_out()
        self.session.take_queue_credits()
        self.session.offer(self.link, run_of([LARGE, MESSAGE, MESSAGE]))
        self.session.write(self.sent, 1_000)

    def answers(self) -> list[Performative]:
        return self.raw.answers()


def test_a_message_under_way_is_aborted_before_its_link_is_detached() -> None:
    harness = Harness(window=100)
    first = harness.answers()
    assert all(isinstance(each, Transfer) and each.more for each in first)
    harness.session.detach(harness.link, GONE)
    abort, detach = harness.answers()
    assert isinstance(abort, Transfer)
    assert (abort.handle, abort.delivery_id, abort.aborted) == (0, 0, True)
    assert not abort.more
    assert isinstance(detach, Detach)
    assert detach.error is not None


def test_a_peer_takes_nothing_of_an_aborted_message_and_the_next_one_whole() -> None:
    sender, taker = Harness(window=100), Raw()
    taker.open()
    taker.begin()
    taker.attach(0, False)
    assert sender.session.renew(sender.link)
    sender.session.offer(sender.link, run_of([MESSAGE], first=9))
    write_all(sender.session, sender.sent)
    data = sender.raw.bytes_out()
    received = only(taker.feed(data), Received)
    assert [each.transfers.delivery_id for each in received] == [1]
    assert sender.sent.ids == [(1, 0, 1), (9, 1, 1)]


def test_without_a_window_nothing_is_aborted_and_the_link_is_detached_alone() -> None:
    harness = Harness(window=2)
    assert len(harness.answers()) == 2
    assert not harness.session.renew(harness.link)
    harness.session.detach(harness.link, GONE)
    [detach] = harness.answers()
    assert isinstance(detach, Detach)


def test_a_link_that_the_peer_detaches_is_sent_nothing_more() -> None:
    harness = Harness(window=100)
    harness.answers()
    harness.raw.send(Detach(handle=0, closed=True))
    [detach] = harness.answers()
    assert isinstance(detach, Detach)


def test_a_queue_that_took_all_back_is_asked_again_for_the_credit_that_is_left() -> None:
    harness = Harness(window=100, credit=10)
    harness.answers()
    sender = harness.link.sender
    assert sender is not None
    assert (sender.credit, sender.waiting, sender.arrived) == (9, 2, 3)
    assert harness.session.renew(harness.link)
    [(link, credit)] = harness.session.take_queue_credits()
    assert link is harness.link
    assert (credit.arrived, credit.credit, credit.drain) == (3, 9, False)
    assert (sender.waiting, len(sender.runs)) == (0, 0)
    assert not harness.session.has_work()


def test_a_drain_that_the_queue_forgot_is_asked_for_again() -> None:
    harness = Harness(window=100, credit=3)
    harness.answers()
    harness.raw.flow(handle=0, delivery_count=1, link_credit=5, drain=True)
    [(_, asked)] = harness.session.take_queue_credits()
    assert asked.drain
    assert harness.session.renew(harness.link)
    [(_, again)] = harness.session.take_queue_credits()
    assert (again.arrived, again.credit, again.drain) == (3, 5, True)
    harness.session.drained(harness.link, 3 + 5)
    flows = [each for each in harness.answers() if isinstance(each, Flow)]
    assert [(each.delivery_count, each.link_credit, each.drain) for each in flows] == [(6, 0, True)]


def test_a_link_that_is_over_is_not_renewed() -> None:
    harness = Harness(window=100)
    harness.session.detach(harness.link, GONE)
    assert not harness.session.renew(harness.link)
