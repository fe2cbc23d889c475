"""Messages of a stream or queue taken apart for columns, by runs and without an object for each.
Compiled.

    rows = StreamRows(body_of)       # for messages whose body is not one data section
    rows.add_packed(run, end)        # runs of a stream in each message (`packed`), or
    rows.add(run, end)               # messages that say their offsets; those from `end` on are left
    rows.add_plain(run)              # messages of a queue, without offsets
    rows.count, rows.is_complete, rows.offsets, rows.bodies, rows.properties.places, ...

Messages of one publisher have the same annotations, and often the same properties. So each section
is kept once, as a sample, and each message has the place of its sample: what is made of a sample is
made once. A message that is as the one before, up to its body, is not looked at again. The offset
is among the annotations, and not part of the sample's identity.
"""

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i32, i64

from warren.wire.amqp10.codec import codes
from warren.wire.amqp10.codec.descriptors import MESSAGE_ANNOTATIONS
from warren.wire.amqp10.codec.message import Sections, list_span
from warren.wire.amqp10.codec.reader import Reader, value_end
from warren.wire.amqp10.codec.values import Described, Pairs
from warren.wire.amqp10.codec.writer import write_ulong, write_value
from warren.wire.amqp10.packed import DATA_HEAD, route_annotations
from warren.wire.amqp10.transfers import Transfers, payload_at
from warren.wire.buffer import (
    BytesWriter,
    read_i32_le,
    read_i64_be,
    read_i64_le,
    write_i32_le,
    write_i64_le,
)
from warren.wire.inplace import begins_with

OFFSET: Final = b"\xa3\x0fx-stream-offset"  # as the broker writes the key
NAME_AT: Final = 3  # of the map in a section with a short descriptor
RUN_BYTES: Final = 16  # `packed.RUN`
KEPT_BYTES_MAX: Final = 4 << 20  # of bodies, whose memory is used again


class NotOfStream(ValueError):
    """A message has no offset, so it did not come from a stream of this broker."""


@final
class Samples:
    """One section of all messages: `samples[places[n]]` are the bytes of message n's; `places` are
    i32, little-endian."""

    def __init__(self) -> None:
        self.places = BytesWriter()
        self.samples: list[bytes] = []
        self._known: dict[bytes, int] = {}
        self._last: i32 = 0

    def find(self, identity: bytes) -> bool:
        """Add the sample of that identity; False: it is not known."""
        place = self._known.get(identity)
        if place is None:
            return False
        self._last = place
        write_i32_le(self.places, self._last)
        return True

    def add(self, identity: bytes, sample: bytes) -> None:
        if not self.find(identity):
            self._known[identity] = len(self.samples)
            self.samples.append(sample)
            self.find(identity)

    def repeat(self) -> None:
        """Add the last one again."""
        write_i32_le(self.places, self._last)


