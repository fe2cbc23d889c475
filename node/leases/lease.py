"""One lease: a session of a queue that belongs to no connection.

What it fetches stays unacknowledged, in numbered batches, until a client commits them or the lease
ends. It has one consumer, whose credit is what is being fetched, so nothing is delivered in
between. The node ends it (`Leases`); then the queue has its messages back, as redelivered.

A fetch asks the queue for SAMPLE messages, looks at their size, and asks for more, SLICE at a time,
as long as the mean size says that there is room. So bytes are estimates. A fetch that the queue
does not answer within PATIENCE_S fails; messages that come later belong to the next batch.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from node.leases.batches import Batch, Batches, HeldRun, Room
from queues.definitions.broker_objects import Queue
from queues.machine.commands import (
    ACCEPT,
    Attach,
    Credit,
    EndSession,
    SessionId,
    Settle,
    consumer_key,
)
from queues.queue_host import QueueHost, View
from queues.runs.seqset import SeqSet
from queues.sessions.credit import CreditActor, CreditSpec

SAMPLE: Final = 256  # messages whose mean size stands for the rest of a slice
SLICE: Final = 10_000
PATIENCE_S: Final = 10.0
NUMBER: Final = 1  # of the lease's consumer in its session
NO_TIMEOUT: Final = 0  # the lease has a time limit of its own
CREDIT: Final = CreditSpec(1 << 20, 1 << 19)  # a lease publishes nothing


class LeaseFault(Exception):
    """A request to a lease is not carried out; `status` is that of HTTP."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class Reader(Protocol):
    """Sends messages of a batch to a client (`node.amqp10.links.lease_link`)."""

    @property
    def batch_number(self) -> int: ...

    def on_loaded(self) -> None:
        """Bodies that `view` could not give may be there now."""

    def on_lease_over(self, text: str) -> None:
        """The lease has ended, the batch was committed, or a message cannot be read."""


