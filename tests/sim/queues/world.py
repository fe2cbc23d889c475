"""A node with classic queues of all kinds under random load, with crashes and restarts, by seed.

What is checked after each restart: definitions are what was answered; every confirmed message that
is durable and was not settled is there once, in order, with its bytes, or has died by the rules and
is where the dead go; nothing that was settled or refused is back. And at every delivery: the
message is there, has its bytes, and the right flag. Quorum queues: `group_world`.
"""

from random import Random

from node.cluster.definitions.definitions_store import BIRTHS_OWNER
from queues.definitions.metadata.commands import DeclareQueue, DeleteQueue
from queues.definitions.metadata.outcomes import Outcome
from queues.machine.commands import ACCEPT, REJECT, RELEASE
from queues.queue_host import QueueHost
from raft.log_group import METADATA_OWNER
from tests.sim.queues.client import Client
from tests.sim.queues.grave import Grave
from tests.sim.queues.kinds import KINDS, TARGETS, TTL_MS, Kind
from tests.sim.queues.ledger import Ledger
from tests.sim.queues.letters import Letter
from tests.sim.queues.node import NODE, SimNode
from tests.sim.queues.truth import Truth
from tests.sim.storage.sim_disk import Crashed, SimDisk

CLIENTS = 3
NAMES_MAX = 6  # of one world, beside those for dead letters


