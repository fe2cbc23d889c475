"""The sending half of a session: messages of many links into the peer's window. Compiled.

Links that have something to send stand in one line. The first is served up to TURN_FRAMES frames
and goes to the end of the line, unless the window or the budget was over first: then it keeps its
place, and a message that was cut there goes on where it stopped. The bytes of messages are asked
for (`Bodies.fetch`) when their turn comes, and let go of when it is over, so what waits is names.
"""

from collections import deque
from typing import Final, Protocol, final

from mypy_extensions import i64

from warren.wire.amqp10.codec.performatives import Transfer
from warren.wire.amqp10.codec.serial import plus
from warren.wire.amqp10.deliver import write_piece, write_transfers
from warren.wire.amqp10.link import ATTACHED, Link
from warren.wire.amqp10.output import LARGE_BYTES, Output
from warren.wire.amqp10.sender import Run, Sender
from warren.wire.amqp10.transfers import payload_at
from warren.wire.amqp10.windows import OutgoingWindow
from warren.wire.buffer import read_i32_le

TURN_FRAMES: Final = 128  # that a link may send before the next one has its turn
FRAME_COST: Final = 32  # of the budget, beside the bytes of the message
LARGE_PART: Final = 4  # payloads of LARGE_BYTES are not copied here: they cost so much less


class Bodies(Protocol):
    """The host's side of sending."""

    def fetch(self, link: Link, run: Run) -> bool:
        """Put the bytes of the run's first messages into it (`Run.put`).

        False: they are being loaded; the session passes the link over until `loaded`.
        """

    def sent(self, link: Link, run: Run, delivery_id: int, count: int) -> None:
        """The run's first `count` messages go out, with ids from `delivery_id` on.

        Of a message in several frames this is reported once, with its first frame.
        """


