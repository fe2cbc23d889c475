"""What an address holds, and how much more it takes. Pure.

The account is not a ledger that must survive: it is measured. `measure` sums what the queues of the
address hold, so the account is right after a restart, a change of leaders, a purge or an expiry.
Between two measurements it adds what was handed to queues since:

- `fresh`: to queues that take messages at the end of this turn, after which it is `charged`;
- `charged`: what a measurement would see; dropped at the next one;
- `pending`: to queues that decide later (quorum queues, queues of other nodes), until they do; then
  it is `charged`, or `settling` until the node that leads the queue says what the queue holds.

These are added to what was measured, so the sum is never too small. It is measured again only when
the sum says that the address is full, once per turn at most: an address with room costs additions.
"""

from collections.abc import Callable, Sequence
from typing import Final, final

from msgspec import Struct

from queues.addresses.limits import BLOCK, DROP, FAIL, PAGE, AddressLimits
from queues.addresses.node_size import UNLIMITED_ROOM, NodeSize
from queues.addresses.share import ROUNDS, Share
from queues.message import Chunk
from warren.wire.buffer import read_i32_le

Measure = Callable[[], tuple[int, int]]  # bytes and messages of all queues of the address
Stamp = Callable[[Chunk], Chunk]  # the same messages, with the time
NO_TURN: Final = -1


