"""Metrics, flow graph and controls of a real node; and what deploy/monitoring asks for."""

import importlib.util
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import urlopen

import pika
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.conformance import raw
from tests.conformance.broker import CONFIG
from tests.conformance.raw import RawClient
from tests.waiting import eventually
from warren.testing import Node, free_port
from warren.testing.http_api import HttpApi

MONITORING: Final = Path(__file__).resolve().parent.parent.parent / "deploy" / "monitoring"
NAME: Final = re.compile(r"\b(?:rabbitmq|warren)_[a-z0-9_]+")
# Of nodes that have peers, or that a node has not met yet.
OF_CLUSTERS: Final = frozenset({"warren_peer_connected", "warren_peer_rtt_ms"})


@pytest.fixture(scope="module")
def metrics_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def node(metrics_port: int) -> Iterator[Node]:
    settings = {"listeners.metrics": f"127.0.0.1:{metrics_port}"}
    config = f"credit_flow_default_credit = [20, 10]\n{CONFIG}"
    with Node(name="metered", config=config, settings=settings) as running:
        yield running


@pytest.fixture(scope="module")
def used(node: Node) -> Node:
    """The node, after some messages to queues of both types."""
    connection = pika.BlockingConnection(pika.URLParameters(node.url))
    channel = connection.channel()
    channel.confirm_delivery()
    for name, kind in (("plain", "classic"), ("safe", "quorum")):
        channel.queue_declare(name, durable=True, arguments={"x-queue-type": kind})
        for _ in range(4):
            channel.basic_publish("", name, b"x" * 50)
        method, _, _ = channel.basic_get(name)
        channel.basic_ack(method.delivery_tag)
        method, _, _ = channel.basic_get(name)
        channel.basic_nack(method.delivery_tag, requeue=True)
        channel.basic_get(name, auto_ack=True)
    connection.close()
    deadline = time.monotonic() + 10
    while samples(text(node, "/metrics"))["rabbitmq_queue_messages"] > 4:
        assert time.monotonic() < deadline  # What was settled is applied once it is committed.
    return node


def text(node: Node, path: str, port: int = 0) -> str:
    url = f"http://127.0.0.1:{port}" if port else node.management_url
    with urlopen(f"{url}{path}", timeout=20) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        found: str = answer.read().decode()
    return found


def samples(found: str) -> dict[str, float]:
    """By the name and labels as they are written; each family is declared once."""
    declared = re.findall(r"^# TYPE (\S+)", found, re.MULTILINE)
    assert len(declared) == len(set(declared))
    assert list(text_string_to_metric_families(found))
    lines = [line.rpartition(" ") for line in found.splitlines() if line[0] != "#"]
    assert len({name for name, _, _ in lines}) == len(lines)
    return {name: float(value) for name, _, value in lines}


def test_what_was_delivered_is_told_by_the_type_of_the_queue(used: Node) -> None:
    found = samples(text(used, "/metrics"))
    for kind in ("classic", "quorum"):
        end = f'{{protocol="amqp091",queue_type="rabbit_{kind}_queue"}}'
        assert found[f"rabbitmq_global_messages_delivered_get_manual_ack_total{end}"] == 2
        assert found[f"rabbitmq_global_messages_delivered_get_auto_ack_total{end}"] == 1
        assert found[f"rabbitmq_global_messages_redelivered_total{end}"] == 1
        assert found[f"rabbitmq_global_messages_acknowledged_total{end}"] == 1
        assert found[f'warren_confirm_seconds_count{{queue_type="rabbit_{kind}_queue"}}'] == 4
        assert found[f'warren_queues{{queue_type="{kind}"}}'] == 1
        assert found[f'warren_queue_messages_ready{{queue_type="{kind}"}}'] == 2
    assert found['rabbitmq_message_size_bytes_count{protocol="amqp091"}'] == 8
    assert found['rabbitmq_message_size_bytes_bucket{protocol="amqp091",le="100.0"}'] == 0
    assert found['rabbitmq_message_size_bytes_bucket{protocol="amqp091",le="1000.0"}'] == 8
    assert found["warren_locality_ratio"] == 1
    assert found['rabbitmq_auth_attempts_succeeded_total{protocol="amqp091"}'] == 1
    assert found["rabbitmq_raft_commit_index"] > 0
    assert found["warren_oldest_message_age_seconds"] >= 0


