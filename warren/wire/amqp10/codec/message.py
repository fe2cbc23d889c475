"""The sections of an AMQP 1.0 message, found in place (part 3.2). Compiled, hot.

In their order, each at most once but for data and sequences: header, delivery annotations, message
annotations; then the bare message, which no broker may change: properties, application properties,
the body (data sections, or sequences, or one value), and the footer at the end.

`Sections.walk` finds where each begins and what routing and queues must know of it (`info`), and
makes nothing. It looks into the header, at the kinds of the properties, and at the keys and values
of the maps, one level deep; not into the body. A message without a body is let through. A map of
more than MAP_BYTES_MAX is not: the cost of decoding one must be bounded.

A walk goes by sizes alone: text that is not UTF-8, or a list whose inside does not fit, gets past
it. What arrives is looked at more closely (`unreadable`). Decoding never raises all the same, for
stored messages may have come by other ways: what cannot be read counts as absent (`header` to
`application_properties`), and of two entries with the same key the first counts.
"""

from typing import Final, NoReturn, final

from mypy_extensions import i64

from warren.wire.amqp10.codec import codes
from warren.wire.amqp10.codec.descriptors import (
    AMQP_SEQUENCE,
    AMQP_VALUE,
    APPLICATION_PROPERTIES,
    DATA,
    DELIVERY_ANNOTATIONS,
    DESCRIPTORS,
    FOOTER,
    HEADER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
)
from warren.wire.amqp10.codec.performatives import Header, Properties, read_header, read_properties
from warren.wire.amqp10.codec.reader import MESSAGE_ID_TYPES, UNFIT_KEYS, Reader, value_end
from warren.wire.amqp10.codec.values import Described, Pairs
from warren.wire.amqp10.codec.writer import encode_value, write_compound
from warren.wire.amqp10.errors import Condition, ProtocolError, Scope
from warren.wire.buffer import BytesWriter, read_i16_be, read_i32_be, read_i64_be

# Bits of `Sections.info`, where they are the same those of `wire.amqp091.events`; the priority
# (0 where absent) is in bits 8-15.
INFO_DURABLE: Final = 1
INFO_HEADERS: Final = 2  # there are application properties
INFO_TTL: Final = 4
INFO_USER_ID: Final = 8
INFO_REPLY_TO: Final = 16
INFO_PRIORITY: Final = 32  # the header has a priority
INFO_ANNOTATIONS: Final = 64  # there are message annotations
INFO_TO: Final = 128
INFO_PRIORITY_SHIFT: Final = 8

MAP_BYTES_MAX: Final = 1 << 20
PRIORITY_DEFAULT: Final = 4  # where the header has none

# Fields of the properties section.
MESSAGE_ID: Final = 0
USER_ID: Final = 1
TO: Final = 2
SUBJECT: Final = 3
REPLY_TO: Final = 4
CORRELATION_ID: Final = 5
PROPERTY_COUNT: Final = 13

# What may stand in each of them: i message id, b binary, s string, y symbol, t timestamp, u uint.
# A message id may be any number or boolean, as in RabbitMQ: some clients send an int or a uint.
_KINDS: Final = b"ibsssiyyttsus"
_ID: Final = 105
_BINARY: Final = 98
_STRING: Final = 115
_SYMBOL: Final = 121
_TIMESTAMP: Final = 116
_ID_TYPES: Final = frozenset(MESSAGE_ID_TYPES)
_MAY_BE_ID: Final = bytes(
    [codes.NAMES.get(code, "") in _ID_TYPES for code in range(256)]
)  # by code
# By code: values of this type can be decoded whatever their bytes are.
_IS_ALWAYS_READABLE: Final = bytes(
    [
        code in codes.NAMES and not 0xA1 <= code <= 0xA3 and not 0xB1 <= code <= 0xB3
        and code < codes.LIST_8 and code not in (codes.BOOLEAN, codes.CHAR)
        for code in range(256)
    ]
)  # fmt: skip


