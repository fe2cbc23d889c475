"""Between a queue and its dead-letter exchange: tells the ledger who dies, before it does so."""

from queues.hosts.host_interfaces import DeadLetterPublisher
from queues.message import Chunk
from tests.sim.queues.ledger import Ledger
from tests.sim.queues.letters import payload_of
from tests.sim.queues.node import SimNode
from tests.unit.queues.at_most_once import AtMostOnce


class Grave(AtMostOnce):
    """Keeps the `DeadLetterPublisher` Protocol around the queue's own one."""

    def __init__(
        self, node: SimNode, ledger: Ledger, uid: int, target: str, inner: DeadLetterPublisher
    ) -> None:
        self._node = node
        self._ledger = ledger
        self._uid = uid
        self._target = target
        self._inner = inner

    def bury(self, chunk: Chunk, index: int, count: int, reason: str, first: int) -> int:
        found = self._node.broker.definitions.queue("/", self._target)
        target = 0 if found is None else found.uid
        taken = self._inner.bury(chunk, index, count, reason, first)
        for at in range(index, index + taken):
            self._ledger.died(self._uid, payload_of(chunk, at), target)
        return taken

    def close(self) -> None:
        self._inner.close()
