"""Messages, URLs and link states of the client."""

from uuid import UUID

import pytest

from tests.unit.wire.amqp10.peers import data_section
from warren.client.message import Message, decode_message, try_decode
from warren.client.state import LinkState
from warren.client.url import BrokerUrl, parse_url
from warren.wire.amqp10.codec.performatives import Properties
from warren.wire.amqp10.codec.values import Array, Described, UInt, ULong
from warren.wire.amqp10.codec.writer import encode_value


@pytest.mark.parametrize(
    "message",
    [
        Message(b""),
        Message(b"x" * 300, durable=False),
        Message("text", priority=7, ttl_ms=60_000),
        Message(None),
        Message({"a": [1, UInt(2), None]}, annotations={"x-opt-a": 1}),
        Message(
            b"all",
            message_id=UUID(int=5),
            user_id=b"guest",
            to="/queues/q",
            subject="s",
            reply_to="/queues/r",
            correlation_id=ULong(9),
            content_type="text/plain",
            content_encoding="utf-8",
            absolute_expiry_time=1_700_000_000_000,
            creation_time=1_600_000_000_000,
            group_id="g",
            group_sequence=4,
            reply_to_group_id="h",
            application_properties={"k": "v", "n": 3.5},
        ),
    ],
)
def test_a_message_reads_as_it_was_written(message: Message) -> None:
    encoded = message.encode()
    assert decode_message(b"..." + encoded, 3, 3 + len(encoded)) == message


def test_several_sections_of_a_body_are_one() -> None:
    both = data_section(b"a") + data_section(b"b")
    assert decode_message(both, 0, len(both)).body == b"ab"
    lists = b"".join(encode_value(Described(ULong(0x76), [n])) for n in (1, 2))
    assert decode_message(lists, 0, len(lists)).body == [[1], [2]]


def test_a_body_that_does_not_decode_is_given_as_it_came() -> None:
    broken = Properties(subject="s").encoded() + b"\x00\x53\x77\xc1\x05\x04\x41\x40\x41\x40"
    assert try_decode(broken, 0, len(broken)).body == broken


@pytest.mark.parametrize(
    ("url", "parsed", "hostname"),
    [
        ("amqp://h", BrokerUrl("h", 5672, False, "", "", ""), "h"),
        ("amqps://u:p%40@h:1/", BrokerUrl("h", 1, True, "u", "p@", ""), "h"),
        ("amqp://u:p@[::1]/%2F", BrokerUrl("::1", 5672, False, "u", "p", "/"), "vhost:/"),
        ("amqp://u@h/a%20b", BrokerUrl("h", 5672, False, "u", "", "a b"), "vhost:a b"),
    ],
)
def test_the_parts_of_a_url_are_found(url: str, parsed: BrokerUrl, hostname: str) -> None:
    assert parse_url(url) == parsed
    assert parsed.hostname == hostname


def test_short_flows_keep_what_full_ones_told() -> None:
    full = LinkState().merged(
        {
            "local": False,
            "local-replica": True,
            "leader": "n2",
            "leader-endpoints": Array("string", ["amqp://n2"]),
            "replicas": ["n1", "n2"],
            "leader-epoch": ULong(7),
            "state": "running",
        }
    )
    assert full.leader_endpoints == ("amqp://n2",) and full.replicas == ("n1", "n2")
    short = full.merged({"local": True, "leader-epoch": ULong(7)})
    assert (short.local, short.leader, short.local_replica) == (True, "n2", True)
    assert short.merged({"leader-epoch": 6, "leader": "n3"}).leader == "n2"
    strange = full.merged({"local": 1, "leader-endpoints": "no", "retry-after-ms": "soon"})
    assert (strange.local, strange.leader_endpoints) == (False, ("amqp://n2",))
