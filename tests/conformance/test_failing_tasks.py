"""Tasks of a node that fail: the node says so and ends, where it cannot do without them."""

from pathlib import Path
from typing import Final

import pytest

from warren.testing import Node

# Python runs this before the node's own modules: one of them cannot be loaded the first time, as it
# happens to a process that has no file descriptor left.
NOT_LOADED: Final = """
import sys

class NotLoaded:
    was_asked = False

    def find_spec(self, name, path=None, target=None):
        if name == "{module}" and not self.was_asked:
            self.was_asked = True
            raise OSError(24, "Too many open files")

sys.meta_path.insert(0, NotLoaded())
"""

pytestmark = [pytest.mark.timeout(240)]


def node_without(module: str, folder: Path) -> Node:
    (folder / "sitecustomize.py").write_text(NOT_LOADED.format(module=module))
    root = Path(__file__).resolve().parent.parent.parent
    return Node(name="unmanaged", environment={"PYTHONPATH": f"{folder}:{root}"})


def test_a_node_that_cannot_answer_other_nodes_says_so_and_ends(tmp_path: Path) -> None:
    node = node_without("node.management.api_sources", tmp_path)
    node.start()
    assert node.await_end() == 1
    assert "the management ports cannot be served, the node stops" in node.log()
    assert "Too many open files" in node.log()
    node.close()


def test_a_node_that_cannot_load_the_http_library_goes_on_and_tries_again(tmp_path: Path) -> None:
    with node_without("node.management.server", tmp_path) as node:
        assert node.api("GET", "/api/overview")["node"] == node.name
        assert "start of the management API' failed and is restarted" in node.log()
        assert "Too many open files" in node.log()
