"""A small machine for a group: messages are published and settled; bodies lie beside the entries.

A command is one part: its kind, then the numbers of messages, 8 bytes each, little-endian. With a
publish come the bodies, `attached` to the entry: the number of the message, then `body_of` it. A
body that is known to be dead may be missing, so each says whose it is.

The machine keeps which messages are alive, and a sum over all that it has applied: two machines
that are equal have applied the same.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from zlib import crc32

from raft.entries import COMMAND, Entry

PUBLISH = b"P"
SETTLE = b"S"
NUMBER_BYTES = 8
BODIES_PER_SLICE = 3


def publish(numbers: Sequence[int]) -> tuple[list[bytes], list[bytes]]:
    """(parts, attached) of an entry that publishes these messages."""
    return [PUBLISH + pack(numbers)], [attached_body(number) for number in numbers]


def settle(numbers: Sequence[int]) -> list[bytes]:
    return [SETTLE + pack(numbers)]


def pack(numbers: Iterable[int]) -> bytes:
    return b"".join([number.to_bytes(NUMBER_BYTES, "little") for number in numbers])


def unpack(content: bytes) -> list[int]:
    starts = range(0, len(content), NUMBER_BYTES)
    return [int.from_bytes(content[at : at + NUMBER_BYTES], "little") for at in starts]


def published(entry: Entry) -> list[int]:
    """The messages that an entry publishes."""
    content = b"".join(entry.parts)
    if entry.kind != COMMAND or content[:1] != PUBLISH:
        return []
    return unpack(content[1:])


def body_of(number: int) -> bytes:
    return b"body of %d" % number


def attached_body(number: int) -> bytes:
    return pack([number]) + body_of(number)


def numbers_of(attached: Iterable[bytes]) -> list[int]:
    """Whose bodies these are; each is what was published."""
    numbers = []
    for content in attached:
        number = unpack(content[:NUMBER_BYTES])[0]
        assert content == attached_body(number), f"the body of {number} is wrong"
        numbers.append(number)
    return numbers


@dataclass(frozen=True, slots=True)
class State:
    """What a machine is after `index`."""

    index: int
    checksum: int
    alive: tuple[int, ...]

    def encode(self) -> bytes:
        return pack([self.index, self.checksum, *self.alive])


EMPTY = State(0, 0, ())


def decode_state(content: bytes) -> State:
    index, checksum, *alive = unpack(content)
    return State(index, checksum, tuple(alive))


class Machine:
    """One member's. `settled` tells which messages an entry has made dead."""

    def __init__(self, state: State = EMPTY) -> None:
        self.index = state.index
        self.checksum = state.checksum
        self.alive = dict.fromkeys(state.alive)

    @property
    def state(self) -> State:
        return State(self.index, self.checksum, tuple(self.alive))

    def apply(self, entry: Entry) -> list[int]:
        """The messages that it settles. Entries come in order and without a hole."""
        assert entry.index == self.index + 1, f"applied {entry.index} after {self.index}"
        self.index = entry.index
        content = b"".join(entry.parts)
        self.checksum = crc32(content + pack([entry.index, entry.term, entry.kind]), self.checksum)
        if entry.kind != COMMAND:
            return []
        numbers = unpack(content[1:])
        if content[:1] == PUBLISH:
            self.alive.update(dict.fromkeys(numbers))
            return []
        assert content[:1] == SETTLE, "not a command of this machine"
        dead = [number for number in numbers if number in self.alive]
        for number in dead:
            del self.alive[number]
        return dead


def slices_of(state: State, bodies: Iterable[int]) -> list[list[bytes]]:
    """A snapshot as a stream: the state in two slices, then the bodies that are still there.

    Which slice has the body of which message is the same each time, however few are left.
    """
    left = set(bodies)
    content = state.encode()
    half = len(content) // 2
    slices = [[content[:half]], [content[half:]]]
    for start in range(0, len(state.alive), BODIES_PER_SLICE):
        numbers = state.alive[start : start + BODIES_PER_SLICE]
        slices.append([framed(attached_body(number)) for number in numbers if number in left])
    return slices


def framed(content: bytes) -> bytes:
    return pack([len(content)]) + content


def unframed(stream: bytes) -> list[bytes]:
    found = []
    while stream:
        end = NUMBER_BYTES + unpack(stream[:NUMBER_BYTES])[0]
        found.append(stream[NUMBER_BYTES:end])
        stream = stream[end:]
    return found


def read_slices(slices: Sequence[Sequence[bytes]]) -> tuple[State, list[int]]:
    """The state, and whose bodies came with it."""
    state = decode_state(b"".join(slices[0]) + b"".join(slices[1]))
    bodies = [number for parts in slices[2:] for number in numbers_of(unframed(b"".join(parts)))]
    return state, bodies
