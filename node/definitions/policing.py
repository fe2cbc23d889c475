"""What policies and arguments together say of each queue and exchange, brought to those that run.

Takes the policies of the metadata machine; gives the rules by which a queue's host is made, and
tells the hosts and routers that are there when a policy changes at once. Owns nothing but
the queue of what is still to be looked at: SLICE queues in each turn of the loop, so that a policy
for very many does not hold up the others. A queue at rest has no host to be told; it is woken only
if it has to expire. Quorum queues begin with their arguments alone and hear of policies through
their log, where every change of their options is. Damaged queues hear of it when they are served
again.
"""

import asyncio
import logging
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from queues.dead_lettering.dead_letter_publisher import QueueDeadLetterPublisher
from queues.dead_lettering.dead_letters import DeadLetterRule
from queues.definitions.arguments import decode_arguments
from queues.definitions.broker_objects import Exchange, Queue
from queues.definitions.metadata_vhost import VHost
from queues.definitions.policies import EXCHANGE, NOTHING, Effective, with_policy
from queues.definitions.policy_warnings import stored_warnings
from queues.definitions.queue_arguments import QUORUM, STREAM, queue_type
from queues.definitions.queue_options import (
    EXPIRES,
    SharedOptions,
    at_least_once_fault,
    can_refuse,
    dead_letter_rule,
    is_lazy,
    options_of,
    wants_at_least_once,
    without_copies,
)
from queues.hosts.queue_core import DEFAULT, LAZY, QueueCore
from queues.machine.options import Options
from queues.placement.leader_traffic import OFF, mode_of
from queues.routing.router import ALTERNATE_ARGUMENT
from queues.streams.settings import stream_settings

if TYPE_CHECKING:
    from node.broker import Broker

log = logging.getLogger("warren.dead_letters")
log_broker = logging.getLogger("warren.broker")

SLICE: Final = 64  # 5 ms uncompiled


@dataclass(frozen=True, slots=True)
class QueueRules:
    """How a queue behaves."""

    type: str
    first_options: Options  # with which its machine begins
    options: Options  # which hold now
    mode: int
    dead_letters: DeadLetterRule | None
    expires: bool
    follows: str = OFF  # where its leader goes (`queues.placement.leader_traffic`)

    replicated: bool = False  # its options change through the log of its group


