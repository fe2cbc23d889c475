"""A client core and a server core, any schedule, any cut of the bytes, near the wrap of all ids.

`WARREN_PAIR_SEEDS` runs more schedules.
"""

import os
from collections import deque
from random import Random
from typing import Any

import pytest

from tests.unit.wire.amqp10.peers import (
    AllThere,
    Pair,
    data_section,
    offsets_of,
    payloads,
    run_of,
)
from warren.wire.amqp10.arrivals import Received
from warren.wire.amqp10.codec.performatives import Source, Target
from warren.wire.amqp10.codec.serial import MASK, ahead
from warren.wire.amqp10.events import (
    AttachRequested,
    Event,
    Failed,
    LinkFailed,
    SessionFailed,
    Settled,
    Withdrawn,
)
from warren.wire.amqp10.limits import Limits
from warren.wire.amqp10.link import Link
from warren.wire.amqp10.sender import Run
from warren.wire.amqp10.session import Session
from warren.wire.amqp10.settling import ACCEPTED
from warren.wire.amqp10.transfers import store

SEEDS = int(os.environ.get("WARREN_PAIR_SEEDS", "25"))
STEPS = 250


def body_of(number: int, size: int) -> bytes:
    return data_section(number.to_bytes(4, "big") + b"x" * size)


class Queue:
    """A queue of numbered messages: hands over at once what it may, takes back in order."""

    def __init__(self, session: Session, link: Link, sizes: list[int]) -> None:
        self.session = session
        self.link = link
        self.sizes = sizes
        self.ready = list(range(len(sizes)))
        self.count = 0
        self.limit = 0

    def obey(self, arrived: int, credit: int, drain: bool) -> None:
        self.limit = arrived + credit
        self.hand_over()
        if drain:
            self.count = max(self.count, self.limit)
            self.session.drained(self.link, self.count)

    def hand_over(self) -> None:
        while self.ready and self.count < self.limit:
            first = self.ready[0]
            wanted = min(len(self.ready), self.limit - self.count)
            count = next((n for n in range(1, wanted) if self.ready[n] != first + n), wanted)
            del self.ready[:count]
            self.count += count
            taken = int(self.session.offer(self.link, Run(1, first, count, False)))
            self.take_back(first + taken, count - taken)

    def take_back(self, first: int, count: int) -> None:
        self.ready = sorted([*self.ready, *range(first, first + count)])


class Broker:
    """What the node will be: publishes are kept and confirmed later, queues feed consumers."""

    def __init__(self, pair: Pair, random: Random) -> None:
        self.pair = pair
        self.random = random
        self.published: dict[str, list[bytes]] = {}
        self.to_confirm: deque[tuple[Link, int]] = deque()
        self.queues: dict[Link, Queue] = {}
        self.sizes: dict[str, list[int]] = {}
        self.settled_ids = 0
        self.loading: list[Link] = []

    def session(self, link: Link) -> Session:
        return self.pair.server.sessions[link.channel]

    def handle(self, event: Event) -> None:
        assert not isinstance(event, Failed | SessionFailed | LinkFailed), event.error
        if isinstance(event, AttachRequested):
            link = event.link
            self.session(link).accept(link, Source(address="q"), Target(address="q"))
            if link.is_receiver:
                self.published[link.name] = []
            else:
                self.queues[link] = Queue(self.session(link), link, self.sizes[link.name])
        elif isinstance(event, Received):
            run = event.transfers
            self.published[event.link.name] += payloads(run.data, run.offsets)
            for place in range(int(run.count)):
                self.to_confirm.append((event.link, run.id_at(place)))
        elif isinstance(event, Withdrawn):
            for _, first, count in event.runs:
                self.queues[event.link].take_back(first, count)
        elif isinstance(event, Settled):
            self.settled_ids += ahead(event.last, event.first) + 1

    def confirm(self, count: int) -> None:
        for _ in range(min(count, len(self.to_confirm))):
            link, delivery_id = self.to_confirm.popleft()
            self.session(link).settle(delivery_id, 1)
            self.session(link).confirm(link, 1)

    def work(self) -> None:
        for queue in self.queues.values():
            queue.hand_over()
        for session in self.pair.server.sessions.values():
            for link, asked in session.take_queue_credits():
                self.queues[link].obey(int(asked.arrived), int(asked.credit), asked.drain)
            while session.has_work():
                session.write(self, self.random.choice([100, 5_000]))
                if self.random.random() < 0.5:
                    break

    def load(self) -> None:
        for link in self.loading:
            self.session(link).loaded(link)
        self.loading = []

    def fetch(self, link: Link, run: Run) -> bool:
        if self.random.random() < 0.2:
            self.loading.append(link)
            return False
        count = self.random.randint(1, int(run.count))
        sizes = self.queues[link].sizes
        first = int(run.first)
        messages = [store(body_of(n, sizes[n])) for n in range(first, first + count)]
        run.put(b"".join(messages), 0, offsets_of(messages), 0, count)
        return True

    def sent(self, link: Link, run: Run, delivery_id: int, count: int) -> None:
        assert count > 0


