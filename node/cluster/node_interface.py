"""The node as the parts of its cluster use it (`node.broker.Broker`)."""

from typing import TYPE_CHECKING, Protocol

from node.process_identity import ProcessIdentity

if TYPE_CHECKING:
    from node.addresses.address_keeper import AddressKeeper
    from node.cluster.queues.queues_channel import QueuesChannel
    from node.config.settings import Config
    from node.connections.client_limits import ClientLimits
    from node.connections.connection_registry import ConnectionRegistry
    from node.definitions.broker_definitions import BrokerDefinitions
    from node.definitions.effective_rules import EffectiveRules
    from node.definitions.host_steps import HostSteps
    from node.definitions.queue_registry import QueueRegistry
    from node.events.events import Events
    from node.events.observers import Observers
    from node.resources.alarms import Alarms
    from node.turn import Turn
    from queues.definitions.metadata.machine import Metadata
    from queues.sessions.counts import Counts
    from queues.sessions.credit import CreditSpec


class Node(Protocol):
    """See the module. While the parts of the cluster are made, those of the second group are
    missing: they need the parts of the cluster."""

    config: "Config"
    turn: "Turn"
    metadata: "Metadata"
    node_name: str
    identity: ProcessIdentity
    server_properties: dict[str, object]
    events: "Events"
    observers: "Observers"
    alarms: "Alarms"
    connections: "ConnectionRegistry"
    addresses: "AddressKeeper"
    channel_credit: "CreditSpec"
    counts: "Counts"
    counts10: "Counts"

    away: "QueuesChannel"
    definitions: "BrokerDefinitions"
    steps: "HostSteps"
    rules: "EffectiveRules"
    queues: "QueueRegistry"
    client_limits: "ClientLimits"

    def now_ms(self) -> int: ...

    def monotonic_ms(self) -> int: ...

    # What maintenance and pausing ask

    @property
    def in_service(self) -> bool:
        """Whether clients are served: definitions are known as far as they were committed."""

    @property
    def client_count(self) -> int: ...

    def close_clients(self, reason: str) -> int: ...

    def set_in_maintenance(self, is_so: bool) -> None: ...

    def set_paused(self, reason: str) -> int: ...
