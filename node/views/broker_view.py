"""The broker as the management listener sees it (`node.management.rows.view.BrokerView`). Reads
only."""

import os
import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from node.amqp10.endpoint import Endpoint10
from node.amqp10.listing import session_views
from node.cluster.services.topology import Topology, topology_of
from node.cluster.services.whereis import url_of, urls_told
from node.connections.amqp_listeners import AMQP, AMQP_TLS
from node.definitions.host_steps import BodyLog
from node.descriptors import files_max
from node.management.rows.view import (
    BindingView,
    ConnectionView,
    CorruptView,
    CountersView,
    DeliveryCounters,
    ExchangeView,
    HistogramView,
    ListenerView,
    LogView,
    MirroringView,
    NodeView,
    PagingView,
    PeerView,
    PolicyView,
    ProtocolCounters,
    QueueView,
    RecoveryView,
    SessionView,
    SlowMirrorsView,
    StreamTracking,
    TotalsView,
    UserView,
    VhostView,
)
from node.recovery.damage import Damages
from node.resources.process_facts import (
    ESTIMATED,
    files_used,
    memory_parts,
    resident,
    threads_max,
)
from node.turn import TURN_BUCKETS_MS
from node.views.client_listing import Endpoint, LiveClients, endpoint_of
from node.views.queue_weights import (
    NO_STATS,
    STATS_COUNT,
    add_stats,
    head_timestamp,
    sums_of,
    unacknowledged_bytes,
)
from node.views.stream_view import stream_in_use, stream_stats, streams_view, tracking_of
from queues.definitions.arguments import decode_arguments
from queues.definitions.broker_objects import Destination, Queue
from queues.definitions.policies import EXCHANGE
from queues.definitions.queue_arguments import queue_type
from queues.hosts.queue_core import QueueCore
from queues.sessions.counts import Counts
from queues.streams.member import StreamMember
from warren.storage.record import KIND_NAMES
from warren.storage.writing.log_writer import SYNC_BOUNDS_S

if TYPE_CHECKING:
    from node.broker import Broker


QUEUE_BYTES: Final = 12 << 10  # what a queue in use takes without its messages
WILDCARDS: Final = frozenset({"0.0.0.0", "::"})  # listen everywhere, and name no host


