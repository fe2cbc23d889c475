"""A queue of a standby: brings its messages to those that the primary's queue has. Not compiled.

One exclusive consumer without a limit holds all messages of the queue, so that nothing expires or
is dropped, and messages that the primary has settled can be settled by number. Works on the node
that leads the queue. While a resource alarm is set, messages are settled and none is asked for or
written. `release` gives the messages back, in their places and not redelivered.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from federation.standby_numbers import Numbers, Runs, slices
from node.events.consumerless import Consumerless
from node.operations.body_access import BodyReads
from node.standby.labels import Label, label_of, labelled
from node.standby.stored_runs import StoredRun, stored_runs
from queues.machine.commands import (
    ACCEPT,
    RETURN_UNSEEN,
    Attach,
    Detach,
    EndSession,
    SessionId,
    Settle,
    consumer_key,
)
from queues.queue_host import QueueHost
from queues.sessions.credit import CreditActor, CreditSpec

if TYPE_CHECKING:
    from node.broker import Broker
    from queues.hosts.queue_core import QueueCore

NUMBER: Final = 1  # of the consumer
CREDIT_ALL: Final = 1 << 40
YEARS_MS: Final = 315_360_000_000  # the consumer may keep messages so long
PATIENCE_S: Final = 20.0
COPIED_MAX: Final = 4096  # messages in one question
VERIFIED_MAX: Final = 4096  # the same
LEARNED_BYTES: Final = 1 << 62
UNLIMITED: Final = -1
CREDIT: Final = CreditSpec(4096, 2048)

ReadMessages = Callable[[Runs], Awaitable[list[StoredRun]]]
ReadDigests = Callable[[Runs], Awaitable[dict[int, bytes]]]


class QueueFault(Exception):
    """The queue cannot follow the primary now; the text says why."""


class Primary(Struct, frozen=True):
    """The queue at the primary, as it was asked for."""

    uid: int
    epoch: int
    runs: Runs
    messages: ReadMessages
    digests: ReadDigests
    offsets: Sequence[tuple[bytes, int]] = ()  # stored by consumers of a stream, by name
    token: bytes = b""  # another one whenever anything has changed there


class StandbySession(Consumerless):
    """The session of one queue. Keeps `queues.queue_host.SessionSink`."""

    def __init__(self, session: SessionId) -> None:
        self._session = session
        self._credit = CreditActor("standby", CREDIT)
        self.changed = asyncio.Event()
        self.confirmed = 0
        self.is_attached = False
        self.fault = ""

    @property
    def session(self) -> SessionId:
        return self._session

    @property
    def credit(self) -> CreditActor:
        return self._credit

    def on_confirms(self, uid: int, upto_seq: int) -> None:
        self.confirmed = upto_seq
        self.changed.set()

    def on_refused(self, uid: int, first_seq: int, count: int) -> None:
        self._fail("the queue refuses messages")

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
        self.changed.set()  # The machine knows what the consumer holds.

    def on_attached(self, uid: int, number: int) -> None:
        self.is_attached = True
        self.changed.set()

    def on_attach_refused(self, uid: int, number: int, reason: int) -> None:
        self._fail("the queue has a consumer already")

    def on_detached(self, uid: int, number: int, goes: bool) -> None:
        """The session ends with it."""

    def on_activated(self, uid: int, number: int, active: bool) -> None:
        """It is the only consumer."""

    def on_got(self, uid: int, message: int, redelivered: bool, ready: int, attempts: int) -> None:
        raise AssertionError("nothing was asked for")

    def on_purged(self, uid: int, count: int) -> None:
        raise AssertionError("nothing was purged")

    def on_inspected(self, uid: int, ready: int, consumer_count: int) -> None:
        raise AssertionError("nothing was inspected")

    def on_loaded(self, uid: int) -> None:
        return

    def on_unreadable(self, uid: int) -> None:
        return

    def on_gone(self, uid: int) -> None:
        self._fail("the queue was deleted")

    def on_timed_out(self, uid: int, number: int, timeout_ms: int) -> None:
        self._fail("the queue has taken its messages back")

    def _fail(self, text: str) -> None:
        self.fault = text
        self.changed.set()

    async def until(self, is_so: Callable[[], bool], otherwise: str) -> None:
        """Wait; QueueFault: it has not come about."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not is_so() and not self.fault:
                    self.changed.clear()
                    await self.changed.wait()
        except TimeoutError:
            raise QueueFault(otherwise) from None
        if self.fault:
            raise QueueFault(self.fault)


