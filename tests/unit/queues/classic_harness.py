"""One classic queue over a fake log, and one session with it."""

from queues.bodies.extents import data_begin
from queues.machine.commands import (
    Attach,
    Settle,
    consumer_key,
)
from queues.message import Chunk
from tests.unit.queues.fake_log import FakePlace
from tests.unit.queues.fake_node import FakeNode
from tests.unit.queues.fake_sink import FakeSink, Told
from tests.unit.queues.messages import body_of, chunk_of


class Harness:
    """One queue and one session with it."""

    def __init__(
        self, budget_bytes: int = 1 << 30, durable: bool = True, auto_delete: bool = False
    ) -> None:
        self.node = FakeNode(budget_bytes)
        self.host = self.node.queue(5, durable, auto_delete)
        self.sink = FakeSink()
        self.next_seq = 1

    def publish(self, bodies: list[bytes], persistent: bool = True) -> Chunk:
        chunk = chunk_of(bodies, persistent, base=7)
        self.host.publish(self.sink, chunk, self.next_seq)
        self.next_seq += len(bodies)
        return chunk

    def attach(self, number: int, credit: int, exclusive: bool = False) -> None:
        key = consumer_key(self.sink.session, number)
        self.host.command(self.sink, Attach(key, credit, True, exclusive, 0))

    def settle(self, number: int, outcome: int, runs: list[tuple[int, int]]) -> None:
        key = consumer_key(self.sink.session, number)
        self.host.command(self.sink, Settle(key, outcome, runs))

    def turn(self) -> list[Told]:
        """End the turn; what the session received in it."""
        self.node.turn()
        return self.sink.take()

    def sync(self) -> list[Told]:
        self.node.sync()
        return self.sink.take()

    def place_of(self, seq: int) -> tuple[int, int]:
        """File of the log and offset of a message; (0, 0) if it is dead."""
        slot = self.host.core.store.find_live(seq)
        if slot is None:
            return 0, 0
        index = slot.index + seq - slot.first
        return int(slot.chunk.file_id), int(data_begin(slot.chunk, index, False))

    def relocate(
        self, first: int, count: int, target: FakePlace, offsets: bytes
    ) -> list[tuple[int, int]]:
        """The log has copied these messages there from where they are; those that moved."""
        source = self.place_of(first)
        place = (target.file_id, target.offset)
        return self.host.core.relocated(first, count, source, place, offsets)

    def body(self, seq: int) -> bytes:
        """The message, read back if it is not in memory."""
        for _ in range(3):
            view = self.host.view(self.sink, seq, 1)
            if view is not None:
                assert (view.first, view.count) == (seq, 1)
                return body_of(view.chunk, view.index)
            self.node.answer_loads()
        raise AssertionError(f"message {seq} cannot be had")

    def bodies(self) -> dict[int, bytes]:
        """All messages that are in the queue."""
        ranges = self.host.core.live_ranges(1, 10_000)
        return {
            seq: self.body(seq) for first, count in ranges for seq in range(first, first + count)
        }