class Lease:
    """Invariant: the queue has a consumer of this session from `open` until `over` is set."""

    def __init__(
        self,
        queue: Queue,
        name: str,
        user: str,
        host: QueueHost,
        session: SessionId,
        limits: Room,
        begin_turn: Callable[[], None],
    ) -> None:
        self.queue = queue
        self.name = name
        self.user = user  # that opened it
        self.host = host
        self.timeout_ms = 0  # without renewal
        self.due_ms = 0  # monotonic: when it ends unless it is renewed
        self.batches = Batches(limits)
        self.readers: set[Reader] = set()
        self.over = ""  # why the lease has ended
        self.told_ms = 0  # monotonic: when other nodes heard of it last
        self._session = session
        self._key = consumer_key(session, NUMBER)
        self._credit = CreditActor(f"lease {name}", CREDIT)
        self._begin_turn = begin_turn
        self._lock = asyncio.Lock()  # one question to the queue at a time
        self._heard = asyncio.Event()  # the queue has said something
        self._is_attached = False
        self._is_drained = False
        self._is_unreadable = False  # a body that was looked at
        self._delivered = 0  # the consumer's delivery count
        self._arrived: list[HeldRun] = []  # delivered, and in no batch yet

    @property
    def session(self) -> SessionId:
        return self._session

    @property
    def credit(self) -> CreditActor:
        return self._credit

    @property
    def count(self) -> int:
        """Messages that it holds."""
        return self.batches.count + sum(run.count for run in self._arrived)

    # What clients ask

    async def open(self) -> None:
        """Attach to the queue. LeaseFault: it refuses, or does not answer."""
        self._begin_turn()
        self.host.command(self, Attach(self._key, 0, False, False, 0, NO_TIMEOUT))
        await self._until(lambda: self._is_attached)

    async def fetch(self, number: int, most: Room) -> Batch:
        """The batch of that number: the same messages each time, or the next ones if it is new.
        One without messages is not kept. LeaseFault; OutOfOrder."""
        async with self._lock:
            self.check()
            held = self.batches.find(number)
            if held is not None:
                return held
            room = self.batches.room()
            if room.messages == 0 or room.size_bytes == 0:
                raise LeaseFault(
                    507,
                    f"lease '{self.name}' of queue '{self.queue.name}' holds {self.batches.count} "
                    f"messages of about {self.batches.size_bytes} bytes and may hold no more "
                    "(leases.messages_max, leases.bytes_max): commit a batch first",
                )
            batch = Batch(number)
            try:
                await self._fill(
                    batch,
                    min(most.messages, room.messages),
                    min(most.size_bytes, room.size_bytes),
                )
            except BaseException:
                self._arrived[:0] = batch.runs  # They are in the next batch.
                raise
            if batch.count > 0:
                self.batches.add(batch)
            return batch

    async def restore(self, batches: Sequence[Batch], newest: int) -> bool:
        """Hold these batches of an earlier session, whose messages are ready again; those without
        any message left were settled. False: another consumer has some of them. Then this is a new
        lease, and what it got is in the next batch. LeaseFault: the queue does not answer."""
        async with self._lock:
            wanted = sum(each.count for each in batches)
            while wanted > 0:
                asked = min(wanted, SLICE)
                before = self.count
                await self._ask(asked)
                wanted -= asked
                if self.count - before < asked:
                    break
            arrived = SeqSet()
            for run in self._arrived:
                arrived.add(run.first, run.count)
            there = [
                sum(count for run in each.runs for _, count in arrived.within(run.first, run.count))
                for each in batches
            ]
            whole = [each for each, count in zip(batches, there, strict=True) if count]
            if sum(there) != sum(each.count for each in whole):
                return False
            for batch in whole:
                self.batches.add(batch)
                for run in batch.runs:
                    arrived.remove(run.first, run.count)
            self.batches.newest = max(self.batches.newest, newest)
            self._arrived = [HeldRun(first, count, True, 0) for first, count in arrived.runs()]
            return True

    async def _fill(self, batch: Batch, messages: int, size_bytes: int) -> None:
        late, self._arrived = self._arrived, []
        batch.add(late, 0)
        if late:
            batch.size_bytes += await self._size_of(late)
        wanted = SAMPLE
        while batch.count < messages and batch.size_bytes < size_bytes:
            wanted = min(wanted, messages - batch.count, SLICE)
            await self._ask(wanted)
            runs, self._arrived = self._arrived, []
            got = sum(run.count for run in runs)
            batch.add(runs, 0)
            if got == 0:
                return
            batch.size_bytes += await self._size_of(runs)
            if got < wanted:
                return
            mean = max(1, batch.size_bytes // batch.count)
            wanted = max(1, (size_bytes - batch.size_bytes) // mean)

    async def _ask(self, count: int) -> None:
        """Have the queue deliver up to `count` messages. LeaseFault: it does not answer."""
        self._is_drained = False
        self._begin_turn()
        self.host.command(self, Credit(self._key, self._delivered, count, True, False))
        await self._until(lambda: self._is_drained)

    async def _size_of(self, runs: list[HeldRun]) -> int:
        """Bytes, by the first SAMPLE messages."""
        total = sum(run.count for run in runs)
        size = seen = 0
        for run in runs:
            at, end = run.first, run.first + min(run.count, SAMPLE - seen)
            while at < end:
                view = await self._view(at, end - at)
                if view is None:
                    return size * total // max(1, seen)
                size += int(view.chunk.bytes_between(view.index, view.index + view.count))
                seen += int(view.count)
                at += int(view.count)
            if seen >= SAMPLE:
                break
        return size * total // max(1, seen)

    async def _view(self, first: int, count: int) -> View | None:
        """None: they cannot be read."""
        found: list[View | None] = []

        def is_decided() -> bool:
            if self._is_unreadable:
                return True
            self._begin_turn()
            view = self.host.view(self, first, count)
            if view is not None:
                found.append(view)
            return view is not None

        self._is_unreadable = False
        await self._until(is_decided)
        return found[0] if found else None

    def commit(self, upto: int) -> int:
        """Accept all messages of batches up to this number; how many. LeaseFault: it is over."""
        self.check()
        taken = self.batches.take_upto(upto)
        runs = [(run.first, run.count) for batch in taken for run in batch.runs]
        for reader in [each for each in self.readers if each.batch_number <= upto]:
            self.readers.discard(reader)
            reader.on_lease_over(f"batch {reader.batch_number} was committed")
        if runs:
            self._begin_turn()
            self.host.command(self, Settle(self._key, ACCEPT, runs))
        return sum(batch.count for batch in taken)

    def view(self, first: int, count: int) -> View | None:
        """For a reader; see `QueueHost.view`."""
        return self.host.view(self, first, count)

    def check(self) -> None:
        """LeaseFault: the lease is over."""
        if self.over:
            raise LeaseFault(404, self.over)

    def end(self, why: str) -> None:
        """Give the queue back what is held."""
        if not self.over:
            self._begin_turn()
            self.host.command(self, EndSession(self._session))
            self._end(why)

    def _end(self, why: str) -> None:
        self.over = f"lease '{self.name}' of queue '{self.queue.name}' is over: {why}"
        self._credit.peer_down_everywhere()
        readers, self.readers = self.readers, set()
        for reader in readers:
            reader.on_lease_over(self.over)
        self._heard.set()

    async def _until(self, reached: Callable[[], bool]) -> None:
        """LeaseFault: that is not so within PATIENCE_S, or the lease has ended."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    self.check()
                    self._heard.clear()
                    if reached():
                        return
                    await self._heard.wait()
        except TimeoutError:
            name = self.queue.name
            text = f"queue '{name}' does not answer lease '{self.name}' within {PATIENCE_S:g} s"
            raise LeaseFault(503, text) from None

    # What the queue tells

    def on_attached(self, uid: int, number: int) -> None:
        self._is_attached = True
        self._heard.set()

    def on_attach_refused(self, uid: int, number: int, reason: int) -> None:
        self.end("a consumer uses the queue exclusively")

    def on_delivers(
        self,
        uid: int,
        number: int,
        delivery_seq: int,
        first: int,
        count: int,
        redelivered: bool,
        attempts: int,
    ) -> None:
        self._delivered += int(count)
        self._arrived.append(HeldRun(int(first), int(count), redelivered, int(attempts)))

    def on_drained(self, uid: int, number: int, delivery_count: int) -> None:
        self._delivered = int(delivery_count)
        self._is_drained = True
        self._heard.set()

    def on_loaded(self, uid: int) -> None:
        self._heard.set()
        for reader in tuple(self.readers):
            reader.on_loaded()

    def on_unreadable(self, uid: int) -> None:
        self._is_unreadable = True
        self._heard.set()
        for reader in tuple(self.readers):
            reader.on_lease_over(f"messages of queue '{self.queue.name}' cannot be read")

    def on_timed_out(self, uid: int, number: int, timeout_ms: int) -> None:
        self.end("its consumer was slower than slow-consumer-threshold allows")

    def on_gone(self, uid: int) -> None:
        if not self.over:
            self._end("the queue was deleted, or its node is down")

    # What it is not told of, or need not know

    def on_activated(self, uid: int, number: int, active: bool) -> None:
        """While another consumer is the single active one, a fetch gets nothing."""

    def on_detached(self, uid: int, number: int, goes: bool) -> None:
        return

    def on_confirms(self, uid: int, upto_seq: int) -> None:
        return

    def on_refused(self, uid: int, first_seq: int, count: int) -> None:
        return

    def on_got(self, uid: int, message: int, redelivered: bool, ready: int, attempts: int) -> None:
        return

    def on_purged(self, uid: int, count: int) -> None:
        return

    def on_inspected(self, uid: int, ready: int, consumer_count: int) -> None:
        return