@final
class StreamRows:
    """Invariant: `bodies` and the places of all samples have an entry for each message, in their
    order; `offsets` too, or it is empty."""

    def __init__(
        self, body_of: Callable[[bytes], bytes], before: "StreamRows | None" = None
    ) -> None:
        """`body_of`: makes the bytes of a body that is not one data section, of a whole message.
        `before`: rows that are done with, whose memory is used again, unless it is large."""
        self.count: i64 = 0
        self.is_complete = False  # the message before `end`, or one behind it, has come
        self.runs: list[tuple[int, int]] = []  # offsets: the first, and how many count up from it
        self.offsets = BytesWriter()  # i64 little-endian
        self.bodies = BytesWriter()  # one behind the other
        if before is not None and before.size <= KEPT_BYTES_MAX:
            self.bodies = before.bodies
            self.bodies.truncate(0)
        self.body_ends = BytesWriter()  # i32 little-endian, 0 first
        self.header = Samples()
        self.annotations = Samples()
        self.properties = Samples()
        self.application_properties = Samples()
        self.size: i64 = 0  # bytes of the bodies
        self._body_of = body_of
        self._sections = Sections()
        self._names = b""  # of the run
        self._known = b""  # all before the body of the last message; empty: do not compare
        self._known_body: i64 = 0  # bytes
        write_i32_le(self.body_ends, 0)

    def add(self, run: Transfers, end: i64) -> None:
        """Take messages up to the offset `end`, exclusively. NotOfStream."""
        data, offsets = run.data, run.offsets
        place: i64 = 0
        while place < run.count and not self.is_complete:
            start = payload_at(data, i64(read_i32_le(offsets, 4 * place)))
            stop = i64(read_i32_le(offsets, 4 * place + 4))
            self._take_marked(data, start, stop, end)
            place += 1

    def add_plain(self, run: Transfers) -> None:
        """Take all messages, without offsets. NotOfStream."""
        data, offsets = run.data, run.offsets
        place: i64 = 0
        while place < run.count:
            start = payload_at(data, i64(read_i32_le(offsets, 4 * place)))
            self._take(data, start, i64(read_i32_le(offsets, 4 * place + 4)))
            place += 1

    def add_packed(self, run: Transfers, end: i64) -> None:
        """Take messages from `begin` up to the offset `end`, exclusively. NotOfStream."""
        data, offsets = run.data, run.offsets
        place: i64 = 0
        while place < run.count and not self.is_complete:
            at = payload_at(data, i64(read_i32_le(offsets, 4 * place)))
            stop = i64(read_i32_le(offsets, 4 * place + 4))
            if not begins_with(data, at, stop, DATA_HEAD):
                raise NotOfStream("a delivery has no runs of messages")
            at += 8
            while at < stop and not self.is_complete:
                at = self._take_run(data, at, stop, end)
            place += 1

    def _take_run(self, data: bytes, at: i64, stop: i64, end: i64) -> i64:
        """Where the next run begins."""
        if stop - at < RUN_BYTES:
            raise NotOfStream("a run of messages is cut short")
        offset = read_i64_le(data, at)
        count = i64(read_i32_le(data, at + 8))
        names_bytes = i64(read_i32_le(data, at + 12))
        positions = at + RUN_BYTES + names_bytes
        begin = positions + 4 * (count + 1)
        if count <= 0 or names_bytes < 0 or begin > stop:
            raise NotOfStream("a run of messages is cut short")
        self._set_names(data[at + RUN_BYTES : positions])
        base = begin - i64(read_i32_le(data, positions))
        behind = base + i64(read_i32_le(data, positions + 4 * count))
        if behind > stop:
            raise NotOfStream("a run of messages is cut short")
        taken = min(count, end - offset)
        place: i64 = 0
        while place < taken:
            start = base + i64(read_i32_le(data, positions + 4 * place))
            last = base + i64(read_i32_le(data, positions + 4 * place + 4))
            self._take(data, payload_at(data, start), last)
            write_i64_le(self.offsets, offset + place)
            place += 1
        if taken > 0:
            self._add_offsets(offset, taken)
        self.is_complete = offset + count >= end
        return behind

    def _set_names(self, names: bytes) -> None:
        if names != self._names:
            self._names = names
            self._known = b""

    def _add_offsets(self, first: i64, count: i64) -> None:
        if len(self.runs) > 0:
            begin, before = self.runs[-1]
            if begin + before == first:
                self.runs[-1] = (begin, before + int(count))
                return
        self.runs.append((int(first), int(count)))

    def _take_marked(self, data: bytes, start: i64, stop: i64, end: i64) -> None:
        """One message with its offset among the annotations."""
        sections = self._walked(data, start, stop)
        first, last = sections.message_annotations_at, sections.bare_at
        at = offset_at(data, first, last)
        if at < 0:
            raise NotOfStream("a message has no annotation x-stream-offset")
        offset = number_at(data, at)
        self.is_complete = offset >= end - 1
        if offset >= end:
            return
        write_i64_le(self.offsets, offset)
        self._add_offsets(offset, 1)
        identity = data[first:at] + data[value_end(data, at, last) : last]
        self.annotations.add(identity, data[first:last])
        self._take_others(data, start, stop)

    def _take(self, data: bytes, start: i64, stop: i64) -> None:
        """One message, its offset aside."""
        known: i64 = len(self._known)
        if (
            known > 0
            and stop - start == known + self._known_body
            and begins_with(data, start, stop, self._known)
        ):
            self.header.repeat()
            self.annotations.repeat()
            self.properties.repeat()
            self.application_properties.repeat()
            self._add_body(data[start + known : stop])
            return
        sections = self._walked(data, start, stop)
        sample = data[sections.message_annotations_at : sections.bare_at]
        if len(self._names) > 0:
            names = self._names
            identity = len(names).to_bytes(2, "big") + names + sample
            if not self.annotations.find(identity):
                self.annotations.add(identity, routed(names, sample))
        else:
            self.annotations.add(sample, sample)
        self._take_others(data, start, stop)

    def _walked(self, data: bytes, start: i64, stop: i64) -> Sections:
        if not self._sections.walk(data, start, stop):
            raise NotOfStream("a message cannot be decoded")
        return self._sections

    def _take_others(self, data: bytes, start: i64, stop: i64) -> None:
        """All but the annotations of the message that was walked through."""
        sections = self._sections
        header = data[sections.header_at : sections.delivery_annotations_at]
        self.header.add(header, header)
        properties = data[sections.bare_at : sections.application_properties_at]
        self.properties.add(properties, properties)
        named = data[sections.application_properties_at : sections.body_at]
        self.application_properties.add(named, named)
        at = sections.body_at
        footer = sections.footer_at
        if footer - at >= 5 and data[at] == 0 and data[at + 1] == 0x53 and data[at + 2] == 0x75:
            code: i64 = data[at + 3]
            begin: i64 = -1
            if code == codes.BINARY_8:
                begin = at + 5
            elif code == codes.BINARY and footer - at >= 8:
                begin = at + 8
            if begin >= 0 and value_end(data, at + 3, footer) == footer:
                self._add_body(data[begin:footer])
                self._known = data[start:begin] if footer == stop else b""
                self._known_body = footer - begin
                return
        self._known = b""
        self._add_body(self._body_of(data[start:stop]))

    def _add_body(self, body: bytes) -> None:
        self.bodies.write(body)
        self.size += len(body)
        write_i32_le(self.body_ends, i32(self.size))
        self.count += 1


