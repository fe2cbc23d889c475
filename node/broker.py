"""The broker of this node: definitions, queues, connections and endpoints put together.

Makes the parts in an order in which each is complete when it is made: those without a cluster, the
parts of the cluster (`node.cluster.wiring`), and then `definitions`, `queues` and what follows
their changes. Rules are in the parts.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING

from node.addresses.address_keeper import AddressKeeper
from node.addresses.history import History
from node.addresses.ring_keeper import RingKeeper
from node.amqp10.hints import HintCounts
from node.amqp10.named_targets import NamedTargets
from node.auth.access import AccessView
from node.auth.login_checks import LoginChecks
from node.auth.login_events import login_teller
from node.auth.login_rules import back_ends_of, rules_of, verifier_of
from node.auth.passwords import Hashing
from node.auth.permissions import PermissionCache
from node.clock import NodeClock, monotonic_ms
from node.cluster.definitions.definitions_group import DefinitionsGroup
from node.connections.client_limits import ClientLimits, Elsewhere
from node.connections.connection_properties import server_properties, wire_limits, wire_limits10
from node.connections.connection_registry import ConnectionRegistry
from node.connections.direct_reply_to import DirectReplies
from node.connections.interceptors import Interceptors
from node.definitions.broker_definitions import BrokerDefinitions
from node.definitions.change_follower import ChangeFollower
from node.definitions.effective_rules import EffectiveRules
from node.definitions.host_steps import BodyLog, HostSteps
from node.definitions.policing import PolicyKeeper
from node.definitions.queue_cores import DeadLetterPublishers, QueueCores
from node.definitions.queue_hosts import QueueHosts
from node.definitions.queue_registry import QueueRegistry
from node.definitions.queue_types import QueueTypes
from node.definitions.routes import RouteCaches, Routers
from node.descriptors import Descriptors, files_max
from node.events.events import Events
from node.events.internal_publisher import InternalPublisher
from node.events.observers import Observers
from node.leases.answering import Answering
from node.leases.leases import Leases
from node.oversized import OversizedHeaders
from node.process_identity import ProcessIdentity
from node.recovery.damage import Damages, Owners
from node.resources.alarms import AlarmHold, Alarms
from node.resources.publish_hold import Hold
from node.timers import Timers
from node.turn import Turn
from queues.bodies.store import BodyBudget
from queues.definitions.broker_objects import (
    Queue,
)
from queues.definitions.metadata.commands import (
    Batch,
    Command,
    PutUser,
)
from queues.definitions.metadata.outcomes import Outcome
from queues.definitions.queue_options import QueueDefaults
from queues.hosts.journal import Journal
from queues.sessions.counts import Counts
from queues.sessions.credit import CreditSpec, FlowLedger

if TYPE_CHECKING:
    from node.cluster.services.whereis import WhereIs
    from node.cluster.wiring import ClusterParts
    from node.config.settings import Config
    from node.operations.peeking import Browsed, Peeked
    from node.tls.keeper import TlsKeeper
    from warren.storage.pages import Pages

log = logging.getLogger("warren.broker")


class Broker:
    """See the module. All methods run on the loop thread."""

    def __init__(
        self,
        config: "Config",
        clock: NodeClock,
        turn: Turn,
        parts: "ClusterParts",
        journal: Journal,
        budget: BodyBudget,
        bodies: BodyLog,
        pages: "Pages",
        timers: Timers,
        log_owners: Owners,
        tls_keepers: "Mapping[str, TlsKeeper]",
    ) -> None:
        self.config = config
        self.clock = clock
        self.turn = turn
        self.metadata = metadata = parts.machine
        self.journal = journal
        self.budget = budget
        self.bodies = bodies
        self.pages = pages  # for bodies that are in no log
        self.timers = timers
        self.node_name = config.node.name
        self.hint_counts = HintCounts()
        self.named_targets = NamedTargets()
        self._in_service = False
        self.in_maintenance = False
        self.tls_keepers = tls_keepers  # by listener
        self.identity = ProcessIdentity()
        self.events = Events(self.node_name, self.now_ms)
        self._begin_flow()
        self.topic_hashes_max = config.limits.topic_binding_hashes_max
        turn.dead_letters.hops_max = config.limits.dead_letter_hops_max
        self.wire_limits = wire_limits(config)
        self.wire_limits10 = wire_limits10(config)
        self.server_properties = server_properties(config.node.name)
        self.access: AccessView = metadata.access
        self.no_permissions = PermissionCache(self.access, "", "")
        self.logins = self._make_logins()
        self.alarms = Alarms(1 << 62, 0, self._alarms_changed)
        self.addresses = AddressKeeper(self, config.addresses.global_max_size)
        self.routers = Routers()
        self.connections = ConnectionRegistry(self.events, self.hold, self._propose)
        self.descriptors = Descriptors(files_max)
        self._begin_to_count()
        publisher = InternalPublisher(self)
        self.observers = Observers(self.events, metadata, config, publisher, self.connections)
        self._join_cluster(parts)
        self.definitions = self._make_definitions(parts.definitions)
        self.steps = HostSteps(
            turn, timers, bodies, budget, metadata, self.events, self.definitions.propose
        )
        self.rules = self._make_rules()
        dead_letters = self._make_dead_letter_publishers()
        self.queues = self._make_queues(parts, log_owners, dead_letters)
        self.policies = self._make_policies(dead_letters)
        self.route_caches = self._make_route_caches()
        self.changes = self._make_change_follower()
        self.client_limits = self._make_client_limits(parts.usage)

    def _make_definitions(self, group: DefinitionsGroup) -> BrokerDefinitions:
        types = QueueTypes(
            self.metadata,
            self.config.default_queue_type,
            self.config.quorum_queue.property_equivalence.relaxed_checks_on_redeclaration,
        )
        placed, faults = self.operating.placing.placed, self.alarms.faults

        def settle(command: Command) -> Command:
            return placed(types.typed(command))

        history = History(self)
        return BrokerDefinitions(self.metadata, group, self.routers, settle, faults, history)

    def _propose(self, command: Command, done: Callable[[Outcome], None]) -> None:
        """Propose for parts that exist before `definitions`."""
        self.definitions.propose(command, done)

    def _make_rules(self) -> EffectiveRules:
        return EffectiveRules(
            self.metadata,
            queue_defaults(self.config),
            self.config.compat == "3.x",
            self.addresses.paging,
            self.quorum_queues.is_found,
        )

    def _make_dead_letter_publishers(self) -> DeadLetterPublishers:
        return DeadLetterPublishers(
            self.routers.of,
            lambda uid: self.queues.host(uid),  # The queues need these publishers first.
            self.now_ms,
            self.identity.new_session,
            self.channel_credit,
            self.counts,
            self.turn.dead_letters,
        )

    def _make_queues(
        self, parts: "ClusterParts", log_owners: Owners, dead_letters: DeadLetterPublishers
    ) -> QueueRegistry:
        cores = QueueCores(
            self.journal, self.budget, self.steps, self.channel_credit, self.rules, dead_letters
        )
        return QueueRegistry(
            self.metadata,
            self.node_name,
            self.member,
            QueueHosts(parts.queue, cores.make),
            Damages(log_owners, self.steps),
            self.rules,
            self.away,
            self.quorum_queues,
            self.answers,
        )

    def _make_policies(self, dead_letters: DeadLetterPublishers) -> PolicyKeeper:
        return PolicyKeeper(
            self.metadata,
            self.rules,
            self.queues,
            self.quorum_queues,
            self.routers.of,
            dead_letters,
            self.turn.begin,
        )

    def _make_route_caches(self) -> RouteCaches:
        return RouteCaches(
            self.routers,
            self.access,
            self.queues.host,
            self.queues.version,
            self.answers.targets,
            self.observers.firehose.is_on,
            self.turn.routing,
            self.addresses.gate_of,
        )

    def _make_change_follower(self) -> ChangeFollower:
        return ChangeFollower(
            self.metadata,
            self.routers,
            self.route_caches,
            self.queues,
            self.policies,
            self.whereis,
            self.connections,
            self.named_targets,
            self.observers,
            RingKeeper(self).changed,
            lambda queue: self._in_service and queue.node == self.node_name,
            self.operating.reconciling.definitions_changed,
        )

    def _make_client_limits(self, elsewhere: Elsewhere) -> ClientLimits:
        return ClientLimits(
            self.config.limits,
            self.metadata,
            self.connections,
            self.node_name,
            self.queues.version,
            elsewhere,
        )

    def _make_logins(self) -> LoginChecks:
        tokens = verifier_of(self.config)
        back_ends = back_ends_of(self.config, self.access)
        rules = rules_of(self.config)
        logins = LoginChecks(self.access, rules, tokens=tokens, back_ends=back_ends)
        logins.on_weak_hash = self.replace_hash
        logins.on_login = login_teller(self.events)
        return logins

    def _join_cluster(self, parts: "ClusterParts") -> None:
        """Take the parts that this node has as a member of its cluster, perhaps the only one."""
        self.member = parts.member  # id of this node
        self.raft = parts.raft
        wired = parts.wire(self)
        self.away = wired.queues  # the way to queues of other nodes
        answers_of_others = wired.queues.answers
        self.answers = DirectReplies(self.turn.mark_endpoint, self.member, answers_of_others)
        self.leaders = wired.leaders  # who leads which group
        self.quorum_queues = wired.quorum
        self.coordination = wired.coordination
        self.whereis: WhereIs = wired.whereis
        self.peer_statuses = wired.peer_statuses
        self.operating = wired.operating
        self.leases = Leases(self, self.config.leases)
        self.lease_answers = Answering(self, self.leases)
        self.events_elsewhere = wired.events

    def _begin_flow(self) -> None:
        self.flow = FlowLedger(perf_counter)  # who holds back whom
        self._alarm_hold = AlarmHold(self.flow)
        self.hold = Hold()
        self.in_flight_bytes_max = self.config.limits.connection_inflight_bytes
        self.channel_credit = CreditSpec(*self.config.credit_flow_default_credit, self.flow)
        self.interceptors = Interceptors(self.config, self.now_ms)

    def _begin_to_count(self) -> None:
        self.counts = Counts()  # of AMQP 0-9-1, and of dead letters
        self.counts10 = Counts()  # of AMQP 1.0
        self.oversized = OversizedHeaders(self.monotonic_ms)

    # Time and names

    def now_ms(self) -> int:
        return self.clock.now_ms()

    def monotonic_ms(self) -> int:
        return monotonic_ms()

    async def peek(
        self, queue: Queue, offset: int, count: int, payload_bytes: int
    ) -> "Sequence[Peeked]":
        """Messages where they are; LookupError: no node can answer."""
        from node.operations.peeking import Peeking

        try:
            return await Peeking(self).peek(queue, offset, count, payload_bytes)
        finally:
            self.turn.begin()

    async def browse(self, queue: Queue, level: int, seq: int, count: int) -> "Sequence[Browsed]":
        """Messages behind a cursor, left where they are; LookupError: the leader has no answer."""
        from node.operations.peeking import Peeking

        try:
            return await Peeking(self).browse(queue, level, seq, count)
        finally:
            self.turn.begin()

    async def accept_damage(self, queue: Queue) -> None:
        """Serve a damaged queue with what could be read; the answer comes when that is durable."""
        done = asyncio.get_running_loop().create_future()
        self.turn.begin()

        def told() -> None:
            self.policies.apply_to_queue(queue.uid)
            self.definitions.propose(Batch(()), done.set_result)

        if queue.holders:
            self.quorum_queues.accept_damage(queue, told)
        else:
            self.queues.damages.accept(self.queues.hosts[queue.uid], told)
        await done

    # Connections

    def replace_hash(self, name: str, old: str, new: str, hashing: Hashing) -> None:
        """A better hash of a password that has just been shown, unless the user has changed."""
        user = self.metadata.access.user(name)
        if user is not None and user.password_hash == old:
            self.definitions.propose(PutUser(name, new, hashing, user.tags))

    @property
    def in_service(self) -> bool:
        """Whether the node accepts clients."""
        return self._in_service

    def begin_service(self) -> None:
        self._in_service = True
        self.policies.begin_service()

    def end_service(self) -> None:
        self._in_service = False

    # What maintenance asks (node.cluster.services.maintenance.Clients)

    @property
    def client_count(self) -> int:
        return len(self.connections.all)

    def close_clients(self, reason: str) -> int:
        return self.connections.close_all(reason)

    def set_in_maintenance(self, is_so: bool) -> None:
        self.in_maintenance = is_so
        self.observers.maintenance_changed(is_so)

    def set_paused(self, reason: str) -> int:
        """See `node.cluster.services.pausing.Site`."""
        self.turn.begin()
        self.queues.pause(reason)
        self.observers.paused_changed(reason)
        if not reason:
            return 0
        return self.connections.close_users(self.queues.is_withheld, f"node is paused: {reason}")

    def _alarms_changed(self) -> None:
        reason = self.alarms.reason()
        self._alarm_hold.turn(bool(reason))
        self.turn.dead_letters.low_memory = self.alarms.is_low_on_memory()
        self.turn.dead_letters.low_disk = self.alarms.is_low_on_disk()
        why = "; ".join((reason or "cleared", *self.alarms.details()))
        log.warning("resource alarm: %s", why)
        self.observers.alarms_changed(self.alarms)
        self.connections.mark_all()


def queue_defaults(config: "Config") -> QueueDefaults:
    """What the node says of queues that do not say it themselves."""
    return QueueDefaults(
        config.consumer_timeout,
        config.sac_handover == "drain",
        config.quorum_queue.delivery_limit_counts == "returned",
    )
