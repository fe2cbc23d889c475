"""Loops: which messages and bindings go on, by where they have been."""

from typing import Any

import pytest

from federation.hops import BOUND_FROM, bound_from, received_from, upstream_queue
from queues.routing.federation_upstream import RECEIVED_FROM, Place, should_forward

HERE = Place("here", "/", "id-1")
THERE = Place("there", "/", "id-2")
HOP = {"uri": "amqp://h", "exchange": "x"}


def after(*places: Place) -> dict[str, Any]:
    """Headers of a message that came through these places, the last one first."""
    headers: dict[str, Any] = {"kept": 1}
    for place in reversed(places):
        headers[RECEIVED_FROM] = received_from(headers, HOP, False, place)
    return headers


def test_a_hop_is_written_as_rabbitmq_does_and_with_the_cluster_id() -> None:
    (entry,) = received_from({}, HOP, True, THERE)
    assert entry == {
        "uri": "amqp://h",
        "exchange": "x",
        "redelivered": True,
        "cluster-name": "there",
        "vhost": "/",
        "cluster-id": "id-2",
    }
    unnamed = received_from({}, HOP, False, Place("", "/"))
    assert unnamed == [{**HOP, "redelivered": False, "vhost": "/"}]


@pytest.mark.parametrize(
    ("headers", "max_hops", "forwarded"),
    [
        ({}, 1, True),
        ({RECEIVED_FROM: "nonsense"}, 1, True),
        (after(THERE), 1, False),
        (after(THERE), 2, True),
        (after(THERE, Place("far", "/")), 2, False),
        (after(HERE), 9, False),
        (after(THERE, HERE), 9, False),
        (after(Place("here", "/")), 9, False),  # RabbitMQ tells no id: the name counts.
        (after(Place("here", "/", "id-9")), 9, True),  # another cluster of the same name
        (after(Place("here", "other", "id-1")), 9, True),
    ],
)
def test_a_message_goes_on_within_its_hops_and_never_in_a_circle(
    headers: dict[str, Any], max_hops: int, forwarded: bool
) -> None:
    assert should_forward(headers, max_hops, HERE) is forwarded


def test_a_binding_is_copied_with_its_hops_less_one_each_time() -> None:
    first = bound_from({"x": 1}, 2, HERE, THERE, "/:x A")
    assert first is not None
    assert first["x"] == 1
    assert first[BOUND_FROM] == [
        {"cluster-name": "here", "vhost": "/", "exchange": "/:x A", "hops": 2, "cluster-id": "id-1"}
    ]
    far = Place("far", "/", "id-3")
    second = bound_from(first, 9, THERE, far, "/:x A")
    assert second is not None
    entries: Any = second[BOUND_FROM]
    assert [each["hops"] for each in entries] == [1, 2]
    assert bound_from(second, 9, far, Place("more", "/"), "/:x A") is None
    assert bound_from(first, 9, THERE, HERE, "/:x A") is None


@pytest.mark.parametrize(
    ("vhost", "downstream", "name"),
    [
        ("/", "x", "federation: x -> here"),
        ("/", "y", "federation: x -> here:y"),
        ("v", "x", "federation: x -> here:/:x"),
    ],
)
def test_the_upstream_queue_has_rabbitmq_s_name(vhost: str, downstream: str, name: str) -> None:
    assert upstream_queue("x", vhost, HERE, downstream) == name
