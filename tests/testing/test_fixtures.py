"""The fixtures that applications get with `pip install warrenmq`, with real clients."""

import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pika
import pika.exceptions
import pytest

from warren.testing import Broker, Node, NodeFailed, VirtualHost
from warren.testing.faults import Faults
from warren.testing.history import Recorder

HOUR = 3600


def channel_of(url: str) -> pika.adapters.blocking_connection.BlockingChannel:
    return pika.BlockingConnection(pika.URLParameters(url)).channel()


def test_each_test_has_a_vhost_of_its_own(broker: VirtualHost, warren_broker: Broker) -> None:
    channel = channel_of(broker.url)
    channel.queue_declare("orders", durable=True)
    channel.basic_publish("", "orders", b"one")
    assert channel.basic_get("orders", auto_ack=True)[2] == b"one"
    assert broker.queue("orders")["vhost"] == broker.name
    with warren_broker.vhost() as other:
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
            channel_of(other.url).queue_declare("orders", passive=True)
        assert refused.value.reply_code == 404
    with pytest.raises(NodeFailed, match="404"):
        warren_broker.api("GET", f"/api/vhosts/{other.name}")


def test_time_that_is_advanced_expires_messages_and_queues(broker: VirtualHost) -> None:
    channel = channel_of(broker.url)
    channel.queue_declare("dead")
    arguments = {
        "x-message-ttl": HOUR * 1000,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "dead",
    }
    channel.queue_declare("reminders", arguments=arguments)
    channel.queue_declare("unused", arguments={"x-expires": 2 * HOUR * 1000})
    channel.basic_publish("", "reminders", b"wake up")
    broker.advance(HOUR - 60)
    assert channel.queue_declare("reminders", passive=True).method.message_count == 1
    broker.advance(61)
    received = next(channel.consume("dead", auto_ack=True, inactivity_timeout=20))
    assert received[2] == b"wake up"
    broker.advance(HOUR)
    deadline = time.monotonic() + 20
    while any(each["name"] == "unused" for each in queues_of(broker)):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_time_that_is_advanced_ends_the_delay_of_a_redelivery(broker: VirtualHost) -> None:
    channel = channel_of(broker.url)
    arguments = {
        "x-queue-type": "quorum",
        "x-delayed-retry-type": "all",
        "x-delayed-retry-min": HOUR * 1000,
        "x-delayed-retry-max": HOUR * 1000,
    }
    channel.queue_declare("reminders", durable=True, arguments=arguments)
    channel.confirm_delivery()
    channel.basic_publish("", "reminders", b"wake up")
    deliveries = channel.consume("reminders", inactivity_timeout=20)
    channel.basic_nack(next(deliveries)[0].delivery_tag)
    broker.advance(HOUR - 60)
    assert channel.queue_declare("reminders", passive=True).method.message_count == 0
    assert next(channel.consume("reminders", inactivity_timeout=0.1))[0] is None
    broker.advance(61)
    method, _, body = next(channel.consume("reminders", inactivity_timeout=20))
    assert (method.redelivered, body) == (True, b"wake up")


def queues_of(vhost: VirtualHost) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = vhost.broker.api("GET", f"/api/queues/{vhost.name}")
    return rows


@pytest.mark.parametrize("ms", [-1, "5", True, None, 1.5, 1 << 60])
def test_a_wrong_advance_is_refused(warren_broker: Broker, ms: object) -> None:
    with pytest.raises(NodeFailed, match=r"400 .*advance_ms"):
        warren_broker.api("PUT", f"/api/nodes/{warren_broker.name}/clock", {"advance_ms": ms})


def test_the_clock_of_a_node_in_service_cannot_be_advanced(warren_shared_node: Node) -> None:
    with pytest.raises(NodeFailed, match=r"400 .*testing.adjustable_clock"):
        warren_shared_node.api("PUT", "/api/nodes/shared/clock", {"advance_ms": 1})


def test_a_broker_leaves_nothing_behind() -> None:
    with Broker() as broker:
        assert broker.is_running()
        folders = [broker.data_dir, broker.log_path.parent]
        assert all(folder.exists() for folder in folders)
        process = broker.process
    assert process is not None and process.poll() is not None
    assert not any(folder.exists() for folder in folders)
    with pytest.raises(OSError):
        socket.create_connection((broker.host, broker.port), 1).close()


def test_confirmed_messages_survive_a_kill(broker: VirtualHost) -> None:
    channel = channel_of(broker.url)
    channel.confirm_delivery()
    channel.queue_declare("kept", durable=True)
    channel.basic_publish("", "kept", b"x", pika.BasicProperties(delivery_mode=2))
    broker.broker.kill9()
    broker.broker.start()
    assert channel_of(broker.url).basic_get("kept")[2] == b"x"


def test_a_link_can_be_cut_and_healed(faults: Faults) -> None:
    channel = channel_of(faults.url)
    channel.queue_declare("orders", durable=True)
    faults.cut()
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        channel_of(faults.url)
    faults.heal()
    channel_of(faults.url).queue_declare("orders", passive=True)


def test_a_history_that_is_good_passes(history: Recorder) -> None:
    history.published("orders", "p1:1", publisher="p1")
    history.confirmed("p1:1")
    history.delivered("orders", "p1:1", "c1", redelivered=False)
    history.settled("p1:1", "c1", "accept")
    history.drained("orders")


def test_fixtures_are_found_without_a_conftest_and_a_lost_message_fails(tmp_path: Path) -> None:
    """As in the project of a user, in a process of its own."""
    test = """
        def test_lost(history):
            history.published("orders", "p1:1", publisher="p1")
            history.confirmed("p1:1")
            history.drained("orders")

        def test_broker(broker):
            assert broker.queue
    """
    (tmp_path / "test_user.py").write_text(textwrap.dedent(test), "utf-8")
    options = ["-p", "warren.testing.plugin", "-p", "no:cacheprovider", "-q"]
    command = [sys.executable, "-m", "pytest", *options, str(tmp_path / "test_user.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 1, done.stdout
    assert "2 passed, 1 error" in done.stdout, done.stdout
    assert "lost 1: confirmed" in done.stdout
