"""What may be set for the core of a group, and what it draws lots with. Compiled."""

from typing import Protocol, final

from mypy_extensions import i64


class Lots(Protocol):
    """Randomness, handed in; a `random.Random` is one."""

    def randrange(self, start: int, /) -> int: ...


@final
class Settings:
    """Times are in ticks, whatever the host makes of a tick; the same on all members.

    `election_ticks`: silence of a leader after which another one is looked for (once to twice as
    long), and in which a leader must hear from a majority. `heartbeat_ticks`: how often a leader
    speaks while it is awake. `suspicion_ticks`: the range of the random delay after `leader_lost`.
    """

    __slots__ = (
        "append_bytes_max",
        "append_entries_max",
        "apply_bytes_max",
        "apply_entries_max",
        "election_ticks",
        "heartbeat_ticks",
        "slice_window",
        "suspicion_ticks",
        "tells_commits_at_once",
        "trailing_entries_max",
        "uncommitted_bytes_max",
        "window_bytes",
        "window_messages",
    )

    def __init__(
        self,
        election_ticks: int = 10,
        heartbeat_ticks: int = 2,
        suspicion_ticks: int = 3,
        append_bytes_max: int = 1 << 20,
        window_bytes: int = 8 << 20,
        window_messages: int = 64,
        slice_window: int = 4,
        uncommitted_bytes_max: int = 64 << 20,
        apply_bytes_max: int = 4 << 20,
        trailing_entries_max: int = 1 << 18,
        tells_commits_at_once: bool = False,
        append_entries_max: int = 1024,
        apply_entries_max: int = 256,
    ) -> None:
        assert 0 < heartbeat_ticks < election_ticks
        assert 0 < suspicion_ticks <= election_ticks
        assert min(append_bytes_max, window_bytes, uncommitted_bytes_max, apply_bytes_max) > 0
        assert window_messages > 0
        assert min(append_entries_max, apply_entries_max) > 0
        assert slice_window > 0
        self.election_ticks: i64 = election_ticks
        self.heartbeat_ticks: i64 = heartbeat_ticks
        self.suspicion_ticks: i64 = suspicion_ticks
        # Of one message: a turn of a follower lasts as long as these.
        self.append_bytes_max: i64 = append_bytes_max
        self.append_entries_max: i64 = append_entries_max
        self.window_bytes: i64 = window_bytes  # sent to a member and not acknowledged
        self.window_messages: i64 = window_messages
        self.slice_window: i64 = slice_window  # slices of a snapshot, likewise
        self.uncommitted_bytes_max: i64 = uncommitted_bytes_max  # beyond: proposals are refused
        # Of one `Ready.committed`: its group holds up a turn for as long as these take.
        self.apply_bytes_max: i64 = apply_bytes_max
        self.apply_entries_max: i64 = apply_entries_max
        # Entries behind a snapshot that are kept for members that are a little behind.
        self.trailing_entries_max: i64 = trailing_entries_max
        # Followers hear of a commit with the next entries or tick; with this, in the same turn.
        self.tells_commits_at_once = tells_commits_at_once