def _is_readable(data: bytes, at: i64, end: i64) -> bool:
    """Whether the value `data[at:end]`, which was stepped over, can be decoded."""
    code: i64 = data[at]
    if _IS_ALWAYS_READABLE[code] == 1:
        return True
    if code == codes.STRING_8 or code == codes.SYMBOL_8:
        at += 2
    elif code == codes.STRING or code == codes.SYMBOL:
        at += 5
    else:
        return _can_decode(data, at, end)
    text = data[at:end]
    if text.isascii():
        return True
    if code == codes.SYMBOL_8 or code == codes.SYMBOL:
        return False
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _fits_kind(kind: i64, code: i64) -> bool:
    """Whether a property of this kind (`_KINDS`) that is not null may have this constructor."""
    is_string = code == codes.STRING_8 or code == codes.STRING
    if kind == _STRING:
        return is_string
    is_binary = code == codes.BINARY_8 or code == codes.BINARY
    if kind == _ID:
        return _MAY_BE_ID[code] == 1
    if kind == _BINARY:
        return is_binary
    if kind == _SYMBOL:
        return code == codes.SYMBOL_8 or code == codes.SYMBOL
    if kind == _TIMESTAMP:
        return code == codes.TIMESTAMP
    return code == codes.UINT or code == codes.UINT_8 or code == codes.UINT_0


def list_span(data: bytes, at: i64, end: i64, kind: i64) -> tuple[i64, i64, i64]:
    """Inside of the list (`kind` codes.LIST) or map (codes.MAP) at `at`: first item, end, count.

    The first is -1 where there is none, or it does not fit.
    """
    if at >= end:
        return -1, -1, -1
    code: i64 = data[at]
    if code == kind - 0x10 and end - at >= 3:
        size: i64 = data[at + 1]
        if size >= 1 and size <= end - at - 2:
            return at + 3, at + 2 + size, i64(data[at + 2])
    elif code == kind and end - at >= 9:
        wide = i64(read_i32_be(data, at + 1)) & 0xFFFFFFFF
        if wide >= 4 and wide <= end - at - 5:
            return at + 9, at + 5 + wide, i64(read_i32_be(data, at + 5)) & 0xFFFFFFFF
    elif code == codes.LIST_0 and kind == codes.LIST:
        return at + 1, at + 1, 0
    return -1, -1, -1


def items_fit(data: bytes, at: i64, end: i64, count: i64) -> bool:
    """Whether data[at:end] is exactly so many values."""
    while count > 0 and at >= 0:
        at = value_end(data, at, end)
        count -= 1
    return at == end


