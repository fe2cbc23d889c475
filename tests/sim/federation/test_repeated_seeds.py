"""A seed gives the same run each time, in any process: a failure can be played again."""

import os
import subprocess
import sys

import pytest

from tests.sim.federation import (
    strange_process,
    test_links,
    test_standby,
    test_standby_of_cluster,
)
from tests.sim.federation.virtual_time import played

SEEDS = (1, 2, 31)
CHILD_SECONDS = 120


def trace_of(what: str, seed: int) -> int:
    if what == "standby":
        return played(test_standby.lived(seed))
    if what == "cluster":
        return played(test_standby_of_cluster.lived(seed))
    return played(test_links.moved(seed, "queue-length", test_links.COUNT))


@pytest.mark.parametrize("what", ["links", "standby", "cluster"])
def test_seed_gives_the_same_run_in_another_process(what: str) -> None:
    """The other process has another order of hashes, and has run nothing before."""
    words = (sys.executable, "-m", strange_process.__name__, what, *map(str, SEEDS))
    other = dict(os.environ, PYTHONHASHSEED="4711")
    done = subprocess.run(words, env=other, capture_output=True, text=True, timeout=CHILD_SECONDS)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(trace_of(what, seed)) for seed in SEEDS]