class LiveView:
    """Views of a running broker."""

    def __init__(
        self, broker: "Broker", listeners: tuple[ListenerView, ...], build: str, version: str
    ) -> None:
        self._broker = broker
        self._listeners = listeners
        self._build = build
        self._version = version
        self._started_ms = broker.now_ms()
        self._clients = LiveClients(broker)

    def node(self) -> NodeView:
        broker = self._broker
        alarms = broker.alarms
        turn = broker.turn
        is_open = broker.in_service and not broker.in_maintenance
        return NodeView(
            name=broker.node_name,
            cluster_name=self._cluster_name(),
            version=self._version,
            build=self._build,
            in_service=is_open,
            uptime_ms=broker.now_ms() - self._started_ms,
            process_id=os.getpid(),
            data_dir=str(broker.config.node.data_dir),
            listeners=tuple(
                each for each in self._listeners if is_open or not each.protocol.startswith("amqp")
            ),
            memory_used_bytes=alarms.memory_used_bytes,
            memory_limit_bytes=alarms.memory_limit_bytes,
            memory_alarm=alarms.memory,
            disk_free_bytes=alarms.disk_free_bytes,
            disk_free_limit_bytes=alarms.disk_limit_bytes,
            disk_alarm=alarms.disk,
            clock_alarm=broker.clock.step_alarm,
            paused_because=broker.queues.paused_because,
            alarm_details=alarms.details(),
            files_used=files_used(),
            files_max=files_max(),
            processors=os.cpu_count() or 1,
            threads_used=threading.active_count(),
            threads_max=threads_max(),
            sockets_used=len(broker.connections.all),
            connection_max=broker.config.limits.connection_max,
            recovery=recovery_view(broker.queues.damages),
            crashed_queues=tuple(
                sorted((host.vhost, host.name) for host in broker.queues.damages.hosts.values())
            ),
            wal_pending_bytes=broker.bodies.pending_bytes,
            mirroring=mirroring_view(broker),
            streams=streams_view(broker),
            paging=paging_view(broker),
            log=log_view(broker.bodies),
            loop_turn_ms=HistogramView(
                bounds=TURN_BUCKETS_MS, counts=tuple(turn.buckets), total=turn.sum_ms
            ),
            wal_sync_seconds=HistogramView(
                bounds=SYNC_BOUNDS_S,
                counts=tuple(broker.bodies.sync_counts),
                total=broker.bodies.sync_total_s,
            ),
        )

    @property
    def clients(self) -> LiveClients:
        return self._clients

    def memory(self) -> dict[str, object]:
        """See BrokerView."""
        memory = resident()
        parts: dict[str, object] = dict(memory_parts(self._broker, memory))
        total = {"rss": memory.total, "allocated": memory.total}
        return {**parts, "total": total, "strategy": "rss", "estimated": list(ESTIMATED)}

    def is_stale(self) -> bool:
        return self._broker.definitions.group.leader == 0

    def _cluster_name(self) -> str:
        """Until an operator sets one: that of the configuration, or of the oldest node."""
        broker = self._broker
        oldest = broker.operating.oldest_node
        return broker.config.cluster.name or oldest or broker.node_name

    def totals(self) -> TotalsView:
        broker = self._broker
        ready, held, byte_count, consumers = sums_of(self._leadership())
        for stream in self._streams_led():
            ready += stream.ready_count
            byte_count += stream.log.byte_count
        consumers += sum(each.consumer_count for each in broker.quorum_queues.streams())
        vhosts = broker.metadata.vhosts.values()
        return TotalsView(
            messages_ready=ready,
            messages_unacknowledged=held,
            message_bytes=byte_count,
            queues=broker.metadata.queue_count,
            exchanges=sum(len(vhost.exchanges) for vhost in vhosts),
            bindings=sum(vhost.binding_count for vhost in vhosts),
            consumers=consumers,
            connections=len(broker.connections.open),
            channels=broker.connections.channel_count(),
        )

    def _leadership(self) -> list[QueueCore]:
        """Hosts of queues that are led here: what others lead is counted there."""
        hosts = self._broker.queues.hosts.awake
        operating = self._broker.operating
        return [host for uid, host in hosts.items() if operating.is_led_here(uid)]

    def _streams_led(self) -> list[StreamMember]:
        return [each for each in self._broker.quorum_queues.streams() if each.is_leading]

    def queues_here(self, vhost: str) -> Sequence[str]:
        return [host.name for host in self._leadership() if host.vhost == vhost]

    def counters(self) -> CountersView:
        broker = self._broker
        counts, counts10 = broker.counts, broker.counts10
        endpoints = list(broker.connections.open.values())
        consumers = sums_of(broker.queues.hosts.awake.values())[3]
        publishers = sum(1 for each in endpoints if each.has_published)
        consumers10 = sum(each.consumer_count() for each in endpoints)
        publishers10 = sum(1 for each in endpoints if each.has_published and each.is_amqp10)
        return CountersView(
            protocols=(
                protocol_counters(
                    "amqp091", counts, publishers - publishers10, consumers - consumers10
                ),
                protocol_counters("amqp10", counts10, publishers10, consumers10),
            ),
            deliveries=(
                *delivery_counters("amqp091", counts),
                *delivery_counters("amqp10", counts10),
            ),
            connections_opened=broker.connections.opened_count,
            connections_closed=broker.connections.closed_count,
            channels_opened=broker.connections.channels_opened_count,
            channels_closed=broker.connections.channels_closed_count,
            queues_declared=broker.changes.churn.declared,
            queues_created=broker.changes.churn.created,
            queues_deleted=broker.changes.churn.deleted,
            dead_lettered=dict(counts.dead_lettered),
            dead_lettered_surely=dict(counts.dead_lettered_surely),
            dead_letters_confirmed=int(counts.dead_letters_confirmed),
            dead_letters_dropped_cycle=int(counts.dead_letters_dropped_cycle),
            dead_letters_dropped_hops=int(counts.dead_letters_dropped_hops),
            headers_too_large=broker.oversized.count,
            slow_consumers=broker.steps.slow_consumer_count,
            links_local=broker.hint_counts.local,
            links_remote=broker.hint_counts.remote,
            leader_pushes=broker.hint_counts.pushes,
            peers=tuple(
                PeerView(
                    node=name,
                    is_connected=each.is_connected,
                    rtt_ms=each.rtt_ns / 1e6,
                    sent_bytes=each.bytes_sent,
                    received_bytes=each.bytes_received,
                    losses=each.losses,
                )
                for name, each in sorted(broker.peer_statuses().items())
            ),
        )

    def vhosts(self) -> Sequence[VhostView]:
        ready: dict[str, int] = {}
        held: dict[str, int] = {}
        stats: dict[str, list[int]] = {}
        crashed = {host.vhost for host in self._broker.queues.damages.hosts.values()}
        for host in self._leadership():
            ready[host.vhost] = ready.get(host.vhost, 0) + host.ready_count
            held[host.vhost] = held.get(host.vhost, 0) + host.checked_out_count
            add_stats(host, stats.setdefault(host.vhost, [0] * STATS_COUNT))
        for stream in self._streams_led():
            vhost, told = stream.vhost, stream_stats(stream)
            ready[vhost] = ready.get(vhost, 0) + stream.ready_count
            sums = stats.get(vhost, [0] * STATS_COUNT)
            stats[vhost] = [one + other for one, other in zip(sums, told[3:], strict=True)]
        return [
            VhostView(
                name=name,
                messages_ready=ready.get(name, 0),
                messages_unacknowledged=held.get(name, 0),
                running=name not in crashed,
                stats=stats.get(name, NO_STATS),
            )
            for name in self._broker.metadata.vhosts
        ]

    def vhost_names(self) -> Sequence[str]:
        return list(self._broker.metadata.vhosts)

    def users(self) -> Sequence[UserView]:
        return [
            UserView(
                name=user.name,
                tags=user.tags,
                password_hash=user.password_hash,
                hashing=user.hashing,
            )
            for user in self._broker.metadata.access.users.values()
        ]

    def queue_names(self, vhost: str) -> Sequence[str]:
        found = self._broker.metadata.vhosts.get(vhost)
        return [] if found is None else list(found.queues)

    def queue(self, vhost: str, name: str) -> QueueView | None:
        broker = self._broker
        queue = broker.definitions.queue(vhost, name)
        if queue is None:
            return None
        arguments = decode_arguments(queue.arguments)
        owner = broker.connections.all.get(queue.exclusive_owner)
        host = broker.queues.hosts.awake.get(queue.uid)
        stream = broker.quorum_queues.stream(queue.uid)
        is_at_rest = host is None and stream is None
        at_rest = QueueView(
            vhost=vhost,
            name=name,
            type=queue_type(arguments),
            durable=queue.durable,
            auto_delete=queue.auto_delete,
            exclusive=queue.exclusive,
            arguments=arguments,
            node=queue.node,
            policy=self._policy(vhost, queue_type(arguments), name),
            owner="" if owner is None else owner.name,
            counts_known=not is_at_rest or broker.queues.is_home(queue),
        )
        if broker.queues.is_down(queue):
            reason = f"node {queue.node} cannot be reached"
            return replace(at_rest, state="down", reason=reason, counts_known=False)
        if stream is not None:
            crashed = broker.queues.damages.hosts.get(queue.uid)
            view = stream_in_use(at_rest, stream, crashed is not None)
        else:  # A copy by `replace` takes as long as all of the rest: lists have thousands.
            view = at_rest if host is None else self._in_use(at_rest, host)
        return broker.operating.with_place(queue, self._with_synchronisation(queue, view))

    def _with_synchronisation(self, queue: Queue, view: QueueView) -> QueueView:
        """The listing of a mirrored queue whose mirrors are being synchronised by this node."""
        found = self._broker.quorum_queues.mirrors.synchronisation(queue)
        if found is None:
            return view
        is_waiting = found.is_blocking and view.state in ("running", "flow")
        state = "syncing" if is_waiting else view.state
        return replace(view, state=state, sync_messages=found.message_count)

    def counts_known(self, vhost: str, name: str) -> bool:
        broker = self._broker
        queue = broker.definitions.queue(vhost, name)
        if queue is None:
            return False
        is_here = (  # Before what takes longer: lists ask for thousands that are elsewhere.
            queue.uid in broker.queues.hosts.awake
            or broker.quorum_queues.stream(queue.uid) is not None
            or broker.queues.is_home(queue)
        )
        return is_here and not broker.queues.is_down(queue) and broker.operating.is_counted(queue)

    def head_timestamp(self, vhost: str, name: str) -> int | None:
        queue = self._broker.definitions.queue(vhost, name)
        host = None if queue is None else self._broker.queues.hosts.awake.get(queue.uid)
        return None if host is None else head_timestamp(host)

    def stream_tracking(self, vhost: str, name: str) -> StreamTracking | None:
        queue = self._broker.definitions.queue(vhost, name)
        member = None if queue is None else self._broker.quorum_queues.stream(queue.uid)
        return None if member is None else tracking_of(member)

    def topology(self, vhost: str, name: str) -> Topology | None:
        broker = self._broker
        queue = broker.definitions.queue(vhost, name)
        if queue is None:
            return None
        return topology_of(broker.whereis.place(queue), broker.whereis, self._urls_of)

    def _urls_of(self, name: str) -> list[str]:
        """Where clients reach that node, as far as it is known."""
        place = self._broker.whereis.node(name)
        told = [] if place is None else urls_told(place.amqp, place.amqps)
        if told:
            return told
        if name != self._broker.node_name:
            return []
        return [
            url_of(
                host_of(name) if each.host in WILDCARDS else each.host,
                each.port,
                each.protocol == AMQP_TLS,
            )
            for each in self._listeners
            if each.protocol in (AMQP, AMQP_TLS)
        ]

    def _in_use(self, queue: QueueView, host: QueueCore) -> QueueView:
        broker = self._broker
        flow = host.credit.is_blocked()
        if not host.ready_count + host.checked_out_count:
            broker.steps.unreadable.forget(host.uid)
        reason = broker.steps.unreadable.reason(host.uid)
        crashed = broker.queues.damages.hosts.get(host.uid)
        held = host.ready_count + host.checked_out_count
        held_bytes = int(host.store.live_bytes)
        unsettled_bytes = unacknowledged_bytes(host)
        share, bytes_share = host.store.in_memory()
        held_ram, bytes_ram = round(held * share), round(held_bytes * bytes_share)
        return replace(
            queue,
            state=state_of(crashed is not None, bool(reason), flow),
            reason=reason if crashed is None else crashed.reason,
            messages_ready=host.ready_count,
            messages_unacknowledged=host.checked_out_count,
            messages_delayed=int(host.machine.notes.beside_count),
            messages_pending_dead_letters=int(host.machine.pending_dead_letters.count),
            message_bytes_ready=held_bytes - unsettled_bytes,
            message_bytes_unacknowledged=unsettled_bytes,
            messages_ram=held_ram,
            messages_paged_out=held - held_ram,
            messages_persistent=min(int(host.store.journaled_count), held),
            message_bytes_persistent=int(host.store.journaled_bytes),
            message_bytes_ram=bytes_ram,
            message_bytes_paged_out=held_bytes - bytes_ram,
            memory_bytes=QUEUE_BYTES + bytes_ram,
            consumers=host.consumer_count,
            consumer_capacity=host.capacity.share(broker.now_ms()),
            idle_since_ms=int(host.capacity.idle_since_ms(broker.now_ms())) or None,
            published=host.published_count - host.refused_count,
            delivered=host.delivered_count - host.got_count,
            got=host.got_count,
            redelivered=host.redelivered_count,
            acknowledged=host.accepted_count,
        )

    def exchange_names(self, vhost: str) -> Sequence[str]:
        found = self._broker.metadata.vhosts.get(vhost)
        return [] if found is None else list(found.exchanges)

    def exchange(self, vhost: str, name: str) -> ExchangeView | None:
        found = self._broker.metadata.vhosts.get(vhost)
        exchange = None if found is None else found.exchanges.get(name)
        if exchange is None:
            return None
        return ExchangeView(
            vhost=vhost,
            name=name,
            type=exchange.type,
            durable=exchange.durable,
            auto_delete=exchange.auto_delete,
            internal=exchange.internal,
            arguments=decode_arguments(exchange.arguments),
            policy=self._policy(vhost, EXCHANGE, name),
        )

    def _policy(self, vhost: str, kind: str, name: str) -> PolicyView:
        found = self._broker.rules.effective(vhost, kind, name)
        return PolicyView(
            name=found.policy_name,
            operator=found.operator_name,
            definition=found.definition,
            warnings=found.warnings,
        )

    def bindings(self, vhost: str, source: str) -> Iterable[BindingView]:
        found = self._broker.metadata.vhosts.get(vhost)
        return (
            BindingView(
                vhost=vhost,
                source=source,
                destination=binding.destination,
                destination_is_queue=binding.destination_kind is Destination.QUEUE,
                binding_key=binding.binding_key,
                arguments=decode_arguments(binding.arguments),
            )
            for binding in (() if found is None else found.bindings_from(source))
        )

    def connection_names(self) -> Sequence[str]:
        return [endpoint.name for endpoint in self._broker.connections.open.values()]

    def _endpoint(self, name: str) -> Endpoint | None:
        found = self._broker.connections.open_by_name.get(name)
        return None if found is None else endpoint_of(found)

    def connection(self, name: str) -> ConnectionView | None:
        endpoint = self._endpoint(name)
        if endpoint is None:
            return None
        facts = endpoint.facts()
        return ConnectionView(
            name=name,
            node=self._broker.node_name,
            user=endpoint.user,
            vhost=endpoint.vhost,
            protocol=facts.protocol,
            state=endpoint.state(),
            host=endpoint.here[0],
            port=endpoint.here[1],
            peer_host=endpoint.peer[0],
            peer_port=endpoint.peer[1],
            channels=facts.channels,
            channel_max=facts.channel_max,
            frame_max=facts.frame_max,
            heartbeat_s=facts.heartbeat_s,
            mechanism=endpoint.mechanism,
            connected_at_ms=endpoint.connected_at_ms,
            client_properties=facts.client_properties,
            received_bytes=facts.received_bytes,
            sent_bytes=facts.sent_bytes,
            received_packets=facts.reads,
            sent_packets=facts.writes,
            container_id=facts.container_id,
            pending_bytes=endpoint.transport.get_write_buffer_size(),
            tls=endpoint.tls,
        )

    def sessions(self, name: str) -> Sequence[SessionView]:
        endpoint = self._endpoint(name)
        return session_views(endpoint) if isinstance(endpoint, Endpoint10) else ()

    def close_connection(self, name: str, reason: str) -> bool:
        """Begin to close with 320 CONNECTION_FORCED; False if there is no such connection."""
        endpoint = self._endpoint(name)
        if endpoint is None:
            return False
        endpoint.close(reason)
        return True

    async def accept_damage(self, vhost: str, name: str) -> str:
        """See BrokerView."""
        broker = self._broker
        queue = broker.definitions.queue(vhost, name)
        if queue is None or queue.uid not in broker.queues.damages.hosts:
            return "the queue is not damaged"
        await broker.accept_damage(queue)
        return ""


