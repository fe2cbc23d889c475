"""What the two ends of a queue in use from another node say to each other, as bytes. No I/O.

Sessions are on one node, the queue on another (0036). A message of the stream between the nodes is
items, one behind the other; integers are little-endian (docs/formats/queue-items.md):

    kind u8, uid u64 of the queue, session: counter u64, incarnation u64, then
    PUBLISH   first_seq u64, format u8, info u32, base u32, names u16, count u32, size u32,
              then the names, count + 1 offsets u32, the first one `base`, and `size` bytes of data
    COMMAND   length u32, a command (queues.machine.commands)
    RESUME    count u32, then so many i64: term, attempt, asked, confirmed
    (queues.machine.consuming.numbered_sessions.Resume),
              and pairs: a consumer, the delivery_seq that it wants next
    MOVED     count u32, so many i64 (queues.remote.moving)
    BODIES    as PUBLISH, with the message_seq of the first message for first_seq; GOT_BODY too
    others    so many i64 as NUMBERS says

The peer is a node of the cluster that has shown that it knows the secret; `BadItem` says that it
speaks another version, or is wrong. Compiled.
"""

from collections.abc import Sequence
from struct import Struct, error
from typing import Final, final

from mypy_extensions import i64

from queues.machine.commands import Command, SessionId, encode
from queues.machine.consuming.numbered_sessions import Resume
from queues.message import FORMAT_091, FORMAT_10, Chunk
from queues.remote.moving import Moved

Buffer = bytes | memoryview

# To the home of the queue
PUBLISH: Final = 1
COMMAND: Final = 2
TAKEN: Final = 3  # bytes of bodies that were looked at: so many more may come
NUMBERED: Final = 4  # term, number, confirmed: of the PUBLISH or COMMAND that is the next item
RESUME: Final = 5  # how does the session stand? (queues.machine.consuming.numbered_sessions)
INSPECT: Final = 6  # term: how many messages and consumers has the queue?
MOVE: Final = 7  # epoch of the view in which it has mirrors: hand the session over

# Back
BODIES: Final = 16
CONFIRMS: Final = 17
REFUSED: Final = 18
DELIVERS: Final = 19
GOT: Final = 20
ATTACHED: Final = 21
ATTACH_REFUSED: Final = 22
DETACHED: Final = 23
ACTIVATED: Final = 24
TIMED_OUT: Final = 25
DRAINED: Final = 26
PURGED: Final = 27
INSPECTED: Final = 28
UNREADABLE: Final = 29
GONE: Final = 30
GRANTED: Final = 31  # so many publishes of the session were taken: internal flow control
COUNTED: Final = 32  # ready, checked out, consumers, for listings; session 0
GOT_BODY: Final = 33  # the message that the GOT behind it names
# Of quorum queues alone
APPLIED: Final = 34  # commands up to this number are in the state
RESUMED: Final = 35  # term, attempt, number of the last command that was applied
RESEND: Final = 36  # a command is missing
NOT_LEADER: Final = 37  # in that term this node does not lead, or no longer
INSPECT_OK: Final = 38  # ready, consumers, as the leader has applied them
CONFIRMS_HELD: Final = 39  # as CONFIRMS, but the credit for them comes with RELEASED
RELEASED: Final = 40  # credit for all that was confirmed
MOVED: Final = 41  # the session is handed over: it is known here no more

NUMBERS: Final = {
    TAKEN: 1,
    NUMBERED: 3,
    INSPECT: 1,
    MOVE: 1,
    CONFIRMS: 1,
    REFUSED: 2,
    DELIVERS: 6,
    GOT: 4,
    ATTACHED: 1,
    ATTACH_REFUSED: 2,
    DETACHED: 2,
    ACTIVATED: 2,
    TIMED_OUT: 2,
    DRAINED: 2,
    PURGED: 1,
    INSPECTED: 2,
    UNREADABLE: 0,
    GONE: 0,
    GRANTED: 1,
    COUNTED: 3,
    APPLIED: 1,
    RESUMED: 3,
    RESEND: 0,
    NOT_LEADER: 1,
    INSPECT_OK: 2,
    CONFIRMS_HELD: 1,
    RELEASED: 0,
}

HEAD: Final = Struct("<BQQQ")
COLUMNS: Final = [Struct(f"<{count}q") for count in range(7)]
RUN: Final = Struct("<QBIIHII")
LENGTH: Final = Struct("<I")
COUNTER_MASK: Final = (1 << 64) - 1
RESUME_HEAD: Final = 4  # numbers before the pairs
MESSAGES_MAX: Final = 1 << 24  # in one run; nothing that a node reads in one go has more


class BadItem(Exception):
    """Bytes that are no item of a kind that this node knows."""


@final
class Item:
    """One item, taken apart: `numbers`, or a chunk and the number of its first message, or a
    command's bytes."""

    __slots__ = ("chunk", "command", "first", "kind", "numbers", "session", "uid")

    def __init__(self, kind: i64, uid: i64, session: SessionId) -> None:
        self.kind: i64 = kind
        self.uid: i64 = uid
        self.session = session
        self.numbers: tuple[int, ...] = ()
        self.chunk: Chunk | None = None
        self.first: i64 = 0
        self.command = b""


def put_head(kind: int, uid: int, session: SessionId) -> bytes:
    return HEAD.pack(kind, uid, session & COUNTER_MASK, session >> 64)


def put_numbers(kind: int, uid: int, session: SessionId, *numbers: int) -> bytes:
    """An item that is numbers alone."""
    assert len(numbers) == NUMBERS[kind]
    return put_head(kind, uid, session) + COLUMNS[len(numbers)].pack(*numbers)


