"""A publisher and a consumer that never give up, and write down all that they do and see.

Each has a line to one node at a time, its own one to begin with (`homes`). A line that breaks is
replaced: by its own node if that answers, else by another at random; one on which nothing happens
for `patience_s` by that of another node. Who is away goes back when its own node answers again.
What was published and has no outcome when a line breaks is not published again: it is unknown what
became of it, and the history says just that.

A publisher has a new name for each line (`p1.3`: publisher 1, its third line), for the broker
promises an order within one channel or session only; so has a consumer. Bodies begin with the id
of the message and a blank.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from warren.client import ClientError, Outcome
from warren.testing.chaos.homes import Home
from warren.testing.chaos.lines import Line, OnLeader, Sender, Taken, closed
from warren.testing.history import Recorder

TICK_S: Final = 0.02  # a publisher sends what is due by then
RETRY_S: Final = 0.1  # after a line that broke
RELEASE_EVERY: Final = 50  # every so many deliveries one is given back


class Stalled(Exception):
    """Nothing has happened on a line for too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """How clients behave."""

    rate: float = 200.0  # messages per second of each publisher
    window: int = 200  # messages without an outcome, of each publisher
    size: int = 200  # bytes of a body
    credit: int = 100  # of each consumer
    patience_s: float = 10.0
    timeout_s: float = 5.0  # of dialling, declaring, closing
    back_s: float = 2.0  # about so often who is away asks whether its own node answers

    def home(self, urls: Sequence[str], protocol: str, number: int) -> Home:
        """Where client `number` has its lines."""
        return Home(
            urls,
            protocol,
            number,
            timeout_s=self.timeout_s,
            after_s=self.back_s,
            shunned_s=self.patience_s,
        )


class Counts:
    """What all clients together have seen so far."""

    def __init__(self) -> None:
        self.published = 0
        self.confirmed = 0
        self.refused = 0
        self.unknown = 0  # the line broke before there was an outcome
        self.delivered = 0
        self.taken = 0
        self.broken_lines = 0
        self.last_delivery_s = 0.0  # of the loop's clock


