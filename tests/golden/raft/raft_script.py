"""Runs a story about one group: lines of commands in, the story with what happened out.

    > members 1 2 3            a new group; words: `learners 4 5`
    > campaign 1               1 tries to become the leader
    > propose 1 a b c          three entries
    > change 1 voter 4         or `learner 4`, `remove 4`; a member that is not there yet is made
    > transfer 1 3             > read 1 7    with context 7
    > run                      messages come over and disks sync until nothing is left to do
    > tick 5                   five ticks of all that are awake, each followed by `run`
    > step                     each member does one turn, then each message comes over once
    > lose 1 2                 messages from 1 to 2 are lost; `lose 1` all from and to 1; `heal`
    > suspect 1                the others think that 1 is down; `trust 1`
    > stall 1                  the disk of 1 does not sync; `sync 1`
    > crash 1                  what was not synced is gone; `start 1`
    > snapshot 1               of all that 1 has applied

Commands on one line, parted by `;`, are done one after the other. Answers are indented by two:
what the members do, how many messages of which kind were sent, and each member whose state is
another than when it was last told; `asleep`: it needs no ticks. Lines that begin with `#`, and
blank ones, are kept as they are. Everything else is generated.
"""

from collections import Counter, deque
from collections.abc import Callable

from raft.entries import Config
from raft.membership import AddLearner, AddVoter, Change, Refused, RemoveMember
from raft.messages import (
    AppendRequest,
    AppendResponse,
    Message,
    SliceResponse,
    SnapshotSlice,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
)
from raft.settings import Settings
from tests.golden.raft.member import Member, carried

ROUNDS_MAX = 200
CHANGES: dict[str, Callable[[int], Change]] = {
    "learner": AddLearner,
    "voter": AddVoter,
    "remove": RemoveMember,
}


def run_script(text: str) -> str:
    """The same story with its answers as they are now."""
    script = Script()
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("> "):
            lines.append(line)
            lines += ["  " + answer for answer in script.run(line[2:])]
        elif line.startswith("#") or not line:
            lines.append(line)
    return "\n".join(lines) + "\n"


