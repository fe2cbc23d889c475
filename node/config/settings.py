"""Configuration: what can be set, its defaults, and the rules between settings.

One TOML file; every key also as `--set key=value` and as `WARREN_SECTION_KEY` in the environment.
Flags win over `--set`, that over the environment, that over the file, that over the defaults of the
profile (`compat`), that over the defaults written here. What cannot be understood is refused with
the key, the value and what is allowed: nothing is guessed and nothing is ignored.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, field

from node.auth.passwords import DEFAULT_HASHING, Hashing, hash_fault
from node.auth.patterns import pattern_fault
from node.config.config_back_ends import (
    AuthCacheSection,
    AuthHttpSection,
    AuthLdapSection,
    BackEndEntry,
    PermissionConfig,
    UserTag,
    check_back_ends,
)
from node.config.config_layers import (
    Address,
    ByteCount,
    ConfigError,
    Layer,
    Secret,
    Section,
    build,
    environment_layer,
    file_layer,
    flag_layer,
    keys_of,
    merged,
    set_layer,
)
from node.config.config_security import (
    AuthSection,
    OauthSection,
    TlsSection,
    check_oauth,
    check_proxies,
    check_tls,
)
from node.config.config_streams import StreamsSection, check_streams
from node.config.default_policies import DefaultPolicy, fault_in

__all__ = ["Address", "Config", "ConfigError", "load"]

NAME_BYTES_MAX = 255  # names travel as short strings
MESSAGE_BYTES_CAP = 512 * 1024 * 1024
AMQP_ADDRESS = Address("0.0.0.0", 5672)
MANAGEMENT_ADDRESS = Address("127.0.0.1", 15672)


def default_node_name() -> str:
    """`warren@` and the short host name, as RabbitMQ names its nodes."""
    from os import uname

    return "warren@" + uname().nodename.split(".")[0]


Tag = Annotated[str, Meta(pattern=r"^[^=]{1,64}=[^=]{1,255}$")]


class NodeSection(Section, frozen=True, kw_only=True):
    """Who this node is and where its files are."""

    # Name of the node in the cluster, the API and logs. It cannot be changed once the node has
    # data.
    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.@-]{1,255}$")] = field(
        default_factory=default_node_name
    )
    # Directory of the log, queues and definitions. A node locks it while it runs.
    data_dir: Path = Path("data")
    # Name of the machine; members of a queue are spread over machines. Empty: its host name.
    host_id: Annotated[str, Meta(max_length=255)] = ""
    # Name of the zone (rack, availability zone); members of a queue are spread over zones first.
    zone: Annotated[str, Meta(max_length=255)] = ""
    # KEY=VALUE: what `x-member-placement-tag` may name, beside `host_id` and `zone`.
    tags: Annotated[tuple[Tag, ...], Meta(max_length=32)] = ()


class ListenersSection(Section, frozen=True, kw_only=True):
    """Where clients, operators and peers connect."""

    # AMQP 0-9-1 and 1.0, without TLS.
    amqp: Address = AMQP_ADDRESS
    # HTTP API, web page and metrics, without TLS. Without a change they are reached from this
    # machine alone.
    management: Address = MANAGEMENT_ADDRESS
    # Other nodes of the cluster connect here; none: the node stands alone.
    cluster: Address | None = None
    # An address for /metrics alone, without a login, such as RabbitMQ has on port 15692.
    metrics: Address | None = None
    # AMQP over WebSocket alone; it is on `management` and `management_tls` as well.
    web_amqp: Address | None = None
    # RabbitMQ's stream protocol (port 5552).
    stream: Address | None = None
    # The stream protocol over TLS.
    stream_tls: Address | None = None
    # Whether other nodes of this machine listen on `amqp` and `amqps` as well (SO_REUSEPORT).
    reuse_port: bool = False
    # An AMQP address of this node alone, without TLS, where nodes share `amqp`.
    direct: Address | None = None
    # Whether the node listens on `amqp` and `management`; false: over TLS alone.
    plain: bool = True
    # AMQP over TLS (section `tls`).
    amqps: Address | None = None
    # HTTP API, web page and metrics over TLS.
    management_tls: Address | None = None
    # Listeners that take the PROXY protocol (versions 1 and 2) from the hosts of `proxy_trusted`.
    # Other hosts connect as always.
    proxy_protocol: tuple[Literal["amqp", "amqps"], ...] = ()
    # Addresses and networks of proxies whose PROXY headers are believed, such as 10.0.0.0/8.
    proxy_trusted: tuple[str, ...] = ()
    # What clients and operators get instead of these, where something lies in between.
    amqp_advertised: Address | None = None
    # The same for AMQP over TLS.
    amqps_advertised: Address | None = None
    # The same for the management listener.
    management_advertised: Address | None = None
    # The same for the stream protocol: clients connect to the address that is in the answer to
    # Metadata.
    stream_advertised: Address | None = None
    # The same for the stream protocol over TLS.
    stream_tls_advertised: Address | None = None


class ManagementSection(Section, frozen=True, kw_only=True):
    """The management listener. Behind a proxy on this machine, every request is from loopback."""

    # Whether /metrics needs a login also when it is asked from this machine.
    metrics_need_login: bool = False
    # Milliseconds between two samples of the counters that rates are made of.
    rates_interval_ms: Annotated[int, Meta(ge=100, le=3_600_000)] = 5000


class WebAmqpSection(Section, frozen=True, kw_only=True):
    """AMQP over WebSocket, on the path /ws."""

    # Whether /ws is served on `listeners.management` and `listeners.management_tls`.
    enabled: bool = True
    # Origins of pages that may connect, such as "https://app.example.com", beside those of the
    # host that they connect to; "*": of all pages. Clients that are no browsers send no origin.
    allowed_origins: tuple[str, ...] = ()
    # Bytes of one WebSocket message; a frame of `limits.frame_max` always fits.
    max_message_bytes: Annotated[ByteCount, Meta(ge=8192, le=MESSAGE_BYTES_CAP)] = 1024 * 1024


class PauseIfAllDownSection(Section, frozen=True, kw_only=True):
    """For `cluster.partition_handling = "pause_if_all_down"`, which needs both."""

    # Names of nodes. A node that reaches none of them pauses.
    nodes: tuple[str, ...] = ()
    # Required, for RabbitMQ requires it; with both values mirrors follow the majority.
    recover: Literal["", "ignore", "autoheal"] = ""


class ClusterSection(Section, frozen=True, kw_only=True):
    """The founding list, the secret that peers prove to each other, and the links between them."""

    # A file with the secret that all nodes of the cluster share, readable by its
    # owner alone.
    secret_file: Path | None = None
    # Addresses of the nodes that found the cluster, the same list on each; a node that joins later
    # needs one that is running.
    seeds: tuple[Address, ...] = ()
    # Where other nodes reach this one; none: `listeners.cluster`.
    advertised: Address | None = None
    # Whether links between nodes are over TLS (section `tls`); the same on all nodes.
    tls: bool = False
    # Name of the cluster until an operator sets another (warrenctl set_cluster_name).
    name: Annotated[str, Meta(max_length=255)] = ""
    # Milliseconds for which a node that starts waits for a majority before it serves clients.
    minority_wait_ms: Annotated[int, Meta(ge=0, le=3_600_000)] = 5000
    # Changes of definitions that no majority takes within so many milliseconds are refused, and so
    # are commands on a quorum or mirrored queue that has had no leader for so long.
    change_timeout_ms: Annotated[int, Meta(ge=100, le=3_600_000)] = 15_000
    # A node that cannot be reached for so many milliseconds loses its exclusive queues and
    # sessions.
    process_grace_ms: Annotated[int, Meta(ge=500, le=3_600_000)] = 60_000
    # Milliseconds between two heartbeats to each other node. Failures are noticed within a few of
    # them.
    beat_interval_ms: Annotated[int, Meta(ge=10, le=10_000)] = 100
    # A connection to a node from which nothing comes for so many milliseconds is closed.
    silence_ms: Annotated[int, Meta(ge=100, le=600_000)] = 5000
    # A connection between nodes that has not proved the secret within this time is closed.
    handshake_timeout_ms: Annotated[int, Meta(ge=100, le=600_000)] = 5000
    # A node that cannot be reached for so many milliseconds: its classic queues are down, and what
    # its consumers hold of classic and mirrored queues of other nodes is redelivered.
    home_down_ms: Annotated[int, Meta(ge=500, le=600_000)] = 5000
    # Bytes that may wait to be sent to one other node; beyond it publishers to queues there are
    # held back.
    peer_bytes_max: Annotated[ByteCount, Meta(ge=1024 * 1024)] = 64 * 1024 * 1024
    # Which nodes stop serving classic and mirrored queues when they cannot reach others.
    partition_handling: Literal["pause_minority", "pause_if_all_down", "autoheal", "ignore"] = (
        "pause_minority"
    )
    pause_if_all_down: PauseIfAllDownSection = PauseIfAllDownSection()
    # Bytes per second that a node sends to synchronise the mirror of a queue; 0: no limit.
    mirroring_sync_max_throughput: Annotated[ByteCount, Meta(ge=0)] = 0
    # Whether jobs that one node does at a time (federation links, shovels) are shared by the nodes;
    # without, one node does all.
    coordination: bool = True


class LimitsSection(Section, frozen=True, kw_only=True):
    """What one client may ask for."""

    # Channels that one AMQP 0-9-1 connection may open.
    channel_max: Annotated[int, Meta(ge=1, le=65535)] = 2047
    # Largest frame in bytes. Larger frames cost memory for each connection, smaller ones CPU for
    # large messages.
    frame_max: Annotated[int, Meta(ge=8192, le=2**31 - 1)] = 131072
    # Seconds; what the node proposes to clients. 0: no heartbeats.
    heartbeat_s: Annotated[int, Meta(ge=0, le=65535)] = 60
    # A client that has not logged in and opened its vhost within this time is closed.
    handshake_timeout_ms: Annotated[int, Meta(ge=100, le=600_000)] = 10_000
    # Largest message in bytes; a larger one is refused: 406, or in AMQP 1.0
    # `amqp:link:message-size-exceeded`.
    max_message_size: Annotated[ByteCount, Meta(ge=1, le=MESSAGE_BYTES_CAP)] = 16 * 1024 * 1024
    # Connections of clients to this node; -1: no limit.
    connection_max: Annotated[int, Meta(ge=-1)] = -1
    # Channels and sessions of all connections to this node; 0: no limit.
    channel_max_per_node: Annotated[int, Meta(ge=0)] = 0
    # Bytes of messages that a connection has published and that are not confirmed: at this number
    # its socket is not read until some are.
    connection_inflight_bytes: Annotated[ByteCount, Meta(ge=65536)] = 16 * 1024 * 1024
    # How many words `#` a binding of a topic exchange may have; 0: no limit. RabbitMQ 4.3 refuses
    # more than two.
    topic_binding_hashes_max: Annotated[int, Meta(ge=0, le=127)] = 0
    # How often a message may be dead-lettered since a client rejected it; then it is dropped,
    # logged and counted.
    dead_letter_hops_max: Annotated[int, Meta(ge=1, le=1024)] = 32


class Amqp10Section(Section, frozen=True, kw_only=True):
    """Flow control of AMQP 1.0, and how much of it one client may have."""

    # Sessions of one connection.
    session_max: Annotated[int, Meta(ge=1, le=65536)] = 64
    # Links of one session.
    link_max: Annotated[int, Meta(ge=1, le=256)] = 256
    # Transfer frames that a session may send before it hears of a new window.
    max_incoming_window: Annotated[int, Meta(ge=1, le=65536)] = 400
    # Messages for which a publishing link has credit at most.
    max_link_credit: Annotated[int, Meta(ge=1, le=65536)] = 170
    # Messages that a consuming link asks of its queue at once, whatever the client's credit.
    max_queue_credit: Annotated[int, Meta(ge=1, le=65536)] = 256
    # When flows of links tell where the queue's leader is: to all clients, to those that ask for
    # it, or never.
    locality_hints: Literal["always", "negotiated", "off"] = "always"


class LeasesSection(Section, frozen=True, kw_only=True):
    """Messages of queues that stay unacknowledged for clients which come again, such as Spark."""

    # Leases at this node.
    count_max: Annotated[int, Meta(ge=0)] = 256
    # Messages that one lease holds. A batch has at most half of them.
    messages_max: Annotated[int, Meta(ge=2)] = 2_000_000
    # Bytes that one lease holds, by the mean size of samples. A batch has at most half of them.
    bytes_max: Annotated[ByteCount, Meta(ge=1024)] = 2 * 1024 * 1024 * 1024


class ReconciliationSection(Section, frozen=True, kw_only=True):
    """Quorum queues get back to their size by themselves. Times in milliseconds."""

    # Off: members are added and removed by operators alone.
    enabled: bool = True
    # Whether members of nodes that were forgotten, or are taken for dead, are removed.
    auto_remove: bool = True
    # Milliseconds between two checks of all queues.
    interval: Annotated[int, Meta(ge=1000)] = 3_600_000
    # Milliseconds to a check after a node has come or gone, a policy has changed, or a queue was
    # declared with fewer members than it is to have.
    trigger_interval: Annotated[int, Meta(ge=100)] = 10_000
    # How many members each queue is to have; 0: what it was declared with.
    target_group_size: Annotated[int, Meta(ge=0, le=255)] = 0
    # Milliseconds after which a node that is down is taken for dead.
    dead_after: Annotated[int, Meta(ge=1000)] = 3_600_000


class LeaderTrafficSection(Section, frozen=True, kw_only=True):
    """When the leader of a queue goes to where its clients are, if a policy says so."""

    # Percent of the queue's traffic; a node must carry more than that for the leader to go there.
    share: Annotated[int, Meta(ge=50, le=99)] = 60
    # Milliseconds for which it must do so.
    time: Annotated[int, Meta(ge=1000)] = 30_000
    # Leaders that move at a time, in the whole cluster.
    transfers_max: Annotated[int, Meta(ge=1, le=100)] = 2


class PropertyEquivalenceSection(Section, frozen=True, kw_only=True):
    """What has to agree when a queue is declared that is there already."""

    # Whether a quorum queue may be declared again with `x-queue-type` classic, where its vhost has
    # a default queue type. Arguments that only classic queues know are ignored.
    relaxed_checks_on_redeclaration: bool = False


class QuorumQueueSection(Section, frozen=True, kw_only=True):
    """What holds for all quorum queues."""

    # Members of a new queue, if its declaration does not say, and as many nodes are there.
    initial_group_size: Annotated[int, Meta(ge=1, le=255)] = 3
    # Whether leaders are spread again after a node has come or gone.
    auto_rebalance: bool = True
    continuous_membership_reconciliation: ReconciliationSection = ReconciliationSection()
    leader_follows_traffic: LeaderTrafficSection = LeaderTrafficSection()
    property_equivalence: PropertyEquivalenceSection = PropertyEquivalenceSection()
    # Whether basic.qos with global=true may span quorum queues; RabbitMQ refuses it.
    global_qos: bool = False
    # What counts towards a delivery limit: failures alone, as in RabbitMQ 4.3 (the version that
    # is reported), or requeues by clients as well, as in 4.0 to 4.2.
    delivery_limit_counts: Literal["failed", "returned"] = "failed"


class IncomingTimestampSection(Section, frozen=True, kw_only=True):
    """Messages get the time at which the broker took them."""

    # Set: AMQP 0-9-1 messages get the property `timestamp` and the header `timestamp_in_ms`, those
    # of AMQP 1.0 the annotation `x-opt-rabbitmq-received-time`; true: also in place of what the
    # publisher has set. Not set: they do not.
    overwrite: bool | None = None


class IncomingRoutingNodeSection(Section, frozen=True, kw_only=True):
    """Messages get the name of the node that took and routed them."""

    # Set: messages get the header or annotation `x-routed-by`; true: also in place of what the
    # publisher has set. Not set: they do not.
    overwrite: bool | None = None


class IncomingSection(Section, frozen=True, kw_only=True):
    """Of messages from publishers."""

    set_header_timestamp: IncomingTimestampSection = IncomingTimestampSection()
    set_header_routing_node: IncomingRoutingNodeSection = IncomingRoutingNodeSection()


class OutgoingTimestampSection(Section, frozen=True, kw_only=True):
    """Deliveries get the time at which they are sent."""

    # Whether deliveries have the header or annotation `x-opt-rabbitmq-sent-time`, in milliseconds.
    enabled: bool = False


class OutgoingSection(Section, frozen=True, kw_only=True):
    """Of deliveries to consumers."""

    timestamp: OutgoingTimestampSection = OutgoingTimestampSection()


class MessageInterceptorsSection(Section, frozen=True, kw_only=True):
    """What the node marks messages with that AMQP clients publish and consume."""

    incoming: IncomingSection = IncomingSection()
    outgoing: OutgoingSection = OutgoingSection()


class WatermarkSection(Section, frozen=True, kw_only=True):
    """Memory in use at which publishers are stopped; `absolute` wins where it is set."""

    # Share of the memory of the machine, or of its container.
    relative: Annotated[float, Meta(ge=0.0, le=1.0)] = 0.6
    # The same in bytes.
    absolute: Annotated[ByteCount, Meta(ge=0)] | None = None


class DiskFreeLimitSection(Section, frozen=True, kw_only=True):
    """Free disk below which publishers are stopped."""

    # Bytes. Never below twice `storage.wal_file_bytes`.
    absolute: Annotated[ByteCount, Meta(ge=0)] = 50_000_000


class AddressesSection(Section, frozen=True, kw_only=True):
    """Limits of a node that hold beside those of its addresses (docs/guide/addresses.md)."""

    # Bytes of messages of all queues of the node together, in memory; -1: no limit.
    global_max_size: Annotated[ByteCount, Meta(ge=-1)] = -1
    # Percent of the disk in use at which publishers are stopped; 100: no limit.
    max_disk_usage: Annotated[int, Meta(ge=1, le=100)] = 100


class MemorySection(Section, frozen=True, kw_only=True):
    """Message bodies kept in memory, all queues together."""

    # Bytes. Beyond it bodies leave memory and are read from disk, ahead of the consumers.
    body_budget_bytes: Annotated[ByteCount, Meta(ge=1024 * 1024)] = 256 * 1000 * 1000


class StorageSection(Section, frozen=True, kw_only=True):
    """The write-ahead log."""

    # Bytes of a log file at which the next one is begun. Space comes back by whole files, so large
    # files keep more of what is acknowledged.
    wal_file_bytes: Annotated[ByteCount, Meta(ge=1024 * 1024, le=2**31 - 1)] = 128 * 1024 * 1024
    # Bytes that are written and synced together at most.
    wal_group_bytes: Annotated[ByteCount, Meta(ge=4096, le=64 * 1024 * 1024)] = 4 * 1024 * 1024
    # Start although the log of definitions is damaged, with what was defined before the bad place.
    accept_lost_definitions: bool = False
    # Whether the log is written past the page cache (O_DIRECT) where that costs less.
    direct_io: bool = True
    # Bytes a second that rewriting of old log files reads and writes while it is not behind.
    rewrite_bytes_per_s: Annotated[ByteCount, Meta(ge=1024 * 1024)] = 64 * 1024 * 1024


class TestingSection(Section, frozen=True, kw_only=True):
    """For tests and benchmarks alone."""

    # Quorum queues that hear late that they are durable (`node.resources.slow_queues`).
    slow_queues: tuple[str, ...] = ()
    # By how many milliseconds they hear later.
    slow_ms: Annotated[int, Meta(ge=0, le=60_000)] = 50
    # In pairs: the address of a peer, and the one that is dialed in its place (a proxy before it).
    peer_routes: tuple[Address, ...] = ()
    adjustable_clock: bool = False  # PUT /api/nodes/NODE/clock may advance the clock
    # After how many changes the definitions are saved again; a start reads later ones in the log.
    definitions_save_entries: Annotated[int, Meta(ge=1, le=4096)] = 4096


class LogSection(Section, frozen=True, kw_only=True):
    """Log lines, and who is noted down in them."""

    # `json`: one object for each line, with the fields that the text has in words.
    format: Literal["text", "json"] = "text"
    # The least severe level that is logged. It can be changed while the node runs (warrenctl
    # set_log_level).
    level: Literal["debug", "info", "warning", "error"] = "info"
    # Where log lines go; none: to stderr. SIGHUP opens the file again.
    file: Path | None = None
    # Which changes are logged with their user: those by the API, those of definitions by AMQP as
    # well, or none.
    audit: Literal["off", "api", "all"] = "api"


class EventsSection(Section, frozen=True, kw_only=True):
    """The event exchange `amq.rabbitmq.event`."""

    # Whether events are published to `amq.rabbitmq.event`.
    exchange: bool = False
    # The vhost of that exchange.
    vhost: str = "/"


class UserConfig(Section, frozen=True, kw_only=True):
    """One user to begin with: a password, or the hash of one."""

    name: Annotated[str, Meta(min_length=1, max_length=NAME_BYTES_MAX)]
    password: Secret | None = None
    password_hash: Secret | None = None
    hashing: Hashing = DEFAULT_HASHING  # of `password_hash`
    tags: tuple[UserTag, ...] = ()
    permissions: tuple[PermissionConfig, ...] = ()


class Config(Section, frozen=True, kw_only=True):
    """Everything that can be set. The names are those of the file; RabbitMQ's where it has one."""

    # Version of RabbitMQ whose defaults hold where nothing is set: "3.x" sets the memory watermark
    # to 0.4, flow control credit to 200 and 50, and the largest message to 128 MiB.
    compat: Literal["", "3.x"] = ""
    node: NodeSection = NodeSection()
    listeners: ListenersSection = ListenersSection()
    management: ManagementSection = ManagementSection()
    web_amqp: WebAmqpSection = WebAmqpSection()
    cluster: ClusterSection = ClusterSection()
    limits: LimitsSection = LimitsSection()
    amqp10: Amqp10Section = Amqp10Section()
    leases: LeasesSection = LeasesSection()
    quorum_queue: QuorumQueueSection = QuorumQueueSection()
    message_interceptors: MessageInterceptorsSection = MessageInterceptorsSection()
    # Internal flow control: messages that a channel may have on their way to a queue at first, and
    # how many are granted again at once.
    credit_flow_default_credit: tuple[int, int] = (400, 200)
    # Credit of a queue towards the log: messages that may wait for their sync at first, and how
    # many are granted again at once. Lower values hold publishers back earlier.
    msg_store_credit_disc_bound: tuple[int, int] = (4000, 800)
    # Milliseconds in which a consumer has to settle a delivery; 0: no limit.
    consumer_timeout: Annotated[int, Meta(ge=0)] = 1_800_000
    # Milliseconds for which consumers of a quorum queue keep messages when their node cannot be
    # reached; a node that is away for `cluster.process_grace_ms` loses them sooner.
    consumer_disconnected_timeout: Annotated[int, Meta(ge=0, le=315_360_000_000)] = 60_000
    # Where the leader of a new queue is placed, if its declaration does not say: on the node of the
    # client, or on the node with the fewest leaders.
    queue_leader_locator: Literal["client-local", "balanced"] = "client-local"
    # Type of new queues whose declaration names none, in vhosts without a default of their own. The
    # node that is asked to declare the queue decides: set the same on all nodes of a cluster.
    default_queue_type: Literal["classic", "quorum", "stream"] = "classic"
    # When another consumer of a single-active queue is active after a cancel: at once, or when the
    # cancelled one has settled all.
    sac_handover: Literal["at-once", "drain"] = "at-once"
    vm_memory_high_watermark: WatermarkSection = WatermarkSection()
    disk_free_limit: DiskFreeLimitSection = DiskFreeLimitSection()
    addresses: AddressesSection = AddressesSection()
    memory: MemorySection = MemorySection()
    storage: StorageSection = StorageSection()
    streams: StreamsSection = StreamsSection()
    # Users that may connect from this machine alone. An empty list lets `guest` in from everywhere.
    loopback_users: tuple[str, ...] = ("guest",)
    # The user as which clients without a login act (SASL ANONYMOUS); empty: there are no anonymous
    # logins.
    anonymous_login_user: str = "guest"
    # Password of that user.
    anonymous_login_pass: Secret = "guest"
    # Who checks passwords, in order: `internal` (the users of the definitions), `http:internal`,
    # `ldap:internal`. The first that accepts a login counts; what the user may is in the
    # definitions. With `http:http` and `ldap:ldap` the service says what the user may.
    auth_backends: tuple[BackEndEntry, ...] = ("internal",)
    auth: AuthSection = AuthSection()
    auth_http: AuthHttpSection = AuthHttpSection()
    auth_ldap: AuthLdapSection = AuthLdapSection()
    auth_cache: AuthCacheSection = AuthCacheSection()
    oauth: OauthSection = OauthSection()
    tls: TlsSection = TlsSection()
    # Users of an empty node, with passwords or hashes, tags and permissions. A node with data keeps
    # the users that it has.
    users: tuple[UserConfig, ...] = ()
    # Virtual hosts that every start declares if they are missing.
    vhosts: tuple[str, ...] = ("/",)
    # Operator policies that each new vhost begins with.
    default_operator_policies: tuple[DefaultPolicy, ...] = ()
    # The first user of an empty node without `users`: an administrator with all permissions in
    # `default_vhost`, which is also the vhost of AMQP 1.0 clients that name none.
    default_user: Annotated[str, Meta(min_length=1, max_length=NAME_BYTES_MAX)] = "guest"
    # Password of the default user.
    default_pass: Secret = "guest"
    # The vhost of the default user, and of AMQP 1.0 clients that name none.
    default_vhost: Annotated[str, Meta(min_length=1, max_length=NAME_BYTES_MAX)] = "/"
    # A file with definitions, or a directory of them, that are imported at each start, before
    # clients connect; skipped when unchanged.
    load_definitions: Path | None = None
    log: LogSection = LogSection()
    events: EventsSection = EventsSection()
    testing: TestingSection = TestingSection()
    warnings: tuple[str, ...] = ()  # for the log; not a setting

    def first_users(self) -> tuple[UserConfig, ...]:
        """The users of an empty node: those of the file, or else the default user.

        There is no default user where definitions are loaded, nor `guest` in production.
        """
        if self.users:
            return self.users
        if self.default_user == "guest" and (self.auth.production or self.load_definitions):
            return ()
        permission = PermissionConfig(
            vhost=self.default_vhost, configure=".*", write=".*", read=".*"
        )
        user = UserConfig(
            name=self.default_user,
            password=self.default_pass,
            tags=("administrator",),
            permissions=(permission,),
        )
        return (user,)

    def first_vhosts(self) -> tuple[str, ...]:
        """The vhosts that every start declares: those of the file and the default one."""
        return tuple(dict.fromkeys((*self.vhosts, self.default_vhost)))


