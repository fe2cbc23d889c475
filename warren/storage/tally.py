"""What the log's upkeep has done and how the disk stands: numbers for the metrics. Compiled."""

from typing import final


@final
class Tally:
    """Counted by upkeep since the start; only read by others."""

    def __init__(self) -> None:
        self.read_bytes = 0  # by rewriting
        self.rewritten_bytes = 0  # written by it
        self.begun = 0  # compactions
        self.finished = 0
        self.failed = 0
        self.dropped_files = 0  # all that went, the recycled ones among them
        self.recycled_files = 0
        self.debts_paid = 0  # records that were said again for a file to go
        self.debt_bytes = 0  # what they took
        self.behind_count = 0  # times that publishers had to wait
        self.behind_s = 0.0  # how long, all together


@final
class DiskUse:
    """How the disk stands at one moment. Bytes of `wal-` and `seg-` files, and of the reserve."""

    __slots__ = (
        "behind_s",
        "is_behind",
        "live_bytes",
        "live_record_bytes",
        "log_bytes",
        "log_files",
        "reserve_bytes",
        "reserve_files",
        "segment_bytes",
        "segment_files",
    )

    def __init__(self) -> None:
        self.log_files = 0
        self.log_bytes = 0
        self.segment_files = 0
        self.segment_bytes = 0
        self.reserve_files = 0
        self.reserve_bytes = 0
        self.live_bytes = 0  # message data, once for each queue that needs it
        self.live_record_bytes = 0  # about what records of nothing else would take
        self.is_behind = False
        self.behind_s = 0.0
