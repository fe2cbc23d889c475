"""Log groups of this node as operators see them: how a member stands, and who is to lead.

`RaftGroups` reads the groups of this node, on the loop; nothing here waits.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Struct, field

from queues.streams.member import StreamMember
from raft.status import LEADER, ROLE_NAMES

if TYPE_CHECKING:
    from raft.group import Group
    from raft.host import RaftHost

VOTER: Final = "voter"
LEARNER: Final = "promotable"  # RabbitMQ's words
NON_VOTER: Final = "non_voter"
STREAM: Final = (
    *("first_offset", "next_offset", "readers", "segments", "segments_offloaded"),
    *("bytes", "bytes_offloaded", "offload_error"),
)


class GroupRow(Struct, frozen=True, kw_only=True):
    """One member of one group, on its own node."""

    state: str  # leader, follower, candidate, ...
    membership: str = VOTER
    term: int = 0
    last_index: int = 0
    durable_index: int = 0
    applied_index: int = 0
    commit_index: int = 0
    snapshot_index: int = 0
    leader: int = 0
    voters: tuple[int, ...] = ()
    learners: tuple[int, ...] = ()
    is_config_committed: bool = True
    lags: Mapping[int, int] = field(default_factory=dict)  # by other member, of a leader: entries
    stream: Mapping[str, int | str] = field(default_factory=dict)  # of a stream: see `stream_part`

    @property
    def is_leader(self) -> bool:
        return self.state == ROLE_NAMES[LEADER]


class Groups(Protocol):
    """The groups of this node."""

    def row(self, uid: int) -> GroupRow | None:
        """None: this node has no member of that group."""

    def transfer(self, uid: int, member: int) -> bool:
        """Have that member lead; False: it cannot be tried, or this node does not lead."""


class RaftGroups:
    """Keeps `Groups`."""

    def __init__(self, raft: "RaftHost") -> None:
        self._raft = raft

    def row(self, uid: int) -> GroupRow | None:
        group = self._raft.group(uid)
        return None if group is None else row_of(group)

    def transfer(self, uid: int, member: int) -> bool:
        group = self._raft.group(uid)
        return group is not None and group.is_leader and group.transfer(member)


def row_of(group: "Group") -> GroupRow:
    status = group.status().raft
    config = status.config
    membership = VOTER
    if status.member not in config.voters:
        membership = LEARNER if status.member in config.joining else NON_VOTER
    return GroupRow(
        state=status.role,
        membership=membership,
        term=int(status.term),
        last_index=int(status.last_index),
        durable_index=int(status.durable_index),
        applied_index=int(status.applied_index),
        commit_index=int(status.commit_index),
        snapshot_index=int(status.snapshot_index),
        leader=int(status.leader),
        voters=tuple(int(each) for each in config.voters),
        learners=tuple(int(each) for each in config.learners),
        is_config_committed=status.config_index <= status.commit_index,
        lags={each.member: status.last_index - each.match_index for each in status.members},
        stream=stream_part(group.owner) if isinstance(group.owner, StreamMember) else {},
    )


def stream_part(member: StreamMember) -> dict[str, int | str]:
    """What the member has on its disk and in the object store, and how many read it there."""
    return {
        "first_offset": member.first_offset,
        "next_offset": member.next_offset,
        "readers": member.consumer_count,
        "segments": len(member.log.segments),
        "segments_offloaded": len(member.log.offloaded),
        "bytes": member.log.local_byte_count,
        "bytes_offloaded": member.log.offloaded_byte_count,
        "offload_error": member.offloader.status.fault,
    }


def plain_row(row: GroupRow) -> dict[str, object]:
    """The part of a row that is sent to other nodes."""
    return {
        "state": row.state,
        "membership": row.membership,
        "term": row.term,
        "last_index": row.last_index,
        "durable_index": row.durable_index,
        "applied_index": row.applied_index,
        "commit_index": row.commit_index,
        "snapshot_index": row.snapshot_index,
        **row.stream,
    }


def status_row(node: str, state: str, told: Mapping[str, object]) -> dict[str, object]:
    """A member as `quorum_status` shows it, under RabbitMQ's names; `state` where nothing was
    told."""
    streams = {
        f"Stream {key.replace('_', ' ').title()}": told[key] for key in STREAM if key in told
    }
    return {
        "Node Name": node,
        "Raft State": told.get("state", state),
        "Membership": told.get("membership", ""),
        "Last Log Index": told.get("last_index", ""),
        "Last Written": told.get("durable_index", ""),
        "Last Applied": told.get("applied_index", ""),
        "Commit Index": told.get("commit_index", ""),
        "Snapshot Index": told.get("snapshot_index", ""),
        "Term": told.get("term", ""),
        "Machine Version": 0 if told else "",
        **streams,
    }
