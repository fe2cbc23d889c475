"""Links over a bad network: what arrives is in order, once and without gaps, or the loss is
reported.

Each batch says in which link of its sender it was sent, and its place there. Within one link the
receiver must see 0, 1, 2, ... of each lane; a link may end early, and none may come back.
"""

import asyncio
import os
import struct
from collections.abc import Awaitable, Callable, Iterator
from random import Random

import pytest
from msgspec.structs import replace

from node.cluster.peering.link_settings import LinkSettings
from tests.cluster.peer_nodes import LOOPBACK, QUICK, Member, free_port, identity, run
from tests.cluster.toxiproxy import server_program
from warren.testing.toxiproxy import Proxy, Toxic, ToxiproxyServer

CONTROL = 0
BULK = 1
PACE_S = 0.002
BOTH = ("upstream", "downstream")


@pytest.fixture(scope="module")
def toxiproxy() -> Iterator[ToxiproxyServer]:
    server = ToxiproxyServer(free_port(), [], server_program())
    server.start()
    yield server
    server.stop()


class Way:
    """A port of its own before one node. Calls are made from a thread: the server may answer only
    when the nodes have read more."""

    def __init__(self, server: ToxiproxyServer, target: int) -> None:
        self.port = free_port()
        self._server = server
        self._name = f"way{len(server.proxies)}"
        server.add_proxy(Proxy(self._name, self.port, f"{LOOPBACK}:{target}"))

    async def add(self, toxic: str, stream: str = "downstream", **attributes: int) -> None:
        """Begin to do that to one direction."""
        await asyncio.to_thread(self._server.add, self._name, Toxic(toxic, stream, attributes))

    async def down(self) -> None:
        """Close all connections and take no new ones."""
        await asyncio.to_thread(self._server.down, self._name)

    async def up(self) -> None:
        await asyncio.to_thread(self._server.up, self._name)


class Stream:
    """Batches of one node to another on one lane."""

    def __init__(self, source: Member, sink: Member, lane: int, size: int) -> None:
        self._source = source
        self._sink = sink
        self._lane = lane
        self._size = size
        self._link = 0  # of the source: its first is 1
        self._next = 0

    def send(self) -> None:
        """One more, if there is a link with room."""
        links = self._source.links
        if not links.is_connected(self._sink.id) or links.is_full(self._sink.id):
            return
        link = self._source.user.count("connected")
        if link != self._link:
            self._link = link
            self._next = 0
        head = struct.pack("<II", link, self._next)
        links.send(self._sink.id, self._lane, [head, bytes([self._next % 256]) * self._size])
        self._next += 1

    def arrived(self) -> list[tuple[int, int]]:
        """Link and place of all that came; every byte of it is as it was sent."""
        found = []
        for member, lane, content in self._sink.user.batches:
            if member == self._source.id and lane == self._lane:
                link, place = struct.unpack_from("<II", content)
                assert content[8:] == bytes([place % 256]) * self._size
                found.append((link, place))
        return found

    def check(self) -> int:
        """Everything in order, once, without gaps; how many links something came over."""
        before = (0, -1)
        for link, place in self.arrived():
            in_order = (link, place) == (before[0], before[1] + 1)
            assert in_order or (link > before[0] and place == 0), (before, link, place)
            before = (link, place)
        return len({link for link, _ in self.arrived()})