@final
class Sections:
    """Where the sections of one message begin. Made once, used for one message after the other.

    A section that is absent begins where the next one does; the last ends at `end`.
    """

    def __init__(self) -> None:
        self.header_at: i64 = 0
        self.delivery_annotations_at: i64 = 0
        self.message_annotations_at: i64 = 0
        self.bare_at: i64 = 0  # the properties, too
        self.application_properties_at: i64 = 0
        self.body_at: i64 = 0
        self.footer_at: i64 = 0
        self.end: i64 = 0
        self.info: i64 = 0
        self.wrong_property: i64 = -1  # place of the property for which `walk` failed
        self._value_at: i64 = 0

    def walk(self, data: bytes, start: i64, end: i64) -> bool:
        """Find the sections of the message `data[start:end]`; False: it is none."""
        pos = self.walk_head(data, start, end)
        return pos >= 0 and self.walk_bare(data, pos, end)

    def find(self, data: bytes, start: i64, end: i64) -> bool:
        """The same for a stored message, which must be delivered whatever it is: one that is none
        is a body without anything before it. False: it is none."""
        if self.walk(data, start, end):
            return True
        self.take_as_body(start, end)
        return False

    def take_as_body(self, start: i64, end: i64) -> None:
        """There is nothing but a body."""
        self.info = 0
        self.header_at = start
        self.delivery_annotations_at = start
        self.message_annotations_at = start
        self.bare_at = start
        self.application_properties_at = start
        self.body_at = start
        self.footer_at = end
        self.end = end

    def walk_bare(self, data: bytes, pos: i64, end: i64) -> bool:
        """The bare message at `pos`; its info is added to what is there."""
        self.end = end
        code = self._section(data, pos, end)
        if code == PROPERTIES:
            pos = self._scan_properties(data, end)
            if pos < 0:
                return False
            code = self._section(data, pos, end)
        self.application_properties_at = pos
        if code == APPLICATION_PROPERTIES:
            self.info |= INFO_HEADERS
            pos = self._map_end(data, end)
            if pos < 0:
                return False
            code = self._section(data, pos, end)
        self.body_at = pos
        return self.walk_body(data, pos, end)

    def walk_head(self, data: bytes, start: i64, end: i64) -> i64:
        """The sections before the bare message; return where that begins. -1: one is wrong."""
        self.info = 0
        self.header_at = start
        pos = start
        code = self._section(data, pos, end)
        if code == HEADER:
            pos = self._scan_header(data, end)
            if pos < 0:
                return -1
            code = self._section(data, pos, end)
        self.delivery_annotations_at = pos
        if code == DELIVERY_ANNOTATIONS:
            pos = self._map_end(data, end)
            if pos < 0:
                return -1
            code = self._section(data, pos, end)
        self.message_annotations_at = pos
        if code == MESSAGE_ANNOTATIONS:
            self.info |= INFO_ANNOTATIONS
            pos = self._map_end(data, end)
        self.bare_at = pos
        return pos

    def walk_body(self, data: bytes, pos: i64, end: i64) -> bool:
        """The body at `pos` and what is behind it."""
        code = self._section(data, pos, end)
        if code == AMQP_VALUE:
            pos = value_end(data, self._value_at, end)
            code = self._section(data, pos, end)
        else:
            kind = code
            while code == kind and code in (DATA, AMQP_SEQUENCE):
                pos = self._content_end(data, code, end)
                code = self._section(data, pos, end)
        self.footer_at = pos
        if code == FOOTER:
            pos = self._map_end(data, end)
        return pos == end

    def _section(self, data: bytes, pos: i64, end: i64) -> i64:
        """The code of the section at `pos`; 0: there is no more, or none of the known."""
        if pos < 0 or end - pos < 4:
            return 0
        if read_i16_be(data, pos) == 0x0053:
            self._value_at = pos + 3
            return i64(data[pos + 2])
        return self._section_by_name(data, pos, end)

    def _section_by_name(self, data: bytes, pos: i64, end: i64) -> i64:
        """The same where the descriptor is a symbol or a wide number."""
        if data[pos] != codes.DESCRIBED:
            return 0
        after = value_end(data, pos + 1, end)
        if after < 0:
            return 0
        self._value_at = after
        code: i64 = data[pos + 1]
        if code == codes.ULONG:
            number = read_i64_be(data, pos + 2)
            return number if 0 <= number <= 0xFF else 0
        if code == codes.SYMBOL_8:
            return DESCRIPTORS.get(data[pos + 3 : after].decode("latin-1"), 0)
        if code == codes.SYMBOL:
            return DESCRIPTORS.get(data[pos + 6 : after].decode("latin-1"), 0)
        return 0

    def _content_end(self, data: bytes, code: i64, end: i64) -> i64:
        """Where the data section or sequence ends; -1: it is neither bytes nor a list."""
        at = self._value_at
        if at >= end:
            return -1
        kind: i64 = data[at]
        if code == DATA:
            fits = kind == codes.BINARY_8 or kind == codes.BINARY
        else:
            fits = kind == codes.LIST_8 or kind == codes.LIST or kind == codes.LIST_0
        if not fits:
            return -1
        return value_end(data, at, end)

    def _map_end(self, data: bytes, end: i64) -> i64:
        at, inside_end, count = list_span(data, self._value_at, end, codes.MAP)
        if at < 0 or inside_end - at > MAP_BYTES_MAX or count & 1 != 0:
            return -1
        if not items_fit(data, at, inside_end, count):
            return -1
        return inside_end

    def _scan_header(self, data: bytes, end: i64) -> i64:
        """Take the info from the header; return where it ends."""
        at, inside_end, count = list_span(data, self._value_at, end, codes.LIST)
        if at < 0 or not items_fit(data, at, inside_end, count):
            return -1
        place: i64 = 0
        while place < count:
            code: i64 = data[at]
            if code != codes.NULL and not self._take_header_field(data, at, place, code):
                return -1
            at = value_end(data, at, inside_end)
            place += 1
        return inside_end

    def _take_header_field(self, data: bytes, at: i64, place: i64, code: i64) -> bool:
        """A field of the header that is not null; False: it is of another type."""
        if place == 0 or place == 3:
            is_true = code == codes.TRUE or (code == codes.BOOLEAN and data[at + 1] == 1)
            if is_true and place == 0:
                self.info |= INFO_DURABLE
            is_false = code == codes.FALSE or (code == codes.BOOLEAN and data[at + 1] == 0)
            return is_true or is_false
        if place == 1:
            if code != codes.UBYTE:
                return False
            self.info |= INFO_PRIORITY | i64(data[at + 1]) << INFO_PRIORITY_SHIFT
        elif place == 2 or place == 4:
            if place == 2:
                self.info |= INFO_TTL
            return code == codes.UINT or code == codes.UINT_8 or code == codes.UINT_0
        return True

    def _scan_properties(self, data: bytes, end: i64) -> i64:
        """Take the info from the properties; return where they end."""
        at, inside_end, count = list_span(data, self._value_at, end, codes.LIST)
        if at < 0:
            return -1
        place: i64 = 0
        while place < count:
            if at >= inside_end:
                return -1
            code: i64 = data[at]
            if code == codes.NULL:
                at += 1
            else:
                if place < PROPERTY_COUNT and not _fits_kind(_KINDS[place], code):
                    self.wrong_property = place
                    return -1
                at = value_end(data, at, inside_end)
                if at < 0:
                    return -1
                if place == USER_ID:
                    self.info |= INFO_USER_ID
                elif place == TO:
                    self.info |= INFO_TO
                elif place == REPLY_TO:
                    self.info |= INFO_REPLY_TO
            place += 1
        if at != inside_end:
            return -1
        return inside_end

    def unreadable(self, data: bytes) -> str:
        """Which section of the message that was walked through cannot be decoded; "": none."""
        if not self._is_section_readable(data, self.bare_at, self.application_properties_at):
            return "properties"
        if not self._is_section_readable(data, self.application_properties_at, self.body_at):
            return "application-properties"
        if not self._is_section_readable(data, self.message_annotations_at, self.bare_at):
            return "message-annotations"
        annotations_at = self.delivery_annotations_at
        if not self._is_section_readable(data, annotations_at, self.message_annotations_at):
            return "delivery-annotations"
        return ""

    def _is_section_readable(self, data: bytes, start: i64, end: i64) -> bool:
        """Of a list or map whose values were stepped over one by one."""
        if start == end:
            return True
        is_list = self._section(data, start, end) == PROPERTIES
        kind: i64 = codes.LIST if is_list else codes.MAP
        at, inside_end, _count = list_span(data, self._value_at, end, kind)
        while at < inside_end:
            after = value_end(data, at, inside_end)
            if not _is_readable(data, at, after):
                return False
            at = after
        return True

    # Decoding of single sections, once the message was walked through. Nothing here raises.

    def header(self, data: bytes) -> Header:
        """The header; all absent where there is none."""
        start, end = self.header_at, self.delivery_annotations_at
        if start == end:
            return Header()
        try:
            return read_header(_fields_in(data, start, end))
        except ProtocolError:
            fields = _readable_fields(data, start, end)
        try:
            return read_header(Reader(fields, 0, len(fields)))
        except ProtocolError:
            return Header()

    def properties(self, data: bytes) -> Properties:
        """The properties; absent are those that cannot be read, too."""
        start, end = self.bare_at, self.application_properties_at
        if start == end:
            return Properties()
        try:
            return read_properties(_fields_in(data, start, end))
        except ProtocolError:
            fields = _readable_fields(data, start, end)
        try:
            return read_properties(Reader(fields, 0, len(fields)))
        except ProtocolError:
            return Properties()

    def property(self, data: bytes, place: i64) -> object:
        """One of the properties, by its place in the list; the others stay as they are."""
        if self.bare_at == self.application_properties_at:
            return None
        self._section(data, self.bare_at, self.end)
        at, inside_end, count = list_span(
            data, self._value_at, self.application_properties_at, codes.LIST
        )
        if at < 0 or place >= count:
            return None
        while place > 0:
            at = value_end(data, at, inside_end)
            place -= 1
        try:
            return Reader(data, at, inside_end).value()
        except ProtocolError:
            return None

    def annotations(self, data: bytes) -> object:
        """The message annotations: a dict from symbols or numbers; or `values.Pairs`."""
        return _map_in(data, self.message_annotations_at, self.bare_at)

    def application_properties(self, data: bytes) -> object:
        """A dict from strings; or `values.Pairs`, if the keys are what they should not be."""
        return _map_in(data, self.application_properties_at, self.body_at)

    def body_data(self, data: bytes) -> bytes | None:
        """The bytes of the data sections; None: the body is something else."""
        pieces: list[bytes] = []
        pos = self.body_at
        while self._section(data, pos, self.footer_at) == DATA:
            at = self._value_at
            pos = value_end(data, at, self.footer_at)
            pieces.append(data[at + (2 if data[at] == codes.BINARY_8 else 5) : pos])
        if pos == self.body_at and pos < self.footer_at:
            return None
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _fields_in(data: bytes, start: i64, end: i64) -> Reader:
    """At the list of the section `data[start:end]`."""
    reader = Reader(data, start, end)
    reader.descriptor()
    return reader


