"""A warm standby gets definitions, messages and settlements, and serves once it is promoted."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pika
import pytest
from rstream import Consumer

from tests.conformance.pages import open_browser, show
from tests.conformance.standby_pair import Side, feed_uri
from tests.conformance.test_stream_protocol import StreamNode
from tests.waiting import eventually
from warren.testing import Node

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def nodes() -> Iterator[tuple[Node, Node]]:
    with Node(name="primary") as primary, Node(name="standby") as standby:
        yield primary, standby


@pytest.fixture
def vhost(request: pytest.FixtureRequest) -> str:
    return str(request.node.name)


@pytest.fixture
def primary(nodes: tuple[Node, Node], vhost: str) -> Iterator[Side]:
    side = Side(nodes[0], vhost)
    side.add_vhost()
    yield side
    side.restart_dead()


@pytest.fixture
def standby(nodes: tuple[Node, Node], vhost: str) -> Iterator[Side]:
    side = Side(nodes[1], vhost)
    side.add_vhost()
    yield side
    side.restart_dead()


def now_ms() -> int:
    return int(time.time() * 1000)


def published(side: Side, queue: str, numbers: range, **properties: object) -> None:
    channel = side.channel()
    channel.confirm_delivery()
    for number in numbers:
        made = pika.BasicProperties(delivery_mode=2, **properties)
        channel.basic_publish("x", queue, b"%d" % number, made)


def defined(side: Side, queue: str, **arguments: object) -> None:
    channel = side.channel()
    channel.exchange_declare("x", "topic", durable=True)
    named = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    channel.queue_declare(queue, durable=True, arguments=named)
    channel.queue_bind(queue, "x", queue)


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_promoted_standby_has_what_was_not_settled(
    primary: Side, standby: Side, kind: str
) -> None:
    defined(primary, "q", queue_type=kind)
    published(primary, "q", range(300), headers={"h": 1}, message_id="m")
    standby.follow(feed_uri(primary.node.management_url))
    standby.synced_after(now_ms())
    channel = primary.channel()
    for _ in range(100):
        method, _, _ = channel.basic_get("q")
        channel.basic_ack(method.delivery_tag)
    published(primary, "q", range(300, 400))
    standby.synced_after(now_ms())
    assert standby.row()["messages"] == 300
    primary.node.kill9()
    code, text = standby.promote()
    assert code == 0 and "had confirmed until" in text, text
    found = standby.all_of("q", 300)
    assert [body for _, _, body in found] == [b"%d" % number for number in range(100, 400)]
    method, properties, _ = found[0]
    assert (method.exchange, method.routing_key, method.redelivered) == ("x", "q", False)
    assert (properties.headers["h"], properties.message_id) == (1, "m")
    published(standby, "q", range(400, 401))
    assert standby.api.ask("POST", f"/standbys/{standby.path}/promote", {})[0] == 404


def test_definitions_follow_and_what_is_gone_goes(primary: Side, standby: Side) -> None:
    defined(primary, "a")
    defined(primary, "b", max_length=3, message_ttl=1)
    policy = {"pattern": "^a$", "definition": {"max-length": 2}, "apply-to": "queues"}
    primary.api.put(f"/policies/{standby.path}/limit", policy)
    primary.api.put("/users/anna", {"password": "secret", "tags": ""})
    rights = {"configure": "", "write": "x", "read": ".*"}
    primary.api.put(f"/permissions/{standby.path}/anna", rights)
    standby.follow(feed_uri(primary.node.management_url))
    standby.synced_after(now_ms())
    assert {each["name"] for each in standby.api.get(f"/queues/{standby.path}")} == {"a", "b"}
    assert standby.api.get(f"/policies/{standby.path}/limit")["definition"] == {"max-length": 2}
    assert standby.api.get(f"/permissions/{standby.path}/anna")["write"] == "x"
    channel = primary.channel()
    channel.queue_delete("b")
    channel.queue_declare("b", durable=True)  # Another queue of that name, without arguments.
    channel.queue_unbind("a", "x", "a")
    primary.api.delete(f"/policies/{standby.path}/limit")
    channel.basic_publish("", "b", b"new", pika.BasicProperties(delivery_mode=2))
    standby.synced_after(now_ms())
    eventually(lambda: standby.row()["messages"] == 1, standby.row)
    (queue,) = [each for each in standby.api.get(f"/queues/{standby.path}") if each["name"] == "b"]
    assert queue["arguments"] == {}
    assert standby.api.get(f"/policies/{standby.path}") == []
    assert not [row for row in standby.api.get(f"/bindings/{standby.path}") if row["source"] == "x"]


def test_limits_and_lifetimes_hold_only_once_it_is_promoted(primary: Side, standby: Side) -> None:
    """What a consumer of the primary has got stays in the standby, whatever the queue's limits."""
    defined(primary, "q", max_length=2, dead_letter_exchange="", dead_letter_routing_key="dead")
    defined(primary, "dead")
    standby.follow(feed_uri(primary.node.management_url))
    channel = primary.channel()
    channel.basic_consume("q", lambda *_: None)
    published(primary, "q", range(5), expiration="60000")
    channel.connection.process_data_events(time_limit=0.5)
    published(primary, "q", range(5, 7))
    standby.synced_after(now_ms())
    assert standby.row()["messages"] == 7
    code, text = standby.promote("--force")
    assert code == 0, text
    assert {body for _, _, body in standby.all_of("dead", 5)} == {b"%d" % each for each in range(5)}
    assert [body for _, _, body in standby.all_of("q", 2)] == [b"5", b"6"]


