"""pytest plugin: nodes as fixtures. Load it with `pytest_plugins = ["warren.testing.plugin"]`.

When a test of a cluster fails, the logs of its nodes are kept, and the report says where.
"""

from collections.abc import Generator, Iterator

import pytest

from warren.testing.cluster import ClusterOfNodes
from warren.testing.node import Node


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep the logs of clusters whose test has failed, before their fixtures end."""
    report = yield
    if report.failed:
        for value in getattr(item, "funcargs", {}).values():
            if isinstance(value, ClusterOfNodes):
                report.sections.append(("logs of the nodes", str(value.keep_logs())))
    return report


@pytest.fixture
def warren_node() -> Iterator[Node]:
    """A fresh node with empty data, for this test alone."""
    with Node() as node:
        yield node


@pytest.fixture(scope="session")
def warren_shared_node() -> Iterator[Node]:
    """One node for the whole session: quick, but names must be unique to each test."""
    with Node(name="shared") as node:
        yield node


@pytest.fixture
def warren_cluster() -> Iterator[ClusterOfNodes]:
    """A fresh cluster of three nodes, for this test alone."""
    with ClusterOfNodes(3) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def warren_shared_cluster() -> Iterator[ClusterOfNodes]:
    """One cluster of three for the whole session. Names must be unique to each test, and who
    breaks something mends it again."""
    with ClusterOfNodes(3) as cluster:
        yield cluster
