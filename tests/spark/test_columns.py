"""Arrow batches of stream messages, without Spark and without a broker."""

import pytest

pytest.importorskip("pyarrow")

from warren.client import Message
from warren.spark.stream_reads import COLUMNS, Rows


def test_batch_has_the_values_of_each_message_in_order() -> None:
    rows = Rows("orders")
    rows.add(7, Message(b"one", annotations={"x-exchange": "e", "x-routing-key": "k"}))
    rows.add(8, Message("ü", message_id=5, application_properties={"a": 1, "b": None}))
    rows.add(9, Message(b"", correlation_id="c", application_properties={"z": "y"}))
    assert rows.count == 3
    batch = rows.take()
    batch.validate(full=True)
    assert batch.schema == COLUMNS
    found = batch.to_pydict()
    assert found["queue"] == ["orders"] * 3
    assert found["exchange"] == ["e", None, None]
    assert found["routing_key"] == ["k", None, None]
    assert found["offset"] == [7, 8, 9]
    assert found["message_id"] == [None, "5", None]
    assert found["correlation_id"] == [None, None, "c"]
    assert found["headers"] == [[], [("a", "1"), ("b", None)], [("z", "y")]]
    assert found["body"] == [b"one", "ü".encode(), b""]


def test_taken_rows_are_not_in_the_next_batch() -> None:
    rows = Rows("orders")
    rows.add(1, Message(b"one"))
    rows.take()
    assert rows.count == 0
    rows.add(2, Message(b"two"))
    assert rows.take().to_pydict()["offset"] == [2]