class Publishing:
    """One publisher.

    Invariant: `_pending` are the messages without an outcome, oldest first, with the time when they
    were sent; those of older lines are not among them.
    """

    def __init__(
        self,
        number: int,
        queue: str,
        urls: Sequence[str],
        protocol: str,
        habits: Habits,
        recorder: Recorder,
        counts: Counts,
    ) -> None:
        self._name = f"p{number}"
        self._queue = queue
        self._home = habits.home(urls, protocol, number)
        self._habits = habits
        self._recorder = recorder
        self._counts = counts
        self._lines = 0
        self._next = 0  # number of the next message: ascending over all lines
        self._pending: deque[tuple[asyncio.Future[Outcome], float]] = deque()
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Publish nothing more; `run` returns when outcomes are there, or in time."""
        self._stopping.set()

    async def run(self) -> None:
        try:
            while not self._stopping.is_set():
                try:
                    line = await self._home.line()
                except (OSError, ClientError):
                    await self._rest()
                    continue
                try:
                    await self._serve(line)
                except Stalled:
                    self._home.shun()
                except (OSError, ClientError):
                    await self._rest()
                finally:
                    self._pending.clear()
                    await closed(line.close(), self._habits.timeout_s)
        finally:
            await self._home.close()

    async def _serve(self, line: Line) -> None:
        """Publish on this line until it is lost, its own node is back, or all is over."""
        async with asyncio.timeout(self._habits.timeout_s):
            sender = await line.sender(self._queue)
        self._lines += 1
        name = f"{self._name}.{self._lines}"
        self._recorder.noted("line", name, str(self._home.at + 1))
        loop = asyncio.get_running_loop()
        due = loop.time()
        while not (self._stopping.is_set() or self._home.is_back):
            due = max(due, loop.time() - 10 * TICK_S)  # What could not be sent is not made up for.
            while due <= loop.time() and len(self._pending) < self._habits.window:
                self._send(sender, name)
                due += 1 / self._habits.rate
            self._look_back(loop.time())
            await asyncio.sleep(TICK_S)  # The pace.
        await self._await_outcomes()

    def _send(self, sender: Sender, name: str) -> None:
        self._next += 1
        message = f"{name}:{self._next}"
        self._recorder.published(self._queue, message, name)
        self._counts.published += 1
        future = sender.send(body_of(message, self._habits.size))
        self._pending.append((future, asyncio.get_running_loop().time()))
        future.add_done_callback(lambda done: self._resolved(message, done))

    def _resolved(self, message: str, future: "asyncio.Future[Outcome]") -> None:
        if future.cancelled():
            return
        if future.exception() is not None:
            self._counts.unknown += 1
        elif future.result().is_accepted:
            self._counts.confirmed += 1
            self._recorder.confirmed(message)
        else:
            self._counts.refused += 1
            self._recorder.refused(message)

    def _look_back(self, now: float) -> None:
        """Stalled: the oldest message has waited too long. The error of a line that is lost."""
        pending = self._pending
        while pending and pending[0][0].done():
            future, _ = pending.popleft()
            error = None if future.cancelled() else future.exception()
            if error is not None:
                self._counts.broken_lines += 1
                raise error
        if pending and now - pending[0][1] > self._habits.patience_s:
            self._counts.broken_lines += 1
            raise Stalled

    async def _await_outcomes(self) -> None:
        futures = [future for future, _ in self._pending]
        if futures:
            await asyncio.wait(futures, timeout=self._habits.patience_s)

    async def _rest(self) -> None:
        await asyncio.sleep(RETRY_S)  # Nothing tells when a node can be reached again.


class Consuming:
    """One consumer: takes what comes, gives some of it back once, accepts the rest."""

    def __init__(
        self,
        number: int,
        queue: str,
        urls: Sequence[str],
        protocol: str,
        habits: Habits,
        recorder: Recorder,
        counts: Counts,
        on_leader: OnLeader | None = None,
    ) -> None:
        self._name = f"c{number}"
        self._queue = queue
        self._home = habits.home(urls, protocol, number)
        self._habits = habits
        self._recorder = recorder
        self._counts = counts
        self._on_leader = on_leader
        self._lines = 0
        self._seen = 0
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Take nothing more; `run` returns when the line is closed."""
        self._stopping.set()

    async def run(self) -> None:
        try:
            while not self._stopping.is_set():
                try:
                    line = await self._home.line()
                except (OSError, ClientError):
                    await asyncio.sleep(RETRY_S)  # Nothing tells when a node can be reached again.
                    continue
                self._lines += 1
                await self._take_from(line, f"{self._name}.{self._lines}")
        finally:
            await self._home.close()

    async def _take_from(self, line: Line, name: str) -> None:
        """Consume on this line, and write down how that has ended."""
        is_clean = False
        try:
            await self._serve(line, name)
            is_clean = True
        except (OSError, ClientError):
            self._counts.broken_lines += 1
            await asyncio.sleep(RETRY_S)
        finally:
            self._recorder.ended(name, is_clean)
            await closed(line.close(), self._habits.timeout_s)

    async def _serve(self, line: Line, name: str) -> None:
        """Take what comes until the line is lost, its own node is back, or all is over."""
        async with asyncio.timeout(self._habits.timeout_s):
            taker = await line.taker(self._queue, self._habits.credit, self._on_leader)
        self._recorder.attached(self._queue, name)
        self._recorder.noted("line", name, str(self._home.at + 1))
        while not (self._stopping.is_set() or self._home.is_back):
            for taken in await taker.take(TICK_S):
                self._settle(taken, name)

    def _settle(self, taken: Taken, name: str) -> None:
        message = message_of(taken.body)
        counts = self._counts
        counts.delivered += 1
        counts.last_delivery_s = asyncio.get_running_loop().time()
        self._seen += 1
        self._recorder.delivered(self._queue, message, name, taken.redelivered)
        if self._seen % RELEASE_EVERY == 0 and not taken.redelivered:
            self._recorder.settled(message, name, "release")
            taken.settling.release()
            return
        self._recorder.settled(message, name, "accept")
        counts.taken += 1
        taken.settling.accept()


def body_of(message: str, size: int) -> bytes:
    """The body of that message: its id, a blank, zeros up to the size."""
    head = message.encode() + b" "
    return head.ljust(size, b"0")


def message_of(body: bytes) -> str:
    """The id in a body."""
    return body.partition(b" ")[0].decode("utf-8", "replace")
