"""When a member tries to be elected, and who has voted for it. Compiled.

Time is counted in ticks since there was word of a leader, or since the last attempt. After silence
of a leader it is an election timeout and a random part of the same length. After a suspicion, and
between the first attempts, it is short, for others may just not suspect the leader yet; then it
doubles, up to the election timeout.
"""

from collections.abc import Sequence
from typing import Final, final

from mypy_extensions import i64

from raft.quorum import is_majority
from raft.settings import Lots, Settings

ATTEMPTS_MAX: Final = 16  # far more doublings than there may be ticks in a timeout


@final
class Election:
    """`elapsed` is in ticks. Votes are counted by who gave them."""

    __slots__ = (
        "_attempts",
        "_election_ticks",
        "_lots",
        "_suspicion_ticks",
        "_timeout",
        "_votes",
        "elapsed",
    )

    def __init__(self, settings: Settings, lots: Lots) -> None:
        self._election_ticks: i64 = settings.election_ticks
        self._suspicion_ticks: i64 = settings.suspicion_ticks
        self._lots = lots
        self._attempts: i64 = 0
        self._votes: set[int] = set()
        self.elapsed: i64 = 0
        self._timeout: i64 = 0
        self.wait()

    def tick(self) -> bool:
        """Whether it is time to try."""
        self.elapsed += 1
        return self.elapsed >= self._timeout

    def is_recent(self) -> bool:
        """There was word of the leader within an election timeout."""
        return self.elapsed < self._election_ticks

    def heard(self) -> None:
        """There is word of a leader."""
        self.elapsed = 0
        self._attempts = 0

    def wait(self) -> None:
        """For a leader to be heard of."""
        self.elapsed = 0
        self._timeout = self._election_ticks + self._lots.randrange(self._election_ticks)

    def hurry(self) -> None:
        """The leader is suspected."""
        self.elapsed = 0
        self._timeout = 1 + self._lots.randrange(self._suspicion_ticks)

    def attempt(self, member: i64) -> None:
        """Votes are asked for; the own one is there."""
        ticks = min(self._suspicion_ticks << self._attempts, self._election_ticks)
        self._attempts = min(self._attempts + 1, ATTEMPTS_MAX)
        self.elapsed = 0
        self._timeout = ticks + 1 + self._lots.randrange(ticks)
        self._votes = {member}

    def vote(self, member: i64) -> None:
        self._votes.add(member)

    def is_won(self, voters: Sequence[int]) -> bool:
        """By members of the current configuration."""
        return is_majority(self._votes, voters)
