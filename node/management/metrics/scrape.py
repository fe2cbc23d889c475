"""One scrape: which families it wants, what has to be looked at for them, and their order.

    families = await Scrape(view, logins, meter, ages).per_object(now_s)

Objects are looked at in slices (`metrics.columns`), before the first family is written. Groups of
`/metrics/detailed` are RabbitMQ's; two that ask for the same family give it once.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from msgspec import Struct

from node.auth.login_checks import LoginChecks
from node.management.metrics import node_families as of_node
from node.management.metrics import objects
from node.management.metrics.ages import HeadAges
from node.management.metrics.columns import Column, Columns, look
from node.management.metrics.text import GAUGE, Family, counter, gauge, labels
from node.management.metrics.view import MemberSample, MetricsView, QueueSample
from node.management.rows.view import BrokerView, ConnectionView, ExchangeView

S = TypeVar("S")

PREFIX: Final = "rabbitmq_"
DETAILED: Final = "rabbitmq_detailed_"
CLUSTER: Final = "rabbitmq_cluster_"

QUEUE_GROUPS: Final = {
    "queue_coarse_metrics": objects.QUEUE_COARSE,
    "queue_consumer_count": objects.QUEUE_CONSUMERS,
    "queue_metrics": objects.QUEUE_METRICS,
    "queue_delivery_metrics": objects.QUEUE_DELIVERY,
    "channel_queue_exchange_metrics": objects.QUEUE_DELIVERY[:1],
}
CONNECTION_GROUPS: Final = {
    "connection_coarse_metrics": objects.CONNECTION_COARSE,
    "connection_metrics": objects.CONNECTION_METRICS,
}
CHANNEL_GROUPS: Final = {
    "channel_metrics": objects.CHANNEL_METRICS,
    "channel_exchange_metrics": objects.CHANNEL_EXCHANGE,
    "channel_queue_metrics": objects.CHANNEL_QUEUE,
}
NODE_GROUPS: Final = (
    "connection_churn_metrics",
    "node_coarse_metrics",
    "node_metrics",
    "node_persister_metrics",
    "auth_attempt_metrics",
)
CLUSTER_GROUPS: Final = ("vhost_status", "exchange_names", "exchange_bindings")
RA: Final = "ra_metrics"
AGE: Final = "warren_queue_head_age"  # ours
LOG: Final = "warren_log_metrics"  # ours: the log and the loop, whatever there are of queues
EMPTY: Final = ("channel_process_metrics", "auth_attempt_detailed_metrics")  # known, and nothing
GROUPS: Final = frozenset(
    (*QUEUE_GROUPS, *CONNECTION_GROUPS, *CHANNEL_GROUPS, *NODE_GROUPS, *CLUSTER_GROUPS)
) | {RA, AGE, LOG, *EMPTY}


class Scrape(Struct, frozen=True):
    """See the module."""

    view: BrokerView
    logins: LoginChecks
    meter: MetricsView
    ages: HeadAges

    async def aggregated(self, now_s: float) -> Iterator[Family]:
        """Sums over the node; as many samples whatever there is on it."""
        queues = Columns((*objects.QUEUE_METRICS, *objects.QUEUE_DELIVERY), None)
        kinds = Kinds(self.ages, now_s)
        uids = self.meter.queues()
        await look(uids, self.meter.queue, (queues.see, kinds.see))
        self.ages.keep(set(uids))
        raft = Columns((*objects.RAFT, *objects.RAFT_OF_3), None)
        await look(self.meter.members(), self.meter.member, (raft.see,))
        connections = Columns((*objects.CONNECTION_COARSE, *objects.CONNECTION_METRICS), None)
        await look(self.view.connection_names(), self.view.connection, (connections.see,))
        return self._aggregated(queues, kinds, raft, connections)

    def _aggregated(
        self,
        queues: Columns[QueueSample],
        kinds: "Kinds",
        raft: Columns[MemberSample],
        connections: Columns[ConnectionView],
    ) -> Iterator[Family]:
        known: set[str] = set()
        for family in (
            *of_node.node_families(self.view, self.logins),
            *of_node.meter_families(self.meter),
            *latency_families(self.meter),
            *kinds.families(),
            *queues.sums(PREFIX),
            *raft.sums(PREFIX),
            *connections.sums(PREFIX),
        ):
            if family.name not in known:
                known.add(family.name)
                yield family

    async def per_object(self, now_s: float) -> Iterator[Family]:
        """The same, and all objects one by one in place of their sums."""
        sums = await self.aggregated(now_s)
        groups = {*QUEUE_GROUPS, *CONNECTION_GROUPS, *CHANNEL_GROUPS, RA, AGE}
        found = list(await self.detailed(groups, None, now_s, PREFIX))
        single = {family.name for family in found}
        return iter([*(each for each in sums if each.name not in single), *found])

    async def detailed(
        self,
        groups: set[str],
        vhosts: frozenset[str] | None,
        now_s: float,
        prefix: str = DETAILED,
    ) -> Iterator[Family]:
        """The groups that are asked for, all of them known; queues of those vhosts alone."""
        found: list[Family] = [*self._of_node(groups, prefix), *self._of_cluster(groups)]
        if LOG in groups:
            found += of_node.own_log_families(self.view.node())
        queues = Columns(columns_of(groups, QUEUE_GROUPS), objects.of_queue)
        ages = Columns((self._age_column(now_s),) if AGE in groups else (), objects.of_queue)
        if queues.columns or ages.columns:
            uids = self.meter.queues(vhosts)
            await look(uids, self.meter.queue, (queues.see, ages.see))
        if RA in groups:
            raft = Columns((*objects.RAFT, *objects.RAFT_OF_3), objects.of_member)
            await look(self.meter.members(vhosts), self.meter.member, (raft.see,))
            found += raft.families(prefix)
        connections = Columns(columns_of(groups, CONNECTION_GROUPS), objects.of_connection)
        if connections.columns:
            await look(self.view.connection_names(), self.view.connection, (connections.see,))
        channels = Columns(columns_of(groups, CHANNEL_GROUPS), objects.of_channel)
        if channels.columns:
            await look(self.meter.channels(), same, (channels.see,))
        found += queues.families(prefix)
        found += ages.families("")
        found += connections.families(prefix)
        found += channels.families(prefix)
        return iter(found)

    def _age_column(self, now_s: float) -> Column[QueueSample]:
        def age(queue: QueueSample) -> float:
            return self.ages.see(queue.uid, queue.head_seq, queue.next_seq, now_s)

        return Column(
            "warren_queue_head_age_seconds", GAUGE, "Age of the oldest message, at least", age
        )

    def _of_node(self, groups: set[str], prefix: str) -> Iterator[Family]:
        node = self.view.node()
        made: dict[str, Callable[[], Iterator[Family]]] = {
            "connection_churn_metrics": lambda: of_node.churn_families(self.view.counters()),
            "node_coarse_metrics": lambda: of_node.coarse_families(node),
            "node_metrics": lambda: of_node.limit_families(node),
            "node_persister_metrics": lambda: persister_families(self.view),
            "auth_attempt_metrics": lambda: of_node.auth_families(self.logins),
        }
        for group in NODE_GROUPS:
            if group in groups:
                for family in made[group]():
                    name = prefix + family.name.removeprefix(PREFIX)
                    yield Family(name, family.kind, family.help, family.rows)

    def _of_cluster(self, groups: set[str]) -> Iterator[Family]:
        """Of the definitions, which are the same on all nodes."""
        vhosts = self.view.vhosts()
        if "vhost_status" in groups:
            rows = [(labels({"vhost": each.name}), float(each.running)) for each in vhosts]
            yield Family(f"{CLUSTER}vhost_status", GAUGE, "Whether the vhost runs", rows)
        names = [(each.name, name) for each in vhosts for name in self._exchanges(each.name)]
        if "exchange_names" in groups:
            found = (self.view.exchange(*each) for each in names)
            rows = [(exchange_labels(each), 1.0) for each in found if each is not None]
            yield Family(f"{CLUSTER}exchange_name", GAUGE, "Exchanges that there are", rows)
        if "exchange_bindings" in groups:
            rows = [
                (exchange_labels(each), float(sum(1 for _ in self.view.bindings(*key))))
                for key in names
                if (each := self.view.exchange(*key)) is not None
            ]
            yield Family(f"{CLUSTER}exchange_bindings", GAUGE, "Bindings of an exchange", rows)

    def _exchanges(self, vhost: str) -> Sequence[str]:
        return self.view.exchange_names(vhost)


class Kinds:
    """Queues by type, and the oldest message of all."""

    def __init__(self, ages: HeadAges, now_s: float) -> None:
        self._ages = ages
        self._now_s = now_s
        self._queues: dict[str, float] = {"classic": 0, "quorum": 0}
        self._ready: dict[str, float] = {"classic": 0, "quorum": 0}
        self._oldest_s = 0.0

    def see(self, queue: QueueSample) -> None:
        self._queues[queue.type] = self._queues.get(queue.type, 0) + 1
        self._ready[queue.type] = self._ready.get(queue.type, 0) + queue.ready
        age_s = self._ages.see(queue.uid, queue.head_seq, queue.next_seq, self._now_s)
        self._oldest_s = max(self._oldest_s, age_s)

    def families(self) -> Iterator[Family]:
        words = "Queues that this node leads or has"
        yield of_node.by_label("warren_queues", GAUGE, words, "queue_type", self._queues)
        yield of_node.by_label(
            "warren_queue_messages_ready", GAUGE, "Messages ready", "queue_type", self._ready
        )
        words = "Age of the oldest message at the head of a queue, at least"
        yield gauge("warren_oldest_message_age_seconds", words, self._oldest_s)


def columns_of(groups: set[str], known: dict[str, tuple[Column[S], ...]]) -> tuple[Column[S], ...]:
    """Those of the groups, each once."""
    chosen = {
        column.name: column
        for group, columns in known.items()
        if group in groups
        for column in columns
    }
    return tuple(chosen.values())


def exchange_labels(exchange: ExchangeView) -> str:
    return labels({"vhost": exchange.vhost, "exchange": exchange.name, "type": exchange.type})


def latency_families(meter: MetricsView) -> Iterator[Family]:
    """Under both of RabbitMQ's names; since the start of the node."""
    quorum = meter.traffic().confirms.get(of_node.type_label("quorum"))
    count = 0 if quorum is None else sum(quorum.counts)
    mean = quorum.total / count if quorum is not None and count else 0.0
    words = "Mean time to the confirm of a quorum queue"
    for name in ("raft_entry_commit_latency_seconds", "raft_commit_latency_seconds"):
        yield gauge(PREFIX + name, words, mean)


def persister_families(view: BrokerView) -> Iterator[Family]:
    """What the log and page files have read and written."""
    node = view.node()
    syncs = sum(node.wal_sync_seconds.counts)
    yield counter("rabbitmq_io_sync_ops", "Writes and syncs of the log", syncs)
    yield counter("rabbitmq_io_sync_time_seconds", "Time they took", node.wal_sync_seconds.total)
    yield counter("rabbitmq_io_read_ops", "Bodies read back", node.paging.reads)
    yield counter("rabbitmq_io_read_bytes", "Bytes of them", node.paging.read_bytes)
    yield counter("rabbitmq_io_write_bytes", "Paged out", node.paging.written_bytes)


def same(sample: S) -> S:
    return sample