def host_of(node: str) -> str:
    """The host in a node's name: what is behind the `@`."""
    return node.partition("@")[2] or node


def protocol_counters(
    protocol: str, counts: Counts, publishers: int, consumers: int
) -> ProtocolCounters:
    return ProtocolCounters(
        protocol=protocol,
        received=counts.received,
        received_confirm=counts.received_confirm,
        routed=counts.received - counts.unroutable,
        unroutable_dropped=counts.unroutable - counts.unroutable_returned,
        unroutable_returned=counts.unroutable_returned,
        confirmed=counts.confirmed,
        publishers=publishers,
        consumers=consumers,
    )


def delivery_counters(protocol: str, counts: Counts) -> tuple[DeliveryCounters, ...]:
    """Of classic queues, and of quorum queues."""
    quorum = counts.quorum
    classic = DeliveryCounters(
        protocol=protocol,
        delivered_consume_manual_ack=counts.delivered - quorum.delivered,
        delivered_consume_auto_ack=counts.delivered_no_ack - quorum.delivered_no_ack,
        delivered_get_manual_ack=counts.got - quorum.got,
        delivered_get_auto_ack=counts.got_no_ack - quorum.got_no_ack,
        get_empty=counts.get_empty,
        redelivered=counts.redelivered - quorum.redelivered,
        acknowledged=counts.acknowledged - quorum.acknowledged,
    )
    of_quorum = DeliveryCounters(
        protocol=protocol,
        queue_type="rabbit_quorum_queue",
        delivered_consume_manual_ack=quorum.delivered,
        delivered_consume_auto_ack=quorum.delivered_no_ack,
        delivered_get_manual_ack=quorum.got,
        delivered_get_auto_ack=quorum.got_no_ack,
        redelivered=quorum.redelivered,
        acknowledged=quorum.acknowledged,
    )
    return classic, of_quorum


