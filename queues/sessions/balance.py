"""When a queue withholds credit from its publishers because its consumers fall behind. Pure.

A publisher hands over as many messages as fit into a read; a consumer gets at most its prefetch in
a turn of the loop. At full speed publishers therefore win, and the turns that they lengthen slow
the consumers down. So a queue with consumers counts its lead: by how much its backlog exceeds the
smallest backlog since its publishers ran freely. Above `lead_max` it withholds credit, below half
of that it grants credit again. A backlog that was there before the consumers does not count.

Consumers that are slow by themselves must not stop publishers. During a hold the broker has nothing
to do but deliver. So in each PERIOD_MS the consumers must take a quarter of the lead, or as many
messages as they hold unsettled: then their prefetch limits them, or the disk. A hold lasts HOLD_MS
at most. If consumers do not keep to this, the queue accepts at full speed for REST_MS, which
doubles with each further failure.
"""

from typing import Final, final

from mypy_extensions import i64

LEAD_MAX: Final = 4096  # messages
LEAD_MIN: Final = 64  # messages, however large they are
LEAD_BYTES: Final = 4 << 20
PERIOD_MS: Final = 200
HOLD_MS: Final = 1000
REST_MS: Final = 250
REST_MAX_MS: Final = 60_000


def lead_max_of(held_count: i64, held_bytes: i64) -> i64:
    """Return the lead that a queue allows which holds so many messages of so many bytes."""
    if held_bytes <= 0 or held_count <= 0:
        return LEAD_MAX
    lead = LEAD_BYTES * held_count // held_bytes
    return max(LEAD_MIN, min(LEAD_MAX, lead))


@final
class Balance:
    """The lead of publishers over the consumers of one queue. Used once per step of the queue."""

    def __init__(self, backlog: i64) -> None:
        self.is_holding = False
        self.due_ms: i64 = 0  # of a hold: when to judge at the latest
        self._low: i64 = backlog  # the lead is counted from here
        self._lead_then: i64 = 0  # at the beginning of this period
        self._taken_then: i64 = 0
        self._until_ms: i64 = 0  # the end of the hold or, without one, of the rest
        self._rest_ms: i64 = REST_MS

    def judge(
        self, now_ms: i64, accepted: i64, taken: i64, ready: i64, unsettled: i64, lead_max: i64
    ) -> bool:
        """Return whether publishers are held from now on, while there are consumers.

        `accepted` and `taken` count all messages from any point on; `ready` messages wait, and
        consumers hold `unsettled`.
        """
        backlog = accepted - taken
        if backlog - self._low > ready:
            self._low = backlog - ready  # Messages expired or were purged.
        elif backlog < self._low:
            self._low = backlog
        lead = backlog - self._low
        if self.is_holding:
            self._continue(now_ms, lead, taken, unsettled, lead_max)
            if not self.is_holding and now_ms < self._until_ms:
                self._low = backlog
        elif now_ms < self._until_ms:
            self._low = backlog
        elif lead > lead_max:
            self.is_holding = True
            self._until_ms = now_ms + HOLD_MS
            self._begin_period(now_ms, lead, taken)
        return self.is_holding

    def _continue(self, now_ms: i64, lead: i64, taken: i64, unsettled: i64, lead_max: i64) -> None:
        if lead * 2 <= lead_max:
            self.is_holding = False
            self._until_ms = 0
            self._rest_ms = REST_MS
        elif now_ms >= self.due_ms:
            wanted = max(1, min(self._lead_then // 4, unsettled))
            if now_ms >= self._until_ms or taken - self._taken_then < wanted:
                self._rest(now_ms)
            else:
                self._begin_period(now_ms, lead, taken)

    def _begin_period(self, now_ms: i64, lead: i64, taken: i64) -> None:
        self._lead_then = lead
        self._taken_then = taken
        self.due_ms = min(now_ms + PERIOD_MS, self._until_ms)

    def _rest(self, now_ms: i64) -> None:
        """Let publishers run freely: the consumers are slow by themselves."""
        self.is_holding = False
        self._until_ms = now_ms + self._rest_ms
        self._rest_ms = min(2 * self._rest_ms, REST_MAX_MS)