KEYS = keys_of(Config, apart=("warnings",))

COMPAT_DEFAULTS: Mapping[str, Mapping[str, object]] = {
    "3.x": {
        "vm_memory_high_watermark.relative": 0.4,
        "credit_flow_default_credit": (200, 50),
        "limits.max_message_size": 128 * 1024 * 1024,
    }
}


def load(
    file: Path | None = None,
    flags: Mapping[str, object] | None = None,
    sets: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Config:
    """Read and check the whole configuration; ConfigError says what is wrong with it.

    `flags` are keys with the value that the command line gave them, `sets` are KEY=VALUE.
    """
    from_environment, warnings = environment_layer(environment or {}, KEYS)
    layers: list[Layer] = [
        file_layer(file, KEYS) if file is not None else {},
        from_environment,
        set_layer(sets, KEYS),
        flag_layer(flags or {}),
    ]
    chosen = merged(layers, KEYS)
    values = {**COMPAT_DEFAULTS.get(str(chosen.get("compat", "")), {}), **chosen}
    config = build(Config, {**values, "warnings": warnings})
    _check(config)
    return config


def _check(config: Config) -> None:
    """The rules between settings, and those that a type cannot tell."""
    _check_cluster(config)
    if config.limits.connection_inflight_bytes < config.limits.frame_max:
        raise ConfigError(
            f"limits.connection_inflight_bytes = {config.limits.connection_inflight_bytes}: "
            f"allowed: at least limits.frame_max ({config.limits.frame_max})"
        )
    _check_credit("credit_flow_default_credit", config.credit_flow_default_credit)
    _check_credit("msg_store_credit_disc_bound", config.msg_store_credit_disc_bound)
    _check_vhosts(config.vhosts)
    _check_listeners(config)
    fault = fault_in(config.default_operator_policies)
    if fault is not None:
        raise ConfigError(f"default_operator_policies: {fault}")
    names = [user.name for user in config.users]
    for user in config.users:
        if names.count(user.name) > 1:
            raise ConfigError(f"users: '{user.name}' is there twice; allowed: once")
        _check_user(user, config.first_vhosts())


def _check_cluster(config: Config) -> None:
    cluster = config.cluster
    needing = {"cluster.seeds": cluster.seeds, "listeners.cluster": config.listeners.cluster}
    for key, is_set in needing.items():
        if is_set and cluster.secret_file is None:
            raise ConfigError(
                f"{key} is set and cluster.secret_file is not: peers must prove that they know "
                "a common secret; allowed: the path of a file that holds it"
            )
    if len(config.testing.peer_routes) % 2:
        raise ConfigError(
            f"testing.peer_routes has {len(config.testing.peer_routes)} addresses; allowed: pairs"
        )
    _check_listener(config)
    _check_partition_handling(cluster)
    if cluster.silence_ms < 2 * cluster.beat_interval_ms:
        raise ConfigError(
            f"cluster.silence_ms = {cluster.silence_ms}: allowed: at least twice "
            f"cluster.beat_interval_ms ({cluster.beat_interval_ms})"
        )


def _check_partition_handling(cluster: ClusterSection) -> None:
    if cluster.partition_handling != "pause_if_all_down":
        return
    needed = cluster.pause_if_all_down
    for key, value, allowed in (
        ("nodes", needed.nodes, "names of nodes"),
        ("recover", needed.recover, "ignore, autoheal"),
    ):
        if not value:
            raise ConfigError(
                f"cluster.partition_handling = pause_if_all_down needs "
                f"cluster.pause_if_all_down.{key}; allowed: {allowed}"
            )


def _check_listeners(config: Config) -> None:
    """Who comes in where, and over what."""
    listeners = config.listeners
    over_tls = {
        "listeners.amqps": listeners.amqps is not None,
        "listeners.management_tls": listeners.management_tls is not None,
        "cluster.tls": config.cluster.tls,
    }
    if listeners.direct is not None and not listeners.plain:
        raise ConfigError(
            f"listeners.direct = {listeners.direct}: allowed: only with listeners.plain = true, "
            "for it is without TLS"
        )
    check_oauth(config.oauth)
    check_streams(config.streams)
    check_back_ends(config.auth_backends, config.auth_http, config.auth_ldap)
    check_tls(config.tls, [name for name, is_set in over_tls.items() if is_set])
    check_proxies(listeners.proxy_protocol, listeners.proxy_trusted)
    if not listeners.plain and listeners.amqps is None:
        raise ConfigError(
            "listeners.plain = false and listeners.amqps is not set; allowed: HOST:PORT, for "
            "otherwise no client could connect"
        )
    if config.cluster.tls and listeners.cluster is None:
        raise ConfigError("cluster.tls = true: allowed: only with listeners.cluster")
    if not config.auth.offered:
        raise ConfigError("auth.mechanisms: none is left; allowed: one or more")
    guests = [user.name for user in config.users if user.password == user.name]
    if config.auth.production and guests:
        raise ConfigError(
            f"users: '{guests[0]}' has its own name as password; allowed with auth.production: "
            "passwords that cannot be guessed"
        )


def _check_listener(config: Config) -> None:
    """Where peers reach this node has to be known before it listens."""
    cluster = config.cluster
    listener = config.listeners.cluster
    if listener is None:
        for key, is_set in {
            "cluster.seeds": cluster.seeds,
            "cluster.advertised": cluster.advertised,
        }.items():
            if is_set:
                raise ConfigError(
                    f"{key} is set and listeners.cluster is not; allowed: an address on which this "
                    "node listens for other nodes (--cluster)"
                )
        return
    address = cluster.advertised or listener
    if address.is_wildcard or address.port == 0:
        raise ConfigError(
            f"listeners.cluster = {listener}: other nodes cannot connect to {address}; allowed: "
            "cluster.advertised beside it, with the address that they shall use"
        )


def _check_credit(key: str, credit: tuple[int, int]) -> None:
    initial, more_after = credit
    if not 1 <= more_after <= initial:
        raise ConfigError(
            f"{key} = [{initial}, {more_after}]: allowed: two whole numbers, the second from 1 to "
            f"the first"
        )


def _check_vhosts(vhosts: tuple[str, ...]) -> None:
    for vhost in vhosts:
        if not 1 <= len(vhost.encode()) <= NAME_BYTES_MAX:
            raise ConfigError(f"vhosts: '{vhost}': allowed: names of 1 to {NAME_BYTES_MAX} bytes")
    if not vhosts or len(set(vhosts)) != len(vhosts):
        raise ConfigError("vhosts: allowed: one or more names, each of them once")


def _check_user(user: UserConfig, vhosts: tuple[str, ...]) -> None:
    where = f"users: '{user.name}'"
    if len(user.name.encode()) > NAME_BYTES_MAX:
        raise ConfigError(f"{where}: allowed: names of 1 to {NAME_BYTES_MAX} bytes")
    if (user.password is None) == (user.password_hash is None):
        raise ConfigError(f"{where}: allowed: one of password and password_hash")
    if user.password == "":
        raise ConfigError(f"{where}: the password is empty; allowed: one or more characters")
    # An empty hash is no password: another back end or a certificate lets the user in.
    fault = hash_fault(user.password_hash, user.hashing) if user.password_hash else None
    if fault is not None:
        raise ConfigError(f"{where}: password_hash: {fault}")
    for permission in user.permissions:
        if permission.vhost not in vhosts:
            raise ConfigError(
                f"{where}: permissions for vhost '{permission.vhost}': allowed: {', '.join(vhosts)}"
            )
        for kind in ("configure", "write", "read"):
            fault = pattern_fault(getattr(permission, kind))
            if fault is not None:
                raise ConfigError(f"{where}: permissions: {kind}: {fault}")
