"""The compose kit as the target of a chaos run: containers by docker, links by toxiproxy-python.

Compose is asked once which containers there are. All else is done by the engine's own program: a
command of compose takes half a second to ten, in which a fault would not be what the history says.
The program and no library for Python, for it speaks to whatever engine `docker` speaks to
(DOCKER_HOST, contexts), and is there wherever compose is.

What node i sends to node j goes through the sidecar of i, where the proxy `nj` listens (see
docker-compose.yml). A proxy that was switched off is switched on again; but Toxiproxy may hang when
a toxic is taken away (its issue 558), so a proxy that had one is removed and made anew: of its
connections none is left, and those of others in the same sidecar stay. A sidecar that does not
answer is restarted, and reads all its proxies anew.
"""

import asyncio
import http.client
import json
import os
import shlex
import subprocess
import time
from base64 import b64encode
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from requests import RequestException
from toxiproxy import Toxiproxy
from toxiproxy.api import APIConsumer

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
READY_SECONDS: Final = 240.0
FREEZE_SECONDS: Final = 30.0
ASK_SECONDS: Final = 0.1
STOP_SECONDS: Final = 30
ANSWER_SECONDS: Final = 5.0  # of a sidecar
READY: Final = "/api/health/checks/ready-to-serve-clients"
DATA: Final = "/data"
EMPTY: Final = ("-mindepth", "1", "-delete")  # `find`: what is in a folder
NOT_PAUSED: Final = "is not paused"
CANNOT_FREEZE: Final = "unable to freeze"
SERVICE: Final = "com.docker.compose.service"  # the label that says whose container it is


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

    Invariant: proxies in `_ill` are those that have had toxics since they were made, and those in
    `_cut` are switched off; both by the number of their sidecar, and their name.
    """

    def __init__(self, compose: Compose) -> None:
        self._compose = compose
        self._containers: dict[str, str] = {}  # by service
        self._ill: set[tuple[int, str]] = set()
        self._cut: set[tuple[int, str]] = set()

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
        _each(self._of(_nodes(numbers)), "kill", "-s", "SIGKILL")

    def stop(self, numbers: Iterable[int]) -> None:
        _each(self._of(_nodes(numbers)), "stop", "-t", str(STOP_SECONDS))

    def start(self, numbers: Iterable[int]) -> None:
        chosen = list(numbers)
        _each(self._of(_nodes(chosen)), "start")
        deadline = time.monotonic() + READY_SECONDS
        for number in chosen:
            while _get(_port("API_PORT", API_PORT, number), READY) is None:
                if time.monotonic() > deadline:
                    raise ComposeFailed(f"node{number} is not ready in {READY_SECONDS:.0f} s")
                time.sleep(ASK_SECONDS)  # Nothing tells when a node is ready.

    def pause(self, numbers: Iterable[int]) -> None:
        _each(self._of(_nodes(numbers)), "pause", command=_paused)

    def resume(self, numbers: Iterable[int]) -> None:
        _each(self._of(_nodes(numbers)), "unpause", command=_unpaused)

    def wipe(self, number: int) -> None:
        """The volume stays, and the container with it: what is in it goes."""
        (found,) = json.loads(_docker("inspect", *self._of(_nodes([number]))))
        mounts = found["Mounts"]
        volume = next(each["Name"] for each in mounts if each["Destination"] == DATA)
        as_root = ("run", "--rm", "--user", "0", "--network", "none", "--entrypoint", "find")
        _docker(*as_root, "-v", f"{volume}:{DATA}", found["Image"], DATA, *EMPTY)

    def look(self) -> None:
        """Ask which containers there are, before that would take some of the time of a fault."""
        containers = self._compose.run("ps", "-a", "-q").split()
        if not containers:
            raise ComposeFailed(f"no containers: make compose-up N={self.count}")
        for found in json.loads(_docker("inspect", *containers)):
            self._containers[found["Config"]["Labels"][SERVICE]] = found["Id"]

    def _of(self, services: Iterable[str]) -> list[str]:
        """The containers of those services, whether they run or not."""
        if not self._containers:
            self.look()
        return [self._containers[service] for service in services]

    # Links

    def toxic(self, source: int, target: int, kind: str, /, **attributes: int) -> None:
        for sidecar, proxy, stream in (
            (source, f"n{target}", "upstream"),
            (target, f"n{source}", "downstream"),
        ):
            self._add(sidecar, proxy, kind, stream, attributes)

    def cut(self, one: int, two: int) -> None:
        for source, target in ((one, two), (two, one)):
            self._switch_off(source, f"n{target}")

    def client_toxic(self, number: int, kind: str, /, **attributes: int) -> None:
        for stream in ("upstream", "downstream"):
            self._add(number, CLIENTS, kind, stream, attributes)

    def client_cut(self, number: int) -> None:
        self._switch_off(number, CLIENTS)

    def heal_links(self) -> None:
        ill, self._ill = sorted(self._ill), set()
        cut, self._cut = sorted(self._cut - set(ill)), set()
        silent: set[int] = set()
        for number, name in ill:
            if number not in silent and not _made_anew(number, name):
                silent.add(number)
        if silent:
            _each(self._of(f"proxy{number}" for number in sorted(silent)), "restart", "-t", "0")
        for number, name in cut:
            if number not in silent:
                self._proxy(number, name).enable()

    def _switch_off(self, number: int, name: str) -> None:
        self._cut.add((number, name))
        self._proxy(number, name).disable()

    def _add(self, number: int, name: str, kind: str, stream: str, of: dict[str, int]) -> None:
        self._ill.add((number, name))
        toxic = f"{kind}-{stream}"
        self._proxy(number, name).add_toxic(type=kind, stream=stream, name=toxic, attributes=of)

    def _proxy(self, number: int, name: str) -> Any:
        return _sidecar(number).get_proxy(name)

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


def _sidecar(number: int) -> Any:
    """Whatever is asked of Toxiproxy from now on is asked of that node's."""
    server = Toxiproxy()
    server.update_api_consumer(HOST, _port("PROXY_PORT", PROXY_PORT, number))
    return server


