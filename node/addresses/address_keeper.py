"""The accounts of this node's addresses: what limits them, what they hold, who waits for room.

Takes the policies and arguments of queues and exchanges; gives each plan of routes the gate of its
addresses, or None, which is what most have. Holds publishers of a full address whose policy is
BLOCK, and lets them go on when it has room; has queues of a full address whose policy is PAGE keep
bodies on disk alone. A timer does so, and runs only while this node knows an address with limits.
"""

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from node.addresses.address_words import WORDS_MAX, AddressWord, Heard, Place
from node.events.logs import ids_of
from queues.addresses.account import Account, Entry, Gate, Stamp, refusal_text
from queues.addresses.limits import KEYS, PAGE, AddressLimits, limits_of
from queues.addresses.node_size import NodeSize
from queues.addresses.producer_window import ProducerWindow
from queues.conversion.annotated import annotated_with_ingress
from queues.conversion.ingress_times import IngressTimes
from queues.definitions.arguments import decode_arguments
from queues.definitions.broker_objects import Destination, Exchange, Queue
from queues.definitions.policies import EXCHANGE
from queues.definitions.queue_arguments import STREAM, queue_type
from queues.sessions.credit import ADDRESS, CreditActor, CreditSpec

if TYPE_CHECKING:
    from node.connections.interceptors import Interceptors
    from node.definitions.queue_registry import QueueRegistry
    from node.events.events import Events
    from node.timers import Timers
    from node.turn import Turn
    from queues.definitions.metadata.machine import Metadata
    from queues.message import Chunk
    from queues.sessions.credit import FlowLedger
    from queues.sessions.publishing import Gate as AnyGate

log = logging.getLogger("warren.addresses")

QUEUE: Final = "queue"
CHECK_MS: Final = 100  # while an address has limits
BLOCKED_CHECK_MS: Final = 10  # while publishers wait
DROP_LOG_MS: Final = 60_000
ARGUMENTS: Final = tuple(f"x-{key.name}".encode() for key in KEYS)


class Rules(Protocol):
    """Brings policies to queues (`node.definitions.policing`)."""

    def apply_to_queue(self, uid: int) -> None:
        """Its host shall do what the rules say now."""


class Leaders(Protocol):
    """Who leads which queue (`node.cluster.services.cluster_services`)."""

    def leader_elsewhere(self, uid: int) -> int:
        """The other node that has or leads the queue; 0: this one, or none that is known."""


class Node(Protocol):
    """The broker, as accounts need it."""

    flow: "FlowLedger"
    turn: "Turn"
    metadata: "Metadata"
    timers: "Timers"
    events: "Events"
    interceptors: "Interceptors"

    @property
    def queues(self) -> "QueueRegistry": ...

    @property
    def policies(self) -> Rules: ...

    @property
    def operating(self) -> Leaders: ...

    def now_ms(self) -> int: ...

    def monotonic_ms(self) -> int: ...


class Waiter(Protocol):
    """A publisher that waits: a connection of AMQP 0-9-1, or a link of AMQP 1.0."""

    @property
    def credit_source(self) -> CreditActor:
        """What loses its credit towards the address."""

    def address_has_room(self) -> None:
        """One of the addresses that it waits for takes messages again."""


class Sender(Protocol):
    """A link of AMQP 1.0 whose target has limits."""

    @property
    def window(self) -> ProducerWindow | None: ...

    @property
    def granted_messages(self) -> int:
        """Its credit."""


class Address:
    """An account with its queues and those that wait for room in it."""

    def __init__(self, account: Account, uids: list[int], actor: CreditActor) -> None:
        self.account = account
        self.uids = uids
        self.actor = actor
        self.waiting: dict[Waiter, None] = {}
        self.is_full = False
        self.blocked_count = 0  # times that publishers began to wait
        self.logged_count = 0  # dropped messages that the log knows of
        self.logged_ms = -DROP_LOG_MS

    @property
    def text(self) -> str:
        account = self.account
        return f"address {account.kind} '{account.name}' in vhost '{account.vhost}'"