@final
class Departures:
    """Invariant: a link stands in the line if it is attached, has runs, and is not loading."""

    def __init__(self, channel: i64, output: Output, window: OutgoingWindow) -> None:
        self.channel: i64 = channel
        self.window = window
        self.next_id: i64 = window.first_id  # delivery-id of the next delivery
        self._next_tag: i64 = 1
        self._output = output
        self._line: deque[Link] = deque()

    def has_work(self) -> bool:
        """Whether `write` could write something now."""
        return self.window.left > 0 and len(self._line) > 0

    def is_waiting(self) -> bool:
        return len(self._line) > 0

    def join(self, link: Link) -> None:
        """The link has something to send."""
        sender = link.sender
        if sender is None or sender.in_line or sender.loading or len(sender.runs) == 0:
            return
        if link.status == ATTACHED:
            sender.in_line = True
            self._line.append(link)

    def leave(self, link: Link) -> None:
        """The link has nothing to send any more, or is over."""
        sender = link.sender
        if sender is not None and sender.in_line:
            sender.in_line = False
            self._line.remove(link)

    def abort(self, link: Link) -> bool:
        """Call off the message of the link that is under way in frames, if there is one; its
        delivery-id stays used. False: the window has no room to say so.
        """
        sender = link.sender
        if sender is None or not sender.torn:
            return True
        if self.window.left == 0:
            return False
        delivery_id = int(sender.torn_id)
        frame = Transfer(handle=int(link.handle), delivery_id=delivery_id, aborted=True)
        self._output.frame(self.channel, frame)
        self.window.take(1)
        sender.torn = False
        return True

    def write(self, bodies: Bodies, budget: i64) -> list[Link]:
        """Write transfers of about `budget` payload bytes; return the links that had a turn."""
        served: list[Link] = []
        left = budget
        while left > 0 and self.window.left > 0 and len(self._line) > 0:
            link = self._line[0]
            sender = link.sender
            assert sender is not None
            left = self._serve(link, sender, bodies, left)
            served.append(link)
            if len(sender.runs) == 0 or sender.loading:
                self._line.popleft()
                sender.in_line = False
            elif left > 0 and self.window.left > 0:
                self._line.rotate(-1)
        for link in served:
            self._release(link)
        return served

    def _release(self, link: Link) -> None:
        sender = link.sender
        if sender is not None and not sender.torn and len(sender.runs) > 0:
            run = sender.runs[0]
            if not run.kept:
                run.release()

    def _serve(self, link: Link, sender: Sender, bodies: Bodies, budget: i64) -> i64:
        """One turn of a link; return what is left of the budget."""
        floor = self.window.left - TURN_FRAMES
        if floor < 0:
            floor = 0
        while budget > 0 and self.window.left > floor and len(sender.runs) > 0:
            run = sender.runs[0]
            if run.ready == 0 and not bodies.fetch(link, run):
                sender.loading = True
                break
            assert run.ready > 0
            cost: i64 = 0
            if not sender.torn:
                cost = self._send_small(link, sender, run, bodies, floor, budget)
            if cost == 0:
                cost = self._send_large(link, sender, run, bodies, floor, budget)
            budget -= max(cost, run.cost)
            run.cost = 0
            if run.count == 0:
                sender.runs.popleft()
        return budget

    def _send_small(
        self, link: Link, sender: Sender, run: Run, bodies: Bodies, floor: i64, budget: i64
    ) -> i64:
        """Messages that take a frame each, up to one that does not; return what they cost."""
        last = run.index + min(run.ready, self.window.left - floor)
        begin = _offset(run, run.index)
        end = run.index + 1
        room = budget
        if _offset(run, end) - begin >= LARGE_BYTES:
            room *= LARGE_PART
        while end < last and _offset(run, end) - begin < room:
            end += 1
        count = write_transfers(
            self._output,
            self.channel,
            link.handle,
            self.next_id,
            self._next_tag,
            run.settled,
            run.heads,
            run.delivery_count,
            run.acquired,
            run.data,
            run.base,
            run.offsets,
            run.index,
            end,
            self._output.max_frame_size,
        )
        if count == 0:
            return 0
        cost = _cost(_offset(run, run.index + count) - begin, count)
        self._begin(link, sender, run, bodies, count)
        self.window.take(count)
        run.advance(count)
        return cost

    def _begin(self, link: Link, sender: Sender, run: Run, bodies: Bodies, count: i64) -> None:
        """The run's first messages are under way."""
        bodies.sent(link, run, self.next_id, count)
        sender.begin(count)
        self.next_id = plus(self.next_id, count)
        self._next_tag += count

    def _send_large(
        self, link: Link, sender: Sender, run: Run, bodies: Bodies, floor: i64, budget: i64
    ) -> i64:
        """A message of several frames, or what is left of it, as far as the window goes."""
        if not sender.torn:
            sender.torn = True
            sender.torn_id = self.next_id
            sender.torn_tag = self._next_tag
            sender.sent_bytes = 0
            self._begin(link, sender, run, bodies, 1)
        start = _offset(run, run.index) - run.base
        end = _offset(run, run.index + 1) - run.base
        at = payload_at(run.data, start)
        head = b""
        if run.heads is not None:
            head = run.heads.head(run.data, at, end, run.delivery_count, run.acquired)
            at = run.heads.bare_at
        whole = len(head) + end - at
        cost: i64 = 0
        while sender.sent_bytes < whole and self.window.left > floor and cost < budget:
            before = sender.sent_bytes
            sender.sent_bytes = write_piece(
                self._output,
                self.channel,
                link.handle,
                sender.torn_id,
                sender.torn_tag,
                run.settled,
                head,
                run.data,
                at,
                end,
                before,
                self._output.max_frame_size,
            )
            self.window.take(1)
            cost += _cost(sender.sent_bytes - before, 1)
        if sender.sent_bytes == whole:
            sender.torn = False
            run.advance(1)
        return cost


def _cost(byte_count: i64, count: i64) -> i64:
    """What these frames take of the budget, with so many bytes of payload."""
    if byte_count >= count * LARGE_BYTES:
        byte_count //= LARGE_PART
    return byte_count + count * FRAME_COST


def _offset(run: Run, index: i64) -> i64:
    return i64(read_i32_le(run.offsets, 4 * index))
