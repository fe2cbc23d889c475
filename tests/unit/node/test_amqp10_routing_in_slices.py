"""AMQP 1.0 publishes that take long to route: several turns, in the order in which they came."""

from typing import Any

from node.amqp091.transaction import Transaction
from node.amqp10.links.publishing import PublishingLink
from node.amqp10.special import look, part, rest_of
from node.amqp10.transactions import ROUTE_TRIES, LocalTransaction, Posted, Transactions
from node.process_identity import ProcessIdentity
from queues.routing.pace import ROUTE_MS_MAX, RoutingPace, RoutingShare
from queues.sessions.counts import Counts
from queues.sessions.credit import CreditSpec
from queues.sessions.publishing import Held
from tests.unit.node.test_publish_plans import Room
from tests.unit.wire.amqp10.peers import SENDER, Raw, transfer_frame
from tests.unit.wire.amqp10.peers import frame as frame_of
from warren.wire.amqp10.arrivals import Received
from warren.wire.amqp10.transfers import Transfers

STEP_S = 0.0011
MESSAGES_A_TURN = int(ROUTE_MS_MAX / 1000 / STEP_S) + 1
QUEUES = [f"q{number}" for number in range(40)]


class Hub:
    """The part of the endpoint that publishing needs, above a clock that goes on at each look."""

    name = "client"
    vhost = "/"
    user = "guest"
    frame_max = 131072

    def __init__(self) -> None:
        self.now_s = 0.0
        self.pace = RoutingPace(self._clock_s)
        self.room = Room(*QUEUES, pace=self.pace)
        self.share = RoutingShare()
        self.counts = Counts()
        self.held = Held()
        self.broker: Any = self
        self.identity = ProcessIdentity()

    def spend(self, seconds: float) -> None:
        """Others route for so long in this turn."""
        self.pace.begin()
        self.now_s += seconds
        self.pace.end()

    def _clock_s(self) -> float:
        self.now_s += STEP_S
        return self.now_s

    def turn(self) -> None:
        self.pace.begin_turn()
        self.share.waited()

    def must_wait(self) -> bool:
        return self.share.must_wait(self.pace.is_spent())

    def plans(self) -> Any:
        return self.room.cache

    def credit_spec(self) -> CreditSpec:
        return CreditSpec(400, 200)

    def count_published(self, count: int) -> None: ...

    def mark(self) -> None: ...

    def mark_link(self, link: PublishingLink) -> None: ...

    def bodies(self) -> list[bytes]:
        return [body[-5:] for queue in self.room.queues.values() for body in queue.bodies]


class Sender:
    """A link to the anonymous terminus, and a run of messages to all queues, one each."""

    def __init__(self, hub: Hub) -> None:
        self.raw = Raw()
        self.raw.open()
        self.core = self.raw.begin()
        link = self.raw.attach(1, SENDER)
        owner: Any = hub
        self.link = PublishingLink(owner, self.core, link, 1, None, None, -1)
        self._next_id = 0

    def run(self) -> Transfers:
        frames = b""
        for name in QUEUES:
            address = b"/queues/" + name.encode()
            to = b"\x00\x53\x73\xc0" + bytes([len(address) + 5, 3]) + b"\x40\x40"
            to += b"\xa1" + bytes([len(address)]) + address
            payload = to + b"\x00\x53\x75\xa0\x05" + b"%05d" % self._next_id
            transfer = transfer_frame(1, self._next_id)
            frames += frame_of(0, 0, transfer, payload)
            self._next_id += 1
        runs = [each.transfers for each in self.raw.feed(frames) if isinstance(each, Received)]
        [run] = runs
        assert run.count == len(QUEUES)
        return run


def test_messages_to_many_addresses_are_routed_in_several_turns_in_order() -> None:
    hub = Hub()
    sender = Sender(hub)
    rest = sender.link.take(sender.run())
    turns = 1
    while rest is not None:
        assert rest.count == len(QUEUES) - len(hub.bodies())
        assert len(hub.bodies()) <= turns * MESSAGES_A_TURN
        hub.turn()
        rest = sender.link.take(rest)
        turns += 1
    assert turns >= len(QUEUES) // MESSAGES_A_TURN > 1
    assert hub.bodies() == [b"%05d" % number for number in range(len(QUEUES))]


