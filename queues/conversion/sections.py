"""The sections of an AMQP 1.0 message (specification, part 3.2), decoded when they are asked for.

`Sections` takes `data[start:end]`, the payload of a delivery as it came, and raises ProtocolError
(amqp:decode-error) if that is no row of sections in the order of the specification.
"""

from typing import Final

from warren.wire.amqp10.descriptors import (
    AMQP_SEQUENCE,
    AMQP_VALUE,
    APPLICATION_PROPERTIES,
    DATA,
    DELIVERY_ANNOTATIONS,
    FOOTER,
    HEADER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
)
from warren.wire.amqp10.errors import Condition, ProtocolError
from warren.wire.amqp10.performatives import Header, Properties, read_header, read_properties
from warren.wire.amqp10.reader import Reader
from warren.wire.amqp10.values import Pairs

BODY: Final = (DATA, AMQP_SEQUENCE, AMQP_VALUE)
SINGLE: Final = (
    HEADER,
    DELIVERY_ANNOTATIONS,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    APPLICATION_PROPERTIES,
    FOOTER,
)


class Sections:
    """Where each section begins (`at`, its descriptor) and where the next one does."""

    __slots__ = ("_data", "_spans", "bare_at", "body", "body_at", "body_end")

    def __init__(self, data: bytes, start: int, end: int) -> None:
        self._data = data
        self._spans: dict[int, tuple[int, int]] = {}
        self.body: list[tuple[int, int, int]] = []  # descriptor, begin of the section, end
        self.bare_at = end  # where properties, or what follows them, begin
        self.body_at = end
        self.body_end = end
        self._walk(start, end)

    def _walk(self, start: int, end: int) -> None:
        reader = Reader(self._data, start, end)
        last = 0
        while reader.pos < end:
            at = int(reader.pos)
            descriptor = int(reader.descriptor())
            if descriptor not in SINGLE and descriptor not in BODY:
                raise ProtocolError(Condition.DECODE_ERROR, "no section of a message")
            repeated = descriptor == last and descriptor in (DATA, AMQP_SEQUENCE)
            mixed = descriptor in BODY and last in BODY
            if not repeated and (descriptor <= last or mixed):
                raise ProtocolError(Condition.DECODE_ERROR, "sections are not in their order")
            reader.skip()
            self._note(descriptor, at, int(reader.pos))
            last = descriptor

    def _note(self, descriptor: int, at: int, end: int) -> None:
        if descriptor >= PROPERTIES:
            self.bare_at = min(self.bare_at, at)
        if descriptor in BODY:
            self.body_at = min(self.body_at, at)
            self.body.append((descriptor, at, end))
            self.body_end = end
        else:
            self._spans[descriptor] = (at, end)

    def _reader(self, descriptor: int) -> Reader | None:
        """At the section, its descriptor still to come."""
        span = self._spans.get(descriptor)
        return None if span is None else Reader(self._data, span[0], span[1])

    def header(self) -> Header:
        """With the values of an absent one, if there is none."""
        reader = self._reader(HEADER)
        if reader is None:
            return Header()
        reader.descriptor()
        return read_header(reader)

    def properties(self) -> Properties:
        reader = self._reader(PROPERTIES)
        if reader is None:
            return Properties()
        reader.descriptor()
        return read_properties(reader)

    def map(self, descriptor: int) -> dict[object, object] | Pairs:
        """One of the sections that are maps; empty if absent."""
        reader = self._reader(descriptor)
        if reader is None:
            return {}
        reader.descriptor()
        value = reader.value()
        if not isinstance(value, dict | Pairs):
            raise ProtocolError(Condition.DECODE_ERROR, "a section that is no map")
        return value

    def data_of(self, begin: int, end: int) -> bytes:
        """The binary of a data section."""
        reader = Reader(self._data, begin, end)
        reader.descriptor()
        value = reader.value()
        if not isinstance(value, bytes):
            raise ProtocolError(Condition.DECODE_ERROR, "a data section that is no binary")
        return value
