"""The publishing side of one channel: runs of messages to queues, and confirms back. Pure.

Takes `Publishes` events of the codec and the plan (target queues) of each of their runs; groups
messages that go to the same queues into chunks without parting them, and hands each chunk to its
queue hosts. A message order per queue is never changed: messages are only gathered past others
that go to one other queue each. Gives, when asked, the confirms that are due. Compiled.

Every publish is confirmed internally, whether the client asked for confirms or not: that is what
bounds the bytes in flight. A queue that is deleted meanwhile counts as accepted (P-12).
"""

from typing import Final, final

from mypy_extensions import i32, i64, mypyc_attr

from queues.counts import Counts
from queues.host import QueueHost, SessionSink
from queues.message import FORMAT_091, Chunk
from warren.wire.amqp091.events import INFO_PERSISTENT, Publishes
from warren.wire.buffer import BytesWriter, read_i32_le, write_i32_le

HEAD_SLACK: Final = 256


@final
class Targets:
    """The queues that a publish goes to; one object per distinct set, so that `is` compares."""

    def __init__(self, hosts: list[QueueHost]) -> None:
        self.hosts = hosts


@final
@mypyc_attr(acyclic=True)
class Receipt:
    """Publishes tag_first..tag_last of the channel; confirmed when `remaining` queues have them."""

    def __init__(self, tag_first: i64, tag_last: i64) -> None:
        self.tag_first: i64 = tag_first
        self.tag_last: i64 = tag_last
        self.remaining: i64 = 0
        self.begun_s = 0.0  # when it was published, by the channel's clock
        self.sent = False  # confirmed to the client already


@final
class Outbox:
    """What this session has handed to one queue and not got confirmed yet."""

    def __init__(self, host: QueueHost) -> None:
        self.host = host
        self.next_seq: i64 = 1
        self.uptos: list[int] = []
        self.receipts: list[Receipt] = []
        self.sizes: list[int] = []
        self.head: i64 = 0


@final
class Group:
    """Messages of one event that go to the same queue, as runs [first, last) of its messages."""

    def __init__(self, targets: Targets, persistent: bool) -> None:
        self.targets = targets
        self.persistent = persistent
        self.runs: list[tuple[int, int]] = []


