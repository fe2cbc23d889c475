"""A subscription that is a single active consumer: what its group says goes to its client.

The client is asked by ConsumerUpdate, one at a time, and answers with the offset from which it
wants to read, or, when it is to stop, with none. The subscription sends nothing before the first
answer, and stops at once when its group says so. The group hears of that after the client's answer,
so that the client can store its offset before another consumer asks for it. A client that does not
answer for ANSWER_MS is closed (`is_late`).
"""

from typing import Final

from node.streams.connection import StreamConnection
from node.streams.subscription import Subscription
from queues.streams.groups import NO_PARTITION
from queues.streams.offsets import Start
from warren.wire.stream.codes import CONSUMER_UPDATE
from warren.wire.stream.frames import FrameWriter

ANSWER_MS: Final = 60_000
NUMBER_MAX: Final = (1 << 32) - 1


class Updates:
    """ConsumerUpdates of a connection that its client has not answered, by correlation id."""

    def __init__(self) -> None:
        self._open: dict[int, SingleActive] = {}
        self._last = 0

    def add(self, consumer: "SingleActive") -> int:
        """The correlation id of one that is about to be sent."""
        self._last = self._last % NUMBER_MAX + 1
        self._open[self._last] = consumer
        return self._last

    def take(self, correlation: int) -> "SingleActive | None":
        """The one that is answered, or needs no answer any more; None: there is no such one."""
        return self._open.pop(correlation, None)

    def is_late(self, now_ms: int) -> bool:
        return any(each.is_late(now_ms) for each in self._open.values())


class SingleActive:
    """See the module. `end` must be called."""

    def __init__(
        self, endpoint: StreamConnection, subscription: Subscription, partition: int = NO_PARTITION
    ) -> None:
        self.subscription = subscription
        self._endpoint = endpoint
        self._is_wanted = False  # the group wants it to be active
        self._is_told = False  # what the client heard last
        self._asked: int | None = None  # correlation id of the update that is not answered
        self._asked_ms = 0
        name = subscription.name.encode()
        self._group = subscription.host.join_group(name, partition, self._changed)

    def _changed(self, is_active: bool) -> None:
        self._is_wanted = is_active
        if not is_active:
            self.subscription.stop()
        self._ask()

    def _ask(self) -> None:
        if self._asked is not None or self._is_wanted == self._is_told:
            return
        self._is_told = self._is_wanted
        self._asked_ms = self._endpoint.broker.monotonic_ms()
        self._asked = self._endpoint.updates.add(self)
        update = FrameWriter(CONSUMER_UPDATE).u32(self._asked).u8(self.subscription.number)
        self._endpoint.send(update.u8(int(self._is_told)))

    def answered(self, start: Start | None, value: int) -> None:
        """The client has answered; None: with no offset."""
        self._asked = None
        if not self._is_told:
            self._group.stopped()
        elif self._is_wanted:
            self.subscription.begin(start, value)
        self._ask()

    def is_late(self, now_ms: int) -> bool:
        return self._asked is not None and now_ms - self._asked_ms >= ANSWER_MS

    def end(self) -> None:
        if self._asked is not None:
            self._endpoint.updates.take(self._asked)
        self._group.end()
