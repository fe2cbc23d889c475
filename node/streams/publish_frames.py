"""Publish frames of the stream protocol, taken into runs of messages in stored form 2.

    scanner.begin(body)                     # a frame, without its size
    scanner.scan(MESSAGES, BYTES)           # again, while `scanner.left` > 0
    run = scanner.take()                    # of one frame, or of several of the same publisher

An entry of a frame is a publishing id u64, a filter value (string, in version 2), and a message
with a length i32, or a batch: a byte with its highest bit set and the compression in the next
three, count u16, uncompressed bytes u32, bytes u32, and the messages, each with a length i32,
compressed as a whole. No I/O. Compiled, hot: no object is made for each message.
"""

from typing import Final, final

from mypy_extensions import i32, i64, mypyc_attr

from node.streams.bodies import stored_form
from queues.streams.tracking import BATCH
from warren.wire.amqp10.codec.descriptors import PROPERTIES
from warren.wire.amqp10.codec.message import Sections
from warren.wire.amqp10.transfers import BARE_BYTES, BARE_HEAD, TransferScanner
from warren.wire.buffer import (
    BytesWriter,
    read_i16_be,
    read_i32_be,
    read_i64_be,
    write_i32_be,
    write_i32_le,
    write_i64_be,
)
from warren.wire.inplace import copy
from warren.wire.stream.chunks import Unsupported, unpacked
from warren.wire.stream.codes import PUBLISH_CONFIRM, VERSION_1, VERSION_2
from warren.wire.stream.frames import BadFrame

FRAME_HEAD_BYTES: Final = 9  # key, version, publisher, count
PUBLISHER_AT: Final = 4
ENTRIES_AT: Final = 5
BATCH_BIT: Final = 0x80
BATCH_HEAD_BYTES: Final = 11
LENGTH_BYTES: Final = 4
ID_BYTES: Final = 8
SHORT_DESCRIPTOR: Final = 0x53  # behind the byte 0
NO_BODY: Final = b"\x00\x53\x75\xa0\x00"
CONFIRM_HEAD_BYTES: Final = 9  # as of Publish
U16_MASK: Final = 0xFFFF
U32_MASK: Final = 0xFFFFFFFF
NUMBERS: Final = 1 << 64


@final
@mypyc_attr(acyclic=True)
class PublishRun:
    """Messages for one publisher, in order, and what cannot be published."""

    def __init__(
        self,
        publisher: int,
        data: bytes,
        offsets: bytes,
        ids: list[tuple[int, int]],
        refused: list[int],
        fault: str,
    ) -> None:
        self.publisher = publisher
        self.data = data
        self.offsets = offsets  # count + 1 times u32 little-endian, positions in `data`
        # Publishing ids: of single messages (first, count) as they count up; of a batch of several
        # (its id, BATCH | messages).
        self.ids = ids
        self.refused = refused  # publishing ids that are not in `ids`
        self.fault = fault  # why one of them was refused
        self.count = len(offsets) // 4 - 1