def put_command(uid: int, session: SessionId, command: Command) -> bytes:
    encoded = encode(command)
    return put_head(COMMAND, uid, session) + LENGTH.pack(len(encoded)) + encoded


def put_resume(uid: int, term: int, attempt: int, wanted: Resume) -> bytes:
    numbers = [term, attempt, wanted.asked, wanted.confirmed]
    for number, delivery_seq in wanted.wanted:
        numbers += (number, delivery_seq)
    return _put_list(RESUME, uid, wanted.session, numbers)


def put_moved(uid: int, session: SessionId, moved: Moved) -> bytes:
    return _put_list(MOVED, uid, session, moved.numbers())


def _put_list(kind: int, uid: int, session: SessionId, numbers: list[int]) -> bytes:
    count = LENGTH.pack(len(numbers))
    return put_head(kind, uid, session) + count + Struct(f"<{len(numbers)}q").pack(*numbers)


def resume_in(item: Item) -> tuple[int, int, Resume]:
    """Term and attempt of a RESUME, and what it asks. BadItem: it makes no sense."""
    numbers = item.numbers
    if len(numbers) < RESUME_HEAD or len(numbers) % 2 != 0 or min(numbers) < 0:
        raise BadItem(f"a question about a session in {len(numbers)} numbers")
    term, attempt, asked, confirmed = numbers[:RESUME_HEAD]
    pairs = list(zip(numbers[RESUME_HEAD::2], numbers[RESUME_HEAD + 1 :: 2], strict=True))
    return term, attempt, Resume(item.session, asked, confirmed, pairs)


def put_run(
    kind: int, uid: int, session: SessionId, first: int, chunk: Chunk, index: int, count: int
) -> list[bytes]:
    """Messages index.. of a chunk whose bytes are in memory; the data is a part of its own."""
    data = chunk.data
    assert data is not None
    offsets = chunk.offsets[4 * index : 4 * (index + count + 1)]
    begin, _ = chunk.span(index)
    _, end = chunk.span(index + count - 1)
    head = RUN.pack(
        first,
        chunk.format_tag,
        chunk.info,
        chunk.base + begin,
        len(chunk.names),
        count,
        end - begin,
    )
    whole = begin == 0 and end == len(data)
    return [
        b"".join((put_head(kind, uid, session), head, chunk.names, offsets)),
        data if whole else data[begin:end],
    ]


def take_items(data: Buffer) -> list[Item]:
    """All items of a message; nothing of it is kept but copies of bodies, names and commands.

    BadItem: some of it is none; nothing of it is to be believed.
    """
    items: list[Item] = []
    at = 0
    try:
        while at < len(data):
            at = _take(data, at, items)
    except error:
        raise BadItem(f"an item cut short at byte {at} of {len(data)}") from None
    return items


def _take(data: Buffer, at: int, into: list[Item]) -> int:
    """One item; where the next one begins."""
    kind, uid, counter, incarnation = HEAD.unpack_from(data, at)
    if uid >> 63:
        raise BadItem(f"an item for queue {uid}")
    item = Item(kind, uid, SessionId(incarnation << 64 | counter))
    into.append(item)
    at += HEAD.size
    if kind in (PUBLISH, BODIES, GOT_BODY):
        return _take_run(data, at, item)
    if kind == COMMAND:
        (length,) = LENGTH.unpack_from(data, at)
        at += LENGTH.size
        item.command = _piece(data, at, length)
        return int(at + length)
    if kind in (RESUME, MOVED):
        (length,) = LENGTH.unpack_from(data, at)
        numbers = _piece(data, at + LENGTH.size, 8 * length)
        item.numbers = Struct(f"<{length}q").unpack(numbers)
        return int(at + LENGTH.size + len(numbers))
    wanted = NUMBERS.get(kind)
    if wanted is None:
        raise BadItem(f"an item of kind {kind}")
    layout = COLUMNS[wanted]
    item.numbers = layout.unpack_from(data, at)
    return at + layout.size


def _take_run(data: Buffer, at: int, item: Item) -> int:
    first, format_tag, info, base, names_size, count, size = RUN.unpack_from(data, at)
    if format_tag not in (FORMAT_091, FORMAT_10) or not 0 < count <= MESSAGES_MAX or first >> 63:
        raise BadItem(f"a run of {count} messages of format {format_tag} from {first} on")
    at += RUN.size
    names = _piece(data, at, names_size)
    at += names_size
    offsets = _piece(data, at, 4 * (count + 1))
    at += len(offsets)
    body = _piece(data, at, size)
    _check_offsets(offsets, base, size)
    item.first = first
    item.chunk = Chunk(format_tag, body, base, offsets, info, names)
    return int(at + size)


def _check_offsets(offsets: bytes, base: int, size: int) -> None:
    """They ascend, from the base to the end of the data: no message may reach beyond it."""
    places = memoryview(offsets).cast("I")
    if places[0] != base or places[-1] != base + size:
        raise BadItem("the offsets of a run are not those of its data")
    if not ascends(places):
        raise BadItem("the offsets of a run do not ascend")


def ascends(places: Sequence[int]) -> bool:
    before: i64 = 0
    for place in places:
        if place < before:
            return False
        before = place
    return True


def _piece(data: Buffer, at: int, length: int) -> bytes:
    if at + length > len(data):
        raise BadItem(f"{length} bytes at {at} of {len(data)}")
    return bytes(data[at : at + length])  # Of bytes no second copy is made.