def test_a_standby_serves_no_client_before_its_promotion(primary: Side, standby: Side) -> None:
    defined(primary, "q")
    standby.follow(feed_uri(primary.node.management_url))
    standby.synced_after(now_ms())
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError, match=r"530.*warm standby"):
        standby.channel()
    message = {"routing_key": "q", "properties": {}, "payload": "p", "payload_encoding": "string"}
    path = f"/exchanges/{standby.path}/amq.default/publish"
    status, body = standby.api.ask("POST", path, message)
    assert (status, body["error"]) == (503, "unavailable")
    status, body = standby.api.ask("DELETE", f"/parameters/standby/{standby.path}/primary")
    assert status == 400 and "promote_standby" in body["reason"]


def test_promotion_is_refused_while_the_primary_answers_unless_forced(
    primary: Side, standby: Side
) -> None:
    defined(primary, "q")
    published(primary, "q", range(3))
    standby.follow(feed_uri(primary.node.management_url))
    standby.synced_after(now_ms())
    code, text = standby.promote()
    assert code != 0 and "still answers" in text
    assert standby.row()["state"] == "running"
    code, text = standby.promote("--force")
    assert code == 0, text
    published(primary, "q", range(3, 5))  # The standby does not take them any more.
    assert [body for _, _, body in standby.all_of("q", 3)] == [b"0", b"1", b"2"]


def test_the_recovery_point_grows_while_the_link_is_down_and_the_error_is_shown(
    primary: Side, standby: Side
) -> None:
    defined(primary, "q")
    standby.follow(feed_uri(primary.node.management_url))
    standby.synced_after(now_ms())
    primary.node.kill9()
    eventually(lambda: (standby.row()["rpo_seconds"] or 0) > 1.5, standby.row)
    row = standby.row()
    assert row["state"] == "error" and "cannot connect" in row["error"]
    assert "guest" not in str(row)
    age = f'warren_standby_rpo_seconds{{vhost="{standby.vhost}"}}'
    assert standby.node.metrics()[age] > 1.5
    primary.node.start()
    published(primary, "q", range(2))
    standby.synced_after(now_ms())
    assert (standby.row()["state"], standby.row()["messages"]) == ("running", 2)
    _, text = standby.command("standby_status")
    assert standby.vhost in text and "running" in text


def test_message_numbers_that_a_restart_uses_again_are_told_apart(
    primary: Side, standby: Side
) -> None:
    """The primary forgets transient messages, and gives their numbers to others."""
    defined(primary, "q", queue_type="classic")
    published(primary, "q", range(10))
    channel = primary.channel()
    for _ in range(5):
        channel.basic_publish("x", "q", b"transient", pika.BasicProperties(delivery_mode=1))
    standby.follow(feed_uri(primary.node.management_url))
    standby.synced_after(now_ms())
    eventually(lambda: standby.row()["messages"] == 15, standby.row)
    primary.node.kill9()
    primary.node.start()
    published(primary, "q", range(10, 17))
    standby.synced_after(now_ms())
    code, text = standby.promote("--force")
    assert code == 0, text
    assert [int(body) for _, _, body in standby.all_of("q", 17)] == list(range(17))


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_nothing_comes_back_or_doubles_when_either_side_is_killed(
    primary: Side, standby: Side, kind: str
) -> None:
    """Numbers of a classic queue may be used again after its node was killed."""
    defined(primary, "q", queue_type=kind)
    published(primary, "q", range(200))
    standby.follow(feed_uri(primary.node.management_url))
    standby.synced_after(now_ms())
    standby.node.kill9()
    channel = primary.channel()
    for _ in range(50):
        method, _, _ = channel.basic_get("q")
        channel.basic_ack(method.delivery_tag)
    channel.confirm_delivery()
    channel.basic_publish("x", "q", b"200", pika.BasicProperties(delivery_mode=2))
    primary.node.kill9()
    primary.node.start()
    published(primary, "q", range(201, 220))
    standby.node.start()
    standby.synced_after(now_ms())
    primary.node.kill9()
    code, text = standby.promote()
    assert code == 0, text
    found = [int(body) for _, _, body in standby.all_of("q", 170)]
    assert found == list(range(50, 220))