@final
class Publisher:
    """Publishing state of one channel."""

    def __init__(self, sink: SessionSink, counts: Counts) -> None:
        self._sink = sink
        self._counts = counts
        self.outboxes: dict[int, Outbox] = {}
        self.confirming = False
        self.now_s = 0.0  # the time, told by the channel; for the latency of confirms only
        self.next_tag: i64 = 1
        self.in_flight_bytes: i64 = 0
        self._receipts: list[Receipt] = []  # in the order of tags, the confirmed head cut off
        self._head: i64 = 0
        self._confirmed: i64 = 0  # everything up to this tag is confirmed
        self._done: list[Receipt] = []  # became complete since the last `take_confirms`

    # Down

    def publish(self, event: Publishes, plans: list[Targets]) -> bool:
        """Hand the event's messages down; `plans[k]` is where run `k` of the event goes.

        Returns whether confirms became due, as for messages that no queue gets (P-02).
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
        persistent = (i64(event.infos[0]) & INFO_PERSISTENT) != 0
        if len(firsts) == 1:
            if len(targets.hosts) > 0:
                self._send(event, targets, persistent, [(0, count)], receipt)
            else:
                self._counts.unroutable += count
        else:
            self._publish_mixed(event, plans, receipt)
        if receipt.remaining == 0 and self.confirming:
            self._done.append(receipt)
            return True
        return False

    def _publish_mixed(self, event: Publishes, plans: list[Targets], receipt: Receipt) -> None:
        """Runs with several plans: gather per queue, flush before what goes to several queues."""
        groups: dict[int, Group] = {}
        firsts = event.firsts
        length: i64 = len(firsts)
        count: i64 = event.count
        k: i64 = 0
        while k < length:
            first: i64 = firsts[k]
            targets = plans[k]
            persistent = (i64(event.infos[k]) & INFO_PERSISTENT) != 0
            k += 1
            while k < length and plans[k] is targets:
                if ((i64(event.infos[k]) & INFO_PERSISTENT) != 0) != persistent:
                    break
                k += 1
            last: i64 = firsts[k] if k < length else count
            width = len(targets.hosts)
            if width == 0:
                self._counts.unroutable += last - first
                continue
            if width > 1:
                self._flush(event, groups, receipt)
                groups = {}
                self._send(event, targets, persistent, [(first, last)], receipt)
                continue
            self._gather(event, groups, targets, persistent, first, last, receipt)
        self._flush(event, groups, receipt)

    def _gather(
        self,
        event: Publishes,
        groups: dict[int, Group],
        targets: Targets,
        persistent: bool,
        first: i64,
        last: i64,
        receipt: Receipt,
    ) -> None:
        uid = targets.hosts[0].uid
        group = groups.get(uid)
        if group is not None and group.persistent != persistent:
            self._send(event, group.targets, group.persistent, group.runs, receipt)
            group = None
        if group is None:
            group = Group(targets, persistent)
            groups[uid] = group
        group.runs.append((first, last))

    def _flush(self, event: Publishes, groups: dict[int, Group], receipt: Receipt) -> None:
        for group in groups.values():
            self._send(event, group.targets, group.persistent, group.runs, receipt)

    def _send(
        self,
        event: Publishes,
        targets: Targets,
        persistent: bool,
        runs: list[tuple[int, int]],
        receipt: Receipt,
    ) -> None:
        chunk = make_chunk(event, runs, persistent)
        count = chunk.count()
        size = chunk.size()
        for host in targets.hosts:
            outbox = self.outboxes.get(host.uid)
            if outbox is None:
                outbox = Outbox(host)
                self.outboxes[host.uid] = outbox
            first_seq = outbox.next_seq
            outbox.next_seq = first_seq + count
            outbox.uptos.append(first_seq + count - 1)
            outbox.receipts.append(receipt)
            outbox.sizes.append(size)
            receipt.remaining += 1
            self.in_flight_bytes += size
            host.publish(self._sink, chunk, first_seq)

    # Up

    def on_confirms(self, uid: int, upto_seq: i64) -> bool:
        """The queue has everything up to `upto_seq`; return whether confirms became due."""
        outbox = self.outboxes.get(uid)
        if outbox is None:
            return False
        before = len(self._done)
        head = outbox.head
        length: i64 = len(outbox.uptos)
        while head < length and i64(outbox.uptos[head]) <= upto_seq:
            self.in_flight_bytes -= i64(outbox.sizes[head])
            receipt = outbox.receipts[head]
            receipt.remaining -= 1
            if receipt.remaining == 0 and not receipt.sent:
                self._done.append(receipt)
            head += 1
        outbox.head = head
        if head == length:
            outbox.uptos = []
            outbox.receipts = []
            outbox.sizes = []
            outbox.head = 0
        elif head > HEAD_SLACK and head * 2 > length:
            del outbox.uptos[:head]
            del outbox.receipts[:head]
            del outbox.sizes[:head]
            outbox.head = 0
        return len(self._done) > before

    def on_gone(self, uid: int) -> bool:
        """The queue is deleted: what was on its way counts as accepted."""
        outbox = self.outboxes.get(uid)
        if outbox is None:
            return False
        due = self.on_confirms(uid, outbox.next_seq - 1)
        del self.outboxes[uid]
        return due

    def take_confirms(self) -> list[tuple[int, bool]]:
        """Tags to confirm now, as (tag, multiple), in an order that is right to send."""
        done = self._done
        if len(done) == 0:
            return []
        self._done = []
        confirms: list[tuple[int, bool]] = []
        head = self._head
        receipts = self._receipts
        length: i64 = len(receipts)
        upto: i64 = 0
        while head < length and receipts[head].remaining == 0:
            upto = receipts[head].tag_last
            receipts[head].sent = True
            head += 1
        self._head = head
        if upto > 0:
            self._counts.confirmed += upto - self._confirmed
            self._confirmed = upto
            confirms.append((upto, True))
        for receipt in done:
            count = int(receipt.tag_last - receipt.tag_first + 1)
            self._counts.confirm_seconds.observe(self.now_s - receipt.begun_s, count)
            if not receipt.sent:
                receipt.sent = True
                for tag in range(receipt.tag_first, receipt.tag_last + 1):
                    confirms.append((tag, False))
        if head > HEAD_SLACK and head * 2 > length:
            del receipts[:head]
            self._head = 0
        return confirms


def make_chunk(event: Publishes, runs: list[tuple[int, int]], persistent: bool) -> Chunk:
    """The messages of `runs` as one chunk, sharing the event's bytes where most are wanted."""
    info: i64 = INFO_PERSISTENT if persistent else 0
    data = event.data
    offsets = event.offsets
    if len(runs) == 1:
        first: i64 = runs[0][0]
        last: i64 = runs[0][1]
        begin: i64 = i64(read_i32_le(offsets, 4 * first))
        end: i64 = i64(read_i32_le(offsets, 4 * last))
        kept = offsets[4 * first : 4 * last + 4]
        if (end - begin) * 4 >= len(data) * 3:
            return Chunk(FORMAT_091, data, 0, kept, info)
        return Chunk(FORMAT_091, data[begin:end], begin, kept, info)
    parts: list[bytes] = []
    writer = BytesWriter()
    size: i64 = 0
    for run_first, run_last in runs:
        begin = i64(read_i32_le(offsets, 4 * i64(run_first)))
        at: i64 = run_first
        while at < i64(run_last):
            write_i32_le(writer, i32(size + i64(read_i32_le(offsets, 4 * at)) - begin))
            at += 1
        end = i64(read_i32_le(offsets, 4 * i64(run_last)))
        parts.append(data[begin:end])
        size += end - begin
    write_i32_le(writer, i32(size))
    return Chunk(FORMAT_091, b"".join(parts), 0, writer.getvalue(), info)
