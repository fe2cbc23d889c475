"""A stream of a standby: appends the messages that the primary's stream has more. Not compiled.

The publisher is known to the stream by a name with the uid of the primary's stream, and publishes
each message with its offset there as the publishing id. The stream leaves out what it has had, and
tells a standby that has restarted how far it is. Offsets that consumers have stored follow behind
the messages, as offsets of the stream here. Works on the node that leads the stream.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from node.standby.held_queue import Primary, QueueFault, StandbySession
from queues.definitions.metadata.commands import DeleteQueue
from queues.machine.commands import EndSession
from queues.streams.host import StreamHost

if TYPE_CHECKING:
    from node.broker import Broker

ANSWER_S: Final = 20.0
UNKNOWN: Final = -1


class HeldStream:
    """Has what `HeldQueue` has. Invariant: the stream here has all messages of the primary's stream
    `_uid` below the offset `_next`, less what retention has removed at either side."""

    def __init__(self, broker: "Broker", uid: int) -> None:
        self._broker = broker
        self._sink = StandbySession(broker.identity.new_session())
        host = broker.queues.host(uid)
        assert isinstance(host, StreamHost)
        self._host = host
        self._uid = 0
        self._next = UNKNOWN
        self._published = 0
        self._token = b""  # of the primary when all of it was here last
        self._offsets: dict[bytes, int] = {}  # stored here by name, as they are at the primary
        self.copied_count = 0
        self.copied_bytes = 0
        self.settled_count = 0  # nothing is settled in a stream

    @property
    def held_count(self) -> int:
        return int(self._host.ready_count)

    def is_as(self, token: bytes) -> bool:
        """Whether all of the primary's stream, which has this token, is here."""
        return bool(token) and token == self._token and not self._sink.fault

    async def follow(self, primary: Primary) -> bool:
        """Have the messages of the primary's stream. False: an alarm is set here, and some are not
        copied."""
        self._token = b""
        name = b"standby of %x" % primary.uid
        if self._uid != primary.uid or self._next == UNKNOWN:
            self._uid, self._next = primary.uid, await self._next_of(name)
            if self._next == 0 and self._host.ready_count:
                self._make_again()
        alarms = self._broker.alarms
        for first, count in primary.runs:
            while self._next < first + count:
                start = max(first, self._next)
                runs = [(start, first + count - start)]
                found = [] if alarms.is_set() else await primary.messages(runs)
                if alarms.is_set():
                    return False
                if not found:
                    return True
                self._broker.turn.begin()
                for run in found:
                    size = len(run.sizes)
                    ids = [(run.first, size)]
                    self._host.publish_identified(
                        self._sink, run.chunk(), self._published + 1, name, ids
                    )
                    self._published += size
                    self.copied_count += size
                    self.copied_bytes += len(run.data)
                await self._sink.until(self._is_confirmed, "the stream does not confirm messages")
                self._next = found[-1].first + len(found[-1].sizes)
        await self._follow_offsets(primary.offsets)
        self._token = primary.token
        return True

    async def _follow_offsets(self, offsets: Sequence[tuple[bytes, int]]) -> None:
        """Store what consumers have stored at the primary. Its message `offset` is the message
        `offset - ahead` here; a consumer that is before the first message here gets no offset."""
        changed = [(name, each) for name, each in offsets if self._offsets.get(name) != each]
        if not changed:
            return
        ahead = self._next - self._next_here()
        kept = [(name, each) for name, each in changed if each >= ahead]
        self._broker.turn.begin()
        for name, each in kept:
            self._host.store_offset(name, each - ahead)
        if kept:
            await self._answer(partial(self._host.query_offset, kept[-1][0]))
        self._offsets.update(changed)

    def _next_here(self) -> int:
        """The offset here of the message that comes next."""
        if self._host.member is None:
            raise QueueFault("another node leads the stream now")
        return int(self._host.member.next_offset)

    def release(self, is_promoted: bool) -> None:
        """Publish no more."""
        if not self._sink.fault:
            self._broker.turn.begin()
            self._host.command(self._sink, EndSession(self._sink.session))

    def _is_confirmed(self) -> bool:
        return self._sink.confirmed >= self._published

    async def _next_of(self, name: bytes) -> int:
        """The offset at the primary of the message that comes next."""
        last = await self._answer(partial(self._host.query_publisher, name))
        return 0 if last is None else last + 1

    async def _answer(self, ask: Callable[[Callable[[int | None], None]], None]) -> int | None:
        """What the stream says, behind all that it was asked before."""
        told: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()

        def answered(last: int | None) -> None:
            if not told.done():
                told.set_result(last)

        self._broker.turn.begin()
        ask(answered)
        try:
            async with asyncio.timeout(ANSWER_S):
                return await told
        except TimeoutError:
            raise QueueFault("the stream does not answer") from None

    def _make_again(self) -> None:
        """Delete the stream here, which is a copy of one that the primary has no more."""
        self._next = UNKNOWN
        self._broker.turn.begin()
        self._broker.definitions.propose(DeleteQueue(self._host.vhost, self._host.name))
        raise QueueFault("the primary has another stream of that name: it is copied again")