class Script:
    """The members of one story, and the network between them."""

    def __init__(self) -> None:
        self._members: dict[int, Member] = {}
        self._network: deque[tuple[int, int, Message]] = deque()
        self._lost: set[tuple[int, int]] = set()
        self._answers: list[str] = []
        self._sent: Counter[str] = Counter()
        self._told: dict[int, str] = {}

    def run(self, line: str) -> list[str]:
        self._answers = []
        self._sent = Counter()
        for command in line.split(";"):
            words = command.split()
            getattr(self, f"_on_{words[0]}")(*words[1:])
        if self._sent:
            counts = ", ".join(f"{count} {name}" for name, count in sorted(self._sent.items()))
            self._answers.append(f"sent: {counts}")
        for number, member in self._members.items():
            state = state_of(member)
            if state != self._told.get(number):
                self._told[number] = state
                self._answers.append(state)
        return self._answers

    def _on_members(self, *words: str) -> None:
        self._members.clear()
        self._network.clear()
        self._lost.clear()
        self._told.clear()
        numbers = [int(word) for word in words if word != "learners"]
        count = words.index("learners") if "learners" in words else len(numbers)
        config = Config(numbers[:count], numbers[count:])
        for number in numbers:
            self._add(number, config)

    def _add(self, number: int, config: Config) -> None:
        settings = Settings(trailing_entries_max=0)

        def tell(text: str) -> None:
            self._answers.append(f"{number} {text}")

        self._members[number] = Member(number, config, settings, self._send, tell)

    def _on_campaign(self, number: str) -> None:
        self._members[int(number)].core.campaign()

    def _on_propose(self, number: str, *texts: str) -> None:
        for text in texts:
            if self._members[int(number)].core.propose((text.encode(),)) is None:
                self._answers.append(f"{number} refuses {text}")

    def _on_change(self, number: str, kind: str, member: str) -> None:
        change: Change = CHANGES[kind](int(member))
        answer = self._members[int(number)].core.propose_change(change)
        if isinstance(answer, Refused):
            self._answers.append(f"{number} refuses: {answer.reason}")
        elif int(member) not in self._members:
            self._add(int(member), Config(()))

    def _on_transfer(self, number: str, member: str) -> None:
        if not self._members[int(number)].core.transfer(int(member)):
            self._answers.append(f"{number} refuses")

    def _on_read(self, number: str, context: str) -> None:
        if not self._members[int(number)].core.read(int(context)):
            self._answers.append(f"{number} refuses")

    def _on_run(self) -> None:
        for _ in range(ROUNDS_MAX):
            if not self._on_step():
                return
        raise AssertionError("it never ends")

    def _on_step(self) -> bool:
        """Whether there was anything to do."""
        was_busy = False
        for member in self._members.values():
            if member.raft is not None and member.raft.has_ready:
                member.turn()
                was_busy = True
        arrived = list(self._network)
        self._network.clear()
        for sender, receiver, message in arrived:
            raft = self._members[receiver].raft
            if raft is not None:
                raft.step(sender, carried(message))
        return was_busy or bool(arrived)

    def _on_tick(self, count: str) -> None:
        for _ in range(int(count)):
            for member in self._members.values():
                if member.raft is not None and not member.raft.is_idle:
                    member.raft.tick()
            self._on_run()

    def _on_lose(self, sender: str, receiver: str = "") -> None:
        if receiver:
            self._lost.add((int(sender), int(receiver)))
            return
        for number in self._members:
            self._lost |= {(int(sender), number), (number, int(sender))}

    def _on_heal(self) -> None:
        self._lost.clear()

    def _on_suspect(self, number: str) -> None:
        self._judge(int(number), False)

    def _on_trust(self, number: str) -> None:
        self._judge(int(number), True)

    def _judge(self, number: int, is_reachable: bool) -> None:
        for other, member in self._members.items():
            if other == number or member.raft is None:
                continue
            member.raft.reachable(number, is_reachable)
            if not is_reachable and member.raft.leader == number:
                member.raft.leader_lost()

    def _on_stall(self, number: str) -> None:
        self._members[int(number)].is_syncing = False

    def _on_sync(self, number: str) -> None:
        member = self._members[int(number)]
        member.is_syncing = True
        member.sync()

    def _on_crash(self, number: str) -> None:
        self._members[int(number)].crash()

    def _on_start(self, number: str) -> None:
        self._members[int(number)].start()

    def _on_snapshot(self, number: str) -> None:
        self._members[int(number)].snapshot()

    def _send(self, sender: int, receiver: int, message: Message) -> None:
        self._sent[name_of(message)] += 1
        if (sender, receiver) not in self._lost and receiver in self._members:
            self._network.append((sender, receiver, message))


def name_of(message: Message) -> str:
    match message:
        case VoteRequest(is_pre_vote=True):
            return "pre-vote asked"
        case VoteRequest():
            return "vote asked"
        case VoteResponse(is_pre_vote=is_pre_vote, is_granted=is_granted):
            return ("pre-vote " if is_pre_vote else "vote ") + (
                "given" if is_granted else "refused"
            )
        case AppendRequest(entries=entries):
            return "entries" if entries else "heartbeat"
        case AppendResponse(is_matching=is_matching):
            return "match" if is_matching else "no match"
        case TimeoutNow():
            return "take over"
        case SnapshotSlice():
            return "slice"
        case SliceResponse():
            return "slices stored"


def state_of(member: Member) -> str:
    raft = member.raft
    if raft is None:
        return f"{member.member} down"
    status = raft.status()
    words = [f"{member.member} {status.role:9} term={status.term}"]
    words.append(f"leader={status.leader or '-'}")
    words.append(f"last={status.last_index}")
    if status.durable_index != status.last_index:
        words.append(f"durable={status.durable_index}")
    words.append(f"commit={status.commit_index}")
    if status.applied_index != status.commit_index:
        words.append(f"applied={status.applied_index}")
    if raft.first_index > 1:
        words.append(f"first={raft.first_index}")
    if raft.is_idle:
        words.append("asleep")
    return " ".join(words)
