"""Runs of publishes and of acknowledgements found in place in a socket read. Compiled, hot.

The scan takes only what is whole and entirely right; at anything else it stops in front of it, and
the connection looks at that frame by itself, slowly and with every error text. So nothing here
raises, and nothing is made per message: a run costs its offsets, and an entry where the route or
the properties differ from those of the message before.
"""

from typing import Final, final

from mypy_extensions import i32, i64

from warren.wire.amqp091.events import ACK, NACK, REJECT, Event, Publishes, Settles
from warren.wire.amqp091.properties import scan_properties
from warren.wire.buffer import BytesWriter, read_i32_be, read_i64_be, write_i32_le
from warren.wire.inplace import rebase, same_bytes

FRAME_END: Final = 0xCE
FRAME_OVERHEAD: Final = 8  # kind, channel, size, end
PUBLISH: Final = 0x003C0028
PUBLISH_FRAME_BYTES_MIN: Final = 17
HEADER_FRAME_BYTES_MIN: Final = 22
SETTLE_FRAME_BYTES: Final = 21  # ack, reject and nack alike
HEADER_OF_BASIC: Final = 0x003C0000  # class id and weight
BASIC: Final = 0x003C0000
KIND_STEP: Final = 1 << 24  # from method to header to body, in a frame's first four octets

STOP_ODD: Final = 0  # something else, or something wrong: to be looked at by itself
STOP_SHORT: Final = 1  # the read ends within a message


def valid_publish(data: bytes, pos: i64, end: i64) -> bool:
    """Whether data[pos:end] is a basic.publish payload: lengths fit, the exchange is UTF-8."""
    if end - pos < PUBLISH_FRAME_BYTES_MIN - FRAME_OVERHEAD:
        return False
    key_at = pos + 7 + data[pos + 6]
    if key_at >= end or key_at + 2 + data[key_at] != end:
        return False
    pos += 7
    while pos < key_at:
        if data[pos] > 127:
            return _is_utf8(data[pos:key_at])
        pos += 1
    return True


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


@final
class PublishScanner:
    """Scans one read after the other.

    After `scan`: `end` is behind the last whole message, `stop` says why there; at STOP_SHORT the
    message begun at `end` needs the bytes up to `need` at least, and `missing` more body bytes;
    `cut` says that some of its body frames are there already.
    """

    def __init__(self, payload_max: i64, body_max: i64) -> None:
        self.payload_max: i64 = payload_max
        self.body_max: i64 = body_max
        self.end: i64 = 0
        self.stop: i64 = STOP_ODD
        self.need: i64 = 0
        self.missing: i64 = 0
        self.cut = False

    def scan(self, data: bytes, start: i64, channel: i64) -> Publishes | None:
        """The run of publishes of `channel` at `start`; None: not even one whole message."""
        offsets = BytesWriter()
        firsts: list[int] = []
        keys: list[bytes] = []
        infos: list[int] = []
        head: i64 = 1 << 24 | channel << 8
        count: i64 = 0
        info: i64 = -1
        key_at: i64 = 0
        key_bytes: i64 = -1
        properties_at: i64 = 0
        properties_bytes: i64 = -1
        pos = start
        self.stop = STOP_ODD
        self.missing = 0
        self.cut = False
        while True:
            header_at = self._frame_end(data, pos, head)
            if header_at < pos + PUBLISH_FRAME_BYTES_MIN or read_i32_be(data, pos + 7) != PUBLISH:
                break
            body_at = self._header_end(data, header_at, head + KIND_STEP)
            if body_at < 0:
                break
            body_bytes = read_i64_be(data, header_at + 11)
            end = self._body_end(data, body_at, head + 2 * KIND_STEP, body_bytes)
            if end < 0:
                break
            fresh = False
            size = header_at - pos - 14  # exchange, routing key, bits
            if size != key_bytes or not same_bytes(data, key_at, pos + 13, size):
                if not valid_publish(data, pos + 7, header_at - 1):
                    break
                key_at, key_bytes, fresh = pos + 13, size, True
            size = body_at - header_at - 20  # flags and values
            properties = header_at + 19
            if size != properties_bytes or not same_bytes(data, properties_at, properties, size):
                found = scan_properties(data, properties, body_at - 1)
                if found < 0:
                    break
                fresh = fresh or found != info
                properties_at, properties_bytes, info = properties, size, found
            if fresh:
                firsts.append(count)
                keys.append(data[key_at : key_at + key_bytes])
                infos.append(info)
            write_i32_le(offsets, i32(pos))
            count += 1
            pos = end
        self.end = pos
        if count == 0:
            return None
        write_i32_le(offsets, i32(pos))
        return _publishes(channel, data, start, pos, offsets.getvalue(), firsts, keys, infos)

    def _frame_end(self, data: bytes, pos: i64, head: i64) -> i64:
        """Where the frame of this kind and channel ends; -1: it is not whole, or not that."""
        size: i64 = len(data)
        if size - pos < FRAME_OVERHEAD:
            self.stop = STOP_SHORT
            self.need = pos + FRAME_OVERHEAD
            return -1
        if read_i32_be(data, pos) != head:  # With the top octet of the size, which must be 0.
            return -1
        payload = i64(read_i32_be(data, pos + 3))
        end = pos + FRAME_OVERHEAD + payload
        if payload > self.payload_max:
            return -1
        if end > size:
            self.stop = STOP_SHORT
            self.need = end
            return -1
        return end if data[end - 1] == FRAME_END else -1

    def _header_end(self, data: bytes, pos: i64, head: i64) -> i64:
        end = self._frame_end(data, pos, head)
        if end < 0:
            return -1
        if end - pos < HEADER_FRAME_BYTES_MIN or read_i32_be(data, pos + 7) != HEADER_OF_BASIC:
            return -1
        return end

    def _body_end(self, data: bytes, pos: i64, head: i64, body_bytes: i64) -> i64:
        """Where the last of the body's frames ends; -1: they are not whole, or wrong."""
        if not 0 <= body_bytes <= self.body_max:
            return -1
        first = pos
        while body_bytes > 0:
            end = self._frame_end(data, pos, head)
            payload = end - pos - FRAME_OVERHEAD
            if end < 0:
                self.missing = body_bytes
                self.cut = pos > first
                return -1
            if payload == 0 or payload > body_bytes:
                return -1
            body_bytes -= payload
            pos = end
        return pos


