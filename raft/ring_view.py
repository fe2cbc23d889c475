"""The members of a mirror ring, numbered so that later views exclude earlier ones. Compiled.

The definitions group decides views, one after the other; `raft.ring` acts in the newest one that it
knows. Each `epoch` is higher than the one before. `term` is the epoch in which the present leader
was appointed: it stays while mirrors come and go, so entries of one term have one leader.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final, final

from mypy_extensions import i64

from raft.messages import Message

EARLY_MAX: Final = 16  # messages of a view that this member does not know yet


@final
class RingView:
    """`members`: the leader first, then its right neighbours in order. `joined`: per member, the
    epoch in which it joined with an empty log. `synchronised`: members that have all entries.
    `partial`: members that have all entries since some point; others have none so far. A leader is
    both in the view in which it was promoted without being synchronised, and in those that follow
    it while it leads."""

    __slots__ = ("epoch", "joined", "members", "partial", "synchronised", "term")

    def __init__(
        self,
        epoch: i64,
        term: i64,
        members: Sequence[int],
        joined: Sequence[int],
        synchronised: Sequence[int],
        partial: Sequence[int] = (),
    ) -> None:
        assert 0 < term <= epoch
        assert len(members) > 0 and len(members) == len(joined)
        assert set(synchronised) <= set(members) and set(partial) <= set(members)
        self.epoch: i64 = epoch
        self.term: i64 = term
        self.members: tuple[int, ...] = tuple(members)
        self.joined: tuple[int, ...] = tuple(joined)
        self.synchronised: tuple[int, ...] = tuple(synchronised)
        self.partial: tuple[int, ...] = tuple(partial)

    @property
    def leader(self) -> int:
        return self.members[0]

    @property
    def last(self) -> int:
        """The member whose right neighbour is the leader."""
        return self.members[-1]

    def joined_in(self, member: int) -> int:
        """The epoch in which it joined; 0: it is no member."""
        if member not in self.members:
            return 0
        return self.joined[self.members.index(member)]

    def left_of(self, member: int) -> int:
        """Its left neighbour; 0: it leads, or is no member."""
        if member not in self.members or member == self.members[0]:
            return 0
        return self.members[self.members.index(member) - 1]

    def right_of(self, member: int) -> int:
        """The neighbour to which it forwards entries; 0: it is the last, or no member."""
        if member not in self.members or member == self.members[-1]:
            return 0
        return self.members[self.members.index(member) + 1]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RingView) and self.fields() == other.fields()

    def __hash__(self) -> int:
        return hash(self.fields())

    def __repr__(self) -> str:
        return f"RingView{self.fields()}"

    def fields(self) -> tuple[int, int, tuple[tuple[int, ...], ...]]:
        lists = (self.members, self.joined, self.synchronised, self.partial)
        return int(self.epoch), int(self.term), lists

    # The view that follows

    def without(self, member: int, epoch: i64) -> "RingView":
        """A mirror leaves; the leader stays."""
        assert member != self.members[0]
        return self._of([m for m in self.members if m != member], epoch, self.term)

    def with_mirror(self, member: int, epoch: i64) -> "RingView":
        """A mirror joins, empty, as the last: nothing is forwarded by a member that lacks it."""
        assert member not in self.members
        return RingView(
            epoch,
            self.term,
            (*self.members, member),
            (*self.joined, epoch),
            self.synchronised,
            self.partial,
        )

    def with_partial(self, member: int, epoch: i64) -> "RingView":
        """A mirror takes part: it has all entries from now on.

        The leader has heard of it in a view with it, and confirms nothing without it any more.
        """
        assert member in self.members and member not in self.synchronised
        return RingView(
            epoch,
            self.term,
            self.members,
            self.joined,
            self.synchronised,
            (*self.partial, member),
        )

    def with_synchronised(self, member: int, epoch: i64) -> "RingView":
        """A mirror has all entries."""
        assert member in self.members and member not in self.synchronised
        partial = [m for m in self.partial if m != member]
        synchronised = (*self.synchronised, member)
        return RingView(epoch, self.term, self.members, self.joined, synchronised, partial)

    def led_by(self, leader: int, gone: Sequence[int], epoch: i64) -> "RingView":
        """Another member leads, or the same one after a restart; `gone` leave.

        A leader that is not synchronised lacks entries that others may have: those join again,
        empty, so that all have the same.
        """
        assert leader in self.members and leader not in gone
        others = [m for m in self.members if m != leader and m not in gone]
        members = [leader, *others]
        if leader in self.synchronised:
            return self._of(members, epoch, epoch)
        joined = [self.joined_in(leader)] + [int(epoch)] * len(others)
        return RingView(epoch, epoch, members, joined, (leader,), (leader,))

    def _of(self, members: list[int], epoch: i64, term: i64) -> "RingView":
        joined = [self.joined_in(member) for member in members]
        synchronised = [member for member in self.synchronised if member in members]
        partial = [
            m for m in self.partial if m in members and (m not in synchronised or m == members[0])
        ]
        return RingView(epoch, term, members, joined, synchronised, partial)


@final
class Heard:
    """What a leader has heard in one view from members that are not synchronised by it."""

    __slots__ = ("_partial", "_whole")

    def __init__(self) -> None:
        self._partial: set[int] = set()  # they take part
        self._whole: set[int] = set()  # they have everything

    def note(self, view: RingView, sender: i64, is_hollow: bool, is_whole: bool) -> None:
        if sender in view.synchronised or sender not in view.members:
            return
        if is_hollow:
            self._partial.add(sender)
        elif is_whole:
            self._whole.add(sender)

    def next_partial(self, view: RingView | None) -> int:
        """A member to be declared partial; 0: none."""
        for member in self._partial:
            if view is not None and member not in view.partial:
                return member
        return 0

    def next_synchronised(self) -> int:
        """A member to be declared synchronised; 0: none."""
        for member in self._whole:
            return member
        return 0


def successor(view: RingView, gone: Sequence[int], promotes_always: bool) -> int:
    """The member that leads when the leader is among `gone`: the oldest synchronised one; with
    `promotes_always` the oldest of those that have some entries, if none is synchronised. 0: none
    may."""
    there = [member for member in view.members if member not in gone]
    for member in there:
        if member in view.synchronised:
            return member
    for member in there:
        if promotes_always and member in view.partial:
            return member
    return 0


@final
class Early:
    """Messages of members that know a newer view already: the definitions reach one node before
    the other. To drop them would stop the ring until they are sent again."""

    __slots__ = ("_messages",)

    def __init__(self) -> None:
        self._messages: deque[tuple[int, Message]] = deque()

    def keep(self, sender: i64, message: Message, epoch: i64) -> None:
        """Keep the message if its epoch is above this one."""
        if message.term <= epoch:
            return
        self._messages.append((int(sender), message))
        if len(self._messages) > EARLY_MAX:
            self._messages.popleft()

    def take(self, epoch: i64) -> list[tuple[int, Message]]:
        """Those of the epoch; older ones are forgotten."""
        found: list[tuple[int, Message]] = []
        later: deque[tuple[int, Message]] = deque()
        for sender, message in self._messages:
            if message.term == epoch:
                found.append((sender, message))
            elif message.term > epoch:
                later.append((sender, message))
        self._messages = later
        return found
