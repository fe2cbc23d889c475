"""The publishing side of one channel or link: runs of messages to queues, and confirms back. Pure.

Takes `Publishes` or `Transfers` events of the codecs and the plan (target queues) of each of their
runs; groups messages that go to the same queues into chunks without parting them, and hands each to
its queue hosts. A message order per queue is never changed: messages are only gathered past others
that go to one other queue each. Gives, when asked, the acks and nacks that are due. Compiled.

Every publish is confirmed internally, whether the client asked for confirms or not: that is what
bounds the bytes in flight. A publish is refused if any of its queues refused it; a queue
that is deleted meanwhile counts as accepted, unless it refused before.
"""

from typing import Final, Protocol, final

from mypy_extensions import i32, i64, mypyc_attr

from queues.message import FORMAT_091, FORMAT_10, Chunk
from queues.queue_host import QueueHost, SessionSink
from queues.sessions.counts import Counts
from warren.wire.amqp091.events import (
    INFO_EXPIRATION,
    INFO_PERSISTENT,
    INFO_PRIORITY,
    Publishes,
)
from warren.wire.amqp10.transfers import Transfers
from warren.wire.buffer import BytesWriter, read_i32_le, write_i32_le

HEAD_SLACK: Final = 256
NAMES_MAX: Final = 64
QUEUES_A_TURN: Final = 1000  # get messages for many queues; the others get them in later turns
NARROW: Final = 64  # queues; a message for no more of them is handed over at once
LEAST: Final = 16  # queues to which each publisher hands on in a turn, whatever others take
CHUNK_INFO: Final = INFO_PERSISTENT | INFO_EXPIRATION | INFO_PRIORITY  # what a chunk tells


@final
class Held:
    """Bytes that all channels of one connection hold together; what bounds its reading."""

    def __init__(self) -> None:
        self.in_flight_bytes: i64 = 0  # published and not confirmed
        self.waiting_bytes: i64 = 0  # events behind an answer
        self.transaction_bytes: i64 = 0  # published, and not committed yet


class Gate(Protocol):
    """The limits of the addresses that messages go to (`queues.addresses.account`)."""

    @property
    def rate_max(self) -> int:
        """Messages per second and publisher; -1: any number."""

    def stamped(self, chunk: Chunk) -> Chunk:
        """The same messages, with the time if an address wants to know when they came."""

    def admit(self, offsets: bytes, first: int, last: int) -> tuple[int, int]:
        """How many of first..last-1 are taken, and who refuses the others, as a negative number;
        0: they are dropped."""

    def decided(self, uid: int, size: int, count: int) -> None:
        """The queue has decided on messages that were admitted."""

    def must_wait(self) -> bool:
        """Whether publishers have to wait until there is room."""

    def room_bytes(self, wanted: int) -> int:
        """How many of the bytes that a publisher wants to send it may be granted now."""


@final
class Targets:
    """The queues that a publish goes to; one object per distinct set, so that `is` compares."""

    def __init__(self, hosts: list[QueueHost], gate: Gate | None = None) -> None:
        self.hosts = hosts
        self.gate = gate  # None: no address that the messages go to has limits
        self._names: list[str] | None = None

    def names(self) -> list[str]:
        """Of the first NAMES_MAX of them."""
        if self._names is None:
            self._names = [host.name for host in self.hosts[:NAMES_MAX]]
        return self._names


@final
@mypyc_attr(acyclic=True)
class Receipt:
    """Publishes tag_first..tag_last of the channel; confirmed when `remaining` queues have them."""

    def __init__(self, tag_first: i64, tag_last: i64) -> None:
        self.tag_first: i64 = tag_first
        self.tag_last: i64 = tag_last
        self.remaining: i64 = 0
        self.begun_s = 0.0  # when it was published, by the channel's clock
        self.sent = False  # the client has the answer already, or never gets one
        self.refused: list[tuple[int, int]] | None = None  # (first tag, last tag), as they came
        self.refused_by: i64 = 0  # the queue that refused some of it last
        self.quorum = False  # the queue that decided last is one


@final
class Decided:
    """Publishes `first`..`last` of a link are decided: safe, or refused by a queue."""

    def __init__(self, first: i64, last: i64, refused_by: i64) -> None:
        self.first: i64 = first
        self.last: i64 = last
        self.refused_by: i64 = refused_by  # uid of the queue; 0: accepted