def with_copies(address: bytes, count: int) -> bytes:
    """A message whose annotation x-cc has so many routing keys."""
    keys = b"".join(
        b"\xa1" + bytes([len(key)]) + key for key in (b"a.%d" % n for n in range(count))
    )
    copies = b"\xd0" + (len(keys) + 4).to_bytes(4, "big") + count.to_bytes(4, "big") + keys
    pairs = b"\xa3\x04x-cc" + copies
    notes = b"\x00\x53\x72\xd1" + (len(pairs) + 4).to_bytes(4, "big") + b"\x00\x00\x00\x02" + pairs
    to = b"\xa1" + bytes([len(address)]) + address
    return notes + b"\x00\x53\x73\xc0" + bytes([len(to) + 3, 3]) + b"\x40\x40" + to


def test_one_message_with_many_keys_is_routed_in_several_turns() -> None:
    hub = Hub()
    hub.room.steps.exchange("many", "topic")
    hub.room.steps.bind("many", "q1", b"#.999")
    hub.room.cache.refresh()
    sender = Sender(hub)
    payload = with_copies(b"/exchanges/many/k", 1000) + b"\x00\x53\x75\xa0\x05first"
    [event] = sender.raw.feed(frame_of(0, 0, transfer_frame(1, 0), payload))
    assert isinstance(event, Received)
    rest = sender.link.take(event.transfers)
    turns = 1
    while rest is not None:
        assert rest.count == 1 and hub.bodies() == []
        hub.turn()
        rest = sender.link.take(rest)
        turns += 1
    assert turns == 4  # 32 keys for each look at the clock
    assert hub.bodies() == [b"first"]


def test_a_link_routes_one_message_in_a_turn_whose_time_others_have_spent() -> None:
    hub = Hub()
    sender = Sender(hub)
    hub.spend(1.0)
    run = sender.run()
    assert sender.link.take(run) is run
    hub.share.waited()
    rest = sender.link.take(run)
    assert rest is not None
    assert (len(hub.bodies()), rest.count) == (1, len(QUEUES) - 1)


def test_rest_of_a_run_stays_in_its_transaction() -> None:
    hub = Hub()
    run = Sender(hub).run()
    run.transaction = b"txn"
    owner: Any = hub
    rest = rest_of(run, look(owner, run, None, None))
    assert rest is not None
    assert (rest.transaction, rest.id_at(0)) == (b"txn", len(QUEUES) - rest.count)
    assert part(run, 0, 1).transaction == b"txn"


def committing(hub: Hub) -> tuple[Transactions, LocalTransaction]:
    sender = Sender(hub)
    owner: Any = hub
    deliveries: Any = None
    transactions = Transactions(owner, sender.core, deliveries)
    found = LocalTransaction(b"txn", sender.link.link, Transaction(hub.held))
    found.posted.append(Posted(sender.run(), None))
    return transactions, found


def test_commit_is_routed_in_several_turns() -> None:
    hub = Hub()
    transactions, found = committing(hub)
    turns = 1
    while not transactions.route_posted(found):
        hub.turn()
        turns += 1
    assert turns >= len(QUEUES) // MESSAGES_A_TURN > 1
    assert [each.names[2:] for each in found.routed] == [name.encode() for name in QUEUES]


def test_commit_whose_definitions_change_all_the_time_ends() -> None:
    hub = Hub()
    transactions, found = committing(hub)
    turns = 1
    while not transactions.route_posted(found):
        hub.room.steps.queue(f"another {turns}")
        hub.turn()
        turns += 1
    assert turns == ROUTE_TRIES + 1
    assert [each.names[2:] for each in found.routed] == [name.encode() for name in QUEUES]
