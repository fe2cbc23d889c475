"""What the parts of a core have to send and to ask for until the next Ready. Compiled."""

from typing import final

from mypy_extensions import i64

from raft.messages import AppendResponse, Message
from raft.ready import Load, LoadSlice, Read, Ready


@final
class Outbox:
    """As in `Ready`, which takes the lists and leaves new ones.

    A follower answers all entries of a turn once, for the last place: the answer leaves when all
    before it is durable.
    """

    __slots__ = (
        "_ack_index",
        "_ack_member",
        "_ack_read_seq",
        "loads",
        "messages",
        "messages_after_sync",
        "reads",
        "slice_loads",
    )

    def __init__(self) -> None:
        self.messages: list[tuple[int, Message]] = []
        self.messages_after_sync: list[tuple[int, Message]] = []
        self.loads: list[Load] = []
        self.slice_loads: list[LoadSlice] = []
        self.reads: list[Read] = []
        self._ack_member: i64 = 0  # 0: nothing to answer
        self._ack_index: i64 = 0
        self._ack_read_seq: i64 = 0

    def acknowledge(self, member: i64, index: i64, read_seq: i64) -> None:
        """To the leader of the term: the log is its own up to here."""
        if self._ack_member != member:
            self._ack_member = member
            self._ack_index = 0
            self._ack_read_seq = 0
        self._ack_index = max(self._ack_index, index)
        self._ack_read_seq = max(self._ack_read_seq, read_seq)

    def withdraw(self) -> None:
        """What was acknowledged was for a leader that is not followed any more."""
        self._ack_member = 0

    def take(self, result: Ready, term: i64, commit_index: i64) -> None:
        """All into the Ready."""
        if self._ack_member != 0:
            response = AppendResponse(
                term, True, self._ack_index, commit_index, 0, 0, self._ack_read_seq
            )
            self.messages_after_sync.append((self._ack_member, response))
            self._ack_member = 0
        if self.messages:
            result.messages = self.messages
            self.messages = []
        if self.messages_after_sync:
            result.messages_after_sync = self.messages_after_sync
            self.messages_after_sync = []
        if self.loads:
            result.loads = self.loads
            self.loads = []
        if self.slice_loads:
            result.slice_loads = self.slice_loads
            self.slice_loads = []
        if self.reads:
            result.reads = self.reads
            self.reads = []
