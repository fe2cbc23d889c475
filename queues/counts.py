"""What a node has counted since it started, for the metrics. Counted per run. Compiled."""

from typing import final

from mypy_extensions import i64


@final
class Counts:
    """Messages; the names are those of the metrics (FEATURES section 13.4)."""

    def __init__(self) -> None:
        self.received: i64 = 0
        self.received_confirm: i64 = 0  # of these, on channels with confirms
        self.unroutable: i64 = 0  # dropped or returned
        self.unroutable_returned: i64 = 0
        self.confirmed: i64 = 0
        self.delivered: i64 = 0  # to consumers that acknowledge
        self.delivered_no_ack: i64 = 0
        self.got: i64 = 0
        self.got_no_ack: i64 = 0
        self.get_empty: i64 = 0
        self.redelivered: i64 = 0
        self.acknowledged: i64 = 0
