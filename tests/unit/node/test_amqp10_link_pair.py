"""Pairs of links to /management, as frames: half pairs, bad requests, credit for the replies."""

import itertools

import pytest

from node.amqp10.link_pair import LinkPair, ManagementLinks, is_management
from node.amqp10.management import Management
from tests.unit.node.fake_managed import FakeManaged, FakeRequester
from tests.unit.wire.amqp10.peers import RECEIVER, SENDER, Raw, only
from warren.wire.amqp10.arrivals import Received
from warren.wire.amqp10.codec.message import Sections
from warren.wire.amqp10.codec.performatives import (
    Attach,
    Detach,
    Flow,
    Properties,
    Source,
    Target,
    Transfer,
)
from warren.wire.amqp10.codec.reader import Reader
from warren.wire.amqp10.codec.values import Described, ULong
from warren.wire.amqp10.codec.writer import encode_value
from warren.wire.amqp10.events import (
    AttachRequested,
    Event,
    Flowed,
    LinkDetached,
    LinkFailed,
    Withdrawn,
)
from warren.wire.amqp10.limits import Limits
from warren.wire.amqp10.link import Link
from warren.wire.amqp10.sender import Run

PAIR = {"paired": True}
ME = "$me"


def attach(handle: int, role: bool, **fields: object) -> Attach:
    values: dict[str, object] = {
        "name": "pair",
        "handle": handle,
        "role": role,
        "snd_settle_mode": 1,
        "source": Source(address="/management"),
        "target": Target(address="/management"),
        "initial_delivery_count": None if role else 0,
        "properties": PAIR,
    }
    return Attach(**(values | fields))  # type: ignore[arg-type]


def request(method: str | None, to: str | None, body: object = None, **fields: object) -> bytes:
    values: dict[str, object] = {"message_id": ULong(1), "reply_to": ME, **fields}
    properties = Properties(subject=method, to=to, **values)  # type: ignore[arg-type]
    return properties.encoded() + encode_value(Described(ULong(0x77), body))


class Room:
    """A raw client of a session that knows management links alone."""

    def __init__(self) -> None:
        self.raw = Raw(Limits(max_frame_size=1000))
        self.raw.open()
        self.core = self.raw.begin()
        self.broker = FakeManaged()
        self.marks = 0
        management = Management(FakeRequester(self.broker))
        self.links = ManagementLinks(self.core, management, self._mark, 1000)
        self._ids = itertools.count()

    def _mark(self) -> None:
        self.marks += 1

    def take(self, events: list[Event]) -> None:
        """As the session of a node does."""
        for event in events:
            if isinstance(event, AttachRequested):
                assert is_management(event.attach)
                self.links.attach(event.link, event.attach)
            elif isinstance(event, Received | Flowed | Withdrawn | LinkDetached | LinkFailed):
                pair = event.link.owner
                if not isinstance(pair, LinkPair):
                    continue
                if isinstance(event, Received):
                    pair.received(event.transfers)
                elif isinstance(event, Withdrawn):
                    pair.withdrawn(event.runs)
                elif isinstance(event, Flowed):
                    pair.flowed()
                else:
                    pair.leave(event.link)

    def fetch(self, link: Link, run: Run) -> bool:
        raise AssertionError("the bytes are there already")

    def sent(self, link: Link, run: Run, delivery_id: int, count: int) -> None:
        assert isinstance(link.owner, LinkPair)
        link.owner.sent(run)

    def answers(self) -> list[tuple[object, bytes]]:
        """(performative, payload) of what has come out."""
        self.core.write(self, 1 << 20)
        return [(each, payload) for _, each, payload in self.raw.frames()]

    def ask(self, payload: bytes, settled: bool = True) -> None:
        number = next(self._ids)
        fields = {"settled": settled, "payload": payload}
        self.take(self.raw.transfer(0, number, **fields))
        self.broker.commit()

    def grant(self, credit: int, count: int = 0) -> None:
        self.take(self.raw.flow(handle=1, delivery_count=count, link_credit=credit))

    def pair_up(self, credit: int = 100, **fields: object) -> None:
        self.take(self.raw.send(attach(0, SENDER)))
        self.take(self.raw.send(attach(1, RECEIVER, **fields)))
        if credit:
            self.grant(credit)
        self.answers()

    def replies(self) -> list[tuple[str | None, object, object]]:
        """(status, correlation-id, body) of the replies that have come out."""
        found = []
        for each, payload in self.answers():
            assert isinstance(each, Transfer | Flow), each
            if isinstance(each, Transfer):
                assert each.settled
                found.append(parsed(payload))
        return found

    def error(self) -> tuple[int, str, str]:
        """Handle, condition and description of the one detach."""
        [detach] = [each for each, _ in self.answers() if isinstance(each, Detach)]
        assert detach.error is not None and detach.closed
        return detach.handle, str(detach.error.condition), detach.error.description or ""


