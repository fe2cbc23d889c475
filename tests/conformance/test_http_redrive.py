"""Dead letters that go back to where they died: none lost, and what cannot go back stays."""

import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.request import Request, urlopen

import pytest
import rabbitmq_amqp_python_client as rabbitmq

from tests.conformance.broker import Broker, drain, publish_all, wait_until_ready
from warren.testing import Node
from warren.testing.http_api import HttpApi

READ = "^dead$"
WRITES = {"mender": "^(amq.default|other)$", "reader": "^other$"}
DEATHS = {"x-death", "x-first-death-queue", "x-last-death-reason"}


@pytest.fixture(scope="module")
def node(broker: Broker) -> Node:
    if broker.node is None:
        pytest.skip("WARREN_TEST_URL: this broker is not ours")
    return broker.node


@pytest.fixture
def api(node: Node) -> Iterator[HttpApi]:
    shared = HttpApi(node.management_url)
    yield shared
    for name in ("work", "dead", "side"):
        shared.ask("DELETE", f"/queues/%2F/{name}")
    shared.ask("DELETE", "/exchanges/%2F/other")


@pytest.fixture
def channel(node: Node) -> Iterator[Any]:
    connection = Broker(node.host, node.port, node).connect()
    yield connection.channel()
    connection.close()


def declare(api: HttpApi, kind: str) -> None:
    """Queue `work`, whose dead letters come to `dead`."""
    rule = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    typed = {"x-queue-type": kind}
    api.put("/queues/%2F/work", {"durable": True, "arguments": {**rule, **typed}})
    api.put("/queues/%2F/dead", {"durable": True, "arguments": typed})


def die(channel: Any, bodies: list[bytes]) -> None:
    """The messages are rejected in `work`."""
    publish_all(channel, "work", bodies, persistent=True)
    for _ in bodies:
        method, _, _ = channel.basic_get("work")
        channel.basic_nack(method.delivery_tag, requeue=False)
    wait_until_ready(channel, "dead", len(bodies))


def redrive(api: HttpApi, **body: Any) -> Any:
    return api.post("/queues/%2F/dead/redrive", body)


def letters(channel: Any, queue: str) -> list[Any]:
    """What is there, with its properties."""
    found: list[Any] = []
    while True:
        method, properties, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return found
        found.append((body, properties, method))


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_dead_letters_go_back_in_order_to_where_they_died(
    api: HttpApi, channel: Any, kind: str
) -> None:
    declare(api, kind)
    bodies = [b"%d" % number for number in range(150)]
    die(channel, bodies)
    assert redrive(api) == {"moved": 150, "kept": 0, "reasons": {}}
    back = letters(channel, "work")
    assert [body for body, _, _ in back] == bodies
    assert not any(DEATHS.intersection(each.headers or {}) for _, each, _ in back)
    assert all(each.delivery_mode == 2 for _, each, _ in back)
    assert drain(channel, "dead") == []
    assert redrive(api) == {"moved": 0, "kept": 0, "reasons": {}}


def test_only_so_many_are_moved_as_are_asked_for(api: HttpApi, channel: Any) -> None:
    declare(api, "classic")
    die(channel, [b"1", b"2", b"3"])
    assert redrive(api, count=2)["moved"] == 2
    assert drain(channel, "work") == [b"1", b"2"]
    assert drain(channel, "dead") == [b"3"]


def test_what_does_not_say_where_it_died_stays_with_the_rest_gone(
    api: HttpApi, channel: Any
) -> None:
    declare(api, "classic")
    die(channel, [b"1"])
    publish_all(channel, "dead", [b"stranger"])
    done = redrive(api)
    assert (done["moved"], done["kept"]) == (1, 1)
    assert list(done["reasons"]) == ["it does not say in which queue it died"]
    ((body, _, method),) = letters(channel, "dead")
    assert body == b"stranger" and method.redelivered
    assert drain(channel, "work") == [b"1"]


def test_what_would_be_in_no_queue_stays(api: HttpApi, channel: Any) -> None:
    declare(api, "classic")
    die(channel, [b"1"])
    api.delete("/queues/%2F/work")
    assert redrive(api)["reasons"] == {"it would be in no queue": 1}
    assert redrive(api, exchange="none")["kept"] == 1
    assert drain(channel, "dead") == [b"1"]


