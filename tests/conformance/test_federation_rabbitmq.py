"""Federation and shovels between Warren and a real RabbitMQ, in both directions."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.federation_pair import Cluster
from tests.conformance.rabbitmq import RELEASES, RabbitMq
from tests.waiting import eventually
from warren.testing import Node

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module", params=RELEASES, ids=lambda release: release.version)
def rabbit(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    with RabbitMq(request.param, tmp_path_factory.mktemp("rabbit") / "node", "hare") as node:
        found = Cluster(node)
        yield found
        found.close()


@pytest.fixture(scope="module")
def warren(rabbit: Cluster) -> Iterator[Cluster]:
    with Node(name="burrow") as node:
        found = Cluster(node)
        yield found
        found.close()


@pytest.fixture(params=["from RabbitMQ", "to RabbitMQ"])
def sides(request: pytest.FixtureRequest, rabbit: Cluster, warren: Cluster) -> Iterator[Any]:
    """Downstream, upstream, and a word for names of this direction."""
    if request.param == "from RabbitMQ":
        yield warren, rabbit, "in"
    else:
        yield rabbit, warren, "out"


def running(cluster: Cluster, upstream: str) -> None:
    eventually(
        lambda: (
            [each["status"] for each in cluster.links() if each["upstream"] == upstream]
            == ["running"]
        ),
        cluster.links,
        seconds=40,
    )


def test_an_exchange_is_federated(sides: tuple[Cluster, Cluster, str]) -> None:
    down, up, word = sides
    exchange, queue = f"x-{word}", f"q-{word}"
    down.bound(queue, exchange, "a.#")
    down.upstream(f"ux-{word}", up.url)
    down.federate(f"^{exchange}$", "exchanges", **{"federation-upstream": f"ux-{word}"})
    running(down, f"ux-{word}")
    up.publish(exchange, "a.b", 50, headers={"mine": 1}, message_id="m")
    up.publish(exchange, "b", 5)
    eventually(lambda: down.depth(queue) == 50)
    found = down.got(queue)
    assert [int(body) for _, _, body in found] == list(range(50))
    method, properties, _ = found[0]
    assert (method.routing_key, properties.message_id) == ("a.b", "m")
    (hop,) = properties.headers["x-received-from"]
    assert (hop["exchange"], hop["vhost"], hop["redelivered"]) == (exchange, "/", False)
    assert hop["cluster-name"] == up.api.get("/cluster-name")["name"]
    assert hop["uri"].startswith("amqp://127.0.0.1")
    down.api.delete(f"/parameters/federation-upstream/%2F/ux-{word}")
    name = f"federation: {exchange} -> "
    eventually(
        lambda: not [each for each in up.api.get("/queues") if each["name"].startswith(name)]
    )


def test_messages_of_two_way_federation_do_not_come_back(rabbit: Cluster, warren: Cluster) -> None:
    for each, other in ((rabbit, warren), (warren, rabbit)):
        each.bound("q-both", "x-both", "#")
        each.upstream("u-both", other.url, max_hops=2)
    for each in (rabbit, warren):
        each.federate("^x-both$", "exchanges", **{"federation-upstream": "u-both"})
    for each in (rabbit, warren):
        running(each, "u-both")
    for count, each in enumerate((rabbit, warren), 1):
        each.publish("x-both", "k", 10)
        for side in (rabbit, warren):
            eventually(lambda: side.depth("q-both") >= 10 * count)  # noqa: B023
    for each in (rabbit, warren):
        each.publish("x-both", "end")
    for each in (rabbit, warren):
        eventually(lambda: each.depth("q-both") >= 22)  # noqa: B023
        assert len(each.got("q-both")) == 22


def test_a_queue_is_federated(sides: tuple[Cluster, Cluster, str]) -> None:
    down, up, word = sides
    queue = f"w-{word}"
    for each in (down, up):
        each.channel().queue_declare(queue, durable=True)
    down.upstream(f"uq-{word}", up.url)
    down.federate(f"^{queue}$", "queues", **{"federation-upstream": f"uq-{word}"})
    running(down, f"uq-{word}")
    up.publish("", queue, 100)
    assert down.depth(queue) == 0
    channel = down.channel()
    found: list[bytes] = []
    channel.basic_consume(queue, lambda ch, method, props, body: found.append(body), auto_ack=True)

    def has_all() -> bool:
        channel.connection.process_data_events(time_limit=0.1)
        return len(found) >= 100

    eventually(has_all, lambda: len(found))
    assert sorted(map(int, found)) == list(range(100))


def end_of(kind: str, protocol: str, cluster: Cluster, queue: str) -> dict[str, object]:
    """The keys of a shovel for its source (`src`) or target (`dest`)."""
    if protocol == "amqp091":
        ends = {"uri": cluster.url, "queue": queue}
    else:
        # RabbitMQ's client for AMQP 1.0 refuses URIs with a vhost in the path.
        uri = cluster.url.removesuffix("/%2F")
        is_old = isinstance(cluster.node, RabbitMq) and cluster.node.release.major == 3
        ends = {"uri": uri, "address": f"/{'amq/queue' if is_old else 'queues'}/{queue}"}
    return {f"{kind}-{name}": value for name, value in {"protocol": protocol, **ends}.items()}


@pytest.mark.parametrize("way", ["pulls", "pushes"])
@pytest.mark.parametrize("target", ["amqp091", "amqp10"])
@pytest.mark.parametrize("source", ["amqp091", "amqp10"])
def test_a_shovel_moves_messages(
    rabbit: Cluster, sides: tuple[Cluster, Cluster, str], source: str, target: str, way: str
) -> None:
    here, there, word = sides
    first, last = (there, here) if way == "pulls" else (here, there)
    name = f"{word}-{way}-{source}-{target}"
    for cluster, queue in ((first, name), (last, f"{name}-moved")):
        cluster.channel().queue_declare(queue, durable=True)
    first.publish("", name, 100, headers={"mine": 1}, message_id="m")
    value = {
        **end_of("src", source, first, name),
        **end_of("dest", target, last, f"{name}-moved"),
        "dest-add-forward-headers": True,
        "src-delete-after": "queue-length" if source == "amqp091" else 100,
    }
    here.api.put(f"/parameters/shovel/%2F/{name}", {"value": value})
    eventually(
        lambda: here.api.ask("GET", f"/parameters/shovel/%2F/{name}")[0] == 404,
        lambda: here.api.get("/shovels"),
        seconds=40,
    )
    assert first.depth(name) == 0
    found = last.got(f"{name}-moved")
    assert [int(body) for _, _, body in found] == list(range(100))
    _, properties, _ = found[0]
    if here is rabbit and source == "amqp10":
        return  # RabbitMQ's shovel drops properties of AMQP 1.0.
    assert properties.message_id == "m"
    if rabbit.node.release.major > 3 or (source, target) == ("amqp091", "amqp091"):
        # AMQP 1.0 of RabbitMQ 3 does not convert headers to application properties.
        assert properties.headers["mine"] == 1
    if (source, target) == ("amqp091", "amqp091"):
        (hop,) = properties.headers["x-shovelled"]
        assert (hop["shovel-type"], hop["shovel-name"], hop["src-queue"]) == ("dynamic", name, name)