def state_of(crashed: bool, damaged: bool, flow: bool) -> str:
    """Of a queue, in RabbitMQ's words."""
    if crashed:
        return "crashed"
    return "down" if damaged else "flow" if flow else "running"


def recovery_view(damages: Damages) -> RecoveryView:
    """What the start has met."""
    report = damages.report
    if report is None:
        return RecoveryView()
    return RecoveryView(
        clean=report.clean,
        torn=report.torn,
        corrupt=tuple(
            CorruptView(
                file=bad.path,
                offset=bad.offset,
                record=KIND_NAMES.get(bad.kind, "unknown"),
                reason=bad.reason,
                queues=tuple(damages.queues_at.get((bad.path, bad.offset), ())),
            )
            for bad in report.corrupt
        ),
    )


def mirroring_view(broker: "Broker") -> MirroringView:
    """Slow mirrors beside this node, and what promotions of mirrors here have lost."""
    mirrors, name_of = broker.operating.mirrors, broker.operating.cluster_snapshot.name_of
    if mirrors is None:
        return MirroringView()
    return MirroringView(
        slow=tuple(
            SlowMirrorsView(
                node=name_of(member),
                queue_count=len(slow.lags),
                queue=slow.queue,
                lag_ms=slow.lag_ms,
            )
            for member, slow in sorted(mirrors.lags.slow.items())
        ),
        unsynchronised=len(mirrors.losses.known),
        unsynchronised_promotions=mirrors.losses.promotions,
        lost_messages=mirrors.losses.messages,
    )