def test_a_stream_is_copied_once_and_in_order(primary: Side, standby: Side) -> None:
    defined(primary, "s", queue_type="stream")
    published(primary, "s", range(300), headers={"h": 1})
    standby.follow(feed_uri(primary.node.management_url))
    standby.synced_after(now_ms())
    assert standby.row()["messages"] == 300
    standby.node.kill9()
    published(primary, "s", range(300, 500))
    primary.node.kill9()
    primary.node.start()
    standby.node.start()
    standby.synced_after(now_ms())
    published(primary, "s", range(500, 600))
    standby.synced_after(now_ms())
    assert standby.row()["messages"] == 600
    primary.node.kill9()
    code, text = standby.promote()
    assert code == 0, text
    published(standby, "s", range(600, 601))
    found = read_stream(standby, "s", 601)
    assert [int(body) for _, body in found] == list(range(601))
    assert found[0][0].headers["h"] == 1
    assert [each.headers["x-stream-offset"] for each, _ in found] == list(range(601))


def test_a_stream_that_the_primary_declares_again_is_copied_again(
    primary: Side, standby: Side
) -> None:
    defined(primary, "s", queue_type="stream")
    published(primary, "s", range(5))
    standby.follow(feed_uri(primary.node.management_url))
    standby.synced_after(now_ms())
    primary.channel().queue_delete("s")
    defined(primary, "s", queue_type="stream")
    published(primary, "s", range(5, 8))
    standby.synced_after(now_ms())
    code, text = standby.promote("--force")
    assert code == 0, text
    assert [int(body) for _, body in read_stream(standby, "s", 3)] == [5, 6, 7]


def test_offsets_that_consumers_of_a_stream_have_stored_are_copied(
    nodes: tuple[Node, Node],
) -> None:
    standby = Side(nodes[1], "/")

    async def store(node: StreamNode, offset: int) -> None:
        async with Consumer(**node.place()) as consumer:
            await consumer.store_offset("log", "reader", offset)
            assert await consumer.query_offset("log", "reader") == offset

    def stored() -> object:
        return standby.api.get("/stream/%2F/log/tracking")["offsets"]

    with StreamNode() as node:
        primary = Side(node, "/")
        primary.channel().queue_declare("log", durable=True, arguments={"x-queue-type": "stream"})
        asyncio.run(store(node, 41))
        standby.follow(feed_uri(node.management_url))
        standby.synced_after(now_ms())
        assert stored() == {"reader": 41}
        asyncio.run(store(node, 7))
        standby.synced_after(now_ms())
        assert stored() == {"reader": 7}
        code, text = standby.promote("--force")
        assert code == 0, text
        assert stored() == {"reader": 7}
        primary.close()


def read_stream(side: Side, queue: str, count: int) -> list[tuple[Any, bytes]]:
    """So many messages from the first one on."""
    channel = side.channel()
    channel.basic_qos(prefetch_count=100)
    found: list[tuple[Any, bytes]] = []
    begin = {"x-stream-offset": "first"}
    for method, properties, body in channel.consume(queue, inactivity_timeout=20, arguments=begin):
        assert body is not None, f"{len(found)} of {count} messages came"
        channel.basic_ack(method.delivery_tag)
        found.append((properties, body))
        if len(found) == count:
            break
    return found


def test_what_makes_no_sense_is_refused(standby: Side) -> None:
    path = f"/parameters/standby/{standby.path}/primary"
    for value, reason in (
        ({}, 'Key "uri" not found in primary'),
        ({"uri": "amqp://a:b@c"}, "allowed are http and https"),
        ({"uri": "http://host"}, "it names no host, or no user"),
        ({"uri": "http://a:secret@h", "interval": "x"}, "interval should be a number"),
    ):
        status, body = standby.api.ask("PUT", path, {"value": value})
        assert status == 400 and reason in body["reason"] and "secret" not in body["reason"]
    standby.channel().queue_declare("own", durable=True)
    status, body = standby.api.ask("PUT", path, {"value": {"uri": "http://a:b@127.0.0.1:1"}})
    assert status == 400 and "has queues" in body["reason"]
    assert standby.api.ask("POST", f"/standbys/{standby.path}/promote", {})[0] == 404
    status, body = standby.api.ask("POST", f"/vhosts/{standby.path}/standby-feed", {"state": 1})
    assert (status, body["reason"]) == (400, "unknown question of a standby")


def test_the_page_shows_the_standby(standby: Side) -> None:
    standby.follow("http://anna:hush@127.0.0.1:1")
    base = f"{standby.node.management_url}/"
    with open_browser() as pages, pages.tab(base) as tab:
        show(tab, base, "#/links", "Links")
        row = tab.get_by_role("table", name="standbys").get_by_role("row", name=standby.vhost)
        row.get_by_text("error", exact=True).wait_for()
        assert row.locator("td[data-label='RPO']").inner_text() == "unknown"
        assert row.locator("td[data-label='Primary']").inner_text() == "http://127.0.0.1:1"


def test_passwords_of_primaries_are_not_shown(standby: Side) -> None:
    standby.follow("http://anna:hush@127.0.0.1:1")
    eventually(lambda: standby.row()["state"] == "error", standby.row)
    for path in ("/standbys", f"/parameters/standby/{standby.path}", "/parameters"):
        assert "hush" not in str(standby.api.get(path))
    assert "hush" not in standby.node.log()
