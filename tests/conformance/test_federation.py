"""Federation between real nodes: what reaches the other cluster, how often, and what is shown."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from node.cli.warrenctl import main
from tests.conformance.federation_pair import Cluster
from tests.waiting import eventually
from warren.testing import Node


@pytest.fixture
def sides() -> Iterator[tuple[Cluster, Cluster]]:
    """Downstream and upstream."""
    with Node(name="down") as down, Node(name="up") as up:
        found = Cluster(down), Cluster(up)
        yield found
        for each in found:
            each.close()


def consume(cluster: Cluster, queue: str, prefetch: int = 10) -> tuple[Any, list[bytes]]:
    """A consumer that acknowledges; its connection, and what it has got."""
    channel = cluster.channel()
    channel.basic_qos(prefetch_count=prefetch)
    found: list[bytes] = []

    def got(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        found.append(body)
        channel.basic_ack(method.delivery_tag)

    channel.basic_consume(queue, got)
    return channel.connection, found


def pumped(connection: Any, found: list[bytes], count: int) -> list[bytes]:
    def has_all() -> bool:
        connection.process_data_events(time_limit=0.1)
        return len(found) >= count

    eventually(has_all, lambda: len(found))
    return found


def test_an_exchange_gets_what_its_bindings_ask_for_from_upstream(
    sides: tuple[Cluster, Cluster],
) -> None:
    down, up = sides
    down.bound("q", "news", "a.#")
    down.upstream("origin", up.url)
    down.federate("^news$", "exchanges")
    (link,) = down.await_links()
    assert (link["type"], link["exchange"], link["upstream"]) == ("exchange", "news", "origin")
    up.publish("news", "a.b", headers={"mine": 1}, user_id="guest")
    up.publish("news", "b.b")
    down.publish("news", "a.local")
    eventually(lambda: down.depth("q") == 2)
    found = {method.routing_key: properties for method, properties, _ in down.got("q")}
    (hop,) = found["a.b"].headers["x-received-from"]
    assert (hop["exchange"], hop["redelivered"]) == ("news", False)
    assert (hop["cluster-name"], hop["vhost"]) == ("up", "/")
    assert hop["uri"].startswith("amqp://127.0.0.1")
    assert (found["a.b"].headers["mine"], found["a.b"].user_id) == (1, None)
    assert "x-received-from" not in (found["a.local"].headers or {})

    down.channel().queue_bind("q", "news", "c")
    upstream = up.api
    eventually(lambda: any(each["routing_key"] == "c" for each in upstream.get("/bindings")))
    down.channel().queue_unbind("q", "news", "a.#")
    eventually(lambda: not any(each["routing_key"] == "a.#" for each in upstream.get("/bindings")))
    up.publish("news", "a.b")
    up.publish("news", "c")
    eventually(lambda: down.depth("q") == 1)

    buffer = "federation: news -> down"
    assert [each["name"] for each in upstream.get("/queues")] == [buffer]
    down.api.delete("/parameters/federation-upstream/%2F/origin")
    eventually(lambda: upstream.get("/queues") == [])
    assert not [each for each in upstream.get("/exchanges") if buffer in each["name"]]


def test_what_is_published_while_the_link_is_down_arrives_once_it_is_back(
    sides: tuple[Cluster, Cluster],
) -> None:
    down, up = sides
    down.bound("q", "news", "#")
    down.upstream("origin", up.url, reconnect_delay=0.2)
    down.federate("^news$", "exchanges")
    down.await_links()
    up.publish("news", "k", 20)
    eventually(lambda: down.depth("q") == 20)
    down.close()
    down.node.kill9()
    up.publish("news", "k", 20)
    down.node.start()
    down.await_links()
    eventually(lambda: down.depth("q") == 40)
    up.close()
    up.node.kill9()
    eventually(lambda: down.links()[0]["status"] == "error")
    assert down.links()[0]["error"]
    up.node.start()
    down.await_links()
    up.publish("news", "k", 20)
    eventually(lambda: down.depth("q") == 60)


def test_link_that_is_removed_is_cleaned_up_whatever_uris_are_dead(
    sides: tuple[Cluster, Cluster],
) -> None:
    """The list names one broker that answers, and several that do not."""
    down, up = sides
    dead = [f"amqp://127.0.0.1:{port}" for port in range(1, 8)]
    down.bound("q", "news", "#")
    down.bound("p", "more", "#")
    value = {"uri": [*dead, up.url], "reconnect-delay": 0}
    down.api.put("/parameters/federation-upstream/%2F/origin", {"value": value})
    down.federate("^(news|more)$", "exchanges")
    down.await_links(2)
    assert len(up.api.get("/queues")) == 2
    down.api.delete("/parameters/federation-upstream/%2F/origin")
    eventually(lambda: up.api.get("/queues") == [])
    assert not [each for each in up.api.get("/exchanges") if "federation:" in each["name"]]


def test_what_a_removed_link_leaves_at_its_upstream_is_logged(
    sides: tuple[Cluster, Cluster],
) -> None:
    down, up = sides
    down.bound("q", "news", "#")
    down.upstream("origin", up.url)
    down.federate("^news$", "exchanges")
    down.await_links()
    up.close()
    up.node.kill9()
    down.api.delete("/parameters/federation-upstream/%2F/origin")
    text = (
        "upstream 'origin' of exchange 'news' in vhost '/': the queue 'federation: news -> down' "
        "and the exchanges of that name with ' A' and ' B' stay there"
    )
    eventually(lambda: text in down.node.log())
    up.node.start()


# (exchange, max-hops, upstreams of each cluster by place, messages of 1 that each cluster gets)
TRIANGLE, RING = ((1, 2), (0, 2), (0, 1)), ((2,), (0,), (1,))
SHAPES = [
    ("triangle1", 1, TRIANGLE, (1, 1, 1)),
    ("triangle2", 2, TRIANGLE, (1, 2, 2)),
    ("triangle3", 3, TRIANGLE, (1, 2, 2)),
    ("ring1", 1, RING, (1, 1, 0)),
    ("ring2", 2, RING, (1, 1, 1)),
    ("ring3", 3, RING, (1, 1, 1)),
]


@pytest.mark.timeout(240)
def test_three_clusters_get_each_message_as_often_as_hops_allow() -> None:
    """A message reaches a cluster on each way without a circle that is no longer than max-hops: in
    a triangle 1, or 2 with two hops or more; round a ring as far as the hops go, and never back."""
    with ExitStack() as stack:
        clusters = [
            Cluster(stack.enter_context(Node(name=name))) for name in ("alpha", "beta", "gamma")
        ]
        links = 0
        for name, hops, upstreams, copies in SHAPES:
            for each in clusters:
                each.bound(f"q{name}", name, "#")
            for each, places in zip(clusters, upstreams, strict=True):
                for place in places:
                    each.upstream(f"{place}{name}", clusters[place].url, max_hops=hops)
                pattern = {"federation-upstream-pattern": f"{name}$"}
                each.federate(f"^{name}$", "exchanges", **pattern)
            links += len(upstreams[0])
            for each in clusters:
                each.await_links(links)
            settle(clusters)
            clusters[0].publish(name, "k", 10)
            wanted = [10 * count for count in copies]
            for each, count in zip(clusters, wanted, strict=True):
                eventually(lambda: each.depth(f"q{name}") >= count)  # noqa: B023
            settle(clusters)
            assert [each.depth(f"q{name}") for each in clusters] == wanted, name
        for each in clusters:
            each.close()


def test_clusters_of_one_name_are_told_apart_by_their_ids(sides: tuple[Cluster, Cluster]) -> None:
    for each in sides:
        each.api.put("/cluster-name", {"name": "same"})
        each.bound("q", "news", "#")
    for each, other in (sides, reversed(sides)):
        each.upstream("other", other.url, max_hops=3)
        each.federate("^news$", "exchanges")
    for each in sides:
        each.await_links()
    settle(list(sides))
    for each in sides:
        each.publish("news", "k", 10)
    for each in sides:
        eventually(lambda: each.depth("q") >= 20)  # noqa: B023
    settle(list(sides))
    assert [each.depth("q") for each in sides] == [20, 20]


def settle(clusters: list[Cluster]) -> None:
    """Wait until bindings and messages have gone as far as they go: nothing changes any more."""
    seen: list[object] = []

    def state() -> object:
        return [
            (
                len(each.api.get("/bindings")),
                sum(row["messages_forwarded"] + row["in_flight"] for row in each.links()),
                [
                    row.get("messages", 0)
                    for row in each.api.get("/queues")
                    if row["name"].startswith("federation")
                ],
            )
            for each in clusters
        ]

    def is_same() -> bool:
        seen.append(state())
        return len(seen) > 4 and seen[-1] == seen[-2] == seen[-3] == seen[-4]

    eventually(is_same)


@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
def test_a_queue_takes_from_upstream_only_for_its_own_consumers(
    sides: tuple[Cluster, Cluster], queue_type: str
) -> None:
    down, up = sides
    kind = {"x-queue-type": queue_type}
    for each in (down, up):
        each.channel().queue_declare("work", durable=True, arguments=kind)
    down.upstream("origin", up.url, prefetch_count=5)
    down.federate("^work$", "queues")
    (link,) = down.await_links()
    assert (link["queue"], link["upstream_queue"]) == ("work", "work")
    up.publish("", "work", 30)
    down.publish("", "work", 3)
    assert (up.depth("work"), down.depth("work")) == (30, 3)
    connection, found = consume(down, "work")
    pumped(connection, found, 33)
    assert sorted(map(int, found)) == sorted([*range(30), *range(3)])
    connection.close()
    eventually(lambda: up.api.get("/consumers") == [])
    up.publish("", "work", 10)
    assert (up.depth("work"), down.depth("work")) == (10, 0)


@pytest.mark.parametrize("ack_mode", ["on-confirm", "on-publish"])
def test_consumer_that_acknowledges_nothing_brings_at_most_a_prefetch_more(
    sides: tuple[Cluster, Cluster], ack_mode: str
) -> None:
    down, up = sides
    for each in (down, up):
        each.channel().queue_declare("work", durable=True)
    up.publish("", "work", 3_000)
    down.upstream("origin", up.url, prefetch_count=10, ack_mode=ack_mode)
    down.federate("^work$", "queues")
    down.await_links()
    channel = down.channel()
    channel.basic_qos(prefetch_count=1)
    tags: list[int] = []
    channel.basic_consume("work", lambda channel, method, *_: tags.append(method.delivery_tag))

    def check(acknowledged: int) -> None:
        """What was moved, once the link has stopped."""
        eventually(lambda: up.api.get("/consumers") == [])
        # One that the consumer has, and a prefetch; on-publish two: what is under way counts.
        most = acknowledged + 1 + (10 if ack_mode == "on-confirm" else 20)
        assert acknowledged <= 3_000 - up.depth("work") <= most

    eventually(lambda: channel.connection.process_data_events(time_limit=0.1) or tags)
    check(0)
    done = 0
    while done < 200:
        channel.connection.process_data_events(time_limit=0.1)
        if len(tags) > done:
            channel.basic_ack(tags[-1], multiple=True)
            done = len(tags)
    check(done)


def test_two_queues_that_federate_each_other_leave_messages_where_they_are(
    sides: tuple[Cluster, Cluster],
) -> None:
    down, up = sides
    for each, other in ((down, up), (up, down)):
        each.channel().queue_declare("work", durable=True)
        each.upstream("other", other.url)
        each.federate("^work$", "queues")
    for each in sides:
        each.await_links()
    down.publish("", "work", 10)
    up.publish("", "work", 10)
    assert (down.depth("work"), up.depth("work")) == (10, 10)
    connection, found = consume(up, "work")
    pumped(connection, found, 20)
    assert down.depth("work") == 0


def test_a_cluster_is_emptied_into_another_one_under_running_consumers(
    sides: tuple[Cluster, Cluster],
) -> None:
    """Blue-green: publishers and consumers move one after the other, and nothing is lost."""
    new, old = sides
    for each in sides:
        each.channel().queue_declare("orders", durable=True)
    old.publish("", "orders", 200)
    new.upstream("old", old.url)
    new.federate("^orders$", "queues")
    new.await_links()
    connection, found = consume(new, "orders")
    new.publish("", "orders", 100)
    pumped(connection, found, 300)
    assert (old.depth("orders"), new.depth("orders")) == (0, 0)


@pytest.mark.parametrize(
    ("component", "value", "text"),
    [
        ("federation-upstream", {}, 'Key "uri" not found in bad'),
        ("federation-upstream", {"uri": "http://h"}, '"http://h" not a valid URI'),
        (
            "federation-upstream",
            {"uri": ["amqp://h", "amqp://u:p@h?auth_mechanism=x"]},
            '"amqp://u:***@h?auth_mechanism=x" not a valid URI: {unknown_mechanism,"x"}',
        ),
        (
            "federation-upstream",
            {"uri": "amqp://", "ack-mode": "x"},
            "ack-mode should be one of ['no-ack','on-publish','on-confirm']",
        ),
        ("federation-upstream", {"uri": "amqp://", "z": 1}, 'Unrecognised terms [{<<"z">>,1}]'),
        ("federation-upstream-set", {"upstream": "u"}, "bad should be list"),
        ("federation-upstream-set", [{}], 'Key "upstream" not found in bad'),
    ],
)
def test_an_upstream_that_makes_no_sense_is_refused(
    own_broker: Any, component: str, value: object, text: str
) -> None:
    api = Cluster(own_broker.node).api
    status, reason = api.ask("PUT", f"/parameters/{component}/%2F/bad", {"value": value})
    assert status == 400
    assert text in reason["reason"]


def test_links_that_fail_say_why_without_passwords(sides: tuple[Cluster, Cluster]) -> None:
    down, up = sides
    place = f"{up.node.host}:{up.node.port}"
    uris = {
        "unreachable": "amqp://guest:hush@127.0.0.1:1",
        "password": f"amqp://guest:hush@{place}",
        "vhost": f"amqp://guest:guest@{place}/nowhere",
    }
    for name, uri in uris.items():
        down.bound(f"q-{name}", name, "#")
        down.upstream(name, uri, reconnect_delay=0.1)
        down.federate(f"^{name}$", "exchanges", **{"federation-upstream": name})

    def errors() -> dict[str, str]:
        return {row["upstream"]: row.get("error", "") for row in down.links()}

    found: dict[str, str] = {}

    def failed() -> bool:
        """All at one look: a link that connects again has no error meanwhile."""
        found.update(errors())
        return all(found.get(name) for name in uris)

    eventually(failed, lambda: found)
    assert "the port refuses connections" in found["unreachable"]
    assert "ACCESS_REFUSED" in found["password"] or "login" in found["password"].lower()
    assert "vhost nowhere not found" in found["vhost"]
    shown = f"{down.links()} {down.api.get('/parameters')} {down.node.log()}"
    assert "hush" not in shown
    lines = [each for each in down.node.log().splitlines() if "failed and is restarted" in each]
    assert len(lines) <= 2 * len(uris), "a line for each try"


def test_link_uses_the_mechanism_of_its_uri(sides: tuple[Cluster, Cluster]) -> None:
    down, up = sides
    down.bound("q", "news", "#")
    down.upstream("origin", f"{up.url}?auth_mechanism=amqplain")
    down.federate("^news$", "exchanges")
    down.await_links()
    up.close()

    def mechanisms() -> list[str]:
        return [row["auth_mechanism"] for row in up.api.get("/connections")]

    eventually(lambda: mechanisms() == ["AMQPLAIN"], mechanisms)


def test_down_lists_the_links_that_neither_run_nor_start(
    sides: tuple[Cluster, Cluster], capsys: pytest.CaptureFixture[str]
) -> None:
    down, up = sides
    down.api.put("/vhosts/other", {})
    for name, uri in {"well": up.url, "unreachable": "amqp://127.0.0.1:1"}.items():
        down.bound(f"q-{name}", name, "#")
        down.upstream(name, uri, reconnect_delay=60)
        down.federate(f"^{name}$", "exchanges", **{"federation-upstream": name})

    def upstreams(path: str) -> list[str]:
        return sorted(row["upstream"] for row in down.api.get(f"/federation-links{path}"))

    eventually(lambda: upstreams("/state/running") == ["well"])
    eventually(lambda: upstreams("/state/down") == ["unreachable"])
    assert upstreams("/%2F/state/down") == ["unreachable"]
    assert upstreams("/%2F/state/error") == ["unreachable"]
    assert upstreams("/other/state/down") == []
    assert upstreams("/%2F") == ["unreachable", "well"]
    for path, status, text in (
        ("/state/sideways", 400, "state 'sideways' is not known: allowed: down, error"),
        ("/nowhere/state/down", 404, "vhost_not_found"),
        ("/%2F/down", 404, "Not Found"),
    ):
        found, body = down.api.ask("GET", f"/federation-links{path}")
        assert (found, text in str(body)) == (status, True), body
    assert main(["--node-url", down.node.management_url, "federation_status", "--only-down"]) == 0
    shown = capsys.readouterr().out
    assert ("unreachable" in shown, "well" in shown) == (True, False)


def test_an_upstream_exchange_of_another_type_keeps_it_and_is_federated(
    sides: tuple[Cluster, Cluster],
) -> None:
    """RabbitMQ's link declares the upstream exchange passively first, which compares no types."""
    down, up = sides
    down.bound("q", "x", "only.this")
    up.channel().exchange_declare("x", "fanout", durable=True)
    down.upstream("origin", up.url, reconnect_delay=0.1)
    down.federate("^x$", "exchanges", **{"federation-upstream": "origin"})
    down.await_links(1)
    up.publish("x", "only.this", 3)
    eventually(lambda: down.depth("q") == 3)


