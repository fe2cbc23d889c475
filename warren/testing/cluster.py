"""A cluster of broker processes under the control of a test. Imports nothing of the broker itself.

    with ClusterOfNodes(3) as cluster:            # formed: every node has said that it is ready
        connection = pika.BlockingConnection(pika.URLParameters(cluster.node(2).url))
        cluster.node(1).kill9()                   # or stop(), pause(), resume(), wipe(), restart()
        cluster.node(1).start()

    with ClusterOfNodes(3, proxied=True) as cluster:    # every link behind a Toxiproxy
        cluster.links.part([1], [2, 3])
        cluster.links.heal()
        cluster.client_links.cut(1)          # for clients that use `client_urls`, not `urls`

Nodes are numbered from 1 and named `n1`, `n2`, ...; each is a `warren.testing.Node` with a data
directory, ports and a log of its own. All of them are on the founding list, unless `founders` says
how many are. The ports for peers ascend with the numbers, so that in a cluster that was formed from
nothing node 1 has the member id 1.

A `ClusterOfNodes` owns a folder (given, or temporary) with a data directory for each node and the
secret. When a block ends by an exception, or `keep_logs` is called, the logs outlive the cluster.
"""

import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from warren.testing.client_links import PORTS_PER_NODE, ClientLinks
from warren.testing.links import Links, ports_of_links
from warren.testing.node import Node, NodeFailed, free_ports

READY_SECONDS: Final = 60.0
LOOPBACK: Final = "127.0.0.1"
SECRET_BYTES: Final = 32


