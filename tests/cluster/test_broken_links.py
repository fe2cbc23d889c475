"""Links between nodes that break and come again: classic queues feel nothing but latency."""

from typing import Any

import pika
import pytest

from tests.cluster.toxiproxy import server_program
from tests.conformance.broker import Inbox, numbered
from warren.testing import ClusterOfNodes

CUTS = 4


def test_a_link_that_breaks_and_comes_again_loses_and_doubles_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WARREN_TOXIPROXY", server_program())
    with ClusterOfNodes(3, proxied=True) as cluster:

        def channel_on(number: int) -> Any:
            return pika.BlockingConnection(pika.URLParameters(cluster.node(number).url)).channel()

        channel_on(1).queue_declare("q", durable=True)
        publishing, consuming = channel_on(2), channel_on(3)
        publishing.confirm_delivery()
        inbox = Inbox(consuming, "q")
        cancelled: list[Any] = []
        consuming.add_on_cancel_callback(cancelled.append)
        bodies = numbered(CUTS * 20)
        for place, body in enumerate(bodies):
            if place % 20 == 10:
                cluster.links.cut(1, 2)
                cluster.links.cut(1, 3)
                cluster.links.heal()
            publishing.basic_publish("", "q", body)
        found = inbox.wait(len(bodies))
        assert [each.body for each in found] == bodies
        assert not any(each.redelivered for each in found)
        assert cancelled == []
