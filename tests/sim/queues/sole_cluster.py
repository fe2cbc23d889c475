"""The cluster of a simulated node that has no sockets: itself.

Has what `ClusterParts` asks of `node.cluster.cluster_node.Cluster`.
"""

from random import Random
from typing import Final

from node.cluster.cluster_interfaces import PeerChannel
from node.cluster.peering.peer_record import PeerStatus
from node.turn import Turn
from queues.definitions.members import Member
from queues.definitions.metadata.commands import Found
from raft.entries import Config
from raft.host import RaftHost, host_settings
from raft.log_group import GroupLog

HERE: Final = 1


class NoLinks:
    """There is no other node."""

    def send(self, member: int, lane: int, parts: list[bytes]) -> None:
        raise AssertionError(f"a message to member {member}")

    def is_full(self, member: int) -> bool:
        return False

    def status(self, member: int) -> PeerStatus | None:
        return None


class SoleCluster:
    """See the module."""

    def __init__(self, name: str, wal: GroupLog, turn: Turn, random: Random) -> None:
        self.member = HERE
        self.links = NoLinks()
        lots = Random(random.getrandbits(64))
        self.raft = RaftHost(HERE, wal, self.links, host_settings(), lots, turn.begin_groups)
        turn.groups = self.raft
        self._me = Member(HERE, name, 1, "", 0)

    def attach(self, kind: int, part: PeerChannel) -> None:
        """No frame ever comes."""

    def send(self, member: int, kind: int, lane: int, parts: list[bytes]) -> bool:
        raise AssertionError(f"a frame to member {member}")

    def is_full(self, member: int) -> bool:
        return False

    def is_connected(self, member: int) -> bool:
        return False

    def is_trusted(self, member: int) -> bool:
        return member == HERE

    def members(self) -> list[int]:
        return [HERE]

    def founding(self) -> Config:
        return Config((HERE,))

    def found(self) -> Found:
        return Found(1, (self._me,))

    def begin(self, definitions: object) -> None:
        """No links, and the time is that of the simulation."""
