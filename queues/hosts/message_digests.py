"""Digests of a value that messages carry in a header, an annotation or an application property.

The queue machine compares messages by these 16 bytes instead of by values of any length and kind.
Values are equal if they are strings, binaries or numbers with the same text.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

from queues.machine.known_ids import DIGEST_BYTES, NO_ID
from queues.message import FORMAT_10, Chunk
from warren.wire.amqp091.properties import headers_of
from warren.wire.amqp10.codec.message import Sections
from warren.wire.amqp10.transfers import payload_at
from warren.wire.errors import ProtocolError

DUPLICATE_IDS: Final = ("_AMQ_DUPL_ID", "x-deduplication-header")
GROUP_IDS: Final = ("JMSXGroupID", "_AMQ_GROUP_ID")
GROUP_ID: Final = 10  # its place in the properties of AMQP 1.0
NO_GROUP: Final = 0


def digests_of(chunk: Chunk, names: Sequence[str]) -> bytes | None:
    """A digest of each message's value of the first of these names that it has, zeros for none;
    None: no message has one. The bytes of the chunk are in memory."""
    data = chunk.data
    assert data is not None
    if not any(name.encode() in data for name in names):
        return None
    digests = [digest_of(chunk, data, index, names) for index in range(chunk.count())]
    return b"".join(digests) if any(digest != NO_ID for digest in digests) else None


def digest_of(chunk: Chunk, data: bytes, index: int, names: Sequence[str]) -> bytes:
    start, end = chunk.span(index)
    tables = (
        _tables_10(data, start, end) if chunk.format_tag == FORMAT_10 else _tables_091(data, start)
    )
    for name in names:
        for table in tables:
            value = table.get(name)
            if isinstance(value, (str, bytes, int)) and value != "" and value != b"":
                text = value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")
                return digest_of_text(text)
    return NO_ID


def digest_of_text(text: bytes) -> bytes:
    return blake2b(text, digest_size=DIGEST_BYTES).digest()


def groups_of(chunk: Chunk) -> bytes | None:
    """A number for the group of each message, i32, NO_GROUP for none; None: no message has one. The
    bytes of the chunk are in memory."""
    data = chunk.data
    assert data is not None
    if chunk.format_tag != FORMAT_10 and not any(name.encode() in data for name in GROUP_IDS):
        return None
    numbers = [group_of(chunk, data, index) for index in range(chunk.count())]
    if not any(numbers):
        return None
    return b"".join([number.to_bytes(4, "little") for number in numbers])


def group_of(chunk: Chunk, data: bytes, index: int) -> int:
    """The number for the group of a message: equal for equal ids, whatever the protocol."""
    start, end = chunk.span(index)
    if chunk.format_tag == FORMAT_10:
        sections = Sections()
        if sections.walk(data, payload_at(data, start), end):
            group = sections.property(data, GROUP_ID)
            if isinstance(group, str) and group:
                return _number_of(digest_of_text(group.encode("utf-8", "replace")))
    return _number_of(digest_of(chunk, data, index, GROUP_IDS))


def _number_of(digest: bytes) -> int:
    """A positive i32, or NO_GROUP for NO_ID."""
    if digest == NO_ID:
        return NO_GROUP
    return int.from_bytes(digest[:4], "little") >> 1 | 1


def _tables_091(data: bytes, start: int) -> list[dict[str, object]]:
    try:
        headers = headers_of(data, start)
    except ProtocolError:
        return []
    return [] if headers is None else [headers]


def _tables_10(data: bytes, start: int, end: int) -> list[dict[str, object]]:
    sections = Sections()
    if not sections.walk(data, payload_at(data, start), end):
        return []
    found = (sections.annotations(data), sections.application_properties(data))
    return [each for each in found if isinstance(each, dict)]
