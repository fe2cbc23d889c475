"""Log groups of quorum queues as a start finds them: from snapshots and the log to their members.

`begin` reads the newest snapshot of each group (its machine, where it stands, and what the node
wrote down when the member was made: `birth`); then the log's recovery tells entries, terms and
votes; `restored` says what a member begins with. A group without a snapshot was left: what the log
has of it has no owner, but for its term, in case that the member is created again. Not compiled.

A group of a queue has another incarnation when it has restarted with one member (0054): the term
of that, which no other member of it can have reached. What the node wrote down when the member was
made (`birth`) is that incarnation, u32, little-endian, or nothing for the first one. Terms ascend
over incarnations, so that what the log has is one log; but a member that joined in a later one has
nothing of those before.

Of a mirror the `birth` is the epoch in which it joined its ring, u32, and 1 if the snapshot is the
empty machine with which it began, u8. Its records have that epoch as incarnation.
"""

from collections.abc import Callable
from struct import Struct
from typing import Final

from queues.definitions.broker_objects import Queue
from queues.hosts.quorum_snapshot import Standing, decode_standing
from raft.entries import Config, HardState, SnapshotPoint
from raft.recovery import FoundLog, Restored

INCARNATION: Final = 1  # of every group of a queue, as it began: a uid is never used again
BIRTH: Final = Struct("<I")
MIRROR_BIRTH: Final = Struct("<IB")


Load = Callable[[int], tuple[bytes, list[bytes]] | None]  # point and slices of the newest snapshot


def incarnation_of(queue: Queue) -> int:
    """Of its group, as far as the definitions know it."""
    return queue.reborn_term or INCARNATION


def birth_of(incarnation: int) -> bytes:
    """What a member of it writes down."""
    return b"" if incarnation == INCARNATION else BIRTH.pack(incarnation)


def born_in(birth: bytes) -> int:
    """The incarnation in which the member was made; of a mirror, the epoch in which it joined."""
    if is_mirror(birth):
        return int(MIRROR_BIRTH.unpack(birth)[0])
    if len(birth) != BIRTH.size:
        return INCARNATION
    (incarnation,) = BIRTH.unpack(birth)
    return int(incarnation)


def mirror_birth(joined: int, is_base: bool) -> bytes:
    """What a mirror writes down. `is_base`: its snapshot is an empty machine."""
    return MIRROR_BIRTH.pack(joined, is_base)


def is_mirror(birth: bytes) -> bool:
    return len(birth) == MIRROR_BIRTH.size


class FoundGroup:
    """One group with a snapshot."""

    def __init__(self, standing: Standing, slices: list[bytes]) -> None:
        self.standing = standing
        self.slices = slices  # of the machine
        self.born = born_in(standing.birth)
        self.incarnation = self.born  # the last that anything here is of
        self.log = FoundLog(INCARNATION)
        birth = standing.birth
        self.is_mirror = is_mirror(birth)
        # Its snapshot is one of the queue, not the empty machine with which a mirror begins.
        self.is_whole = self.is_mirror and standing.point.index > 0 and birth[-1] == 0

    def knows(self, incarnation: int) -> bool:
        """Whether a record of it is this member's, and not of one that was here before."""
        if incarnation < self.born:
            return False
        self.incarnation = max(self.incarnation, incarnation)
        return True

    def restored(self) -> Restored:
        """The end of the records. ValueError: it is no log."""
        return self.log.restored(self.standing.point)

    def has_begun_anew(self, restored: Restored, term: int) -> bool:
        """Whether its log has the entry with which it went on alone in that term."""
        last_term = restored.runs[-1][1] if restored.runs else restored.snapshot.term
        return self.born >= term or last_term >= term


class FoundGroups:
    """See the module."""

    def __init__(self) -> None:
        self.groups: dict[int, FoundGroup] = {}  # by uid
        self._terms: dict[int, int] = {}  # the highest that the log knows, by uid
        self._strays: dict[int, int] = {}  # last entry of groups that were left, by uid

    def begin(self, owners: list[int], load: Load) -> None:
        """Read the snapshots. ValueError: of a version that this node does not know."""
        for owner in owners:
            found = load(owner)
            if found is not None:
                point, slices = found
                self.groups[owner] = FoundGroup(decode_standing(point), slices)

    def raft_entry(
        self,
        owner: int,
        incarnation: int,
        index: int,
        term: int,
        appended_term: int,
        kind: int,
        content: bytes,
    ) -> None:
        """See `RecoverySink`."""
        group = self.groups.get(owner)
        if group is None:
            self._strays[owner] = max(index, self._strays.get(owner, 0))
        elif group.knows(incarnation):
            group.log.add(INCARNATION, index, term, appended_term, kind, content)

    def hard_state(self, owner: int, incarnation: int, term: int, vote: int) -> None:
        """See `RecoverySink`."""
        self._terms[owner] = max(term, self._terms.get(owner, 0))
        group = self.groups.get(owner)
        if group is not None and group.knows(incarnation):
            group.log.add_hard_state(INCARNATION, term, vote)

    def knows(self, owner: int) -> bool:
        """Whether its messages are wanted."""
        return owner in self.groups

    def saved_index(self, owner: int) -> int:
        """See `RecoverySink`."""
        group = self.groups.get(owner)
        return 0 if group is None else int(group.standing.point.index)

    def term_of(self, owner: int) -> int:
        """No member of the group was here in a higher one."""
        return self._terms.get(owner, 0)

    def strays(self) -> dict[int, int]:
        """Groups that were left: the last entry that the log has of each."""
        return self._strays


def beginning(node: int, config: Config, term: int) -> Restored:
    """What a new member begins with: `config` as the group was founded, or an empty one if it joins
    it. `term`: of an earlier member of the group on this node, or 0; in it no vote is given."""
    point = SnapshotPoint(0, 0, term, config)
    return Restored(HardState(term, node if term > 0 else 0), point, 0, [], [])
