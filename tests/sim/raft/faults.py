"""How hard the world of one seed is: rates are drawn once, so that each seed has its own weather.

Times are in units of about a millisecond; a tick of a core is 10 of them, more or less.
"""

from dataclasses import dataclass
from random import Random

from raft.settings import Settings


@dataclass(slots=True)
class Faults:
    """Chances are of each event of their kind; none of them happens in the world after healing."""

    # The network
    loss: float = 0.0
    double: float = 0.0
    reorder: float = 0.0  # arrives up to 30 later than others
    late: float = 0.0  # arrives hundreds later, perhaps in another term
    partition: float = 0.0
    # Machines
    crash: float = 0.0
    crash_at_sync: float = 0.0  # something was handed to the disk and is not durable
    crash_at_vote: float = 0.0  # and there is a term or a vote in it
    pause: float = 0.0
    sync_max: int = 3
    slow_sync: float = 0.0
    # The failure detector
    wrong_suspicion: float = 0.0
    wrong_trust: float = 0.0
    # Of hosts alone
    full: float = 0.0  # a link takes no more for a while
    read_failure: float = 0.0
    ghosts: float = 0.0  # messages of an earlier group of the same number
    # Of crowds alone
    full_disk: float = 0.0  # nothing new fits on a disk for a while
    renewal: float = 0.0  # a group is deleted, perhaps to be created again under its number
    bulk: float = 0.0  # an entry of kilobytes, so that files of the log are full soon
    # What is asked for
    proposal: float = 0.5
    read: float = 0.05
    change: float = 0.0
    transfer: float = 0.0
    snapshot: float = 0.02
    forget: float = 0.05
    campaign: float = 0.0


CALM = Faults()


def draw(random: Random) -> Faults:
    """Some seeds have a little of everything, some much of a few things."""
    pick = random.choice
    return Faults(
        loss=pick((0, 0, 0.02, 0.1)),
        double=pick((0, 0.05, 0.2)),
        reorder=pick((0, 0.1, 0.5)),
        late=pick((0, 0, 0.02, 0.1)),
        partition=pick((0, 0.1, 0.3)),
        crash=pick((0, 0.05, 0.2)),
        crash_at_sync=pick((0, 0, 0.005, 0.02)),
        crash_at_vote=pick((0, 0, 0.1, 0.3)),
        pause=pick((0, 0, 0.1)),
        sync_max=pick((0, 3, 10)),
        slow_sync=pick((0, 0.02, 0.2)),
        wrong_suspicion=pick((0, 0.05, 0.2)),
        wrong_trust=pick((0, 0.1)),
        full=pick((0, 0, 0.02)),
        read_failure=pick((0, 0, 0.1)),
        ghosts=pick((0, 0.1)),
        proposal=pick((0.1, 0.4, 0.7)),
        read=pick((0.02, 0.1)),
        change=pick((0, 0.01, 0.04)),
        transfer=pick((0, 0.01, 0.03)),
        snapshot=pick((0.0, 0.02, 0.08)),
        forget=pick((0.0, 0.05, 0.2)),
        campaign=pick((0, 0, 0.01)),
    )


def draw_settings(random: Random) -> Settings:
    """Windows and limits of a group that are soon met."""
    pick = random.choice
    return Settings(
        election_ticks=10,
        heartbeat_ticks=pick((1, 2, 3)),
        suspicion_ticks=pick((2, 3, 6)),
        append_bytes_max=pick((200, 500, 1 << 20)),
        window_bytes=pick((600, 8 << 20)),
        window_messages=pick((1, 2, 64)),
        slice_window=pick((1, 2, 4)),
        apply_bytes_max=pick((300, 4 << 20)),
        trailing_entries_max=pick((0, 5, 1 << 18)),
        tells_commits_at_once=pick((False, True)),
    )
