"""When a member tries to be elected, and who has voted for it. Compiled.

Time is counted in ticks since there was word of a leader, or since the last attempt. After silence
of a leader it is an election timeout and a random part of the same length. After a suspicion, and
between the first attempts, it is short, for others may just not suspect the leader yet; then it
doubles, up to the election timeout.

A vote waits for the disk of who asks and for that of who is asked, one after the other. So a member
that has a majority of pre-votes waits for votes for half an election timeout at least, and each
time longer: disks that take seconds for a sync make an election slow, not impossible. It gives up
at once when too many have refused.
"""

from collections.abc import Sequence
from typing import Final, final

from mypy_extensions import i64

from raft.membership import is_majority
from raft.settings import Lots, Settings

ATTEMPTS_MAX: Final = 16  # far more doublings than there may be ticks in a timeout
PATIENCE: Final = 8  # election timeouts, at most, that votes are waited for


@final
class Election:
    """`elapsed` is in ticks. Votes are counted by who gave them."""

    __slots__ = (
        "_attempts",
        "_denials",
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
        self._denials: set[int] = set()
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

    def again(self) -> None:
        """A peer that could not be reached can be reached again."""
        self._attempts = 0
        self.hurry()

    def attempt(self, member: i64, is_pre_vote: bool) -> None:
        """Votes are asked for; the own one is there."""
        ticks: i64 = self._suspicion_ticks << self._attempts
        if is_pre_vote:
            ticks = min(ticks, self._election_ticks)
        else:
            ticks = max(ticks, (self._election_ticks + 1) // 2)
            ticks = min(ticks, self._election_ticks * PATIENCE)
        self._attempts = min(self._attempts + 1, ATTEMPTS_MAX)
        self.elapsed = 0
        self._timeout = ticks + 1 + self._lots.randrange(ticks)
        self._votes = {member}
        self._denials = set()

    def vote(self, member: i64) -> None:
        self._votes.add(member)

    def deny(self, member: i64) -> None:
        self._denials.add(member)

    def is_hopeless(self, voters: Sequence[int]) -> bool:
        """Those who have not refused are no majority."""
        left: list[int] = []
        for voter in voters:
            if voter not in self._denials:
                left.append(voter)
        return not is_majority(left, voters)

    def is_won(self, voters: Sequence[int]) -> bool:
        """By members of the current configuration."""
        return is_majority(self._votes, voters)
