"""The links between the nodes of a cluster, each behind a Toxiproxy of its own.

Takes the addresses at which the nodes listen for each other; gives each node the ways that it must
take to the others (`routes`, for its setting `testing.peer_routes`), and does to any pair of nodes
what networks do. Nodes are numbered from 1. A pair has one Toxiproxy with a proxy for each of both
who might dial; a change of one pair touches no other. Calls block for some milliseconds.
"""

from collections.abc import Iterable, Sequence
from itertools import combinations, permutations
from typing import Final

from warren.testing.toxiproxy import LOOPBACK, Proxy, Toxic, ToxiproxyServer

FOR_EVER: Final = 0  # `timeout` of a toxic that swallows what comes and never closes


def ports_of_links(count: int) -> int:
    """How many ports the links between so many nodes need: two for each pair, one to steer it."""
    return count * (count - 1) * 3 // 2


class Links:
    """All links of a cluster.

    Invariant: `_servers` has one running server for each pair, lower number first, from `start`
    to `stop`.
    """

    def __init__(self, ports: Sequence[int], free_ports: Sequence[int]) -> None:
        """`ports`: where node 1, 2, ... listens for its peers, on loopback; `free_ports`: as many
        as `ports_of_links` says."""
        assert len(free_ports) == ports_of_links(len(ports))
        self._ports = list(ports)
        numbers = range(1, len(ports) + 1)
        free = iter(free_ports)
        # Who dials whom, and the port to dial instead.
        self._listen = {pair: next(free) for pair in permutations(numbers, 2)}
        self._servers: dict[tuple[int, int], ToxiproxyServer] = {}
        for one, two in combinations(numbers, 2):
            proxies = [self._proxy(one, two), self._proxy(two, one)]
            self._servers[one, two] = ToxiproxyServer(next(free), proxies)

    def start(self) -> None:
        """Start what does not run yet."""
        for server in self._servers.values():
            if not server.is_running:
                server.start()

    def stop(self) -> None:
        for server in self._servers.values():
            server.stop()

    def routes(self, number: int) -> str:
        """`testing.peer_routes` of that node."""
        ways = [
            f"{LOOPBACK}:{self._ports[target - 1]},{LOOPBACK}:{port}"
            for (source, target), port in self._listen.items()
            if source == number
        ]
        return ",".join(ways)

    def cut(self, one: int, two: int) -> None:
        """Their connections are closed, and new ones refused."""
        server = self._server(one, two)
        for name in list(server.proxies):
            server.down(name)

    def swallow(self, one: int, two: int) -> None:
        """Nothing arrives any more, in neither direction, and no connection is closed."""
        self.one_way(one, two)
        self.one_way(two, one)

    def one_way(self, source: int, target: int) -> None:
        """What `source` sends to `target` is lost without a word; the other way all arrives."""
        self.toxic(source, target, "timeout", timeout=FOR_EVER)

    def slow(self, one: int, two: int, latency_ms: int, jitter_ms: int = 0) -> None:
        """Each direction takes so much longer."""
        for source, target in ((one, two), (two, one)):
            self.toxic(source, target, "latency", latency=latency_ms, jitter=jitter_ms)

    def narrow(self, one: int, two: int, kilobytes_per_s: int) -> None:
        """Each connection and direction carries so much and no more."""
        for source, target in ((one, two), (two, one)):
            self.toxic(source, target, "bandwidth", rate=kilobytes_per_s)

    def toxic(self, source: int, target: int, kind: str, /, **attributes: int) -> None:
        """Do what Toxiproxy calls `kind` to all that `source` sends to `target`."""
        server = self._server(source, target)
        server.add(_name(source, target), Toxic(kind, "upstream", attributes))
        server.add(_name(target, source), Toxic(kind, "downstream", attributes))

    def part(self, *sides: Iterable[int], silent: bool = False) -> None:
        """Cut every link between nodes of different sides; `silent`: swallow them instead."""
        for one_side, other_side in combinations([list(side) for side in sides], 2):
            for one in one_side:
                for two in other_side:
                    if silent:
                        self.swallow(one, two)
                    else:
                        self.cut(one, two)

    def isolate(self, number: int, silent: bool = False) -> None:
        """That node alone on one side, all others on the other."""
        numbers = range(1, len(self._ports) + 1)
        self.part([number], [other for other in numbers if other != number], silent=silent)

    def heal(self, one: int | None = None, two: int | None = None) -> None:
        """The link between two nodes, all links of one node, or all links: as good as new."""
        wanted = {number for number in (one, two) if number is not None}
        for pair, server in self._servers.items():
            if wanted <= set(pair):
                server.heal()

    def _server(self, one: int, two: int) -> ToxiproxyServer:
        return self._servers[min(one, two), max(one, two)]

    def _proxy(self, source: int, target: int) -> Proxy:
        upstream = f"{LOOPBACK}:{self._ports[target - 1]}"
        return Proxy(_name(source, target), self._listen[source, target], upstream)


def _name(source: int, target: int) -> str:
    return f"{source}-to-{target}"
