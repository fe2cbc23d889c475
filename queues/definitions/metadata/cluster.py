"""What the metadata machine knows of the cluster itself: members, and processes of its nodes.

`Roster` says who is a member and who was one; `Processes` which process of each node is up, and how
far the batches of each are applied, with the outcomes that their senders may not know yet. Both are
changed by committed commands alone, and read nothing but themselves and the command.

Laws: a member id is given once; an incarnation of a data directory that was removed never returns;
of a node one process is up at most, and one that has ended never comes again. A batch is applied if
its number follows the last one, and at no other time.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from queues.definitions.broker_objects import MirrorView, Queue
from queues.definitions.members import Member, Process, RemovedMember
from queues.definitions.metadata.commands import (
    AddMember,
    DeclareQueue,
    Found,
    NodeUp,
    Numbered,
    PutMember,
    RecoverQueue,
    SetMirrorView,
    SetQueueMembers,
)
from queues.definitions.metadata.outcomes import (
    NOTHING_DELETED,
    Added,
    Change,
    Created,
    Deleted,
    Exists,
    Outcome,
    Refused,
    Removed,
    Replaced,
)
from warren.wire.errors import ReplyCode

ENDED_MAX: Final = 256  # processes that are remembered to have ended


class RosterRow(msgspec.Struct, frozen=True, array_like=True):
    """The roster at rest."""

    cluster_id: int
    next_member: int
    changed_index: int
    members: tuple[Member, ...]
    removed: tuple[RemovedMember, ...]
    ended: tuple[int, ...]


class Roster:
    """Invariant: `next_member` is above every id ever given; names, incarnations and addresses of
    members differ."""

    __slots__ = ("changed_index", "cluster_id", "members", "next_member", "removed")

    def __init__(self) -> None:
        self.cluster_id = 0  # 0: no cluster was founded
        self.next_member = 1
        self.changed_index = 0  # entry that changed a member, or who is up, last
        self.members: dict[int, Member] = {}
        self.removed: dict[int, RemovedMember] = {}

    def named(self, name: str) -> Member | None:
        """The member of that name; places that no node has taken have none."""
        found = (each for each in self.members.values() if each.name == name)
        return next(found, None) if name else None

    def known(self, ids: Sequence[int]) -> tuple[int, ...]:
        """Those of them that are members, each once."""
        return tuple(each for each in dict.fromkeys(ids) if each in self.members)

    def found(self, command: Found) -> Outcome:
        """The beginning."""
        if self.cluster_id != 0:
            return refused(f"the cluster was founded before, as {self.cluster_id:016x}")
        ids = [each.id for each in command.members]
        if command.cluster_id == 0 or ids != list(range(1, len(ids) + 1)) or not ids:
            return refused("no cluster can be founded like this")
        self.cluster_id = command.cluster_id
        self.members = {each.id: each for each in command.members}
        self.next_member = len(ids) + 1
        added = tuple(Added(each) for each in command.members)
        return Created(command.members[0], added)

    def add(self, command: AddMember) -> Outcome:
        """See the command."""
        refusal = self._add_refusal(command)
        if refusal is not None:
            return refusal
        known = self.named(command.name)
        if known is not None and known.incarnation == command.incarnation:
            return self._put(member_of(known.id, command, known.draining))
        changes: list[Change] = []
        if known is not None:
            changes.append(self._remove(known))
        place = self._place_at(command.cluster_host, command.cluster_port)
        member = member_of(self.next_member if place is None else place.id, command)
        self.members[member.id] = member
        if place is None:
            self.next_member += 1
            changes.append(Added(member))
        else:
            changes.append(Replaced(member))
        return Created(member, tuple(changes))

    def _add_refusal(self, command: AddMember) -> Refused | None:
        name = command.name
        if self.cluster_id == 0:
            return refused("no cluster was founded")
        if not name or command.incarnation == 0:
            return refused("a node needs a name and an incarnation")
        if any(each.incarnation == command.incarnation for each in self.removed.values()):
            return refused(
                f"node '{name}' was removed from the cluster: "
                "it may come back with an empty data directory"
            )
        address = (command.cluster_host, command.cluster_port)
        for each in self.members.values():
            if each.name in ("", name):
                continue
            if each.incarnation == command.incarnation:
                return refused(f"the data directory of node '{name}' is that of '{each.name}'")
            if (each.cluster_host, each.cluster_port) == address:
                where = f"{address[0]}:{address[1]}"
                return refused(f"{where} is the address of '{each.name}': forget that node first")
        return None

    def _place_at(self, host: str, port: int) -> Member | None:
        for each in self.members.values():
            if not each.name and (each.cluster_host, each.cluster_port) == (host, port):
                return each
        return None

    def put(self, command: PutMember) -> Outcome:
        """See the command."""
        new = command.member
        old = self.members.get(new.id)
        if old is None or (old.name, old.incarnation) != (new.name, new.incarnation):
            return Refused(ReplyCode.NOT_FOUND, f"no member {new.id} of this name and incarnation")
        return self._put(new)

    def _put(self, new: Member) -> Outcome:
        if self.members[new.id] == new:
            return Exists(new)
        self.members[new.id] = new
        return Created(new, (Replaced(new),))

    def remove(self, member: int) -> Outcome:
        """It is none any more."""
        found = self.members.get(member)
        if found is None:
            return NOTHING_DELETED
        if len(self.members) == 1:
            return refused("the last member cannot be removed")
        return Deleted((found,), (self._remove(found),))

    def _remove(self, member: Member) -> Change:
        del self.members[member.id]
        gone = RemovedMember(member.id, member.name, member.incarnation)
        self.removed[member.id] = gone
        return Removed(member)

    def row(self, ended: Sequence[int]) -> RosterRow:
        return RosterRow(
            self.cluster_id,
            self.next_member,
            self.changed_index,
            tuple(self.members.values()),
            tuple(self.removed.values()),
            tuple(ended),
        )

    def take(self, row: RosterRow) -> None:
        """Be what the row says."""
        self.cluster_id = row.cluster_id
        self.next_member = row.next_member
        self.changed_index = row.changed_index
        self.members = {each.id: each for each in row.members}
        self.removed = {each.id: each for each in row.removed}


class Batches:
    """Batches of one process that is up: the last number, and outcomes that may be asked for.

    Invariant: `outcomes` has those of the numbers above `answered` up to `last`, in order.
    """

    __slots__ = ("answered", "last", "outcomes", "process")

    def __init__(self, process: Process) -> None:
        self.process = process
        self.last = 0
        self.answered = 0
        self.outcomes: dict[int, tuple[Outcome, ...]] = {}

    def applied(self, command: Numbered, outcomes: tuple[Outcome, ...]) -> None:
        self.last = command.number
        self.outcomes[command.number] = outcomes
        for number in range(self.answered + 1, min(command.answered, command.number - 1) + 1):
            self.outcomes.pop(number, None)
            self.answered = number


class Processes:
    """Invariant: `batches` has exactly those in `up`, by incarnation; none of them is in `ended`,
    which has the newest ENDED_MAX that have ended, oldest first."""

    __slots__ = ("batches", "ended", "up")

    def __init__(self) -> None:
        self.up: dict[str, Process] = {}  # by node
        self.batches: dict[int, Batches] = {}
        self.ended: dict[int, None] = {}

    def incarnation_at(self, node: str) -> int:
        """Of the process that is up there; 0: none is, or there is no cluster."""
        found = self.up.get(node)
        return 0 if found is None else found.incarnation

    def begin(self, command: NodeUp) -> Outcome:
        """A process begins; the one before it at its node has ended."""
        if command.process in self.ended or command.process == 0:
            return refused(f"process {command.process:016x} of '{command.node}' has ended")
        known = self.batches.get(command.process)
        if known is not None:
            return Exists(known.process)
        process = Process(command.node, command.member, command.process)
        changes = list(self._end(self.up.get(command.node)))
        self.up[command.node] = process
        self.batches[process.incarnation] = Batches(process)
        return Created(process, (*changes, Added(process)))

    def end(self, node: str, incarnation: int = 0) -> tuple[Change, ...]:
        """The process has ended, or, with 0, whatever is up at the node."""
        found = self.up.get(node)
        if found is None or incarnation not in (0, found.incarnation):
            return ()
        return tuple(self._end(found))

    def _end(self, process: Process | None) -> Iterator[Change]:
        if process is None:
            return
        del self.up[process.node]
        del self.batches[process.incarnation]
        self.ended[process.incarnation] = None
        if len(self.ended) > ENDED_MAX:
            del self.ended[next(iter(self.ended))]
        yield Removed(process)


def member_of(member: int, command: AddMember, draining: bool = False) -> Member:
    return Member(
        member,
        command.name,
        command.incarnation,
        command.cluster_host,
        command.cluster_port,
        command.host_id,
        command.zone,
        command.amqp,
        command.management,
        draining,
        command.amqps,
        command.tags,
        command.stream,
        command.stream_tls,
    )


def with_members(
    queue: Queue, command: SetQueueMembers | RecoverQueue | SetMirrorView, roster: Roster
) -> Queue | Refused:
    """The queue with the members that the command gives it."""
    if isinstance(command, SetMirrorView):
        return with_mirrors(queue, command.view, roster)
    if isinstance(command, SetQueueMembers):
        members = command.members
        if not members or roster.known(members) != members:
            return refused(f"members {members} are not different members of the cluster")
        return msgspec.structs.replace(queue, members=members)
    if command.member not in queue.members:
        return refused(f"member {command.member} has no part of queue '{queue.name}'")
    if command.term <= queue.reborn_term:
        return refused(f"queue '{queue.name}' was recovered by another request")
    return msgspec.structs.replace(
        queue, members=(command.member,), reborn_term=command.term, reborn_on=command.member
    )


def with_mirrors(queue: Queue, view: MirrorView, roster: Roster) -> Queue | Refused:
    """The queue with the next view. A view that is there already is no error: it was sent twice."""
    if queue.members or queue.exclusive:
        return refused(f"queue '{queue.name}' cannot have mirrors")
    known = queue.mirrors
    if known == view:
        return queue
    if view.epoch != (1 if known is None else known.epoch + 1):
        return refused(f"the view of queue '{queue.name}' was changed by another request")
    fault = view_fault(view, 0 if known is None else known.term, roster)
    if fault:
        return refused(f"view {view.epoch} of queue '{queue.name}': {fault}")
    if view.members or known is None:
        return msgspec.structs.replace(queue, mirrors=view)
    if len(known.members) != 1:
        return refused(f"queue '{queue.name}' has mirrors on other nodes than its leader's")
    home = roster.members.get(known.members[0])
    node = queue.node if home is None else home.name
    return msgspec.structs.replace(queue, mirrors=view, node=node)


def first_mirrors(command: DeclareQueue, roster: Roster) -> MirrorView | None:
    """The view with which a queue is declared. One that does not hold any more is left out: the
    queue gets its mirrors later."""
    view = command.mirrors
    if view is None or command.members or command.exclusive_owner or view.epoch != 1:
        return None
    return None if view_fault(view, 0, roster) else view


def view_fault(view: MirrorView, last_term: int, roster: Roster) -> str:
    """What no view may be, whatever the one before it was; "": nothing is wrong."""
    members = view.members
    if roster.known(members) != members:
        return f"members {members} are not different members of the cluster"
    if len(view.joined) != len(members):
        return f"{len(members)} members, and epochs of {len(view.joined)}"
    if any(not 0 < joined <= view.epoch for joined in view.joined):
        return f"members joined in {view.joined}"
    if not set(view.synchronised) <= set(members) or not set(view.partial) <= set(members):
        return f"synchronised {view.synchronised} and partial {view.partial} are not all members"
    if not members:
        return ""
    if not last_term <= view.term <= view.epoch or view.term <= 0:
        return f"term {view.term}, and the last one was {last_term}"
    return "" if members[0] in view.synchronised else f"leader {members[0]} is not synchronised"


def refused(text: str) -> Refused:
    return Refused(ReplyCode.PRECONDITION_FAILED, text)