def _publishes(
    channel: i64,
    data: bytes,
    start: i64,
    end: i64,
    offsets: bytes,
    firsts: list[int],
    keys: list[bytes],
    infos: list[int],
) -> Publishes:
    """The run data[start:end]; it keeps the whole read only where it is most of it."""
    size: i64 = len(data)
    if (end - start) * 4 >= size * 3:
        return Publishes(channel, data, offsets, firsts, keys, infos)
    if start > 0:
        offsets = rebase(offsets, start)
    return Publishes(channel, data[start:end], offsets, firsts, keys, infos)


def scan_settles(data: bytes, pos: i64, channel: i64, events: list[Event]) -> i64:
    """Add the run of ack, reject and nack frames of `channel` at `pos`; return where it ends."""
    size: i64 = len(data)
    head: i64 = 1 << 56 | channel << 40 | 13 << 8  # up to the high octet of the class id
    kind: i64 = 0  # 0: no settlement is being made
    flags: i64 = 0
    first: i64 = 0
    last: i64 = 0
    while size - pos >= SETTLE_FRAME_BYTES and read_i64_be(data, pos) == head:
        method = i64(read_i32_be(data, pos + 7)) - BASIC
        tag = read_i64_be(data, pos + 11)
        if method != ACK and method != NACK and method != REJECT:
            break
        if tag < 0 or data[pos + 20] != FRAME_END:
            break
        bits: i64 = data[pos + 19] & (3 if method == NACK else 1)
        multiple = method != REJECT and bits & 1 != 0
        if not multiple and method == kind and bits == flags and tag == last + 1:
            last = tag
        else:
            if kind != 0:
                events.append(settles(channel, kind, first, last, flags))
            kind, flags, first, last = method, bits, tag, tag
            if multiple:
                events.append(settles(channel, kind, first, last, flags))
                kind = 0
        pos += SETTLE_FRAME_BYTES
    if kind != 0:
        events.append(settles(channel, kind, first, last, flags))
    return pos


def settles(channel: i64, kind: i64, first: i64, last: i64, bits: i64) -> Settles:
    """`bits` are those of the method: multiple, requeue; in reject, requeue alone."""
    if kind == REJECT:
        return Settles(channel, kind, first, last, False, bits & 1 != 0)
    return Settles(channel, kind, first, last, bits & 1 != 0, bits & 2 != 0)