class AddressKeeper:
    """See the module. All methods run on the loop thread."""

    def __init__(self, broker: Node, global_bytes_max: int) -> None:
        self._broker = broker
        self.node_size = NodeSize(global_bytes_max, lambda: int(broker.turn.count))
        self._was_over = False
        self._measured_ms = -CHECK_MS
        self._spec = CreditSpec(1, 1, broker.flow)
        self.addresses: dict[Place, Address] = {}
        self._heard = Heard()  # from other nodes
        self._senders: dict[Place, dict[Sender, None]] = {}  # links by their targets
        self._peers = 0  # other nodes that hear what this one says
        self.paging: set[int] = set()  # uids of queues
        self._version = -1
        self._last_number = 0

    # Limits

    def gate_of(self, vhost: str, exchange: str, uids: tuple[int, ...]) -> Gate | None:
        """What messages to these queues, published to this exchange, are charged to."""
        found: list[tuple[Address, list[int]]] = []
        if exchange:
            address = self._address(vhost, EXCHANGE, exchange)
            if address is not None:
                found.append((address, [uid for uid in uids if uid in set(address.uids)]))
        for uid in uids:
            queue = self._broker.metadata.queue(uid)
            address = None if queue is None else self._address(vhost, QUEUE, queue.name)
            if address is not None:
                found.append((address, [uid]))
        entries = [self._entry(address, those) for address, those in found if those]
        stamp = self._broker.interceptors.mark()
        if any(address.account.limits.stamps for address, _ in found):
            times = IngressTimes(self._broker.now_ms, annotated_with_ingress).stamp
            stamp = times if stamp is None else _both(stamp, times)
        return Gate(entries, stamp) if entries or stamp is not None else None

    def _entry(self, address: Address, uids: list[int]) -> Entry:
        broker = self._broker
        now = 0
        later: list[int] = []
        for uid in uids:
            queue = broker.metadata.queue(uid)
            if queue is not None and not queue.holders and broker.queues.is_home(queue):
                now += 1
            else:
                later.append(uid)
        return Entry(address.account, now, frozenset(later))

    def _address(self, vhost: str, kind: str, name: str) -> Address | None:
        """With the limits and the queues that it has now; None: it has no limits."""
        limits = self._limits(vhost, kind, name)
        place = (vhost, kind, name)
        if limits is None:
            self._forget(place)
            return None
        address = self.addresses.get(place)
        if address is None:
            address = self._begin(place, limits)
        address.account.limits = limits
        address.uids[:] = self._uids(vhost, kind, name)
        return address

    def _begin(self, place: Place, limits: AddressLimits) -> Address:
        uids: list[int] = []
        self._last_number += 1

        def measure() -> tuple[int, int]:
            size, count = self._held_here(uids)
            size_elsewhere, count_elsewhere = self._heard.size_of(place)
            return size + size_elsewhere, count + count_elsewhere

        def turn() -> int:
            return int(self._broker.turn.count)

        leader = self._broker.operating.leader_elsewhere
        account = Account(
            *(self._last_number, *place, limits, measure, turn, leader, self.node_size),
            is_full_elsewhere=lambda: self._heard.is_node_full(place),
        )
        address = Address(account, uids, CreditActor("", self._spec, None, ADDRESS))
        address.actor.name = address.text
        if not self.addresses:
            self._wake(CHECK_MS)
            self._measure_node()
        self.addresses[place] = address
        account.begin_round(self._heard.active_count(place), self._peers)
        return address

    def _forget(self, place: Place) -> None:
        address = self.addresses.pop(place, None)
        if address is not None:
            self._release(address)
            self._page(address, False)

    def _limits(self, vhost: str, kind: str, name: str) -> AddressLimits | None:
        broker = self._broker
        found = broker.metadata.vhosts.get(vhost)
        if found is None:
            return None
        subject: Exchange | Queue | None = (
            found.exchanges.get(name) if kind == EXCHANGE else found.queues.get(name)
        )
        if subject is None:
            return None
        declared = bool(subject.arguments) and any(key in subject.arguments for key in ARGUMENTS)
        if found.policies.is_empty() and not declared:
            return None
        arguments = decode_arguments(subject.arguments)
        of_kind = EXCHANGE if kind == EXCHANGE else queue_type(arguments)
        if of_kind == STREAM:
            return None
        settings = dict(found.policies.effective(of_kind, name).definition)
        settings |= {key[2:]: each for key, each in arguments.items() if key.startswith("x-")}
        return limits_of(settings)

    def joined(
        self, sender: Sender, vhost: str, exchange: str, queue: str | None
    ) -> list[AddressLimits]:
        """The limits of the addresses that the target of a link names."""
        places = [(EXCHANGE, exchange)] if exchange else []
        if queue is not None:
            places.append((QUEUE, queue))
        found: list[AddressLimits] = []
        for kind, name in places:
            limits = self._limits(vhost, kind, name)
            if limits is not None:
                found.append(limits)
                self._senders.setdefault((vhost, kind, name), {})[sender] = None
        return found

    def left(self, sender: Sender) -> None:
        """The link takes nothing more."""
        for place in [each for each, senders in self._senders.items() if sender in senders]:
            del self._senders[place][sender]
            if not self._senders[place]:
                del self._senders[place]

    def granted(self, place: Place) -> tuple[int, int]:
        """What links of AMQP 1.0 with this target may still send: messages, and bytes of those
        whose clients count them."""
        senders = self._senders.get(place, {})
        windows = [each.window for each in senders if each.window is not None]
        size = sum(each.granted for each in windows if each.is_obeyed)
        return sum(each.granted_messages for each in senders), size

    def _uids(self, vhost: str, kind: str, name: str) -> list[int]:
        """The queue, or all that bindings lead to from the exchange."""
        found = self._broker.metadata.vhosts[vhost]
        if kind == QUEUE:
            return [found.queues[name].uid]
        uids: dict[int, None] = {}
        seen, ahead = {name}, [name]
        while ahead:
            for binding in found.bindings_from(ahead.pop()):
                if binding.destination_kind is Destination.QUEUE:
                    queue = found.queues.get(binding.destination)
                    if queue is not None:
                        uids[queue.uid] = None
                elif binding.destination not in seen:
                    seen.add(binding.destination)
                    ahead.append(binding.destination)
        return list(uids)

    # Sizes

    def _held_here(self, uids: Iterable[int]) -> tuple[int, int]:
        """Bytes and messages of those of these queues together that this node has or leads."""
        awake = self._broker.queues.hosts.awake
        elsewhere = self._broker.operating.leader_elsewhere
        size = count = 0
        for uid in uids:
            core = awake.get(uid)
            if core is not None and elsewhere(uid) == 0:
                size += core.held_bytes
                count += core.ready_count + core.checked_out_count
        return int(size), int(count)

    def _leads_some(self, uids: Iterable[int]) -> bool:
        """Whether this node has or leads one of these queues."""
        elsewhere = self._broker.operating.leader_elsewhere
        return any(elsewhere(uid) == 0 for uid in uids)

    # Other nodes (node.cluster.services.addresses_channel)

    def words(self) -> list[AddressWord]:
        """What this node says of the addresses that publishers use, here or elsewhere."""
        if not self.addresses:
            return []
        words: list[AddressWord] = []
        for place, address in self.addresses.items():
            account = address.account
            held = self._held_here(address.uids)
            is_active = account.share.is_active
            is_full = self.node_size.is_full() and self._leads_some(address.uids)
            if is_active or is_full or any(held) or account.due_bytes > 0:
                due = (account.due_bytes, account.due_count)
                words.append(AddressWord(*place, *held, *due, is_active, is_full))
        return words[:WORDS_MAX]

    def hear(self, member: int, words: Sequence[AddressWord]) -> None:
        """All that another node says now; it wants to hear of the same addresses."""
        self._heard.hear(member, words)
        for place in [each.place for each in words]:
            if place not in self.addresses and place[0] in self._broker.metadata.vhosts:
                self._address(*place)
        for address in self.addresses.values():
            address.account.heard_from(member)

    def begin_round(self, peers: int) -> None:
        """So many nodes got the words."""
        self._peers = peers
        for place, address in self.addresses.items():
            address.account.begin_round(self._heard.active_count(place), peers)

    def refusal_text(self, number: int) -> str:
        """Why the account of this number takes no message."""
        for address in self.addresses.values():
            if address.account.number == number:
                return refusal_text(address.account)
        return "the address was full"

    # Publishers that wait

    def hold(self, waiter: Waiter, gate: "AnyGate") -> bool:
        """Have it wait if an address is full; return whether it has to."""
        assert isinstance(gate, Gate)
        has_to = False
        for entry in gate.entries:
            account = entry.account
            if not account.is_blocking():
                continue
            address = self.addresses.get((account.vhost, account.kind, account.name))
            if address is None or address.account is not account:
                continue  # Its limits are gone.
            has_to = True
            if waiter not in address.waiting:
                self._hold(waiter, address)
        return has_to

    def _hold(self, waiter: Waiter, address: Address) -> None:
        if not address.waiting:
            address.blocked_count += 1
            self._wake(BLOCKED_CHECK_MS)
        address.waiting[waiter] = None
        waiter.credit_source.send(address.actor, 1)

    def is_waiting(self, waiter: Waiter) -> bool:
        return any(waiter in address.waiting for address in self.addresses.values())

    def gone(self, waiter: Waiter) -> None:
        """The publisher is no more."""
        for address in self.addresses.values():
            if address.waiting.pop(waiter, self) is None:
                waiter.credit_source.peer_down(address.actor)

    def _release(self, address: Address) -> None:
        waiting, address.waiting = address.waiting, {}
        for waiter in waiting:
            address.actor.ack(waiter.credit_source, 1)
        for waiter in waiting:
            waiter.address_has_room()

    # The timer (node.timers.Sleeper)

    @property
    def is_gone(self) -> bool:
        return False

    def _wake(self, delay_ms: int) -> None:
        self._broker.timers.wake(self, self._broker.now_ms() + delay_ms)

    def on_timer(self) -> None:
        version = self._broker.queues.version()
        if version != self._version:
            self._version = version
            for place in list(self.addresses):
                self._address(*place)
        self._measure_node()
        for address in list(self.addresses.values()):
            self._check(address)
        if self.addresses:
            is_blocking = any(address.waiting for address in self.addresses.values())
            self._wake(BLOCKED_CHECK_MS if is_blocking else CHECK_MS)

    def _measure_node(self) -> None:
        """Sum all queues of this node, if their sum has a limit."""
        now_ms = self._broker.monotonic_ms()
        if self.node_size.bytes_max < 0 or now_ms < self._measured_ms + CHECK_MS:
            return
        self._measured_ms = now_ms
        awake = self._broker.queues.hosts.awake
        self.node_size.measured(sum(int(core.store.live_bytes) for core in awake.values()))
        is_over = self.node_size.is_full()
        if is_over != self._was_over:
            self._was_over = is_over
            log.warning(
                "all queues have %d bytes, addresses.global_max_size is %d: addresses %s",
                self.node_size.size_bytes,
                self.node_size.bytes_max,
                "apply their full policies" if is_over else "have room again",
            )

    def _check(self, address: Address) -> None:
        account = address.account
        account.refresh()
        is_full = account.is_full()
        if is_full != address.is_full:
            address.is_full = is_full
            self._tell(address)
        if address.waiting and not account.is_blocking():
            self._release(address)
        self._page(address, account.limits.policy == PAGE and is_full)
        if account.dropped_count > address.logged_count:
            self._log_dropped(address)

    def _tell(self, address: Address) -> None:
        account = address.account
        name = "address.full" if address.is_full else "address.freed"
        self._broker.events.tell(
            name,
            name=account.name,
            vhost=account.vhost,
            kind=account.kind,
            policy=account.limits.policy,
            bytes=account.size_bytes,
            messages=account.size_count,
        )

    def _page(self, address: Address, is_on: bool) -> None:
        """Have its queues on this node keep bodies on disk alone, or no longer."""
        for uid in address.uids:
            if is_on != (uid in self.paging):
                if is_on:
                    self.paging.add(uid)
                else:
                    self.paging.discard(uid)
                self._broker.policies.apply_to_queue(uid)

    def _log_dropped(self, address: Address) -> None:
        now_ms = self._broker.monotonic_ms()
        if now_ms - address.logged_ms < DROP_LOG_MS:
            return
        account = address.account
        count = account.dropped_count - address.logged_count
        address.logged_ms, address.logged_count = now_ms, account.dropped_count
        log.warning(
            "%s is full: %d messages were dropped; consume from its queues or raise its limits",
            address.text,
            count,
            extra=ids_of(vhost=account.vhost),
        )

    # What operators read

    def all_limited(self) -> list[Address]:
        """Each address with limits, also those that nothing was published to."""
        for vhost in self._broker.metadata.vhosts.values():
            for name in list(vhost.exchanges):
                self._address(vhost.name, EXCHANGE, name)
            for name in list(vhost.queues):
                self._address(vhost.name, QUEUE, name)
        return list(self.addresses.values())


def _both(first: Stamp, second: Stamp) -> Stamp:
    def stamp(chunk: "Chunk") -> "Chunk":
        return second(first(chunk))

    return stamp