def test_what_the_target_refuses_stays(api: HttpApi, channel: Any) -> None:
    declare(api, "classic")
    die(channel, [b"1", b"2", b"3"])
    full = {"x-max-length": 1, "x-overflow": "reject-publish"}
    api.put("/queues/%2F/side", {"arguments": full})
    done = redrive(api, exchange="", routing_key="side")
    assert (done["moved"], done["kept"]) == (1, 2)
    assert drain(channel, "side") == [b"1"]
    assert drain(channel, "dead") == [b"2", b"3"]


def test_they_go_to_an_exchange_with_their_own_key_or_another(api: HttpApi, channel: Any) -> None:
    declare(api, "classic")
    api.put("/queues/%2F/side", {})
    api.put("/exchanges/%2F/other", {"type": "topic"})
    api.ask("POST", "/bindings/%2F/e/other/q/side", {"routing_key": "#"})
    die(channel, [b"1", b"2"])
    assert redrive(api, exchange="other", count=1, keep_deaths=True)["moved"] == 1
    assert redrive(api, exchange="other", routing_key="fresh")["moved"] == 1
    first, second = letters(channel, "side")
    assert (first[2].routing_key, second[2].routing_key) == ("dead", "fresh")
    assert first[1].headers["x-first-death-queue"] == "work" and not second[1].headers
    assert (first[2].exchange, second[2].exchange) == ("other", "other")


def test_a_filter_chooses_who_goes_back(api: HttpApi, channel: Any) -> None:
    declare(api, "classic")
    die(channel, [b"1", b"2"])
    publish_all(channel, "dead", [b"stranger"])
    done = redrive(api, filter={"death_queue": "elsewhere"})
    assert done == {"moved": 0, "kept": 3, "reasons": {"the filter does not mean it": 3}}
    done = redrive(api, filter={"death_queue": "work", "death_reason": "rejected"})
    assert done == {"moved": 2, "kept": 1, "reasons": {"the filter does not mean it": 1}}
    assert drain(channel, "work") == [b"1", b"2"]
    assert drain(channel, "dead") == [b"stranger"]


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_dry_run_says_what_would_go_and_touches_nothing(
    api: HttpApi, channel: Any, kind: str
) -> None:
    declare(api, kind)
    die(channel, [b"%d" % number for number in range(70)])
    publish_all(channel, "dead", [b"stranger"], persistent=True)
    stranger = {"it does not say in which queue it died": 1}
    assert redrive(api, dry_run=True) == {"moved": 70, "kept": 1, "reasons": stranger}
    assert redrive(api, dry_run=True, count=30) == {"moved": 30, "kept": 0, "reasons": {}}
    to_nobody = {"exchange": "none", "filter": {"death_queue": "work"}}
    done = redrive(api, dry_run=True, **to_nobody)
    assert done["reasons"] == {"it would be in no queue": 70, "the filter does not mean it": 1}
    assert drain(channel, "work") == []
    found = letters(channel, "dead")
    assert len(found) == 71 and not any(method.redelivered for _, _, method in found)


def test_a_rate_holds_messages_back(api: HttpApi, channel: Any) -> None:
    declare(api, "classic")
    die(channel, [b"1", b"2", b"3"])
    begun = time.monotonic()
    assert redrive(api, rate=10)["moved"] == 3
    assert time.monotonic() - begun >= 0.3
    assert drain(channel, "work") == [b"1", b"2", b"3"]


def test_progress_is_told_after_each_few_messages(api: HttpApi, channel: Any, node: Node) -> None:
    declare(api, "classic")
    die(channel, [b"%d" % number for number in range(70)])
    raw = urlopen(progress_request(node, {}), timeout=20).read().splitlines()
    lines = [json.loads(line) for line in raw]
    assert [line["moved"] for line in lines] == [64, 70, 70]
    assert [line.get("status") for line in lines] == [None, None, "ok"]


def progress_request(node: Node, body: Any) -> Request:
    url = f"{node.management_url}/api/queues/%2F/dead/redrive?progress=true"
    headers = {"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q=", "Content-Type": "application/json"}
    return Request(url, json.dumps(body).encode(), headers, method="POST")


