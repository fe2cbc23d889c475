"""How many messages a mirrored queue loses when a mirror leads that is not synchronised.

A mirror that is not synchronised does not know how many messages its leader has. So its node asks
the leaders about every ASK_MS, as long as there is such a mirror, and keeps the last answer. When
the mirror is promoted, the loss is what that answer counted, less the messages of that time that
the mirror has. Messages that consumers acknowledged since the answer count as lost; messages that
came after it and are missing do not.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final, Protocol

from msgspec import Struct

from node.events.logs import ids_of
from queues.definitions.broker_objects import Queue

log = logging.getLogger("warren.mirroring")

LENGTHS: Final = "lengths of mirrored queues"  # a question: [uid, ...]
ASK_MS: Final = 1000
EVENT: Final = "queue.mirror.promoted.unsynchronised"


class Length(Struct, frozen=True):
    """Of a leader: how many messages the queue has, and the sequence number of the next one."""

    count: int
    next_seq: int


class Lengths(Protocol):
    """The queues of this node (`node.cluster.queues.mirrors.Mirrors`)."""

    def length(self, uid: int) -> Length | None:
        """None: this node does not lead the queue."""

    def count_below(self, uid: int, seq: int) -> int:
        """How many messages with lower sequence numbers this node has with their bodies."""

    def queue_of(self, uid: int) -> Queue | None: ...


class Asking(Protocol):
    """`node.cluster.services.status_channel.StatusChannel`."""

    def serve(self, question: str, answer: Callable[[int, Any], AsyncIterator[object]]) -> None: ...

    async def ask_others(
        self, question: str, about: object = None, timeout_s: float = 2.0
    ) -> Mapping[int, list[Any] | None]: ...


class Telling(Protocol):
    """`node.events.events.Events`."""

    def tell(self, name: str, /, **properties: object) -> None: ...


class MirrorLosses:
    """See the module. All methods run on the loop thread."""

    def __init__(self, asking: Asking, lengths: Lengths, events: Telling) -> None:
        self.promotions = 0  # of mirrors of this node that were not synchronised
        self.messages = 0  # that these promotions have lost, as far as known
        self._asking = asking
        self._lengths = lengths
        self._events = events
        self._wanted: dict[int, None] = {}  # uids to ask about next
        self.known: dict[int, Length] = {}  # by uid, as the leaders answered last
        self._asked_ms = -ASK_MS
        self._task: asyncio.Task[None] | None = None
        asking.serve(LENGTHS, self._answer)

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    # Asking

    def want(self, uid: int) -> None:
        """A mirror of this node is not synchronised."""
        self._wanted[uid] = None

    def forget(self, uid: int) -> None:
        """It is synchronised, or gone."""
        self._wanted.pop(uid, None)
        self.known.pop(uid, None)

    def tick(self, now_ms: int) -> None:
        if not self._wanted or now_ms - self._asked_ms < ASK_MS:
            return
        if self._task is not None and not self._task.done():
            return
        self._asked_ms = now_ms
        wanted, self._wanted = list(self._wanted), {}
        self._task = asyncio.get_running_loop().create_task(self._ask(wanted))

    async def _ask(self, uids: list[int]) -> None:
        answers = await self._asking.ask_others(LENGTHS, uids)
        for parts in answers.values():
            for part in parts or ():
                match part:
                    case [int(uid), int(count), int(next_seq)]:
                        self.known[uid] = Length(count, next_seq)

    async def _answer(self, asker: int, about: Any) -> AsyncIterator[object]:
        for uid in about if isinstance(about, list) else ():
            found = self._lengths.length(uid) if isinstance(uid, int) else None
            if found is not None:
                yield [uid, found.count, found.next_seq]

    # Promotions

    def promoted(self, uid: int) -> None:
        """The mirror here leads without being synchronised: report what is lost."""
        known = self.known.pop(uid, None)
        queue = self._lengths.queue_of(uid)
        if queue is None:
            return
        self.promotions += 1
        fields: dict[str, object] = {"name": queue.name, "vhost": queue.vhost}
        if known is None:
            words = "the messages that only the other mirrors had are lost"
        else:
            count = max(0, known.count - self._lengths.count_below(uid, known.next_seq))
            self.messages += count
            fields["messages_lost"] = count
            words = f"about {count} messages are lost"
        log.error(
            "queue '%s' in vhost '%s': the mirror on this node leads without being synchronised; "
            "%s (ha-promote-on-failure, ha-promote-on-shutdown)",
            *(queue.name, queue.vhost, words),
            extra=ids_of(queue=queue.name, vhost=queue.vhost),
        )
        self._events.tell(EVENT, **fields)
