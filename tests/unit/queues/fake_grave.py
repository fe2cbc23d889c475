"""A dead-letter publisher that writes down what died."""

from queues.message import Chunk
from tests.unit.queues.at_most_once import AtMostOnce
from tests.unit.queues.messages import body_of


class FakeGrave(AtMostOnce):
    """`dead` has bodies and reasons, in order."""

    def __init__(self) -> None:
        self.dead: list[tuple[bytes, str]] = []

    def bury(self, chunk: Chunk, index: int, count: int, reason: str, first: int) -> int:
        self.dead += [(body_of(chunk, at), reason) for at in range(index, index + count)]
        return count

    def close(self) -> None:
        return
