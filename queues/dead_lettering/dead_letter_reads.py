"""Dead messages of a queue on their way to its dead-letter exchange, in order of their deaths.

They stay in the queue's store, and in the log, until the `DeadLetterPublisher` has published their
dead
letters. Bodies on disk are read first. One step publishes at most BURY_MESSAGES and BURY_BYTES;
the publisher may take fewer, because the node bounds the letters of a turn and holds letters back
during a resource alarm (`queues.dead_lettering.dead_letter_limits`). Compiled.
"""

from collections import deque
from typing import Final, final

from mypy_extensions import i64

from queues.bodies.store import Store
from queues.conversion.annotated import annotated
from queues.hosts.body_reads import Reading
from queues.hosts.host_interfaces import HELD, BodyOwner, DeadLetterPublisher, Steps
from queues.machine.annotations import Annotations
from queues.machine.effects import Left
from queues.machine.pending_dead_letters import DEATHS
from queues.message import Chunk

BURY_MESSAGES: Final = 1024  # dead-lettered in one step
BURY_BYTES: Final = 1 << 20
BURY_REST_MS: Final = 5000  # after a dead letter that could not be read
HELD_REST_MS: Final = 500  # between two tries during a resource alarm


@final
class Burying:
    """See the module."""

    def __init__(self, reading: Reading, store: Store, turn: Steps) -> None:
        self.runs: deque[tuple[int, int, int]] = deque()  # first, count, reason
        self.noted = Annotations()  # of some of these messages
        self._reading = reading
        self._store = store
        self._turn = turn
        self._has_failed = False  # the first message could not be read,
        self._rest_until_ms: i64 = 0  # and all wait until then

    def died(self, effect: Left) -> None:
        """These messages wait to be dead-lettered."""
        self.runs.append((effect.first, effect.count, effect.reason))
        if effect.annotations is not None:
            self.noted.restore_all(effect.annotations)

    def clear(self) -> None:
        self.runs.clear()
        self.noted = Annotations()

    def bury(
        self, owner: BodyOwner, dead_letter_publisher: DeadLetterPublisher, now_ms: i64
    ) -> bool:
        """Publish dead letters and release their messages; True if no message waits any more."""
        if self._has_failed:
            self._has_failed = False
            self._rest_until_ms = now_ms + BURY_REST_MS
        if now_ms < self._rest_until_ms:
            self._turn.wake_host(owner, self._rest_until_ms)
            return False
        room: i64 = BURY_MESSAGES
        room_bytes: i64 = BURY_BYTES
        while len(self.runs) > 0 and room > 0 and room_bytes > 0:
            first, count, reason = self.runs[0]
            slot = self._store.find(first)
            chunk = slot.chunk
            if chunk.data is None:
                if chunk not in self._store.loading:
                    self._reading.read_ahead(owner, slot)
                return False  # `QueueCore.loaded` or `load_failed` continues.
            index = slot.index + first - slot.first
            some = min(i64(count), slot.first + slot.count - first, room)
            some = self._bury_run(dead_letter_publisher, chunk, index, first, some, DEATHS[reason])
            if some == HELD:
                self._turn.wake_host(owner, now_ms + HELD_REST_MS)
                return False
            if some == 0:
                break
            room -= some
            room_bytes -= chunk.bytes_between(index, index + some)
            self._end(owner, some)
        if len(self.runs) > 0:
            self._turn.mark_host_later(owner)
            return False
        return True

    def _bury_run(
        self,
        dead_letter_publisher: DeadLetterPublisher,
        chunk: Chunk,
        index: i64,
        first: i64,
        count: i64,
        reason: str,
    ) -> i64:
        """Bury messages first.., which are `index`.., up to one with annotations, or that one."""
        if len(self.noted.words) == 0:
            return dead_letter_publisher.bury(chunk, index, count, reason, first)
        bare = self.noted.bare_run(first, count)
        if bare > 0:
            return dead_letter_publisher.bury(chunk, index, bare, reason, first)
        with_notes = annotated(chunk, index, self.noted.words[int(first)])
        taken: i64 = dead_letter_publisher.bury(with_notes, 0, 1, reason, first)
        if taken > 0:
            self.noted.take(first, 1)
        return taken

    def _end(self, owner: BodyOwner, some: i64) -> None:
        """The first `some` messages are published: release them."""
        first, count, reason = self.runs[0]
        if some == count:
            self.runs.popleft()
        else:
            self.runs[0] = (first + some, count - some, reason)
        owner.release(first, some)

    def load_failed(self, chunk: Chunk) -> bool:
        """Whether the first message is in this chunk, which cannot be read.

        It stays, is tried again later, and the messages behind it are published first.
        """
        if len(self.runs) == 0 or self._store.find(self.runs[0][0]).chunk is not chunk:
            return False
        first, count, reason = self.runs.popleft()
        slot = self._store.find(first)
        some = min(i64(count), slot.first + slot.count - first)
        if some < count:
            self.runs.appendleft((first + some, count - some, reason))
        self.runs.append((first, some, reason))
        self._has_failed = True
        return True
