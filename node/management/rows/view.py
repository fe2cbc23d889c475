"""What the management listener reads of the broker, and the little it may ask of it.

Everything here is called on the loop. Names are handed out in whole and each object one by one,
so that a listing of many can be made in slices and no slice holds up the loop. Times are
milliseconds since 1970; `arguments` and properties are as the client sent them.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct, field

from node.cluster.services.topology import Topology
from node.management.rows.client_view import ClientsView
from node.tls.certificate import TlsPeer


class ListenerView(Struct, frozen=True, kw_only=True):
    """A port that is open. `protocol` is amqp, amqp/ssl, http, https or clustering."""

    protocol: str
    host: str
    port: int


class HistogramView(Struct, frozen=True, kw_only=True):
    """Counts by upper bound: `counts[i]` fell at or below `bounds[i]` and above the bound before.

    `counts` has one more, for all above the last bound.
    """

    bounds: tuple[float, ...] = ()
    counts: tuple[int, ...] = (0,)
    total: float = 0.0  # sum of all that was observed


class CorruptView(Struct, frozen=True, kw_only=True):
    """A damaged place in the log that the start has met."""

    file: str
    offset: int
    record: str  # its kind, as far as can be told
    queues: tuple[tuple[str, str], ...]  # (vhost, name) of those not served because of it
    reason: str = ""  # what is wrong with the file as a whole; "": a record is damaged


class RecoveryView(Struct, frozen=True, kw_only=True):
    """What the start has met in the log."""

    clean: bool = True  # the stop before was in good order
    torn: tuple[str, int] | None = None  # file and offset at which the last log was cut
    corrupt: tuple[CorruptView, ...] = ()


class PagingView(Struct, frozen=True, kw_only=True):
    """Bodies of messages in memory, and those in page files; counts are since the start."""

    body_bytes: int = 0
    body_budget_bytes: int = 0
    pressed: bool = False  # memory is short: bodies leave it whatever the budget
    files: int = 0
    file_bytes: int = 0
    live_bytes: int = 0
    written_bytes: int = 0
    writes_failed: int = 0
    reads: int = 0
    read_bytes: int = 0


class LogView(Struct, frozen=True, kw_only=True):
    """The write-ahead log on disk, and what its upkeep has done since the start."""

    files: Mapping[str, int] = field(default_factory=dict)  # by kind: log, segment, reserve
    bytes: Mapping[str, int] = field(default_factory=dict)
    live_bytes: int = 0  # message data, once for each queue that needs it
    live_record_bytes: int = 0  # what records of these alone would take, about
    is_behind: bool = False
    behind_s: float = 0.0
    counters: Mapping[str, int] = field(default_factory=dict)  # warren_wal_NAME


class SlowMirrorsView(Struct, frozen=True, kw_only=True):
    """Mirrors on another node that this node waits for, as their left neighbour."""

    node: str
    queue_count: int
    queue: str  # one of them: its name and vhost, quoted
    lag_ms: int  # the longest time that an acknowledgement takes


class MirroringView(Struct, frozen=True, kw_only=True):
    """Mirrored queues of this node; counts are since the start."""

    slow: tuple[SlowMirrorsView, ...] = ()
    unsynchronised: int = 0  # mirrors here that lack messages, about a second ago
    unsynchronised_promotions: int = 0
    lost_messages: int = 0  # by these promotions, as far as known


class StreamsView(Struct, frozen=True, kw_only=True):
    """Streams of this node; counts are since the start."""

    segments: int = 0  # files
    segment_bytes: int = 0
    offloaded_segments: int = 0  # of streams that this node leads
    offloaded_bytes: int = 0
    uploaded: int = 0
    uploads_failed: int = 0
    consumer_lag: int = 0  # of the slowest consumer of this node, in messages
    store_fault: str = ""  # why the object store fails; empty: it does not


class NodeView(Struct, frozen=True, kw_only=True):
    """This node."""

    name: str
    cluster_name: str
    version: str
    build: str  # compiled or pure
    in_service: bool  # False while it starts, drains or is in maintenance
    uptime_ms: int
    process_id: int
    data_dir: str
    listeners: tuple[ListenerView, ...]
    memory_used_bytes: int
    memory_limit_bytes: int
    memory_alarm: bool
    disk_free_bytes: int
    disk_free_limit_bytes: int
    disk_alarm: bool
    clock_alarm: bool = False
    paused_because: str = ""  # why it serves no classic and mirrored queues; '': it does
    alarm_details: tuple[str, ...] = ()  # a sentence for each thing that is wrong
    files_used: int = 0
    files_max: int = 0
    sockets_used: int = 0
    processors: int = 1
    threads_used: int = 1
    threads_max: int = 0
    connection_max: int = -1  # of clients; negative: any number
    recovery: RecoveryView = RecoveryView()
    crashed_queues: tuple[tuple[str, str], ...] = ()  # (vhost, name), now
    wal_pending_bytes: int = 0  # handed to the log and not yet synced
    mirroring: MirroringView = MirroringView()
    streams: StreamsView = StreamsView()
    paging: PagingView = PagingView()
    log: LogView = LogView()
    loop_turn_ms: HistogramView = HistogramView()
    wal_sync_seconds: HistogramView = HistogramView()


class TotalsView(Struct, frozen=True, kw_only=True):
    """Sums over the node."""

    messages_ready: int = 0
    messages_unacknowledged: int = 0
    message_bytes: int = 0
    queues: int = 0
    exchanges: int = 0
    bindings: int = 0
    consumers: int = 0
    connections: int = 0
    channels: int = 0


class ProtocolCounters(Struct, frozen=True, kw_only=True):
    """Since start, by protocol (amqp091, amqp10)."""

    protocol: str = "amqp091"
    received: int = 0
    received_confirm: int = 0  # of `received`, on channels with confirms
    routed: int = 0
    unroutable_dropped: int = 0
    unroutable_returned: int = 0
    confirmed: int = 0
    publishers: int = 0  # now
    consumers: int = 0  # now


class DeliveryCounters(Struct, frozen=True, kw_only=True):
    """Since start, by protocol and queue type."""

    protocol: str = "amqp091"
    queue_type: str = "rabbit_classic_queue"
    delivered_consume_manual_ack: int = 0
    delivered_consume_auto_ack: int = 0
    delivered_get_manual_ack: int = 0
    delivered_get_auto_ack: int = 0
    get_empty: int = 0
    redelivered: int = 0
    acknowledged: int = 0

    @property
    def delivered(self) -> int:
        return (
            self.delivered_consume_manual_ack
            + self.delivered_consume_auto_ack
            + self.delivered_get_manual_ack
            + self.delivered_get_auto_ack
        )


class PeerView(Struct, frozen=True, kw_only=True):
    """The link to one other node, since this one began."""

    node: str
    is_connected: bool = False
    rtt_ms: float = 0.0
    sent_bytes: int = 0
    received_bytes: int = 0
    losses: int = 0


class CountersView(Struct, frozen=True, kw_only=True):
    """Everything counted since start."""

    protocols: tuple[ProtocolCounters, ...] = (ProtocolCounters(),)
    deliveries: tuple[DeliveryCounters, ...] = (DeliveryCounters(),)
    connections_opened: int = 0
    connections_closed: int = 0
    channels_opened: int = 0
    channels_closed: int = 0
    queues_declared: int = 0
    queues_created: int = 0
    queues_deleted: int = 0
    dead_lettered: Mapping[tuple[str, str], int] = field(default_factory=dict)  # by type, reason
    dead_lettered_surely: Mapping[str, int] = field(
        default_factory=dict
    )  # at least once, by reason
    dead_letters_confirmed: int = 0  # of these
    dead_letters_dropped_cycle: int = 0
    dead_letters_dropped_hops: int = 0
    headers_too_large: int = 0  # messages rejected for clients of AMQP 0-9-1
    slow_consumers: int = 0  # times that one was found
    links_local: int = 0  # of AMQP 1.0, whose queue is led by this node; now
    links_remote: int = 0
    leader_pushes: int = 0  # flows that told of another leader
    peers: tuple[PeerView, ...] = ()


class PolicyView(Struct, frozen=True, kw_only=True):
    """Names of the policies that hold for an object, and what both say together."""

    name: str | None = None
    operator: str | None = None
    definition: Mapping[str, object] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()  # of keys without effect


class QueueView(Struct, frozen=True, kw_only=True):
    """One queue. Counts of deliveries are since it was made or the node started."""

    vhost: str
    name: str
    type: str
    durable: bool
    auto_delete: bool
    exclusive: bool
    arguments: Mapping[str, object]
    node: str  # that leads it now, or where it lives
    leader: str = ""  # of a quorum queue: the same; "": none
    members: tuple[str, ...] = ()  # of a quorum queue: names of nodes
    online: tuple[str, ...] = ()  # those of them that run
    is_mirrored: bool = False
    mirrors: tuple[str, ...] = ()  # of a mirrored queue: names of nodes that run
    synchronised_mirrors: tuple[str, ...] = ()
    recoverable_mirrors: tuple[str, ...] = ()  # those that would be promoted
    sync_messages: int | None = None  # that the next mirror has got so far; None: it gets none
    policy: PolicyView = PolicyView()
    state: str = "running"
    reason: str = ""  # why the state is not good
    counts_known: bool = True  # False: only a node that does not answer knows the counts below
    owner: str = ""  # name of the connection of an exclusive queue
    messages_ready: int = 0
    messages_unacknowledged: int = 0
    messages_delayed: int = 0  # given back, and not to be delivered before their time
    messages_pending_dead_letters: int = 0  # kept until their dead letters are safe
    message_bytes_ready: int = 0
    message_bytes_unacknowledged: int = 0
    messages_ram: int = 0  # their bodies are in memory; of large queues these are estimates
    messages_paged_out: int = 0
    messages_persistent: int = 0  # that survive a restart
    message_bytes_persistent: int = 0
    message_bytes_ram: int = 0
    message_bytes_paged_out: int = 0
    memory_bytes: int = 0
    consumers: int = 0
    consumer_capacity: float = 0.0  # share of the time in which it could deliver at once
    published: int = 0
    delivered: int = 0  # to consumers that acknowledge
    delivered_no_ack: int = 0
    got: int = 0  # by basic.get, to be acknowledged
    got_no_ack: int = 0
    redelivered: int = 0
    acknowledged: int = 0
    rates: Sequence[
        float | Mapping[str, object] | None
    ] = ()  # in the order of `rates.COLUMNS[QUEUE]`
    head_timestamp: int | None = None  # that the first ready message says of itself, if known
    idle_since_ms: int | None = None  # nothing was counted of it since then, as far as is known


class ConnectionView(Struct, frozen=True, kw_only=True):
    """One client connection."""

    name: str
    node: str
    user: str
    vhost: str
    protocol: str  # "AMQP 0-9-1" or "AMQP 1-0", after "Web " over WebSocket
    state: str  # running, flow, blocking, blocked
    host: str
    port: int
    peer_host: str
    peer_port: int
    channels: int
    channel_max: int
    frame_max: int
    heartbeat_s: int
    mechanism: str
    connected_at_ms: int
    client_properties: Mapping[str, object] = field(default_factory=dict)
    container_id: str = ""  # of AMQP 1.0
    received_bytes: int = 0
    sent_bytes: int = 0
    received_packets: int = 0  # reads of the socket
    sent_packets: int = 0
    pending_bytes: int = 0  # written and not yet taken by the peer
    tls: TlsPeer | None = None  # None: without


class LinkView(Struct, frozen=True, kw_only=True):
    """One link of an AMQP 1.0 session; `incoming`: the client publishes."""

    incoming: bool
    handle: int
    name: str
    address: str | None  # None: the anonymous terminus
    queue: str = ""  # that a consumer's link takes from
    settled: str  # unsettled, settled, mixed: by its sender
    message_bytes_max: int  # 0: any
    delivery_count: int
    credit: int
    unconfirmed: int = 0  # messages of a publisher for which no new credit was granted yet


class SessionView(Struct, frozen=True, kw_only=True):
    """One AMQP 1.0 session."""

    channel: int
    handle_max: int
    next_incoming_id: int
    incoming_window: int
    next_outgoing_id: int
    remote_incoming_window: int
    remote_outgoing_window: int
    unsettled: int  # deliveries that the client has not settled
    links: tuple[LinkView, ...]


class VhostView(Struct, frozen=True, kw_only=True):
    """One vhost. `running` is False when some of its queues could not be recovered."""

    name: str
    messages_ready: int = 0
    messages_unacknowledged: int = 0
    running: bool = True
    stats: Sequence[int] = (0,) * 8  # sums of its queues, in the order of `rates.QUEUE_STATS`


class ExchangeView(Struct, frozen=True, kw_only=True):
    """One exchange; '' is the default exchange."""

    vhost: str
    name: str
    type: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments: Mapping[str, object]
    policy: PolicyView = PolicyView()


class BindingView(Struct, frozen=True, kw_only=True):
    """One binding. Those of the default exchange are not kept, and not asked for."""

    vhost: str
    source: str
    destination: str
    destination_is_queue: bool
    binding_key: bytes
    arguments: Mapping[str, object]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class UserView:
    """One user."""

    name: str
    tags: tuple[str, ...]
    password_hash: str = dataclasses.field(repr=False)
    hashing: str


class StreamTracking(Struct, frozen=True):
    """What a stream remembers by name: offsets of consumers, ids of publishers."""

    offsets: Mapping[str, int]
    publishers: Mapping[str, int]


class BrokerView(Protocol):
    """The broker, as management sees it."""

    @property
    def clients(self) -> ClientsView:
        """Channels and consumers."""

    def node(self) -> NodeView: ...

    def memory(self) -> dict[str, object]:
        """Where the memory of this node is, in RabbitMQ's form: bytes by part, and `total`."""

    def is_stale(self) -> bool:
        """Whether definitions may have changed of which this node cannot know: they have no leader,
        as far as it can see."""

    def totals(self) -> TotalsView: ...

    def counters(self) -> CountersView: ...

    def vhost_names(self) -> Sequence[str]:
        """In no order, and without a look at their queues."""

    def vhosts(self) -> Sequence[VhostView]: ...

    def users(self) -> Sequence[UserView]: ...

    def queue_names(self, vhost: str) -> Sequence[str]: ...

    def queue(self, vhost: str, name: str) -> QueueView | None: ...

    def counts_known(self, vhost: str, name: str) -> bool:
        """`counts_known` of the queue's view, without the cost of that; False: there is none."""

    def head_timestamp(self, vhost: str, name: str) -> int | None:
        """That the message to be served next says of itself, in seconds; None: nothing known."""

    def topology(self, vhost: str, name: str) -> Topology | None:
        """Where a queue is led and who has it; None: there is no such queue."""

    def queues_here(self, vhost: str) -> Sequence[str]:
        """Names of queues that are led on this node and have been used, so have counts."""

    def exchange_names(self, vhost: str) -> Sequence[str]: ...

    def exchange(self, vhost: str, name: str) -> ExchangeView | None: ...

    def bindings(self, vhost: str, source: str) -> Iterable[BindingView]:
        """The bindings whose source is this exchange, as they are now.

        Best made one by one as they are taken; what changes meanwhile must not disturb that.
        """

    def stream_tracking(self, vhost: str, name: str) -> StreamTracking | None:
        """None: this node does not lead the stream."""

    async def accept_damage(self, vhost: str, name: str) -> str:
        """Serve a crashed queue with what could be read of it; why not, or ''."""

    def connection_names(self) -> Sequence[str]: ...

    def connection(self, name: str) -> ConnectionView | None: ...

    def sessions(self, name: str) -> Sequence[SessionView]:
        """Of a connection; none if it speaks AMQP 0-9-1."""

    def close_connection(self, name: str, reason: str) -> bool:
        """Begin to close with 320 CONNECTION_FORCED; False if there is no such connection."""
