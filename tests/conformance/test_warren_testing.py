"""`warren.testing` as a user's test suite meets it."""

import socket
from pathlib import Path

import pika
import psutil
import pytest

from warren.testing import Node, NodeFailed, free_port


def test_a_node_is_ready_when_the_fixture_yields_it(warren_node: Node) -> None:
    words = warren_node.ready_line.split()
    assert words[:2] == ["ready", "node=test"]
    assert f"amqp=127.0.0.1:{warren_node.port}" in words
    assert f"management=127.0.0.1:{warren_node.management_port}" in words
    assert warren_node.build in ("compiled", "pure")
    pika.BlockingConnection(pika.URLParameters(warren_node.url)).close()


def test_the_shared_node_is_the_same_process_for_every_test(
    warren_shared_node: Node, request: pytest.FixtureRequest
) -> None:
    assert request.getfixturevalue("warren_shared_node").pid == warren_shared_node.pid


def test_a_killed_node_starts_again_on_its_ports_and_data(warren_node: Node) -> None:
    ports, first = (warren_node.port, warren_node.management_port), warren_node.pid
    warren_node.kill9()
    assert not warren_node.is_running()
    with pytest.raises(NodeFailed, match="not running"):
        warren_node.pid  # noqa: B018
    warren_node.start()
    assert (warren_node.port, warren_node.management_port) == ports
    assert warren_node.pid != first


def test_a_restart_stops_cleanly_first(warren_node: Node) -> None:
    first = warren_node.pid
    warren_node.restart()
    assert warren_node.pid != first
    assert not psutil.pid_exists(first)


def test_a_node_that_cannot_start_says_why() -> None:
    with pytest.raises(NodeFailed, match=r"(?s)ended with code [1-9]\d* at start.*no\.such\.key"):
        Node(settings={"no.such.key": "1"}).__enter__()


def test_nothing_is_left_when_a_node_is_closed(tmp_path: Path) -> None:
    with Node(data_dir=tmp_path / "data") as node:
        pid, log = node.pid, node.log_path
        assert node.rss_bytes() > 1_000_000
    assert not psutil.pid_exists(pid)
    assert not log.exists()
    assert (tmp_path / "data").exists()


def test_a_free_port_can_be_listened_on() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", free_port()))


def test_a_paused_node_answers_nobody_until_it_is_resumed(warren_node: Node) -> None:
    assert warren_node.api("GET", "/api/overview")["node"] == "test"
    warren_node.pause()
    with pytest.raises(TimeoutError):
        warren_node.api("GET", "/api/overview", seconds=0.3)
    warren_node.resume()
    assert warren_node.api("GET", "/api/overview")["node"] == "test"


def test_an_answer_that_is_an_error_is_told(warren_node: Node) -> None:
    with pytest.raises(NodeFailed, match="404"):
        warren_node.api("GET", "/api/queues/%2F/none")


def test_a_paused_node_can_be_closed() -> None:
    with Node() as node:
        pid = node.pid
        node.pause()
    assert not psutil.pid_exists(pid)


def test_a_wiped_node_begins_with_nothing(warren_node: Node) -> None:
    warren_node.api("PUT", "/api/queues/%2F/kept", {"durable": True})
    with pytest.raises(AssertionError):
        warren_node.wipe()
    warren_node.kill9()
    warren_node.wipe()
    warren_node.begin()
    warren_node.await_ready()
    assert warren_node.api("GET", "/api/queues") == []
