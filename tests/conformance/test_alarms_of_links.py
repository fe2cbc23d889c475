"""Resource alarms of a cluster that gets messages from another one: links, shovels, standby."""

from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from tests.conformance.federation_pair import Cluster
from tests.conformance.standby_pair import Side, feed_uri
from tests.conformance.test_federation import consume, pumped
from tests.conformance.test_shovels_amqp10 import source, target
from tests.conformance.test_standby import defined, now_ms, published, read_stream
from tests.waiting import eventually
from warren.testing import Node

BEFORE: Final = 5  # messages that come before the alarm
PREFETCH: Final = 64
HELD: Final = 3 * PREFETCH

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def nodes() -> Iterator[tuple[Node, Node]]:
    """The one that gets messages, and the one that has them."""
    with Node(name="here") as here, Node(name="there") as there:
        yield here, there


@pytest.fixture
def sides(nodes: tuple[Node, Node]) -> Iterator[tuple[Cluster, Cluster]]:
    found = Cluster(nodes[0]), Cluster(nodes[1])
    yield found
    for each in found:
        each.close()
        for alarm in ("memory", "disk"):
            set_alarm(each, alarm, False)


def set_alarm(side: Cluster, alarm: str, is_on: bool) -> None:
    """Raise or clear an alarm by the limit of the node."""
    if alarm == "memory":
        limits = {"vm_memory_high_watermark": {"absolute": 0 if is_on else 1 << 40}}
    else:
        limits = {"disk_free_limit": {"absolute": 1 << 60 if is_on else 1 << 20}}
    side.api.put(f"/nodes/{side.node.name}/limits", limits)
    column = "mem_alarm" if alarm == "memory" else "disk_free_alarm"
    eventually(lambda: side.api.get("/nodes")[0][column] is is_on)


class ExchangeLink:
    """Each kind has a link for a queue `name` of either side, and says what has come by it."""

    def __init__(self, here: Cluster, there: Cluster, name: str) -> None:
        self._here, self._there, self._name = here, there, name
        here.bound(name, f"x{name}", "#")
        here.upstream(name, there.url, prefetch_count=PREFETCH)
        here.federate(f"^x{name}$", "exchanges", **{"federation-upstream": name})
        here.await_links()

    def publish(self, first: int, count: int) -> None:
        self._there.publish(f"x{self._name}", "k", count, first)

    def come(self, count: int) -> list[bytes]:
        """All that has come here, once it is so many messages; they are settled."""
        eventually(lambda: self._here.depth(self._name) == count)
        return [body for _, _, body in self._here.got(self._name)]

    def remaining(self) -> int:
        """Messages that the other side has not settled."""
        queues = self._there.api.get("/queues/%2F")
        return sum(each["messages"] for each in queues if f"x{self._name} ->" in each["name"])

    def row(self) -> dict[str, Any]:
        (found,) = self._here.links()
        return dict(found)

    def close(self) -> None:
        self._here.api.delete(f"/parameters/federation-upstream/%2F/{self._name}")
        self._here.api.delete(f"/policies/%2F/exchanges%5Ex{self._name}%24")
        eventually(lambda: not self._here.links())


class QueueLink:
    """A queue link moves messages while there is a consumer here."""

    def __init__(self, here: Cluster, there: Cluster, name: str) -> None:
        self._here, self._there, self._name = here, there, name
        for each in (here, there):
            each.channel().queue_declare(name, durable=True)
        here.upstream(name, there.url, prefetch_count=PREFETCH)
        here.federate(f"^{name}$", "queues", **{"federation-upstream": name})
        here.await_links()
        self._connection, self._got = consume(here, name)

    def publish(self, first: int, count: int) -> None:
        self._there.publish("", self._name, count, first)

    def come(self, count: int) -> list[bytes]:
        pumped(self._connection, self._got, count)
        found = self._got[:]
        self._got.clear()
        return found

    def remaining(self) -> int:
        return int(self._there.api.get(f"/queues/%2F/{self._name}")["messages"])

    def row(self) -> dict[str, Any]:
        (found,) = self._here.links()
        return dict(found)

    def close(self) -> None:
        self._here.api.delete(f"/parameters/federation-upstream/%2F/{self._name}")
        self._here.api.delete(f"/policies/%2F/queues%5E{self._name}%24")
        eventually(lambda: not self._here.links())


