"""Dynamic shovels between two real nodes: what arrives, what is refused, what is shown."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pika
import pytest

from node.cli.warrenctl import main
from tests.waiting import eventually
from warren.testing import Node
from warren.testing.http_api import HttpApi

LOCAL = "amqp:///%2F"


@pytest.fixture(scope="module")
def here() -> Iterator[Node]:
    """The node that runs the shovels."""
    with Node(name="here") as node:
        yield node


@pytest.fixture(scope="module")
def there() -> Iterator[Node]:
    with Node(name="there") as node:
        yield node


def channel_of(node: Node) -> Any:
    return pika.BlockingConnection(pika.URLParameters(node.url)).channel()


def fill(node: Node, queue: str, count: int, **properties: Any) -> None:
    api = HttpApi(node.management_url)
    if api.ask("GET", f"/queues/%2F/{queue}")[0] == 404:
        api.put(f"/queues/%2F/{queue}", {"durable": True})
    channel = channel_of(node)
    channel.confirm_delivery()
    for number in range(count):
        made = pika.BasicProperties(delivery_mode=2, **properties)
        channel.basic_publish("", queue, b"%d" % number, made)
    channel.connection.close()


def drained(node: Node, queue: str, count: int) -> list[tuple[Any, bytes]]:
    """The first messages of the queue, in order."""
    eventually(lambda: HttpApi(node.management_url).ask("GET", f"/queues/%2F/{queue}")[0] == 200)
    channel = channel_of(node)
    found: list[tuple[Any, bytes]] = []
    for _, properties, body in channel.consume(queue, auto_ack=True, inactivity_timeout=20):
        assert body is not None, f"{len(found)} of {count} messages came"
        found.append((properties, body))
        if len(found) == count:
            break
    channel.cancel()
    channel.connection.close()
    return found


def shovel(node: Node, name: str, **value: object) -> HttpApi:
    api = HttpApi(node.management_url)
    given = {key.replace("_", "-"): each for key, each in value.items()}
    api.put(f"/parameters/shovel/%2F/{name}", {"value": given})
    return api


def state(api: HttpApi, name: str) -> str:
    status, row = api.ask("GET", f"/shovels/vhost/%2F/{name}")
    return str(row["state"]) if status == 200 else ""


@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
def test_a_shovel_moves_all_messages_of_a_queue_in_order(
    here: Node, there: Node, queue_type: str
) -> None:
    source, target = f"from-{queue_type}", f"to-{queue_type}"
    channel = channel_of(there)
    channel.queue_declare(source, durable=True, arguments={"x-queue-type": queue_type})
    channel.connection.close()
    fill(there, source, 500, headers={"n": 7}, message_id="m")
    api = shovel(
        here,
        f"move-{queue_type}",
        src_uri=there.url,
        src_queue=source,
        dest_uri=LOCAL,
        dest_queue=target,
        dest_queue_args={"x-queue-type": queue_type},
        dest_add_forward_headers=True,
        dest_add_timestamp_header=True,
        src_prefetch_count=50,
    )
    eventually(lambda: state(api, f"move-{queue_type}") == "running")
    found = drained(here, target, 500)
    assert [int(body) for _, body in found] == list(range(500))
    properties = found[0][0]
    assert (properties.message_id, properties.delivery_mode) == ("m", 2)
    assert properties.headers["n"] == 7
    (hop,) = properties.headers["x-shovelled"]
    assert hop["shovel-name"] == f"move-{queue_type}"
    assert (hop["src-queue"], hop["dest-queue"]) == (source, target)
    assert "guest" not in str(hop)
    assert properties.headers["x-shovelled-timestamp"] > 0
    eventually(
        lambda: api.get(f"/shovels/vhost/%2F/move-{queue_type}")["messages_forwarded"] == 500
    )
    api.delete(f"/shovels/vhost/%2F/move-{queue_type}")
    assert state(api, f"move-{queue_type}") == ""
    eventually(lambda: HttpApi(there.management_url).get(f"/queues/%2F/{source}")["consumers"] == 0)


@pytest.mark.parametrize(("after", "moved"), [(3, 3), ("queue-length", 10), (0, 0)])
def test_a_shovel_ends_after_its_number_of_messages(
    here: Node, there: Node, after: int | str, moved: int
) -> None:
    name = f"counted-{after}"
    fill(there, name, 10)
    api = shovel(
        here,
        name,
        src_uri=there.url,
        src_queue=name,
        dest_uri=LOCAL,
        dest_queue=name,
        src_delete_after=after,
    )
    eventually(lambda: api.ask("GET", f"/parameters/shovel/%2F/{name}")[0] == 404)
    left = HttpApi(there.management_url)
    eventually(lambda: left.get(f"/queues/%2F/{name}")["messages_ready"] == 10 - moved)
    if moved:
        assert [int(body) for _, body in drained(here, name, moved)] == list(range(moved))


def test_a_shovel_from_an_exchange_keeps_routing_keys(here: Node, there: Node) -> None:
    channel = channel_of(here)
    channel.queue_declare("by-key", durable=True)
    channel.queue_bind("by-key", "amq.topic", "a.#")
    api = shovel(
        here,
        "keys",
        src_uri=there.url,
        src_exchange="amq.topic",
        src_exchange_key="a.*",
        dest_uri=LOCAL,
        dest_exchange="amq.topic",
        ack_mode="on-publish",
    )
    eventually(lambda: state(api, "keys") == "running")
    away = channel_of(there)
    for key in ("a.b", "b.c", "a.d"):
        away.basic_publish("amq.topic", key, key.encode())
    away.connection.close()
    assert [body for _, body in drained(here, "by-key", 2)] == [b"a.b", b"a.d"]
    channel.connection.close()
    api.delete("/parameters/shovel/%2F/keys")


def test_a_failed_shovel_says_why_and_goes_on_when_the_other_side_is_back(there: Node) -> None:
    with Node(name="away") as away, Node(name="home") as home:
        fill(away, "work", 20)
        api = shovel(
            home,
            "patient",
            src_uri=away.url,
            src_queue="work",
            dest_uri=LOCAL,
            dest_queue="work",
            reconnect_delay=0.2,
        )
        drained(home, "work", 20)
        away.kill9()
        eventually(lambda: state(api, "patient") == "terminated")
        assert api.get("/shovels/vhost/%2F/patient")["reason"]
        away.start()
        fill(away, "work", 20)
        assert [int(body) for _, body in drained(home, "work", 20)] == list(range(20))
        home.kill9()
        fill(away, "work", 20)
        home.start()
        found = [int(body) for _, body in drained(home, "work", 20)]
        assert found == list(range(20))
        assert len([line for line in home.log().splitlines() if "shovel 'patient'" in line]) < 10


def test_what_the_target_refuses_stays_at_the_source(here: Node, there: Node) -> None:
    channel = channel_of(here)
    full = {"x-max-length": 2, "x-overflow": "reject-publish"}
    channel.queue_declare("full", durable=True, arguments=full)
    fill(there, "surplus", 5)
    api = shovel(
        here,
        "refused",
        src_uri=there.url,
        src_queue="surplus",
        src_prefetch_count=1,
        dest_uri=LOCAL,
        dest_queue="full",
        reconnect_delay=0.1,
    )
    eventually(lambda: state(api, "refused") == "terminated")
    assert "did not take a message" in api.get("/shovels/vhost/%2F/refused")["reason"]
    assert [int(body) for _, body in drained(here, "full", 5)] == list(range(5))
    channel.connection.close()
    api.delete("/parameters/shovel/%2F/refused")


def test_passwords_are_never_shown(here: Node, there: Node) -> None:
    away = HttpApi(there.management_url)
    away.put("/users/mover", {"password": "s3cret-word", "tags": ""})
    rights = {"configure": ".*", "write": ".*", "read": ".*"}
    away.put("/permissions/%2F/mover", rights)
    uri = f"amqp://mover:s3cret-word@{there.host}:{there.port}"
    fill(there, "guarded", 1)
    value = {"src_uri": uri, "src_queue": "guarded", "dest_uri": LOCAL, "dest_queue": "guarded"}
    api = shovel(here, "secretive", **value)
    drained(here, "guarded", 1)
    seen = api.get("/parameters/shovel/%2F/secretive")["value"]
    assert seen["src-uri"] == f"amqp://mover:***@{there.host}:{there.port}"
    shovel(here, "secretive", **{**value, "src_uri": seen["src-uri"]})
    fill(there, "guarded", 1)
    drained(here, "guarded", 1)
    exported = api.get("/definitions")
    shown = [api.get("/parameters"), api.get("/shovels"), exported, api.get("/connections")]
    assert "s3cret-word" not in str(shown) + here.log()
    files = [each.read_bytes() for each in here.data_dir.rglob("*") if each.is_file()]
    assert any(b"guarded" in each for each in files), "the parameter is stored somewhere"
    assert not any(b"s3cret-word" in each for each in files), "stored as it was given"
    assert "mover" not in str(api.get("/shovels"))
    api.post("/definitions", exported)
    assert api.get("/parameters/shovel/%2F/secretive")["value"] == seen
    api.delete("/parameters/shovel/%2F/secretive")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({}, "Must specify 'src-exchange' or 'src-queue'"),
        ({"src-uri": LOCAL, "src-queue": "q"}, 'Key "dest-uri" not found in bad'),
        (
            {"src-uri": "http://h", "src-queue": "q", "dest-uri": LOCAL},
            '"http://h" not a valid URI: {unexpected_uri_scheme,"http"}',
        ),
        (
            {"src-uri": LOCAL, "src-queue": "q", "dest-uri": LOCAL, "ack-mode": "sometimes"},
            "ack-mode should be one of ['no-ack','on-publish','on-confirm'], actually was "
            '<<"sometimes">>',
        ),
        (
            {"src-uri": LOCAL, "src-queue": "q", "dest-uri": LOCAL, "colour": 1},
            'Unrecognised terms [{<<"colour">>,1}] in bad',
        ),
        (
            {"src-uri": "amqp:///nowhere", "src-queue": "q", "dest-uri": LOCAL},
            'user "guest" may not connect to vhost "nowhere"',
        ),
    ],
)
def test_a_shovel_that_makes_no_sense_is_refused(
    here: Node, value: dict[str, object], text: str
) -> None:
    api = HttpApi(here.management_url)
    status, reason = api.ask(
        "PUT", f"/parameters/shovel/{quote('/', safe='')}/bad", {"value": value}
    )
    assert status == 400
    assert reason["reason"].startswith("Validation failed\n\n")
    assert text in reason["reason"]


def test_nobody_logs_in_as_the_node_itself(here: Node) -> None:
    api = HttpApi(here.management_url)
    api.put("/users/warren%3Ainternal", {"password": "known", "tags": "administrator"})
    uri = f"amqp://warren%3Ainternal:known@{here.host}:{here.port}"
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        pika.BlockingConnection(pika.URLParameters(uri))
    api.delete("/users/warren%3Ainternal")


def test_commands_show_restart_and_delete_shovels(
    here: Node, there: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    uris = {"src_uri": there.url, "dest_uri": LOCAL}
    api = shovel(here, "told", src_queue="told", dest_queue="told", **uris)
    eventually(lambda: state(api, "told") == "running")

    def ctl(*words: str) -> str:
        assert main(["--node-url", here.management_url, *words]) == 0
        return capsys.readouterr().out

    assert "told\t/\tdynamic\trunning\ttold\t" in ctl("shovel_status")
    ctl("restart_shovel", "told")
    eventually(lambda: state(api, "told") == "running")
    ctl("delete_shovel", "told")
    assert "told" not in ctl("shovel_status")
    assert main(["--node-url", here.management_url, "restart_shovel", "told"]) == 65