class ClusterOfNodes:
    """Nodes that are members of one cluster; use it as a context manager.

    `config` and `settings` are for every node as for `Node`; `node_settings[number]` are for one.
    `proxied`: `links` puts every link between two nodes behind Toxiproxy, and `client_links` those
    of clients that use `client_urls`. `base_port`: that of AMQP on the first node; ports of the API
    are 10,000 higher, those for peers 20,000 higher.

    Invariant: `nodes` are all nodes that there are, whether they run or not; `_links` and
    `_client_links` are both there or both not.
    """

    def __init__(
        self,
        count: int = 3,
        *,
        data_dir: Path | None = None,
        config: str = "",
        settings: Mapping[str, str] | None = None,
        node_settings: Mapping[int, Mapping[str, str]] | None = None,
        environment: Mapping[str, str] | None = None,
        python: str = sys.executable,
        proxied: bool = False,
        founders: int | None = None,
        base_port: int | None = None,
        ready_seconds: float = READY_SECONDS,
    ) -> None:
        self.logs_kept: Path | None = None
        self._folder = Path(tempfile.mkdtemp(prefix="warren-cluster-"))
        self._data = data_dir or self._folder
        self._links: Links | None = None
        self._client_links: ClientLinks | None = None
        ports = _ports(count, base_port)
        self.peer_ports = ports[:count]
        if proxied:
            between = ports_of_links(count)
            free = free_ports(between + PORTS_PER_NODE * count, ports)
            self._links = Links(self.peer_ports, free[:between])
            self._client_links = ClientLinks(ports[count : 2 * count], free[between:])
        common = {**(settings or {}), "cluster.secret_file": str(self._secret_file())}
        seeds = self.peer_ports[: founders or count]
        common["cluster.seeds"] = ",".join(f"{LOOPBACK}:{port}" for port in seeds)
        self.nodes = [
            Node(
                f"n{number}",
                port=ports[count + number - 1],
                management_port=ports[2 * count + number - 1],
                data_dir=self._data / f"n{number}",
                log_path=self._data / f"n{number}.log" if data_dir else None,
                config=config,
                settings={
                    **common,
                    **self._own_settings(number),
                    **(node_settings or {}).get(number, {}),
                },
                environment=environment,
                python=python,
                ready_seconds=ready_seconds,
            )
            for number in range(1, count + 1)
        ]

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException as error:
            error.add_note(f"logs of the nodes: {self.keep_logs()}")
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            error.add_note(f"logs of the nodes: {self.keep_logs()}")
        self.close()

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def links(self) -> Links:
        """What can be done to the links between nodes; only of a cluster that is `proxied`."""
        assert self._links is not None, "ClusterOfNodes(proxied=True) has links"
        return self._links

    @property
    def client_links(self) -> ClientLinks:
        """What can be done to the links of clients that use `client_urls`; only if `proxied`."""
        assert self._client_links is not None, "ClusterOfNodes(proxied=True) has client links"
        return self._client_links

    @property
    def client_urls(self) -> list[str]:
        """AMQP URLs of all nodes, in order, through the proxies of `client_links`."""
        ports = self.client_links.ports
        return [f"amqp://guest:guest@{LOOPBACK}:{port}/%2F" for port in ports]

    @property
    def urls(self) -> list[str]:
        """AMQP URLs of all nodes, in order."""
        return [node.url for node in self.nodes]

    def node(self, number: int) -> Node:
        """The node of that number, the first is 1."""
        assert 1 <= number <= len(self.nodes)
        return self.nodes[number - 1]

    def number_of(self, name: str) -> int:
        """The number of the node of that name."""
        return next(i for i, node in enumerate(self.nodes, 1) if node.name == name)

    def others(self, number: int) -> list[Node]:
        """All nodes but that one."""
        return [node for i, node in enumerate(self.nodes, 1) if i != number]

    def start(self, numbers: Iterable[int] | None = None) -> None:
        """Start those nodes, or all that do not run, at once; wait until all are ready."""
        for node in self.begin(numbers):
            node.await_ready()

    def begin(self, numbers: Iterable[int] | None = None) -> list[Node]:
        """The same without waiting: the nodes that were begun, for `Node.await_ready`."""
        if self._links is not None:
            self._links.start()
            self.client_links.start()
        chosen = list(numbers) if numbers is not None else self._resting()
        nodes = [self.node(number) for number in chosen]
        for node in nodes:
            node.begin()
        return nodes

    def kill9(self, numbers: Iterable[int] | None = None) -> None:
        """End those nodes, or all, at the same moment, as a power cut would."""
        chosen = self.nodes if numbers is None else [self.node(number) for number in numbers]
        running = [node for node in chosen if node.is_running()]
        for node in running:
            node.kill9(wait=False)
        for node in running:
            node.await_end()

    def stop(self, numbers: Iterable[int] | None = None) -> None:
        """Ask those nodes, or all, to end at the same moment, and wait until each has."""
        chosen = self.nodes if numbers is None else [self.node(number) for number in numbers]
        running = [node for node in chosen if node.is_running()]
        for node in running:
            node.stop(wait=False)
        for node in running:
            code = node.await_end()
            if code != 0:
                raise NodeFailed(f"{node.name}: exit code {code} after SIGTERM")

    def keep_logs(self) -> Path:
        """Copy the logs to a folder that outlives the cluster; that folder."""
        if self.logs_kept is None:
            self.logs_kept = Path(tempfile.mkdtemp(prefix="warren-logs-"))
        for node in self.nodes:
            if node.log_path.exists():
                shutil.copyfile(node.log_path, self.logs_kept / f"{node.name}.log")
        return self.logs_kept

    def close(self) -> None:
        """End all that runs and remove the temporary folder."""
        for node in self.nodes:
            node.close()
        if self._links is not None:
            self._links.stop()
            self.client_links.stop()
            self._links = self._client_links = None
        shutil.rmtree(self._folder, ignore_errors=True)

    def _resting(self) -> list[int]:
        return [number for number, node in enumerate(self.nodes, 1) if not node.is_running()]

    def _own_settings(self, number: int) -> dict[str, str]:
        own = {"listeners.cluster": f"{LOOPBACK}:{self.peer_ports[number - 1]}"}
        if self._links is not None:
            own["testing.peer_routes"] = self._links.routes(number)
        return own

    def _secret_file(self) -> Path:
        """The secret; made when it is not there yet, for the eyes of its owner alone."""
        self._data.mkdir(parents=True, exist_ok=True)
        path = self._data / "secret"
        if not path.exists():
            path.touch(0o600)
            path.write_text(secrets.token_hex(SECRET_BYTES), "utf-8")
        return path


def _ports(count: int, base: int | None) -> list[int]:
    """For peers, for AMQP and for the API of each node; those for peers ascend."""
    if base is not None:
        return [base + offset + n for offset in (20_000, 0, 10_000) for n in range(count)]
    ports = free_ports(3 * count)
    return sorted(ports[:count]) + ports[count:]
