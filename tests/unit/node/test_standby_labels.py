"""Messages of a primary get a label in the standby, and are else as they were."""

import pytest

from node.standby.labels import KEY, Label, label_of, labelled, parse_label
from node.standby.stored_runs import StoredRun, digest
from queues.message import FORMAT_091, FORMAT_10
from warren.client.message import Message
from warren.wire.amqp091.deliver import build, extract
from warren.wire.amqp091.properties import BasicProperties, decode_properties
from warren.wire.amqp10.transfers import store


def stored_091(number: int, headers: dict[str, object] | None) -> bytes:
    properties = BasicProperties(headers=headers, message_id=str(number), delivery_mode=2)
    return build("x", b"key", properties.encode(), b"body %d" % number)


def run_of(format_tag: int, messages: list[bytes]) -> StoredRun:
    return StoredRun(40, format_tag, 0, b"", [len(each) for each in messages], b"".join(messages))


@pytest.mark.parametrize("headers", [None, {"a": 1}, {KEY: "old label"}])
def test_label_of_amqp091_is_a_header(headers: dict[str, object] | None) -> None:
    messages = [stored_091(number, headers) for number in range(3)]
    chunk = labelled(run_of(FORMAT_091, messages), 7, 9)
    assert chunk.count() == 3 and chunk.data is not None
    for place, message in enumerate(messages):
        start, end = chunk.span(place)
        made = chunk.data[start:end]
        label = Label(7, 9, 40 + place, digest(message))
        assert label_of(FORMAT_091, made) == label
        exchange, key, encoded, body = extract(made, 0, len(made))
        assert (exchange, key, body) == ("x", b"key", b"body %d" % place)
        properties = decode_properties(encoded)
        kept = {name: each for name, each in (headers or {}).items() if name != KEY}
        assert properties.headers == {**kept, KEY: label.encode()}
        assert (properties.message_id, properties.delivery_mode) == (str(place), 2)


def test_label_of_amqp10_is_a_message_annotation() -> None:
    message = store(Message(b"body", subject="s").encode())
    chunk = labelled(run_of(FORMAT_10, [message]), 7, 9)
    assert chunk.data is not None
    assert label_of(FORMAT_10, chunk.data) == Label(7, 9, 40, digest(message))
    assert chunk.data.endswith(message[-8:])


@pytest.mark.parametrize("text", ["", "1.2.3", "1.2.3.zz", "x.2.3.00", "1.2.3.00.4", None, 5])
def test_what_is_no_label_is_none(text: object) -> None:
    assert parse_label(text) is None


def test_messages_without_a_label_are_told_apart() -> None:
    assert label_of(FORMAT_091, stored_091(1, {"a": 1})) is None
    assert label_of(FORMAT_10, store(Message(b"body").encode())) is None
