"""How things are with a group, as this member sees it: plain values for listings. Compiled."""

from collections.abc import Sequence
from typing import Final, final

from raft.entries import Config
from raft.progress import Progress

FOLLOWER: Final = 0
PRE_CANDIDATE: Final = 1
CANDIDATE: Final = 2
LEADER: Final = 3

ROLE_NAMES: Final = ("follower", "pre-candidate", "candidate", "leader")
STATE_NAMES: Final = ("probe", "stream", "snapshot")


@final
class MemberStatus:
    """What the leader knows of another member."""

    __slots__ = ("is_reachable", "match_index", "member", "next_index", "state")

    def __init__(self, progress: Progress) -> None:
        self.member = int(progress.member)
        self.match_index = int(progress.match_index)
        self.next_index = int(progress.next_index)
        self.state = STATE_NAMES[progress.state]
        self.is_reachable = progress.is_reachable


@final
class Status:
    """`members` are the others, known to the leader only."""

    __slots__ = (
        "applied_index",
        "commit_index",
        "config",
        "config_index",
        "durable_index",
        "last_index",
        "leader",
        "member",
        "members",
        "role",
        "snapshot_index",
        "term",
        "transferee",
        "vote",
    )

    def __init__(
        self,
        member: int,
        role: str,
        term: int,
        vote: int,
        leader: int,
        commit_index: int,
        applied_index: int,
        durable_index: int,
        last_index: int,
        snapshot_index: int,
        config: Config,
        config_index: int,
        transferee: int,
        members: Sequence[MemberStatus],
    ) -> None:
        self.member = member
        self.role = role
        self.term = term
        self.vote = vote
        self.leader = leader
        self.commit_index = commit_index
        self.applied_index = applied_index
        self.durable_index = durable_index
        self.last_index = last_index
        self.snapshot_index = snapshot_index
        self.config = config
        self.config_index = config_index  # of its entry: committed if `commit_index` is there
        self.transferee = transferee
        self.members = members