class World:
    """Two nodes, one of which dials the other through the proxy, and traffic both ways."""

    def __init__(self, one: Member, two: Member, toxiproxy: ToxiproxyServer) -> None:
        self.one = one
        self.two = two
        self._toxiproxy = toxiproxy
        self.proxy = Way(toxiproxy, two.port)
        self.streams = [
            Stream(source, sink, lane, size)
            for source, sink in ((one, two), (two, one))
            for lane, size in ((CONTROL, 40), (BULK, 3000))
        ]

    async def reroute(self, fault: str = "", stream: str = "downstream", **attributes: int) -> None:
        """Another way between the two, with this fault if any; the link over the old one ends.

        A toxic is never taken away, nor added while links come and go: Toxiproxy may wait for
        ever then (its issue 558).
        """
        self.proxy = Way(self._toxiproxy, self.two.port)
        if fault:
            await self.proxy.add(fault, stream, **attributes)
        self.one.links.add_peer(2, LOOPBACK, self.proxy.port)

    async def up(self) -> None:
        await self.one.user.until(lambda: self.one.links.is_connected(2))
        await self.two.user.until(lambda: self.two.links.is_connected(1))

    async def flow(self) -> None:
        """Send on all lanes until cancelled."""
        while True:
            for stream in self.streams:
                stream.send()
            await asyncio.sleep(PACE_S)  # The pace of the traffic.

    async def traffic(self, count: int) -> None:
        """Wait for so many more batches at each end."""
        for member in (self.one, self.two):
            goal = len(member.user.batches) + count
            await member.user.until_batches(goal)

    def check(self) -> int:
        return min(stream.check() for stream in self.streams)


Story = Callable[[World], Awaitable[None]]


def tell(toxiproxy: ToxiproxyServer, story: Story, settings: LinkSettings = QUICK) -> None:
    """Link two nodes through a proxy, let traffic flow, let the story happen, check all of it."""

    async def begin() -> None:
        async with Member(identity(1), settings) as one, Member(identity(2), settings) as two:
            two.knows(one)
            world = World(one, two, toxiproxy)
            one.links.add_peer(2, LOOPBACK, world.proxy.port)
            await world.up()
            flow = asyncio.get_running_loop().create_task(world.flow())
            await world.traffic(20)
            await story(world)
            await world.up()
            await world.traffic(40)
            flow.cancel()
            world.check()

    run(begin())


def test_latency_delays_and_nothing_else(toxiproxy: ToxiproxyServer) -> None:
    async def story(world: World) -> None:
        for stream in BOTH:
            await world.proxy.add("latency", stream, latency=40, jitter=20)
        before = world.one.user.answers
        await world.one.user.until(lambda: world.one.user.answers >= before + 40)
        status = world.one.links.status(2)
        assert status is not None
        assert status.rtt_ns > 40_000_000
        assert world.one.user.count("lost") == 0

    tell(toxiproxy, story)


def test_bytes_that_come_in_slices_make_the_same_messages(toxiproxy: ToxiproxyServer) -> None:
    async def story(world: World) -> None:
        for stream in BOTH:
            await world.proxy.add("slicer", stream, average_size=100, size_variation=90, delay=10)
        await world.traffic(60)
        assert world.one.user.count("lost") == 0

    tell(toxiproxy, story)


def test_a_narrow_line_fills_the_bulk_lane_and_not_the_control_lane(
    toxiproxy: ToxiproxyServer,
) -> None:
    async def story(world: World) -> None:
        one = world.one
        await world.proxy.add("bandwidth", "upstream", rate=3000)  # KB/s, for each connection
        content = bytes(100_000)
        while not one.links.is_full(2):
            one.links.send(2, 2, [content])
        answers = one.user.answers
        await one.user.until(lambda: one.user.answers >= answers + 10)
        status = one.links.status(2)
        assert status is not None
        assert status.queued_bytes > 1 << 20  # The beats went round while all this waited.
        drains = one.user.drains
        await one.user.until(lambda: one.user.drains > drains)
        assert one.user.count("lost") == 0

    tell(toxiproxy, story, replace(QUICK, peer_bytes_max=8 << 20, silence_ms=8000))


def test_a_reset_connection_is_told_as_lost_and_made_again(toxiproxy: ToxiproxyServer) -> None:
    async def story(world: World) -> None:
        for round_number in range(3):
            losses = world.one.user.count("lost")
            await world.proxy.add("reset_peer", "downstream", timeout=round_number * 10)
            await world.one.user.until_count("lost", losses + 1)
            await world.reroute()
            await world.up()
            await world.traffic(20)

    tell(toxiproxy, story)


