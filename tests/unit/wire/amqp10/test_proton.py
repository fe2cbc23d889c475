"""The codec against a second opinion: that of python-qpid-proton, where it is installed."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.wire.amqp10.messages import BOUNDED, messages
from tests.unit.wire.amqp10.test_values import scalars, typed
from warren.wire.amqp10.codec.message import Sections
from warren.wire.amqp10.codec.reader import decode_value
from warren.wire.amqp10.codec.values import (
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float32,
    Int,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)
from warren.wire.amqp10.codec.writer import encode_value

proton = pytest.importorskip("proton")

SAME = (
    (UByte, "ubyte"),
    (UShort, "ushort"),
    (UInt, "uint"),
    (ULong, "ulong"),
    (Byte, "byte"),
    (Short, "short"),
    (Int, "int32"),
    (Float32, "float32"),
    (Decimal32, "decimal32"),
    (Decimal64, "decimal64"),
    (Decimal128, "decimal128"),
    (Char, "char"),
    (Timestamp, "timestamp"),
    (Symbol, "symbol"),
)


def ours(value: Any) -> object:
    """A value of proton's in our classes."""
    for here, there in SAME:
        if type(value) is getattr(proton, there):
            if here in (Decimal32, Decimal64):
                width = 4 if here is Decimal32 else 8
                return here(int(value).to_bytes(width, "big"))
            return here(value)
    if isinstance(value, proton.Described):
        return Described(ours(value.descriptor), ours(value.value))
    if isinstance(value, proton.Array):
        kind = proton.Data.type_names[value.type]
        descriptors = () if value.descriptor is proton.UNDESCRIBED else (ours(value.descriptor),)
        return Array(kind, [ours(item) for item in value.elements], descriptors)
    if isinstance(value, dict):
        return {ours(key): ours(item) for key, item in value.items()}
    if isinstance(value, list):
        return [ours(item) for item in value]
    return bytes(value) if isinstance(value, memoryview) else value


def of_proton(octets: bytes) -> object:
    data = proton.Data()
    assert data.decode(octets) == len(octets)
    data.rewind()
    assert data.next()
    return ours(data.get_object())


def by_proton(octets: bytes) -> bytes:
    """The same value as proton would write it."""
    data = proton.Data()
    data.decode(octets)
    return bytes(data.encode())


def is_plain(value: object) -> bool:
    """proton miscounts the items of a list in which a described value describes another one."""
    return not isinstance(value, Described)


texts = st.text(st.characters(codec="utf-8"), max_size=40)
nested = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(texts, inner, max_size=4),
        st.builds(Described, st.integers(0, 999).map(ULong), inner.filter(is_plain)),
        st.lists(st.integers(0, 400).map(UInt), max_size=5).map(lambda items: Array("uint", items)),
        st.lists(texts, max_size=3).map(lambda items: Array("string", items)),
    ),
    max_leaves=8,
)


@settings(BOUNDED, max_examples=200)
@given(nested)
def test_proton_reads_what_we_write(value: object) -> None:
    assert typed(of_proton(encode_value(value))) == typed(value)


@settings(BOUNDED, max_examples=200)
@given(nested)
def test_we_read_what_proton_writes(value: object) -> None:
    assert typed(decode_value(by_proton(encode_value(value)))) == typed(value)


def as_c(text: str | None) -> str | None:
    """As proton gives it: it keeps addresses as strings of C."""
    return None if text is None else text.partition("\0")[0]


@settings(BOUNDED)
@given(messages())
def test_proton_reads_the_sections_that_we_find(data: bytes) -> None:
    sections = Sections()
    assert sections.walk(data, 0, len(data))
    message = proton.Message()
    message.decode(data)
    header, properties = sections.header(data), sections.properties(data)
    assert message.durable == (header.durable is True)
    assert message.priority == (4 if header.priority is None else header.priority)
    assert message.address == as_c(properties.to)
    assert message.reply_to == as_c(properties.reply_to)
    assert bytes(message.user_id) == (properties.user_id or b"")
