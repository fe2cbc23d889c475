"""pytest plugin: brokers as fixtures. `pip install warrenmq` registers it; nothing starts unasked.

    def test_an_order_is_queued(broker):
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))

    def test_a_reminder_expires(broker):
        broker.advance(24 * 3600)

    def test_orders_survive(cluster, history):
        nodes = cluster(3)
        nodes.node(1).kill9()

When a test of a cluster fails, the logs of its nodes are kept, and the report says where.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from warren.testing.broker import Broker, VirtualHost
    from warren.testing.cluster import ClusterOfNodes
    from warren.testing.faults import Faults
    from warren.testing.history import Recorder
    from warren.testing.node import Node


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep the logs of clusters whose test has failed, before their fixtures end."""
    report = yield
    if report.failed:
        from warren.testing.cluster import ClusterOfNodes

        for value in getattr(item, "funcargs", {}).values():
            if isinstance(value, ClusterOfNodes):
                report.sections.append(("logs of the nodes", str(value.keep_logs())))
    return report


@pytest.fixture(scope="session")
def warren_broker() -> "Iterator[Broker]":
    """One broker process for the session, in each worker of pytest-xdist."""
    from warren.testing.broker import Broker

    with Broker() as broker:
        yield broker


@pytest.fixture
def broker(warren_broker: "Broker") -> "Iterator[VirtualHost]":
    """A vhost for this test alone: `url` to connect to, `advance(seconds)` for its clock."""
    if not warren_broker.is_running():
        warren_broker.start()
    with warren_broker.vhost() as vhost:
        yield vhost


@pytest.fixture
def cluster() -> "Iterator[Callable[..., ClusterOfNodes]]":
    """Start clusters for this test: `cluster(3)`; options as those of `ClusterOfNodes`."""
    from warren.testing.cluster import ClusterOfNodes

    with ExitStack() as started:

        def start(count: int = 3, **options: Any) -> ClusterOfNodes:
            return started.enter_context(ClusterOfNodes(count, **options))

        yield start


@pytest.fixture
def faults() -> "Iterator[Faults]":
    """A broker of this test behind a Toxiproxy; skips where the program is not there."""
    from warren.testing.faults import Faults
    from warren.testing.toxiproxy import MISSING, find_server

    if find_server() is None:
        pytest.skip(MISSING)
    with Faults() as links:
        yield links


@pytest.fixture
def history(tmp_path: Path) -> "Iterator[Recorder]":
    """Record what clients do and see; after the test, nothing may be lost, doubled or reordered."""
    from warren.testing.history import Recorder, judge, read

    path = tmp_path / "history.jsonl"
    with Recorder(path) as recorder:
        yield recorder
    verdict = judge(read(path))
    assert verdict.is_clean, verdict.format()


@pytest.fixture
def warren_node() -> "Iterator[Node]":
    """A fresh node with empty data, for this test alone."""
    from warren.testing.node import Node

    with Node() as node:
        yield node


@pytest.fixture(scope="session")
def warren_shared_node() -> "Iterator[Node]":
    """One node for the whole session: quick, but names must be unique to each test."""
    from warren.testing.node import Node

    with Node(name="shared") as node:
        yield node


@pytest.fixture
def warren_cluster() -> "Iterator[ClusterOfNodes]":
    """A fresh cluster of three nodes, for this test alone."""
    from warren.testing.cluster import ClusterOfNodes

    with ClusterOfNodes(3) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def warren_shared_cluster() -> "Iterator[ClusterOfNodes]":
    """One cluster of three for the whole session. Names must be unique to each test, and a test
    that breaks something mends it again."""
    from warren.testing.cluster import ClusterOfNodes

    with ClusterOfNodes(3) as cluster:
        yield cluster