def parsed(payload: bytes) -> tuple[str | None, object, object]:
    sections = Sections()
    assert sections.walk(payload, 0, len(payload))
    assert sections.application_properties(payload) == {"http:response": "1.1"}
    properties = sections.properties(payload)
    body = Reader(payload, sections.body_at, sections.footer_at).value()
    assert isinstance(body, Described)
    return properties.subject, properties.correlation_id, body.value


@pytest.fixture
def room() -> Room:
    return Room()


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"properties": None}, "must have the property 'paired'"),
        ({"properties": {"paired": False}}, "must have the property 'paired'"),
        ({"properties": {"paired": 1}}, "must have the property 'paired'"),
        ({"snd_settle_mode": 0}, "must be settled by its sender"),
        ({"snd_settle_mode": 2}, "must be settled by its sender"),
    ],
)
@pytest.mark.parametrize("role", [SENDER, RECEIVER])
def test_a_link_that_cannot_be_half_of_a_pair_is_refused(
    room: Room, fields: dict[str, object], text: str, role: bool
) -> None:
    room.take(room.raw.send(attach(0, role, **fields)))
    handle, condition, description = room.error()
    assert (handle, condition) == (0, "amqp:precondition-failed") and text in description
    assert room.links.pairs == {}


def test_a_request_on_half_a_pair_costs_the_link(room: Room) -> None:
    room.take(room.raw.send(attach(0, SENDER)))
    room.answers()
    room.ask(request("GET", "/nodes"))
    text = "received transfer on half open management link pair"
    assert room.error() == (0, "amqp:precondition-failed", text)
    assert room.links.pairs == {}


def test_two_halves_of_different_names_are_two_half_pairs(room: Room) -> None:
    room.take(room.raw.send(attach(0, SENDER)))
    room.take(room.raw.send(attach(1, RECEIVER, name="other")))
    room.answers()
    room.ask(request("GET", "/nodes"))
    assert room.error()[1] == "amqp:precondition-failed"


@pytest.mark.parametrize(
    ("payload", "settled", "condition"),
    [
        (request("GET", "/nodes", message_id=None), True, "amqp:invalid-field"),
        (b"\x00\x53\x75\xa0\x01a", True, "amqp:invalid-field"),
        (request("GET", "/nodes"), False, "amqp:invalid-field"),
        (b"\x00\x53\x77", True, "amqp:decode-error"),
        (
            b"\x00\x53\x73\xc0\x08\x02\xa1\x01a\x40\xa1\x01\xff\x00\x53\x77\x40",
            True,
            "amqp:decode-error",
        ),
    ],
)
def test_a_request_that_cannot_be_answered_costs_the_link(
    room: Room, payload: bytes, settled: bool, condition: str
) -> None:
    room.pair_up()
    room.ask(payload, settled)
    assert room.error()[:2] == (0, condition)


def test_a_request_larger_than_a_frame_costs_the_link(room: Room) -> None:
    room.pair_up()
    whole = request("GET", "/" + "a" * 1500)
    for first, more in ((0, True), (800, False)):
        fields = {"settled": True, "more": more, "payload": whole[first : first + 800]}
        room.take(room.raw.transfer(0, 0, **fields))
    assert room.error()[:2] == (0, "amqp:link:message-size-exceeded")


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (request(None, "/nodes"), "'to' and 'subject'"),
        (request("GET", None), "'to' and 'subject'"),
        (request("GET", "/nodes", reply_to="/queues/q"), "the 'reply-to' of a request"),
        (request("GET", "/nodes", reply_to=None), "the 'reply-to' of a request"),
        (request("GET", "nodes"), "bad path 'nodes'"),
        (
            Properties(message_id=ULong(1), to="/nodes", subject="GET", reply_to=ME).encoded()
            + b"\x00\x53\x75\xa0\x01a",
            "must be one value",
        ),
        (
            Properties(message_id=ULong(1), to="/nodes", subject="GET", reply_to=ME).encoded()
            + b"\x00\x53\x77\xc1\x05\x04\x41\x40\x41\x40",
            "does not decode",
        ),
    ],
)
def test_a_bad_request_is_answered_and_the_pair_goes_on(
    room: Room, payload: bytes, text: str
) -> None:
    room.pair_up()
    room.ask(payload)
    [(status, request_id, body)] = room.replies()
    assert (status, request_id) == ("400", 1) and isinstance(body, str) and text in body
    room.ask(request("GET", "/nodes"))
    assert room.replies()[0][0] == "200"