@final
@mypyc_attr(acyclic=True)
class Part:
    """Messages of one event that go the same way: first..last-1 and, where they are not all of
    one run, every run [first, last) in `runs`.
    """

    def __init__(self, targets: Targets, info: i64, first: i64, last: i64) -> None:
        self.targets = targets
        self.info: i64 = info  # bits of any of them; INFO_PERSISTENT is the same for all
        self.first: i64 = first
        self.last: i64 = last
        self.runs: list[tuple[int, int]] | None = None

    def extend(self, info: i64, first: i64, last: i64) -> None:
        """These messages too, which come later."""
        self.info |= info
        if self.runs is None:
            self.runs = [(self.first, self.last)]
        self.runs.append((first, last))


@final
@mypyc_attr(acyclic=True)
class Handed:
    """A part of what a receipt is for: a queue has it, in one chunk, and has not decided on it."""

    def __init__(self, upto: i64, size: i64, part: Part, receipt: Receipt) -> None:
        self.upto: i64 = upto  # the session's number of the last message
        self.size: i64 = size
        self.first: i64 = part.first  # as `Part` has them
        self.last: i64 = part.last
        self.runs = part.runs
        self.receipt = receipt
        self.gate = part.targets.gate

    def all_runs(self) -> list[tuple[int, int]]:
        return [(self.first, self.last)] if self.runs is None else self.runs


@final
class Outbox:
    """What this session has handed to one queue and not got confirmed yet."""

    def __init__(self, host: QueueHost) -> None:
        self.host = host
        self.next_seq: i64 = 1
        self.handed: list[Handed] = []  # from `head` on; in the order of their numbers
        self.quorum = host.quorum
        self.head: i64 = 0

    def place_of(self, seq: i64) -> i64:
        """Place in `handed` of what has this number."""
        low = self.head
        high: i64 = len(self.handed)
        while low < high:
            middle = (low + high) >> 1
            if self.handed[middle].upto < seq:
                low = middle + 1
            else:
                high = middle
        return low


@final
class HandOverRoom:
    """How many queues may still get messages for many queues in this turn, of all publishers."""

    def __init__(
        self, queues_a_turn: int = QUEUES_A_TURN, narrow: int = NARROW, least: int = LEAST
    ) -> None:
        self.queues_a_turn: i64 = queues_a_turn
        self.narrow: i64 = narrow
        self.least: i64 = least
        self.left: i64 = queues_a_turn

    def begin_turn(self) -> None:
        self.left = self.queues_a_turn

    def offer(self, width: i64) -> i64:
        """How many of `width` queues, which still lack a message for many queues, may get it."""
        return min(width, max(self.left, self.least))

    def take(self, left: i64) -> i64:
        """To how many of `left` queues, which still lack a message, it is handed now."""
        if left <= self.narrow:
            return left
        some = self.offer(left)
        self.left -= some
        return some


@final
class HandOver:
    """Messages that the hosts of `part` from `at` on have not got yet."""

    def __init__(self, chunk: Chunk, part: Part, receipt: Receipt) -> None:
        self.chunk = chunk  # handed to no queue: its bytes stay in memory
        self.part = part
        self.receipt = receipt
        self.at: i64 = 0


