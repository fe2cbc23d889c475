"""What `warren.testing.links` does to the links between nodes, with the real Toxiproxy.

A node is here a server that remembers what it received, and answers each line with its own number.
"""

import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from typing import Final

import pytest

from tests.cluster.peer_nodes import LOOPBACK
from tests.cluster.toxiproxy import server_program
from tests.waiting import eventually
from warren.testing import free_port, free_ports
from warren.testing.client_links import PORTS_PER_NODE, ClientLinks
from warren.testing.links import Links, ports_of_links
from warren.testing.toxiproxy import Proxy, Toxic, ToxiproxyFailed, ToxiproxyServer

PATIENCE_S: Final = 60.0
SILENCE_S: Final = 0.3  # so long is waited for what must not come


class Peer:
    """A listening node."""

    def __init__(self, number: int, port: int) -> None:
        self.heard: list[bytes] = []
        peer = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                for line in self.rfile:
                    peer.heard.append(line)
                    self.wfile.write(b"%d\n" % number)

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = True
            daemon_threads = True

        self.port = port
        self.server = Server((LOOPBACK, port), Handler)
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self._thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()


class World:
    """Three peers, sorted by port as a cluster has them, and the links between them."""

    def __init__(self) -> None:
        ports = free_ports(3 + ports_of_links(3))
        self.peers = [Peer(number, ports[number - 1]) for number in (1, 2, 3)]
        self.links = Links(ports[:3], ports[3:])
        self._sockets: list[socket.socket] = []

    def dial(self, source: int, target: int) -> socket.socket:
        """As node `source` would dial node `target`."""
        words = self.links.routes(source).split(",")
        asked = f"{LOOPBACK}:{self.peers[target - 1].port}"
        port = int(words[1 + 2 * words[::2].index(asked)].rpartition(":")[2])
        made = socket.create_connection((LOOPBACK, port), PATIENCE_S)
        self._sockets.append(made)
        return made

    def close(self) -> None:
        for each in self._sockets:
            each.close()
        self.links.stop()
        for peer in self.peers:
            peer.close()


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("WARREN_TOXIPROXY", server_program())
    made = World()
    try:
        made.links.start()
        yield made
    finally:
        made.close()


def answer(connection: socket.socket, seconds: float = PATIENCE_S) -> bytes:
    """What comes back for a line; b"" if the connection ends, TimeoutError if nothing comes."""
    connection.settimeout(seconds)
    connection.sendall(b"hello\n")
    return connection.recv(100)


def works(world: World, source: int, target: int) -> bool:
    """Whether a new connection of that way carries a line and its answer."""
    try:
        return answer(world.dial(source, target), SILENCE_S) == b"%d\n" % target
    except OSError:
        return False


def test_each_node_reaches_each_other_through_a_proxy_of_its_own(world: World) -> None:
    for source in (1, 2, 3):
        for target in {1, 2, 3} - {source}:
            assert answer(world.dial(source, target)) == b"%d\n" % target


def test_a_cut_link_ends_its_connections_and_takes_none_until_it_is_healed(world: World) -> None:
    standing = world.dial(1, 2)
    assert answer(standing) == b"2\n"
    world.links.cut(1, 2)
    assert standing.recv(1) == b""
    assert not works(world, 1, 2)
    assert not works(world, 2, 1)
    assert works(world, 1, 3)
    world.links.heal()
    assert works(world, 1, 2)
    assert works(world, 2, 1)


def test_one_way_loses_one_direction_without_a_word_whoever_has_dialed(world: World) -> None:
    from_one, from_two = world.dial(1, 2), world.dial(2, 1)
    assert (answer(from_one), answer(from_two)) == (b"2\n", b"1\n")
    world.links.one_way(1, 2)
    with pytest.raises(TimeoutError):
        answer(from_one, SILENCE_S)
    assert len(world.peers[1].heard) == 1
    with pytest.raises(TimeoutError):
        answer(from_two, SILENCE_S)
    eventually(lambda: len(world.peers[0].heard) == 2)  # It has come; the answer was lost.


def test_a_link_that_swallows_everything_heals(world: World) -> None:
    standing = world.dial(1, 2)
    assert answer(standing) == b"2\n"
    world.links.swallow(1, 2)
    with pytest.raises(TimeoutError):
        answer(standing, SILENCE_S)
    world.links.heal(1, 2)
    assert works(world, 1, 2)


def test_a_part_leaves_the_links_within_each_side(world: World) -> None:
    world.links.part([1], [2, 3])
    assert not works(world, 1, 2)
    assert not works(world, 3, 1)
    assert works(world, 2, 3)
    world.links.heal(1)
    assert works(world, 1, 2)
    assert works(world, 3, 1)


def test_healing_one_node_leaves_the_faults_of_others(world: World) -> None:
    world.links.cut(1, 2)
    world.links.cut(2, 3)
    world.links.heal(3)
    assert works(world, 2, 3)
    assert not works(world, 1, 2)


def test_a_slow_link_takes_so_much_longer_in_each_direction(world: World) -> None:
    world.links.slow(1, 2, latency_ms=60)
    connection = world.dial(1, 2)
    began = time.monotonic()
    assert answer(connection) == b"2\n"
    assert time.monotonic() - began >= 0.12


def test_faults_of_a_link_outlive_a_server_that_hangs() -> None:
    """The server is stopped (SIGSTOP) when a toxic is added: it is restarted, with the toxic."""
    own, way, steering = free_ports(3)
    peer = Peer(7, own)
    proxy = Proxy("way", way, f"{LOOPBACK}:{own}")
    server = ToxiproxyServer(steering, [proxy], server_program())
    server.start()
    try:
        server.freeze()
        server.add("way", Toxic("latency", "downstream", {"latency": 80}))
        began = time.monotonic()
        with socket.create_connection((LOOPBACK, proxy.listen_port), PATIENCE_S) as connection:
            assert answer(connection) == b"7\n"
        assert time.monotonic() - began >= 0.08
    finally:
        server.stop()
        peer.close()


def test_a_program_that_is_not_there_is_told() -> None:
    with pytest.raises((ToxiproxyFailed, OSError)):
        ToxiproxyServer(free_port(), [], "/no/such/program").start()


def test_links_of_clients_break_in_both_directions_for_one_node_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WARREN_TOXIPROXY", server_program())
    ports = free_ports(2 + 2 * PORTS_PER_NODE)
    peers = [Peer(number, ports[number - 1]) for number in (1, 2)]
    links = ClientLinks(ports[:2], ports[2:])

    def asked(number: int, seconds: float = PATIENCE_S) -> bytes:
        """What the node answers a client."""
        where = (LOOPBACK, links.ports[number - 1])
        with socket.create_connection(where, PATIENCE_S) as connection:
            return answer(connection, seconds)

    try:
        links.start()
        links.toxic(1, "latency", latency=60)
        began = time.monotonic()
        assert asked(1) == b"1\n"
        assert time.monotonic() - began >= 0.12  # There and back.
        links.heal()
        links.toxic(1, "timeout", timeout=0)
        with pytest.raises(TimeoutError):
            asked(1, SILENCE_S)
        assert asked(2) == b"2\n"
        links.cut(2)
        with pytest.raises(ConnectionRefusedError):
            asked(2)
        links.heal()
        assert asked(1) == b"1\n"
        assert asked(2) == b"2\n"
    finally:
        links.stop()
        for peer in peers:
            peer.close()
