"""Brings changes of policies to the queues and exchanges that they match (`effective_rules`).

Configures the hosts and routers that exist. Owns the list of queues that are still to be looked
at: SLICE queues in each turn of the loop, so that a policy for very many does not hold up the
others. A queue at rest has no host; it gets one only if it has to expire. Quorum queues begin with
their arguments alone and learn of policies through their log, which has every change of their
options. Damaged queues are configured when they are served again.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from node.cluster.queues.quorum_channel import QuorumQueues
from node.definitions.effective_rules import EffectiveRules, QueueRules
from node.definitions.queue_cores import DeadLetterPublishers
from node.definitions.queue_registry import QueueRegistry
from queues.dead_lettering.dead_letter_publisher import QueueDeadLetterPublisher
from queues.definitions.broker_objects import Exchange, Queue
from queues.definitions.metadata.machine import Metadata
from queues.definitions.metadata.vhost import VHost
from queues.definitions.policies import EXCHANGE
from queues.definitions.policy_warnings import stored_warnings
from queues.hosts.queue_core import QueueCore
from queues.routing.router import ALTERNATE_ARGUMENT, Router

log = logging.getLogger("warren.broker")

SLICE: Final = 64  # 5 ms uncompiled


class PolicyKeeper:
    """See the module. All methods run on the loop thread."""

    def __init__(
        self,
        metadata: Metadata,
        rules: EffectiveRules,
        queues: QueueRegistry,
        quorum_queues: QuorumQueues,
        router: Callable[[str], Router],
        dead_letters: DeadLetterPublishers,
        begin_turn: Callable[[], None],
    ) -> None:
        """`router`: of a vhost."""
        self._metadata = metadata
        self._rules = rules
        self._queues = queues
        self._quorum_queues = quorum_queues
        self._router = router
        self._dead_letters = dead_letters
        self._begin_turn = begin_turn
        self._waiting: deque[int] = deque()  # uids of queues
        self._settled: list[asyncio.Future[None]] = []
        self._planned = False

    # A change

    def changed(self, vhost: str) -> None:
        """Policies of the vhost are others now, or it is gone; `go_on` is next."""
        found = self._metadata.vhosts.get(vhost)
        if found is None:
            return
        for exchange in found.exchanges.values():
            self.apply_to_exchange(exchange)
        self._waiting.extend(queue.uid for queue in found.queues.values())

    def added(self, uid: int) -> None:
        """A queue is about to be added, and `go_on` is next. After a crash it may have a host
        already, for the log has its messages: that host began without its policies."""
        if uid in self._queues.hosts.awake or uid in self._quorum_queues.members:
            self._waiting.append(uid)

    def begin(self) -> None:
        """The node starts: bring quorum queues what the last run did not, and log what is stored
        without effect."""
        for warning in stored_warnings(self._metadata):
            log.warning("%s", warning)
        self._waiting.extend(self._quorum_queues.members)
        self.go_on()

    def begin_service(self) -> None:
        """Clients are served: streams hear what they were not to hear before."""
        members = self._quorum_queues.members
        self._waiting.extend(uid for uid in members if self._quorum_queues.stream(uid) is not None)
        self.go_on()

    async def settled(self) -> None:
        """Return once all queues know of the changes so far."""
        while self._waiting:
            done = asyncio.get_running_loop().create_future()
            self._settled.append(done)
            await done

    def go_on(self) -> None:
        """Tell some of the queues that are to be told."""
        if not self._waiting:
            return
        for _ in range(min(SLICE, len(self._waiting))):
            self.apply_to_queue(self._waiting.popleft())
        if not self._waiting:
            settled, self._settled = self._settled, []
            for each in settled:
                if not each.done():
                    each.set_result(None)
        elif not self._planned:
            self._planned = True
            asyncio.get_running_loop().call_soon(self._next_slice)

    def _next_slice(self) -> None:
        self._planned = False
        self._begin_turn()
        self.go_on()

    def apply_to_exchanges(self, vhost: VHost) -> None:
        """All of a vhost that was loaded."""
        if not vhost.policies.is_empty():
            for exchange in vhost.exchanges.values():
                self.apply_to_exchange(exchange)

    def apply_to_exchange(self, exchange: Exchange) -> None:
        """Its router shall know the alternate that a policy gives it."""
        policy = self._rules.effective(exchange.vhost, EXCHANGE, exchange.name)
        alternate = policy.definition.get(ALTERNATE_ARGUMENT)
        router = self._router(exchange.vhost)
        router.set_alternate(exchange.name, alternate if isinstance(alternate, str) else None)

    def apply_to_queue(self, uid: int) -> None:
        """Its host shall do what the rules say; nothing happens where it does already."""
        queues, quorum_queues = self._queues, self._quorum_queues
        queue = self._metadata.queue(uid)
        if queue is None or uid in queues.damages.hosts or not queues.is_home(queue):
            return
        quorum_queues.mirrors.look_at(uid)
        stream = quorum_queues.stream(uid)
        if stream is not None:
            stream.configure(quorum_queues.settings_of_stream(queue))
            return
        rules = self._rules.rules_of(queue)
        core = queues.hosts.awake.get(uid)
        if core is None:
            if rules.expires:
                queues.hosts.add(queue)
            return
        dead_letter_publisher = self._dead_letter_publisher(queue, core, rules)
        quorum = quorum_queues.quorum(uid)
        if quorum is not None:
            quorum.configure(rules.options, dead_letter_publisher)
            quorum_queues.follow_traffic(uid, rules.follows)
        else:
            queues.hosts[uid].configure(rules.options, rules.mode, dead_letter_publisher)

    def _dead_letter_publisher(
        self, queue: Queue, core: QueueCore, rules: QueueRules
    ) -> QueueDeadLetterPublisher | None:
        """Who takes its dead from now on: who does so already, if that is all the same."""
        old = core.dead_letter_publisher
        rule = rules.dead_letters
        if rule is not None and isinstance(old, QueueDeadLetterPublisher) and old.follows(rule):
            return old
        return self._dead_letters.make(queue, rules)