def _made_anew(number: int, name: str) -> bool:
    """Remove the proxy with its toxics, and make it as the sidecar's own file has it; False: the
    sidecar did not do it in time."""
    proxies = json.loads((ROOT / "deploy" / "toxiproxy" / f"n{number}.json").read_text("utf-8"))
    made = next(each for each in proxies if each["name"] == name)
    _sidecar(number)
    try:
        gone = APIConsumer.delete(f"/proxies/{name}", timeout=ANSWER_SECONDS)
        return bool(gone.ok and APIConsumer.post("/proxies", json=made, timeout=ANSWER_SECONDS).ok)
    except RequestException:
        return False


def _docker(*arguments: str) -> str:
    """One command of the engine's program; what it says."""
    command = ["docker", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False
    )
    if done.returncode:
        raise ComposeFailed(f"{' '.join(command)}: {done.stderr[-2000:]}")
    return done.stdout


def _paused(*arguments: str) -> str:
    """The same; asked again where the engine could not freeze a busy process within its time."""
    deadline = time.monotonic() + FREEZE_SECONDS
    while True:
        try:
            return _docker(*arguments)
        except ComposeFailed as error:
            if CANNOT_FREEZE not in str(error) or time.monotonic() > deadline:
                raise
        time.sleep(ASK_SECONDS)


def _unpaused(*arguments: str) -> str:
    """The same; one that could not be paused runs, and that is what is wanted."""
    try:
        return _docker(*arguments)
    except ComposeFailed as error:
        if NOT_PAUSED not in str(error):
            raise
        return ""


def _each(
    containers: Iterable[str], *arguments: str, command: Callable[..., str] = _docker
) -> None:
    """The same command for all of them, at the same time: docker takes one after the other."""
    with ThreadPoolExecutor() as threads:
        for done in [threads.submit(command, *arguments, each) for each in containers]:
            done.result()


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