class Shovel:
    """From one protocol to another; `local` is this cluster."""

    def __init__(self, here: Cluster, there: Cluster, name: str, pair: tuple[str, str]) -> None:
        self._here, self._there, self._name = here, there, name
        for each in (here, there):
            each.channel().queue_declare(name, durable=True)
        value = source(pair[0], there.node, name) | target(pair[1], here.node, name)
        made = {key.replace("_", "-"): each for key, each in value.items()}
        here.api.put(f"/parameters/shovel/%2F/{name}", {"value": made})

    def publish(self, first: int, count: int) -> None:
        self._there.publish("", self._name, count, first)

    def come(self, count: int) -> list[bytes]:
        eventually(lambda: self._here.depth(self._name) == count)
        return [body for _, _, body in self._here.got(self._name)]

    def remaining(self) -> int:
        return int(self._there.api.get(f"/queues/%2F/{self._name}")["messages"])

    def row(self) -> dict[str, Any]:
        (found,) = self._here.api.get("/shovels")
        return dict(found)

    def close(self) -> None:
        self._here.api.delete(f"/parameters/shovel/%2F/{self._name}")


def shovel(pair: tuple[str, str]) -> Callable[[Cluster, Cluster, str], Shovel]:
    return lambda here, there, name: Shovel(here, there, name, pair)


LINKS: Final[dict[str, Callable[[Cluster, Cluster, str], Any]]] = {
    "exchange": ExchangeLink,
    "queue": QueueLink,
    "amqp091": shovel(("amqp091", "amqp091")),
    "amqp10": shovel(("amqp10", "amqp10")),
    "local": shovel(("amqp091", "local")),
}


def bodies(first: int, count: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


@pytest.mark.parametrize("alarm", ["memory", "disk"])
@pytest.mark.parametrize("kind", LINKS)
def test_link_waits_for_an_alarm_of_its_target_and_for_none_of_its_source(
    sides: tuple[Cluster, Cluster], kind: str, alarm: str
) -> None:
    here, there = sides
    link = LINKS[kind](here, there, f"{kind}-{alarm}")
    link.publish(0, BEFORE)
    assert link.come(BEFORE) == bodies(0, BEFORE)
    eventually(lambda: link.remaining() == 0)
    set_alarm(here, alarm, True)
    link.publish(BEFORE, HELD)
    eventually(lambda: link.row()["in_flight"] == PREFETCH, link.row)
    if kind != "amqp10":  # Which has no word for it but the credit.
        assert link.row()["blocked_status"] == "blocked"
    assert link.come(0) == []
    assert link.remaining() == HELD
    set_alarm(there, alarm, True)
    set_alarm(here, alarm, False)
    assert link.come(HELD) == bodies(BEFORE, HELD)
    eventually(lambda: link.remaining() == 0)
    link.close()


@pytest.mark.parametrize(
    ("queue_type", "alarm"), [("classic", "memory"), ("quorum", "disk"), ("stream", "memory")]
)
def test_standby_copies_no_messages_while_it_has_an_alarm(
    sides: tuple[Cluster, Cluster], queue_type: str, alarm: str
) -> None:
    """What the primary settles and defines is followed: it is the way out of the alarm."""
    here, there = sides
    standby, primary = (Side(each.node, f"{queue_type}-{alarm}") for each in sides)
    for side in (standby, primary):
        side.add_vhost()
    defined(primary, "q", queue_type=queue_type)
    defined(primary, "first")
    published(primary, "q", range(10))
    published(primary, "first", range(10))
    standby.follow(feed_uri(primary.node.management_url))
    standby.synced_after(now_ms())
    set_alarm(here, alarm, True)
    published(primary, "q", range(10, HELD))
    set_alarm(there, alarm, True)
    channel = primary.channel()
    for _ in range(10):
        channel.basic_get("first", auto_ack=True)
    channel.queue_declare("late", durable=True)
    eventually(lambda: standby.row()["state"] == "blocked", standby.row)
    eventually(lambda: standby.row()["messages_settled"] == 10, standby.row)
    eventually(lambda: standby.api.ask("GET", f"/queues/{standby.path}/late")[0] == 200)
    row = standby.row()
    assert (row["messages"], row["messages_copied"]) == (10, 20)
    assert row["error"] == f"resource alarm: low on {alarm}"
    blocked_ms = now_ms()
    eventually(lambda: standby.row()["rpo_seconds"] > 1)
    assert row["synced_at"] < blocked_ms
    lines = [line for line in standby.node.log().splitlines() if standby.vhost in line]
    assert len([line for line in lines if "copies no messages" in line]) == 1, lines
    set_alarm(here, alarm, False)
    standby.synced_after(blocked_ms)
    row = standby.row()
    assert (row["state"], row["messages"], row["messages_copied"]) == ("running", HELD, 10 + HELD)
    assert "error" not in row
    code, text = standby.promote("--force")
    assert code == 0, text
    if queue_type == "stream":
        found = [body for _, body in read_stream(standby, "q", HELD)]
    else:
        found = [body for _, _, body in standby.all_of("q", HELD)]
    assert found == bodies(0, HELD)
    for side in (standby, primary):
        side.restart_dead()