def routed(names: bytes, section: bytes) -> bytes:
    """A section of annotations with exchange and routing key."""
    annotations: dict[object, object] = {}
    if len(section) > 0:
        found = Reader(section, 0, len(section)).value()
        value = found.value if isinstance(found, Described) else None
        if isinstance(value, dict):
            annotations.update(value)
        elif isinstance(value, Pairs):
            annotations.update({key: each for key, each in value if isinstance(key, str)})
    annotations.update(route_annotations(names))
    writer = BytesWriter()
    writer.append(0)
    write_ulong(writer, MESSAGE_ANNOTATIONS)
    write_value(writer, annotations)
    return writer.getvalue()


def offset_at(data: bytes, start: i64, end: i64) -> i64:
    """Where the value of x-stream-offset begins in a section of annotations; -1: it has none."""
    if end - start < 4 or data[start + 1] != 0x53:
        return -1
    at, inside_end, count = list_span(data, start + NAME_AT, end, codes.MAP)
    while at >= 0 and count >= 2:
        value = value_end(data, at, inside_end)
        if value - at == len(OFFSET) and data[at:value] == OFFSET:
            return value if number_at(data, value) >= 0 else -1
        at = value_end(data, value, inside_end)
        count -= 2
    return -1


def number_at(data: bytes, at: i64) -> i64:
    """The ulong at `at`; -1: there is another value."""
    code: i64 = data[at]
    if code == codes.ULONG_8:
        return i64(data[at + 1])
    if code == codes.ULONG:
        return read_i64_be(data, at + 1)
    return 0 if code == codes.ULONG_0 else -1
