"""The publisher and consumer of a simulated primary's queue, and what is known of its messages."""

from queues.machine.commands import ACCEPT, Attach, Settle, consumer_key
from queues.queue_host import QueueHost
from tests.sim.queues.letters import Letter
from tests.sim.queues.node import SimNode
from tests.unit.queues.fake_sink import FakeSink
from tests.unit.queues.messages import chunk_of

CONSUMER = 1
CREDIT = 1 << 20
INITIAL_CREDIT = 4_000


class Truth:
    """What the clients of one queue know, over all restarts of the primary. A message is known by
    its identity, a number that is in its body. `by_number` has the messages of the queue by its
    numbers; those in `undelivered` are or will be in the queue in this order, behind the others."""

    def __init__(self) -> None:
        self.published = 0
        self.confirmed: set[int] = set()
        self.settled: set[int] = set()
        self.by_number: dict[int, int] = {}
        self.undelivered: list[int] = []

    def restarted(self, numbers: list[int]) -> None:
        """The primary has these messages; what it had not synced is lost, the newest ones."""
        self.by_number = {each: self.by_number[each] for each in numbers if each in self.by_number}
        self.undelivered = self.undelivered[: len(numbers) - len(self.by_number)]

    def delivered(self, number: int) -> None:
        if number not in self.by_number:
            self.by_number[number] = self.undelivered.pop(0)

    def live(self, numbers: list[int]) -> set[int]:
        """The messages with these numbers, and those on the way."""
        known = {self.by_number[each] for each in numbers if each in self.by_number}
        return known | set(self.undelivered)


class Load:
    """One session at the primary; it ends with the node."""

    def __init__(self, node: SimNode, host: QueueHost, truth: Truth) -> None:
        session = node.broker.identity.new_session()
        self._sink = FakeSink(initial=INITIAL_CREDIT, session=session)
        self._node = node
        self._host = host
        self._truth = truth
        self._sent: list[int] = []  # identities, in the order of the session's numbers
        self._confirmed = 0
        self.held: list[int] = []  # numbers of the queue
        self._key = consumer_key(self._sink.session, CONSUMER)
        node.turn.begin()
        host.command(self._sink, Attach(self._key, CREDIT, True, False, 0))

    def publish(self, lengths: list[int]) -> None:
        """The queue has no other publisher."""
        truth = self._truth
        made = range(truth.published + 1, truth.published + 1 + len(lengths))
        truth.published += len(lengths)
        bodies: list[bytes] = []
        truth.undelivered += made
        for identity, length in zip(made, lengths, strict=True):
            bodies.append(Letter((b"%d." % identity).ljust(length, b"x"), True).stored())
        self._node.turn.begin()
        self._host.publish(self._sink, chunk_of(bodies), len(self._sent) + 1)
        self._sent += made

    def settle(self, numbers: list[int]) -> None:
        self._truth.settled |= {self._truth.by_number[each] for each in numbers}
        self.held = [each for each in self.held if each not in numbers]
        self._node.turn.begin()
        runs = [(each, 1) for each in sorted(numbers)]
        self._host.command(self._sink, Settle(self._key, ACCEPT, runs))

    def hear(self) -> None:
        """Take in what the queue has told."""
        for told in self._sink.take():
            if told[0] == "delivers":
                first, size = int(str(told[4])), int(str(told[5]))
                for number in range(first, first + size):
                    self._truth.delivered(number)
                    self.held.append(number)
        confirmed = self._sink.confirmed.get(self._host.uid, 0)
        self._truth.confirmed.update(self._sent[self._confirmed : confirmed])
        self._confirmed = confirmed
