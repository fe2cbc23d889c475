"""Which node leads which log group, as every node tells all the others. No I/O.

The owner of a group says `lead` when this node leads it and is ready, and `unlead` when it does no
longer. The others hear of it at the end of that turn, or when a link to them comes up: then all of
it, in frames of at most ROWS_MAX rows. What the control connection had no room for is sent again,
as it is by then, with `tick`. What a node has said holds while its link stands: whom
no node can reach leads nothing for us. Of two that say they lead a group the one with the higher
term does, and no term that is lower than one heard of counts again.

A classic queue has one home, which leads it in term 0 as long as it can be reached.

Frames of kind LEADERS on the control lane, little-endian:

    kind u8: 1 all that was said before is void, 2 goes on; then rows of
    uid u64 of the group, term u64: leads it; 0: does no longer
"""

from collections.abc import Callable
from itertools import islice
from struct import Struct
from typing import Final

from node.cluster.cluster_interfaces import CONTROL_LANE, LEADERS, Peers
from queues.remote.remote_interfaces import EndOfTurn
from warren.wire.peer.codes import PeerFault

BEGIN: Final = b"\x01"
GO_ON: Final = b"\x02"
ROW: Final = Struct("<QQ")
ROWS_MAX: Final = 4096  # in one frame
NO_MEMBER: Final = 0  # no member has this id
HOME_TERM: Final = 0

Leader = tuple[int, int]  # member, term
Told = Callable[[Leader | None], None]
HomeOf = Callable[[int], int | None]  # of a classic queue by uid: its member; None: no such queue


class Watched:
    """Who wants to hear of one group, and what they heard last."""

    __slots__ = ("last", "told")

    def __init__(self, last: Leader | None) -> None:
        self.last = last
        self.told: list[Told] = []


