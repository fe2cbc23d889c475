"""Headers CC and BCC, and what else routing reads in a stored message."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.routing.content import Content091, NoContent
from queues.routing.copies import copies_of, may_copy, may_copy_at, without_hidden
from tests.unit.queues.definitions.steps import Steps
from tests.unit.wire.frames import BOUNDED, message, opened
from tests.unit.wire.test_properties import all_properties
from warren.wire.amqp091.deliver import extract
from warren.wire.amqp091.events import Publishes
from warren.wire.amqp091.properties import BasicProperties, decode_properties
from warren.wire.amqp091.values import Float32
from warren.wire.errors import ProtocolError


def with_headers(headers: dict[str, object] | None, body: bytes = b"") -> bytes:
    return message(1, body, properties=BasicProperties(headers=headers, user_id="u"))


@pytest.mark.parametrize(
    ("headers", "keys", "hidden"),
    [
        (None, (), False),
        ({}, (), False),
        ({"cc": ["a"]}, (), False),
        ({"CC": ["a", "b"]}, (b"a", b"b"), False),
        ({"BCC": ["c"]}, (b"c",), True),
        ({"BCC": ["c"], "CC": ["a"]}, (b"a", b"c"), True),
        ({"CC": [], "BCC": []}, (), True),
        ({"CC": ["a", 1, None, ["b"], True, "d"]}, (b"a", b"d"), False),
        ({"CC": ["å", b"\xff", "k" * 300]}, ("å".encode(), b"\xff", b"k" * 300), False),
    ],
)
def test_texts_in_cc_and_bcc_are_keys(
    headers: dict[str, object] | None, keys: tuple[bytes, ...], hidden: bool
) -> None:
    copies = copies_of(b"##" + with_headers(headers), 2)
    assert (copies.keys, copies.hidden, copies.fault) == (keys, hidden, "")


@pytest.mark.parametrize("name", ["CC", "BCC"])
@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("a", "longstr"),
        (1, "signedint"),
        (2**40, "long"),
        (True, "bool"),
        (None, "void"),
        ({"a": "b"}, "table"),
        (Float32(1.5), "float"),
        (bytearray(b"a"), "binary"),
    ],
)
def test_another_type_than_an_array_is_refused(name: str, value: object, kind: str) -> None:
    copies = copies_of(with_headers({name: value}), 0)
    expected = f'invalid message: {{unacceptable_type_in_header,"{name}",{kind}}}'
    assert (copies.fault, copies.keys) == (expected, ())


def test_headers_that_are_malformed_are_the_peer_s_fault() -> None:
    data = with_headers({"CC": ["ab"]}).replace(b"\x00\x00\x00\x02ab", b"\x00\x00\x00\x09ab")
    with pytest.raises(ProtocolError, match="FRAME_ERROR"):
        copies_of(data, 0)


def test_bcc_is_taken_out_and_everything_else_stays() -> None:
    headers: dict[str, object] = {"a": 1, "BCC": ["x"], "CC": ["y"]}
    data = with_headers(headers, b"body")
    cut = without_hidden(b"#" + data + b"##", 1, 1 + len(data))
    assert cut == with_headers({"a": 1, "CC": ["y"]}, b"body")
    alone = with_headers({"BCC": ["x"]})
    left = without_hidden(alone, 0, len(alone))
    assert decode_properties(extract(left, 0, len(left))[2]).headers == {}


def run_of(*messages: bytes) -> Publishes:
    [event] = opened(1).receive(b"".join(messages), 0)
    assert isinstance(event, Publishes)
    return event


def test_the_letters_of_cc_in_other_names_and_values_cost_no_look() -> None:
    for name, value in (("ACCOUNT", "1"), ("status", "SUCCESS"), ("CCS", "a")):
        headers: dict[str, object] = {name: value}
        assert not may_copy_at(message(1, b"", properties=BasicProperties(headers=headers)), 0)


def test_an_event_is_looked_through_only_where_there_are_headers() -> None:
    plain = message(1, b"\x02CC\x03BCC", b"CC", BasicProperties(message_id="CC"))
    other = with_headers({"a": "b"}, b"CC" * 9)
    assert not may_copy(run_of(plain, plain))
    assert not may_copy(run_of(other, plain, other))
    for name in ("CC", "BCC"):
        copied = with_headers({"a": 1, name: ["b"]})
        for place in range(4):
            messages = [plain, other, other]
            messages.insert(place, copied)
            assert may_copy(run_of(*messages))


@BOUNDED
@given(all_properties, st.sampled_from(["CC", "BCC"]), st.integers(0, 9))
def test_no_copy_is_ever_missed(one: BasicProperties, name: str, before: int) -> None:
    one.headers = (one.headers or {}) | {name: ["x"]}
    assert may_copy_at(b"#" * before + message(1, b"", properties=one), before)


def test_a_message_goes_wherever_one_of_its_keys_leads() -> None:
    steps = Steps()
    uids = [steps.queue(name).uid for name in ("a", "b", "c")]
    for kind in ("amq.direct", "amq.topic"):
        steps.bind(kind, "a", b"a")
        steps.bind(kind, "b", b"b")
    steps.link("amq.topic", "amq.fanout", b"far.#")
    steps.bind("amq.fanout", "c")
    route = steps.router.route
    assert route("", b"a", None, (b"b", b"a", b"absent")).queues == tuple(uids[:2])
    assert route("amq.direct", b"", None, (b"b",)).queues == (uids[1],)
    assert route("amq.topic", b"a", None, (b"far.away", b"b")).queues == tuple(uids)
    assert route("amq.topic", b"absent", None, (b"none",)).queues == ()
    assert route("amq.fanout", b"any", None, (b"b",)).queues == (uids[2],)


def test_the_alternate_gets_what_none_of_the_keys_led_to() -> None:
    steps = Steps()
    queue, spare = steps.queue("q"), steps.queue("spare")
    steps.exchange("x", arguments={"alternate-exchange": "amq.fanout"})
    steps.bind("x", "q", b"k")
    steps.bind("amq.fanout", "spare")
    assert steps.router.route("x", b"none", None, (b"k",)).queues == (queue.uid,)
    assert steps.router.route("x", b"none", None, (b"no",)).queues == (spare.uid,)


def test_the_first_key_alone_is_hashed_or_drawn_for() -> None:
    for kind in ("x-consistent-hash", "x-modulus-hash", "x-random"):
        steps = Steps()
        steps.exchange("x", kind)
        for number in range(9):
            steps.queue(f"q{number}")
            steps.bind("x", f"q{number}", b"1")
        many = tuple(b"%d" % number for number in range(50))
        route = steps.router.route("x", b"first", None, many)
        assert len(route.queues) == 1
        if kind != "x-random":
            assert route.queues == steps.route("x", b"first")


@BOUNDED
@given(all_properties, st.integers(0, 5))
def test_routing_reads_headers_and_properties_in_place(one: BasicProperties, before: int) -> None:
    content = Content091(b"#" * before + message(1, b"x", properties=one) + b"#", before)
    assert content.headers() == (one.headers or {})
    assert content.headers() is content.headers()
    assert content.text("message_id") == (one.message_id or "").encode()
    assert content.text("correlation_id") == (one.correlation_id or "").encode()
    expected = b"" if one.timestamp is None else b"%d" % one.timestamp
    assert content.text("timestamp") == expected


def test_a_message_of_which_nothing_is_known_is_empty() -> None:
    assert NoContent().headers() == {} and NoContent().text("message_id") == b""
