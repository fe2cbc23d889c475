"""Families of the node as a whole, with RabbitMQ's names and some of ours (`warren_`).

Counters are read from their owners on request; nothing is counted here. All of it is a few
hundred samples, whatever the number of queues and connections.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from node.auth.login_checks import LoginChecks
from node.management.metrics.text import (
    COUNTER,
    GAUGE,
    HISTOGRAM,
    Family,
    Row,
    counter,
    gauge,
    histogram_rows,
    labels,
)
from node.management.metrics.view import MetricsView, RaftView, TrafficView, WaitView
from node.management.rows.view import (
    BrokerView,
    CountersView,
    HistogramView,
    LogView,
    MirroringView,
    NodeView,
    PagingView,
    StreamsView,
    TotalsView,
)
from queues.dead_lettering.dead_letters import REASONS
from queues.definitions.queue_arguments import CLASSIC, QUORUM

PROTOCOL_COUNTERS: Final = (
    "received",
    "received_confirm",
    "routed",
    "unroutable_dropped",
    "unroutable_returned",
    "confirmed",
)
DELIVERY_COUNTERS: Final = (
    "delivered",
    "delivered_consume_manual_ack",
    "delivered_consume_auto_ack",
    "delivered_get_manual_ack",
    "delivered_get_auto_ack",
    "get_empty",
    "redelivered",
    "acknowledged",
)
CHURN: Final = (
    "connections_opened",
    "connections_closed",
    "channels_opened",
    "channels_closed",
    "queues_declared",
    "queues_created",
    "queues_deleted",
)
NO_LABELS: Final[Mapping[str, str]] = {}


def node_families(view: BrokerView, logins: LoginChecks) -> Iterator[Family]:
    """All that needs no look at single queues, connections or channels."""
    node = view.node()
    yield from identity_families(node)
    yield from coarse_families(node)
    yield from limit_families(node)
    yield from own_families(node)
    yield from mirroring_families(node.mirroring)
    yield from stream_families(node.streams)
    yield from paging_families(node.paging)
    yield from own_log_families(node)
    yield from total_families(view.totals())
    counters = view.counters()
    yield from churn_families(counters)
    yield from global_families(counters)
    yield from dead_letter_families(counters)
    yield from locality_families(counters)
    yield from peer_families(counters)
    yield from auth_families(logins)


def own_log_families(node: NodeView) -> Iterator[Family]:
    """The log and the turns of the loop."""
    yield from log_families(node.log)
    yield histogram("warren_loop_turn_ms", "Turns of the loop, ms", node.loop_turn_ms)
    yield histogram(
        "warren_wal_sync_seconds", "Write and sync of the log, s", node.wal_sync_seconds
    )


def identity_families(node: NodeView) -> Iterator[Family]:
    """Who the node is; as RabbitMQ has it, for joins."""
    names = {"rabbitmq_node": node.name, "rabbitmq_cluster": node.cluster_name}
    yield Family("rabbitmq_identity_info", GAUGE, "This node", [(labels(names), 1)])
    build = {"version": node.version, "build": node.build}
    yield Family("rabbitmq_build_info", GAUGE, "Its build", [(labels(build), 1)])


def coarse_families(node: NodeView) -> Iterator[Family]:
    yield gauge("rabbitmq_process_open_fds", "Open file descriptors", node.files_used)
    yield gauge("rabbitmq_process_open_tcp_sockets", "Open TCP sockets", node.sockets_used)
    yield gauge(
        "rabbitmq_process_resident_memory_bytes", "Memory used, bytes", node.memory_used_bytes
    )
    yield gauge(
        "rabbitmq_disk_space_available_bytes", "Disk space available, bytes", node.disk_free_bytes
    )


def limit_families(node: NodeView) -> Iterator[Family]:
    yield gauge("rabbitmq_process_max_fds", "Open file descriptors, limit", node.files_max)
    yield gauge(
        "rabbitmq_resident_memory_limit_bytes", "Memory watermark, bytes", node.memory_limit_bytes
    )
    yield gauge(
        "rabbitmq_disk_space_available_limit_bytes",
        "Free disk space low watermark, bytes",
        node.disk_free_limit_bytes,
    )


def own_families(node: NodeView) -> Iterator[Family]:
    alarms = "rabbitmq_alarms"
    files_alarm = 0 < node.files_max <= node.files_used
    yield gauge(f"{alarms}_memory_used_watermark", "1 while in alarm", node.memory_alarm)
    yield gauge(f"{alarms}_free_disk_space_watermark", "1 while in alarm", node.disk_alarm)
    yield gauge(f"{alarms}_file_descriptor_limit", "1 while no more can be opened", files_alarm)
    yield gauge("warren_alarms_clock_step", "1 while the wall clock is far off", node.clock_alarm)
    paused = "1 while the node serves no classic and mirrored queues (cluster.partition_handling)"
    yield gauge("warren_node_paused", paused, bool(node.paused_because))
    yield gauge("warren_node_in_service", "1 while the node serves clients", node.in_service)
    yield gauge("warren_uptime_seconds", "Time since start", node.uptime_ms / 1000)
    yield gauge("warren_wal_pending_bytes", "Waiting for a sync of the log", node.wal_pending_bytes)
    yield gauge(
        "warren_crashed_queues", "Queues that the log does not hold whole", len(node.crashed_queues)
    )


def mirroring_families(mirroring: MirroringView) -> Iterator[Family]:
    lags = {each.node: each.lag_ms / 1000 for each in mirroring.slow}
    words = "Time that slow mirrors on a node take to sync messages; publishers wait for them"
    yield by_label("warren_slow_mirrors_seconds", GAUGE, words, "node", lags)
    yield gauge(
        "warren_unsynchronised_mirrors",
        "Mirrors of this node that lack messages of their leaders",
        mirroring.unsynchronised,
    )
    yield counter(
        "warren_mirror_promotions_unsynchronised",
        "Mirrors of this node that were promoted without being synchronised",
        mirroring.unsynchronised_promotions,
    )
    yield counter(
        "warren_mirror_lost_messages",
        "Messages that these promotions have lost, as far as known",
        mirroring.lost_messages,
    )


def stream_families(streams: StreamsView) -> Iterator[Family]:
    gauges = (
        ("warren_stream_segments", "Segment files of streams", streams.segments),
        ("warren_stream_segment_bytes", "Bytes of segment files", streams.segment_bytes),
        (
            "warren_stream_offloaded_segments",
            "Segments in the object store, of streams led here",
            streams.offloaded_segments,
        ),
        ("warren_stream_offloaded_bytes", "Bytes of them", streams.offloaded_bytes),
        (
            "warren_stream_consumer_lag",
            "Messages that the slowest consumer of a stream here has not got",
            streams.consumer_lag,
        ),
        (
            "warren_stream_store_failed",
            "1 while the object store of streams fails",
            bool(streams.store_fault),
        ),
    )
    for name, words, value in gauges:
        yield gauge(name, words, value)
    yield counter("warren_stream_uploads", "Segments stored in the object store", streams.uploaded)
    yield counter(
        "warren_stream_uploads_failed", "Uploads of segments that failed", streams.uploads_failed
    )


def paging_families(paging: PagingView) -> Iterator[Family]:
    gauges: Sequence[tuple[str, str, float]] = (
        ("warren_bodies_in_memory_bytes", "Bodies of messages in memory", paging.body_bytes),
        ("warren_bodies_in_memory_limit_bytes", "Budget for them", paging.body_budget_bytes),
        ("warren_memory_pressed", "1 while bodies leave for want of memory", paging.pressed),
        ("warren_page_files", "Page files", paging.files),
        ("warren_page_file_bytes", "Bytes of page files", paging.file_bytes),
        ("warren_page_live_bytes", "Bytes of bodies in page files", paging.live_bytes),
    )
    for name, words, value in gauges:
        yield gauge(name, words, value)
    counters = (
        ("warren_page_written_bytes", "Bytes written to page files", paging.written_bytes),
        ("warren_page_writes_failed", "Writes to page files that failed", paging.writes_failed),
        ("warren_page_reads", "Bodies read from page files", paging.reads),
        ("warren_page_read_bytes", "Bytes of them", paging.read_bytes),
    )
    for name, words, value in counters:
        yield counter(name, words, value)


def log_families(log: LogView) -> Iterator[Family]:
    """The log's files: what is there, and what upkeep did with them."""
    for name, words, values in (
        ("warren_wal_files", "Files of the log", log.files),
        ("warren_wal_bytes", "Bytes of files of the log", log.bytes),
    ):
        yield by_label(name, GAUGE, words, "kind", values)
    yield gauge("rabbitmq_raft_wal_files", "Files of the log", log.files.get("log", 0))
    yield gauge("rabbitmq_raft_num_segments", "Segments", log.files.get("segment", 0))
    yield gauge("warren_wal_live_bytes", "Message data that queues need", log.live_bytes)
    yield gauge(
        "warren_wal_live_record_bytes",
        "What records of nothing else would take",
        log.live_record_bytes,
    )
    yield gauge("warren_wal_behind", "1 while publishers wait for rewriting", log.is_behind)
    for name, count in log.counters.items():
        yield counter(f"warren_wal_{name}", f"Upkeep of the log: {spaced(name)}", count)
    yield counter(
        "warren_wal_behind_seconds", "Time that publishers waited for rewriting", log.behind_s
    )


