"""Selects messages by their fields: SQL expressions and property filters.

Only what a filter names is decoded, once for a message. Messages of AMQP 0-9-1 are looked at as
AMQP 1.0 consumers see them. No I/O. Compiled.
"""

from collections.abc import Callable, Mapping
from typing import Final, final

from mypy_extensions import i64

from queues.conversion.to_amqp10 import to_amqp10
from queues.message import FORMAT_10, Chunk
from queues.selectors.sql import APPLICATION, CLOCK, FIELDS, Expression
from queues.selectors.sql_operations import EQUAL, Field, compare
from warren.wire.amqp10.codec import codes
from warren.wire.amqp10.codec.message import Sections, list_span
from warren.wire.amqp10.codec.performatives import Header, Properties
from warren.wire.amqp10.codec.reader import Reader, value_end
from warren.wire.amqp10.errors import ProtocolError
from warren.wire.amqp10.transfers import payload_at
from warren.wire.buffer import read_i32_be, read_i64_be

ENTRIES_MAX: Final = 16  # of a property filter
DEFAULTS: Final = {"durable": False, "priority": 4, "first_acquirer": False, "delivery_count": 0}

Selector = Callable[[Chunk, int], bool]  # whether the consumer wants the message of that index
Clock = Callable[[], int]  # ms since 1970, for UTC()


class BadFilter(Exception):
    """A property filter that is wrong; the text says what is allowed."""


@final
class MessageFields:
    """The fields of one message after the other."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sections = Sections()
        self._data = b""
        self._header: Header | None = None
        self._properties: Properties | None = None
        self._keys: dict[str, bytes] = {}  # of application properties
        self._found: dict[str, object] = {}  # application properties of this message

    def begin(self, chunk: Chunk, index: int) -> bool:
        """Look at this message from now on; False: it cannot be read."""
        data = chunk.data
        assert data is not None
        start, end = chunk.span(index)
        self._header = None
        self._properties = None
        if self._found:
            self._found.clear()
        if chunk.format_tag == FORMAT_10:
            self._data = data
            return self._sections.walk(data, payload_at(data, start), end)
        message = to_amqp10(data, start, end)
        self._header = message.header
        self._data = message.bare
        self._sections = Sections()
        return self._sections.walk_bare(message.bare, 0, len(message.bare))

    def field(self, section: str, name: str) -> object:
        """The value of a field; None: it is absent."""
        if section == APPLICATION:
            found = self._found
            if name not in found:
                found[name] = self._application_property(name)
            return found[name]
        if section == CLOCK:
            return self._clock()
        if section == "header":
            if self._header is None:
                self._header = self._sections.header(self._data)
            value = getattr(self._header, name)
            return DEFAULTS.get(name) if value is None else value
        if self._properties is None:
            self._properties = self._sections.properties(self._data)
        return getattr(self._properties, name)

    def _application_property(self, name: str) -> object:
        """Find one entry of the map, and decode that alone."""
        sections = self._sections
        data = self._data
        stop = sections.body_at
        if sections.application_properties_at == stop:
            return None
        key = self._keys.get(name)
        if key is None:
            key = name.encode("utf-8", "surrogateescape")
            self._keys[name] = key
        map_at = value_end(data, sections.application_properties_at + 1, stop)
        at, end, _ = list_span(data, map_at, stop, codes.MAP)
        size = len(key)
        while 0 <= at < end:
            code: i64 = data[at]
            begin = at + (2 if code == codes.STRING_8 else 5)
            value_at = value_end(data, at, end)
            is_text = code == codes.STRING_8 or code == codes.STRING
            if is_text and value_at - begin == size and data[begin:value_at] == key:
                return _value_at(data, value_at, end)
            at = value_end(data, value_at, end)
        return None


def _value_at(data: bytes, at: i64, end: i64) -> object:
    """Decode a value; integers of the usual kinds as plain ones, which takes half of the time."""
    code: i64 = data[at]
    after = value_end(data, at, end)
    if code == codes.INT_8 or code == codes.LONG_8:
        octet: i64 = data[at + 1]
        return int(octet - 256 if octet > 127 else octet)
    if code == codes.INT:
        return int(read_i32_be(data, at + 1))
    if code == codes.LONG:
        return int(read_i64_be(data, at + 1))
    try:
        return Reader(data, at, after).value()
    except ProtocolError:
        return None


def selector_of(expressions: list[Expression], clock: Clock) -> Selector | None:
    """A selector of messages for which all expressions are true; None: there is none."""
    if not expressions:
        return None
    fields = MessageFields(clock)
    field = fields.field
    first = expressions[0]
    rest = expressions[1:]

    def selects(chunk: Chunk, index: int) -> bool:
        if not fields.begin(chunk, index) or first(field) is not True:
            return False
        for each in rest:  # noqa: SIM110 - a generator costs more than the rest
            if each(field) is not True:
                return False
        return True

    return selects


def property_filter(section: str, wanted: object) -> Expression:
    """Parse `amqp:properties-filter` or `amqp:application-properties-filter`: all entries of the
    map must match. Text may begin with `&p:` (prefix), `&s:` (suffix) or `&&` (for one `&`)."""
    if not isinstance(wanted, Mapping) or not 0 < len(wanted) <= ENTRIES_MAX:
        raise BadFilter(f"{wanted!r}; allowed is a map of 1 to {ENTRIES_MAX} entries")
    entries: list[Expression] = []
    for key, value in wanted.items():
        if not isinstance(key, str):
            raise BadFilter(f"the key {key!r}; allowed are names of fields")
        name = key
        if section != APPLICATION:
            name = key.replace("-", "_")
            if name not in FIELDS[section]:
                raise BadFilter(f"the key {key!r}; allowed are the fields of the section {section}")
        entries.append(_entry(section, name, value))

    return lambda field: all(entry(field) is True for entry in entries)


def _entry(section: str, name: str, wanted: object) -> Expression:
    if isinstance(wanted, str) and wanted.startswith("&"):
        modifier, text = wanted[:3], wanted[3:]
        if modifier == "&p:":
            return lambda field: _text(field, section, name).startswith(text)
        if modifier == "&s:":
            return lambda field: _text(field, section, name).endswith(text)
        if not wanted.startswith("&&"):
            raise BadFilter(f"the value {wanted!r}; allowed behind & are p:, s: and &")
        wanted = wanted[1:]

    def evaluate(field: Field) -> object:
        value = field(section, name)
        if type(value) is type(wanted):
            return value == wanted
        return compare(value, EQUAL, wanted)

    return evaluate


def _text(field: Field, section: str, name: str) -> str:
    value = field(section, name)
    return value if isinstance(value, str) else "\0"
