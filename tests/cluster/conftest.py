"""One cluster behind Toxiproxy for all tests of this folder that break links; they mend them."""

from collections.abc import Iterator

import pytest

from tests.cluster.toxiproxy import server_program
from warren.testing import ClusterOfNodes


@pytest.fixture(scope="session")
def proxied_cluster() -> Iterator[ClusterOfNodes]:
    """Three nodes, every link behind Toxiproxy; names must be unique to each test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WARREN_TOXIPROXY", server_program())
        with ClusterOfNodes(3, proxied=True) as made:
            yield made
