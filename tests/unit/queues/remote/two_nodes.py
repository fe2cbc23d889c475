"""A queue on one node and sessions on another, with a stream between them that may be held up."""

from queues.machine.commands import Attach, Command, Settle, consumer_key
from queues.queue_host import QueueHost
from queues.remote.home import SessionStubs, no_end
from queues.remote.moving import Movers
from queues.remote.proxy import Proxies, Proxy, Roams
from queues.remote.remote_interfaces import Ending, FindEnd
from queues.sessions.credit import CreditSpec
from tests.unit.queues.fake_node import FakeNode
from tests.unit.queues.fake_sink import FakeSink, Told
from tests.unit.queues.messages import body_of, chunk_of

UID = 5


class Ends:
    """Who ends the turn of what was marked (`queues.remote.remote_interfaces.EndOfTurn`)."""

    def __init__(self) -> None:
        self.marked: list[Ending] = []

    def mark_away(self, ending: Ending) -> None:
        self.marked.append(ending)

    def run(self) -> None:
        while self.marked:
            marked, self.marked = self.marked, []
            for each in marked:
                each.end_turn()


class TwoNodes:
    """`turn` lets everything pass that is under way, until nothing is."""

    def __init__(
        self,
        budget_bytes: int = 1 << 30,
        log_credit: int = 4000,
        roams: Roams | None = None,
        find_end: FindEnd = no_end,
        movers: Movers | None = None,
    ) -> None:
        self.ends = Ends()
        self.home = FakeNode(budget_bytes, log_credit)
        self.hosts: dict[int, QueueHost] = {UID: self.home.queue(UID)}
        self.up: list[bytes] = []
        self.down: list[bytes] = []
        self.stubs = SessionStubs(
            self.hosts.get, lambda p: self.down.append(b"".join(p)), self.ends, find_end, movers
        )
        self.proxies = Proxies(lambda parts: self.up.append(b"".join(parts)), self.ends, 2, roams)
        spec = CreditSpec(400, 200)
        self.proxy = Proxy(UID, "/", "q5", False, False, spec, self.proxies)
        self.proxies.add(self.proxy)
        self.sink = FakeSink()
        self.next_seq = 1

    def publish(self, bodies: list[bytes], sink: FakeSink | None = None) -> None:
        self.proxy.publish(sink or self.sink, chunk_of(bodies, base=7), self.next_seq)
        self.next_seq += len(bodies)

    def command(self, command: Command) -> None:
        self.proxy.command(self.sink, command)

    def attach(self, number: int, credit: int) -> None:
        key = consumer_key(self.sink.session, number)
        self.command(Attach(key, credit, True, False, 0))

    def settle(self, number: int, outcome: int, runs: list[tuple[int, int]]) -> None:
        self.command(Settle(consumer_key(self.sink.session, number), outcome, runs))

    def pass_up(self) -> None:
        """What the sessions have handed down reaches the home, which steps its queues."""
        self.ends.run()
        up, self.up = self.up, []
        for message in up:
            self.stubs.received(memoryview(message))  # As large ones come.
        self.home.turn()
        self.ends.run()

    def pass_down(self) -> None:
        down, self.down = self.down, []
        for message in down:
            self.proxies.received(message)

    def turn(self) -> list[Told]:
        """What the session received."""
        self.pass_up()
        while self.up or self.down or self.ends.marked:
            self.pass_down()
            self.pass_up()
        return self.sink.take()

    def sync(self) -> list[Told]:
        self.home.sync()
        return self.turn()

    def body(self, seq: int) -> bytes | None:
        """The message as the session sees it, or None if it has to wait."""
        view = self.proxy.view(self.sink, seq, 1)
        return None if view is None else body_of(view.chunk, view.index)
