"""How many queues clients have declared, and how many were created and deleted since the start."""

from typing import Protocol

from queues.definitions.metadata.outcomes import Added, Change, Removed


class QueueChurn:
    """See the module."""

    def __init__(self) -> None:
        self.declared = self.created = self.deleted = 0

    def count_declared(self) -> None:
        self.declared += 1

    def count(self, change: Change) -> None:
        self.created += isinstance(change, Added)
        self.deleted += isinstance(change, Removed)


class QueueChanges(Protocol):
    """See `node.definitions.change_follower`."""

    @property
    def churn(self) -> QueueChurn: ...

    def ready_of_removed(self, uid: int) -> int: ...