def total_families(totals: TotalsView) -> Iterator[Family]:
    messages = totals.messages_ready + totals.messages_unacknowledged
    gauges = (
        ("rabbitmq_queue_messages", "Messages ready and unacknowledged", messages),
        ("rabbitmq_queue_messages_ready", "Messages ready", totals.messages_ready),
        (
            "rabbitmq_queue_messages_unacked",
            "Messages delivered and not yet acknowledged",
            totals.messages_unacknowledged,
        ),
        ("rabbitmq_queue_messages_bytes", "Bytes of all messages", totals.message_bytes),
        ("rabbitmq_queues", "Queues", totals.queues),
        ("rabbitmq_connections", "Connections open", totals.connections),
        ("rabbitmq_channels", "Channels open", totals.channels),
        ("rabbitmq_consumers", "Consumers", totals.consumers),
        ("warren_exchanges", "Exchanges", totals.exchanges),
        ("warren_bindings", "Bindings", totals.bindings),
    )
    for name, words, value in gauges:
        yield gauge(name, words, value)


def churn_families(counters: CountersView) -> Iterator[Family]:
    for name in CHURN:
        yield counter(f"rabbitmq_{name}", spaced(name).capitalize(), getattr(counters, name))


def global_families(counters: CountersView) -> Iterator[Family]:
    """By protocol; what is delivered by the type of the queue as well."""
    for name in PROTOCOL_COUNTERS:
        rows = [
            (labels({"protocol": way.protocol}), getattr(way, name)) for way in counters.protocols
        ]
        yield Family(f"{GLOBAL}_messages_{name}_total", COUNTER, f"Messages {spaced(name)}", rows)
    for name in ("publishers", "consumers"):
        rows = [
            (labels({"protocol": way.protocol}), getattr(way, name)) for way in counters.protocols
        ]
        yield Family(f"{GLOBAL}_{name}", GAUGE, f"{name.capitalize()} now", rows)
    for name in DELIVERY_COUNTERS:
        rows = [
            (
                labels({"protocol": end.protocol, "queue_type": end.queue_type}),
                getattr(end, name),
            )
            for end in counters.deliveries
        ]
        yield Family(f"{GLOBAL}_messages_{name}_total", COUNTER, f"Messages {spaced(name)}", rows)


