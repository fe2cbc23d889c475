"""Definitions that a node imports when it starts: a file, a directory, broken and unchanged."""

import json
from pathlib import Path
from typing import Any

import pytest

from warren.testing import Node, NodeFailed
from warren.testing.http_api import HttpApi

ADMIN = {"name": "shop", "password": "s3cret", "tags": ["administrator"]}
RIGHTS = {"user": "shop", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}


def write(path: Path, **parts: Any) -> None:
    path.write_text(json.dumps(parts))


def queue(name: str) -> dict[str, Any]:
    return {"name": name, "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}


def test_a_node_starts_with_the_definitions_of_a_file_and_skips_it_unchanged(
    tmp_path: Path,
) -> None:
    file = tmp_path / "definitions.json"
    write(file, users=[ADMIN], permissions=[RIGHTS], queues=[queue("orders")])
    settings = {"load_definitions": str(file)}
    with Node(settings=settings, data_dir=tmp_path / "data") as node:
        api = HttpApi(node.management_url, "shop", "s3cret")
        assert [row["name"] for row in api.get("/queues")] == ["orders"]
        assert [row["name"] for row in api.get("/users")] == ["shop"]
        assert all(row["component"] != "loaded-definitions" for row in api.get("/parameters"))
        api.delete("/queues/%2F/orders")
        node.restart()
        assert api.get("/queues") == []
        assert "is unchanged and was not imported again" in node.log()
        write(file, queues=[queue("orders"), queue("returns")])
        node.restart()
        assert [row["name"] for row in api.get("/queues")] == ["orders", "returns"]


def test_a_directory_is_imported_in_the_order_of_its_names(tmp_path: Path) -> None:
    folder = tmp_path / "definitions"
    folder.mkdir()
    write(folder / "1-users.json", users=[ADMIN], vhosts=[{"name": "late"}])
    write(folder / "2-rest.json", permissions=[{**RIGHTS, "vhost": "late"}])
    (folder / "README.txt").write_text("no definitions")
    with Node(settings={"load_definitions": str(folder)}) as node:
        api = HttpApi(node.management_url, "shop", "s3cret")
        assert [row["vhost"] for row in api.get("/permissions")] == ["late"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "No such file or directory"),
        ("{", "not_json"),
        ('{"queues": [{"name": "q", "vhost": "none"}]}', 'create virtual host "none"'),
    ],
)
def test_a_node_does_not_start_with_a_file_that_cannot_be_imported(
    tmp_path: Path, content: str | None, reason: str
) -> None:
    file = tmp_path / "definitions.json"
    if content is not None:
        file.write_text(content)
    node = Node(settings={"load_definitions": str(file)})
    with pytest.raises(NodeFailed) as failed:
        node.start()
    assert "load_definitions" in str(failed.value) and reason in str(failed.value)
