"""The definitions of a cluster, as far as members go: keeps `Definitions`, and answers at once."""

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from node.events.authors import BROKER, Author
from queues.definitions.members import Member
from queues.definitions.metadata.commands import AddMember, Batch, Command, PutMember
from queues.definitions.metadata.outcomes import Batched, Deleted, Outcome, Refused
from warren.wire.errors import ReplyCode


@dataclass
class FakeStatus:
    """Keeps `DefinitionsStatus`."""

    leader: int = 1
    term: int = 1
    applied_index: int = 1
    waiting: int = 0
    lags: dict[int, int] = field(default_factory=dict)
    voters: tuple[int, ...] = (1,)
    learners: tuple[int, ...] = ()


class FakeDefinitions:
    """See the module. `refusals` come first, one for each command."""

    def __init__(self, cluster_id: int, *rows: Member) -> None:
        self.on_changed: list[Callable[[Member | None, Member | None], None]] = []
        self.on_process: list[Callable[[str, int, bool], None]] = []
        self.cluster_id = cluster_id
        self.is_leader = True
        self.leader = 1
        self.membership_index = 1
        self.rows = {row.id: row for row in rows}
        self.proposed: list[Command] = []
        self.refusals: list[str] = []
        self.ticked_ms = 0

    def propose(
        self,
        command: Command,
        done: Callable[[Outcome], None] | None = None,
        author: Author = BROKER,
    ) -> None:
        self.proposed.append(command)
        outcome: Outcome = Deleted((), ())
        if self.refusals:
            outcome = Refused(ReplyCode.INTERNAL_ERROR, self.refusals.pop(0))
        elif isinstance(command, AddMember):
            self._add(command)
        elif isinstance(command, PutMember):
            self.rows[command.member.id] = command.member
        else:
            assert command == Batch(())
            outcome = Batched((), ())
        if done is not None:
            done(outcome)

    def _add(self, command: AddMember) -> None:
        address = (command.cluster_host, command.cluster_port)
        member = max(self.rows) + 1
        for row in self.rows.values():
            known = (row.name, row.incarnation) == (command.name, command.incarnation)
            empty = not row.name and (row.cluster_host, row.cluster_port) == address
            if known or empty:
                member = row.id
        self.rows[member] = Member(member, *msgspec.structs.astuple(command))

    def members(self) -> list[Member]:
        return [row for _, row in sorted(self.rows.items())]

    def member_named(self, name: str) -> Member | None:
        return next((row for row in self.rows.values() if row.name == name), None)

    def process_of(self, name: str) -> int:
        return 0

    def status(self) -> FakeStatus:
        return FakeStatus()

    # As the node drives it

    def tick(self, now_ms: int) -> None:
        self.ticked_ms = now_ms

    def when_saved(self, done: Callable[[], None]) -> None:
        done()

    def change(self, before: Member | None, after: Member | None) -> None:
        """A member has changed, by a command that was committed."""
        if before is not None:
            del self.rows[before.id]
        if after is not None:
            self.rows[after.id] = after
        for told in self.on_changed:
            told(before, after)
