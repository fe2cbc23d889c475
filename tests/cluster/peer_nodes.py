"""Nodes that are nothing but their links: users that remember, and a world of them on one loop."""

import asyncio
import random
import socket
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Final, Self

import uvloop

from node.cluster.peering.link_settings import LinkSettings
from node.cluster.peering.link_socket import LinkSocket
from node.cluster.peering.peer_links import PeerLinks
from node.tls.acceptor import Contexts
from warren.wire.peer.handshake import Identity, link_key

SECRET: Final = b"a secret of this test cluster"
CLUSTER_ID: Final = b"cluster-of-tests"
LOOPBACK: Final = "127.0.0.1"
DEADLINE_S: Final = 60.0

# Times that make faults show quickly.
QUICK: Final = LinkSettings(
    beat_interval_ms=20,
    silence_ms=2000,
    handshake_timeout_ms=2000,
    connect_timeout_ms=2000,
    retry_ms_min=5,
    retry_ms_max=40,
)


def free_port() -> int:
    """A loopback port that is free now."""
    for _ in range(200):
        port = random.SystemRandom().randrange(31_000, 39_000)
        with socket.socket() as probe:
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                continue
            return port
    raise OSError("no free loopback port found")


@dataclass
class Recorder:
    """Keeps the `PeerUser` Protocol: remembers, and lets a test wait for something."""

    events: list[tuple[str, int, object]] = field(default_factory=list)
    batches: list[tuple[int, int, bytes]] = field(default_factory=list)
    answers: int = 0
    conflicts: list[tuple[int, str]] = field(default_factory=list)
    drains: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    on_connected: Callable[[], None] | None = None
    on_received: Callable[[int, int, bytes], None] | None = None

    def connected(self, member: int, incarnation: int) -> None:
        self._note("connected", member, incarnation)
        if self.on_connected is not None:
            self.on_connected()

    def lost(self, member: int, reason: str) -> None:
        self._note("lost", member, reason)

    def unreachable(self, member: int, reason: str) -> None:
        self._note("unreachable", member, reason)

    def answered(self, member: int) -> None:
        self.answers += 1
        self.changed.set()

    def received(self, member: int, lane: int, kind: int, payload: memoryview) -> None:
        content = bytes(payload)
        self.batches.append((member, lane, content))
        self.changed.set()
        if self.on_received is not None:
            self.on_received(member, lane, content)

    def drained(self, member: int) -> None:
        self.drains += 1
        self.changed.set()

    def ends_turn(self, socket: LinkSocket) -> bool:
        return False

    def conflict(self, member: int, text: str) -> None:
        self.conflicts.append((member, text))
        self.changed.set()

    def _note(self, what: str, member: int, detail: object) -> None:
        self.events.append((what, member, detail))
        self.changed.set()

    def count(self, what: str) -> int:
        return sum(event[0] == what for event in self.events)

    def reasons(self) -> list[str]:
        return [str(detail) for what, _, detail in self.events if what == "lost"]

    async def until_count(self, what: str, count: int, seconds: float = DEADLINE_S) -> None:
        """Wait until that has been told so often."""
        await self.until(lambda: self.count(what) >= count, seconds)

    async def until_answers(self, count: int) -> None:
        """Wait until so many beats have been answered."""
        await self.until(lambda: self.answers >= count)

    async def until_batches(self, count: int) -> None:
        """Wait until so many batches have come."""
        await self.until(lambda: len(self.batches) >= count)

    async def until_unreachable(self, member: int, words: str) -> None:
        """Wait until it reports that a peer cannot be reached, for this reason."""
        await self.until(
            lambda: any(
                event[:2] == ("unreachable", member) and words in str(event[2])
                for event in self.events
            )
        )

    async def until(self, condition: Callable[[], bool], seconds: float = DEADLINE_S) -> None:
        """Wait until a report makes it true."""
        async with asyncio.timeout(seconds):
            while not condition():
                self.changed.clear()
                await self.changed.wait()


def identity(
    node_id: int,
    secret: bytes = SECRET,
    cluster_id: bytes = CLUSTER_ID,
    incarnation: int = 0,
    boot: int = 0,
) -> Identity:
    return Identity(
        node_id,
        incarnation or 1000 + node_id,
        boot or 2000 + node_id,
        cluster_id,
        link_key(secret),
    )


class Member:
    """One node: its links, its user, its port."""

    def __init__(
        self,
        mine: Identity,
        settings: LinkSettings = QUICK,
        tls: Contexts | None = None,
    ) -> None:
        self.id = mine.node_id
        self.user = Recorder()
        self.port = 0
        self.links = PeerLinks(mine, self.user, settings, tls, random.Random(mine.node_id))

    async def __aenter__(self) -> Self:
        self.port = await self.links.listen(LOOPBACK, self.port or free_port())
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.links.close()

    def knows(self, *others: "Member") -> None:
        for other in others:
            self.links.add_peer(other.id, LOOPBACK, other.port)

    async def meets(self, other: "Member") -> None:
        """Both know each other, and wait until they are linked."""
        self.knows(other)
        other.knows(self)
        await self.user.until(lambda: self.links.is_connected(other.id))
        await other.user.until(lambda: other.links.is_connected(self.id))


def run(test: Coroutine[object, object, None]) -> None:
    """Run a test on a loop like that of a node."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_bounded(test))


async def _bounded(test: Coroutine[object, object, None]) -> None:
    async with asyncio.timeout(2 * DEADLINE_S):
        await test
