"""A delivered content as the basic.publish of a federation link. Compiled.

One entry is added to the headers; the properties are passed on byte for byte. What needs a look at
the properties is left to the caller.
"""

from typing import Final

from mypy_extensions import i64

from warren.wire.amqp091.deliver import body_bytes, build
from warren.wire.amqp091.scanner import FRAME_OVERHEAD
from warren.wire.buffer import read_i32_be

CONTENT_TYPE: Final = 0x80  # bits of the first octet of the property flags
CONTENT_ENCODING: Final = 0x40
HEADERS: Final = 0x20
USER_ID: Final = 0x10  # bits of the second octet
MORE_FLAGS: Final = 0x01


def with_entry(properties: bytes, entry: bytes) -> bytes:
    """Properties, encoded, with one more entry of a table in their headers."""
    flags: i64 = properties[0]
    at: i64 = 2
    if flags & CONTENT_TYPE:
        at += 1 + properties[at]
    if flags & CONTENT_ENCODING:
        at += 1 + properties[at]
    size: i64 = len(entry)
    if flags & HEADERS:
        size += i64(read_i32_be(properties, at))
        return b"".join(
            (properties[:at], int(size).to_bytes(4, "big"), entry, properties[at + 4 :])
        )
    first = flags | HEADERS
    return b"".join(
        (
            int(first).to_bytes(1, "big"),
            properties[1:at],
            int(size).to_bytes(4, "big"),
            entry,
            properties[at:],
        )
    )


def forwarded(
    data: bytes,
    exchange: str,
    key: bytes | None,
    entry: bytes,
    redelivered_entry: bytes,
    known: bytes,
    passes_user_id: bool,
    bits: i64,
) -> bytes | None:
    """The content, which begins with basic.deliver, in stored form 1, with the entry that its
    redelivered flag chooses. `key` None: its own routing key. None: its properties have `known` in
    them, or a user-id that must not pass, or further flags.
    """
    header_at = FRAME_OVERHEAD + i64(read_i32_be(data, 3))
    header_end = header_at + 7 + i64(read_i32_be(data, header_at + 3))
    properties = data[header_at + 19 : header_end]
    second: i64 = properties[1]
    if second & MORE_FLAGS or (second & USER_ID and not passes_user_id) or known in properties:
        return None
    flag_at = 20 + i64(data[11])  # behind consumer tag and delivery tag
    exchange_end = flag_at + 2 + i64(data[flag_at + 1])
    if key is None:
        key = data[exchange_end + 1 : exchange_end + 1 + i64(data[exchange_end])]
    added = redelivered_entry if data[flag_at] != 0 else entry
    return build(
        exchange, key, with_entry(properties, added), body_bytes(data, 0, len(data)), bits=bits
    )
