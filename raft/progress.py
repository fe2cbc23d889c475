"""What a leader knows of one other member, and how it sends to it. Compiled.

PROBE: where the logs part is not known; one message at a time, and the next one after an answer or
a heartbeat. STREAM: entries go out ahead of their acknowledgement, within a window. SNAPSHOT: what
it lacks is not in the log any more; slices of a snapshot go out, within a window of their own.
"""

from collections import deque
from typing import Final, final

from mypy_extensions import i64

from raft.entries import SnapshotPoint
from raft.ready import Load, LoadSlice

PROBE: Final = 0
STREAM: Final = 1
SNAPSHOT: Final = 2

UNKNOWN: Final = -1


@final
class Progress:
    """Invariant: match_index < next_index; the member's log is the leader's up to match_index."""

    __slots__ = (
        "acked_slice",
        "goal_index",
        "goal_ticks",
        "is_active",
        "is_held",
        "is_paused",
        "is_quiet",
        "is_reachable",
        "known_commit",
        "load",
        "match_index",
        "member",
        "next_index",
        "next_slice",
        "read_seq",
        "sent_commit",
        "sent_read_seq",
        "slice_count",
        "slice_load",
        "snapshot",
        "stalled_ticks",
        "state",
        "unacked",
        "unacked_bytes",
    )

    def __init__(self, member: i64, next_index: i64) -> None:
        self.member: i64 = member
        self.match_index: i64 = 0
        self.next_index: i64 = next_index
        self.state: i64 = PROBE
        self.is_paused = False  # PROBE: the message is out
        self.is_reachable = True  # the word of the host's failure detector
        self.is_held = False  # the way there is full: entries and slices wait
        self.is_active = True  # was heard of since the last look (check-quorum)
        self.is_quiet = False  # nothing was sent since the last heartbeat
        self.known_commit: i64 = UNKNOWN  # its commit index, as it said last
        self.sent_commit: i64 = UNKNOWN  # our commit index as last sent to it
        self.read_seq: i64 = 0  # the newest round of reads that it has answered
        self.sent_read_seq: i64 = 0
        self.unacked: deque[tuple[int, int]] = deque()  # last index and bytes of messages
        self.unacked_bytes: i64 = 0
        self.load: Load | None = None  # entries that are being read for it
        self.goal_index: i64 = UNKNOWN  # a joining learner: the end of this round
        self.goal_ticks: i64 = 0
        self.snapshot: SnapshotPoint | None = None
        self.next_slice: i64 = 0
        self.acked_slice: i64 = 0  # it has those before
        self.slice_count: i64 = UNKNOWN  # until the last one was read
        self.slice_load: LoadSlice | None = None
        self.stalled_ticks: i64 = 0  # since a slice was acknowledged, or sent again

    def probe(self, next_index: i64) -> None:
        """What is under way does not count: find out where it is, from `next_index` downwards."""
        self._begin(PROBE)
        self.next_index = max(next_index, self.match_index + 1)

    def stream(self) -> None:
        """Its log is known up to `match_index`: go on from there."""
        self._begin(STREAM)
        self.next_index = self.match_index + 1

    def send_snapshot(self, snapshot: SnapshotPoint) -> None:
        self._begin(SNAPSHOT)
        self.snapshot = snapshot
        self.slice_count = UNKNOWN
        self.resume_slices(0)

    def resume_slices(self, next_slice: i64) -> None:
        """It has all before this one, and nothing behind it."""
        self.next_slice = next_slice
        self.acked_slice = next_slice
        self.slice_load = None
        self.stalled_ticks = 0

    def sent(self, last_index: i64, byte_count: i64) -> None:
        """A message with entries up to `last_index` has left, in STREAM."""
        self.next_index = last_index + 1
        self.unacked.append((last_index, byte_count))
        self.unacked_bytes += byte_count

    def matched(self, index: i64) -> bool:
        """Its log is the leader's up to `index`; whether that is news."""
        if index <= self.match_index:
            return False
        self.match_index = index
        unacked = self.unacked
        while unacked and unacked[0][0] <= index:
            self.unacked_bytes -= unacked.popleft()[1]
        if self.next_index <= index:
            self.next_index = index + 1
            self.load = None
        return True

    def _begin(self, state: i64) -> None:
        self.state = state
        self.is_paused = False
        self.load = None
        self.slice_load = None
        self.snapshot = None
        self.unacked.clear()
        self.unacked_bytes = 0
