"""The files of the compose kit agree with each other: names, ports and networks of all nodes."""

import json
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from node.config.settings import load

ROOT: Final = Path(__file__).resolve().parent.parent.parent
NODES: Final = range(1, 8)

pytestmark = pytest.mark.source


def service(name: str) -> str:
    """The text of a service in docker-compose.yml."""
    text = (ROOT / "docker-compose.yml").read_text()
    found = re.search(rf"^  {name}:\n((?:    .*\n|\n)+)", text, re.MULTILINE)
    assert found is not None, name
    return found[1]


def proxies(number: int) -> dict[str, dict[str, Any]]:
    """The configuration of a node's Toxiproxy, by name."""
    text = (ROOT / "deploy" / "toxiproxy" / f"n{number}.json").read_text()
    return {each["name"]: each for each in json.loads(text)}


@pytest.mark.parametrize("number", NODES)
def test_a_sidecar_has_a_way_to_every_other_node_and_to_the_clients_ports(number: int) -> None:
    found = proxies(number)
    others = {f"n{other}" for other in NODES if other != number}
    assert set(found) == others | {"amqp", "api"}
    for other in NODES:
        if other != number:
            proxy = found[f"n{other}"]
            assert proxy["listen"] == f"0.0.0.0:2567{other}"
            assert proxy["upstream"] == f"node{other}:2567{other}"
    assert found["amqp"]["upstream"] == f"node{number}:5672"
    assert found["api"]["upstream"] == f"node{number}:15672"
    assert all(proxy["enabled"] for proxy in found.values())


@pytest.mark.parametrize("number", NODES)
def test_a_sidecar_has_the_names_of_all_others_where_only_its_node_hears_them(number: int) -> None:
    sidecar, node = service(f"proxy{number}"), service(f"node{number}")
    names = ", ".join(f"n{other}" for other in NODES if other != number)
    assert f"      side{number}:\n        aliases: [{names}]" in sidecar
    assert f"./deploy/toxiproxy/n{number}.json:" in sidecar
    assert f"networks: [side{number}, mesh]" in node
    assert f"WARREN_CLUSTER_ADVERTISED: n{number}:2567{number}" in node
    assert f"WARREN_LISTENERS_CLUSTER: 0.0.0.0:2567{number}" in node
    assert f"data{number}:/data" in node


@pytest.mark.parametrize("number", NODES)
def test_profiles_have_the_first_nodes_and_their_sidecars(number: int) -> None:
    sizes = ", ".join(f'"{size}"' for size in (3, 5, 7) if number <= size)
    assert f"profiles: [{sizes}]" in service(f"node{number}")
    assert f"profiles: [{sizes}]" in service(f"proxy{number}")


def test_all_ports_of_the_machine_are_ports_and_no_two_are_the_same() -> None:
    ports = [
        int(port)
        for number in NODES
        for port in re.findall(r"127\.0\.0\.1:\$\{\w+:-(\d+)\}", service(f"proxy{number}"))
    ]
    assert len(ports) == len(set(ports)) == 3 * len(NODES)
    assert all(1024 < port < 65_536 for port in ports)
    firsts = (5672, 15_672, 8474)  # As deploy/chaos/target.py counts on from node 1.
    assert sorted(ports) == sorted(first + node for first in firsts for node in range(7))


@pytest.mark.parametrize(("what", "status"), [("test", 0), ("up", 69), ("down", 69)])
def test_without_an_engine_a_test_is_skipped_and_all_else_fails(what: str, status: int) -> None:
    environment = os.environ | {"DOCKER_HOST": "unix:///nowhere/socket", "WARREN_ENGINE": "none"}
    command = [str(ROOT / "deploy" / "compose.sh"), what, "3"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30)
    assert done.returncode == status, done.stderr
    said = done.stdout if what == "test" else done.stderr
    assert "skipped" in said if what == "test" else "compose: " in said


def test_there_are_clusters_of_3_5_and_7_nodes_and_no_others() -> None:
    command = [str(ROOT / "deploy" / "compose.sh"), "up", "4"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 64
    assert "allowed: 3, 5, 7" in done.stderr


ENGINE: Final = """#!/bin/sh
case "$1" in
  inspect)
    looks=$(($(cat "$FOLDER/looks" 2>/dev/null || echo 0) + 1))
    echo "$looks" > "$FOLDER/looks"
    cat "$FOLDER/states-$looks" ;;
  logs) echo "the last words of $4" ;;
  *) if [ "$(basename "$0")" = docker-compose ]; then echo some containers; fi ;;
esac
"""


def started(folder: Path, states: Sequence[Sequence[str]]) -> subprocess.CompletedProcess[str]:
    """`compose.sh up 3` where docker says so of the nodes, each time that it is asked."""
    for name in ("docker", "docker-compose"):
        (folder / name).write_text(ENGINE)
        (folder / name).chmod(0o755)
    for look, each in enumerate(states, 1):
        lines = [f"id{number} /kit_node{number} {state}\n" for number, state in enumerate(each, 1)]
        (folder / f"states-{look}").write_text("".join(lines))
    settings = {
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "FOLDER": str(folder),
        "COMPOSE": "docker-compose",
        "WARREN_SECRET": str(folder / "secret"),
        "WAIT_SECONDS": "20",
    }
    command = [str(ROOT / "deploy" / "compose.sh"), "up", "3"]
    environment = os.environ | settings
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30)


def test_nodes_are_waited_for_until_all_are_healthy(tmp_path: Path) -> None:
    healthy, starting = "running 0 healthy", "running 0 starting"
    done = started(tmp_path, [[healthy, starting, healthy], [healthy, healthy, healthy]])
    assert done.returncode == 0, done.stderr
    assert "3 nodes are healthy" in done.stdout


def test_a_node_that_has_ended_is_an_error_at_once_with_its_last_words(tmp_path: Path) -> None:
    done = started(tmp_path, [["running 0 starting", "exited 64 unhealthy", "running 0 starting"]])
    assert done.returncode == 70
    assert "kit_node2 has ended with status 64" in done.stderr
    assert "the last words of id2" in done.stderr
    assert "not healthy in time" not in done.stderr


def test_the_settings_of_all_nodes_are_settings_that_there_are() -> None:
    config = load(ROOT / "deploy" / "warren.toml")
    assert config.listeners.amqp.port == 5672
    assert [user.name for user in config.users] == ["warren"]