def test_who_goes_away_ends_what_it_began(api: HttpApi, channel: Any, node: Node) -> None:
    declare(api, "classic")
    die(channel, [b"%d" % number for number in range(40)])
    with urlopen(progress_request(node, {"rate": 20}), timeout=20) as reply:
        assert json.loads(reply.readline())["moved"] >= 1
    wait_until_still(api)
    left = api.get("/queues/%2F/dead")
    assert left["messages_unacknowledged"] == 0 and left["messages_ready"] > 20
    drain(channel, "work")


def wait_until_still(api: HttpApi) -> None:
    """No consumer holds dead letters any more."""
    deadline = time.monotonic() + 10
    still = 0
    while still < 3:
        assert time.monotonic() < deadline
        moved = redrive(api, dry_run=True)["moved"]
        time.sleep(0.11)
        still = still + 1 if redrive(api, dry_run=True)["moved"] == moved else 0


def test_a_queue_can_be_redriven_into_itself_once(api: HttpApi, channel: Any) -> None:
    declare(api, "classic")
    die(channel, [b"1", b"2"])
    assert redrive(api, exchange="", routing_key="dead")["moved"] == 2
    assert drain(channel, "dead") == [b"1", b"2"]


def test_a_message_may_die_and_go_back_again_and_again(api: HttpApi, channel: Any) -> None:
    """Without its history it is no circle."""
    declare(api, "quorum")
    for _ in range(3):
        die(channel, [b"1"])
        assert redrive(api)["moved"] == 1
        assert drain(channel, "work") == [b"1"]


def test_messages_of_amqp_1_0_stay_what_they_are(node: Node, api: HttpApi, channel: Any) -> None:
    declare(api, "quorum")
    modern = rabbitmq.Environment(f"amqp://guest:guest@{node.host}:{node.port}/").connection()
    modern.dial()
    publisher = modern.publisher(rabbitmq.AddressHelper.queue_address("work"))
    message: Any = rabbitmq.Message(body=b"modern", annotations={"x-opt-kept": "yes"})
    message.application_properties = {"app": 1}
    publisher.publish(message)
    method, _, _ = channel.basic_get("work")
    channel.basic_nack(method.delivery_tag, requeue=False)
    wait_until_ready(channel, "dead", 1)
    assert redrive(api)["moved"] == 1
    got: list[Any] = []

    class Taker(rabbitmq.AMQPMessagingHandler):
        def on_amqp_message(self, event: Any) -> None:
            got.append(event.message)
            self.delivery_context.accept(event)
            raise StopIteration

    source = rabbitmq.AddressHelper.queue_address("work")
    consumer = modern.consumer(source, message_handler=Taker())
    with pytest.raises(StopIteration):
        consumer.run()
    (back,) = got
    assert bytes(back.body) == b"modern" and back.application_properties == {"app": 1}
    names = {str(name) for name in back.annotations or {}}
    assert "x-opt-kept" in names and not any("death" in name for name in names)
    modern.close()


def test_rights_are_asked_for_on_both_ends(node: Node, api: HttpApi, channel: Any) -> None:
    for name, write in WRITES.items():
        api.put(f"/users/{name}", {"password": name, "tags": "management"})
        rights = {"configure": "", "write": write, "read": READ}
        api.put(f"/permissions/%2F/{name}", rights)
    declare(api, "classic")
    die(channel, [b"1", b"2"])
    reader = HttpApi(node.management_url, "reader")
    assert redrive(reader)["reasons"] == {"not permitted": 2}
    assert reader.refused("POST", "/queues/%2F/work/redrive", {})[0] == 401
    assert redrive(HttpApi(node.management_url, "mender"))["moved"] == 2
    assert drain(channel, "work") == [b"1", b"2"]
    for name in WRITES:
        api.delete(f"/users/{name}")


@pytest.mark.parametrize(
    "body",
    [
        {"count": 0},
        {"count": -1},
        {"count": "many"},
        {"exchange": 5},
        {"exchange": "x" * 256},
        {"routing_key": "k"},
        {"exchange": "", "routing_key": "k" * 256},
        {"keep_deaths": "perhaps"},
        {"rate": -1},
        {"dry_run": 1},
        {"filter": {"reason": "x"}},
    ],
)
def test_an_order_that_cannot_be_is_refused(api: HttpApi, body: Any) -> None:
    declare(api, "classic")
    assert api.refused("POST", "/queues/%2F/dead/redrive", body)[0] == 400
    assert api.refused("POST", "/queues/%2F/none/redrive", {})[0] == 404
