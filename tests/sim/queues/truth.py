"""What must be true of a node after a crash at one moment: its definitions and its messages.

A copy of it is as cheap as the messages of the last life of the node are few, so that one can be
kept for each moment of a run and checked against any number of crashes at that moment.
"""

from queues.hosts.queue_core import QueueCore
from tests.sim.queues.kinds import KINDS
from tests.sim.queues.ledger import Found, Ledger
from tests.sim.queues.node import SimNode

START_MS = 1_000_000


class Truth:
    """Of the queues of one world; `names` are those that it may declare."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.ledger = Ledger()
        self.queues: dict[str, int] = {}  # name -> uid, as answered
        self.unanswered: set[str] = set()  # declared or deleted, with unknown outcome
        self.deleted: set[int] = set()  # uids, as answered
        self.number = 0  # of messages so far
        self.now_ms = START_MS
        self.durable_lsn = 0

    def copy(self) -> "Truth":
        twin = Truth(self.names)
        twin.ledger = self.ledger.copy(self.deleted)
        twin.queues = dict(self.queues)
        twin.unanswered = set(self.unanswered)
        twin.deleted = set(self.deleted)
        twin.number = self.number
        twin.now_ms = self.now_ms
        twin.durable_lsn = self.durable_lsn
        return twin

    def found(self, node: SimNode) -> dict[str, int]:
        """The queues that there are."""
        found: dict[str, int] = {}
        for name in self.names:
            queue = node.broker.definitions.queue("/", name)
            if queue is not None:
                found[name] = queue.uid
        return found

    def check(self, node: SimNode, clean: bool) -> None:
        """What the node has found, before it does anything; it is the truth from now on."""
        contents: Found = {}
        for name, uid in self.found(node).items():
            # Its declaration is not answered yet.
            if KINDS[name].durable and uid not in self.ledger.books:
                self.ledger.declare(uid, KINDS[name])
            host = node.broker.queues.hosts.awake.get(uid)
            if KINDS[name].durable and host is None:
                contents[uid] = {}
            elif KINDS[name].durable and host is not None:
                assert host.machine.next_seq < 4096, "longer than the slack above a mark"
                contents[uid] = node.contents(host)
                self._check_limits(name, node, host)
        self.ledger.check(contents, self.durable_lsn, clean)

    def _check_limits(self, name: str, node: SimNode, core: QueueCore) -> None:
        """Lazy queues begin with nothing in memory; so do all others."""
        assert node.budget.used_bytes == 0
        assert not core.quorum

    def check_flags(self, node: SimNode) -> None:
        """What a client has had before will come with the flag."""
        for name, uid in self.found(node).items():
            host = node.broker.queues.hosts[uid]
            book = self.ledger.books[uid]
            for first, count in host.core.machine.ready.within(1, host.core.machine.next_seq - 1):
                for seq in range(first, first + count):
                    seen = seq in book.by_seq and book.by_seq[seq].seen
                    flagged = host.core.machine.redelivered.contains(seq)
                    assert flagged or not seen, f"{name}/{seq} has lost its redelivered flag"

    def check_definitions(self, node: SimNode) -> None:
        """What was answered is so; what was not is one way or the other."""
        found = self.found(node)
        assert set(node.broker.queues.hosts.awake) <= set(found.values())
        assert not set(found.values()) & self.deleted, "a deleted queue is back"
        for name in self.names:
            if not KINDS[name].durable:
                assert name not in found, f"transient queue {name} is back"
                self.queues.pop(name, None)
            elif name not in self.unanswered:
                assert found.get(name) == self.queues.get(name), f"definition of {name}"
        self.queues = found
        self.unanswered.clear()