class HeldQueue:
    """`_token`: that of the primary when all of it was here last; b"": it was not.

    Invariant: `_numbers` has the messages whose labels were read, which are those up to
    `_learned` in the queue here; their numbers at the primary belong to `_place`."""

    def __init__(self, broker: "Broker", uid: int) -> None:
        self._broker = broker
        self._uid = uid
        self._reads = BodyReads(broker)
        self._sink = StandbySession(broker.identity.new_session())
        self._key = consumer_key(self._sink.session, NUMBER)
        self._host: QueueHost | None = None
        self._published = 0
        self._learned = 0
        self._place = (0, 0)  # uid and epoch
        self._numbers = Numbers()
        self._token = b""
        self.copied_count = 0
        self.copied_bytes = 0
        self.settled_count = 0

    @property
    def held_count(self) -> int:
        return int(self._numbers.held.count)

    def is_as(self, token: bytes) -> bool:
        """Whether the queue here is the same as that of the primary, which has this token."""
        core = self._broker.queues.hosts.awake.get(self._uid)
        if not token or token != self._token or self._sink.fault or core is None:
            return False
        held = self._numbers.held.count
        return bool(core.checked_out_count == held == core.machine.length())

    async def follow(self, primary: Primary) -> bool:
        """Have the messages of the primary's queue, and no others. False: an alarm is set here, and
        some are not copied."""
        self._token = b""
        if self._host is None:
            await self._attach()
        if self._place != (primary.uid, primary.epoch):
            self._place, self._learned, self._numbers = (primary.uid, primary.epoch), 0, Numbers()
        await self._learn(primary)
        gone = self._numbers.drop(self._numbers.surplus(primary.runs))
        self.settled_count += sum(count for _, count in gone)
        self._settle(gone)
        for part in slices(self._numbers.missing(primary.runs), COPIED_MAX):
            if not await self._copy(primary, part):
                return False
        if not (self._numbers.missing(primary.runs) or self._numbers.surplus(primary.runs)):
            self._token = primary.token
        return True

    def release(self, is_promoted: bool) -> None:
        """Hold nothing any more. If it is promoted, its messages are as they were published."""
        host, self._host = self._host, None
        if host is None or self._sink.fault:
            return
        self._broker.turn.begin()
        core = self._broker.queues.hosts.awake.get(self._uid)
        held = [] if core is None else self._held(core)
        if is_promoted and held:
            host.command(self._sink, Detach(self._key))  # Or it gets them again.
            host.command(self._sink, Settle(self._key, RETURN_UNSEEN, held))
        host.command(self._sink, EndSession(self._sink.session))

    # The consumer

    async def _attach(self) -> None:
        self._broker.turn.begin()
        host = self._broker.queues.host(self._uid)
        host.command(
            self._sink,
            Attach(self._key, CREDIT_ALL, False, True, 0, YEARS_MS, UNLIMITED, UNLIMITED),
        )
        self._host = host
        await self._sink.until(lambda: self._sink.is_attached, "the queue does not answer")

    async def _holding(self) -> "QueueCore":
        """The queue, once the consumer holds all its messages."""

        def holds_all() -> bool:
            core = self._core()
            return bool(core.ready_count == 0 and core.checked_out_count == core.machine.length())

        await self._sink.until(holds_all, "the queue does not give all its messages to the standby")
        return self._core()

    def _core(self) -> "QueueCore":
        core = self._broker.queues.hosts.awake.get(self._uid)
        if core is None or not self._broker.operating.is_led_here(self._uid):
            raise QueueFault("another node leads the queue now")
        return core

    def _held(self, core: "QueueCore") -> Runs:
        consumer = core.machine.consumers.get(self._key)
        return [] if consumer is None else consumer.held.runs()

    # Labels

    async def _learn(self, primary: Primary) -> None:
        """Read the labels of messages that have come to the queue here."""
        core = await self._holding()
        after = self._learned + 1
        runs = [
            (max(first, after), first + count - max(first, after))
            for first, count in self._held(core)
            if first + count > after
        ]
        found: list[tuple[int, Label]] = []
        async for run in stored_runs(self._reads, core, runs, LEARNED_BYTES):
            for here, message in enumerate(run.messages(), run.first):
                label = label_of(run.format_tag, message)
                if label is None:
                    raise QueueFault("it has messages that do not come from the primary")
                found.append((here, label))
            if len(found) >= VERIFIED_MAX:
                await self._note(primary, found)
                found = []
            await asyncio.sleep(0)
        await self._note(primary, found)
        self._learned = runs[-1][0] + runs[-1][1] - 1 if runs else self._learned

    async def _note(self, primary: Primary, found: list[tuple[int, Label]]) -> None:
        """Know these from now on, all or, if the primary does not answer, none: what is noted twice
        counts as a copy that was made twice. Those that the primary does not have go."""
        same = await self._verified(primary, [each for each in found if self._is_doubtful(each[1])])
        stale: Runs = []
        for here, label in found:
            is_there = here in same or (label.uid, label.epoch) == self._place
            if not is_there or not self._numbers.note(label.number, here):
                stale.append((here, 1))
            self._learned = here
        self._settle(stale)

    def _is_doubtful(self, label: Label) -> bool:
        """Whether the node of the primary's queue has restarted since this one was copied."""
        return label.uid == self._place[0] and label.epoch != self._place[1]

    async def _verified(self, primary: Primary, doubtful: list[tuple[int, Label]]) -> set[int]:
        """Those that are still the same at the primary, by their numbers here."""
        known: dict[int, bytes] = {}
        for start in range(0, len(doubtful), VERIFIED_MAX):
            some = doubtful[start : start + VERIFIED_MAX]
            known |= await primary.digests(sorted((label.number, 1) for _, label in some))
        return {here for here, label in doubtful if known.get(label.number) == label.digest}

    # Messages

    def _settle(self, runs: Runs) -> None:
        if runs and self._host is not None:
            self._broker.turn.begin()
            self._host.command(self._sink, Settle(self._key, ACCEPT, runs))

    def _is_confirmed(self) -> bool:
        return self._sink.confirmed >= self._published

    async def _copy(self, primary: Primary, runs: Runs) -> bool:
        """Publish these messages of the primary; those that have left it meanwhile are left out.
        False: not all, because of an alarm."""
        assert self._host is not None
        alarms = self._broker.alarms
        while runs:
            found = [] if alarms.is_set() else await primary.messages(runs)
            if alarms.is_set():
                return False
            if not found:
                return True
            self._broker.turn.begin()
            for run in found:
                chunk = labelled(run, primary.uid, primary.epoch)
                self._host.publish(self._sink, chunk, self._published + 1)
                self._published += int(chunk.count())
                self.copied_count += int(chunk.count())
                self.copied_bytes += len(run.data)
            await self._sink.until(self._is_confirmed, "the queue does not confirm messages")
            await self._learn(primary)
            end = found[-1].first + len(found[-1].sizes)
            runs = [
                (max(first, end), first + count - max(first, end))
                for first, count in runs
                if first + count > end
            ]
        return True
