"""Groups of consumers of a stream of which one at a time is active (single active consumers).

A group has a name, and members in the order in which they joined; each is a session of its own. The
first member is the active one. In a super stream the groups of the partitions have the same name
and mostly the same members: there the member with the partition's number, modulo their count, is
wanted, so that the members share the partitions. An active member that is not the wanted one is
asked to stop, and the next one is activated when it says that it has (`join`), or ends.

Part of the replicated machine. No I/O.
"""

from typing import Final

import msgspec

from queues.machine.commands import SessionId

NO_PARTITION: Final = -1
NO_SESSION: Final = SessionId(0)
SESSION_BYTES: Final = 16

Told = list[tuple[SessionId, bool]]  # sessions, and whether each is active from now on


class GroupState(msgspec.Struct, frozen=True, array_like=True):
    """A group in a snapshot."""

    name: bytes
    partition: int
    members: list[bytes]
    active: int  # its index; -1: none
    stopping: bool


class Group:
    """The members that wait, and the one that is active."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.members: list[SessionId] = []
        self.active = NO_SESSION
        self.stopping = False  # the active one was asked to stop

    def wanted(self) -> SessionId:
        if not self.members:
            return NO_SESSION
        if self.partition >= 0:
            return self.members[self.partition % len(self.members)]
        return self.members[0] if self.active == NO_SESSION else self.active

    def settle(self) -> Told:
        wanted = self.wanted()
        if self.active == NO_SESSION and wanted != NO_SESSION:
            self.active = wanted
            return [(wanted, True)]
        if wanted != self.active and not self.stopping:
            self.stopping = True
            return [(self.active, False)]
        return []


class Groups:
    """See the module."""

    def __init__(self) -> None:
        self.by_name: dict[bytes, Group] = {}
        self._names: dict[SessionId, bytes] = {}

    def join(self, session: SessionId, name: bytes, partition: int) -> Told:
        """The session waits to be active; if it was, it has stopped."""
        told: Told = []
        if self._names.get(session, name) != name:
            told = self.end(session)
        group = self.by_name.get(name)
        if group is None:
            group = self.by_name[name] = Group(partition)
        if session not in group.members:
            group.members.append(session)
            self._names[session] = name
        elif session == group.active:
            group.active, group.stopping = NO_SESSION, False
        return told + group.settle()

    def end(self, session: SessionId) -> Told:
        """The session is over."""
        name = self._names.pop(session, None)
        if name is None:
            return []
        group = self.by_name[name]
        group.members.remove(session)
        if session == group.active:
            group.active, group.stopping = NO_SESSION, False
        if not group.members:
            del self.by_name[name]
        return group.settle()

    def is_active(self, session: SessionId) -> bool | None:
        """What the session heard last; None: it is in no group."""
        name = self._names.get(session)
        if name is None:
            return None
        group = self.by_name[name]
        return session == group.active and not group.stopping

    def state(self) -> list[GroupState]:
        return [
            GroupState(
                name,
                group.partition,
                [int(each).to_bytes(SESSION_BYTES, "little") for each in group.members],
                group.members.index(group.active) if group.active != NO_SESSION else -1,
                group.stopping,
            )
            for name, group in self.by_name.items()
        ]


def restored_groups(states: list[GroupState]) -> Groups:
    """ValueError: of no machine."""
    groups = Groups()
    for state in states:
        group = groups.by_name[state.name] = Group(state.partition)
        for member in state.members:
            session = SessionId(int.from_bytes(member, "little"))
            if len(member) != SESSION_BYTES or session in groups._names:
                raise ValueError(f"a member of the group {state.name!r} that cannot be")
            group.members.append(session)
            groups._names[session] = state.name
        if not group.members or not -1 <= state.active < len(group.members):
            raise ValueError(f"the group {state.name!r} has no such active member")
        group.active = group.members[state.active] if state.active >= 0 else NO_SESSION
        group.stopping = state.stopping
    return groups
