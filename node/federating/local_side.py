"""What federation links ask of this node: names, bindings, and consumers that wait for messages."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from node.cluster.services.status_channel import NoAnswer
from queues.machine.fifo import Fifo
from queues.routing.federation_upstream import Place

if TYPE_CHECKING:
    from federation.link import Local
    from node.broker import Broker

DEMAND: Final = "link-demand"  # question: whether consumers of these queues wait for messages
DEMAND_TIMEOUT_S: Final = 0.5
CLUSTER_NAME: Final = "cluster_name"

QueueName = tuple[str, str]  # vhost, name


def waits(machine: Fifo) -> bool:
    """Whether a consumer of the queue, other than another federation's, has credit and nothing is
    ready for it."""
    if machine.ready.count:
        return False
    return any(level.count > 0 and level.priority >= 0 for level in machine.roster.lines.levels)


class LocalSide:
    """Makes `federation.link.Local`. Invariant: `_elsewhere` has the queues of other nodes whose
    consumers waited when their nodes were asked last."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._elsewhere: set[QueueName] = set()
        broker.operating.status.serve(DEMAND, self._answer)

    def local(self) -> "Local":
        from federation.link import Local

        return Local(self.place, self.bindings, self.has_demand, self.is_here)

    def cluster_name(self) -> str:
        broker = self._broker
        found = broker.metadata.parameters.get(("", CLUSTER_NAME))
        value = None if found is None else msgspec.json.decode(found.value)
        if isinstance(value, str):
            return value
        return broker.config.cluster.name or broker.operating.oldest_node or broker.node_name

    def cluster_id(self) -> str:
        return f"{self._broker.metadata.roster.cluster_id:032x}"

    def place(self, vhost: str) -> Place:
        return Place(self.cluster_name(), vhost, self.cluster_id())

    def bindings(self, vhost: str, exchange: str) -> frozenset[tuple[bytes, bytes]]:
        found = self._broker.metadata.vhosts.get(vhost)
        if found is None:
            return frozenset()
        return frozenset(
            (each.binding_key, each.arguments) for each in found.bindings_from(exchange)
        )

    def has_demand(self, vhost: str, name: str) -> bool:
        machine = self._machine(vhost, name)
        return (vhost, name) in self._elsewhere if machine is None else waits(machine)

    def is_here(self, vhost: str, name: str) -> bool:
        """Whether `has_demand` is as of now: the queue is led from here."""
        return self._machine(vhost, name) is not None

    async def refresh(self, names: Sequence[QueueName]) -> None:
        """Ask the nodes of the queues that are not here."""
        by_member: dict[int, list[QueueName]] = {}
        for each in names:
            leader = self._broker.operating.leader_of(*each)
            if self._machine(*each) is None and leader not in (0, self._broker.member):
                by_member.setdefault(leader, []).append(each)
        asked = by_member.items()
        found = await asyncio.gather(*(self._ask(*each) for each in asked))
        self._elsewhere = set().union(*found)

    async def _ask(self, member: int, queues: Sequence[QueueName]) -> set[QueueName]:
        """Those of these queues, led by that node, whose consumers wait. A node that is late to
        answer says nothing new: a link that stops and begins again for that moves messages back."""
        about = [list(each) for each in queues]
        try:
            found = await self._broker.operating.status.ask(member, DEMAND, about, DEMAND_TIMEOUT_S)
        except NoAnswer:
            is_connected = self._broker.operating.peers.is_connected(member)
            return self._elsewhere.intersection(queues) if is_connected else set()
        return {name for name, wants in zip(queues, found, strict=False) if wants}

    async def _answer(self, member: int, about: Any) -> AsyncIterator[object]:
        for vhost, name in about:
            machine = self._machine(str(vhost), str(name))
            yield machine is not None and waits(machine)

    def _machine(self, vhost: str, name: str) -> Fifo | None:
        """The machine of a queue that lives here, or is led from here; None: elsewhere."""
        broker = self._broker
        queue = broker.definitions.queue(vhost, name)
        if queue is None or not broker.operating.is_led_here(queue.uid):
            return None
        core = broker.queues.hosts.awake.get(queue.uid)
        return None if core is None else core.machine
