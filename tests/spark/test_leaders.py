"""Tasks read at the leader of their stream; real nodes, without Spark's session."""

import json
import pickle
import socket
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from warren.testing.http_api import HttpApi

pytest.importorskip("pyspark")

from tests.spark.test_spark import declare, publish, run_with
from tests.waiting import eventually
from warren.client import RequestFailed
from warren.spark.leaders import address_of, url_at
from warren.spark.options import read_options
from warren.spark.source import Range, Reader, StreamReader, read_range
from warren.spark.stream_reads import ReadError
from warren.testing import Broker, ClusterOfNodes

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def declare_on_its_own(url: str, name: str) -> None:
    """A stream with one member, at the node of the URL."""

    async def work(connection: Any, management: Any) -> None:
        alone = {"x-queue-type": "stream", "x-initial-cluster-size": 1}
        alone["x-queue-leader-locator"] = "client-local"
        await management.declare_queue(name, arguments=alone)

    run_with(url, work)


def knows_leader(url: str, name: str) -> bool:
    async def work(connection: Any, management: Any) -> bool:
        try:
            return bool((await management.topology(name))["suggestions"])
        except RequestFailed:  # The definition has not come yet.
            return False

    return bool(run_with(url, work))


def test_tasks_read_at_the_leader_or_where_they_can(
    cluster: Callable[..., ClusterOfNodes],
) -> None:
    nodes = cluster(2)
    here, there = nodes.urls
    declare_on_its_own(there, "log")
    publish(there, "log", 0, 100)
    eventually(lambda: knows_leader(here, "log"))
    options = read_options({"url": here, "stream": "log", "numPartitions": "2"})
    found = Reader(options).partitions()
    address = f"127.0.0.1:{nodes.node(2).port}"
    assert [(each.begin, each.end, each.address) for each in found] == [
        (0, 50, address),
        (50, 100, address),
    ]
    of_query = StreamReader(options).partitions({"offset": 90}, {"offset": 100})
    assert {each.address for each in of_query} == {address}
    assert rows(options, found) == list(range(100))
    at_leader = read_options({"url": there, "stream": "log"})
    assert [each.address for each in Reader(at_leader).partitions()] == [""]
    own = read_options({"url": here, "stream": "log", "readAt": "url"})
    with pytest.raises(ReadError, match="does not have a running replica on the local node"):
        Reader(own).partitions()
    text = {"url": here, "stream": "log", "startingTimestamp": "0", "endingTimestamp": "1"}
    assert [each.end for each in Reader(read_options(text)).partitions()] == [0]
    with socket.socket() as closed:  # Bound, but nothing listens.
        closed.bind(("127.0.0.1", 0))
        gone = f"127.0.0.1:{closed.getsockname()[1]}"
        assert rows(at_leader, [Range("log", 0, 100, gone)]) == list(range(100))


def rows(options: Any, ranges: Any) -> list[int]:
    return [
        offset
        for each in ranges
        for batch in read_range(options, each)
        for offset in batch.column("offset").to_pylist()
    ]


def test_a_leader_that_cannot_be_reached_is_left_out(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(url, "log", "stream")
    publish(url, "log", 0, 5)
    options = read_options({"url": url, "stream": "log"})
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        gone = f"127.0.0.1:{closed.getsockname()[1]}"
        monkeypatch.setattr("warren.spark.leaders.address_of", lambda *_: gone)
        (part,) = Reader(options).partitions()
    assert part.address == ""


def api(broker: Broker, method: str, path: str) -> Any:
    status, content = HttpApi(broker.management_url).page(method, path)
    assert status < 300, (path, status, content)
    return json.loads(content or b"null")


def test_connections_stay_open_and_may_end_between_two_polls(
    url: str, warren_broker: Broker
) -> None:
    declare(url, "log", "stream")
    vhost = url.rpartition("/")[2]

    def connections() -> list[str]:
        listed = api(warren_broker, "GET", f"/api/vhosts/{vhost}/connections")
        return [each["name"] for each in listed]

    one = StreamReader(read_options({"url": url, "stream": "log"}))
    for count in (5, 10):
        publish(url, "log", count - 5, 5)
        for _ in range(3):
            assert one.latestOffset() == {"offset": count}
    eventually(lambda: len(connections()) == 1)
    (name,) = connections()
    assert one.latestOffset() == {"offset": 10} and connections() == [name]
    api(warren_broker, "DELETE", f"/api/connections/{quote(name, '')}")

    def is_another() -> bool:
        assert one.latestOffset() == {"offset": 10}
        return connections() not in ([], [name])

    eventually(is_another)
    copy = pickle.loads(pickle.dumps(one))
    assert copy.latestOffset() == one.latestOffset()
    one.stop()
    copy.stop()
    eventually(lambda: connections() == [])


@pytest.mark.parametrize(
    ("suggestions", "url", "wanted"),
    [
        (["amqp://n2:5672"], "amqp://guest@n1", "n2:5672"),
        (["amqps://n2:5671", "amqp://n2:5672"], "amqp://guest@n1", "n2:5672"),
        (["amqp://n2:5672"], "amqps://guest@n1", ""),
        ([], "amqp://n1", ""),
        (None, "amqp://n1", ""),
    ],
)
def test_an_address_has_the_scheme_of_the_url(suggestions: object, url: str, wanted: str) -> None:
    assert address_of({"suggestions": suggestions}, url) == wanted


def test_user_and_vhost_are_the_same_at_another_node() -> None:
    assert url_at("amqp://a%40b:c@n1:5672/v%2F1", "[::1]:9") == "amqp://a%40b:c@[::1]:9/v%2F1"
    assert url_at("amqps://n1", "n2:1") == "amqps://n2:1"
