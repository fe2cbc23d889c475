"""Sender-selected distribution: headers CC and BCC name further routing keys. Compiled.

Both are arrays; texts in them are routing keys and anything else in them is nothing. Another type
than an array is refused. BCC is taken out before a consumer gets the message.

Takes messages in stored form 1 (`warren.wire.amqp091.events`). A headers table that is malformed,
as in data of earlier builds, raises ProtocolError 501.
"""

from typing import Final, final

from mypy_extensions import i64

from queues.definitions.arguments import type_name
from warren.wire.amqp091.events import INFO_HEADERS, Publishes
from warren.wire.amqp091.rewrite import raw_headers, rewrite, value_of, without_keys
from warren.wire.buffer import read_i32_be, read_i32_le

CC: Final = b"CC"
BCC: Final = b"BCC"
CC_ENTRY: Final = b"\x02CC"  # the name as it stands in a table
BCC_ENTRY: Final = b"\x03BCC"
FRAME_OVERHEAD: Final = 8
CONTENT_HEAD: Final = 19  # of the header frame, before the properties


@final
class Copies:
    """What a message says about further routing keys; `fault` is the sentence of a refusal."""

    def __init__(self, keys: tuple[bytes, ...], hidden: bool, fault: str) -> None:
        self.keys = keys
        self.hidden = hidden  # it has a header BCC, which no consumer may see
        self.fault = fault


def may_copy(event: Publishes) -> bool:
    """Whether any message of the event may have CC or BCC: false only if none has."""
    count: i64 = event.count
    runs: i64 = len(event.firsts)
    k: i64 = 0
    while k < runs:
        if i64(event.infos[k]) & INFO_HEADERS != 0:
            index: i64 = event.firsts[k]
            last: i64 = event.firsts[k + 1] if k + 1 < runs else count
            while index < last:
                if may_copy_at(event.data, i64(read_i32_le(event.offsets, 4 * index))):
                    return True
                index += 1
        k += 1
    return False


def may_copy_at(data: bytes, start: i64) -> bool:
    """The same for the message at `start`: whether its header frame has such a name in it."""
    header_at = start + FRAME_OVERHEAD + i64(read_i32_be(data, start + 3))
    header_end = header_at + FRAME_OVERHEAD + i64(read_i32_be(data, header_at + 3))
    if data.find(CC_ENTRY, header_at + CONTENT_HEAD, header_end) >= 0:
        return True
    return data.find(BCC_ENTRY, header_at + CONTENT_HEAD, header_end) >= 0


def copies_of(data: bytes, start: i64) -> Copies:
    """What the message at `start` says."""
    table = raw_headers(data, start)
    keys: list[bytes] = []
    hidden = False
    for name in (CC, BCC):
        found, value = value_of(table, name)
        if not found:
            continue
        if not isinstance(value, list):
            text = f'{{unacceptable_type_in_header,"{name.decode()}",{type_name(value)}}}'
            return Copies((), False, f"invalid message: {text}")
        keys += texts_in(value)
        hidden = hidden or name == BCC
    return Copies(tuple(keys), hidden, "")


def texts_in(values: list[object]) -> list[bytes]:
    """The texts, as bytes."""
    texts: list[bytes] = []
    for value in values:
        if isinstance(value, str):
            texts.append(value.encode("utf-8", "surrogateescape"))
        elif isinstance(value, bytes):
            texts.append(value)
    return texts


def without_hidden(data: bytes, start: i64, end: i64) -> bytes:
    """The message `data[start:end]` without its header BCC."""
    table = without_keys(raw_headers(data, start), (BCC,))
    return rewrite(data, start, end, None, None, table, 0, None)