class World:
    """One seed's run: from nothing, or from an image of a disk and what must be true of it."""

    def __init__(self, seed: int, truth: Truth | None = None, disk: SimDisk | None = None) -> None:
        self.random = Random(seed)
        self.disk = SimDisk() if disk is None else disk
        self.truth = Truth(self._draw_names()) if truth is None else truth
        self.clients: list[Client] = []
        self.booted = False
        self.resting: set[int] = set()  # queues that are unused in this life of the node
        self.ready_max = 1 << 30  # above that nothing is published

    def _draw_names(self) -> tuple[str, ...]:
        others = [name for name in KINDS if name not in TARGETS]
        return (*self.random.sample(others, NAMES_MAX), *TARGETS)

    # Load

    def boot(self, clean: bool = True) -> None:
        """To be called once, and after each crash."""
        self.clients = []
        self.booted = False
        node = SimNode(self.disk, self.random, self.truth.now_ms)
        assert not node.report.corrupt, f"corrupt: {node.report.corrupt}"
        assert not node.lost, f"definitions: {node.lost}"
        assert not node.broker.queues.damages.hosts, "a queue is not served"
        self.node = node
        self.booted = True
        node.complete()
        self.truth.check(node, clean)
        awake = node.broker.queues.hosts.awake
        self.resting = set()
        for name, uid in self.truth.found(node).items():
            may_rest = name not in TARGETS and not KINDS[name].target and uid not in awake
            if may_rest and self.random.random() < 0.5:
                self.resting.add(uid)
            elif uid in self.ledger.books:
                self.dig(uid, KINDS[name])
        node.begin()
        self.truth.check_definitions(node)
        self.truth.check_flags(node)
        self.clients = [Client(node, self.ledger) for _ in range(CLIENTS)]

    @property
    def ledger(self) -> Ledger:
        return self.truth.ledger

    def known(self) -> Truth:
        """What must be true if the power fails now."""
        if self.booted:
            self.truth.durable_lsn = self.node.wal.durable_lsn
            self.ledger.forget(self.truth.durable_lsn)
        truth = self.truth.copy()
        for client in self.clients:
            client.gone(truth.ledger)
        return truth

    def dig(self, uid: int, kind: Kind) -> None:
        """Have the ledger told who dies in this queue."""
        host = self.node.broker.queues.hosts[uid]
        if kind.target:
            assert host.core.dead_letter_publisher is not None
            host.core.dead_letter_publisher = Grave(
                self.node, self.ledger, uid, kind.target, host.core.dead_letter_publisher
            )

    def hosts(self) -> list[QueueHost]:
        """Queues that a client may use: those that were answered and not asked to go."""
        truth = self.truth
        known = [uid for name, uid in truth.queues.items() if name not in truth.unanswered]
        broker = self.node.broker
        return [
            broker.queues.host(uid)
            for uid in known
            if uid in broker.queues.hosts and uid not in self.resting
        ]

    def kind(self, host: QueueHost) -> Kind:
        return self.ledger.books[host.uid].kind

    def act(self) -> None:
        """One step of load or of the machinery below."""
        choice = self.random.random()
        hosts = self.hosts()
        client = self.random.choice(self.clients)
        if choice < 0.06 or (not hosts and choice < 0.6):
            self.define()
        elif choice < 0.28:
            if sum(host.ready_count for host in hosts) < self.ready_max:
                self.publish(client, hosts)
        elif choice < 0.34:
            self.consume(client, self.random.choice(hosts))
        elif choice < 0.52:
            self.settle(client)
        elif choice < 0.525:
            self.purge(client, self.random.choice(hosts))
        elif choice < 0.53:
            self.advance(self.random.choice((1, 50, TTL_MS // 2, TTL_MS)))
        elif choice < 0.54:
            self.renew(client)
        elif choice < 0.55:
            self.node.wal.roll()
        elif choice < 0.62:
            self.run_loop()
        else:
            self.node.runner.step(self.random)
            self.after_turn()

    def after_turn(self) -> None:
        """A settlement that was handed down and applied is in the log by now."""
        if not self.node.runner.posted:
            self.ledger.turn_ended(self.node.wal.appended_lsn)

    def run_loop(self) -> None:
        self.node.run_loop()
        self.after_turn()

    def advance(self, ms: int) -> None:
        self.truth.now_ms += ms
        self.node.advance(ms)

    def settle_down(self) -> None:
        """Until nothing is left to do anywhere."""
        self.node.runner.settle()
        self.run_loop()

    def define(self) -> None:
        """Declare or delete a queue; its answer comes when the log has it."""
        name = self.random.choice(self.truth.names)
        if name in self.truth.unanswered:
            return
        uid = self.truth.queues.get(name)
        if uid is None:
            self.truth.unanswered.add(name)
            kind = KINDS[name]
            command = DeclareQueue(
                "/", name, durable=kind.durable, arguments=kind.encoded(), node=NODE
            )
            self.node.broker.definitions.propose(
                command, lambda outcome: self.declared(name, outcome)
            )
        elif self.random.random() < 0.1:
            self.truth.unanswered.add(name)
            self.node.broker.definitions.propose(
                DeleteQueue("/", name), lambda outcome: self.was_deleted(name, uid)
            )

    def declared(self, name: str, outcome: Outcome) -> None:
        queue = self.node.broker.definitions.queue("/", name)
        assert queue is not None, outcome
        self.ledger.declare(queue.uid, KINDS[name])
        self.dig(queue.uid, KINDS[name])
        self.truth.unanswered.discard(name)
        self.truth.queues[name] = queue.uid

    def was_deleted(self, name: str, uid: int) -> None:
        self.truth.unanswered.discard(name)
        del self.truth.queues[name]
        self.truth.deleted.add(uid)
        assert uid not in self.node.broker.queues.hosts

    def publish(self, client: Client, hosts: list[QueueHost]) -> None:
        runs: list[tuple[list[QueueHost], list[Letter]]] = []
        for _ in range(self.random.choice((1, 1, 1, 3))):
            width = min(len(hosts), self.random.choice((0, 1, 1, 1, 2, 3)))
            chosen = self.apart(self.random.sample(hosts, width))
            persistent = self.random.random() < 0.8
            mortal = self.random.random() < 0.1 and all(self.kind(host).target for host in chosen)
            ranked = self.random.random() < 0.3
            count = self.random.choice((1, 1, 4, 12))
            letters = [self.letter(persistent, ranked, mortal) for _ in range(count)]
            runs.append((chosen, letters))
        client.publish(runs)

    def apart(self, hosts: list[QueueHost]) -> list[QueueHost]:
        """Without those whose dead would meet a copy of themselves."""
        by_grave = {self.kind(host).target or host.name: host for host in hosts}
        return list(by_grave.values())

    def letter(self, persistent: bool, ranked: bool, mortal: bool) -> Letter:
        self.truth.number += 1
        number = self.truth.number
        length = self.random.choice((12, 12, 200, 200, 2000))
        payload = (b"%08d/" % number).ljust(length, b"%d" % (number % 10))
        priority = self.random.choice((None, 0, 1, 2, 9)) if ranked else None
        ttl_ms = self.random.choice((0, TTL_MS)) if mortal else None
        return Letter(payload, persistent, priority, ttl_ms)

    def consume(self, client: Client, host: QueueHost) -> None:
        choice = self.random.random()
        if choice < 0.5:
            client.get(host)
        elif len(client.consumers) < 3:
            client.attach(host, self.random.choice((1, 5, 50)))
        else:
            client.cancel(self.random.choice(list(client.consumers)))

    def settle(self, client: Client) -> None:
        held = list(client.held)
        if not held:
            return
        outcome = self.random.choice((ACCEPT, ACCEPT, ACCEPT, REJECT, RELEASE))
        if self.random.random() < 0.5:
            client.settle(held[: self.random.randint(1, len(held))], outcome)
        else:
            count = self.random.randint(1, min(3, len(held)))
            client.settle(self.random.sample(held, count), outcome)

    def purge(self, client: Client, host: QueueHost) -> None:
        """Alone in its turn, with nothing on its way: the ledger must know what is ready."""
        if not self.kind(host).plain:
            return
        self.settle_down()
        self.fetch_all()
        held = [
            message
            for each in self.clients
            for (uid, _, _), message in each.held.items()
            if uid == host.uid
        ]
        expected = self.ledger.purge(host.uid, held)
        assert host.ready_count == expected
        client.purge(host)
        self.run_loop()
        self.settle_down()
        assert client.purge_heard == expected

    def fetch_all(self) -> None:
        """Until every client has got what is checked out to it, and no request is open."""
        self.run_loop()
        while any(client.waiting for client in self.clients):
            assert self.node.runner.step(self.random)
            self.run_loop()

    def renew(self, client: Client) -> None:
        """A client goes and another comes."""
        client.end()
        self.clients[self.clients.index(client)] = Client(self.node, self.ledger)

    # Restarts

    def run(self, steps: int, crash_in: int) -> None:
        """Load, then a crash in the midst of it, or at its end; recovery; check."""
        self.disk.crash_in = crash_in
        try:
            for _ in range(steps):
                self.act()
                self.node.check()
        except Crashed:
            # The loop may have gone on for a moment: what clients heard by then counts.
            for work in list(self.node.runner.posted):
                work()
        self.crash()
        self.disk.crash_in = self.random.randint(0, 80) if self.random.random() < 0.3 else -1
        try:
            self.boot(clean=False)
        except Crashed:
            self.crash()
            self.boot(clean=False)
        self.disk.crash_in = -1
        assert not self.node.report.clean

    def crash(self) -> None:
        for client in self.clients:
            client.gone(self.ledger)
        self.truth.durable_lsn = self.node.wal.durable_lsn
        self.disk.crash_in = -1
        self.disk = self.disk.crash(self.random)

    def stop_and_start(self) -> None:
        """A stop in good order, and the next start."""
        for client in self.clients:
            client.end()
        self.settle_down()
        self.node.stop()
        self.after_turn()
        self.clients.clear()
        self.crash()
        self.boot(clean=True)
        assert self.node.report.clean

    # The end

    def drain(self) -> None:
        """Take everything out in order; then nothing may be left, on disk or in memory."""
        for client in self.clients:
            client.end()
        self.settle_down()
        self.advance(2 * TTL_MS)
        self.settle_down()
        client = self.clients[0] = Client(self.node, self.ledger)
        for host in self.hosts():
            client.attach(host, 1 << 20)
        self.settle_down()
        self.fetch_all()
        for host in self.hosts():
            self.check_delivered(client, host)
        assert self.node.wal.ledger.live_bytes() == self.entry_bytes() + self.journaled_bytes()
        client.settle(list(client.held), ACCEPT)
        self.settle_down()
        assert self.node.wal.ledger.live_bytes() == self.entry_bytes()
        assert self.node.budget.used_bytes == 0
        self.check_entries()

    def check_delivered(self, client: Client, host: QueueHost) -> None:
        """All that is left, by priority and then in the order of publishing."""
        book = self.ledger.books[host.uid]
        left = [message for message in book.messages if not message.is_over()]
        held = {seq: m for (uid, _, seq), m in sorted(client.held.items()) if uid == host.uid}
        assert [held[seq] for seq in sorted(held)] == left, "what is delivered is not what is left"
        ranks = [
            (-book.kind.level(held[seq].priority), seq) for seq in client.order.get(host.uid, ())
        ]
        assert ranks == sorted(ranks), "out of the order of priorities"

    def check_entries(self) -> None:
        """Nothing but the definitions and births of queues has entries."""
        assert set(self.node.wal.ledger.entries) <= {METADATA_OWNER, BIRTHS_OWNER}

    def entry_bytes(self) -> int:
        """What the definitions claim of the log."""
        return sum(group.byte_count() for group in self.node.wal.ledger.entries.values())

    def journaled_bytes(self) -> int:
        return sum(
            slot.chunk.bytes_between(
                slot.index + seq - slot.first, slot.index + seq - slot.first + 1
            )
            for host in self.node.broker.queues.hosts.awake.values()
            for slot in host.store.slots()
            if slot.journaled
            for first, count in host.live_ranges(slot.first, slot.count)
            for seq in range(first, first + count)
        )
