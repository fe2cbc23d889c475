"""A node that is in no cluster, as the operators' part of a cluster sees it: one member, itself.

Keeps the same seams as the real ones, so that whoever asks a lone node for its members, has it
drained, or has a queue grow gets the answers of a cluster of one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from msgspec.structs import replace

from node.cluster.seams import PeerPart
from queues.members import Member
from queues.metadata_commands import Command, PutMember
from queues.metadata_outcomes import Created, Outcome

HERE: Final = 1  # its member id


class Proposer(Protocol):
    """Who has definitions changed."""

    def propose(self, command: Command, done: Callable[[Outcome], None] | None = None) -> None: ...


class AlonePeers:
    """Keeps `node.cluster.seams.Peers`: there are none."""

    @property
    def member(self) -> int:
        return HERE

    def attach(self, kind: int, part: PeerPart) -> None:
        """No frame ever comes."""

    def send(self, member: int, kind: int, lane: int, parts: list[bytes]) -> bool:
        """There is nobody to send to."""
        return False

    def is_connected(self, member: int) -> bool:
        return False

    def is_full(self, member: int) -> bool:
        return False

    def is_trusted(self, member: int) -> bool:
        return member == HERE

    def members(self) -> list[int]:
        return [HERE]


class AloneLeaders:
    """It leads all that there is, in one term for ever."""

    def leader_of(self, uid: int) -> tuple[int, int] | None:
        return (HERE, 1)


@dataclass
class AloneMembership:
    """The one member. That it is drained is forgotten when the process ends."""

    broker: Proposer
    member: Member

    @property
    def is_leader(self) -> bool:
        return True

    @property
    def leader(self) -> int:
        return HERE

    def members(self) -> list[Member]:
        return [self.member]

    def propose(self, command: Command, done: Callable[[Outcome], None] | None = None) -> None:
        """What is said of the member stays here; all else is for the definitions."""
        if not isinstance(command, PutMember):
            self.broker.propose(command, done)
            return
        self.member = replace(self.member, draining=command.member.draining)
        if done is not None:
            done(Created(self.member, ()))
