"""Selects messages of a stream by their fields: SQL expressions and property filters.

Only what a filter names is decoded, once for a message. Messages of AMQP 0-9-1 are looked at as
AMQP 1.0 consumers see them. No I/O.
"""

from collections.abc import Callable, Mapping
from typing import Final

from queues.conversion.to_amqp10 import to_amqp10
from queues.message import FORMAT_10, Chunk
from queues.streams.sql import APPLICATION, FIELDS, Expression, Field, compare
from warren.wire.amqp10.message import Sections
from warren.wire.amqp10.performatives import Header, Properties
from warren.wire.amqp10.transfers import payload_at
from warren.wire.errors import ProtocolError

ENTRIES_MAX: Final = 16  # of a property filter
DEFAULTS: Final = {"durable": False, "priority": 4, "first_acquirer": False, "delivery_count": 0}

Selector = Callable[[Chunk, int], bool]  # whether the consumer wants the message of that index


class BadFilter(Exception):
    """A property filter that is wrong; the text says what is allowed."""


class MessageFields:
    """The fields of one message after the other."""

    def __init__(self) -> None:
        self._sections = Sections()
        self._data = b""
        self._header: Header | None = None
        self._properties: Properties | None = None
        self._application: object = None
        self._has_application = False

    def begin(self, chunk: Chunk, index: int) -> bool:
        """Look at this message from now on; False: it cannot be read."""
        data = chunk.data
        assert data is not None
        start, end = chunk.span(index)
        self._header = self._properties = None
        self._has_application = False
        if chunk.format_tag == FORMAT_10:
            self._data = data
            return self._sections.walk(data, payload_at(data, start), end)
        try:
            message = to_amqp10(data, start, end)
        except ProtocolError:
            return False
        self._header = message.header
        self._data = message.bare
        self._sections = Sections()
        return self._sections.walk_bare(message.bare, 0, len(message.bare))

    def field(self, section: str, name: str) -> object:
        """The value of a field; None: it is absent."""
        if section == APPLICATION:
            if not self._has_application:
                self._application = self._sections.application_properties(self._data)
                self._has_application = True
            found = self._application
            return found.get(name) if isinstance(found, dict) else None
        if section == "header":
            if self._header is None:
                self._header = self._sections.header(self._data)
            value = getattr(self._header, name)
            return DEFAULTS.get(name) if value is None else value
        if self._properties is None:
            self._properties = self._sections.properties(self._data)
        return getattr(self._properties, name)


def selector_of(expressions: list[Expression]) -> Selector | None:
    """A selector of messages for which all expressions are true; None: there is none."""
    if not expressions:
        return None
    fields = MessageFields()
    field = fields.field

    def selects(chunk: Chunk, index: int) -> bool:
        return fields.begin(chunk, index) and all(each(field) is True for each in expressions)

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
        return compare(value, "=", wanted)

    return evaluate


def _text(field: Field, section: str, name: str) -> str:
    value = field(section, name)
    return value if isinstance(value, str) else "\0"
