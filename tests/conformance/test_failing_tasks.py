"""Tasks of a node that fail: the node says so and ends, where it cannot do without them."""

from pathlib import Path
from typing import Final

import pytest

from warren.testing import Node

# Python runs this before the node's own modules: the library of the HTTP server cannot be loaded,
# as it happens to a process that has no file descriptor left.
NO_LIBRARY: Final = """
import sys

class NoLibrary:
    def find_spec(self, name, path=None, target=None):
        if name == "node.management.server":
            raise OSError(24, "Too many open files")

sys.meta_path.insert(0, NoLibrary())
"""

pytestmark = [pytest.mark.timeout(240)]


def test_a_node_that_cannot_serve_management_says_so_and_ends(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(NO_LIBRARY)
    root = Path(__file__).resolve().parent.parent.parent
    node = Node(name="unmanaged", environment={"PYTHONPATH": f"{tmp_path}:{root}"})
    node.start()
    assert node.await_end() == 1
    assert "the management ports cannot be served, the node stops" in node.log()
    assert "Too many open files" in node.log()
    node.close()
