"""A primary that is a cluster of three nodes with a quorum queue, and what standbys ask of it.

The nodes are those of `GroupWorld`: they lose power and what is not synced, links between them are
cut, leaders move. Each has the real `Feed`, asked at any node; it asks the leader that this node
knows of.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from random import Random
from types import SimpleNamespace
from typing import Any, Final, Protocol, cast

from node.broker import Broker
from node.cluster.services.status_channel import Answer, NoAnswer, Unanswerable
from node.standby.feed import Feed, FeedFailed
from node.standby.primary_client import PrimaryFailed
from node.standby.stored_runs import StoredRun
from queues.definitions.arguments import encode_arguments
from queues.definitions.broker_objects import Queue, Uid, VhostEntry
from queues.definitions.metadata.vhost import VHost
from queues.hosts.quorum_member import QuorumMember
from tests.sim.queues.group_node import UID, GroupNode
from tests.sim.queues.group_session import Letter as Published
from tests.sim.queues.group_world import GroupWorld
from tests.sim.queues.letters import Letter
from warren.wire.amqp091.deliver import body_bytes

STEP_S: Final = 0.001
NAME: Final = "quorum"
QUEUE: Final = Queue(
    Uid(UID),
    "/",
    NAME,
    True,
    "",
    False,
    encode_arguments({"x-queue-type": "quorum"}),
    "1",
    (1, 2, 3),
)


class Site:
    """One life of a node, with what its feed asks of `Broker`: `broker`."""

    def __init__(self, node: GroupNode, cluster: "ClusterPrimary") -> None:
        self.node = node
        self.answers: dict[str, Answer] = {}
        self._cluster = cluster
        self.broker = cast(
            Broker,
            SimpleNamespace(
                operating=self,
                raft=node.raft,
                turn=node.turn,
                metadata=SimpleNamespace(queue=lambda uid: QUEUE if uid == UID else None),
                queues=SimpleNamespace(hosts=SimpleNamespace(awake=node.hosts)),
                identity=SimpleNamespace(incarnation=1),
                budget=node.budget,
                bodies=node.wal,
            ),
        )
        self.feed = Feed(self.broker)
        self.feed.serve(cast(Any, self))

    @property
    def status(self) -> "Site":
        return self

    @property
    def cluster_snapshot(self) -> "Site":
        return self

    def name_of(self, member: int) -> str:
        return str(member)

    @property
    def _member(self) -> QuorumMember | None:
        return self.node.member

    def leader_of(self, vhost: str, name: str) -> int:
        return 0 if self._member is None else int(self._member.leader)

    def is_led_here(self, uid: int) -> bool:
        return self._member is not None and self._member.is_leading

    # Questions between nodes

    def serve(self, question: str, answer: Answer) -> None:
        self.answers[question] = answer

    async def ask(self, member: int, question: str, about: object, patience_s: float) -> list[Any]:
        if member == self.node.number:
            return await self._answer(self, question, about)
        await self._cluster.travel()
        peer = self._cluster.site(member)
        if peer is None or not self._cluster.is_open(self.node.number, member):
            raise NoAnswer("it is not connected")
        asked = asyncio.ensure_future(self._answer(peer, question, about))
        while not asked.done():
            await asyncio.wait([asked], timeout=STEP_S)
            if not peer.node.is_alive():
                asked.cancel()
                raise NoAnswer("it went down")
        await self._cluster.travel()
        return asked.result()

    async def _answer(self, peer: "Site", question: str, about: object) -> list[Any]:
        try:
            return [each async for each in peer.answers[question](self.node.number, about)]
        except Unanswerable as error:
            raise NoAnswer(str(error)) from error


class ClusterPrimary:
    """The cluster, and its messages: `confirmed` and not accepted, `settled` for good."""

    def __init__(self, seed: int, dice: Random) -> None:
        self.group = GroupWorld(seed, 3, stored=lambda body: Letter(body, True).stored())
        self.group.is_steady = True
        self.group.run_until("a leader", self.group.has_leader)
        self.vhost = VHost(VhostEntry(Uid(1), "/", "", ()))
        self.vhost.queues[NAME] = QUEUE
        self._dice = dice
        self._sites: dict[int, Site] = {}

    async def travel(self) -> None:
        await asyncio.sleep(self._dice.choice((0.0, 0.0, 0.002, 0.02)))

    def is_open(self, one: int, other: int) -> bool:
        return self.group.is_open(one, other) and self.group.is_open(other, one)

    def site(self, number: int) -> Site | None:
        """The node, if it is up."""
        node = self.group.nodes[number]
        if node is None:
            return None
        found = self._sites.get(number)
        if found is None or found.node is not node:
            found = self._sites[number] = Site(node, self)
        return found

    def sites(self) -> list[Site]:
        found = [self.site(number) for number in sorted(self.group.nodes)]
        return [each for each in found if each is not None]

    def confirmed(self) -> set[bytes]:
        """Bodies of messages that are to be there."""
        return self._bodies(lambda each: each.confirmed and not each.accepted)

    def settled(self) -> set[bytes]:
        return self._bodies(lambda each: each.settled and each.accepted)

    def accepted(self) -> set[bytes]:
        return self._bodies(lambda each: each.accepted)

    def numbers(self) -> dict[bytes, int]:
        """Of messages that consumers have seen."""
        return {body: each.seq for body, each in self._letters() if each.seq}

    def _bodies(self, are: Callable[[Published], bool]) -> set[bytes]:
        return {body for body, each in self._letters() if are(each)}

    def _letters(self) -> Iterator[tuple[bytes, Published]]:
        for each in self.group.books.letters.values():
            yield body_of(each.payload), each


def body_of(message: bytes) -> bytes:
    return body_bytes(message, 0, len(message))


class Asking(Protocol):
    """A world with standbys of the cluster; `breaks`: questions and answers may be lost."""

    @property
    def primary(self) -> ClusterPrimary: ...

    @property
    def random(self) -> Random: ...

    @property
    def breaks(self) -> bool: ...

    def pass_begins(self) -> None: ...


class Link:
    """Keeps the methods of `PrimaryClient`: each question goes to a node that is up, and may be
    late or lost, as may its answer."""

    shown = "http://primary"

    def __init__(self, world: Asking) -> None:
        self._world = world

    async def definitions(self, known: bytes) -> tuple[bytes, dict[str, Any] | None]:
        digest = b"1"
        await self._asked(nothing)
        return digest, None if known == digest else {}

    async def state(self, known: dict[str, bytes]) -> list[Any]:
        self._world.pass_begins()
        vhost = self._world.primary.vhost
        return list(await self._asked(lambda site: site.feed.state(vhost, known)))

    async def messages(self, uid: int, runs: list[tuple[int, int]]) -> list[StoredRun]:
        rows = await self._asked(lambda site: site.feed.messages(QUEUE, runs))
        return [StoredRun(*each) for each in rows]

    async def digests(self, uid: int, runs: list[tuple[int, int]]) -> dict[int, bytes]:
        return dict(await self._asked(lambda site: site.feed.digests(QUEUE, runs)))

    async def close(self) -> None:
        return

    async def _asked(self, ask: Callable[[Site], Awaitable[Any]]) -> Any:
        sites = self._world.primary.sites()
        if not sites:
            raise PrimaryFailed("all nodes are down")
        site = self._world.random.choice(sites)
        await self._travel()
        answer = asyncio.ensure_future(ask(site))
        while not answer.done():
            await asyncio.wait([answer], timeout=STEP_S)
            if not site.node.is_alive():
                answer.cancel()
                raise PrimaryFailed("the node went down")
        try:
            found = answer.result()
        except FeedFailed as error:
            raise PrimaryFailed(str(error)) from error
        await self._travel()
        return found

    async def _travel(self) -> None:
        await self._world.primary.travel()
        if self._world.breaks and self._world.random.random() < 0.03:
            raise PrimaryFailed("the link is broken")


async def nothing(site: Site) -> None:
    """The link carries the question and its answer."""
