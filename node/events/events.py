"""What happens on this node, reported to all listeners: rare things, never messages.

Takes `tell("queue.created", name=..., vhost=...)` on the loop thread: names are RabbitMQ's event
keys, properties its header names, values what a header of AMQP 0-9-1 can hold. Gives each `Event`
to all listeners at once, in the order of telling, and keeps the latest ones for those who come
later (`since`). A listener only notes the event down and returns: it runs in the midst of whatever
told, tells nothing itself and proposes nothing. Limits: `RING_MAX` events are kept; who asks for
older ones hears that they are lost. Nothing of it is on disk. Not compiled.
"""

from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Final

from msgspec import Struct

RING_MAX: Final = 1024  # events that are kept for those who ask later


class Event(Struct, frozen=True):
    """One thing that happened, on one node."""

    seq: int  # 1-based, of the run of the node that told it; without gaps
    name: str  # such as `queue.created`
    at_ms: int  # by the clock of that node
    node: str
    properties: dict[str, object]  # must not be changed


Listener = Callable[[Event], None]


class Events:
    """The bus inside a node. Invariant: the ring holds the latest events, without gaps."""

    def __init__(self, node_name: str, now_ms: Callable[[], int]) -> None:
        self.node = node_name
        self._now_ms = now_ms
        self._ring: deque[Event] = deque(maxlen=RING_MAX)
        self._listeners: tuple[Listener, ...] = ()  # replaced, so that one may leave while told
        self._seq = 0

    @property
    def last_seq(self) -> int:
        """Of the latest event; 0 before the first one."""
        return self._seq

    @property
    def is_watched(self) -> bool:
        """Whether there is a listener; to be asked before properties are dear to gather."""
        return len(self._listeners) > 0

    def tell(self, name: str, /, **properties: object) -> None:
        """Something happened just now."""
        self._seq += 1
        event = Event(self._seq, name, self._now_ms(), self.node, properties)
        self._ring.append(event)
        for listener in self._listeners:
            listener(event)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Hear all events from now on, until the function that is returned is called."""
        self._listeners = (*self._listeners, listener)

        def unsubscribe() -> None:
            self._listeners = tuple(each for each in self._listeners if each is not listener)

        return unsubscribe

    def since(self, seq: int) -> tuple[list[Event], int]:
        """The events behind this one that are kept, and how many before those are lost."""
        missed = self._seq - seq
        if missed <= 0:
            return [], 0
        kept = min(missed, len(self._ring))
        return list(islice(self._ring, len(self._ring) - kept, None)), missed - kept