class PolicyKeeper:
    """See the module. All methods run on the loop thread."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._waiting: deque[int] = deque()  # uids of queues
        self._options = SharedOptions()
        self._settled: list[asyncio.Future[None]] = []
        self._told: set[int] = set()  # uids of queues whose dead letters cannot be sent as is asked
        self._planned = False

    # What holds

    def effective(self, vhost: str, kind: str, name: str) -> Effective:
        """The policies of a queue of this type, or of an exchange."""
        found = self._broker.metadata.vhosts.get(vhost)
        return NOTHING if found is None else found.policies.effective(kind, name)

    def arguments_of(self, queue: Queue) -> dict[str, object]:
        """Its arguments together with what policies say."""
        declared = decode_arguments(queue.arguments)
        found = self._broker.metadata.vhosts.get(queue.vhost)
        if found is None or found.policies.is_empty():
            return declared
        kind = queue_type(declared)
        policy = found.policies.effective(kind, queue.name)
        if kind == STREAM:  # RabbitMQ lets the policy of a stream replace its arguments.
            return declared | {f"x-{key}": value for key, value in policy.definition.items()}
        return with_policy(declared, policy.definition)

    def can_refuse(self, queue: Queue) -> bool:
        """Whether it refuses messages because of its length, now and then."""
        return can_refuse(self.arguments_of(queue))

    def rules_of(self, queue: Queue) -> QueueRules:
        """What its arguments and policies say."""
        broker = self._broker
        declared = decode_arguments(queue.arguments)
        kind = queue_type(declared)
        arguments = self.arguments_of(queue)
        quorum = kind == QUORUM
        replicated = quorum or len(queue.holders) > 0 or broker.quorum_queues.is_found(queue.uid)
        if replicated:
            arguments = without_copies(arguments)
        options = self._options.of(options_of(arguments, broker.queue_defaults))
        if quorum:
            self._see_strategy(queue, arguments)
        return QueueRules(
            kind,
            self._options.of(options_of(declared, broker.queue_defaults))
            if replicated
            else options,
            options,
            LAZY if self._is_lazy(queue, arguments) and not replicated else DEFAULT,
            dead_letter_rule(queue.name, arguments, broker.config.compat == "3.x"),
            EXPIRES in arguments,
            mode_of(self.effective(queue.vhost, kind, queue.name).definition) if quorum else OFF,
            replicated,
        )

    def _is_lazy(self, queue: Queue, arguments: dict[str, object]) -> bool:
        """Whether bodies stay on disk alone: by its mode, or because its address is full."""
        return is_lazy(arguments) or queue.uid in self._broker.addresses.paging

    def _see_strategy(self, queue: Queue, arguments: dict[str, object]) -> None:
        """Say once of a queue that its dead letters are sent at most once, for all that it asks."""
        fault = at_least_once_fault(arguments) if wants_at_least_once(arguments) else ""
        if not fault:
            self._told.discard(queue.uid)
        elif queue.uid not in self._told:
            self._told.add(queue.uid)
            log.warning(
                "queue '%s' in vhost '%s': dead letters go at most once, for %s",
                *(queue.name, queue.vhost, fault),
            )

    # A change

    def changed(self, vhost: str) -> None:
        """Policies of the vhost are others now, or it is gone; `go_on` is next."""
        found = self._broker.metadata.vhosts.get(vhost)
        if found is None:
            return
        for exchange in found.exchanges.values():
            self.apply_to_exchange(exchange)
        self._waiting.extend(queue.uid for queue in found.queues.values())

    def begin(self) -> None:
        """The node starts: bring quorum queues what the last run did not, and log what is stored
        without effect."""
        for warning in stored_warnings(self._broker.metadata):
            log_broker.warning("%s", warning)
        self._waiting.extend(self._broker.quorum_queues.members)
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
        self._broker.turn.begin()
        self.go_on()

    def apply_to_exchanges(self, vhost: VHost) -> None:
        """All of a vhost that was loaded."""
        if not vhost.policies.is_empty():
            for exchange in vhost.exchanges.values():
                self.apply_to_exchange(exchange)

    def apply_to_exchange(self, exchange: Exchange) -> None:
        """Its router shall know the alternate that a policy gives it."""
        policy = self.effective(exchange.vhost, EXCHANGE, exchange.name)
        alternate = policy.definition.get(ALTERNATE_ARGUMENT)
        router = self._broker.router(exchange.vhost)
        router.set_alternate(exchange.name, alternate if isinstance(alternate, str) else None)

    def apply_to_queue(self, uid: int) -> None:
        """Its host shall do what the rules say; nothing happens where it does already."""
        broker = self._broker
        queue = broker.metadata.queue(uid)
        if queue is None or uid in broker.damages.hosts or not broker.is_home(queue):
            return
        broker.quorum_queues.mirrors.look_at(uid)
        stream = broker.quorum_queues.stream(uid)
        if stream is not None:
            stream.configure(stream_settings(self.arguments_of(queue)))
            return
        rules = self.rules_of(queue)
        core = broker.hosts.awake.get(uid)
        if core is None:
            if rules.expires:
                broker.hosts.add(queue)
            return
        dead_letter_publisher = self._dead_letter_publisher(queue, core, rules)
        quorum = broker.member_host(uid)
        if quorum is not None:
            quorum.configure(rules.options, dead_letter_publisher)
            broker.quorum_queues.follow_traffic(uid, rules.follows)
        else:
            broker.hosts[uid].configure(rules.options, rules.mode, dead_letter_publisher)

    def _dead_letter_publisher(
        self, queue: Queue, core: QueueCore, rules: QueueRules
    ) -> QueueDeadLetterPublisher | None:
        """Who takes its dead from now on: who does so already, if that is all the same."""
        old = core.dead_letter_publisher
        rule = rules.dead_letters
        if rule is not None and isinstance(old, QueueDeadLetterPublisher) and old.follows(rule):
            return old
        return self._broker.dead_letter_publisher(queue, rules)