def test_a_line_that_ends_in_the_midst_of_a_frame_loses_the_rest_of_the_link(
    toxiproxy: ToxiproxyServer,
) -> None:
    async def story(world: World) -> None:
        for cut in (5000, 20_001, 33_333):
            losses = world.two.user.count("lost")
            await world.proxy.add("limit_data", "upstream", bytes=cut)
            await world.two.user.until_count("lost", losses + 1)
            await world.reroute()
            await world.up()
            await world.traffic(20)

    tell(toxiproxy, story)


def test_a_line_that_swallows_everything_is_given_up_by_both_ends(
    toxiproxy: ToxiproxyServer,
) -> None:
    async def story(world: World) -> None:
        for stream in BOTH:
            await world.proxy.add("timeout", stream, timeout=0)
        await world.one.user.until(lambda: world.one.user.count("lost") == 1)
        await world.two.user.until(lambda: world.two.user.count("lost") == 1)
        await world.reroute()

    tell(toxiproxy, story, replace(QUICK, silence_ms=300, handshake_timeout_ms=500))


def test_one_direction_that_swallows_everything_is_noticed_too(toxiproxy: ToxiproxyServer) -> None:
    async def story(world: World) -> None:
        await world.proxy.add("timeout", "upstream", timeout=0)
        answers = world.one.user.answers
        await world.two.user.until(lambda: world.two.user.count("lost") == 1)
        await world.one.user.until(lambda: world.one.user.count("lost") == 1)
        assert world.one.user.answers <= answers + 30  # Nothing was answered meanwhile.
        await world.reroute()

    tell(toxiproxy, story, replace(QUICK, silence_ms=300, handshake_timeout_ms=500))


def test_a_line_that_is_down_for_a_while_comes_back_by_itself(toxiproxy: ToxiproxyServer) -> None:
    async def story(world: World) -> None:
        for _ in range(3):
            losses = world.one.user.count("lost")
            await world.proxy.down()
            await world.one.user.until_count("lost", losses + 1)
            await world.one.user.until_unreachable(2, "")
            await world.proxy.up()
            await world.up()
            await world.traffic(20)
        assert world.check() >= 3

    tell(toxiproxy, story)


def random_fault(drawn: Random) -> tuple[str, dict[str, int]]:
    faults: dict[str, dict[str, int]] = {
        "latency": {"latency": drawn.randrange(50), "jitter": 20},
        "reset_peer": {"timeout": drawn.randrange(300)},
        "limit_data": {"bytes": drawn.randrange(1, 3_000_000)},
        "bandwidth": {"rate": drawn.randrange(200, 5000)},
        "slicer": {"average_size": 2000, "size_variation": 1500, "delay": 10},
        "timeout": {"timeout": drawn.randrange(1, 60)},
        "": {},
    }
    return drawn.choice(list(faults.items()))


@pytest.mark.parametrize("seed", range(int(os.environ.get("WARREN_LINK_SEEDS", "2"))))
def test_a_random_run_of_faults_breaks_no_order(toxiproxy: ToxiproxyServer, seed: int) -> None:
    async def story(world: World) -> None:
        drawn = Random(seed)
        world.streams += [
            Stream(world.one, world.two, 2, 400_000),  # messages of two frames
            Stream(world.two, world.one, 2, 400_000),
        ]
        for _ in range(10):
            fault, attributes = random_fault(drawn)
            await world.reroute(fault, drawn.choice(BOTH), **attributes)
            await asyncio.sleep(drawn.random() * 0.3)  # So long it lasts.
            if drawn.random() < 0.2:
                world.two.links.drop(1, "by chance")
        await world.reroute()

    settings = replace(QUICK, silence_ms=400, handshake_timeout_ms=500, peer_bytes_max=4 << 20)
    tell(toxiproxy, story, settings)
