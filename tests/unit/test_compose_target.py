"""What a chaos run does to the compose kit: which commands of docker, which calls of Toxiproxy.

The programs `docker` and `docker-compose` are a script that writes down how it was called; sidecars
and the API of the nodes are an HTTP server that does the same.
"""

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from deploy.chaos.target import DATA, SERVICE, Compose, ComposeFailed, ComposeTarget
from warren.testing.chaos.faults import make

pytestmark = pytest.mark.source

COUNT: Final = 3
PROXIES: Final = ("amqp", "api", "n1", "n2", "n3")
PROGRAM: Final = """#!/bin/sh
name=$(basename "$0")
echo "$name $*" >> "$FOLDER/calls"
if [ "$name" = docker-compose ]; then cat "$FOLDER/containers" 2>/dev/null; exit 0; fi
if [ -e "$FOLDER/fault" ]; then cat "$FOLDER/fault" >&2; exit 1; fi
if mv "$FOLDER/once" "$FOLDER/told" 2>/dev/null; then cat "$FOLDER/told" >&2; exit 1; fi
if [ "$1" = inspect ]; then
  shift
  printf '['
  separator=
  for each; do printf '%s' "$separator"; cat "$FOLDER/$each.json"; separator=,; done
  printf ']'
fi
"""


class Kit:
    """The programs and the servers. `calls` are those of programs, `asked` those of servers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[tuple[str, str, Any]] = []  # method, path, body
        self.is_stuck = False  # no proxy can be removed
        self.late = 0  # so many questions for readiness are answered with no
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        for name in ("docker", "docker-compose"):
            program = folder / name
            program.write_text(PROGRAM)
            program.chmod(0o755)
        services = [f"{kind}{n}" for kind in ("node", "proxy") for n in range(1, COUNT + 1)]
        (folder / "containers").write_text("".join(f"id-{each}\n" for each in services))
        for each in services:
            mounts = [
                {"Destination": "/run/secrets/cluster_secret", "Source": "/somewhere"},
                {"Destination": DATA, "Name": f"kit_{each}"},
            ]
            found = {
                "Id": f"id-{each}",
                "Image": "sha256:abc",
                "Config": {"Labels": {SERVICE: each}},
                "Mounts": mounts,
            }
            (folder / f"id-{each}.json").write_text(json.dumps(found))

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def calls(self) -> list[str]:
        """Since the last time."""
        path = self.folder / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        kit = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.startswith("/proxies"):
                    told: object = {
                        name: {"name": name, "upstream": "", "listen": "", "enabled": True}
                        for name in PROXIES
                    }
                    self._answer(200, told)
                    return
                kit.late -= 1
                self._answer(503 if kit.late >= 0 else 200, {"status": "ok"})

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                kit.asked.append(("POST", self.path, json.loads(body)))
                self._answer(200, {})

            def do_DELETE(self) -> None:
                kit.asked.append(("DELETE", self.path, None))
                self._answer(500 if kit.is_stuck else 200, {})

            def _answer(self, status: int, told: object) -> None:
                content = json.dumps(told).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                del format, args

        return Handler


@pytest.fixture
def kit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kit]:
    made = Kit(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FOLDER", str(tmp_path))
    for number in range(1, COUNT + 1):
        monkeypatch.setenv(f"API_PORT_{number}", str(made.port))
        monkeypatch.setenv(f"PROXY_PORT_{number}", str(made.port))
    yield made
    made.close()


@pytest.fixture
def target(kit: Kit) -> ComposeTarget:
    made = ComposeTarget(Compose("docker-compose", COUNT))
    made.look()
    first, *others = kit.calls()
    assert first == "docker-compose --profile 3 ps -a -q"
    assert len(others) == 1
    return made


def test_faults_of_processes_are_commands_of_docker_alone(kit: Kit, target: ComposeTarget) -> None:
    target.kill9([1, 3])
    killed = sorted(kit.calls())  # At the same time, in whatever order.
    target.start([1, 3])
    started = sorted(kit.calls())
    target.stop([2])
    target.pause([2])
    target.resume([2])
    assert [*killed, *started, *kit.calls()] == [
        "docker kill -s SIGKILL id-node1",
        "docker kill -s SIGKILL id-node3",
        "docker start id-node1",
        "docker start id-node3",
        "docker stop -t 30 id-node2",
        "docker pause id-node2",
        "docker unpause id-node2",
    ]


def test_a_node_has_started_when_it_serves_clients(kit: Kit, target: ComposeTarget) -> None:
    kit.late = 2
    target.start([2])
    assert kit.late == -1


def test_a_wiped_node_keeps_its_volume_and_nothing_in_it(kit: Kit, target: ComposeTarget) -> None:
    target.wipe(2)
    asked, emptied = kit.calls()
    assert asked == "docker inspect id-node2"
    assert emptied == (
        "docker run --rm --user 0 --network none --entrypoint find -v kit_node2:/data sha256:abc "
        "/data -mindepth 1 -delete"
    )


def test_what_docker_says_is_told_when_a_command_fails(kit: Kit, target: ComposeTarget) -> None:
    (kit.folder / "fault").write_text("no such container")
    with pytest.raises(ComposeFailed, match=r"docker kill .*: no such container"):
        target.kill9([1])


def test_a_process_that_could_not_be_frozen_at_once_is_frozen_again(
    kit: Kit, target: ComposeTarget
) -> None:
    (kit.folder / "once").write_text("OCI runtime pause failed: unable to freeze: unknown")
    target.pause([1])
    assert kit.calls() == ["docker pause id-node1"] * 2
    (kit.folder / "once").write_text("no such container")
    with pytest.raises(ComposeFailed, match="no such container"):
        target.pause([1])


def test_a_node_that_could_not_be_frozen_is_resumed_with_the_others(
    kit: Kit, target: ComposeTarget
) -> None:
    (kit.folder / "once").write_text("Error response from daemon: Container id is not paused")
    target.resume([1, 2])
    assert sorted(kit.calls()) == ["docker unpause id-node1", "docker unpause id-node2"]
    (kit.folder / "once").write_text("no such container")
    with pytest.raises(ComposeFailed, match="no such container"):
        target.resume([1])


def test_without_containers_it_says_what_to_do(kit: Kit) -> None:
    (kit.folder / "containers").unlink()
    with pytest.raises(ComposeFailed, match="make compose-up N=3"):
        ComposeTarget(Compose("docker-compose", COUNT)).look()


def test_a_link_that_was_cut_is_switched_on_again(kit: Kit, target: ComposeTarget) -> None:
    target.cut(1, 2)
    target.client_cut(3)
    off = [("POST", f"/proxies/{name}", {"enabled": False}) for name in ("n2", "n1", "amqp")]
    assert kit.asked == off
    kit.asked.clear()
    target.heal_links()
    paths = [path for _, path, body in kit.asked if body == {"enabled": True}]
    assert sorted(paths) == ["/proxies/amqp", "/proxies/n1", "/proxies/n2"]
    target.heal_links()
    assert len(kit.asked) == 3
    assert kit.calls() == []


def test_a_proxy_that_had_a_toxic_is_made_anew_and_no_other(
    kit: Kit, target: ComposeTarget
) -> None:
    target.toxic(1, 2, "latency", latency=100)
    target.cut(2, 3)
    target.cut(1, 2)
    kit.asked.clear()
    target.heal_links()
    assert [(method, path) for method, path, _ in kit.asked] == [
        ("DELETE", "/proxies/n2"),
        ("POST", "/proxies"),
        ("DELETE", "/proxies/n1"),
        ("POST", "/proxies"),
        ("POST", "/proxies/n3"),
        ("POST", "/proxies/n2"),
    ]
    assert kit.asked[1][2] == {
        "name": "n2",
        "listen": "0.0.0.0:25672",
        "upstream": "node2:25672",
        "enabled": True,
    }
    assert kit.asked[3][2]["upstream"] == "node1:25671"
    kit.asked.clear()
    target.heal_links()
    assert not kit.asked
    assert not kit.calls()


def test_a_sidecar_that_does_not_remove_a_proxy_is_restarted(
    kit: Kit, target: ComposeTarget
) -> None:
    target.toxic(1, 2, "latency", latency=100)
    target.client_toxic(3, "latency", latency=100)
    kit.is_stuck = True
    target.heal_links()
    restarts = [f"docker restart -t 0 id-proxy{number}" for number in (1, 2, 3)]
    assert sorted(kit.calls()) == restarts


def test_a_toxic_is_on_the_way_of_what_is_sent_in_one_direction(
    kit: Kit, target: ComposeTarget
) -> None:
    target.toxic(1, 3, "timeout", timeout=0)
    found = [(path, body["stream"], body["attributes"]) for _, path, body in kit.asked]
    assert found == [
        ("/proxies/n3/toxics", "upstream", {"timeout": 0}),
        ("/proxies/n1/toxics", "downstream", {"timeout": 0}),
    ]


@pytest.mark.parametrize("name", ["kill", "restart", "pause", "wipe", "halves", "latency"])
def test_every_kind_of_fault_begins_and_is_healed(
    kit: Kit, target: ComposeTarget, name: str
) -> None:
    fault = make(name, target, Random(1))
    fault.begin()
    fault.heal()
    assert kit.calls() or kit.asked