@final
class Publisher:
    """Publishing state of one channel.

    If a message is for more queues than the turn has `room` for, it is handed to so many at once.
    The publisher `is_behind` then, and its owner calls `hand_on` in each of the turns that follow.
    What is published meanwhile waits behind it.
    """

    def __init__(
        self,
        sink: SessionSink,
        counts: Counts,
        held: Held | None = None,
        room: HandOverRoom | None = None,
    ) -> None:
        self._room = HandOverRoom() if room is None else room
        self._behind: list[HandOver] = []
        self._sink = sink
        self._counts = counts
        self._held = Held() if held is None else held
        self.outboxes: dict[int, Outbox] = {}
        self.confirming = False
        self.now_s = 0.0  # the time, told by the channel; for the latency of confirms only
        self.gate: Gate | None = None  # of the last messages that went to an address with limits
        self.next_tag: i64 = 1
        self.in_flight_bytes: i64 = 0
        self._receipts: list[Receipt] = []  # in the order of tags, the confirmed head cut off
        self._head: i64 = 0
        self._confirmed: i64 = 0  # everything up to this tag is confirmed
        self.confirmed_count: i64 = 0  # and not refused
        self._done: list[Receipt] = []  # became complete since the last `take_confirms`

    # Down

    def publish(self, event: Publishes, plans: list[Targets]) -> bool:
        """Hand the event's messages down; `plans[k]` is where run `k` of the event goes.

        Returns whether confirms became due, as for messages that no queue gets.
        """
        count: i64 = event.count
        receipt = Receipt(self.next_tag, self.next_tag + count - 1)
        receipt.begun_s = self.now_s
        if self.confirming:
            self.next_tag += count
            self._receipts.append(receipt)
        else:
            receipt.sent = True  # Never confirmed to the client, whatever it selects later.
        firsts = event.firsts
        targets = plans[0]
        if len(firsts) == 1:
            if len(targets.hosts) > 0:
                info = i64(event.infos[0]) & CHUNK_INFO
                self._send(event, Part(targets, info, 0, count), receipt)
            else:
                self._counts.unroutable += count
        else:
            self._publish_mixed(event, plans, receipt)
        if receipt.remaining == 0 and self.confirming:
            self._done.append(receipt)
            return True
        return False

    def publish_transfers(self, event: Transfers, targets: Targets, names: bytes) -> bool:
        """The same for a run of transfers that all go to `targets`, which are some.

        `names`: exchange and routing key, as a chunk has them. Messages are confirmed by
        `take_outcomes`, under the tags that count up from `next_tag`.
        """
        count = event.count
        receipt = Receipt(self.next_tag, self.next_tag + count - 1)
        receipt.begun_s = self.now_s
        self.next_tag += count
        self._receipts.append(receipt)
        firsts = event.firsts
        length: i64 = len(firsts)
        k: i64 = 0
        while k < length:
            first: i64 = firsts[k]
            info = i64(event.infos[k]) & CHUNK_INFO
            k += 1
            while k < length:
                other = i64(event.infos[k]) & CHUNK_INFO
                if (other ^ info) & INFO_PERSISTENT != 0:
                    break
                info |= other
                k += 1
            last: i64 = firsts[k] if k < length else count
            part = Part(targets, info, first, last)
            chunk = chunk_of(FORMAT_10, event.data, event.offsets, part, names)
            self._hand_down(chunk, part, receipt)
        if receipt.remaining == 0:
            self._done.append(receipt)
            return True
        return False

    def _publish_mixed(self, event: Publishes, plans: list[Targets], receipt: Receipt) -> None:
        """Runs with several plans: gather per queue, flush before what goes to several queues."""
        groups: dict[int, Part] = {}
        firsts = event.firsts
        length: i64 = len(firsts)
        count: i64 = event.count
        k: i64 = 0
        while k < length:
            first: i64 = firsts[k]
            targets = plans[k]
            info = i64(event.infos[k]) & CHUNK_INFO
            k += 1
            while k < length and plans[k] is targets:
                other = i64(event.infos[k]) & CHUNK_INFO
                if (other ^ info) & INFO_PERSISTENT != 0:
                    break
                info |= other
                k += 1
            last: i64 = firsts[k] if k < length else count
            width = len(targets.hosts)
            if width == 0:
                self._counts.unroutable += last - first
                continue
            if width > 1 or targets.gate is not None:
                self._flush(event, groups, receipt)
                groups = {}
                self._send(event, Part(targets, info, first, last), receipt)
                continue
            self._gather(event, groups, Part(targets, info, first, last), receipt)
        self._flush(event, groups, receipt)

    def _gather(
        self, event: Publishes, groups: dict[int, Part], part: Part, receipt: Receipt
    ) -> None:
        """Keep a part that is one run for one queue, to be sent with others for that queue."""
        uid = part.targets.hosts[0].uid
        group = groups.get(uid)
        if group is None:
            groups[uid] = part
        elif (group.info ^ part.info) & INFO_PERSISTENT != 0:
            self._send(event, group, receipt)
            groups[uid] = part
        else:
            group.extend(part.info, part.first, part.last)

    def _flush(self, event: Publishes, groups: dict[int, Part], receipt: Receipt) -> None:
        for group in groups.values():
            self._send(event, group, receipt)

    def _send(self, event: Publishes, part: Part, receipt: Receipt) -> None:
        chunk = chunk_of(FORMAT_091, event.data, event.offsets, part, b"")
        self._hand_down(chunk, part, receipt)

    def _admit(self, gate: Gate, chunk: Chunk, part: Part, receipt: Receipt) -> Chunk | None:
        """Return what the addresses take of the chunk, which has all messages of `part`, one run,
        and leave only these in `part`. None: nothing. The others are refused, or count as accepted.
        """
        self.gate = gate
        chunk = gate.stamped(chunk)
        count = chunk.count()
        kept, refused_by = gate.admit(chunk.offsets, 0, int(count))
        if kept == count:
            return chunk
        if refused_by != 0:
            receipt.refused_by = refused_by
            refuse(receipt, [(int(part.first), int(part.last))], kept, count)
        part.last = part.first + kept
        if kept == 0:
            return None
        offsets = chunk.offsets[: 4 * kept + 4]
        return Chunk(chunk.format_tag, chunk.data, chunk.base, offsets, chunk.info, chunk.names)

    def _hand_down(self, published: Chunk, part: Part, receipt: Receipt) -> None:
        """The chunk has the messages `part` of the event that `receipt` is for."""
        chunk = published
        gate = part.targets.gate
        if gate is not None:
            admitted = self._admit(gate, published, part, receipt)
            if admitted is None:
                return
            chunk = admitted
        count = chunk.count()
        size = chunk.size()
        self._counts.sizes.observe(size, count)
        hosts = part.targets.hosts
        handed_bytes = size * len(hosts)
        self._counts.handed_bytes += handed_bytes
        self.in_flight_bytes += handed_bytes
        self._held.in_flight_bytes += handed_bytes
        receipt.remaining += len(hosts)
        if len(hosts) > self._room.narrow or len(self._behind) > 0:
            self._hand_wide(chunk, part, receipt)
        else:
            self._hand_to(hosts, chunk, part, receipt)

    def _hand_wide(self, chunk: Chunk, part: Part, receipt: Receipt) -> None:
        """Hand it to as many queues as the turn has room for, behind what waits."""
        room = self._room
        hosts = part.targets.hosts
        if len(self._behind) == 0 and len(hosts) <= room.left:
            room.left -= len(hosts)
            self._hand_to(hosts, chunk, part, receipt)
            return
        self._behind.append(HandOver(chunk.twin(), part, receipt))
        if len(self._behind) == 1:
            self.hand_on()

    @property
    def is_behind(self) -> bool:
        """Whether some queues have not got their messages yet."""
        return len(self._behind) > 0

    def hand_on(self) -> None:
        """Hand what waits to the next queues. They share no chunk with those of other turns: the
        journal writes a chunk once."""
        room = self._room
        left = max(room.left, room.least)
        behind = self._behind
        while left > 0 and len(behind) > 0:
            first = behind[0]
            hosts = first.part.targets.hosts
            upto = min(first.at + left, len(hosts))
            some = hosts[first.at : upto]
            left -= upto - first.at
            room.left -= upto - first.at
            first.at = upto
            if upto == len(hosts):
                del behind[0]
            self._hand_to(some, first.chunk.twin(), first.part, first.receipt)

    def _hand_to(self, hosts: list[QueueHost], chunk: Chunk, part: Part, receipt: Receipt) -> None:
        count = chunk.count()
        size = chunk.size()
        for host in hosts:
            uid = host.uid
            outbox = self.outboxes.get(uid)
            if outbox is None:
                outbox = Outbox(host)
                self.outboxes[uid] = outbox
            first_seq = outbox.next_seq
            outbox.next_seq = first_seq + count
            outbox.handed.append(Handed(first_seq + count - 1, size, part, receipt))
            host.publish(self._sink, chunk, first_seq)

    # Up

    def on_confirms(self, uid: int, upto_seq: i64) -> bool:
        """The queue has decided on all up to `upto_seq`; return whether confirms became due."""
        outbox = self.outboxes.get(uid)
        if outbox is None:
            return False
        before = len(self._done)
        handed = outbox.handed
        head = outbox.head
        length: i64 = len(handed)
        size: i64 = 0
        while head < length:
            each = handed[head]
            if each.upto > upto_seq:
                break
            size += each.size
            gate = each.gate
            if gate is not None:
                gate.decided(uid, each.size, messages_of(each.all_runs()))
            receipt = each.receipt
            receipt.remaining -= 1
            if receipt.remaining == 0 and not receipt.sent:
                receipt.quorum = outbox.quorum
                self._done.append(receipt)
            head += 1
        self.in_flight_bytes -= size
        self._held.in_flight_bytes -= size
        if head == length:
            handed.clear()
            head = 0
        elif head > HEAD_SLACK and head * 2 > length:
            del handed[:head]
            head = 0
        outbox.head = head
        return len(self._done) > before

    def on_refused(self, uid: int, first_seq: i64, count: i64) -> None:
        """The queue did not take these; that it has decided on them is still to be told."""
        outbox = self.outboxes.get(uid)
        if outbox is None:
            return
        seq = first_seq
        end = first_seq + count
        place = outbox.place_of(first_seq)
        while seq < end:
            each = outbox.handed[place]
            runs = each.all_runs()
            begin = each.upto + 1 - messages_of(runs)
            stop = min(end, each.upto + 1)
            each.receipt.refused_by = uid
            refuse(each.receipt, runs, seq - begin, stop - begin)
            seq = stop
            place += 1

    def on_gone(self, uid: int) -> bool:
        """The queue is deleted: what was on its way counts as accepted."""
        outbox = self.outboxes.get(uid)
        if outbox is None:
            return False
        due = self.on_confirms(uid, outbox.next_seq - 1)
        del self.outboxes[uid]
        return due

    def let_go(self) -> None:
        """The channel is over: what it has in flight holds its connection's reading no more."""
        self._held.in_flight_bytes -= self.in_flight_bytes
        self._held = Held()
        for uid, outbox in self.outboxes.items():
            for each in outbox.handed[outbox.head :]:
                gate = each.gate
                if gate is not None:
                    each.gate = None
                    gate.decided(uid, each.size, messages_of(each.all_runs()))

    def all_decided(self) -> bool:
        """Whether `take_confirms` has told everything that was published."""
        return self._confirmed == self.next_tag - 1

    def unconfirmed_count(self) -> int:
        """How many publishes there are from the oldest that is not decided."""
        return int(self.next_tag - 1 - self._confirmed)

    def take_confirms(self) -> list[tuple[int, bool, bool]]:
        """What to tell the client, as (tag, multiple, accepted), in an order right to send."""
        done = self._done
        if len(done) == 0:
            return []
        self._done = []
        confirms: list[tuple[int, bool, bool]] = []
        head = self._head
        receipts = self._receipts
        length: i64 = len(receipts)
        told = self._confirmed  # Everything up to here is answered, counting `confirms`.
        upto: i64 = 0
        refused_count: i64 = 0
        while head < length and receipts[head].remaining == 0:
            receipt = receipts[head]
            if receipt.refused is not None:
                refused = merge(receipt.refused)
                refused_count += tags_of(refused)
                if not receipt.sent:
                    if upto > told:
                        confirms.append((upto, upto - told > 1, True))
                    told = tell_refused(refused, receipt.tag_first - 1, confirms)
            if not receipt.sent:
                receipt.sent = True
                upto = receipt.tag_last
            head += 1
        if upto > told:
            confirms.append((upto, upto - told > 1, True))
        if head > self._head:
            self._pass(head, refused_count)
        for receipt in done:
            count = int(receipt.tag_last - receipt.tag_first + 1)
            self._observe(receipt, count)
            if not receipt.sent:
                receipt.sent = True
                tell_each(receipt, confirms)
        return confirms

    def take_outcomes(self) -> list[Decided]:
        """What was decided since the last call, whatever is not decided before it; in order."""
        done = self._done
        if len(done) == 0:
            return []
        self._done = []
        decided: list[Decided] = []
        for receipt in sorted(done, key=tag_first_of):
            count = int(receipt.tag_last - receipt.tag_first + 1)
            self._observe(receipt, count)
            receipt.sent = True
            decide(receipt, decided)
        head = self._head
        receipts = self._receipts
        refused_count: i64 = 0
        while head < len(receipts) and receipts[head].sent:
            refused = receipts[head].refused
            if refused is not None:
                refused_count += tags_of(merge(refused))
            head += 1
        if head > self._head:
            self._pass(head, refused_count)
        return decided

    def _observe(self, receipt: Receipt, count: int) -> None:
        """The messages of the receipt are decided now."""
        counts = self._counts
        seconds = counts.quorum.confirm_seconds if receipt.quorum else counts.confirm_seconds
        seconds.observe(self.now_s - receipt.begun_s, count)

    def _pass(self, head: i64, refused_count: i64) -> None:
        """All receipts before `head` are decided: count and forget them."""
        receipts = self._receipts
        last = receipts[head - 1].tag_last
        decided = last - self._confirmed - refused_count
        self._counts.confirmed += decided
        self.confirmed_count += decided
        self._confirmed = last
        self._head = head
        if head > HEAD_SLACK and head * 2 > len(receipts):
            del receipts[:head]
            self._head = 0