@final
class Account:
    """See the module. `number` is unique in the node and positive."""

    def __init__(
        self,
        number: int,
        vhost: str,
        kind: str,
        name: str,
        limits: AddressLimits,
        measure: Measure,
        turn: Callable[[], int],
        leader: Callable[[int], int] = lambda uid: 0,
        node_size: NodeSize | None = None,
        is_full_elsewhere: Callable[[], bool] = lambda: False,
    ) -> None:
        self.number = number
        self.vhost = vhost
        self.kind = kind  # "exchange" or "queue"
        self.name = name
        self.limits = limits
        self._measure = measure
        self._turn = turn
        self.node_size = NodeSize() if node_size is None else node_size
        self._is_full_elsewhere = is_full_elsewhere  # another node with its queues takes no more
        self._leader = leader  # member that leads a queue, by uid; 0: this node
        self.share = Share()
        self.settling: dict[int, list[tuple[int, int, int]]] = {}  # by member: age, bytes, messages
        self.settling_bytes = 0
        self.settling_count = 0
        self._round = 0
        self._measured_in = NO_TURN
        self._fresh_in = NO_TURN
        self.held_bytes = 0  # by its queues, when they were measured
        self.held_count = 0
        self.charged_bytes = 0
        self.charged_count = 0
        self.fresh_bytes = 0
        self.fresh_count = 0
        self.pending_bytes = 0
        self.pending_count = 0
        self.refused_count = 0
        self.dropped_count = 0
        self.over_bytes = 0  # the most that it ever held above its limit

    @property
    def size_bytes(self) -> int:
        return self.held_bytes + self.charged_bytes + self.fresh_bytes + self.due_bytes

    @property
    def size_count(self) -> int:
        return self.held_count + self.charged_count + self.fresh_count + self.due_count

    @property
    def due_bytes(self) -> int:
        """On the way to queues that other nodes lead, as far as they have not said otherwise."""
        return self.pending_bytes + self.settling_bytes

    @property
    def due_count(self) -> int:
        return self.pending_count + self.settling_count

    def refresh(self) -> None:
        """Measure, unless that was done in this turn: queues take what they got at its end."""
        turn = self._turn()
        if turn == self._measured_in:
            return
        self._measured_in = turn
        self._end_turns(turn)
        self.held_bytes, self.held_count = self._measure()
        self.charged_bytes = 0
        self.charged_count = 0

    def _end_turns(self, turn: int) -> None:
        """What was handed down before this turn has reached the queues."""
        if turn == self._fresh_in:
            return
        self._fresh_in = turn
        self.charged_bytes += self.fresh_bytes
        self.charged_count += self.fresh_count
        self.fresh_bytes = 0
        self.fresh_count = 0

    def is_full(self) -> bool:
        """Whether its policy holds now."""
        if self.is_node_full():
            return True
        if not self._is_over(self.limits.bytes_max, self.limits.count_max):
            return False
        self.refresh()
        return self._is_over(self.limits.bytes_max, self.limits.count_max)

    def _is_over(self, bytes_max: int, count_max: int) -> bool:
        return (0 <= bytes_max <= self.size_bytes) or (0 <= count_max <= self.size_count)

    def is_blocking(self) -> bool:
        """Whether publishers have to wait."""
        if self.limits.policy != BLOCK:
            return False
        if not self.limits.is_bounded:
            return self.is_node_full()
        return self.share.is_spent() or self.is_full()

    def room_bytes(self, wanted: int, copies: int) -> int:
        """How many of the bytes that a publisher wants to send, to `copies` queues, are below the
        limit at which publishers wait."""
        limit = self.limits.blocking_bytes
        if limit < 0:
            return wanted
        if limit - self.size_bytes < wanted * copies:
            self.refresh()
        return max(0, min(wanted, (limit - self.size_bytes) // copies))

    def is_node_full(self) -> bool:
        """Whether this node, or another one that has queues of the address, holds as much as
        `addresses.global_max_size` says."""
        return self.node_size.is_full() or self._is_full_elsewhere()

    def is_paging(self) -> bool:
        """Whether bodies have to leave memory."""
        return self.limits.policy == PAGE and self.is_full()

    def fitting(self, offsets: bytes, first: int, last: int, copies: int) -> int:
        """How many of the messages first..last-1, which `copies` of its queues get, it takes.

        It takes a message while it is below its limit, so a message may exceed the limit once.
        `offsets`: where each message begins, as little-endian integers of 32 bits.
        """
        bytes_max, count_max = self.limits.hard
        node_room = self._node_room()
        if bytes_max < 0 and count_max < 0 and node_room == UNLIMITED_ROOM:
            return last - first
        begin = read_i32_le(offsets, 4 * first)
        before_last = (read_i32_le(offsets, 4 * (last - 1)) - begin) * copies
        room_bytes, room_count = self._room(bytes_max, count_max, node_room)
        if before_last >= room_bytes or (last - first - 1) * copies >= room_count:
            self.refresh()
            room_bytes, room_count = self._room(bytes_max, count_max, node_room)
        kept = min(last - first, -(-room_count // copies))
        low, high = 0, max(kept, 0)
        while low < high:  # Find the first message that begins where there is no room.
            middle = (low + high) >> 1
            if (read_i32_le(offsets, 4 * (first + middle)) - begin) * copies < room_bytes:
                low = middle + 1
            else:
                high = middle
        return low

    def _node_room(self) -> int:
        """Bytes that the node takes before this address refuses or drops messages."""
        if self.limits.policy in (DROP, FAIL):
            return 0 if self._is_full_elsewhere() else self.node_size.room_bytes
        return UNLIMITED_ROOM

    def _room(self, bytes_max: int, count_max: int, node_room: int) -> tuple[int, int]:
        room_bytes = bytes_max - self.size_bytes if bytes_max >= 0 else 1 << 62
        room_bytes = min(room_bytes, node_room)
        room_count = count_max - self.size_count if count_max >= 0 else 1 << 62
        return max(room_bytes, 0), max(room_count, 0)

    def charge(self, size: int, count: int, copies_now: int, copies_later: int) -> None:
        """So many messages were handed to its queues."""
        self._end_turns(self._turn())
        self.fresh_bytes += size * copies_now
        self.fresh_count += count * copies_now
        self.pending_bytes += size * copies_later
        self.pending_count += count * copies_later
        self.node_size.charge(size * (copies_now + copies_later))
        self.share.spend(size * (copies_now + copies_later), count * (copies_now + copies_later))
        if 0 <= self.limits.bytes_max < self.size_bytes - self.over_bytes:
            self.refresh()
            self.over_bytes = max(self.over_bytes, self.size_bytes - self.limits.bytes_max)

    def decided(self, uid: int, size: int, count: int) -> None:
        """A queue that decides later has these messages, or refused them."""
        self.pending_bytes -= size
        self.pending_count -= count
        leader = self._leader(uid)
        if leader == 0:
            self.charged_bytes += size
            self.charged_count += count
            self._measured_in = NO_TURN  # What was measured may have these already.
            return
        self.settling_bytes += size
        self.settling_count += count
        self.settling.setdefault(leader, []).append((self._round, size, count))

    def heard_from(self, member: int) -> None:
        """The member has said what its queues hold. Words and decisions of a member come in the
        order in which it sent them, so that is with all that it has decided."""
        for _, size, count in self.settling.pop(member, ()):
            self.settling_bytes -= size
            self.settling_count -= count
        self._measured_in = NO_TURN  # What was measured does not have these yet.
        self.refresh()

    def begin_round(self, others: int, peers: int) -> None:
        """Words were sent to other nodes. `others` publish to the address as well."""
        self._round += 1
        for member in list(self.settling):
            if self.settling[member][0][0] + ROUNDS < self._round:
                self.heard_from(member)  # It is silent: what it leads counts no more.
        self.refresh()
        limits = (self.limits.bytes_max, self.limits.count_max)
        room = (limits[0] - self.size_bytes, limits[1] - self.size_count)
        self.share.begin_round(limits, room, others, peers)


@final
class Entry(Struct, frozen=True):
    """How many of the target queues belong to an account, and which of them decide later."""

    account: Account
    copies_now: int
    later: frozenset[int]


@final
class Gate:
    """The accounts that a set of target queues charges (`queues.sessions.publishing.Gate`)."""

    def __init__(self, entries: Sequence[Entry], stamp: Stamp | None = None) -> None:
        self.entries = entries
        self._stamp = stamp  # None: no address wants the time of its messages
        rates = [each.account.limits.rate_max for each in entries]
        self.rate_max = min((rate for rate in rates if rate > 0), default=-1)

    def stamped(self, chunk: Chunk) -> Chunk:
        """The same messages, with the time if an address wants to know when they came."""
        return chunk if self._stamp is None else self._stamp(chunk)

    def admit(self, offsets: bytes, first: int, last: int) -> tuple[int, int]:
        """Charge the messages of first..last-1 that go on: the first so many. Return how many, and
        for the others the number of the account that refuses them, negative; 0: they are dropped.
        """
        kept = last - first
        refused_by = 0
        for entry in self.entries:
            account = entry.account
            fitting = account.fitting(
                offsets, first, first + kept, entry.copies_now + len(entry.later)
            )
            if fitting < kept:
                if account.limits.drops:
                    account.dropped_count += kept - fitting
                    refused_by = 0
                else:
                    account.refused_count += kept - fitting
                    refused_by = -account.number
                kept = fitting
            if kept == 0:
                return 0, refused_by
        size = read_i32_le(offsets, 4 * (first + kept)) - read_i32_le(offsets, 4 * first)
        for entry in self.entries:
            entry.account.charge(size, kept, entry.copies_now, len(entry.later))
        return kept, refused_by

    def decided(self, uid: int, size: int, count: int) -> None:
        """A queue has decided on messages that were charged."""
        for entry in self.entries:
            if uid in entry.later:
                entry.account.decided(uid, size, count)

    def must_wait(self) -> bool:
        """Whether publishers have to wait until there is room."""
        return self.blocked_by() is not None

    def room_bytes(self, wanted: int) -> int:
        """How many of the bytes that a publisher wants to send it may be granted now."""
        for entry in self.entries:
            wanted = entry.account.room_bytes(wanted, entry.copies_now + len(entry.later))
        return wanted

    def blocked_by(self) -> Account | None:
        """The first account for whose room publishers have to wait."""
        for entry in self.entries:
            if entry.account.is_blocking():
                return entry.account
        return None


def refusal_text(account: Account) -> str:
    """Why the address takes no message."""
    return full_text(account, account.limits.hard)


def blocked_text(account: Account) -> str:
    """Why publishers to the address wait."""
    return full_text(account, (account.limits.bytes_max, account.limits.count_max))


def full_text(account: Account, allowed: tuple[int, int]) -> str:
    """What of it is full: the node, or the address with so many bytes and messages (-1: any)."""
    node_size = account.node_size
    if node_size.is_full():
        return (
            f"address {account.kind} '{account.name}' in vhost '{account.vhost}' takes no message: "
            f"all queues of the node have {node_size.size_bytes} bytes, "
            f"addresses.global_max_size is {node_size.bytes_max}"
        )
    if account.is_node_full():
        return (
            f"address {account.kind} '{account.name}' in vhost '{account.vhost}' takes no message: "
            "the queues of a node that has its messages have reached addresses.global_max_size"
        )
    bytes_max, count_max = allowed
    over_bytes = 0 <= bytes_max <= account.size_bytes
    what = (
        f"{account.size_bytes} bytes, the limit is {bytes_max}"
        if over_bytes
        else f"{account.size_count} messages, the limit is {count_max}"
    )
    return f"address {account.kind} '{account.name}' in vhost '{account.vhost}' is full: {what}"


def refuses(limits: AddressLimits) -> bool:
    """Whether publishers may get refusals."""
    return limits.policy == FAIL or (not limits.drops and max(limits.hard) >= 0)