GLOBAL: Final = "rabbitmq_global"


def dead_letter_families(counters: CountersView) -> Iterator[Family]:
    once = {"dead_letter_strategy": "at_most_once"}
    surely = {"queue_type": type_label(QUORUM), "dead_letter_strategy": "at_least_once"}
    for reason in REASONS:
        rows: list[Row] = [
            (
                labels({"queue_type": type_label(kind), **once}),
                counters.dead_lettered.get((kind, reason), 0),
            )
            for kind in (CLASSIC, QUORUM)
        ]
        rows.append((labels(surely), counters.dead_lettered_surely.get(reason, 0)))
        words = f"Messages dead-lettered: {spaced(reason)}"
        yield Family(f"{GLOBAL}_messages_dead_lettered_{reason}_total", COUNTER, words, rows)
    words = "Messages dead-lettered at least once, and confirmed"
    rows = [(labels(surely), counters.dead_letters_confirmed)]
    yield Family(f"{GLOBAL}_messages_dead_lettered_confirmed_total", COUNTER, words, rows)
    dropped = {
        "cycle": counters.dead_letters_dropped_cycle,
        "hops": counters.dead_letters_dropped_hops,
    }
    words = "Dead letters dropped by the cycle rule or the limit of hops"
    yield by_label("warren_dead_letters_dropped_total", COUNTER, words, "rule", dropped)
    words = "Messages rejected because a content header exceeded a consumer's frame_max"
    yield counter("warren_headers_too_large", words, counters.headers_too_large)
    words = "Times that a consumer was found slower than its queue's threshold"
    yield counter("warren_slow_consumers", words, counters.slow_consumers)


def locality_families(counters: CountersView) -> Iterator[Family]:
    """How many links of AMQP 1.0 are where their queue is led, of those that get hints."""
    local, remote = counters.links_local, counters.links_remote
    words = "Links with a queue, by where it is led"
    links = {"local": local, "remote": remote}
    yield by_label("warren_amqp10_links", GAUGE, words, "leader", links)
    ratio = local / (local + remote) if local + remote else 1.0
    yield gauge("warren_amqp10_locality_ratio", "Share of local ones", ratio)
    yield counter(
        "warren_amqp10_leader_pushes", "Flows that told of a new leader", counters.leader_pushes
    )


