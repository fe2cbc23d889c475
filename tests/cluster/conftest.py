"""One cluster for all tests of a file, and one behind Toxiproxy for those that break links.

They end with their file: a cluster that only waits takes a twentieth of a processor. One test has
`warren_shared_cluster` of the plugin, which lasts as long as the session.
"""

from collections.abc import Iterator

import pytest

from tests.cluster.toxiproxy import server_program
from warren.testing import ClusterOfNodes


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[ClusterOfNodes]:
    """Three nodes; names must be unique to each test, and who breaks something mends it again."""
    with ClusterOfNodes(3) as made:
        yield made


@pytest.fixture(scope="module")
def proxied_cluster() -> Iterator[ClusterOfNodes]:
    """Three nodes, every link behind Toxiproxy; names must be unique to each test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WARREN_TOXIPROXY", server_program())
        with ClusterOfNodes(3, proxied=True) as made:
            yield made
