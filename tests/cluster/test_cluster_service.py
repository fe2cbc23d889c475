"""Members in one process, on real sockets and real files: what links and definitions tell them."""

import asyncio
import errno
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

import pytest

from node.cluster import cluster_node as service
from node.cluster.cluster_interfaces import OTHER_LANE, STATUS
from node.cluster.cluster_node import Cluster
from node.cluster.membership.membership_file import EnteringFailed
from node.config.settings import load
from node.turn import Turn
from queues.definitions.members import Member
from tests.cluster.peer_nodes import LOOPBACK, free_port, run
from tests.sim.storage.sim_disk import SimDisk
from tests.unit.node.fake_definitions import FakeDefinitions
from tests.unit.queues.fake_node import FakeNode
from tests.unit.raft.host_world import FakeLog
from warren.wire.peer.codes import CONTROL_LANE, RAFT, PeerFault

SECRET: Final = b"the secret of these members"
CLUSTER: Final = 0xC0FFEE
UNKNOWN_KIND: Final = 200


class Part:
    """Keeps `PeerChannel`: remembers what it receives, and refuses what begins with `bad`."""

    def __init__(self) -> None:
        self.story: list[str] = []

    def peer_connected(self, member: int) -> None:
        self.story.append(f"connected {member}")

    def peer_lost(self, member: int) -> None:
        self.story.append(f"lost {member}")

    def peer_removed(self, member: int) -> None:
        self.story.append(f"removed {member}")

    def peer_received(self, member: int, payload: memoryview) -> None:
        if bytes(payload).startswith(b"bad"):
            raise PeerFault("the part does not know this")
        self.story.append(f"{member} says {bytes(payload).decode()}")


class FakeSyncs:
    """Keeps `Syncs`: of a log that syncs nothing."""

    sync_counts = (0,)
    sync_begun_s = 0.0


