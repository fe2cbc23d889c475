"""Messages of shovels from and to AMQP 1.0, and the parameters of such shovels."""

import pytest

from federation.converting import Annotating, annotated, as_amqp091, as_amqp10
from federation.republishing import Rewriting
from federation.shovel_parameters import local_vhosts, shovel_faults
from tests.unit.wire.test_forward import delivery
from warren.client.message import Message, decode_message
from warren.wire.amqp091.deliver import extract
from warren.wire.amqp091.properties import BasicProperties, decode_properties

NOW_MS = 1_700_000_000_123


def test_message_without_annotations_to_add_keeps_its_bytes() -> None:
    payload = Message(b"body", subject="s").encode()
    assert annotated(payload, Annotating(), NOW_MS) == payload


def test_annotations_are_added_and_bare_message_is_unchanged() -> None:
    payload = Message(b"body", subject="s", annotations={"x-mine": 1}).encode()
    how = Annotating({"x-opt-shovel-name": "mover"}, stamped=True)
    made = annotated(payload, how, NOW_MS)
    assert decode_message(made, 0, len(made)).annotations == {
        "x-mine": 1,
        "x-opt-shovel-name": "mover",
        "x-opt-shovelled-timestamp": NOW_MS,
    }
    bare = payload[payload.index(b"\x00\x53\x73") :]
    assert made.endswith(bare)


@pytest.mark.parametrize(
    ("how", "exchange", "key"),
    [
        (Rewriting("", b"q", mandatory=True), "", b"q"),
        (Rewriting("amq.topic"), "amq.topic", b"the.subject"),
        (Rewriting(), "", b"the.subject"),
        (Rewriting("x", b"k"), "x", b"k"),
    ],
)
def test_amqp10_message_is_published_with_its_subject_unless_the_shovel_has_a_key(
    how: Rewriting, exchange: str, key: bytes
) -> None:
    message = Message(b"body", subject="the.subject", application_properties={"n": 7})
    content = as_amqp091(message.encode(), how, 0)
    found = extract(content, 0, len(content))
    assert (found[0], found[1], found[3]) == (exchange, key, b"body")
    assert decode_properties(found[2]).headers == {"n": 7}


def test_amqp091_delivery_keeps_its_exchange_and_routing_key_over_amqp10_and_back() -> None:
    content = delivery(BasicProperties(headers={"n": 7}), b"body")
    made = as_amqp10(content, Annotating({"x-opt-shovel-name": "mover"}), NOW_MS)
    message = decode_message(made, 0, len(made))
    assert message.annotations == {
        "x-exchange": "there",
        "x-routing-key": "a.key",
        "x-opt-shovel-name": "mover",
    }
    back = as_amqp091(made, Rewriting("x"), 0)
    exchange, key, _, body = extract(back, 0, len(back))
    assert (exchange, key, body) == ("x", b"a.key", b"body")


ENDS = {"src-uri": "amqp://h", "dest-uri": "amqp://h"}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"src-protocol": "amqp10", "dest-queue": "q"}, 'Key "src-address" not found in s'),
        ({"dest-protocol": "amqp10", "src-queue": "q"}, 'Key "dest-address" not found in s'),
        (
            {"src-protocol": "amqp10", "src-address": "a", "src-delete-after": "queue-length"},
            'src-delete-after should be a number greater than or equal to 0 or "never", '
            'actually was <<"queue-length">>',
        ),
        (
            {
                "src-protocol": "amqp10",
                "src-address": "a",
                "src-delete-after": 5,
                "ack-mode": "no-ack",
            },
            "Cannot specify 'no-ack' and numerical 'delete-after'",
        ),
        ({"src-protocol": "local"}, "Must specify 'src-exchange' or 'src-queue'"),
        (
            {"src-protocol": "mqtt", "src-queue": "q"},
            'src-protocol should be one of [amqp10,amqp091,local], actually was <<"mqtt">>',
        ),
    ],
)
def test_parameter_is_refused_with_the_text_of_rabbitmq(
    value: dict[str, object], text: str
) -> None:
    assert shovel_faults("s", ENDS | value) == [text]


def test_local_protocol_makes_the_host_of_the_uri_irrelevant() -> None:
    value = {**ENDS, "src-uri": "amqp://elsewhere/v", "src-protocol": "local"}
    assert local_vhosts(value) == ["v"]
    assert local_vhosts({**value, "src-uri": "amqp://user@elsewhere/v"}) == []


OWN_ID: dict[str, object] = {"_AMQ_DUPL_ID": "own"}


@pytest.mark.parametrize(
    ("message", "annotations"),
    [
        (Message(b"body", message_id="m"), {"_AMQ_DUPL_ID": "v/s/q/m"}),
        (Message(b"body", message_id=7), {"_AMQ_DUPL_ID": "v/s/q/7"}),
        (Message(b"body"), {}),
        (Message(b"body", message_id="m", application_properties=OWN_ID), {}),
        (Message(b"body", message_id="m", annotations=OWN_ID), OWN_ID),
    ],
)
def test_a_marked_message_has_the_id_of_its_publisher_or_its_message_id(
    message: Message, annotations: dict[str, object]
) -> None:
    made = annotated(message.encode(), Annotating(scope="v/s/q"), NOW_MS)
    assert decode_message(made, 0, len(made)).annotations == annotations


def test_the_number_of_a_quorum_queue_is_the_id_over_amqp10() -> None:
    headers: dict[str, object] = {"x-delivery-id": "c/1/0/9", "n": 7}
    content = delivery(BasicProperties(headers=headers, message_id="m"), b"body")
    made = as_amqp10(content, Annotating(scope="v/s/q"), NOW_MS)
    message = decode_message(made, 0, len(made))
    assert message.application_properties == {"n": 7, "_AMQ_DUPL_ID": "c/1/0/9"}
    assert "_AMQ_DUPL_ID" not in message.annotations
