"""What the Raft core costs: CPU per committed entry, leader and two followers in one process.

    python -m bench.micro.raft [--entries 20000] [--codec]

Each turn so many proposals are made, and all is done until they are committed on all three; disks
and network are free. `--codec`: messages become bytes and messages again on their way. Then a
tick of a follower. By hand, on a quiet machine.
"""

import argparse
import platform
import random
import time
from collections import deque

import raft.core
from raft.codec import decode, encode
from raft.core import Raft
from raft.entries import Config
from raft.messages import Message
from raft.recovery import founded
from raft.settings import Settings

MEMBERS = (1, 2, 3)
PER_TURN = (1, 4, 16, 100)
TICKS = 100_000


class Group:
    """Three cores whose disks and network take no time."""

    def __init__(self, with_codec: bool) -> None:
        config = Config(MEMBERS)
        settings = Settings(tells_commits_at_once=False)
        self.cores = {
            member: Raft(member, founded(config), settings, random.Random(member))
            for member in MEMBERS
        }
        self.network: deque[tuple[int, int, Message]] = deque()
        self.with_codec = with_codec
        self.cores[1].campaign()
        self.run()
        assert self.cores[1].leader == 1

    def run(self) -> None:
        """Until nothing is left to do."""
        busy = True
        while busy:
            busy = False
            for member, core in self.cores.items():
                if core.has_ready:
                    self._turn(member, core)
                    busy = True
            while self.network:
                sender, receiver, message = self.network.popleft()
                self.cores[receiver].step(sender, message)
                busy = True

    def _turn(self, member: int, core: Raft) -> None:
        ready = core.ready()
        encoded: dict[int, Message] = {}
        for receiver, message in (*ready.messages, *ready.messages_after_sync):
            carried = message
            if self.with_codec:
                # The same object to two members is encoded once, as a host does it.
                known = encoded.get(id(message))
                carried = known or decode(memoryview(b"".join(encode(message))))
                encoded[id(message)] = carried
            self.network.append((member, receiver, carried))
        if ready.entries:
            last = ready.entries[-1]
            core.durable(last.index, last.term)
        if ready.committed:
            core.forget(ready.committed[-1].index)


def measure(per_turn: int, count: int, with_codec: bool) -> float:
    """Microseconds of CPU per entry."""
    group = Group(with_codec)
    leader = group.cores[1]
    parts = (b"x" * 100,)
    turns = max(1, count // per_turn)
    begun = time.process_time()
    for _ in range(turns):
        for _ in range(per_turn):
            leader.propose(parts)
        group.run()
    spent = time.process_time() - begun
    assert leader.commit_index == turns * per_turn + 1
    return spent * 1e6 / (turns * per_turn)


def measure_tick() -> float:
    """Nanoseconds, of a follower far from its timeout."""
    settings = Settings(election_ticks=TICKS * 10, heartbeat_ticks=1)
    core = Raft(1, founded(Config(MEMBERS)), settings, random.Random(1))
    begun = time.process_time()
    for _ in range(TICKS):
        core.tick()
    return (time.process_time() - begun) * 1e9 / TICKS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=20_000)
    parser.add_argument("--codec", action="store_true")
    options = parser.parse_args()
    build = "pure" if raft.core.__file__.endswith(".py") else "compiled"
    print(f"{platform.python_version()} {platform.machine()}, {build}, codec: {options.codec}")
    for per_turn in PER_TURN:
        best = min(measure(per_turn, options.entries, options.codec) for _ in range(3))
        print(f"{per_turn:4} per turn: {best:7.2f} us per entry")
    print(f"tick of a follower: {measure_tick():5.0f} ns")


if __name__ == "__main__":
    main()
