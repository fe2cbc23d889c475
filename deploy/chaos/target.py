"""The compose kit as the target of a chaos run: containers by compose, links by toxiproxy-python.

What node i sends to node j goes through the sidecar of i, where the proxy `nj` listens (see
docker-compose.yml). Toxiproxy may hang when a toxic is taken away (its issue 558), so links heal by
a restart of the sidecars that have had any, which read their proxies anew.
"""

import asyncio
import http.client
import json
import os
import shlex
import subprocess
import time
from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from toxiproxy import Toxiproxy

ROOT: Final = Path(__file__).resolve().parent.parent.parent
HOST: Final = "127.0.0.1"
AMQP_PORT: Final = 5672
API_PORT: Final = 15_672
PROXY_PORT: Final = 8474
NODE_UID: Final = 10_001  # of the image; a cluster that root has started
CLIENTS: Final = "amqp"  # the proxy before the port for clients
USER: Final = "warren"
PASSWORD: Final = "warren"
COMMAND_SECONDS: Final = 120.0
HEALTHY_SECONDS: Final = 120.0


class ComposeFailed(Exception):
    """A command of compose did not do what it was asked; the text ends with what it said."""


@dataclass(frozen=True, slots=True)
class Compose:
    """Runs the program; `words` is `docker compose` or `docker-compose`."""

    words: str
    count: int

    def run(self, *arguments: str) -> str:
        command = [*shlex.split(self.words), "--profile", str(self.count), *arguments]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=os.environ | self.settings(),
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        if done.returncode:
            raise ComposeFailed(f"{' '.join(command)}: {done.stderr[-2000:]}")
        return done.stdout.strip()

    def settings(self) -> dict[str, str]:
        """What deploy/compose.sh sets: with other values a container would be made anew."""
        seeds = ",".join(f"n{number}:2567{number}" for number in range(1, self.count + 1))
        return {"WARREN_SEEDS": seeds, "WARREN_UID": str(os.getuid() or NODE_UID)}


class ComposeTarget:
    """Keeps `warren.testing.chaos.faults.Target`.

    Invariant: sidecars in `_ill` are those that have or had a fault since they were started.
    """

    def __init__(self, compose: Compose) -> None:
        self._compose = compose
        self._ill: set[int] = set()

    @property
    def count(self) -> int:
        return self._compose.count

    @property
    def urls(self) -> list[str]:
        """Where clients connect: through the sidecars."""
        return [
            f"amqp://{USER}:{PASSWORD}@{HOST}:{_port('AMQP_PORT', AMQP_PORT, number)}/%2F"
            for number in range(1, self.count + 1)
        ]

    def name(self, number: int) -> str:
        return f"n{number}"

    # Processes and disks

    def kill9(self, numbers: Iterable[int]) -> None:
        self._compose.run("kill", "-s", "SIGKILL", *_nodes(numbers))

    def stop(self, numbers: Iterable[int]) -> None:
        self._compose.run("stop", *_nodes(numbers))

    def start(self, numbers: Iterable[int]) -> None:
        chosen = list(numbers)
        self._compose.run("up", "-d", "--no-deps", *_nodes(chosen))
        deadline = time.monotonic() + HEALTHY_SECONDS
        for number in chosen:
            while not self._is_healthy(number):
                if time.monotonic() > deadline:
                    raise ComposeFailed(f"node{number} is not healthy in {HEALTHY_SECONDS} s")
                time.sleep(0.5)  # Compose tells nobody when a container is healthy.

    def pause(self, numbers: Iterable[int]) -> None:
        self._compose.run("pause", *_nodes(numbers))

    def resume(self, numbers: Iterable[int]) -> None:
        self._compose.run("unpause", *_nodes(numbers))

    def wipe(self, number: int) -> None:
        volume = self._volume(number)
        self._compose.run("rm", "-s", "-f", *_nodes([number]))
        subprocess.run(
            ["docker", "volume", "rm", volume],
            capture_output=True,
            timeout=COMMAND_SECONDS,
            check=True,
        )

    def _container(self, number: int) -> dict[str, Any]:
        """What the engine says of a node's container."""
        identity = self._compose.run("ps", "-a", "-q", f"node{number}")
        done = subprocess.run(
            ["docker", "inspect", identity],
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=True,
        )
        (found,) = json.loads(done.stdout)
        assert isinstance(found, dict)
        return found

    def _is_healthy(self, number: int) -> bool:
        state = self._container(number)["State"]
        return bool(state["Running"] and state.get("Health", {}).get("Status") == "healthy")

    def _volume(self, number: int) -> str:
        mounts = self._container(number)["Mounts"]
        return str(next(each["Name"] for each in mounts if each["Destination"] == "/data"))

    # Links

    def toxic(self, source: int, target: int, kind: str, /, **attributes: int) -> None:
        for sidecar, proxy, stream in (
            (source, f"n{target}", "upstream"),
            (target, f"n{source}", "downstream"),
        ):
            self._proxy(sidecar, proxy).add_toxic(
                type=kind, stream=stream, name=f"{kind}-{stream}", attributes=attributes
            )

    def cut(self, one: int, two: int) -> None:
        for source, target in ((one, two), (two, one)):
            self._proxy(source, f"n{target}").disable()

    def client_toxic(self, number: int, kind: str, /, **attributes: int) -> None:
        for stream in ("upstream", "downstream"):
            self._proxy(number, CLIENTS).add_toxic(
                type=kind, stream=stream, name=f"{kind}-{stream}", attributes=attributes
            )

    def client_cut(self, number: int) -> None:
        self._proxy(number, CLIENTS).disable()

    def heal_links(self) -> None:
        ill, self._ill = sorted(self._ill), set()
        if ill:
            self._compose.run("restart", "-t", "0", *(f"proxy{number}" for number in ill))

    def _proxy(self, number: int, name: str) -> Any:
        self._ill.add(number)
        server = Toxiproxy()
        server.update_api_consumer(HOST, _port("PROXY_PORT", PROXY_PORT, number))
        return server.get_proxy(name)

    # Queues

    async def depth(self, queue: str) -> int | None:
        """How many messages a queue of the vhost / holds, as the first node says that can."""
        return await asyncio.to_thread(self._depth, queue)

    def _depth(self, queue: str) -> int | None:
        for number in range(1, self.count + 1):
            found = _get(
                _port("API_PORT", API_PORT, number), f"/api/queues/%2F/{quote(queue, safe='')}"
            )
            if isinstance(found, dict) and isinstance(found.get("messages"), int):
                return int(found["messages"])
        return None


def _port(name: str, first: int, number: int) -> int:
    """The port of node `number`, as docker-compose.yml has it."""
    return int(os.environ.get(f"{name}_{number}") or first + number - 1)


def _nodes(numbers: Iterable[int]) -> list[str]:
    return [f"node{number}" for number in numbers]


def _get(port: int, path: str) -> Any:
    """What the API answers, decoded; None if it does not."""
    login = b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    connection = http.client.HTTPConnection(HOST, port, timeout=5)
    try:
        connection.request("GET", path, headers={"Authorization": f"Basic {login}"})
        answer = connection.getresponse()
        text = answer.read()
        return json.loads(text) if answer.status == 200 else None
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()