def paging_view(broker: "Broker") -> PagingView:
    """Where the bodies of all queues are."""
    budget = broker.budget
    pages = broker.pages
    if pages is None:
        return PagingView(body_bytes=budget.used_bytes, body_budget_bytes=budget.limit_bytes)
    return PagingView(
        body_bytes=budget.used_bytes,
        body_budget_bytes=budget.limit_bytes,
        pressed=budget.is_pressed,
        files=pages.file_count,
        file_bytes=pages.disk_bytes,
        live_bytes=pages.live_bytes,
        written_bytes=pages.written_bytes,
        writes_failed=pages.failure_count,
        reads=pages.read_count,
        read_bytes=pages.read_bytes,
    )


def log_view(wal: BodyLog) -> LogView:
    """How the disk stands, and what upkeep has done."""
    use = wal.disk_use()
    tally = wal.tally
    return LogView(
        files={"log": use.log_files, "segment": use.segment_files, "reserve": use.reserve_files},
        bytes={"log": use.log_bytes, "segment": use.segment_bytes, "reserve": use.reserve_bytes},
        live_bytes=use.live_bytes,
        live_record_bytes=use.live_record_bytes,
        is_behind=use.is_behind,
        behind_s=use.behind_s,
        counters={
            "rewrite_read_bytes": tally.read_bytes,
            "rewritten_bytes": tally.rewritten_bytes,
            "compactions_begun": tally.begun,
            "compactions_finished": tally.finished,
            "compactions_failed": tally.failed,
            "files_dropped": tally.dropped_files,
            "files_recycled": tally.recycled_files,
            "debts_paid": tally.debts_paid,
            "debt_bytes": tally.debt_bytes,
            "behind_times": tally.behind_count,
        },
    )
