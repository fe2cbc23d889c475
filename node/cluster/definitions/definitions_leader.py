"""What the leader of the group of the definitions does beside leading it.

It puts batches of all nodes into entries; has the group's members follow the definitions' members,
one change at a time, removed members first; and clears up behind nodes: a process that is not
trusted for GRACE_MS is given up, queues of processes that have ended and of nodes that were removed
go, CLEARED_MAX at once. All of that is sent to the machine by commands, so that another leader goes
on where this one was. No I/O, no clock: `now_ms` is monotonic.

Limits: batches of a turn are bounded by their senders' windows; an entry by ENTRY_BYTES and
ENTRY_COMMANDS. A batch that the group does not take now is dropped: its sender sends it again.
"""

from collections.abc import Callable
from typing import Final, Protocol

from node.cluster.definitions.definitions_frames import Forwarded
from queues.definitions.metadata.commands import Command, DeleteByNode, NodeDown
from queues.definitions.metadata.entries import encode_entry
from queues.definitions.metadata.machine import Metadata
from queues.definitions.metadata.outcomes import Deleted, Outcome
from raft.entries import Config
from raft.group import Group
from raft.membership import AddVoter, Change, RemoveMember

GRACE_MS: Final = 60_000
CLEARED_MAX: Final = 512
ENTRY_BYTES: Final = 256 << 10
ENTRY_COMMANDS: Final = 512


class Proposer(Protocol):
    """How it gives commands: as any node does."""

    def propose(self, command: Command, done: Callable[[Outcome], None] | None = None) -> None: ...

    def is_trusted(self, member: int) -> bool: ...

    @property
    def process(self) -> int:
        """Whose batches are this node's own."""


class Leading:
    """One leadership, from when all of earlier terms is applied until it is lost.

    Invariant: `_taken` has the last batch of each process that was put into the log in this
    leadership; it is contiguous with what the machine has applied.
    """

    def __init__(
        self,
        machine: Metadata,
        group: Group,
        proposer: Proposer,
        found: Callable[[], Command | None],
        grace_ms: int = GRACE_MS,
    ) -> None:
        self._machine = machine
        self._group = group
        self._proposer = proposer
        self._found = found
        self._grace_ms = grace_ms
        self._taken: dict[int, int] = {}  # by process
        self._arrived: list[Forwarded] = []
        self._silent_since: dict[int, int] = {}  # by incarnation of the process
        self._clearing: set[int | str] = (
            set()
        )  # processes and nodes of which a command is under way
        self._is_founding = False
        removed = machine.roster.removed.values()
        self._forgotten = {each.name for each in removed if each.name}

    # Batches

    def received(self, batch: Forwarded) -> None:
        """From a node, this one too."""
        known = self._taken.get(batch.process)
        if known is None:
            found = self._machine.processes.batches.get(batch.process)
            known = 0 if found is None else found.last
        if batch.number == known + 1:
            self._taken[batch.process] = batch.number
            self._arrived.append(batch)

    def propose(self) -> None:
        """Put what has arrived into the log."""
        arrived = self._take_arrived()
        at = 0
        while at < len(arrived):
            end = at
            byte_count = command_count = 0
            while end < len(arrived) and (
                end == at or (byte_count < ENTRY_BYTES and command_count < ENTRY_COMMANDS)
            ):
                byte_count += len(arrived[end].content)
                command_count += arrived[end].command_count
                end += 1
            if (
                self._group.propose(encode_entry([each.content for each in arrived[at:end]]))
                is None
            ):
                self._dropped(arrived[at:])
                return
            at = end

    def _take_arrived(self) -> list[Forwarded]:
        """Before there is a cluster, others wait until it is founded by this node."""
        arrived = self._arrived
        self._arrived = []
        if self._machine.roster.cluster_id == 0:
            own = self._proposer.process
            self._arrived = [each for each in arrived if each.process != own]
            arrived = [each for each in arrived if each.process == own]
        return arrived

    def _dropped(self, batches: list[Forwarded]) -> None:
        """The group is full, or about to be handed over: they come again."""
        for each in reversed(batches):
            self._taken[each.process] = each.number - 1

    # What is to be seen to

    def look(self) -> None:
        """Something may have changed."""
        machine = self._machine
        if machine.roster.cluster_id == 0:
            self._found_cluster()
            return
        change = next_change(
            self._group.raft.config, set(machine.roster.members), self._group.raft.member
        )
        if change is not None:
            self._group.change(change)  # Refused: another one is under way.
        for process in machine.ended_with_queues():
            self._clear(process, NodeDown("", process, CLEARED_MAX))
        for name in list(self._forgotten):
            if machine.roster.named(name) is not None:
                self._forgotten.discard(name)
            else:
                self._clear(name, DeleteByNode(name, CLEARED_MAX))

    def forget(self, name: str) -> None:
        """The member of that name was removed."""
        if name:
            self._forgotten.add(name)

    def _found_cluster(self) -> None:
        found = None if self._is_founding else self._found()
        if found is not None:
            self._is_founding = True
            self._proposer.propose(found, self._founded)

    def _founded(self, outcome: Outcome) -> None:
        self._is_founding = False

    def _clear(self, what: int | str, command: NodeDown | DeleteByNode) -> None:
        if what in self._clearing:
            return
        self._clearing.add(what)

        def cleared(outcome: Outcome) -> None:
            self._clearing.discard(what)
            is_more = isinstance(outcome, Deleted) and len(outcome.subjects) == CLEARED_MAX
            if isinstance(what, str) and not is_more:
                self._forgotten.discard(what)

        self._proposer.propose(command, cleared)

    def tick(self, now_ms: int) -> None:
        """Time has passed: who is silent for too long is given up."""
        silent: dict[int, int] = {}
        for process in list(self._machine.processes.up.values()):
            if self._proposer.is_trusted(process.member):
                continue
            since = self._silent_since.get(process.incarnation, now_ms)
            silent[process.incarnation] = since
            if now_ms - since >= self._grace_ms:
                down = NodeDown(process.node, process.incarnation, CLEARED_MAX)
                self._clear(process.incarnation, down)
        self._silent_since = silent
        self.look()


def next_change(config: Config, wanted: set[int], own: int) -> Change | None:
    """What brings the members of the group nearer to those of the definitions; None: nothing."""
    surplus = [each for each in config.members() if each not in wanted]
    others = [each for each in surplus if each != own]
    if surplus:
        return RemoveMember(others[0] if others else own)
    for each in sorted(wanted):
        if each not in config.voters and each not in config.joining:
            return AddVoter(each)
    return None
