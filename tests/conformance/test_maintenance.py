"""Operators' commands on a node that is in no cluster: it answers as a cluster of one."""

from typing import Any

import pika
import pytest

from node.cli.warrenctl import main
from warren.testing import Node
from warren.testing.http_api import HttpApi

QUORUM = {"x-queue-type": "quorum"}


def ask(node: Node, path: str, method: str = "GET", body: Any = None) -> tuple[int, Any]:
    return HttpApi(node.management_url).ask(method, f"/{path}", body)


def connected(node: Node) -> Any:
    return pika.BlockingConnection(pika.URLParameters(node.url))


def declared(node: Node, name: str, arguments: dict[str, str]) -> None:
    connection = connected(node)
    channel = connection.channel()
    channel.queue_declare(name, durable=True, arguments=arguments)
    channel.basic_publish("", name, b"kept", pika.BasicProperties(delivery_mode=2))
    connection.close()


@pytest.mark.timeout(240)
def test_a_node_alone_is_drained_revived_and_reset(capsys: pytest.CaptureFixture[str]) -> None:
    with Node() as node:

        def call(*words: str) -> int:
            return main(["--node-url", node.management_url, *words])

        declared(node, "fast", QUORUM)
        declared(node, "plain", {})
        name = ask(node, "overview")[1]["node"]

        _, row = ask(node, "queues/%2F/fast")
        assert (row["leader"], row["members"], row["online"]) == (name, [name], [name])
        assert call("quorum_status", "fast") == 0
        assert f"{name}\tleader\tvoter\t" in capsys.readouterr().out
        assert call("add_member", "fast", name) == 65
        assert call("delete_member", "fast", name) == 65
        assert call("add_member", "plain", name) == 65
        assert call("add_member", "fast", "absent") == 65
        assert call("rebalance", "all") == 0
        assert call("check_if_node_is_quorum_critical") == 0
        assert call("forget_cluster_node", name) == 65
        assert call("cluster_status") == 0
        assert f"{name}\trunning\tnot under maintenance" in capsys.readouterr().out

        there = connected(node)
        assert call("drain") == 0
        assert "1 connections closed" in capsys.readouterr().out
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="maintenance"):
            there.process_data_events(time_limit=5)
        with pytest.raises(pika.exceptions.AMQPConnectionError):
            connected(node)
        assert call("check_running") == 69
        assert ask(node, "nodes")[1][0]["being_drained"] is True
        assert call("revive") == 0
        connection = connected(node)
        assert connection.channel().basic_get("fast", auto_ack=True)[2] == b"kept"
        connection.close()

        assert call("reset") == 0
        assert node.await_end(15) == 0
        node.start()
        assert "this node was reset" in node.log()
        assert ask(node, "queues") == (200, [])
