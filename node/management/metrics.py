"""GET /metrics: Prometheus text, aggregated over the node, with RabbitMQ's names and some of ours.

Counters are read from their owners when somebody asks; nothing is counted here.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from aiohttp import web
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from node.auth.desk import is_loopback
from node.management.access import Context, identify
from node.management.view import (
    CountersView,
    HistogramView,
    LogView,
    NodeView,
    PagingView,
    TotalsView,
)
from queues.dead_letters import REASONS
from queues.queue_arguments import CLASSIC, QUORUM

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


class Metrics:
    """With a login of a monitoring user, or without one from this machine itself."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._snapshot = Snapshot(context)

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/metrics", self.get)]

    async def get(self, request: web.Request) -> web.Response:
        if self._context.metrics_need_login or not is_loopback(request.remote or ""):
            (await identify(self._context, request)).require_monitor()
        body = generate_latest(self._snapshot)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})


class Snapshot:
    """All families, with the values of this moment; keeps `prometheus_client`'s Collector."""

    def __init__(self, context: Context) -> None:
        self._view = context.view
        self._desk = context.desk

    def collect(self) -> Iterator[Metric]:
        node = self._view.node()
        yield from _node_families(node)
        yield from _paging_families(node.paging)
        yield from _log_families(node.log)
        yield from _total_families(self._view.totals())
        counters = self._view.counters()
        yield from _counter_families(counters)
        yield from _dead_letter_families(counters)
        yield from _locality_families(counters)
        yield from _peer_families(counters)
        yield _counter("rabbitmq_auth_attempts", "Login attempts", self._desk.attempts)
        yield _counter(
            "rabbitmq_auth_attempts_succeeded", "Logins that succeeded", self._desk.succeeded
        )
        yield _histogram("warren_loop_turn_ms", "Turns of the loop, ms", node.loop_turn_ms)
        yield _histogram(
            "warren_wal_sync_seconds", "Write and sync of the log, s", node.wal_sync_seconds
        )
        yield _histogram(
            "warren_confirm_seconds", "From publish to confirm, s", node.confirm_seconds
        )


def _node_families(node: NodeView) -> Iterator[Metric]:
    identity = GaugeMetricFamily(
        "rabbitmq_identity_info", "This node", labels=["rabbitmq_node", "rabbitmq_cluster"]
    )
    identity.add_metric([node.name, node.cluster_name], 1)
    yield identity
    build = GaugeMetricFamily("rabbitmq_build_info", "Its build", labels=["version", "build"])
    build.add_metric([node.version, node.build], 1)
    yield build
    gauges: Sequence[tuple[str, str, float]] = (
        ("rabbitmq_process_resident_memory_bytes", "Memory used", node.memory_used_bytes),
        ("rabbitmq_resident_memory_limit_bytes", "Memory watermark", node.memory_limit_bytes),
        ("rabbitmq_disk_space_available_bytes", "Disk space available", node.disk_free_bytes),
        (
            "rabbitmq_disk_space_available_limit_bytes",
            "Free disk space low watermark",
            node.disk_free_limit_bytes,
        ),
        ("rabbitmq_process_open_fds", "Open file descriptors", node.files_used),
        ("rabbitmq_process_max_fds", "Open file descriptors, limit", node.files_max),
        ("rabbitmq_process_open_tcp_sockets", "Open TCP sockets", node.sockets_used),
        ("rabbitmq_alarms_memory_used_watermark", "1 while in alarm", node.memory_alarm),
        ("rabbitmq_alarms_free_disk_space_watermark", "1 while in alarm", node.disk_alarm),
        ("warren_alarms_clock_step", "1 while the wall clock is far off", node.clock_alarm),
        ("warren_node_in_service", "1 while the node serves clients", node.in_service),
        ("warren_uptime_seconds", "Time since start", node.uptime_ms / 1000),
        ("warren_wal_pending_bytes", "Waiting for a sync of the log", node.wal_pending_bytes),
    )
    for name, words, value in gauges:
        yield GaugeMetricFamily(name, words, value=value)


def _paging_families(paging: PagingView) -> Iterator[Metric]:
    gauges: Sequence[tuple[str, str, float]] = (
        ("warren_bodies_in_memory_bytes", "Bodies of messages in memory", paging.body_bytes),
        ("warren_bodies_in_memory_limit_bytes", "Budget for them", paging.body_budget_bytes),
        ("warren_memory_pressed", "1 while bodies leave for want of memory", paging.pressed),
        ("warren_page_files", "Page files", paging.files),
        ("warren_page_file_bytes", "Bytes of page files", paging.file_bytes),
        ("warren_page_live_bytes", "Bytes of bodies in page files", paging.live_bytes),
    )
    for name, words, value in gauges:
        yield GaugeMetricFamily(name, words, value=value)
    counters = (
        ("warren_page_written_bytes", "Bytes written to page files", paging.written_bytes),
        ("warren_page_writes_failed", "Writes to page files that failed", paging.writes_failed),
        ("warren_page_reads", "Bodies read from page files", paging.reads),
        ("warren_page_read_bytes", "Bytes of them", paging.read_bytes),
    )
    for name, words, value in counters:
        yield _counter(name, words, value)


