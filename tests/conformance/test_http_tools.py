"""Requests that tools really send, as they were recorded, one after the other.

`requests/rabbit-hole-2.16.0.txt`: Rabbit Hole, the Go client that Terraform's provider for RabbitMQ
stands on; each line is the status, the method, the path and the body. All of its calls were
answered in a form that it could read. Flower's is the one request of its page of the broker.
"""

from pathlib import Path

import pytest

from tests.conformance.broker import Broker
from warren.testing.http_api import HttpApi

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


# What the client library of rabbitmqadmin (the second one, in Rust) asks of an answer: if a field
# is missing, it shows nothing of it at all.
NODE = {
    "name", "uptime", "run_queue", "processors", "os_pid", "fd_total", "proc_total", "mem_limit",
    "mem_alarm", "disk_free_limit", "disk_free_alarm", "rates_mode", "enabled_plugins",
    "being_drained",
}  # fmt: skip
MEMORY = {
    "connection_readers", "connection_writers", "connection_channels", "connection_other",
    "queue_procs", "quorum_queue_procs", "stream_queue_procs", "stream_queue_replica_reader_procs",
    "stream_queue_coordinator_procs", "plugins", "metadata_store", "other_proc", "metrics",
    "mgmt_db", "mnesia", "quorum_ets", "metadata_store_ets", "other_ets", "binary", "msg_index",
    "code", "atom", "other_system", "allocated_unused", "reserved_unallocated", "strategy", "total",
}  # fmt: skip
CHANNEL = {
    "number", "name", "connection_details", "vhost", "state", "consumer_count", "confirm",
    "prefetch_count", "messages_unacknowledged", "messages_unconfirmed",
}  # fmt: skip
CONSUMER = {
    "consumer_tag", "active", "ack_required", "prefetch_count", "exclusive", "arguments",
    "consumer_timeout", "queue", "channel_details",
}  # fmt: skip


def test_rows_have_all_fields_that_rabbitmqadmin_wants(api: HttpApi, own_broker: Broker) -> None:
    connection = own_broker.connect()
    channel = connection.channel()
    channel.queue_declare("wanted")
    channel.basic_consume("wanted", lambda *_: None, arguments={"x-consumer-timeout": 70_000})
    channel.basic_consume("wanted", lambda *_: None)
    (node,) = api.get("/nodes")
    assert set(node) >= NODE and node["proc_total"] >= node["proc_used"] >= 1
    assert "rabbitmq_management" in node["enabled_plugins"]
    memory = api.get(f"/nodes/{node['name']}/memory")["memory"]
    assert set(memory) >= MEMORY and set(memory["total"]) == {"rss", "allocated", "erlang"}
    shown = api.get("/channels")
    assert shown and all(set(each) >= CHANNEL for each in shown)
    consumers = [each for each in api.get("/consumers") if each["queue"]["name"] == "wanted"]
    assert all(set(each) >= CONSUMER for each in consumers)
    assert sorted(each["consumer_timeout"] for each in consumers) == [70_000, 1_800_000]
    api.delete("/queues/%2F/wanted")
    connection.close()
