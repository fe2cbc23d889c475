"""Repeat what a file records before it is removed: settlements, marks, hard states. On the loop.

A SETTLE is needed while another file has messages of its owner. What stands for all SETTLEs of an
owner so far is one CHECKPOINT if what is alive can be told in one answer. For an owner with more
it is a row of SETTLEs over everything that is not alive, piece by piece, in as many turns as that
takes: what is settled meanwhile has a SETTLE of its own behind them, so that the row counts from
the file in which it began. Compiled.
"""

from typing import Final, Protocol, final

from warren.storage.compaction import Owners
from warren.storage.files import LogFile
from warren.storage.ledger import Ledger
from warren.storage.log import Location
from warren.storage.ranges import gaps_between
from warren.storage.record import (
    CHECKPOINT,
    DELETED,
    HARD_STATE,
    MARK,
    SETTLE,
    encode_checkpoint,
    encode_settle,
)
from warren.storage.tally import Tally

DEBTS_MAX: Final = 128  # looked at in one turn
BYTES_MAX: Final = 1 << 16  # paid in one turn, at most once more than that


class Appender(Protocol):
    """What it needs of the log."""

    @property
    def active_file_id(self) -> int:
        """The file that the next record goes into, or one before it."""

    def append(self, kind: int, owner: int, index: int, parts: list[bytes]) -> Location: ...

    def append_hard_state(self, owner: int, incarnation: int, term: int, vote: int) -> Location: ...


@final
class Debts:
    """What one file owes. `is_paid` when everything was appended; durable it is later."""

    def __init__(
        self, file: LogFile, log: Appender, ledger: Ledger, owners: Owners, tally: Tally
    ) -> None:
        self._file = file
        self._log = log
        self._ledger = ledger
        self._owners = owners
        self._tally = tally
        self._left = ledger.debts(file)
        self._next_seq = 1  # where the row of SETTLEs of the last one in `_left` goes on
        self._begun_in = 0  # the file that was active when it began
        self._paid_bytes = 0  # in this turn
        self.byte_count = 0

    @property
    def is_paid(self) -> bool:
        return not self._left

    def pay_slice(self) -> None:
        """Pay some.

        A newer record of the same kind may have made one unnecessary; then that one must be
        durable first, and so the caller that drops the file waits for all that was appended until
        now.
        """
        self._paid_bytes = 0
        looked_at = 0
        while self._left and looked_at < DEBTS_MAX and self._paid_bytes < BYTES_MAX:
            looked_at += 1
            kind, owner = self._left[-1]
            owed = self._ledger.owed(self._file, kind, owner)
            if owed == CHECKPOINT and not self._restate(owner):
                continue
            if owed == DELETED:
                self._append(DELETED, owner, 0, b"")
            elif owed == MARK:
                self._append(MARK, owner, self._owners.mark(owner), b"")
            elif owed == HARD_STATE:
                self._append_hard_state(owner)
            self._left.pop()
            self._next_seq = 1

    def _restate(self, owner: int) -> bool:
        """Say what is settled of the owner's messages, or a part of it; True when all is said."""
        first = self._next_seq
        if first == 1:
            self._begun_in = self._log.active_file_id
        alive, next_seq = self._owners.alive_from(owner, first)
        last_seq = self._ledger.last_seqs.get(owner, 0)
        if first == 1 and next_seq == 0:
            self._append(CHECKPOINT, owner, 0, encode_checkpoint(last_seq, alive))
            return True
        end = next_seq if next_seq > 0 else last_seq + 1
        settled = gaps_between(alive, first, end)
        if settled:
            self._append(SETTLE, owner, 0, encode_settle(settled))
        self._next_seq = next_seq
        if next_seq > 0:
            return False
        self._ledger.restated(owner, self._begun_in)
        return True

    def _append_hard_state(self, owner: int) -> None:
        state = self._ledger.hard_states[owner]
        place = self._log.append_hard_state(owner, state.incarnation, state.term, state.vote)
        self._count(place)

    def _append(self, kind: int, owner: int, index: int, payload: bytes) -> None:
        self._count(self._log.append(kind, owner, index, [payload] if payload else []))

    def _count(self, place: Location) -> None:
        self._tally.debts_paid += 1
        self._tally.debt_bytes += place.byte_count
        self._paid_bytes += place.byte_count
        self.byte_count += place.byte_count