class Leaders:
    """The part of kind LEADERS (`node.cluster.cluster_interfaces.PeerChannel`).

    Invariant: `_best` has, for each group with a known leader, the highest term heard
    of, and the member that leads in it, or NO_MEMBER. `_untold` has each member that is connected.
    """

    def __init__(self, peers: Peers, turn: EndOfTurn, home_of: HomeOf) -> None:
        self._peers = peers
        self._turn = turn
        self._home_of = home_of
        self._mine: dict[int, int] = {}  # term by uid of the groups that this node leads
        self._said: dict[int, dict[int, int]] = {}  # by other member: the same of it
        self._best: dict[int, Leader] = {}
        self._changes: dict[int, None] = {}  # of this turn: uids
        self._untold: dict[int, dict[int, None]] = {}  # by connected member: uids it has to hear of
        self._begins: set[int] = set()  # members that have not heard yet that all else is void
        self._watched: dict[int, Watched] = {}
        self.on_lead: Callable[[int, int], None] | None = None  # uid, term: this node, newly

    # What this node leads

    def lead(self, uid: int, term: int) -> None:
        """This node leads the group, and is ready to serve it. Others hear of it with the turn."""
        assert term > 0
        before = self._best.get(uid)
        self._mine[uid] = term
        self._change(uid)
        self._claim(self._peers.member, uid, term)
        if self.on_lead is not None and before is not None and before[0] != self._peers.member:
            self.on_lead(uid, term)

    def unlead(self, uid: int) -> None:
        """It does no longer."""
        if self._mine.pop(uid, None) is not None:
            self._change(uid)
            self._unclaim(self._peers.member, uid)

    def forget(self, uid: int) -> None:
        """The queue is deleted."""
        self.unlead(uid)
        for said in self._said.values():
            said.pop(uid, None)
        self._best.pop(uid, None)
        self._tell(uid)

    def expect(self, uid: int, term: int) -> None:
        """The group has restarted in that term: who led it before leads it no more (0054)."""
        if self._best.get(uid, (NO_MEMBER, 0))[1] < term:
            self._best[uid] = (NO_MEMBER, term)
            self._tell(uid)

    def term_of(self, uid: int) -> int:
        """The highest term in which a leader is known."""
        return self._best.get(uid, (NO_MEMBER, 0))[1]

    def led_here(self) -> dict[int, int]:
        """The groups that this node leads: term by uid."""
        return self._mine

    # Questions

    def leader_of(self, uid: int) -> Leader | None:
        """Member and term of who leads the group, or is home of the classic queue; None: none
        that can be reached."""
        best = self._best.get(uid)
        if best is not None and best[0] != NO_MEMBER:
            return best
        home = self._home_of(uid)  # None: the queue has a group.
        if home is None or not self._is_reachable(home):
            return None
        return home, HOME_TERM

    def count_of(self, member: int) -> int:
        """How many groups the node is known to lead."""
        said = self._mine if member == self._peers.member else self._said.get(member, {})
        return len(said)

    def watch(self, uid: int, told: Told) -> None:
        """Call `told` with `leader_of(uid)` whenever that changes, until `unwatch`."""
        watched = self._watched.get(uid)
        if watched is None:
            watched = self._watched[uid] = Watched(self.leader_of(uid))
        watched.told.append(told)

    def unwatch(self, uid: int, told: Told) -> None:
        watched = self._watched.get(uid)
        if watched is not None and told in watched.told:
            watched.told.remove(told)
            if not watched.told:
                del self._watched[uid]

    def _is_reachable(self, member: int) -> bool:
        return member == self._peers.member or self._peers.is_connected(member)

    # From the peers

    def peer_connected(self, member: int) -> None:
        """Tell it everything; it does the same."""
        self._said[member] = {}
        self._untold[member] = dict.fromkeys(self._mine)
        self._begins.add(member)
        self._tell_member(member)
        self._tell_all()

    def peer_lost(self, member: int) -> None:
        self._untold.pop(member, None)
        self._begins.discard(member)
        for uid in list(self._said.pop(member, {})):
            self._unclaim(member, uid)
        self._tell_all()

    def peer_removed(self, member: int) -> None:
        self.peer_lost(member)

    def peer_received(self, member: int, payload: memoryview) -> None:
        """Rows, or what is wrong with them (PeerFault)."""
        kind = bytes(payload[:1])
        if kind not in (BEGIN, GO_ON) or (len(payload) - 1) % ROW.size:
            raise PeerFault("a message about leaders that makes no sense")
        said = self._said.setdefault(member, {})
        if kind == BEGIN:
            for uid in list(said):
                del said[uid]
                self._unclaim(member, uid)
        for uid, term in ROW.iter_unpack(payload[1:]):
            if term:
                said[uid] = term
                self._claim(member, uid, term)
            else:
                said.pop(uid, None)
                self._unclaim(member, uid)

    # What is known

    def _claim(self, member: int, uid: int, term: int) -> None:
        if term >= self._best.get(uid, (NO_MEMBER, 0))[1]:
            self._best[uid] = (member, term)
            self._tell(uid)

    def _unclaim(self, member: int, uid: int) -> None:
        """The node leads that group no longer; it has no leader until a node reports one."""
        best = self._best.get(uid)
        if best is not None and best[0] == member:
            self._best[uid] = (NO_MEMBER, best[1])
            self._tell(uid)

    def _tell(self, uid: int) -> None:
        watched = self._watched.get(uid)
        if watched is None:
            return
        leader = self.leader_of(uid)
        if leader != watched.last:
            watched.last = leader
            for told in list(watched.told):
                told(leader)

    def _tell_all(self) -> None:
        """Links have changed, and with them who is reachable of the homes of classic queues."""
        for uid in list(self._watched):
            self._tell(uid)

    # To the peers

    def _change(self, uid: int) -> None:
        if not self._changes:
            self._turn.mark_away(self)
        self._changes[uid] = None

    def end_turn(self) -> None:
        """Tell the others what has changed in this turn."""
        changes, self._changes = self._changes, {}
        for member, untold in self._untold.items():
            untold.update(changes)
            self._tell_member(member)

    def tick(self) -> None:
        """Now and then: tell what there was no room for."""
        for member in self._untold:
            self._tell_member(member)

    def _tell_member(self, member: int) -> None:
        """As much of what it has to hear as the connection takes."""
        untold = self._untold[member]
        while untold or member in self._begins:
            kind = BEGIN if member in self._begins else GO_ON
            uids = list(islice(untold, ROWS_MAX))
            rows = b"".join(ROW.pack(uid, self._mine.get(uid, 0)) for uid in uids)
            if not self._peers.send(member, LEADERS, CONTROL_LANE, [kind + rows]):
                return
            self._begins.discard(member)
            for uid in uids:
                del untold[uid]