def messages_of(runs: list[tuple[int, int]]) -> i64:
    """How many messages the runs [first, last) have together."""
    total: i64 = 0
    for first, last in runs:
        total += last - first
    return total


def refuse(receipt: Receipt, runs: list[tuple[int, int]], begin: i64, end: i64) -> None:
    """Messages begin.. up to `end` of a chunk are refused: note the tags they were published as."""
    if receipt.sent:
        return
    refused = receipt.refused
    if refused is None:
        refused = []
        receipt.refused = refused
    passed: i64 = 0  # messages of the chunk before this run
    for first, last in runs:
        low = max(begin - passed, 0)
        high = min(end - passed, last - first)
        if low < high:
            tag = receipt.tag_first + first
            refused.append((int(tag + low), int(tag + high - 1)))
        passed += last - first


def merge(runs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The runs of tags in ascending order; those that meet or overlap are one."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(runs):
        if len(merged) > 0 and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return merged


def tags_of(runs: list[tuple[int, int]]) -> i64:
    """How many tags the merged runs have."""
    total: i64 = 0
    for first, last in runs:
        total += last - first + 1
    return total


def tell_refused(
    refused: list[tuple[int, int]], told: i64, into: list[tuple[int, bool, bool]]
) -> i64:
    """A nack for each run, after an ack for what is below; return the last tag that is answered."""
    for first, last in refused:
        if first - 1 > told:
            into.append((first - 1, first - 1 - told > 1, True))
        into.append((last, last > first, False))
        told = last
    return told


def tell_each(receipt: Receipt, into: list[tuple[int, bool, bool]]) -> None:
    """An ack or nack for each tag: lower tags are not decided yet."""
    refused = [] if receipt.refused is None else merge(receipt.refused)
    tag = receipt.tag_first
    for first, last in refused:
        while tag < first:
            into.append((tag, False, True))
            tag += 1
        while tag <= last:
            into.append((tag, False, False))
            tag += 1
    while tag <= receipt.tag_last:
        into.append((tag, False, True))
        tag += 1


def tag_first_of(receipt: Receipt) -> int:
    return receipt.tag_first


def decide(receipt: Receipt, into: list[Decided]) -> None:
    """Add the outcomes of a receipt; what goes on from the last one is joined to it."""
    refused = [] if receipt.refused is None else merge(receipt.refused)
    tag = receipt.tag_first
    for first, last in refused:
        if tag < first:
            join_decided(into, tag, first - 1, 0)
        join_decided(into, first, last, receipt.refused_by)
        tag = last + 1
    if tag <= receipt.tag_last:
        join_decided(into, tag, receipt.tag_last, 0)


def join_decided(into: list[Decided], first: i64, last: i64, refused_by: i64) -> None:
    if len(into) > 0:
        before = into[len(into) - 1]
        if before.last + 1 == first and before.refused_by == refused_by:
            before.last = last
            return
    into.append(Decided(first, last, refused_by))


def chunk_of(format_tag: i64, data: bytes, offsets: bytes, part: Part, names: bytes) -> Chunk:
    """The messages of `part` as one chunk, sharing the event's bytes where most are wanted."""
    info = part.info
    runs = part.runs
    if runs is not None:
        return gathered(format_tag, data, offsets, runs, info, names)
    begin: i64 = i64(read_i32_le(offsets, 4 * part.first))
    end: i64 = i64(read_i32_le(offsets, 4 * part.last))
    kept = offsets[4 * part.first : 4 * part.last + 4]
    if (end - begin) * 4 >= len(data) * 3:
        return Chunk(format_tag, data, 0, kept, info, names)
    return Chunk(format_tag, data[begin:end], begin, kept, info, names)


def gathered(
    format_tag: i64,
    data: bytes,
    offsets: bytes,
    runs: list[tuple[int, int]],
    info: i64,
    names: bytes,
) -> Chunk:
    """The same for messages of several runs: their bytes are put one behind the other."""
    parts: list[bytes] = []
    writer = BytesWriter()
    size: i64 = 0
    for run_first, run_last in runs:
        begin: i64 = i64(read_i32_le(offsets, 4 * i64(run_first)))
        at: i64 = run_first
        while at < i64(run_last):
            write_i32_le(writer, i32(size + i64(read_i32_le(offsets, 4 * at)) - begin))
            at += 1
        end: i64 = i64(read_i32_le(offsets, 4 * i64(run_last)))
        parts.append(data[begin:end])
        size += end - begin
    write_i32_le(writer, i32(size))
    return Chunk(format_tag, b"".join(parts), 0, writer.getvalue(), info, names)
