"""What an entry of a quorum queue with several members is made of: commands, and bodies beside it.

An entry is version u8 (2), now_ms u64, message_first u64, count u32, and for each command its
length u32 and its bytes (`queues.machine.commands`), little-endian. `message_first` is the
message_seq that
the first message of the entry has: every ENQUEUE takes as many numbers as it has messages, whatever
the machine makes of it, so that bodies can be written under their numbers before it is asked.

Attached to it are runs of messages, each as two parts that are not joined: a head (first
message_seq, form, names and offsets, as the runs of docs/formats/queue-items.md) and the bytes.
Messages that are dead by now are left out. No I/O. Compiled.
"""

from collections.abc import Sequence
from struct import Struct, error
from typing import Final, final

from mypy_extensions import i64

from queues.machine.commands import (
    ACCEPT,
    Command,
    Numbered,
    Settle,
    decode,
    encode,
    enqueue_of,
)
from queues.message import FORMAT_091, FORMAT_10, Chunk
from queues.remote.items import MESSAGES_MAX, RUN, ascends
from raft.entries import COMMAND, Entry

ENTRY_VERSION: Final = 2
ENTRY_HEAD: Final = Struct("<BQQI")
LENGTH: Final = Struct("<I")


@final
class MemberEntry:
    """An entry taken apart."""

    __slots__ = ("commands", "message_first", "now_ms")

    def __init__(self, now_ms: i64, message_first: i64, commands: list[Command]) -> None:
        self.now_ms: i64 = now_ms
        self.message_first: i64 = message_first
        self.commands = commands


def encode_member_entry(now_ms: i64, message_first: i64, commands: list[Command]) -> bytes:
    parts = [ENTRY_HEAD.pack(ENTRY_VERSION, now_ms, message_first, len(commands))]
    for command in commands:
        encoded = encode(command)
        parts.append(LENGTH.pack(len(encoded)))
        parts.append(encoded)
    return b"".join(parts)


def decode_member_entry(content: bytes) -> MemberEntry:
    """BadCommand, ValueError: not an entry that this node knows."""
    if len(content) < ENTRY_HEAD.size:
        raise ValueError("an entry cut short")
    version, now_ms, message_first, count = ENTRY_HEAD.unpack_from(content)
    if version != ENTRY_VERSION:
        raise ValueError(f"an entry of version {version}")
    commands: list[Command] = []
    at: i64 = ENTRY_HEAD.size
    for _ in range(count):
        if at + 4 > len(content):
            raise ValueError("an entry cut short")
        (length,) = LENGTH.unpack_from(content, at)
        size: i64 = length
        at += 4
        commands.append(decode(content[at : at + size]))
        at += size
    if at != len(content):
        raise ValueError("bytes after the last command of an entry")
    return MemberEntry(now_ms, message_first, commands)


def is_acknowledgement(command: Command) -> bool:
    """Whether messages are done with by it, and nothing else comes of it."""
    if isinstance(command, Numbered):
        command = command.command
    return isinstance(command, Settle) and command.outcome == ACCEPT


# Runs of messages


def put_run(first: i64, chunk: Chunk, index: i64, count: i64) -> list[bytes]:
    """Head and bytes of messages index.. of a chunk, which are message_seqs first..; the bytes of
    the chunk are in memory."""
    data = chunk.data
    assert data is not None
    offsets = chunk.offsets[4 * index : 4 * (index + count + 1)]
    begin, _ = chunk.span(index)
    _, end = chunk.span(index + count - 1)
    size: i64 = end - begin
    base: i64 = chunk.base + begin
    head = RUN.pack(first, chunk.format_tag, chunk.info, base, len(chunk.names), count, size)
    if begin > 0 or end < len(data):
        data = data[begin:end]
    return [b"".join((head, chunk.names, offsets)), data]


def take_attached(attached: Sequence[bytes]) -> list[tuple[int, Chunk]]:
    """The runs beside an entry: first message_seq and chunk. ValueError: they are none."""
    if len(attached) % 2 != 0:
        raise ValueError(f"{len(attached)} parts of runs")
    found: list[tuple[int, Chunk]] = []
    place: i64 = 0
    while place < len(attached):
        head = attached[place]
        data = attached[place + 1]
        first, chunk, at, size = _take_head(head, 0)
        if at != len(head) or size != len(data):
            raise ValueError("a run of another length than it says")
        chunk.data = data
        found.append((first, chunk))
        place += 2
    return found


def take_runs(content: bytes, at: i64) -> list[tuple[int, Chunk]]:
    """Runs one behind the other, to the end. ValueError: they are none."""
    found: list[tuple[int, Chunk]] = []
    while at < len(content):
        first, chunk, begin, size = _take_head(content, at)
        at = begin + size
        if at > len(content):
            raise ValueError("a run cut short")
        chunk.data = content[begin : begin + size]
        found.append((first, chunk))
    return found


def _take_head(content: bytes, at: i64) -> tuple[int, Chunk, int, int]:
    """First message_seq, chunk without its bytes, where they begin, how many they are."""
    try:
        first, form, info, base, names_size, count, size = RUN.unpack_from(content, at)
    except error:
        raise ValueError("a run cut short") from None
    if form not in (FORMAT_091, FORMAT_10) or not 0 < count <= MESSAGES_MAX or first >> 63:
        raise ValueError(f"a run of {count} messages of format {form} from {first} on")
    at += RUN.size
    names = content[at : at + names_size]
    at += names_size
    offsets = content[at : at + 4 * (count + 1)]
    at += 4 * (count + 1)
    if at > len(content):
        raise ValueError("a run cut short")
    places = memoryview(offsets).cast("I")
    if places[0] != base or places[-1] != base + size or not ascends(places):
        raise ValueError("the offsets of a run are not those of its data")
    return first, Chunk(form, None, base, offsets, info, names), int(at), size


def cut_of(chunk: Chunk, index: i64, count: i64) -> Chunk:
    """A chunk of messages index.. alone; the bytes are in memory."""
    if index == 0 and count == chunk.count():
        return chunk
    data = chunk.data
    assert data is not None
    begin, _ = chunk.span(index)
    _, end = chunk.span(index + count - 1)
    offsets = chunk.offsets[4 * index : 4 * (index + count + 1)]
    return Chunk(
        chunk.format_tag, data[begin:end], chunk.base + begin, offsets, chunk.info, chunk.names
    )


def range_of(entry: Entry) -> tuple[int, int]:
    """The numbers that the messages of an entry have: first, end."""
    if entry.kind != COMMAND:
        return 1, 1
    content = entry.parts[0] if len(entry.parts) == 1 else b"".join(entry.parts)
    decoded = decode_member_entry(content)
    end = decoded.message_first
    for command in decoded.commands:
        enqueue = enqueue_of(command)
        if enqueue is not None:
            end += enqueue.count
    return decoded.message_first, end
