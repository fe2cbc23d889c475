"""A broker of a simulated node: follows the changes of the definitions with real routers.

What it has followed to must be what the machine says, whenever nothing is under way.
"""

from collections.abc import Callable, Mapping, Sequence

from node.events.authors import Author
from queues.definitions.broker_objects import Binding, Definition, Exchange, Queue
from queues.definitions.members import Member, Process
from queues.definitions.metadata.machine import Metadata
from queues.definitions.metadata.outcomes import Added, Change, Outcome, Removed
from queues.routing.router import Router


class Follower:
    """Keeps `DefinitionsUser`."""

    def __init__(
        self, machine: Metadata, name: str, incarnation: int, draw: Callable[[], int]
    ) -> None:
        self.metadata = machine
        self.node_name = name
        self.incarnation = incarnation
        self._draw = draw
        self.wants_step = False
        self.times_given_up = 0
        self.unborn_names: list[str] = []
        self.told: list[Outcome] = []  # what this node has proposed, as it was applied
        self.known: dict[int, Definition] = {}
        self.routers: dict[str, Router] = {}
        for each in contents(machine):
            self._take(Added(each))

    def mark_definitions(self, group: object, is_later: bool) -> None:
        self.wants_step = True

    def carry(self, changes: Sequence[Change]) -> Mapping[int, int]:
        for change in changes:
            self._take(change)
        return {}

    def _take(self, change: Change) -> None:
        subject = change.subject
        if isinstance(subject, Member | Process):
            return
        if isinstance(change, Added):
            assert subject.uid not in self.known, f"{subject} is added twice"
            self.known[subject.uid] = subject
        elif isinstance(change, Removed):
            assert self.known.pop(subject.uid).uid == subject.uid
        else:
            assert subject.uid in self.known, f"{subject} is replaced, and was not there"
            self.known[subject.uid] = subject
        if isinstance(subject, Exchange | Queue | Binding):
            router = self.routers.setdefault(subject.vhost, Router(subject.vhost))
            router.apply((change,))

    def carried(self) -> None:
        self.check()

    def answer(
        self, done: Callable[[Outcome], None], outcome: Outcome, ready: Mapping[int, int]
    ) -> None:
        done(outcome)

    def proposal_applied(self, outcome: Outcome, author: Author) -> None:
        self.told.append(outcome)

    def is_born_here(self, queue: Queue) -> bool:
        return queue.outlives_restart and queue.node == self.node_name

    def unborn(self, queue: Queue) -> None:
        assert self.metadata.queue(queue.uid) is None, "a queue that there is, is dropped"
        self.unborn_names.append(queue.name)

    def given_up(self) -> None:
        self.times_given_up += 1
        self.incarnation = self._draw()

    def check(self) -> None:
        """What it has followed to is what the machine says."""
        assert self.known == {each.uid: each for each in contents(self.metadata)}


def contents(machine: Metadata) -> list[Definition]:
    access = machine.access
    found: list[Definition] = [
        *access.users.values(),
        *access.permissions_by_key.values(),
        *access.topic_permissions_by_key.values(),
        *machine.parameters.values(),
    ]
    for vhost in machine.vhosts.values():
        found.append(vhost.entry)
        found += vhost.policies
        found += vhost.parameters.values()
        found += vhost.definitions()
    return found
