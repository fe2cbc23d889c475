"""The links between clients and the nodes of a cluster, each node's port behind a Toxiproxy.

Takes the ports at which nodes take clients, numbered from 1; gives ports to connect to instead, and
does to the connections of all clients of a node what networks do. Each node has a Toxiproxy process
of its own, so that a change of one touches no other. Calls block for some milliseconds.
"""

from collections.abc import Sequence
from typing import Final

from warren.testing.toxiproxy import LOOPBACK, Proxy, Toxic, ToxiproxyServer

PORTS_PER_NODE: Final = 2  # to connect to, and to steer the proxy
NAME: Final = "clients"
STREAMS: Final = ("upstream", "downstream")


class ClientLinks:
    """Proxies before all nodes.

    Invariant: `_servers[i]` is before node i + 1, and runs from `start` to `stop`.
    """

    def __init__(self, ports: Sequence[int], free_ports: Sequence[int]) -> None:
        """`ports`: where node 1, 2, ... takes clients; `free_ports`: `PORTS_PER_NODE` for each."""
        count = len(ports)
        assert len(free_ports) == PORTS_PER_NODE * count
        self.ports = list(free_ports[:count])  # where clients connect to node 1, 2, ...
        self._servers = [
            ToxiproxyServer(steer, [Proxy(NAME, listen, f"{LOOPBACK}:{port}")])
            for port, listen, steer in zip(ports, self.ports, free_ports[count:], strict=True)
        ]

    def start(self) -> None:
        """Start what does not run yet."""
        for server in self._servers:
            if not server.is_running:
                server.start()

    def stop(self) -> None:
        for server in self._servers:
            server.stop()

    def cut(self, number: int) -> None:
        """Connections of clients to that node are closed, and new ones refused."""
        self._server(number).down(NAME)

    def toxic(self, number: int, kind: str, /, **attributes: int) -> None:
        """Do what Toxiproxy calls `kind` to all that clients and that node send each other."""
        for stream in STREAMS:
            self._server(number).add(NAME, Toxic(kind, stream, attributes))

    def heal(self) -> None:
        """All of them as good as new."""
        for server in self._servers:
            server.heal()

    def _server(self, number: int) -> ToxiproxyServer:
        assert 1 <= number <= len(self._servers)
        return self._servers[number - 1]