def test_each_queue_can_be_told_apart(used: Node) -> None:
    found = samples(text(used, "/metrics/per-object"))
    for name in ("plain", "safe"):
        assert found[f'rabbitmq_queue_messages_ready{{vhost="/",queue="{name}"}}'] == 2
    assert found['rabbitmq_raft_term{vhost="/",queue="safe"}'] >= 1
    assert 'rabbitmq_raft_term{vhost="/",queue="plain"}' not in found
    detailed = samples(text(used, "/metrics/detailed?family=queue_coarse_metrics&vhost=/"))
    assert detailed['rabbitmq_detailed_queue_messages{vhost="/",queue="safe"}'] == 2
    assert text(used, "/metrics/detailed?family=queue_coarse_metrics&vhost=none").count("{") == 0


def test_an_unknown_family_is_400(used: Node) -> None:
    with pytest.raises(HTTPError) as caught:
        text(used, "/metrics/detailed?family=none")
    with caught.value as error:
        assert (error.code, json.loads(error.read())["error"]) == (400, "bad_request")


def test_metrics_have_a_listener_of_their_own(used: Node, metrics_port: int) -> None:
    assert samples(text(used, "/metrics", metrics_port))["rabbitmq_queues"] == 2
    assert "rabbitmq_memory_total_bytes" in text(used, "/metrics/memory-breakdown", metrics_port)
    with pytest.raises(HTTPError) as caught:
        urlopen(f"http://127.0.0.1:{metrics_port}/api/overview", timeout=20)
    with caught.value as error:
        assert error.code == 404
    (row,) = HttpApi(used.management_url).get("/nodes")
    assert {"protocol": "http/prometheus", "port": metrics_port} in [
        {key: each[key] for key in ("protocol", "port")} for each in row["listeners"]
    ]


def exported(node: Node) -> set[str]:
    everything = text(node, "/metrics") + text(node, "/metrics/per-object")
    families = ("queue_coarse_metrics", "queue_consumer_count", "warren_queue_head_age")
    asked = "&".join(f"family={each}" for each in families)
    everything += text(node, f"/metrics/detailed?{asked}")
    names = {line.split("{")[0].split(" ")[0] for line in everything.splitlines()}
    declared = set(re.findall(r"^# TYPE (\S+)", everything, re.MULTILINE))
    return names | declared | OF_CLUSTERS


@pytest.mark.source
def test_every_metric_of_the_dashboard_and_the_alerts_is_one_that_a_node_has(used: Node) -> None:
    api = HttpApi(used.management_url)  # The metrics of links are there while one runs.
    place = {"src-uri": "amqp://", "dest-uri": "amqp://", "src-queue": "from", "dest-queue": "to"}
    api.put("/parameters/shovel/%2F/any", {"value": place})
    api.put("/vhosts/standby", {})
    standby = {"value": {"uri": "http://guest:guest@127.0.0.1:1"}}
    api.put("/parameters/standby/standby/primary", standby)
    eventually(lambda: "rabbitmq_shovel_dynamic" in text(used, "/metrics"))
    eventually(lambda: "warren_standby_rpo_seconds" in text(used, "/metrics"))
    known = exported(used)
    api.delete("/parameters/shovel/%2F/any")
    api.delete("/vhosts/standby")
    dashboard = json.loads((MONITORING / "grafana/dashboards/warren.json").read_text())
    queries = [
        target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())
    ]
    assert len(queries) > 40
    rules = re.findall(
        r"^ +expr: (?:>\n((?: {10}.*\n)+)|(.*)\n)",
        (MONITORING / "alerts.yml").read_text(),
        re.MULTILINE,
    )
    assert len(rules) > 20
    for query in [*queries, *("".join(each) for each in rules)]:
        names = NAME.findall(query)
        assert names or query.startswith("up"), query
        assert set(names) <= known, sorted(set(names) - known)
        assert query.count("(") == query.count(")")
    groups = re.findall(r"family: \[(.*)\]", (MONITORING / "prometheus.yml").read_text())
    for group in groups[0].split(", "):
        text(used, f"/metrics/detailed?family={group}")


