"""A node with classic queues under random load, crashes and restarts, driven by one seed.

What is checked after each restart: definitions are what was answered; every confirmed persistent
message that was not settled is there once, in order, with its bytes; nothing that was settled
durably is back. And at every delivery: the message is there, has its bytes and the right flag.
"""

from random import Random

from queues.commands import ACCEPT, REJECT, RELEASE
from queues.hosts.classic import ClassicHost
from queues.metadata_commands import DeclareQueue, DeleteQueue
from queues.metadata_outcomes import Outcome
from tests.sim.queues.client import Client
from tests.sim.queues.ledger import Ledger, Message, QueueBook
from tests.sim.queues.node import NODE, SimNode
from tests.sim.storage.sim_disk import Crashed, SimDisk

CLIENTS = 3
NAMES = ("a", "b", "c", "d", "t1", "t2")  # those with a t are transient


class World:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.disk = SimDisk()
        self.ledger = Ledger()
        self.queues: dict[str, int] = {}  # name -> uid, as answered
        self.unanswered: set[str] = set()  # declared or deleted, and nobody knows
        self.deleted: set[int] = set()  # uids, as answered
        self.number = 0
        self.restarts = 0
        self.boot()

    # Load

    def boot(self) -> None:
        self.node = SimNode(self.disk, self.random)
        assert not self.node.report.corrupt
        self.node.begin()
        self.clients = [Client(self.node, self.ledger) for _ in range(CLIENTS)]

    def hosts(self) -> list[ClassicHost]:
        """Queues that a client may use: those that were answered and not asked to go."""
        known = [uid for name, uid in self.queues.items() if name not in self.unanswered]
        return [self.node.broker.hosts[uid] for uid in known if uid in self.node.broker.hosts]

    def act(self) -> None:
        """One step of load or of the machinery below."""
        choice = self.random.random()
        hosts = self.hosts()
        client = self.random.choice(self.clients)
        if choice < 0.06 or (not hosts and choice < 0.6):
            self.define()
        elif choice < 0.28:
            self.publish(client, hosts)
        elif choice < 0.34:
            self.consume(client, self.random.choice(hosts))
        elif choice < 0.52:
            self.settle(client)
        elif choice < 0.53:
            self.purge(client, self.random.choice(hosts))
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

    def define(self) -> None:
        """Declare or delete a queue; its answer comes when the log has it."""
        name = self.random.choice(NAMES)
        if name in self.unanswered:
            return
        uid = self.queues.get(name)
        if uid is None:
            self.unanswered.add(name)
            command = DeclareQueue("/", name, durable="t" not in name, node=NODE)
            self.node.broker.propose(command, lambda outcome: self.declared(name, outcome))
        elif self.random.random() < 0.15:
            self.unanswered.add(name)
            self.node.broker.propose(
                DeleteQueue("/", name), lambda outcome: self.was_deleted(name, uid)
            )

    def declared(self, name: str, outcome: Outcome) -> None:
        queue = self.node.broker.queue("/", name)
        assert queue is not None, outcome
        assert queue.uid not in self.ledger.books, "a uid was used twice"
        self.unanswered.discard(name)
        self.queues[name] = queue.uid
        self.ledger.books[queue.uid] = QueueBook()

    def was_deleted(self, name: str, uid: int) -> None:
        self.unanswered.discard(name)
        del self.queues[name]
        self.deleted.add(uid)
        assert uid not in self.node.broker.hosts

    def publish(self, client: Client, hosts: list[ClassicHost]) -> None:
        runs: list[tuple[list[ClassicHost], bool, list[bytes]]] = []
        for _ in range(self.random.choice((1, 1, 1, 3))):
            width = min(len(hosts), self.random.choice((0, 1, 1, 1, 2, 3)))
            persistent = self.random.random() < 0.8
            bodies = [self.body() for _ in range(self.random.choice((1, 1, 4, 12)))]
            runs.append((self.random.sample(hosts, width), persistent, bodies))
        client.publish(runs)

    def body(self) -> bytes:
        self.number += 1
        length = self.random.choice((12, 12, 200, 200, 2000))
        return (b"%08d/" % self.number).ljust(length, b"%d" % (self.number % 10))

    def consume(self, client: Client, host: ClassicHost) -> None:
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

    def purge(self, client: Client, host: ClassicHost) -> None:
        """Alone in its turn, and with nothing on its way to a client, so that the ledger knows
        what is ready.
        """
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
        assert client.purge_heard == expected

    def fetch_all(self) -> None:
        """Until every client has got what is checked out to it, and nobody wants anything."""
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
        self.disk.crash_in = -1
        durable_lsn = self.node.wal.durable_lsn
        self.disk = self.disk.crash(self.random)
        self.disk.crash_in = self.random.randint(0, 80) if self.random.random() < 0.3 else -1
        try:
            self.boot()
        except Crashed:
            self.disk = self.disk.crash(self.random)
            self.boot()
        self.disk.crash_in = -1
        assert not self.node.report.clean
        self.check(durable_lsn, clean=False)

    def stop_and_start(self) -> None:
        """A stop in good order, and the next start."""
        for client in self.clients:
            client.end()
        self.node.runner.settle()
        self.run_loop()
        self.node.stop()
        self.after_turn()
        durable_lsn = self.node.wal.durable_lsn
        self.disk = self.disk.crash(self.random)
        self.boot()
        assert self.node.report.clean
        self.check(durable_lsn, clean=True)

    def check(self, durable_lsn: int, clean: bool) -> None:
        self.restarts += 1
        self.check_definitions()
        for name in sorted(self.queues):
            host = self.node.broker.hosts[self.queues[name]]
            assert host.machine.next_seq < 4096, "longer than the slack above a mark"
            self.ledger.check(host.uid, self.node.contents(host), durable_lsn, clean)

    def check_definitions(self) -> None:
        """What was answered is so; what was not is one way or the other."""
        found: dict[str, int] = {}
        for name in NAMES:
            queue = self.node.broker.queue("/", name)
            if queue is not None:
                found[name] = queue.uid
        assert set(found.values()) == set(self.node.broker.hosts)
        assert not set(found.values()) & self.deleted, "a deleted queue is back"
        for name in NAMES:
            if "t" in name:
                assert name not in found, f"transient queue {name} is back"
                self.queues.pop(name, None)
            elif name not in self.unanswered:
                assert found.get(name) == self.queues.get(name), f"definition of {name}"
            elif name in found and name not in self.queues:
                assert found[name] not in self.ledger.books
                self.ledger.books[found[name]] = QueueBook()
        self.queues = found
        self.unanswered.clear()

    # The end

    def drain(self) -> None:
        """Take everything out in order; then nothing may be left, on disk or in memory."""
        for client in self.clients:
            client.end()
        self.node.runner.settle()
        self.run_loop()
        client = self.clients[0] = Client(self.node, self.ledger)
        for host in self.hosts():
            client.attach(host, 1 << 20)
        self.fetch_all()
        for host in self.hosts():
            book = self.ledger.books[host.uid]
            left = [message for message in book.messages.values() if not message.settled]
            held = [
                m for (uid, _, _), m in sorted(client.held.items(), key=seq_of) if uid == host.uid
            ]
            assert held == left, "what is delivered is not what is left, in order"
        assert self.node.wal.live_bytes() == self.entry_bytes() + self.journaled_bytes()
        client.settle(list(client.held), ACCEPT)
        self.node.runner.settle()
        assert self.node.wal.live_bytes() == self.entry_bytes()
        assert self.node.budget.used_bytes == 0

    def entry_bytes(self) -> int:
        """What the definitions claim of the log."""
        entries = self.node.wal._ledger.entries.values()
        return sum(entry.byte_count for group in entries for entry in group.values())

    def journaled_bytes(self) -> int:
        return sum(
            slot.chunk.bytes_between(
                slot.index + seq - slot.first, slot.index + seq - slot.first + 1
            )
            for host in self.node.broker.hosts.values()
            for slot in host.store.slots()
            if slot.journaled
            for first, count in host.live_ranges(slot.first, slot.count)
            for seq in range(first, first + count)
        )


def seq_of(item: tuple[tuple[int, int, int], Message]) -> int:
    return item[0][2]
