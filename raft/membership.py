"""Who the members are, as entries of the log say it, how that may be changed, and majorities.
Compiled.

A configuration counts as soon as it is in the log, committed or not, and counts no more when the
log is cut back. One change at a time, of one voter at most: any majority of the one configuration
then meets any majority of the other (dissertation, 4.1).
"""

import struct
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Final, final

from mypy_extensions import i64

from raft.entries import Config

CONFIG_VERSION: Final = 1
MEMBERS_MAX: Final = 255
_HEAD: Final = struct.Struct("<BBBB")
MEMBER_MAX: Final = (1 << 63) - 1


@final
class AddLearner:
    """A member that gets the log and decides nothing."""

    __slots__ = ("member",)

    def __init__(self, member: i64) -> None:
        self.member: i64 = member


@final
class AddVoter:
    """A learner that the leader makes a voter as soon as it has caught up; or one that is there."""

    __slots__ = ("member",)

    def __init__(self, member: i64) -> None:
        self.member: i64 = member


@final
class RemoveMember:
    """Voter or learner; the leader itself leads until that is committed."""

    __slots__ = ("member",)

    def __init__(self, member: i64) -> None:
        self.member: i64 = member


Change = AddLearner | AddVoter | RemoveMember


@final
class Refused:
    """Nothing was done."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __repr__(self) -> str:
        return f"Refused({self.reason!r})"


def changed(config: Config, change: Change) -> Config | Refused:
    """The configuration after one change."""
    member = change.member
    if not 0 < member <= MEMBER_MAX:
        return Refused("no such member id")
    if isinstance(change, RemoveMember):
        return _without(config, member)
    if member in config.voters:
        return Refused("is a voter already")
    joining = isinstance(change, AddVoter)
    if member in config.learners:
        if not joining or member in config.joining:
            return Refused("is a learner already")
        return Config(config.voters, config.learners, (*config.joining, member))
    if len(config.members()) == MEMBERS_MAX:
        return Refused("too many members")
    learners = (*config.learners, member)
    return Config(config.voters, learners, (*config.joining, member) if joining else config.joining)


def _without(config: Config, member: int) -> Config | Refused:
    if member not in config.voters and member not in config.learners:
        return Refused("is no member")
    voters = [other for other in config.voters if other != member]
    if not voters:
        return Refused("is the last voter")
    return Config(voters, _others(config.learners, member), _others(config.joining, member))


def promoted(config: Config, member: int) -> Config:
    """A learner as voter."""
    assert member in config.learners
    learners = _others(config.learners, member)
    return Config((*config.voters, member), learners, _others(config.joining, member))


def _others(members: Sequence[int], member: int) -> list[int]:
    return [other for other in members if other != member]


@final
class Configs:
    """Configurations of the log with the index of their entries; the newest one counts."""

    __slots__ = ("_configs", "_indexes", "current", "index")

    def __init__(self, index: i64, config: Config) -> None:
        """`config` as of `index`."""
        self._indexes: list[int] = [index]
        self._configs: list[Config] = [config]
        self.current = config
        self.index: i64 = index

    def add(self, index: i64, config: Config) -> None:
        assert index > self.index
        self._indexes.append(index)
        self._configs.append(config)
        self._take_last()

    def truncate(self, index: i64) -> bool:
        """The log was cut back, from `index` on; whether another configuration counts now."""
        count = len(self._indexes)
        while self._indexes[-1] >= index:
            self._indexes.pop()
            self._configs.pop()
        self._take_last()
        return len(self._indexes) != count

    def release(self, index: i64) -> None:
        """No peer needs entries before `index` any more."""
        while len(self._indexes) > 1 and self._indexes[1] <= index:
            del self._indexes[0]
            del self._configs[0]

    def at(self, index: i64) -> Config:
        """The one that counted at `index`."""
        place = len(self._indexes) - 1
        while place > 0 and self._indexes[place] > index:
            place -= 1
        return self._configs[place]

    def _take_last(self) -> None:
        self.index = self._indexes[-1]
        self.current = self._configs[-1]


def encode_config(config: Config) -> bytes:
    """Version, numbers of voters, learners and joining ones (a byte each), then their ids (u64)."""
    head = _HEAD.pack(CONFIG_VERSION, len(config.voters), len(config.learners), len(config.joining))
    ids = (*config.voters, *config.learners, *config.joining)
    return head + struct.pack(f"<{len(ids)}Q", *ids)


def decode_config(data: bytes | memoryview) -> Config:
    """ValueError for anything that `encode_config` does not give."""
    if len(data) < _HEAD.size:
        raise ValueError("a configuration ends too early")
    version, voter_count, learner_count, joining_count = _HEAD.unpack_from(data)
    if version != CONFIG_VERSION:
        raise ValueError(f"a configuration of version {version}")
    count = voter_count + learner_count + joining_count
    if len(data) != _HEAD.size + 8 * count:
        raise ValueError("a configuration of a wrong length")
    ids = struct.unpack_from(f"<{count}Q", data, _HEAD.size)
    voters = ids[:voter_count]
    learners = ids[voter_count : voter_count + learner_count]
    joining = ids[voter_count + learner_count :]
    for group in (voters, learners, joining):
        if any(low >= high for low, high in pairwise(group)):
            raise ValueError("members of a configuration that do not ascend")
        if group and not 0 < group[0] <= group[-1] <= MEMBER_MAX:
            raise ValueError("a member id out of range")
    if set(voters) & set(learners) or not set(joining) <= set(learners):
        raise ValueError("a member of a configuration stands twice")
    return Config(voters, learners, joining)


def next_change(config: Config, wanted: Sequence[int], own: i64) -> Change | None:
    """Return the next step towards the members that are wanted.

    New members join first and become voters by themselves; only then do others leave, the leader
    last, by a transfer. A member that is no longer wanted before it has caught up is removed at
    once: its node may have no member, and the group would wait for it for ever.
    """
    for member in config.joining:
        if member not in wanted:
            return RemoveMember(member)
    for member in wanted:
        if member not in config.voters and member not in config.joining:
            return AddVoter(member)
    if len(config.joining) > 0:
        return None
    for member in config.members():
        if member not in wanted and member != own:
            return RemoveMember(member)
    return None


def agreed(values: list[int]) -> int:
    """The highest value that a majority has reached; one value for each voter. Sorts the list."""
    if not values:
        return 0
    values.sort()
    return values[(len(values) - 1) // 2]


def is_majority(members: Collection[int], voters: Sequence[int]) -> bool:
    """Whether more than half of the voters are among `members`; others do not count."""
    count = 0
    for voter in voters:
        if voter in members:
            count += 1
    return count * 2 > len(voters)
