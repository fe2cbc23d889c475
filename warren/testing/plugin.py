"""pytest plugin: nodes as fixtures. Load it with `pytest_plugins = ["warren.testing.plugin"]`."""

from collections.abc import Iterator

import pytest

from warren.testing.node import Node


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
