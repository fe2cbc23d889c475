"""Chunks and publish events made of plain bodies. The machine and its hosts never look inside."""

from queues.message import FORMAT_091, Chunk
from warren.wire.amqp091.events import INFO_PERSISTENT, Publishes


def table(bodies: list[bytes], base: int) -> bytes:
    """The offsets of the bodies, the first one at `base`."""
    places = [base]
    for body in bodies:
        places.append(places[-1] + len(body))
    return b"".join(place.to_bytes(4, "little") for place in places)


def chunk_of(bodies: list[bytes], persistent: bool = True, base: int = 0) -> Chunk:
    """A chunk as a publisher makes it; its offsets begin at `base`."""
    info = INFO_PERSISTENT if persistent else 0
    return Chunk(FORMAT_091, b"".join(bodies), base, table(bodies, base), info)


def bodies_of(chunk: Chunk) -> list[bytes]:
    """All messages of a chunk that is in memory."""
    return [body_of(chunk, index) for index in range(chunk.count())]


def body_of(chunk: Chunk, index: int) -> bytes:
    assert chunk.data is not None
    start, end = chunk.span(index)
    return chunk.data[start:end]


def event_of(runs: list[tuple[bytes, bool, list[bytes]]]) -> Publishes:
    """A publish event of runs (key, persistent, bodies)."""
    firsts: list[int] = []
    bodies: list[bytes] = []
    for _, _, each in runs:
        firsts.append(len(bodies))
        bodies += each
    infos = [INFO_PERSISTENT if persistent else 0 for _, persistent, _ in runs]
    keys = [key for key, _, _ in runs]
    return Publishes(1, b"".join(bodies), table(bodies, 0), firsts, keys, infos)
