"""What all nodes agree on: who has which job, and the load that each has told. Pure.

Changed by commands in the order in which they were committed, the same on every node; given out as
plain values for a snapshot. No clock: a node is given up when another one has had SILENT_BEATS
beats committed since its own last one. Then its jobs go to those who wait for them, in the order in
which they asked. Fencing numbers count up from the generation's, so that one of a later generation
is higher than any of an earlier one.

Limits: JOBS_MAX jobs, NAME_BYTES_MAX for the name of one; what goes beyond is passed over. Load and
names are sent by members of the cluster alone.
"""

from typing import Final, TypeAlias

import msgspec
from msgspec import Struct, field

from node.cluster.coordination.coordination_interface import Holding, Load

SILENT_BEATS: Final = 8
JOBS_MAX: Final = 1024
NAME_BYTES_MAX: Final = 255
GENERATION_SHIFT: Final = 32  # of the generation in a fencing number


class Beat(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """The member lives, and has that much to do. `number` counts its beats."""

    member: int
    number: int
    leaders: int
    connections: int
    messages_per_s: int
    is_draining: bool


class Claim(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """The member wants the job, now or as soon as no member before it does."""

    member: int
    job: str


class Release(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """The member wants it no more."""

    member: int
    job: str


Command: TypeAlias = Beat | Claim | Release


class JobRow(msgspec.Struct, frozen=True, array_like=True):
    """A job in a snapshot."""

    name: str
    holder: int
    fencing: int
    waiting: list[int]


class NodeRow(msgspec.Struct, frozen=True, array_like=True):
    """A node in a snapshot; `silent` in pairs of member and count."""

    member: int
    beat: Beat | None
    silent: list[tuple[int, int]]


class Rows(msgspec.Struct, frozen=True, array_like=True):
    """All of it."""

    fencing: int
    jobs: list[JobRow]
    nodes: list[NodeRow]


class Job(Struct):
    """Invariant: the holder does not wait, and no member waits twice."""

    holder: int
    fencing: int
    waiting: list[int] = field(default_factory=list)


class Node(Struct):
    """`silent`: by other node, how many beats it has had since this one's last."""

    beat: Beat | None = None
    silent: dict[int, int] = field(default_factory=dict)


class Registry:
    """See the module. Invariant: each member that has a job or waits for one is in `_nodes`."""

    def __init__(self, generation: int) -> None:
        self._fencing = generation << GENERATION_SHIFT
        self._jobs: dict[str, Job] = {}
        self._nodes: dict[int, Node] = {}

    def apply(self, command: Command) -> None:
        """Change the state by one committed command."""
        if isinstance(command, Beat):
            self._beat(command)
        elif isinstance(command, Claim):
            self._claim(command)
        else:
            self._release(command.member, command.job)

    # Questions

    def holder(self, job: str) -> Holding | None:
        found = self._jobs.get(job)
        return None if found is None else Holding(found.holder, found.fencing)

    def jobs_of(self, member: int) -> set[str]:
        """Those that it has or waits for."""
        return {
            name
            for name, job in self._jobs.items()
            if job.holder == member or member in job.waiting
        }

    def beat_of(self, member: int) -> int:
        """Number of its last beat; 0: none, or it was given up."""
        node = self._nodes.get(member)
        return 0 if node is None or node.beat is None else node.beat.number

    def loads(self) -> dict[int, Load]:
        return {
            member: Load(
                node.beat.leaders,
                node.beat.connections,
                node.beat.messages_per_s,
                node.beat.is_draining,
            )
            for member, node in self._nodes.items()
            if node.beat is not None
        }

    # Snapshots

    def rows(self) -> Rows:
        jobs = [
            JobRow(name, job.holder, job.fencing, list(job.waiting))
            for name, job in self._jobs.items()
        ]
        nodes = [
            NodeRow(member, node.beat, list(node.silent.items()))
            for member, node in self._nodes.items()
        ]
        return Rows(self._fencing, jobs, nodes)

    def restore(self, rows: Rows) -> None:
        self._fencing = rows.fencing
        self._jobs = {
            row.name: Job(row.holder, row.fencing, list(row.waiting)) for row in rows.jobs
        }
        self._nodes = {row.member: Node(row.beat, dict(row.silent)) for row in rows.nodes}

    # Commands

    def _beat(self, beat: Beat) -> None:
        node = self._nodes.setdefault(beat.member, Node())
        node.beat = beat
        node.silent.clear()
        for member, other in list(self._nodes.items()):
            if member != beat.member:
                silent = other.silent.get(beat.member, 0) + 1
                other.silent[beat.member] = silent
                if silent >= SILENT_BEATS:
                    self._give_up(member)

    def _give_up(self, member: int) -> None:
        """The node is silent: others may have what it had."""
        del self._nodes[member]
        for node in self._nodes.values():
            node.silent.pop(member, None)
        for name in list(self._jobs):
            self._release(member, name)

    def _claim(self, claim: Claim) -> None:
        member, name = claim.member, claim.job
        if len(name.encode()) > NAME_BYTES_MAX:
            return
        job = self._jobs.get(name)
        if job is None:
            if len(self._jobs) < JOBS_MAX:
                self._nodes.setdefault(member, Node())
                self._jobs[name] = Job(member, self._next_fencing())
        elif job.holder != member and member not in job.waiting:
            self._nodes.setdefault(member, Node())
            job.waiting.append(member)

    def _release(self, member: int, name: str) -> None:
        job = self._jobs.get(name)
        if job is None:
            return
        if member in job.waiting:
            job.waiting.remove(member)
        elif job.holder == member and job.waiting:
            job.holder = job.waiting.pop(0)
            job.fencing = self._next_fencing()
        elif job.holder == member:
            del self._jobs[name]

    def _next_fencing(self) -> int:
        self._fencing += 1
        return self._fencing