def test_a_pair_may_be_attached_in_either_order_and_has_credit_for_8_requests(room: Room) -> None:
    room.take(room.raw.send(attach(1, RECEIVER)))
    room.take(room.raw.send(attach(0, SENDER)))
    frames = [each for each, _ in room.answers()]
    for each in only(frames, Attach):
        assert each.properties == PAIR and each.snd_settle_mode == 1
    [flow] = [each for each in only(frames, Flow) if each.handle == 0]
    assert flow.link_credit == 8


def test_every_request_is_answered_with_its_own_id_and_in_its_type(room: Room) -> None:
    room.pair_up()
    for request_id in (ULong(7), "seven", b"\x07"):
        room.ask(request("PUT", "/queues/q", {}, message_id=request_id))
    answers = room.replies()
    assert [status for status, _, _ in answers] == ["201", "200", "200"]
    ids = [request_id for _, request_id, _ in answers]
    assert ids == [ULong(7), "seven", b"\x07"] and type(ids[0]) is ULong


def test_a_request_without_a_body_is_one_with_null(room: Room) -> None:
    room.pair_up()
    properties = Properties(message_id="a", to="/exchanges/x", subject="PUT", reply_to=ME)
    room.ask(properties.encoded())
    assert room.replies() == [("204", "a", None)]


def test_replies_wait_for_credit_and_hold_back_the_credit_of_requests(room: Room) -> None:
    room.pair_up(credit=0)
    for _ in range(8):
        room.ask(request("GET", "/nodes"))
    assert room.replies() == []
    room.grant(3)
    assert len(room.replies()) == 3
    room.grant(100, 3)
    assert len(room.replies()) == 5


def test_replies_to_come_take_the_credit_of_requests(room: Room) -> None:
    room.pair_up()
    for number in range(8):
        room.take(
            room.raw.transfer(
                0, number, settled=True, payload=request("PUT", f"/exchanges/{number}")
            )
        )
    assert room.answers() == []
    room.broker.commit()
    frames = room.answers()
    [flow] = only([each for each, _ in frames], Flow)
    assert (flow.handle, flow.delivery_count, flow.link_credit) == (0, 8, 8)
    assert len(only([each for each, _ in frames], Transfer)) == 8


def test_replies_that_the_client_takes_credit_from_wait_again(room: Room) -> None:
    room.pair_up(credit=2)
    room.ask(request("GET", "/nodes", message_id="a"))
    room.ask(request("GET", "/nodes", message_id="b"))
    room.grant(0)
    assert room.replies() == []
    room.grant(2)
    assert [request_id for _, request_id, _ in room.replies()] == ["a", "b"]


def test_a_drain_of_the_replies_is_answered_at_once(room: Room) -> None:
    room.pair_up(credit=5)
    room.take(room.raw.flow(handle=1, delivery_count=0, link_credit=5, drain=True))
    [flow] = only([each for each, _ in room.answers()], Flow)
    assert (flow.delivery_count, flow.link_credit, flow.drain) == (5, 0, True)


def test_a_reply_that_is_too_large_for_the_link_is_replaced(room: Room) -> None:
    room.pair_up(max_message_size=150)
    room.ask(request("PUT", "/queues/q", {}))
    [(status, _, body)] = room.replies()
    assert status == "413" and isinstance(body, str)


def test_replies_whose_link_has_gone_are_dropped(room: Room) -> None:
    room.pair_up()
    room.take(room.raw.transfer(0, 0, settled=True, payload=request("PUT", "/exchanges/x")))
    room.take(room.raw.send(Detach(handle=1, closed=True)))
    room.broker.commit()
    assert [type(each) for each, _ in room.answers()] == [Detach]
    room.take(room.raw.send(attach(1, RECEIVER)))
    room.grant(1)
    room.take(room.raw.transfer(0, 1, settled=True, payload=request("GET", "/nodes")))
    room.answers()
    room.take(room.raw.send(Detach(handle=0, closed=True)))
    room.take(room.raw.send(Detach(handle=1, closed=True)))
    assert room.links.pairs == {}