@pytest.mark.source
def test_the_dashboard_is_what_its_list_of_panels_makes() -> None:
    spec = importlib.util.spec_from_file_location("dashboard", MONITORING / "dashboard.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (MONITORING / "grafana/dashboards/warren.json").read_text() == module.text()


def edges(api: HttpApi, kinds: tuple[str, str]) -> list[dict[str, Any]]:
    graph = api.get("/flow/graph")
    ids = {row["id"] for row in graph["nodes"]}
    assert all({edge["from"], edge["to"]} <= ids for edge in graph["edges"])
    return [edge for edge in graph["edges"] if tuple(edge["kinds"]) == kinds]


def test_an_alarm_is_seen_in_the_flow_graph_and_ends_with_its_limit(used: Node) -> None:
    api = HttpApi(used.management_url)
    limits = f"/nodes/{used.name}/limits"
    connection = pika.BlockingConnection(pika.URLParameters(used.url))
    channel = connection.channel()
    channel.basic_publish("", "plain", b"one")
    before = api.get(f"/nodes/{used.name}")["mem_limit"]
    api.put(limits, {"vm_memory_high_watermark": {"absolute": 0}})
    channel.basic_publish("", "plain", b"two")
    connection.process_data_events(0)
    deadline = time.monotonic() + 10
    while not edges(api, ("connection", "alarm")):
        assert time.monotonic() < deadline
    (edge,) = edges(api, ("connection", "alarm"))
    assert edge["reason"] == "low on memory"
    assert abs(time.time() * 1000 - edge["since"]) < 20_000
    api.put(limits, {"vm_memory_high_watermark": {"absolute": before}})
    assert edges(api, ("connection", "alarm")) == []
    (total,) = [each for each in api.get("/flow/graph")["totals"] if each["to"] == "alarm"]
    assert (total["from"], total["times"]) == ("publishers", 1)
    assert total["blocked_seconds"] > 0
    connection.close()


def test_publishers_that_are_too_fast_are_held_back_by_credit(used: Node) -> None:
    """More messages than the credit come in one piece."""
    api = HttpApi(used.management_url)
    with RawClient(used.host, used.port).begin_channel() as client:
        client.send(raw.publish(1, "", "plain", b"x") * 400, raw.declare(1, "plain", 1))
        client.expect(raw.QUEUE_DECLARE_OK)
    eventually(lambda: edges(api, ("channel", "queue"))[0]["since"] is None)
    found = samples(text(used, "/metrics"))
    times = 'warren_flow_blocked_times_total{held_back="channel",by="queue"}'
    assert found[times] >= 1
    (edge, *_) = edges(api, ("channel", "queue"))
    assert edge["since"] is None and edge["times"] >= 1
    assert edge["to"].endswith("|queue|queue 'plain' in vhost '/'")


def test_the_listener_can_be_suspended_and_resumed(used: Node) -> None:
    api = HttpApi(used.management_url)
    kept = pika.BlockingConnection(pika.URLParameters(used.url))
    api.post(f"/nodes/{used.name}/listeners", {"action": "suspend"})
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        pika.BlockingConnection(pika.URLParameters(used.url))
    kept.channel().queue_declare("plain", passive=True)
    api.post(f"/nodes/{used.name}/listeners", {"action": "resume"})
    pika.BlockingConnection(pika.URLParameters(used.url)).close()
    kept.close()
    assert api.refused("POST", "/nodes/none/listeners", {"action": "resume"})[0] == 404