def _readable_fields(data: bytes, start: i64, end: i64) -> bytes:
    """The list of the section `data[start:end]`; null stands for each field that cannot be read."""
    at, inside_end, count = list_span(data, value_end(data, start + 1, end), end, codes.LIST)
    fields = BytesWriter()
    place: i64 = 0
    while at >= 0 and place < count:
        after = value_end(data, at, inside_end)
        if after < 0:
            break
        if _can_decode(data, at, after):
            fields.write(data[at:after])
        else:
            fields.append(codes.NULL)
        at = after
        place += 1
    whole = BytesWriter()
    write_compound(whole, codes.LIST, fields.getvalue(), place)
    return whole.getvalue()


def _can_decode(data: bytes, at: i64, end: i64) -> bool:
    try:
        Reader(data, at, end).value()
    except ProtocolError:
        return False
    return True


def _map_in(data: bytes, start: i64, end: i64) -> object:
    """The map of the section `data[start:end]`, less what cannot be read of it."""
    if start == end:
        return {}
    try:
        found = Reader(data, start, end).value()
        if isinstance(found, Described) and isinstance(found.value, (dict, Pairs)):
            return found.value
    except ProtocolError:
        return _readable_map(data, start, end)
    return _readable_map(data, start, end)


def _readable_map(data: bytes, start: i64, end: i64) -> object:
    """Entries whose key and value can be read; the first of those with the same key."""
    at, inside_end, count = list_span(data, value_end(data, start + 1, end), end, codes.MAP)
    pairs: list[tuple[object, object]] = []
    seen: set[bytes] = set()
    hashable = True
    while at >= 0 and count >= 2:
        value_at = value_end(data, at, inside_end)
        after = -1 if value_at < 0 else value_end(data, value_at, inside_end)
        if after < 0:
            break
        if _can_decode(data, at, value_at) and _can_decode(data, value_at, after):
            key = Reader(data, at, value_at).value()
            identity = encode_value(key)
            if identity not in seen:
                seen.add(identity)
                hashable = hashable and not isinstance(key, UNFIT_KEYS)
                pairs.append((key, Reader(data, value_at, after).value()))
        at = after
        count -= 2
    if hashable:
        result = dict(pairs)
        if len(result) == len(pairs):
            return result
    return Pairs(pairs)


def check_readable(sections: Sections, data: bytes) -> None:
    """Raise amqp:decode-error for the link if a section that was walked through is unreadable."""
    wrong = sections.unreadable(data)
    if wrong:
        raise ProtocolError(
            Condition.DECODE_ERROR, f"the {wrong} of a message cannot be decoded", Scope.LINK
        )


def fail_sections(sections: Sections) -> NoReturn:
    """Raise amqp:decode-error for the link, after `walk` has failed."""
    text = "the sections of a message are not in order, or do not fit"
    if sections.wrong_property >= 0:
        name = Properties.field_names[sections.wrong_property].replace("_", "-")
        text = f"the field {name} in the properties of a message has a type that is not allowed"
    raise ProtocolError(Condition.DECODE_ERROR, text, Scope.LINK)