@final
class PublishScanner:
    """See the module."""

    def __init__(self) -> None:
        self.publisher: i64 = -1  # of the frame, and of all that is gathered
        self.left: i64 = 0  # entries of the frame that are still to be scanned
        self.count: i64 = 0  # messages that are gathered, and those that are refused
        self.byte_count: i64 = 0
        self._body = b""
        self._at: i64 = 0
        self._has_filter = False
        self._filter_value = ""  # of `_annotations`
        self._annotations = b""
        self._walker = TransferScanner(0)
        self._sections = Sections()
        self._data = BytesWriter()
        self._offsets = BytesWriter()
        self._ids: list[tuple[int, int]] = []
        self._first_id: i64 = 0  # of the ids that count up, which are not in `_ids` yet
        self._id_count: i64 = 0
        self._refused: list[int] = []
        self._fault = ""

    def suits(self, body: bytes) -> bool:
        """Whether the messages of a frame may be gathered with those that are."""
        return self.count == 0 or (
            len(body) > PUBLISHER_AT and self.publisher == body[PUBLISHER_AT]
        )

    def begin(self, body: bytes) -> None:
        """Another frame, which suits. BadFrame: it is too short."""
        if len(body) < FRAME_HEAD_BYTES:
            raise cut_short()
        self._has_filter = read_i16_be(body, 2) >= VERSION_2
        self.publisher = body[PUBLISHER_AT]
        self.left = i64(read_i32_be(body, ENTRIES_AT)) & U32_MASK
        self._body = body
        self._at = FRAME_HEAD_BYTES
        self._walker.begin()

    def end(self) -> None:
        """Drop what is left of the frame."""
        self.left = 0
        self._body = b""

    def scan(self, count_max: i64, bytes_max: i64) -> bool:
        """Take entries until so many messages or bytes are gathered, and one more, which may be a
        batch of 65,535 messages or 16 MiB. Return whether that is so. BadFrame: the frame is
        malformed.
        """
        body = self._body
        end: i64 = len(body)
        at = self._at
        while self.left > 0 and self.count < count_max and self.byte_count < bytes_max:
            if end - at < ID_BYTES:
                raise cut_short()
            publishing_id = read_i64_be(body, at)
            at += ID_BYTES
            value = ""
            if self._has_filter:
                value, at = filter_at(body, at)
            if end - at < LENGTH_BYTES:
                raise cut_short()
            length = i64(read_i32_be(body, at))
            if length < 0:
                at = self._take_batch(body, at, publishing_id, value)
            else:
                begin = at + LENGTH_BYTES
                at = begin + length
                if at > end:
                    raise cut_short()
                if publishing_id >= 0:
                    self._put(body, begin, at, value)
                    self._note_id(publishing_id)
                else:
                    self._refuse(publishing_id)
            self.left -= 1
        self._at = at
        if self.left == 0:
            self._body = b""
        return self.count >= count_max or self.byte_count >= bytes_max

    def _put(self, data: bytes, begin: i64, end: i64, filter_value: str) -> None:
        """Gather the message data[begin:end]."""
        writer = self._data
        write_i32_le(self._offsets, i32(len(writer)))
        self.count += 1
        self.byte_count += end - begin
        is_whole = self._walker.walk(data, begin, end)
        if not is_whole or (filter_value != "" and not is_bare(data, begin, end)):
            writer.write(stored_form(data[begin:end], filter_value, self._sections))
            return
        annotations = b"" if filter_value == "" else self._annotations_of(filter_value)
        write_i32_be(writer, i32(BARE_BYTES + i64(len(annotations)) + end - begin))
        write_i64_be(writer, BARE_HEAD)
        if filter_value != "":
            writer.write(annotations)
        copy(writer, data, begin, end)

    def _annotations_of(self, filter_value: str) -> bytes:
        """The section that a message without a head has in front of it."""
        if filter_value != self._filter_value:
            stored = stored_form(NO_BODY, filter_value, self._sections)
            self._annotations = stored[BARE_BYTES : len(stored) - len(NO_BODY)]
            self._filter_value = filter_value
        return self._annotations

    def _note_id(self, publishing_id: i64) -> None:
        """That of the message that was gathered last, which is not one of a batch."""
        if self._id_count > 0 and publishing_id == self._first_id + self._id_count:
            self._id_count += 1
            return
        self._end_ids()
        self._first_id = publishing_id
        self._id_count = 1

    def _end_ids(self) -> None:
        if self._id_count > 0:
            self._ids.append((int(self._first_id), int(self._id_count)))
            self._id_count = 0

    def _refuse(self, publishing_id: i64) -> None:
        number = int(publishing_id)
        self._refused.append(number if number >= 0 else number + NUMBERS)
        self.count += 1

    def _take_batch(self, body: bytes, at: i64, publishing_id: i64, value: str) -> i64:
        """Gather the messages of the batch at `at`; return where it ends."""
        if i64(len(body)) - at < BATCH_HEAD_BYTES:
            raise cut_short()
        kind = i64(body[at]) >> 4 & 7
        count = i64(read_i16_be(body, at + 1)) & U16_MASK
        size = i64(read_i32_be(body, at + 3)) & U32_MASK
        begin = at + BATCH_HEAD_BYTES
        end = begin + max(i64(read_i32_be(body, at + 7)), 0)
        if end > len(body):
            raise cut_short()
        try:
            content = unpacked(int(kind), body[begin:end], int(size))
        except Unsupported as error:
            self._fault = str(error)
            self._refuse(publishing_id)
            return end
        if publishing_id < 0:
            self._refuse(publishing_id)
            return end
        self._walker.begin()
        self._put_batch(content, count, value)
        self._walker.begin()
        if count == 1:
            self._note_id(publishing_id)
        else:
            self._end_ids()
            self._ids.append((int(publishing_id), BATCH | int(count)))
        return end

    def _put_batch(self, content: bytes, count: i64, value: str) -> None:
        check_batch(content, count)
        at: i64 = 0
        while count > 0:
            begin = at + LENGTH_BYTES
            at = begin + i64(read_i32_be(content, at))
            self._put(content, begin, at, value)
            count -= 1

    def take(self) -> PublishRun:
        """What was gathered; then there is nothing."""
        self._end_ids()
        write_i32_le(self._offsets, i32(len(self._data)))
        data, offsets = self._data.getvalue(), self._offsets.getvalue()
        run = PublishRun(int(self.publisher), data, offsets, self._ids, self._refused, self._fault)
        self._data = BytesWriter()
        self._offsets = BytesWriter()
        self._ids = []
        self._refused = []
        self._fault = ""
        self.count = 0
        self.byte_count = 0
        return run


