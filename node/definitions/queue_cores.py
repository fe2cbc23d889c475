"""Makes the cores of queues, and the publishers of their dead letters."""

from collections.abc import Callable

from node.definitions.effective_rules import EffectiveRules, QueueRules
from queues.bodies.store import BodyBudget
from queues.dead_lettering.dead_letter_limits import DeadLetterLimits
from queues.dead_lettering.dead_letter_publisher import QueueDeadLetterPublisher
from queues.definitions.broker_objects import Queue
from queues.hosts.host_interfaces import Steps
from queues.hosts.journal import Journal
from queues.hosts.queue_core import QueueCore
from queues.machine.commands import SessionId
from queues.queue_host import QueueHost
from queues.routing.router import Router
from queues.sessions.counts import Counts
from queues.sessions.credit import DEAD_LETTERS, QUEUE, CreditActor, CreditSpec


class DeadLetterPublishers:
    """Gives each queue with a dead-letter exchange what publishes to it."""

    def __init__(
        self,
        router: Callable[[str], Router],
        host: Callable[[int], QueueHost],
        now_ms: Callable[[], int],
        new_session: Callable[[], SessionId],
        credit: CreditSpec,
        counts: Counts,
        limits: DeadLetterLimits,
    ) -> None:
        """`router`: of a vhost. `host`: of a queue, by uid."""
        self._router = router
        self._host = host
        self._now_ms = now_ms
        self._new_session = new_session
        self._credit = credit
        self._counts = counts
        self._limits = limits

    def make(self, queue: Queue, rules: QueueRules) -> QueueDeadLetterPublisher | None:
        """None: the queue has no dead-letter exchange."""
        rule = rules.dead_letters
        if rule is None:
            return None
        place = f"dead letters of queue '{queue.name}' in vhost '{queue.vhost}'"
        return QueueDeadLetterPublisher(
            rule,
            self._router(queue.vhost),
            self._host,
            self._now_ms,
            self._new_session,
            CreditActor(place, self._credit, None, DEAD_LETTERS),
            self._counts,
            rules.type,
            self._limits,
        )


class QueueCores:
    """See the module."""

    def __init__(
        self,
        journal: Journal,
        budget: BodyBudget,
        steps: Steps,
        credit: CreditSpec,
        rules: EffectiveRules,
        dead_letters: DeadLetterPublishers,
    ) -> None:
        self._journal = journal
        self._budget = budget
        self._steps = steps
        self._credit = credit
        self._rules = rules
        self._dead_letters = dead_letters

    def make(self, queue: Queue) -> QueueCore:
        """Make the core of a queue by its arguments and policies."""
        place = f"queue '{queue.name}' in vhost '{queue.vhost}'"
        rules = self._rules.rules_of(queue)
        return QueueCore(
            queue.uid,
            queue.vhost,
            queue.name,
            queue.outlives_restart,
            self._journal,
            self._budget,
            self._steps,
            CreditActor(place, self._credit, None, QUEUE),
            queue.auto_delete,
            rules.first_options,
            rules.mode,
            rules.replicated,
            self._dead_letters.make(queue, rules),
        )