def _log_families(log: LogView) -> Iterator[Metric]:
    """The log's files: what is there, and what upkeep did with them."""
    for name, words, values in (
        ("warren_wal_files", "Files of the log", log.files),
        ("warren_wal_bytes", "Bytes of files of the log", log.bytes),
    ):
        gauge = GaugeMetricFamily(name, words, labels=["kind"])
        for kind, number in values.items():
            gauge.add_metric([kind], number)
        yield gauge
    gauges: Sequence[tuple[str, str, float]] = (
        ("warren_wal_live_bytes", "Message data that queues need", log.live_bytes),
        (
            "warren_wal_live_record_bytes",
            "What records of nothing else would take",
            log.live_record_bytes,
        ),
        ("warren_wal_behind", "1 while publishers wait for rewriting", log.is_behind),
    )
    for name, words, value in gauges:
        yield GaugeMetricFamily(name, words, value=value)
    for name, count in log.counters.items():
        yield _counter(f"warren_wal_{name}", f"Upkeep of the log: {_words(name)}", count)
    yield _counter(
        "warren_wal_behind_seconds", "Time that publishers waited for rewriting", log.behind_s
    )


def _total_families(totals: TotalsView) -> Iterator[Metric]:
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
        yield GaugeMetricFamily(name, words, value=value)


def _counter_families(counters: CountersView) -> Iterator[Metric]:
    for name in CHURN:
        yield _counter(f"rabbitmq_{name}", name.replace("_", " "), getattr(counters, name))
    for name in PROTOCOL_COUNTERS:
        family = CounterMetricFamily(
            f"rabbitmq_global_messages_{name}", f"Messages {_words(name)}", labels=["protocol"]
        )
        for way in counters.protocols:
            family.add_metric([way.protocol], getattr(way, name))
        yield family
    for name in ("publishers", "consumers"):
        gauge = GaugeMetricFamily(
            f"rabbitmq_global_{name}", f"{name.capitalize()} now", labels=["protocol"]
        )
        for way in counters.protocols:
            gauge.add_metric([way.protocol], getattr(way, name))
        yield gauge
    for name in DELIVERY_COUNTERS:
        family = CounterMetricFamily(
            f"rabbitmq_global_messages_{name}",
            f"Messages {_words(name)}",
            labels=["protocol", "queue_type"],
        )
        for end in counters.deliveries:
            family.add_metric([end.protocol, end.queue_type], getattr(end, name))
        yield family


def _dead_letter_families(counters: CountersView) -> Iterator[Metric]:
    for reason in REASONS:
        family = CounterMetricFamily(
            f"rabbitmq_global_messages_dead_lettered_{reason}",
            f"Messages dead-lettered: {_words(reason)}",
            labels=["queue_type", "dead_letter_strategy"],
        )
        for kind in (CLASSIC, QUORUM):
            count = counters.dead_lettered.get((kind, reason), 0)
            family.add_metric([f"rabbit_{kind}_queue", "at_most_once"], count)
        surely = counters.dead_lettered_surely.get(reason, 0)
        family.add_metric([f"rabbit_{QUORUM}_queue", "at_least_once"], surely)
        yield family
    confirmed = CounterMetricFamily(
        "rabbitmq_global_messages_dead_lettered_confirmed",
        "Messages dead-lettered at least once, and confirmed",
        labels=["queue_type", "dead_letter_strategy"],
    )
    labels = [f"rabbit_{QUORUM}_queue", "at_least_once"]
    confirmed.add_metric(labels, counters.dead_letters_confirmed)
    yield confirmed


def _locality_families(counters: CountersView) -> Iterator[Metric]:
    """How many links of AMQP 1.0 are where their queue is led, of those that are told so."""
    local, remote = counters.links_local, counters.links_remote
    links = GaugeMetricFamily(
        "warren_amqp10_links", "Links with a queue, by where it is led", labels=["leader"]
    )
    links.add_metric(["local"], local)
    links.add_metric(["remote"], remote)
    yield links
    ratio = local / (local + remote) if local + remote else 1.0
    yield GaugeMetricFamily("warren_amqp10_locality_ratio", "Share of local ones", value=ratio)
    yield _counter(
        "warren_amqp10_leader_pushes", "Flows that told of a new leader", counters.leader_pushes
    )


def _peer_families(counters: CountersView) -> Iterator[Metric]:
    """Links to other nodes."""
    if not counters.peers:
        return
    for name, words, key in (
        ("warren_peer_connected", "1 while the link to the node stands", "is_connected"),
        ("warren_peer_rtt_ms", "Round trip of the control connection, ms", "rtt_ms"),
    ):
        gauge = GaugeMetricFamily(name, words, labels=["peer"])
        for each in counters.peers:
            gauge.add_metric([each.node], getattr(each, key))
        yield gauge
    for name, words, key in (
        ("warren_peer_sent_bytes", "Bytes sent to the node", "sent_bytes"),
        ("warren_peer_received_bytes", "Bytes that came from it", "received_bytes"),
        ("warren_peer_link_losses", "Links to it that were lost", "losses"),
    ):
        family = CounterMetricFamily(name, words, labels=["peer"])
        for each in counters.peers:
            family.add_metric([each.node], getattr(each, key))
        yield family


def _counter(name: str, words: str, value: float) -> Metric:
    return CounterMetricFamily(name, words, value=value)


def _histogram(name: str, words: str, histogram: HistogramView) -> Metric:
    buckets: list[tuple[str, float]] = []
    so_far = 0
    for bound, count in zip((*histogram.bounds, "+Inf"), histogram.counts, strict=True):
        so_far += count
        buckets.append((str(bound), so_far))
    return HistogramMetricFamily(name, words, buckets=buckets, sum_value=histogram.total)


def _words(name: str) -> str:
    return name.replace("_", " ")