def is_bare(data: bytes, begin: i64, end: i64) -> bool:
    """Whether a message begins with its properties or what is behind them, described by a code."""
    is_short = end - begin > 2 and read_i16_be(data, begin) == SHORT_DESCRIPTOR
    return is_short and data[begin + 2] >= PROPERTIES


def check_batch(content: bytes, count: i64) -> None:
    """BadFrame: the content of a batch has fewer messages than `count`, or none."""
    if count == 0:
        raise BadFrame("a batch without messages")
    there: i64 = len(content)
    at: i64 = 0
    while count > 0:
        length = i64(read_i32_be(content, at)) if there - at >= LENGTH_BYTES else -1
        at += LENGTH_BYTES + length
        if length < 0 or at > there:
            raise BadFrame("a batch has fewer messages than it says")
        count -= 1


def filter_at(body: bytes, at: i64) -> tuple[str, i64]:
    """The string at `at`, a null one as an empty one, and where it ends."""
    if i64(len(body)) - at < 2:
        raise cut_short()
    length = max(i64(read_i16_be(body, at)), 0)
    end = at + 2 + length
    if end > len(body):
        raise cut_short()
    try:
        return body[at + 2 : end].decode("utf-8"), end
    except UnicodeDecodeError:
        raise BadFrame("a filter value in a frame of command 2 is not UTF-8") from None


def cut_short() -> BadFrame:
    return BadFrame("a frame of command 2 is cut short")


def confirm_frame(publisher: i64, runs: list[tuple[int, int]]) -> bytes:
    """PublishConfirm of ids that count up: (first, count)."""
    count: i64 = 0
    for _, length in runs:
        count += i64(length)
    writer = BytesWriter()
    write_i32_be(writer, i32(CONFIRM_HEAD_BYTES + ID_BYTES * count))
    write_i32_be(writer, i32(PUBLISH_CONFIRM << 16 | VERSION_1))
    writer.append(int(publisher))
    write_i32_be(writer, i32(count))
    for first, length in runs:
        publishing_id = i64(first)
        last = publishing_id + i64(length)
        while publishing_id < last:
            write_i64_be(writer, publishing_id)
            publishing_id += 1
    return writer.getvalue()
