"""Requests that tools really send, as they were recorded, one after the other.

`requests/rabbit-hole-2.16.0.txt`: Rabbit Hole, the Go client that Terraform's provider for RabbitMQ
stands on; each line is the status, the method, the path and the body. All of its calls were
answered in a form that it could read. Flower's is the one request of its page of the broker.
"""

from pathlib import Path

import pytest

from tests.conformance.broker import Broker
from tests.conformance.http_api import HttpApi

FOLDER = Path(__file__).parent / "requests"


@pytest.fixture
def api(own_broker: Broker) -> HttpApi:
    assert own_broker.node is not None
    return HttpApi(own_broker.node.management_url)


def test_the_requests_of_rabbit_hole_are_answered_as_they_were(api: HttpApi) -> None:
    node = api.get("/overview")["node"]
    wrong: list[tuple[str, object]] = []
    for line in (FOLDER / "rabbit-hole-2.16.0.txt").read_text().splitlines():
        status, method, path, body = [*line.split(" ", 3), ""][:4]
        asked = path.removeprefix("/api").replace("NODE", node)
        told, answer = api.ask(method, asked, body.encode() if body else None)
        if told != int(status):
            wrong.append((line, (told, answer)))
    api.delete("/global-parameters/cluster_name")
    assert wrong == []


def test_flower_finds_what_it_shows_of_queues(api: HttpApi) -> None:
    """`GET queues/VHOST`, chosen by name; its page shows these columns."""
    api.put("/queues/%2F/celery", {"durable": True})
    (row,) = [each for each in api.get("/queues/%2F") if each["name"] == "celery"]
    shown = ("messages", "messages_unacknowledged", "messages_ready", "consumers")
    assert [row[column] for column in shown] == [0, 0, 0, 0]
    api.delete("/queues/%2F/celery")
