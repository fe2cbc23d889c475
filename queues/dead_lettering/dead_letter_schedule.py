"""What becomes of the dead of a queue that dead-letters at least once. Pure, no clock.

Takes which messages are dying and, of each letter that its host has sent, what the queues said that
it was for; gives which message is to be made a letter of next, and which are buried for good. It is
told the time with every call that has to do with it.

At most WINDOW letters are on their way. One that a queue refused, or has not answered
for ANSWER_MS, is sent again to the queues that do not have it yet. One that no queue wanted (no
exchange, no binding) gives its place up and rests; of those that rest some are tried after a while,
and all in turn as long as that helps. Waits double up to REST_MS_MAX. A letter may arrive twice,
and is never given up. Compiled.
"""

from collections import deque
from typing import Final, final

from mypy_extensions import i64

from queues.machine.expiry import FAR
from queues.machine.pending_dead_letters import PendingDeadLetters

WINDOW: Final = 32
ANSWER_MS: Final = 180_000
PURGED_MAX: Final = 8192  # messages in one answer of `take_buried`
REST_MS_MIN: Final = 100
REST_MS_MAX: Final = 30_000


@final
class Letter:
    """One dying message that is being dead-lettered."""

    def __init__(self, seq: i64, reason: i64, has_rested: bool) -> None:
        self.seq: i64 = seq
        self.reason: i64 = reason
        self.has_rested = has_rested
        self.is_out = False  # it was sent, and `waits` have not answered
        self.is_done = False
        self.was_refused = False  # by some queue, since it was sent last
        self.waits: set[int] = set()  # uids of queues
        self.safe: set[int] = set()  # uids of those that have it
        self.due_ms: i64 = 0  # when it is to be sent (again)
        self.rest_ms: i64 = REST_MS_MIN  # until then, the next time that it is refused


