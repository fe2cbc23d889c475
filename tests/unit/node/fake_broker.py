"""A broker for management tests: keeps `node.management.rows.view.BrokerView`, all in tables."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from node.cluster.services.topology import Topology, TopologyMember
from node.management.rows.view import (
    BindingView,
    ConnectionView,
    CountersView,
    DeliveryCounters,
    ExchangeView,
    HistogramView,
    ListenerView,
    NodeView,
    PagingView,
    PeerView,
    ProtocolCounters,
    QueueView,
    SessionView,
    StreamTracking,
    TotalsView,
    UserView,
    VhostView,
)
from tests.unit.node.fake_clients import FakeClients, peer_of


def node_view(
    *,
    in_service: bool = True,
    memory_alarm: bool = False,
    disk_alarm: bool = False,
    clock_alarm: bool = False,
    listeners: Sequence[tuple[str, int]] = (("amqp", 5672), ("http", 15672)),
) -> NodeView:
    return NodeView(
        name="warren@here",
        cluster_name="warren@here",
        version="0.1.0",
        build="pure",
        in_service=in_service,
        uptime_ms=5_000,
        process_id=77,
        data_dir="/data",
        listeners=tuple(
            ListenerView(protocol=name, host="0.0.0.0", port=port) for name, port in listeners
        ),
        memory_used_bytes=1000,
        memory_limit_bytes=2000,
        memory_alarm=memory_alarm,
        disk_free_bytes=3000,
        disk_free_limit_bytes=4000,
        disk_alarm=disk_alarm,
        clock_alarm=clock_alarm,
        wal_pending_bytes=9,
        paging=PagingView(body_bytes=70, files=3, written_bytes=800),
        loop_turn_ms=HistogramView(bounds=(1.0, 5.0), counts=(7, 2, 1), total=30.5),
    )


def queue_view(vhost: str, name: str, ready: int = 0, owner: str = "") -> QueueView:
    return QueueView(
        vhost=vhost,
        name=name,
        type="classic",
        durable=True,
        auto_delete=False,
        exclusive=bool(owner),
        arguments={"x-max-length": 10},
        node="warren@here",
        owner=owner,
        messages_ready=ready,
        messages_unacknowledged=1,
        published=ready + 1,
    )


def connection_view(name: str, user: str) -> ConnectionView:
    return ConnectionView(
        name=name,
        node="warren@here",
        user=user,
        vhost="/",
        protocol="AMQP 0-9-1",
        state="running",
        host="127.0.0.1",
        port=5672,
        peer_host="127.0.0.1",
        peer_port=40000,
        channels=2,
        channel_max=2047,
        frame_max=131072,
        heartbeat_s=60,
        mechanism="PLAIN",
        connected_at_ms=1_700_000_000_000,
        client_properties={"connection_name": "orders"},
    )


@dataclass(slots=True)
class FakeBroker:
    """Tests fill the tables; `closed` holds what was asked to be closed."""

    the_node: NodeView = field(default_factory=node_view)
    is_cut_off: bool = False  # from a majority of its cluster
    the_vhosts: list[VhostView] = field(default_factory=lambda: [VhostView(name="/")])
    queues: dict[tuple[str, str], QueueView] = field(default_factory=dict)
    exchanges: dict[tuple[str, str], ExchangeView] = field(default_factory=dict)
    all_bindings: list[BindingView] = field(default_factory=list)
    connections: dict[str, ConnectionView] = field(default_factory=dict)
    all_users: list[UserView] = field(default_factory=list)
    closed: list[tuple[str, str]] = field(default_factory=list)
    accepted: list[tuple[str, str]] = field(default_factory=list)
    accept_refusal: str = ""
    the_clients: FakeClients = field(default_factory=FakeClients)
    heads: dict[tuple[str, str], int] = field(default_factory=dict)
    on_queue: Callable[[str, str], None] | None = None

    def node(self) -> NodeView:
        return self.the_node

    @property
    def clients(self) -> FakeClients:
        self.the_clients.connections = {
            name: peer_of(name, 0, each.user, each.vhost) for name, each in self.connections.items()
        }
        return self.the_clients

    def memory(self) -> dict[str, object]:
        return {"total": {"rss": 1000}, "other": 1000}

    def is_stale(self) -> bool:
        return self.is_cut_off

    def totals(self) -> TotalsView:
        ready = sum(each.messages_ready for each in self.queues.values())
        return TotalsView(
            messages_ready=ready,
            messages_unacknowledged=len(self.queues),
            queues=len(self.queues),
            connections=len(self.connections),
        )

    def counters(self) -> CountersView:
        return CountersView(
            protocols=(ProtocolCounters(received=11, confirmed=10, publishers=3),),
            deliveries=(DeliveryCounters(delivered_consume_manual_ack=4, acknowledged=2),),
            connections_opened=6,
            links_local=3,
            links_remote=1,
            peers=(PeerView(node="n2", is_connected=True, sent_bytes=70, losses=1),),
        )

    def vhosts(self) -> Sequence[VhostView]:
        return self.the_vhosts

    def vhost_names(self) -> Sequence[str]:
        return [each.name for each in self.the_vhosts]

    def users(self) -> Sequence[UserView]:
        return self.all_users

    def queue_names(self, vhost: str) -> Sequence[str]:
        return [name for each, name in self.queues if each == vhost]

    def queue(self, vhost: str, name: str) -> QueueView | None:
        if self.on_queue is not None:
            self.on_queue(vhost, name)
        return self.queues.get((vhost, name))

    def counts_known(self, vhost: str, name: str) -> bool:
        queue = self.queues.get((vhost, name))
        return queue is not None and queue.counts_known

    def head_timestamp(self, vhost: str, name: str) -> int | None:
        return self.heads.get((vhost, name))

    def stream_tracking(self, vhost: str, name: str) -> StreamTracking | None:
        return None

    def topology(self, vhost: str, name: str) -> Topology | None:
        if (vhost, name) not in self.queues:
            return None
        members = tuple(
            TopologyMember(node=node, role=role, endpoints=(f"amqp://{node}:5672",))
            for node, role in (("n1", "follower"), ("n2", "leader"))
        )
        return Topology(leader="n2", leader_epoch=7, state="running", local=False, members=members)

    def queues_here(self, vhost: str) -> Sequence[str]:
        here = self.the_node.name
        return [
            each.name for each in self.queues.values() if (each.vhost, each.node) == (vhost, here)
        ]

    def exchange_names(self, vhost: str) -> Sequence[str]:
        return [name for each, name in self.exchanges if each == vhost]

    def exchange(self, vhost: str, name: str) -> ExchangeView | None:
        return self.exchanges.get((vhost, name))

    def bindings(self, vhost: str, source: str) -> Iterator[BindingView]:
        wanted = (vhost, source)
        return (each for each in list(self.all_bindings) if (each.vhost, each.source) == wanted)

    def connection_names(self) -> Sequence[str]:
        return list(self.connections)

    def connection(self, name: str) -> ConnectionView | None:
        return self.connections.get(name)

    def sessions(self, name: str) -> Sequence[SessionView]:
        return ()

    def close_connection(self, name: str, reason: str) -> bool:
        if self.connections.pop(name, None) is None:
            return False
        self.closed.append((name, reason))
        return True

    async def accept_damage(self, vhost: str, name: str) -> str:
        self.accepted.append((vhost, name))
        return self.accept_refusal
