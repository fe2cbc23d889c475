"""What the parts of a node see of the definitions of a cluster (0037). No I/O.

`node.cluster.definitions.definitions_group.DefinitionsGroup` keeps this. Reading is local:
`Broker.metadata`.
"""

from collections.abc import Callable
from typing import Final, Protocol

from node.events.authors import BROKER, Author
from queues.definitions.members import Member
from queues.definitions.metadata.commands import Command
from queues.definitions.metadata.outcomes import Outcome

TIMED_OUT: Final = "because the operation timed out"  # end of the text of such a `Refused`


class DefinitionsStatus(Protocol):
    """How the group stands, as this node sees it."""

    @property
    def leader(self) -> int:
        """Member id; 0: none is known, so changes will time out and reads may be stale."""

    @property
    def term(self) -> int: ...

    @property
    def applied_index(self) -> int: ...

    @property
    def waiting(self) -> int:
        """Commands of this node that are not answered yet."""

    @property
    def lags(self) -> dict[int, int]:
        """By member: how many entries it has still to apply, as far as this node knows."""

    @property
    def voters(self) -> tuple[int, ...]: ...

    @property
    def learners(self) -> tuple[int, ...]: ...


class Definitions(Protocol):
    """The group of the definitions on this node. All calls on the loop thread."""

    on_changed: list[Callable[[Member | None, Member | None], None]]
    """Called with (before, after) when a member was added (None before), changed, or removed (None
    after), in the turn in which that is applied here. At the start, call `members` for the rest."""

    on_process: list[Callable[[str, int, bool], None]]
    """Called with (name of the node, incarnation of its process, whether it is up) when a new
    process of a node is known, and when one has ended or was given up (`NodeDown`): its sessions
    never come again. Of this node's own process that is reported, too: it has to restart."""

    @property
    def cluster_id(self) -> int:
        """64 bits; 0: no cluster was founded, as far as this node knows."""

    @property
    def is_leader(self) -> bool:
        """Whether this member leads the group, and has applied all of earlier terms."""

    @property
    def leader(self) -> int:
        """Member id of the leader; 0: none is known."""

    @property
    def membership_index(self) -> int:
        """Index of the entry that last changed a member, or told of a new process of one."""

    def propose(
        self,
        command: Command,
        done: Callable[[Outcome], None] | None = None,
        author: Author = BROKER,
    ) -> None:
        """Have it committed. `done` gets the outcome once it is applied here and by every
        trusted node; or, after 15 s without that, `Refused(INTERNAL_ERROR, "... because the
        operation timed out")`: then it may still come to be applied."""

    def members(self) -> list[Member]:
        """By ascending id; founding places that are still free have no name."""

    def member_named(self, name: str) -> Member | None: ...

    def process_of(self, name: str) -> int:
        """Incarnation of the process of the node that is up, as far as is known; 0: none is."""

    def status(self) -> DefinitionsStatus: ...