def peer_families(counters: CountersView) -> Iterator[Family]:
    """Links to other nodes."""
    if not counters.peers:
        return
    for name, kind, words, key in (
        ("peer_connected", GAUGE, "1 while the link to the node stands", "is_connected"),
        ("peer_rtt_ms", GAUGE, "Round trip of the control connection, ms", "rtt_ms"),
        ("peer_sent_bytes_total", COUNTER, "Bytes sent to the node", "sent_bytes"),
        ("peer_received_bytes_total", COUNTER, "Bytes that came from it", "received_bytes"),
        ("peer_link_losses_total", COUNTER, "Links to it that were lost", "losses"),
    ):
        values = {each.node: getattr(each, key) for each in counters.peers}
        yield by_label(f"warren_{name}", kind, words, "peer", values)


def auth_families(logins: LoginChecks) -> Iterator[Family]:
    """Logins by protocol."""
    found = logins.log.by_protocol
    for name, words, counts in (
        ("", "Login attempts", {key: each.every for key, each in found.items()}),
        (
            "_succeeded",
            "Logins that succeeded",
            {key: each.succeeded for key, each in found.items()},
        ),
        ("_failed", "Logins that failed", {key: each.failed for key, each in found.items()}),
    ):
        metric = f"rabbitmq_auth_attempts{name}_total"
        yield by_label(metric, COUNTER, words, "protocol", counts)


# What the meter of the broker knows


def meter_families(meter: MetricsView) -> Iterator[Family]:
    yield from traffic_families(meter.traffic())
    yield from raft_host_families(meter.raft())
    yield from wait_families(meter.waits())


def traffic_families(traffic: TrafficView) -> Iterator[Family]:
    """Where messages go, how large they are, and how long publishers wait for confirms."""
    yield counter(
        "warren_published_bytes", "Messages given to queues, for each one", traffic.handed_bytes
    )
    yield counter(
        "warren_published_away_bytes", "The part for queues led elsewhere", traffic.away_bytes
    )
    words = "Messages that the node itself has published: events, and copies of traced ones"
    yield counter("warren_internal_published", words, traffic.letters)
    yield counter("warren_internal_dropped", "Those it had to drop", traffic.letters_dropped)
    local = max(0, traffic.handed_bytes - traffic.away_bytes)
    ratio = local / traffic.handed_bytes if traffic.handed_bytes else 1.0
    words = "Share of published bytes that went to a leader on this node"
    yield gauge("warren_locality_ratio", words, ratio)
    again = traffic.redelivered / traffic.delivered if traffic.delivered else 0.0
    yield gauge("warren_redelivery_ratio", "Share of deliveries that were not the first", again)
    words = "Sizes of messages that a queue got, bytes; each of a run counts with its mean"
    yield histograms("rabbitmq_message_size_bytes", words, "protocol", traffic.sizes)
    words = "From publish to confirm, s"
    yield histograms("warren_confirm_seconds", words, "queue_type", traffic.confirms)


def raft_host_families(raft: RaftView) -> Iterator[Family]:
    """The log groups of the node all together."""
    yield gauge("warren_raft_groups", "Log groups with a member here", raft.groups)
    yield gauge("warren_raft_groups_hibernating", "Those at rest", raft.hibernating)
    for name, count in raft.counters.items():
        yield counter(f"warren_raft_{name}", f"Log groups: {spaced(name)}", count)


def wait_families(waits: Sequence[WaitView]) -> Iterator[Family]:
    """Credit flow: who was held back by whom."""
    pairs = [(labels({"held_back": each.held_back, "by": each.by}), each) for each in waits]
    seconds = [(where, each.seconds) for where, each in pairs]
    times = [(where, float(each.times)) for where, each in pairs]
    words = "Time that actors of one kind were held back by another"
    yield Family("warren_flow_blocked_seconds_total", COUNTER, words, seconds)
    yield Family("warren_flow_blocked_times_total", COUNTER, "How often", times)


def by_label(name: str, kind: str, words: str, label: str, values: Mapping[str, float]) -> Family:
    rows = [(labels({label: value}), number) for value, number in values.items()]
    return Family(name, kind, words, rows)


def histogram(name: str, words: str, view: HistogramView) -> Family:
    rows = histogram_rows(view.bounds, view.counts, view.total, NO_LABELS)
    return Family(name, HISTOGRAM, words, rows)


def histograms(name: str, words: str, label: str, views: Mapping[str, HistogramView]) -> Family:
    rows = [
        row
        for value, view in views.items()
        for row in histogram_rows(view.bounds, view.counts, view.total, {label: value})
    ]
    return Family(name, HISTOGRAM, words, rows)


def type_label(kind: str) -> str:
    """RabbitMQ's word for a type of queues."""
    return f"rabbit_{kind}_queue"


def spaced(name: str) -> str:
    return name.replace("_", " ")
