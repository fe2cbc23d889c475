"""A queue that takes what it is handed and confirms when the test says so (`QueueHost`)."""

from queues.machine.commands import Command
from queues.message import Chunk
from queues.queue_host import SessionSink, View
from tests.unit.queues.messages import bodies_of


class FakeQueue:
    """`bodies` are the messages in the order of their numbers; `chunks` as they came.

    `stored` is what `view` shows, as (number of its first message, chunk).
    """

    def __init__(self, uid: int, quorum: bool = False, single_active: bool = False) -> None:
        self._uid = uid
        self.quorum = quorum
        self.single_active = single_active
        self.stored: list[tuple[int, Chunk]] = []
        self.bodies: list[bytes] = []
        self.persistent: list[bool] = []
        self.chunks: list[Chunk] = []
        self.commands: list[Command] = []
        self.sinks: list[SessionSink] = []  # of the commands

    @property
    def uid(self) -> int:
        return self._uid

    @property
    def vhost(self) -> str:
        return "/"

    @property
    def name(self) -> str:
        return f"q{self._uid}"

    @property
    def ready_count(self) -> int:
        return len(self.bodies)

    @property
    def checked_out_count(self) -> int:
        return 0

    @property
    def consumer_count(self) -> int:
        return 0

    def publish(self, sink: SessionSink, chunk: Chunk, first_seq: int) -> None:
        assert first_seq == len(self.bodies) + 1
        bodies = bodies_of(chunk)
        self.bodies += bodies
        self.persistent += [chunk.info & 1 == 1] * len(bodies)
        self.chunks.append(chunk)

    def command(self, sink: SessionSink, command: Command) -> None:
        self.commands.append(command)
        self.sinks.append(sink)

    def view(self, sink: SessionSink, first: int, count: int) -> View | None:
        for begin, chunk in self.stored:
            if begin <= first < begin + chunk.count():
                index = first - begin
                return View(chunk, index, first, min(count, chunk.count() - index))
        return None