def test_commands_show_and_restart_links(
    sides: tuple[Cluster, Cluster], capsys: pytest.CaptureFixture[str]
) -> None:
    down, up = sides
    down.bound("q", "news", "#")
    down.upstream("origin", up.url)
    down.federate("^news$", "exchanges", **{"federation-upstream": "origin"})
    (link,) = down.await_links()

    def ctl(*words: str) -> str:
        assert main(["--node-url", down.node.management_url, *words]) == 0
        return capsys.readouterr().out

    assert down.node.metrics()['rabbitmq_federation_links{status="running"}'] == 1
    shown = ctl("federation_status")
    assert f"{link['id']}\texchange\t/\tnews\t\torigin\tnews\t\trunning" in shown
    assert "guest:" not in shown
    ctl("restart_federation_link", link["id"])
    down.await_links()
    assert link["id"] not in ctl("federation_status", "--only-down")
    assert main(["--node-url", down.node.management_url, "restart_federation_link", "x"]) == 65


def test_a_link_that_was_removed_is_listed_no_longer(sides: tuple[Cluster, Cluster]) -> None:
    """Also where another one is defined before the removed one has ended."""
    down, up = sides
    down.bound("q", "news", "#")
    down.upstream("u0", up.url)
    down.federate("^news$", "exchanges")
    down.await_links()
    for number in range(1, 10):
        down.api.delete(f"/parameters/federation-upstream/%2F/u{number - 1}")
        down.upstream(f"u{number}", up.url)
        assert {each["upstream"] for each in down.links()} <= {f"u{number}"}
