"""Three nodes with TLS between them: only who has a certificate gets in; limits and rights are the
same on all of them at once."""

import asyncio
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pika.exceptions
import pytest

from tests.unit.node.certificates import Authority
from tests.waiting import eventually, until
from warren import client
from warren.testing import Node
from warren.testing.cluster import ClusterOfNodes
from warren.testing.http_api import HttpApi
from warren.testing.node import free_ports

pytestmark = [pytest.mark.timeout(240)]
LOOPBACK = "127.0.0.1"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    made = Authority(tmp_path_factory.mktemp("certificates"))
    for name in ("n1", "n2", "n3"):
        made.issue(name)
    Authority(made.folder, "stranger").issue("forged")
    return made


@pytest.fixture(scope="module")
def folder(authority: Authority) -> Path:
    return authority.folder


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[ClusterOfNodes]:
    settings = {
        "cluster.tls": "true",
        "tls.cacertfile": str(folder / "ca.pem"),
        "tls.verify": "verify_peer",
        "tls.reload_interval_ms": "100",
    }
    own = {
        number: {
            "tls.certfile": str(folder / f"n{number}.pem"),
            "tls.keyfile": str(folder / f"n{number}.key"),
        }
        for number in (1, 2, 3)
    }
    for number, port in enumerate(free_ports(3), 1):
        own[number]["listeners.amqps"] = f"{LOOPBACK}:{port}"
    with ClusterOfNodes(3, settings=settings, node_settings=own) as started:
        yield started


def connect(node: Node, user: str = "guest") -> Any:
    parameters = pika.URLParameters(f"amqp://{user}:{user}@{node.host}:{node.port}/%2F")
    return pika.BlockingConnection(parameters)


def test_messages_pass_between_nodes_over_tls(cluster: ClusterOfNodes) -> None:
    bodies = [b"%d" % number * 20_000 for number in range(20)]
    with connect(cluster.node(1)) as here, connect(cluster.node(3)) as there:
        channel, other = here.channel(), there.channel()
        channel.queue_declare("q", durable=True, arguments={"x-queue-type": "quorum"})
        channel.confirm_delivery()
        for body in bodies:
            channel.basic_publish("", "q", body, pika.BasicProperties(delivery_mode=2))
        got = [other.basic_get("q", auto_ack=True)[2] for _ in bodies]
        assert got == bodies


def over_tls(cluster: ClusterOfNodes, number: int) -> str:
    told = HttpApi(cluster.node(number).management_url).get(f"/nodes/n{number}")
    (port,) = (each["port"] for each in told["listeners"] if each["protocol"] == "amqp/ssl")
    return f"amqps://guest:guest@{LOOPBACK}:{port}/%2F"


def test_a_client_over_tls_follows_a_leader_over_tls(cluster: ClusterOfNodes, folder: Path) -> None:
    context = ssl.create_default_context(cafile=folder / "ca.pem")
    context.load_cert_chain(folder / "n1.pem", folder / "n1.key")

    async def test() -> None:
        plain = await client.connect(cluster.node(2).url, follow=None)
        async with plain:
            await (await plain.management()).declare_queue("far")
        quick = client.Follow(steady_s=0.0, pause_s=0.1)
        url = over_tls(cluster, 1)
        async with await client.connect(url, follow=quick, tls=context) as connection:
            publisher = await connection.publisher("/queues/far")
            await until(lambda: publisher.state.local is True)
            assert (await publisher.publish(client.Message(b"1"))).is_accepted
            assert connection.following is not None
            assert list(connection.following.others) == ["n2"]

    asyncio.run(asyncio.wait_for(test(), 30))


def is_let_in(port: int, context: ssl.SSLContext | None) -> bool:
    """Whether the port for peers waits for bytes and does not close the connection."""
    try:
        with socket.create_connection((LOOPBACK, port), 10) as plain:
            if context is None:
                plain.sendall(bytes(64))
                return bool(plain.recv(100)) and bool(plain.recv(100))
            with context.wrap_socket(plain) as over:
                over.settimeout(0.5)
                over.recv(100)
    except TimeoutError:
        return True
    except (ConnectionError, ssl.SSLError):
        return False
    return False


def test_who_has_no_certificate_of_the_authority_is_not_let_in(
    cluster: ClusterOfNodes, folder: Path
) -> None:
    port = cluster.peer_ports[0]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    assert not is_let_in(port, None)
    for shown in ("", "forged"):
        if shown:
            context.load_cert_chain(folder / f"{shown}.pem", folder / f"{shown}.key")
        assert not is_let_in(port, context)
    context.load_cert_chain(folder / "n2.pem", folder / "n2.key")
    assert is_let_in(port, context)  # As far as the proof of the secret.


def test_links_are_made_anew_after_certificates_were_replaced(
    cluster: ClusterOfNodes, authority: Authority
) -> None:
    node = cluster.node(2)
    authority.issue("n2")
    eventually(lambda: "new certificate files are in use" in node.log())
    cluster.node(3).restart()
    with connect(cluster.node(3)) as connection:
        connection.channel().queue_declare("after", durable=True)
    with connect(node) as connection:
        assert connection.channel().queue_declare("after", passive=True)


def is_refused(node: Node) -> bool:
    """Whether no more connections fit."""
    try:
        connect(node).close()
    except pika.exceptions.ProbableAccessDeniedError as refused:
        assert "(530)" in str(refused) and "connection limit (2) is reached" in str(refused)
        return True
    return False


def test_a_limit_of_a_vhost_counts_the_connections_of_all_nodes(cluster: ClusterOfNodes) -> None:
    api = HttpApi(cluster.node(1).management_url)
    api.put("/vhost-limits/%2F/max-connections", {"value": 2})
    try:
        eventually(lambda: len(api.get("/connections")) == 0)
        with connect(cluster.node(1)), connect(cluster.node(2)):
            eventually(lambda: is_refused(cluster.node(3)))
        eventually(lambda: not is_refused(cluster.node(3)))
    finally:
        api.delete("/vhost-limits/%2F/max-connections")


def test_rights_that_are_taken_on_one_node_are_gone_on_the_others(
    cluster: ClusterOfNodes,
) -> None:
    api = HttpApi(cluster.node(1).management_url)
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    api.put("/users/anna", {"password": "anna", "tags": ""})
    api.put("/permissions/%2F/anna", everything)
    connection = connect(cluster.node(2), "anna")
    channel = connection.channel()
    channel.queue_declare("of-anna", auto_delete=True)
    channel.confirm_delivery()
    channel.basic_publish("", "of-anna", b"1", mandatory=True)
    api.put("/permissions/%2F/anna", {**everything, "write": "^$"})
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        channel.basic_publish("", "of-anna", b"2", mandatory=True)
    assert caught.value.reply_code == 403
    attempts = api.get("/auth/attempts/n2")
    assert {each["protocol"] for each in attempts} >= {"amqp091"}
    api.delete("/users/anna")

    def is_closed() -> bool:
        try:
            connection.process_data_events(time_limit=0.05)
        except pika.exceptions.ConnectionClosedByBroker as closed:
            return "user 'anna' was deleted" in closed.reply_text
        return False

    eventually(is_closed)