class OneNode:
    """A member without queues."""

    def __init__(
        self,
        folder: Path,
        ports: list[int],
        number: int,
        seeds: str = "",
        disk: SimDisk | None = None,
    ) -> None:
        self.disk = disk or SimDisk()
        directory = folder / f"n{number}"
        directory.mkdir(exist_ok=True)
        address = f"{LOOPBACK}:{ports[number - 1]}"
        every = ",".join(f"{LOOPBACK}:{port}" for port in ports)
        config = load(
            sets=[
                f"node.name=n{number}", f"node.data_dir={directory}",
                f"listeners.cluster={address}", f"cluster.seeds={seeds or every}",
                f"cluster.secret_file={folder}/secret",
            ]
        )  # fmt: skip
        self.cluster = Cluster(config, SECRET, self.disk)
        self.part = Part()
        self.fatal: list[str] = []
        self.cluster.on_fatal = self.fatal.append
        loop = asyncio.get_running_loop()
        self.turn = Turn(loop.call_soon, self._failed)
        self.turn.journal = FakeNode().journal
        self.turn.now_ms = lambda: 1000
        self.definitions: FakeDefinitions

    def _failed(self, error: Exception) -> None:
        raise error

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.cluster.close()

    def begin(self, *rows: Member) -> None:
        self.definitions = FakeDefinitions(CLUSTER, *rows)
        self.cluster.equip(FakeLog(), FakeSyncs(), self.turn)
        self.cluster.attach(STATUS, self.part)
        self.cluster.begin(self.definitions)

    def row(self, member: int) -> Member:
        held = self.cluster.held
        return Member(member, held.name, held.incarnation, LOOPBACK, self.port)

    @property
    def port(self) -> int:
        _, _, port = self.cluster.held.founders[self.cluster.member - 1].rpartition(":")
        return int(port)

    async def until(self, reached: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not reached():
                await asyncio.sleep(0.005)


async def pair(folder: Path) -> tuple[OneNode, OneNode]:
    """Two that have founded a cluster and are linked."""
    ports = sorted(free_port() for _ in range(2))
    one, two = OneNode(folder, ports, 1), OneNode(folder, ports, 2)
    await asyncio.gather(one.cluster.enter(), two.cluster.enter())
    rows = one.row(1), two.row(2)
    one.begin(*rows)
    two.begin(*rows)
    await one.until(lambda: one.part.story == ["connected 2"])
    await two.until(lambda: two.part.story == ["connected 1"])
    return one, two


def test_two_members_hear_each_other_and_their_definitions_have_time(tmp_path: Path) -> None:
    async def test() -> None:
        one, two = await pair(tmp_path)
        async with one, two:
            assert (one.cluster.members(), two.cluster.member) == ([1, 2], 2)
            assert one.cluster.is_trusted(2)
            assert one.cluster.is_trusted(1)
            assert not one.cluster.is_full(2)
            one.cluster.send(2, STATUS, OTHER_LANE, [b"good", b" day"])
            await two.until(lambda: two.part.story[1:] == ["1 says good day"])
            await one.until(lambda: one.definitions.ticked_ms > 0 and one.cluster.is_current)

    run(test())


@pytest.mark.parametrize(
    ("kind", "lane", "content"),
    [
        (UNKNOWN_KIND, OTHER_LANE, b"what is this"),
        (STATUS, OTHER_LANE, b"bad"),
        (RAFT, CONTROL_LANE, b"no envelope"),
    ],
)
def test_a_frame_that_makes_no_sense_ends_the_link(
    tmp_path: Path, kind: int, lane: int, content: bytes
) -> None:
    async def test() -> None:
        one, two = await pair(tmp_path)
        async with one, two:
            one.cluster.send(2, kind, lane, [content])
            await two.until(lambda: "lost 1" in two.part.story)
            await one.until(lambda: one.part.story.count("connected 2") == 2)  # And it is back.
            assert one.fatal == two.fatal == []

    run(test())


def test_members_that_come_and_go_are_followed_and_kept_for_the_next_start(tmp_path: Path) -> None:
    async def test() -> None:
        one, two = await pair(tmp_path)
        async with one, two:
            third = Member(3, "n3", 33, LOOPBACK, free_port())
            one.definitions.change(None, third)
            assert one.cluster.members() == [1, 2, 3]
            await one.until(lambda: len(one.cluster.held.peers) == 2)
            held = one.cluster.held
            assert (held.cluster_id, held.given_below) == (CLUSTER, 4)
            assert (held.peers[1].member, held.peers[1].incarnation) == (3, 33)
            one.definitions.change(two.row(2), None)
            assert one.part.story[1:] == ["lost 2", "removed 2"]
            await one.until(lambda: [each.member for each in one.cluster.held.peers] == [3])
            two.definitions.change(one.row(1), None)
            assert two.fatal == []
            await two.until(lambda: two.cluster.members() == [2])

    run(test())


def test_members_are_kept_as_soon_as_the_disk_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(service, "SAVE_PAUSE_S", 0.01)

    async def test() -> None:
        one, two = await pair(tmp_path)
        async with one, two:
            one.disk.failures["create"] = OSError(errno.ENOSPC, "no space left on device")
            one.definitions.change(None, Member(3, "n3", 33, LOOPBACK, free_port()))
            await one.until(lambda: "cannot be kept" in caplog.text)
            assert len(one.cluster.held.peers) == 1
            del one.disk.failures["create"]
            await one.until(lambda: len(one.cluster.held.peers) == 2)

    run(test())


def test_a_member_that_is_removed_stops(tmp_path: Path) -> None:
    async def test() -> None:
        one, two = await pair(tmp_path)
        async with one, two:
            one.definitions.change(one.row(1), None)
            assert one.fatal == ["this node was removed from the cluster"]

    run(test())


def test_one_that_was_removed_while_it_was_away_hears_of_it(tmp_path: Path) -> None:
    async def test() -> None:
        one, two = await pair(tmp_path)
        async with one, two:
            await one.until(lambda: one.cluster.is_current)
            one.definitions.change(two.row(2), None)
            await two.until(lambda: two.fatal != [])
            assert two.fatal[0].startswith("this node was removed from the cluster")

    run(test())


def test_definitions_of_another_cluster_are_not_followed(tmp_path: Path) -> None:
    async def test() -> None:
        one, two = await pair(tmp_path)
        async with one, two:
            one.definitions.change(one.row(1), one.row(1))
            await one.until(lambda: one.cluster.held.cluster_id == CLUSTER)
            one.definitions.cluster_id = CLUSTER + 1
            one.definitions.change(one.row(1), one.row(1))
            await one.until(lambda: one.fatal != [])
            assert "belongs to cluster" in one.fatal[0]

    run(test())


def test_a_member_that_starts_again_needs_no_seeds_that_answer(tmp_path: Path) -> None:
    async def test() -> None:
        one, two = await pair(tmp_path)
        ports = [one.port, two.port]
        async with one, two:
            one.definitions.change(one.row(1), one.row(1))  # The file has the cluster's number.
            await one.until(lambda: one.cluster.held.cluster_id == CLUSTER)
            incarnation = one.cluster.incarnation
        again = OneNode(tmp_path, ports, 1, f"{LOOPBACK}:1", one.disk)
        async with again:
            await again.cluster.enter()
            assert (again.cluster.member, again.cluster.incarnation) == (1, incarnation)
            assert again.cluster.members() == [1, 2]
            assert again.cluster.founding().voters == (1, 2)

    run(test())


def test_a_member_that_is_being_founded_keeps_to_its_list(tmp_path: Path) -> None:
    async def test() -> None:
        one, two = await pair(tmp_path)
        ports = [one.port, two.port]
        async with one, two:
            assert one.cluster.held.cluster_id == 0
        again = OneNode(tmp_path, ports, 1, f"{LOOPBACK}:{ports[0]}", one.disk)
        async with again:
            with pytest.raises(EnteringFailed, match="another list"):
                await again.cluster.enter()

    run(test())
