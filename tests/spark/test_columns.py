"""Arrow batches of stream messages, without Spark and without a broker."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow")

from tests.unit.wire.amqp10.test_rows import encoded, run_of
from warren.client import Message
from warren.spark.columns import COLUMNS, Batches, body_of
from warren.wire.amqp10.codec.values import Symbol
from warren.wire.amqp10.rows import StreamRows


def rows_of(first: int, messages: list[Message], *, cut: int = 1) -> list[dict[str, Any]]:
    """What the batch of these messages has, which came in runs of `cut` messages."""
    rows = StreamRows(body_of)
    payloads = encoded(first, messages)
    for at in range(0, len(payloads), cut):
        rows.add(run_of(payloads[at : at + cut]), first + len(messages))
    assert rows.is_complete
    batch = Batches("orders").of(rows)
    batch.validate(full=True)
    assert batch.schema == COLUMNS
    found: list[dict[str, Any]] = batch.to_pylist(maps_as_pydicts="strict")
    return found


def taken(messages: list[Message]) -> StreamRows:
    rows = StreamRows(body_of)
    rows.add(run_of(encoded(7, messages)), 7 + len(messages))
    return rows


def test_a_batch_has_its_own_sections_whatever_the_batch_before_had() -> None:
    one = Message(b"a", application_properties={"from": "one"}, priority=3)
    other = Message(b"b", application_properties={"from": "other"}, annotations={"x-opt": "o"})
    batches = Batches("orders")
    for messages in (
        [one] * 3,
        [one],
        [one] * 5,
        [other] * 2,
        [other, one],
        [other] * 3,
        [one] * 3,
    ):
        found = batches.of(taken(messages))
        found.validate(full=True)
        assert found == Batches("orders").of(taken(messages))
        assert [each["priority"] for each in found.to_pylist()] == [
            each.priority for each in messages
        ]


def test_a_batch_has_the_values_of_each_message_in_order() -> None:
    first, second, third = rows_of(
        7,
        [
            Message(b"one", annotations={"x-exchange": "e", "x-routing-key": "k", "x-opt": 1}),
            Message("ü", message_id=5, application_properties={"a": 1, "b": None}, priority=3),
            Message(
                b"",
                correlation_id="c",
                content_type="text/plain",
                reply_to="/queues/r",
                user_id=b"guest",
                creation_time=1_500,
                ttl_ms=60_000,
                durable=False,
                application_properties={"z": "y"},
            ),
        ],
    )
    assert {each["queue"] for each in (first, second, third)} == {"orders"}
    assert [each["offset"] for each in (first, second, third)] == [7, 8, 9]
    assert [each["body"] for each in (first, second, third)] == [b"one", "ü".encode(), b""]
    assert (first["exchange"], first["routing_key"]) == ("e", "k")
    assert first["annotations"] == {"x-opt": "1"}
    assert (first["durable"], first["priority"], first["expiration_ms"]) == (True, None, None)
    assert first["headers"] is None and first["deaths"] is None and first["timestamp"] is None
    assert (second["exchange"], second["message_id"], second["priority"]) == (None, "5", 3)
    assert second["headers"] == {"a": "1", "b": None} and second["annotations"] is None
    assert (third["message_id"], third["correlation_id"]) == (None, "c")
    assert (third["content_type"], third["reply_to"]) == ("text/plain", "/queues/r")
    assert (third["user_id"], third["durable"], third["expiration_ms"]) == ("guest", False, 60_000)
    assert third["timestamp"].isoformat() == "1970-01-01T00:00:01.500000+00:00"


TEXTS = st.text(max_size=4)
NAMES = st.text("abc-", max_size=3).map(lambda text: f"x-{text}")
NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1)
BODIES = st.one_of(st.binary(max_size=300), NUMBERS, st.text(max_size=9))
SAID = st.builds(
    Message,
    BODIES,
    durable=st.booleans(),
    message_id=st.one_of(st.none(), TEXTS, st.integers(0, 9)),
    application_properties=st.dictionaries(TEXTS, st.one_of(TEXTS, NUMBERS), max_size=2),
    annotations=st.dictionaries(NAMES, TEXTS, max_size=2),
)


@given(
    st.lists(SAID, min_size=1, max_size=12), st.sampled_from([0, 250, 1 << 33]), st.integers(1, 5)
)
def test_values_that_are_made_once_are_those_of_each_message(
    messages: list[Message], first: int, cut: int
) -> None:
    found = rows_of(first, messages, cut=cut)
    assert [each["offset"] for each in found] == list(range(first, first + len(messages)))
    for row, message in zip(found, messages, strict=True):
        body = message.body
        assert row["body"] == (body if isinstance(body, bytes) else str(body).encode())
        assert row["durable"] == message.durable
        wanted = message.message_id
        assert row["message_id"] == (None if wanted is None else str(wanted))
        for column, given_ in (
            ("headers", message.application_properties),
            ("annotations", message.annotations),
        ):
            assert row[column] == ({k: str(v) for k, v in given_.items()} or None)


def test_symbols_are_texts() -> None:
    [row] = rows_of(0, [Message(b"", annotations={"x-s": Symbol("s")})])
    assert row["annotations"] == {"x-s": "s"}


def test_maps_and_lists_are_json() -> None:
    annotations: dict[str, object] = {
        "x-properties": {"message_id": "m", "headers": {"a": [1, None, True]}, "raw": b"\xc3\xbc"},
        "x-routed-queues": ["a", "ü"],
        "x-flag": True,
    }
    (row,) = rows_of(0, [Message(b"", annotations=annotations)])
    assert row["annotations"] == {
        "x-properties": '{"message_id": "m", "headers": {"a": [1, null, true]}, "raw": "ü"}',
        "x-routed-queues": '["a", "ü"]',
        "x-flag": "True",
    }


def test_messages_of_a_queue_have_no_offsets() -> None:
    rows = StreamRows(body_of)
    plain = [Message(b"a", message_id="m"), Message(b"b", annotations={"x-exchange": "e"})]
    rows.add_plain(run_of([each.encode() for each in plain]))
    found = Batches("orders").of(rows)
    found.validate(full=True)
    assert found.column("offset").null_count == 2
    assert found.column("body").to_pylist() == [b"a", b"b"]
    assert found.column("exchange").to_pylist() == [None, "e"]
    assert found.column("message_id").to_pylist() == ["m", None]