class Client:
    """Publishers with a list of messages each, and consumers that grant at random."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.bodies = AllThere()
        self.to_send: dict[Link, deque[bytes]] = {}
        self.all_sent: dict[str, list[bytes]] = {}
        self.received: dict[Link, list[bytes]] = {}
        self.settled = 0

    def session(self, link: Link) -> Session:
        return self.pair.client.sessions[link.channel]

    def handle(self, event: Event) -> None:
        assert not isinstance(event, Failed | SessionFailed | LinkFailed), event.error
        if isinstance(event, Received):
            run = event.transfers
            self.received[event.link] += payloads(run.data, run.offsets)
            for first, count in run.id_runs(0, run.count):
                self.session(event.link).settle(first, count)
        elif isinstance(event, Settled):
            assert event.outcome == ACCEPTED
            self.settled += ahead(event.last, event.first) + 1

    def offer(self, link: Link, count: int) -> None:
        """Hand over up to `count` messages, as far as there is credit."""
        assert link.sender is not None
        waiting = self.to_send[link]
        count = min(count, len(waiting), int(link.sender.credit - link.sender.waiting))
        if count > 0:
            messages = [waiting.popleft() for _ in range(count)]
            assert self.session(link).offer(link, run_of(messages)) == count

    def write(self, budget: int) -> None:
        for session in self.pair.client.sessions.values():
            session.write(self.bodies, budget)


def limits_of(random: Random, **more: Any) -> Limits:
    return Limits(
        max_frame_size=random.choice([512, 600, 131_072]),
        max_incoming_window=random.choice([1, 2, 7, 400]),
        first_outgoing_id=MASK - random.randint(0, 50),
        initial_delivery_count=MASK - random.randint(0, 50),
        **more,
    )


def start(random: Random) -> tuple[Pair, Broker, Client]:
    server = limits_of(
        random,
        max_link_credit=random.choice([1, 5, 170]),
        max_queue_credit=random.choice([1, 6, 256]),
    )
    client_limits = limits_of(random, max_link_credit=0, max_queue_credit=0)
    pair = Pair(server, client_limits)
    pair.settle()
    pair.cut = lambda size: min(size, random.choice([1, 7, 100, 10_000]))
    broker, client = Broker(pair, random), Client(pair)
    pair.on_server, pair.on_client = broker.handle, client.handle
    for _ in range(random.randint(1, 2)):
        session = pair.client.begin()
        for number in range(random.randint(1, 5)):
            publishes = random.random() < 0.5
            sizes = [random.choice([0, 20, 400, 2_000]) for _ in range(random.randint(0, 40))]
            name = f"{session.channel}-{number}"
            link = session.attach(name, not publishes, Source(address="q"), Target(address="q"))
            if publishes:
                messages = [body_of(place, size) for place, size in enumerate(sizes)]
                client.to_send[link] = deque(messages)
                client.all_sent[name] = messages
            else:
                broker.sizes[name] = sizes
                client.received[link] = []
    return pair, broker, client


def step(pair: Pair, broker: Broker, client: Client, random: Random) -> None:
    choice = random.randint(0, 9)
    if choice <= 2:
        pair.move_to_server()
    elif choice <= 5:
        pair.move_to_client()
    elif choice == 6:
        broker.work()
        broker.load()
    elif choice == 7:
        for link in client.to_send:
            client.offer(link, random.randint(0, 9))
        client.write(random.choice([10, 10_000]))
    elif choice == 8:
        broker.confirm(random.randint(0, 20))
        if random.random() < 0.2:
            pair.server.set_alarm(not pair.server.in_alarm)
    elif client.received:
        link = random.choice(list(client.received))
        drain, echo = random.random() < 0.2, random.random() < 0.2
        client.session(link).grant(link, random.choice([0, 1, 3, 50]), drain, echo)


def finish(pair: Pair, broker: Broker, client: Client) -> None:
    """Everything is granted, confirmed and moved until nothing changes any more."""
    pair.server.set_alarm(False)
    before: object = None
    while before != (now := state_of(pair, broker, client)):
        before = now
        for link in client.received:
            client.session(link).grant(link, 1_000)
        for _ in range(8):
            pair.settle()
            broker.load()
            broker.work()
            broker.confirm(1 << 20)
            for link in client.to_send:
                client.offer(link, 1 << 20)
            client.write(1 << 30)


def state_of(pair: Pair, broker: Broker, client: Client) -> object:
    received = [len(each) for each in client.received.values()]
    published = [len(each) for each in broker.published.values()]
    return (received, published, client.settled, broker.settled_ids)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_message_arrives_once_and_in_order(seed: int) -> None:
    random = Random(seed)
    pair, broker, client = start(random)
    for _ in range(STEPS):
        step(pair, broker, client, random)
    finish(pair, broker, client)
    assert broker.published == client.all_sent
    for link, bodies in client.received.items():
        sizes = broker.sizes[link.name]
        assert bodies == [body_of(number, size) for number, size in enumerate(sizes)]
    assert client.settled == sum(len(each) for each in client.all_sent.values())
    assert broker.settled_ids == sum(len(each) for each in client.received.values())
    assert pair.server.held.bytes == pair.client.held.bytes == 0
