"""Brings routers, queues and connections of this node to what the definitions say.

Follows each change once it is applied to the machine, whichever node proposed it. Counts queues
that are created and deleted: in a cluster the node of the queue counts, so that the sum over all
nodes has each queue once. What a start replays was counted by the process before.
"""

from collections.abc import Callable, Mapping, Sequence

from node.amqp10.named_targets import NamedTargets
from node.cluster.services.whereis import WhereIs
from node.connections.connection_registry import ConnectionRegistry
from node.definitions.policing import PolicyKeeper
from node.definitions.queue_churn import QueueChurn
from node.definitions.queue_registry import QueueRegistry
from node.definitions.routes import RouteCaches, Routers
from node.events.observers import Observers
from queues.definitions.broker_objects import (
    Binding,
    Exchange,
    Parameter,
    Policy,
    Queue,
    User,
    VhostEntry,
)
from queues.definitions.metadata.machine import Metadata
from queues.definitions.metadata.outcomes import Added, Change, Outcome, Removed
from queues.definitions.standby import STANDBY


class ChangeFollower:
    """See the module. All methods run on the loop thread."""

    def __init__(
        self,
        metadata: Metadata,
        routers: Routers,
        caches: RouteCaches,
        queues: QueueRegistry,
        policies: PolicyKeeper,
        whereis: WhereIs,
        connections: ConnectionRegistry,
        named_targets: NamedTargets,
        observers: Observers,
        changed: Callable[[], None],
        counts: Callable[[Queue], bool],
        reconcile: Callable[[Sequence[Change]], None],
    ) -> None:
        """`changed`: called behind all changes. `counts`: whether this node counts a queue that is
        created or deleted now. `reconcile`: gets the changes behind which queues may want other
        members."""
        self.churn = QueueChurn()
        self._metadata = metadata
        self._routers = routers
        self._caches = caches
        self._queues = queues
        self._policies = policies
        self._whereis = whereis
        self._connections = connections
        self._named_targets = named_targets
        self._observers = observers
        self._changed = changed
        self._counts = counts
        self._reconcile = reconcile
        self._removed_ready: dict[int, int] = {}

    def load(self) -> None:
        """Make routers, and hosts where they are needed, for what the machine holds."""
        for vhost in self._metadata.vhosts.values():
            router = self._routers.of(vhost.name)
            for subject in vhost.definitions():
                router.add(subject)
            self._policies.apply_to_exchanges(vhost)
            for queue in vhost.queues.values():
                self._queues.added(queue)
        self._observers.load()
        self._changed()

    def carry(self, changes: Sequence[Change]) -> dict[int, int]:
        """Follow changes; return by uid how many messages were ready in queues that are deleted."""
        for change in changes:
            self._carry(change)
        self._observers.carried(changes)
        self._changed()
        self._policies.go_on()
        self._reconcile(changes)
        ready, self._removed_ready = self._removed_ready, {}
        return ready

    def _carry(self, change: Change) -> None:
        subject = change.subject
        if isinstance(subject, (Exchange, Queue, Binding)):
            self._routers.of(subject.vhost).apply((change,))
        if isinstance(subject, Exchange) and isinstance(change, Added):
            self._policies.apply_to_exchange(subject)
        if isinstance(subject, Policy):
            self._policies.changed(subject.vhost)
        if isinstance(subject, Parameter) and subject.component == STANDBY:
            self._policies.changed(subject.vhost)  # They have no effect in a standby.
            if not isinstance(change, Removed):
                self._connections.close_vhost(subject.vhost)
        if isinstance(subject, (VhostEntry, User)) and isinstance(change, Removed):
            self._remove_owner(subject)
        if isinstance(subject, Queue):
            self._carry_queue(subject, change)

    def _carry_queue(self, queue: Queue, change: Change) -> None:
        if self._counts(queue):
            self.churn.count(change)
        if isinstance(change, Added):
            self._policies.added(queue.uid)
            self._queues.added(queue)
        elif isinstance(change, Removed):
            self._remove_queue(queue)
        else:
            self._whereis.queue_changed(queue.uid)
            self._queues.changed(queue)

    def _remove_owner(self, subject: VhostEntry | User) -> None:
        """Keep nothing for a deleted vhost or user, and close the connections to the vhost."""
        if isinstance(subject, User):
            self._caches.user_gone(subject.name)
            return
        self._routers.remove(subject.name)
        self._caches.vhost_gone(subject.name)
        self._connections.close_vhost(subject.name)

    def _remove_queue(self, queue: Queue) -> None:
        ready = self._queues.removed(queue)
        if ready is not None:
            self._removed_ready[queue.uid] = ready
        self._named_targets.queue_deleted(queue.uid)

    def remove_unborn(self, queue: Queue) -> None:
        """Remove a queue that the log has messages of, and the definitions do not have."""
        if self._metadata.queue(queue.uid) is None:
            self._remove_queue(queue)
            self._removed_ready = {}

    def answer_proposal(
        self, done: Callable[[Outcome], None], outcome: Outcome, ready: Mapping[int, int]
    ) -> None:
        """Give a proposer its outcome; `ready` is what `carry` gave for the entry."""
        self._removed_ready = dict(ready)
        done(outcome)
        self._removed_ready = {}

    def ready_of_removed(self, uid: int) -> int:
        """How many messages were ready in a queue that this commit removed."""
        return self._removed_ready.get(uid, 0)
