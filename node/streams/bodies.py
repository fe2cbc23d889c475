"""Messages of the stream protocol as Warren stores them, and back.

A body is mostly an AMQP 1.0 message and is stored as it came. Other bytes are stored as a data
section with an annotation, so that consumers of other protocols can read them; subscribers of the
stream protocol get the bytes that were published. Compiled, hot.
"""

from typing import Final

from mypy_extensions import i32, i64

from node.amqp10.forms import converted, data_section_head
from queues.conversion.annotated import annotated_form_10
from queues.message import FORMAT_10, Chunk
from queues.streams.filtering import KEY_BYTES
from warren.wire.amqp091.deliver import names_in
from warren.wire.amqp10.codec.message import Sections
from warren.wire.amqp10.codec.values import Symbol
from warren.wire.amqp10.codec.writer import write_value
from warren.wire.amqp10.transfers import is_unannotated, payload_at, store
from warren.wire.buffer import BytesWriter, read_i32_le, write_i32_be
from warren.wire.inplace import copy

RAW_KEY: Final = "x-stream-raw"
RAW_BYTES: Final = RAW_KEY.encode()
TRUE: Final = b"\x41"
SHORT_BINARY: Final = 0xA0
DESCRIPTOR_BYTES: Final = 3


def stored_form(body: bytes, filter_value: str, sections: Sections) -> bytes:
    """Return the body in stored form 2; `sections` is used for the check."""
    notes: dict[bytes, bytes] = {}
    if not sections.walk(body, 0, len(body)):
        notes[RAW_BYTES] = TRUE
        body = data_section_head(len(body)) + body
    if filter_value:
        writer = BytesWriter()
        write_value(writer, filter_value)
        notes[KEY_BYTES] = writer.getvalue()
    message = store(body)
    return annotated_form_10(message, notes) if notes else message


def put_entries(writer: BytesWriter, chunk: Chunk, index: i64, count: i64, bytes_max: i64) -> int:
    """Append messages as a chunk for subscribers has them, each with a length i32, until the writer
    has `bytes_max`; return how many, at least one."""
    data = chunk.data
    assert data is not None
    offsets = chunk.offsets
    base: i64 = chunk.base
    start = i64(read_i32_le(offsets, 4 * index)) - base
    last = start + max(bytes_max - i64(len(writer)), 0)
    place = index
    stop = index + count
    end = start
    while place < stop and (end < last or place == index):
        place += 1
        end = i64(read_i32_le(offsets, 4 * place)) - base
    is_stored_10 = chunk.format_tag == FORMAT_10
    while index < place:
        end = i64(read_i32_le(offsets, 4 * index + 4)) - base
        begin = payload_at(data, start) if is_stored_10 else start
        if is_stored_10 and (
            is_unannotated(data, begin, end) or data.find(RAW_BYTES, begin, end) < 0
        ):
            write_i32_be(writer, i32(end - begin))
            copy(writer, data, begin, end)
        else:
            body = body_of(chunk, int(index))
            write_i32_be(writer, i32(len(body)))
            writer.write(body)
        start = end
        index += 1
    return int(count - (stop - place))


def body_of(chunk: Chunk, index: int) -> bytes:
    """Return a message of a chunk as a subscriber gets it."""
    data = chunk.data
    assert data is not None
    start, end = chunk.span(index)
    if chunk.format_tag != FORMAT_10:
        exchange, routing_key = names_in(data, start)
        return converted(data, start, end, exchange, routing_key)
    body = data[payload_at(data, start) : end]
    return body if RAW_BYTES not in body else _unwrapped(body)


def _unwrapped(body: bytes) -> bytes:
    sections = Sections()
    if not sections.walk(body, 0, len(body)):
        return body
    annotations = sections.annotations(body)
    if not isinstance(annotations, dict) or annotations.get(Symbol(RAW_KEY)) is not True:
        return body
    kind_at = int(sections.body_at) + DESCRIPTOR_BYTES
    if sections.body_data(body) is None or kind_at >= sections.footer_at:
        return body
    head = 2 if body[kind_at] == SHORT_BINARY else 5
    return body[kind_at + head : int(sections.footer_at)]
