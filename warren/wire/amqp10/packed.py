"""Runs of messages of a stream in one delivery, for a reader that takes messages apart in runs.

A delivery is a message of AMQP 1.0 whose body is one data section of 32-bit length. It has runs of
messages, one behind the other, all numbers little-endian: offset of the first message u64, count
u32, length of the names u32, the names (exchange and routing key as short strings; none, where the
messages say them), count + 1 positions u32, and the messages in stored form 2 (`transfers`), of
which message `i` is at positions[i] - positions[0]. `rows` reads them. No I/O.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final

from warren.wire.amqp10.codec.values import Symbol
from warren.wire.amqp10.transfers import BARE_BYTES, BARE_HEAD

RUN: Final = Struct("<QII")
HEAD: Final = Struct(">IQ")  # of stored form 2
PACKED_FILTER: Final = Symbol("warren:packed")  # in the filter set of a source
DATA_HEAD: Final = b"\x00\x53\x75\xb0"


def pack_run(
    first: int, names: bytes, data: bytes, base: int, offsets: bytes, index: int, count: int
) -> list[bytes]:
    """The parts of one run: messages index.. of a chunk (`sender.Run.put`)."""
    positions = offsets[4 * index : 4 * (index + count + 1)]
    begin = int.from_bytes(positions[:4], "little") - base
    end = int.from_bytes(positions[-4:], "little") - base
    if begin > 0 or end < len(data):
        data = data[begin:end]
    return [RUN.pack(first, count, len(names)), names, positions, data]


def pack(runs: Sequence[bytes]) -> bytes:
    """A message in stored form 2 that has these parts of runs."""
    size = sum(map(len, runs))
    section = DATA_HEAD + size.to_bytes(4)
    head = HEAD.pack(BARE_BYTES + len(section) + size, BARE_HEAD)
    return b"".join((head, section, *runs))


def route_annotations(names: bytes) -> dict[str, object]:
    """What a delivery tells of its way: exchange and routing key, as a chunk has them."""
    if len(names) == 0:
        return {}
    length = names[0]
    exchange = names[1 : 1 + length].decode("utf-8", "replace")
    routing_key = names[2 + length :].decode("utf-8", "replace")
    return {"x-exchange": exchange, "x-routing-key": routing_key}
