"""The ids by which queues leave out what a link brings a second time."""

import pytest

from federation.marking import mark_id

OWN = "00ab/7/0/12"


@pytest.mark.parametrize(
    ("headers", "message_id", "marked"),
    [
        ({}, None, {}),
        ({}, "", {}),
        ({"x-delivery-id": OWN}, None, {"_AMQ_DUPL_ID": OWN}),
        ({"x-delivery-id": OWN}, "order-5", {"_AMQ_DUPL_ID": OWN}),
        ({"a": 1}, "order-5", {"a": 1, "_AMQ_DUPL_ID": "up/orders/order-5"}),
        ({"x-delivery-id": OWN, "_AMQ_DUPL_ID": "own"}, None, {"_AMQ_DUPL_ID": "own"}),
        (
            {"x-delivery-id": OWN, "x-deduplication-header": "own"},
            "order-5",
            {"x-deduplication-header": "own"},
        ),
    ],
)
def test_the_id_of_the_publisher_counts_more_than_that_of_the_queue(
    headers: dict[str, object], message_id: str | None, marked: dict[str, object]
) -> None:
    mark_id(headers, message_id, "up/orders")
    assert headers == marked
