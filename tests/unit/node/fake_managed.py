"""A broker and a connection for management over AMQP 1.0: a real metadata machine, fake queues."""

from collections.abc import Callable
from typing import cast

from node.auth.asked_access import Undecided
from node.auth.permissions import PermissionCache
from node.cluster.services.whereis import WhereIs
from node.connections.client_connection import ClientConnection
from node.connections.connection_registry import ConnectionRegistry
from node.definitions.queue_churn import QueueChurn
from node.events.authors import AMQP, BROKER, Author
from node.events.events import Events
from node.leases.answering import Answering
from node.leases.leases import Leases
from node.operations.peeking import Peeked, PeekFailed
from node.process_identity import ProcessIdentity
from node.resources.publish_hold import Hold
from queues.definitions.broker_objects import Exchange, Queue
from queues.definitions.metadata.commands import Command
from queues.definitions.metadata.machine import Metadata
from queues.definitions.metadata.outcomes import Deleted, Outcome
from tests.unit.node.fake_access import FakeAccess
from tests.unit.node.fake_places import OneNode
from tests.unit.queues.definitions.steps import Steps
from tests.unit.queues.fake_queue import FakeQueue
from warren.wire.errors import ProtocolError, ReplyCode

ALL = (".*", ".*", ".*")
HERE = "warren@here"


class FakeManaged:
    """Commands wait in `proposed` until `commit`; `damaged` queues are not served."""

    def __init__(self) -> None:
        self.steps = Steps()
        self.proposed: list[tuple[Command, Callable[[Outcome], None]]] = []
        self.authors: list[Author] = []  # of all that was ever proposed
        self.fake_queues: dict[int, FakeQueue] = {}
        self.damaged: set[str] = set()
        self.elsewhere: set[str] = set()  # queues of other nodes
        self.peeks: list[tuple[str, int, int, int]] = []
        self.churn = QueueChurn()
        self.identity = ProcessIdentity()
        self.connections = ConnectionRegistry(Events(HERE, lambda: 0), Hold(), self.propose)
        self.connections.open["one"] = cast(ClientConnection, object())
        self.whereis: WhereIs = OneNode(HERE)
        self.leases = cast(Leases, None)  # tests/conformance/test_leases.py has them
        self.lease_answers = cast(Answering, None)  # the same
        self._removed: dict[int, int] = {}

    @property
    def metadata(self) -> Metadata:
        return self.steps.machine

    @metadata.setter
    def metadata(self, machine: Metadata) -> None:
        self.steps.machine = machine

    @property
    def node_name(self) -> str:
        return HERE

    def queue(self, vhost: str, name: str) -> Queue | None:
        return self.steps.vhost.queues.get(name) if vhost == "/" else None

    async def peek(self, queue: Queue, offset: int, count: int, payload_bytes: int) -> list[Peeked]:
        self.peeks.append((queue.name, offset, count, payload_bytes))
        if queue.name in self.elsewhere:
            raise PeekFailed("it has no leader")
        payload = b"body"[:payload_bytes]
        return [Peeked(offset, True, 2, "x", b"k", b"", payload, 4)]

    def check_served(self, queue: Queue) -> None:
        if queue.name in self.damaged:
            raise ProtocolError(ReplyCode.NOT_FOUND, f"queue '{queue.name}' is damaged")

    topic_hashes_max = 0

    def is_topic(self, vhost: str, exchange: str) -> bool:
        return vhost == "/" and self.steps.router.is_topic(exchange)

    def exchange(self, vhost: str, name: str) -> Exchange | None:
        return self.steps.vhost.exchanges.get(name) if vhost == "/" else None

    def has_exchange(self, vhost: str, name: str) -> bool:
        return self.exchange(vhost, name) is not None

    # The broker and its parts are one fake.

    @property
    def queues(self) -> "FakeManaged":
        return self

    @property
    def definitions(self) -> "FakeManaged":
        return self

    @property
    def changes(self) -> "FakeManaged":
        return self

    def is_at_rest(self, uid: int) -> bool:
        return uid not in self.fake_queues

    def is_home(self, queue: Queue) -> bool:
        return queue.name not in self.elsewhere

    def is_down(self, queue: Queue) -> bool:
        return False

    def host(self, uid: int) -> FakeQueue:
        return self.fake_queues.setdefault(uid, FakeQueue(uid))

    def ready_of_removed(self, uid: int) -> int:
        return self._removed.get(uid, 0)

    def propose(
        self, command: Command, done: Callable[[Outcome], None], author: Author = BROKER
    ) -> None:
        self.proposed.append((command, done))
        self.authors.append(author)

    def commit(self) -> None:
        """Apply what was proposed, and answer."""
        proposed, self.proposed = self.proposed, []
        for command, done in proposed:
            outcome = self.steps.do(command)
            if isinstance(outcome, Deleted):
                gone = [each for each in outcome.subjects if isinstance(each, Queue)]
                self._removed = {
                    each.uid: len(self.fake_queues[each.uid].bodies)
                    for each in gone
                    if each.uid in self.fake_queues
                }
            done(outcome)


class FakeRequester:
    """A connection of guest to vhost `/`."""

    def __init__(self, broker: FakeManaged, id_: str = "c1") -> None:
        self.broker = broker
        self.id = id_
        self.vhost = "/"
        self.user = "guest"
        self.owns_queues = False
        self.access = FakeAccess(permitted={("guest", "/"): ALL})
        self.permissions = PermissionCache(self.access, "guest", "/")

    def urls_of(self, node: str) -> list[str]:
        return ["amqp://127.0.0.1:5672"] if node == HERE else [f"amqp://{node}:5672"]

    def author(self) -> Author:
        return Author("guest", "10.0.0.1", AMQP)

    def when(self, undecided: Undecided, call: Callable[[], None]) -> None:
        undecided.then(call)

    def permit(self, configure: str, write: str, read: str) -> None:
        self.access.permitted["guest", "/"] = (configure, write, read)
        self.access.version += 1