@final
class DeadLetterSchedule:
    """Invariant: each message that is not buried is in one of `fresh`, `resting` and `letters`;
    these are at most WINDOW, by message_seq, and none of them is done."""

    def __init__(self) -> None:
        self.letters: dict[int, Letter] = {}
        self.fresh = PendingDeadLetters()
        self.resting = PendingDeadLetters()
        self._again: Letter | None = None  # was given, and could not be sent yet
        self._released: list[int] = []
        self._purged: deque[tuple[int, int]] = deque()  # runs that are buried, some at a time
        self._rest_ms: i64 = REST_MS_MIN
        self._rest_until_ms: i64 = 0
        self._rest_at: i64 = 0  # where the walk through those that rest goes on
        self._tries: i64 = 0  # of those that rest, left now
        self._has_helped = False  # one that had rested was sent

    @property
    def count(self) -> int:
        """Of messages that are not buried."""
        return len(self.letters) + int(self.fresh.count) + int(self.resting.count)

    def begin(self, pending_dead_letters: PendingDeadLetters) -> None:
        """These were dying before; nothing else has died yet."""
        assert self.count == 0
        self.fresh = pending_dead_letters.copy()

    def died(self, first: i64, count: i64, reason: i64) -> None:
        self.fresh.add(first, count, reason)

    # What to do next

    def next(self, now_ms: i64) -> Letter | None:
        """A letter to be sent now; the answer is `sent`, `nowhere`, `drop` or `put_back`."""
        again = self._again
        if again is not None:
            self._again = None
            return again
        for letter in self.letters.values():
            if letter.due_ms <= now_ms:
                letter.is_out = False
                letter.waits = set()
                return letter
        if len(self.letters) >= WINDOW:
            return None
        if self.fresh.count > 0:
            return self._take(self.fresh, 0, False)
        if self.resting.count > 0 and self._may_try(now_ms):
            self._tries -= 1
            tried = self._take(self.resting, self._rest_at, True)
            self._rest_at = tried.seq + 1
            return tried
        return None

    def _take(self, source: PendingDeadLetters, seq: i64, has_rested: bool) -> Letter:
        found, reason = source.take_from(seq)
        letter = Letter(found, reason, has_rested)
        self.letters[int(found)] = letter
        return letter

    def _may_try(self, now_ms: i64) -> bool:
        """Some of those that rest: more of them as long as it helps, or else after a wait."""
        if self._tries > 0:
            return True
        if self._has_helped:
            self._has_helped = False
            self._rest_ms = REST_MS_MIN
        elif now_ms < self._rest_until_ms:
            return False
        self._rest_until_ms = now_ms + self._rest_ms
        self._rest_ms = min(2 * self._rest_ms, REST_MS_MAX)
        self._tries = min(i64(WINDOW), self.resting.count)
        return True

    def due_ms(self) -> i64:
        """When `next` may have what it does not have now."""
        due_ms: i64 = FAR
        for letter in self.letters.values():
            due_ms = min(due_ms, letter.due_ms)
        if self.resting.count > 0 and len(self.letters) < WINDOW:
            due_ms = min(due_ms, self._rest_until_ms)
        return due_ms

    # What became of it

    def put_back(self, letter: Letter, now_ms: i64) -> None:
        """It cannot be sent yet, for its message is being read: it comes next."""
        self._again = letter
        letter.due_ms = now_ms + ANSWER_MS

    def sent(self, letter: Letter, uids: list[int], now_ms: i64) -> None:
        """It is about to go to these queues, which do not have it yet; at least one."""
        assert len(uids) > 0
        letter.waits = set(uids)
        letter.was_refused = False
        letter.is_out = True
        letter.due_ms = now_ms + ANSWER_MS
        if letter.has_rested:
            letter.has_rested = False
            self._has_helped = True

    def nowhere(self, letter: Letter, now_ms: i64) -> None:
        """No queue is to have it now, or none that does not have it already."""
        if len(letter.safe) > 0:
            self.drop(letter)
        else:
            self.rest(letter, now_ms)

    def rest(self, letter: Letter, now_ms: i64) -> None:
        """It is tried again after others."""
        self._end(letter)
        if self.resting.count == 0:
            self._rest_until_ms = max(self._rest_until_ms, now_ms + REST_MS_MIN)
        self.resting.add(letter.seq, 1, letter.reason)

    def drop(self, letter: Letter) -> None:
        """Nothing more is to be done for it."""
        self._end(letter)
        self._released.append(int(letter.seq))

    def purge(self) -> None:
        """Drop everything; a letter that is on its way may still arrive."""
        for letter in list(self.letters.values()):
            self.drop(letter)
        for source in (self.fresh, self.resting):
            self._purged.extend([(first, count) for first, count, _ in source.runs()])
        self.fresh = PendingDeadLetters()
        self.resting = PendingDeadLetters()

    def has_purged(self) -> bool:
        """Whether `take_buried` has more, because it gives a bounded number of what is purged."""
        return len(self._purged) > 0

    def _end(self, letter: Letter) -> None:
        letter.is_done = True
        letter.is_out = False
        del self.letters[int(letter.seq)]
        if self._again is letter:
            self._again = None

    def confirmed(self, letter: Letter, uid: int, now_ms: i64) -> None:
        """That queue has it for good, be it from an earlier time that it was sent."""
        letter.safe.add(uid)
        letter.waits.discard(uid)
        self._answered(letter, now_ms)

    def refused(self, letter: Letter, uid: int, now_ms: i64) -> None:
        """That queue is full, or cannot be reached."""
        if uid in letter.waits:
            letter.waits.discard(uid)
            letter.was_refused = True
            self._answered(letter, now_ms)

    def lost(self, letter: Letter, uid: int, now_ms: i64) -> None:
        """That queue is gone."""
        if uid in letter.waits:
            letter.waits.discard(uid)
            self._answered(letter, now_ms)

    def _answered(self, letter: Letter, now_ms: i64) -> None:
        if not letter.is_out or len(letter.waits) > 0:
            return
        letter.is_out = False
        if letter.was_refused:
            letter.due_ms = now_ms + letter.rest_ms
            letter.rest_ms = min(2 * letter.rest_ms, REST_MS_MAX)
        else:
            self.nowhere(letter, now_ms)  # Or everywhere.

    def take_released(self) -> list[tuple[int, int]]:
        """Messages that are done with since the last call, as ascending runs."""
        released = self._released
        self._released = []
        released.sort()
        runs: list[tuple[int, int]] = []
        for seq in released:
            if len(runs) > 0 and runs[-1][0] + runs[-1][1] == seq:
                runs[-1] = (runs[-1][0], runs[-1][1] + 1)
            else:
                runs.append((seq, 1))
        room: i64 = PURGED_MAX
        while room > 0 and len(self._purged) > 0:
            first, count = self._purged.popleft()
            some = min(i64(count), room)
            runs.append((first, int(some)))
            room -= some
            if some < count:
                self._purged.appendleft((first + int(some), count - int(some)))
        runs.sort()
        return runs
