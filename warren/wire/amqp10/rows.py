"""Messages of a stream or queue taken apart for columns, by runs and without an object for each.
Compiled.

    rows = StreamRows()              # StreamRows(False): messages of a queue have no offsets
    taken = rows.add(run, end)       # of the run; those from offset `end` on are left out
    rows.offsets, rows.bodies, rows.properties.places, rows.properties.samples, ...

Messages of one publisher have the same annotations, and often the same properties. So each section
is kept once, as a sample, and each message has the place of its sample: what is made of a sample is
made once. The offset is among the annotations, and not part of the sample's identity.
"""

from typing import Final, final

from mypy_extensions import i64

from warren.wire.amqp10 import codes
from warren.wire.amqp10.message import Sections, list_span
from warren.wire.amqp10.reader import value_end
from warren.wire.amqp10.transfers import Transfers, payload_at
from warren.wire.buffer import read_i32_le, read_i64_be

OFFSET: Final = b"\xa3\x0fx-stream-offset"  # as the broker writes the key
NAME_AT: Final = 3  # of the map in a section with a short descriptor


class NotOfStream(ValueError):
    """A message has no offset, so it did not come from a stream of this broker."""


@final
class Samples:
    """One section of all messages: `samples[places[n]]` are the bytes of message n's."""

    def __init__(self) -> None:
        self.places: list[int] = []
        self.samples: list[bytes] = []
        self._known: dict[bytes, int] = {}

    def add(self, identity: bytes, sample: bytes) -> None:
        place = self._known.get(identity)
        if place is None:
            place = len(self.samples)
            self._known[identity] = place
            self.samples.append(sample)
        self.places.append(place)


@final
class StreamRows:
    """Invariant: all lists have an entry for each message, in the order of the stream; `offsets`
    is empty without `has_offsets`.

    `odd` has the whole message, by its place, where the body is not one data section: then the
    entry in `bodies` is empty.
    """

    def __init__(self, has_offsets: bool = True) -> None:
        self.has_offsets = has_offsets
        self.offsets: list[int] = []
        self.bodies: list[bytes] = []
        self.odd: dict[int, bytes] = {}
        self.header = Samples()
        self.annotations = Samples()
        self.properties = Samples()
        self.application_properties = Samples()
        self.size: i64 = 0  # bytes of the bodies
        self._sections = Sections()

    def add(self, run: Transfers, end: i64) -> i64:
        """Take messages up to the offset `end`, exclusively; return how many. Without offsets: all
        messages. NotOfStream."""
        data, offsets = run.data, run.offsets
        place: i64 = 0
        while place < run.count:
            start = i64(read_i32_le(offsets, 4 * place))
            stop = i64(read_i32_le(offsets, 4 * place + 4))
            if not self._take(data, payload_at(data, start), stop, end):
                break
            place += 1
        return place

    def _take(self, data: bytes, start: i64, stop: i64, end: i64) -> bool:
        """Add one message; False: its offset is `end` or behind that."""
        sections = self._sections
        if not sections.walk(data, start, stop):
            raise NotOfStream("a message cannot be decoded")
        first, last = sections.message_annotations_at, sections.bare_at
        sample = data[first:last]
        identity = sample
        if self.has_offsets:
            at = offset_at(data, first, last)
            if at < 0:
                raise NotOfStream("a message has no annotation x-stream-offset")
            offset = number_at(data, at)
            if offset >= end:
                return False
            self.offsets.append(int(offset))
            identity = data[first:at] + data[value_end(data, at, last) : last]
        self.annotations.add(identity, sample)
        header = data[sections.header_at : sections.delivery_annotations_at]
        self.header.add(header, header)
        properties = data[sections.bare_at : sections.application_properties_at]
        self.properties.add(properties, properties)
        named = data[sections.application_properties_at : sections.body_at]
        self.application_properties.add(named, named)
        self._take_body(data, start, stop)
        return True

    def _take_body(self, data: bytes, start: i64, stop: i64) -> None:
        sections = self._sections
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
                self.bodies.append(data[begin:footer])
                self.size += footer - begin
                return
        self.odd[len(self.bodies)] = data[start:stop]
        self.bodies.append(b"")
        self.size += stop - start


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
