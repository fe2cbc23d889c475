"""Coordinators of several nodes in one process: links that drop and part, and time by hand.

pysyncobj takes time and lots from its modules; both are replaced here while a world lives, so that
a run of minutes takes a moment, and the same seed gives the same run.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import pysyncobj.syncobj
import pytest

from node.cluster.cluster_interfaces import COORDINATION, PeerChannel
from node.cluster.coordination.coordination_interface import Load
from node.cluster.coordination.coordinator import TICK_S, Coordinator, Membership
from warren.wire.peer.handshake import VERSION_MAX


class FakePeers:
    """One node's links to the others."""

    def __init__(self, world: "World", member: int) -> None:
        self.world = world
        self.member = member

    def attach(self, kind: int, part: PeerChannel) -> None:
        raise AssertionError("parts are attached by the node")

    def send(self, member: int, kind: int, lane: int, parts: list[bytes]) -> bool:
        assert kind == COORDINATION
        self.world.sent(self.member, member, b"".join(parts))
        return True

    def is_connected(self, member: int) -> bool:
        return self.world.is_linked(self.member, member)

    def is_full(self, member: int) -> bool:
        return False

    def version(self, member: int) -> int:
        return VERSION_MAX

    def is_trusted(self, member: int) -> bool:
        return True

    def members(self) -> list[int]:
        return list(self.world.membership[1])


class Worker:
    """Does the jobs that its node has, and takes down each hold."""

    def __init__(self, world: "World", member: int, job: str) -> None:
        self.world = world
        self.member = member
        self.job = job
        self.fencing: int | None = None

    def told(self, fencing: int | None) -> None:
        self.fencing = fencing
        if fencing is not None:
            holders = self.world.holders.setdefault((self.job, fencing), set())
            holders.add(self.member)


class World:
    """`holders` has everyone who ever believed to hold a job under a number."""

    def __init__(self, count: int, random: Random, drop: float = 0.0) -> None:
        self.random = random
        self.drop = drop
        self.now_s = 1000.0
        self.membership: Membership = (7, tuple(range(1, count + 1)))
        self.cut: set[frozenset[int]] = set()
        self.down: set[int] = set()
        self.under_way: deque[tuple[int, int, bytes]] = deque()
        self.holders: dict[tuple[str, int], set[int]] = {}
        self.frames = 0
        self.nodes: dict[int, Coordinator] = {}
        self.workers: list[Worker] = []
        for member in self.membership[1]:
            self.begin(member)

    def begin(self, member: int) -> None:
        """A process of the node."""
        self.nodes[member] = Coordinator(
            FakePeers(self, member),
            lambda: self.membership,
            lambda: Load(leaders=member),
            lambda: self.now_s,
            self._no_timer,
        )

    def _no_timer(self, seconds: float, call: Callable[[], None]) -> None:
        raise AssertionError("time passes by `run`")

    def is_linked(self, one: int, other: int) -> bool:
        return not self.down & {one, other} and frozenset({one, other}) not in self.cut

    def sent(self, origin: int, target: int, frame: bytes) -> None:
        self.frames += 1
        if self.is_linked(origin, target) and self.random.random() >= self.drop:
            self.under_way.append((origin, target, frame))

    def part(self, *side: int) -> None:
        """Cut the links between these nodes and the others."""
        others = set(self.membership[1]) - set(side)
        for pair in [frozenset({one, other}) for one in side for other in others]:
            if pair not in self.cut:
                self.cut.add(pair)
                self._tell_lost(*pair)

    def heal(self) -> None:
        pairs, self.cut = self.cut, set()
        for one, other in (tuple(each) for each in pairs):
            if self.is_linked(one, other):
                self.nodes[one].peer_connected(other)
                self.nodes[other].peer_connected(one)

    def stop(self, member: int) -> None:
        """The process is gone, and its workers with it."""
        self.down.add(member)
        for worker in self.workers:
            if worker.member == member:
                worker.fencing = None
        for other in self.nodes:
            if other != member:
                self.nodes[other].peer_lost(member)

    def restart(self, member: int) -> None:
        """Another process of the node, of which the definitions know."""
        self.begin(member)
        self.membership = (self.membership[0] + 1, self.membership[1])
        self.down.discard(member)
        for other in self.nodes:
            if other != member and self.is_linked(member, other):
                self.nodes[other].peer_connected(member)

    def _tell_lost(self, one: int, other: int) -> None:
        self.under_way = deque(each for each in self.under_way if {*each[:2]} != {one, other})
        self.nodes[one].peer_lost(other)
        self.nodes[other].peer_lost(one)

    def deliver(self) -> None:
        while self.under_way:
            origin, target, frame = self.under_way.popleft()
            if self.is_linked(origin, target):
                self.nodes[target].peer_received(origin, memoryview(frame))

    def run(self, seconds: float) -> None:
        """Let time pass."""
        for _ in range(round(seconds / TICK_S)):
            self.now_s += TICK_S
            for member, node in self.nodes.items():
                if member not in self.down:
                    node.tick()
            self.deliver()

    def until(self, reached: Callable[[], bool], seconds: float = 60) -> None:
        for _ in range(round(seconds / TICK_S)):
            if reached():
                return
            self.run(TICK_S)
        raise AssertionError(f"not within {seconds} s")

    def claim_everywhere(self, job: str) -> dict[int, Worker]:
        workers = {member: Worker(self, member, job) for member in self.nodes}
        for member, worker in workers.items():
            self.nodes[member].claim(job, worker.told)
            self.workers.append(worker)
        return workers


@contextmanager
def worlds(count: int, seed: int, drop: float = 0.0) -> Iterator[World]:
    """A world in which pysyncobj lives."""
    random = Random(seed)
    patch = pytest.MonkeyPatch()
    module: Any = pysyncobj.syncobj
    world: World | None = None
    patch.setattr(module, "monotonicTime", lambda: 1000.0 if world is None else world.now_s)
    patch.setattr(module, "random", random)
    try:
        world = World(count, random, drop)
        yield world
        for node in world.nodes.values():
            node.stop()
    finally:
        patch.undo()


def holding(workers: dict[int, Worker]) -> list[int]:
    """Members that believe to have the job now."""
    return [member for member, worker in workers.items() if worker.fencing is not None]
