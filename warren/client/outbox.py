"""What a publisher has been given and has no outcome yet: waiting, offered, on its way.

Messages leave in the order in which they were put in, as encoded bytes. Those of one call are a
`Batch` with one future, so that a thousand of them cost little more than one. At most `waiting_max`
messages wait; a publish beyond that raises `PublisherFull`, or waits for room.

Ids are those under which messages are sent; they count up from message to message, and wrap at
`id_mask`. No I/O; not compiled, for it owns futures.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from itertools import islice

from warren.client.errors import ClientError, PublisherFull
from warren.client.outcome import ACCEPTED_OUTCOME, SENT, Outcome


class Batch:
    """Messages that were published together. `one` or `all` is the future for their outcomes.

    Invariant: the first `taken` of them have been taken to be sent; `left` have no outcome yet.
    """

    __slots__ = ("all", "first_id", "left", "odd", "one", "ordinary", "payloads", "taken")

    def __init__(
        self,
        payloads: list[bytes],
        one: "asyncio.Future[Outcome] | None",
        all_: "asyncio.Future[list[Outcome]] | None",
    ) -> None:
        self.payloads = payloads
        self.one = one
        self.all = all_
        self.taken = 0
        self.left = len(payloads)
        self.first_id = -1  # of its first message, once that is sent
        self.ordinary = ACCEPTED_OUTCOME
        self.odd: dict[int, Outcome] = {}  # outcomes other than that, by place

    @property
    def unsent(self) -> int:
        return len(self.payloads) - self.taken

    @property
    def is_over(self) -> bool:
        """No caller waits for it any more: it was cancelled, or has failed."""
        return self.one.done() if self.one is not None else self.all is None or self.all.done()

    def resolve(self) -> None:
        """All outcomes are there."""
        if self.is_over:
            return
        if self.one is not None:
            self.one.set_result(self.odd.get(0, self.ordinary))
        elif self.all is not None:
            ordinary, odd = self.ordinary, self.odd
            self.all.set_result([odd.get(place, ordinary) for place in range(len(self.payloads))])

    def fail(self, error: ClientError) -> None:
        if self.is_over:
            return
        if self.one is not None:
            self.one.set_exception(error)
        elif self.all is not None:
            self.all.set_exception(error)


class Outbox:
    """Invariant: a message is waiting, offered or unsettled until its outcome is known."""

    def __init__(self, waiting_max: int, id_mask: int) -> None:
        self.waiting_max = waiting_max
        self.waiting_count = 0
        self.accepted_count = 0  # so far
        self._id_mask = id_mask
        self._waiting: deque[Batch] = deque()  # each has unsent messages
        self._offered: deque[tuple[Batch, int]] = deque()  # taken, and not known to be sent
        self._unsettled: dict[int, Batch] = {}  # by id, in the order of sending
        self._room = asyncio.Event()

    @property
    def unsettled_count(self) -> int:
        """Messages that were sent and have no outcome."""
        return len(self._unsettled)

    @property
    def unconfirmed(self) -> int:
        """Messages without an outcome, sent or not."""
        offered = sum(count for _, count in self._offered)
        return self.waiting_count + offered + len(self._unsettled)

    @property
    def in_flight(self) -> int:
        """Messages that were taken to be sent and have no outcome."""
        return sum(count for _, count in self._offered) + len(self._unsettled)

    @property
    def first_unsettled(self) -> int:
        """The id of the oldest message that was sent and has no outcome; -1: there is none."""
        return next(iter(self._unsettled), -1)

    # What the publisher's user does

    def put_one(self, payload: bytes) -> "asyncio.Future[Outcome]":
        """PublisherFull: too many wait."""
        self._check_room(1)
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting.append(Batch([payload], future, None))
        self.waiting_count += 1
        return future

    def put(self, payloads: list[bytes]) -> "asyncio.Future[list[Outcome]]":
        """The same for many, with one future. PublisherFull: they would be too many."""
        self._check_room(len(payloads))
        future: asyncio.Future[list[Outcome]] = asyncio.get_running_loop().create_future()
        if not payloads:
            future.set_result([])
            return future
        self._waiting.append(Batch(payloads, None, future))
        self.waiting_count += len(payloads)
        return future

    async def wait_room(self, count: int = 1) -> int:
        """Wait until `count` more may be put in; how many may be."""
        while self.waiting_count and self.waiting_count + count > self.waiting_max:
            self._room.clear()
            await self._room.wait()
        return self.waiting_max - self.waiting_count

    def _check_room(self, count: int) -> None:
        if self.waiting_count + count > self.waiting_max:
            raise PublisherFull(
                f"{self.waiting_count} messages wait to be sent and {count} more would be over the "
                f"limit of {self.waiting_max}"
            )

    # What becomes of them

    def take(self, room: int, bytes_max: int | None = None) -> list[bytes]:
        """Up to `room` messages to be sent next; those that were given up are left out.

        They have at most `bytes_max` bytes, but the first one may have more if nothing is on its
        way: else a large message would wait for ever.
        """
        if bytes_max is not None:
            room = self._fitting(room, bytes_max)
        taken: list[bytes] = []
        waiting = self._waiting
        while waiting and len(taken) < room:
            batch = waiting[0]
            if batch.is_over:
                waiting.popleft()
                self.waiting_count -= batch.unsent
                continue
            part = batch.payloads[batch.taken : batch.taken + room - len(taken)]
            batch.taken += len(part)
            self.waiting_count -= len(part)
            self._offered.append((batch, len(part)))
            taken += part
            if not batch.unsent:
                waiting.popleft()
        if self.waiting_count < self.waiting_max:
            self._room.set()
        return taken

    def _fitting(self, room: int, bytes_max: int) -> int:
        """How many of the next `room` messages have at most that many bytes together."""
        fitting = 0
        for batch in self._waiting:
            if batch.is_over:
                continue
            for payload in islice(batch.payloads, batch.taken, None):
                bytes_max -= len(payload)
                if fitting >= room or (bytes_max < 0 and (fitting or self.in_flight)):
                    return fitting
                fitting += 1
        return fitting

    def sent(self, first_id: int, count: int, settled: bool) -> None:
        """The next `count` messages taken are on their way; `settled`: no outcome follows."""
        mask = self._id_mask
        while count:
            batch, offered = self._offered.popleft()
            part = min(count, offered)
            if part < offered:
                self._offered.appendleft((batch, offered - part))
            if batch.first_id < 0:
                batch.first_id = first_id
            if settled:
                batch.ordinary = SENT
                batch.left -= part
                if not batch.left:
                    batch.resolve()
            else:
                ids: Iterable[int] = range(first_id, first_id + part)
                if first_id + part > mask:
                    ids = [each & mask for each in ids]
                self._unsettled.update(dict.fromkeys(ids, batch))
            first_id = (first_id + part) & mask
            count -= part

    def withdrawn(self, count: int) -> int:
        """The last `count` messages taken have not been sent, and wait again; their bytes."""
        self.waiting_count += count
        size = 0
        while count:
            batch, offered = self._offered.pop()
            part = min(count, offered)
            if part < offered:
                self._offered.append((batch, offered - part))
            if not batch.unsent:
                self._waiting.appendleft(batch)
            batch.taken -= part
            size += sum(map(len, batch.payloads[batch.taken : batch.taken + part]))
            count -= part
        return size

    def settled(self, first: int, last: int, outcome: Outcome) -> None:
        """The outcome of the messages first..last, as far as they have none yet."""
        unsettled = self._unsettled
        is_odd = outcome is not ACCEPTED_OUTCOME
        before = len(unsettled)
        for each in self._named(first, last):
            batch = unsettled.pop(each, None)
            if batch is None:
                continue
            batch.left -= 1
            if is_odd:
                batch.odd[(each - batch.first_id) & self._id_mask] = outcome
            if not batch.left:
                batch.resolve()
        if not is_odd:
            self.accepted_count += before - len(unsettled)

    def _named(self, first: int, last: int) -> Iterable[int]:
        """The ids first..last; of a long range those that have no outcome yet."""
        mask = self._id_mask
        count = ((last - first) & mask) + 1
        if count > len(self._unsettled):
            return [each for each in self._unsettled if (each - first) & mask < count]
        if last >= first:
            return range(first, last + 1)
        return [each & mask for each in range(first, first + count)]

    def lost(self, error: ClientError, for_good: bool) -> None:
        """The way to the broker is gone. What was sent fails; the rest waits, unless for good."""
        self.withdrawn(sum(count for _, count in self._offered))
        failed = list(dict.fromkeys(self._unsettled.values()))
        self._unsettled = {}
        if for_good:
            failed += self._waiting
            self._waiting.clear()
            self.waiting_count = 0
            self._room.set()
        for batch in failed:
            batch.fail(error)
