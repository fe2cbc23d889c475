"""Field tables: golden bytes, round trips, cuts, limits, and pamqp as a second opinion."""

import struct
from decimal import Decimal
from math import inf

import pamqp.decode
import pamqp.encode
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.wire.frames import BOUNDED
from warren.wire.amqp091.fields import binary_term, decode_table, encode_table
from warren.wire.amqp091.values import (
    Float32,
    Int8,
    Int16,
    Int64,
    Timestamp,
    UInt8,
    UInt16,
    UInt32,
)
from warren.wire.errors import ProtocolError, ReplyCode


def one_field(kind: bytes, value: bytes) -> bytes:
    entry = b"\x01k" + kind + value
    return len(entry).to_bytes(4, "big") + entry


GOLDEN: list[tuple[bytes, bytes, object]] = [
    (b"t", b"\x01", True),
    (b"t", b"\x00", False),
    (b"b", b"\xff", Int8(-1)),
    (b"B", b"\xff", UInt8(255)),
    (b"s", b"\xff\xfe", Int16(-2)),
    (b"u", b"\xff\xfe", UInt16(65534)),
    (b"I", b"\xff\xff\xff\xff", -1),
    (b"i", b"\xff\xff\xff\xff", UInt32(4294967295)),
    (b"l", b"\x00\x00\x00\x00\x00\x00\x00\x07", Int64(7)),
    (b"l", b"\x80\x00\x00\x00\x00\x00\x00\x00", -(2**63)),
    (b"f", struct.pack(">f", 1.5), Float32(1.5)),
    (b"d", struct.pack(">d", 0.1), 0.1),
    (b"D", b"\x02\x00\x00\x01\x3a", Decimal("3.14")),
    (b"D", b"\x00\xff\xff\xff\xff", Decimal("-1")),
    (b"S", b"\x00\x00\x00\x02\xc3\xa9", "é"),
    (b"S", b"\x00\x00\x00\x01\xff", b"\xff"),
    (b"A", b"\x00\x00\x00\x03t\x01V", [True, None]),
    (b"T", b"\xff\xff\xff\xff\xff\xff\xff\xff", Timestamp(2**64 - 1)),
    (b"F", one_field(b"V", b""), {"k": None}),
    (b"V", b"", None),
    (b"x", b"\x00\x00\x00\x02\x00\xff", bytearray(b"\x00\xff")),
]


@pytest.mark.parametrize(("kind", "value", "expected"), GOLDEN)
def test_every_field_kind_reads_and_writes_the_same_bytes(
    kind: bytes, value: bytes, expected: object
) -> None:
    table = decode_table(one_field(kind, value))
    assert table == {"k": expected}
    assert type(table["k"]) is type(expected)
    assert encode_table(table) == one_field(kind, value)


def test_kind_capital_l_is_read_as_a_signed_64_bit_number() -> None:
    assert decode_table(one_field(b"L", b"\xff" * 8)) == {"k": -1}


def test_names_that_are_not_utf8_round_trip() -> None:
    data = b"\x00\x00\x00\x03\x01\xffV"
    assert encode_table(decode_table(data)) == data


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.floats(allow_nan=False, width=32).map(Float32)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary().map(bytearray)
    | st.integers(-128, 127).map(Int8)
    | st.integers(0, 255).map(UInt8)
    | st.integers(-(2**15), 2**15 - 1).map(Int16)
    | st.integers(0, 2**16 - 1).map(UInt16)
    | st.integers(0, 2**32 - 1).map(UInt32)
    | st.integers(-(2**31), 2**31 - 1).map(Int64)
    | st.integers(0, 2**64 - 1).map(Timestamp)
    | st.tuples(st.integers(-(2**31), 2**31 - 1), st.integers(0, 255)).map(
        lambda pair: Decimal(pair[0]).scaleb(-pair[1])
    ),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=40), inner),
    max_leaves=12,
)
tables = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40), values, max_size=6
)


def kinds(value: object) -> object:
    """The value with the types of everything in it."""
    if isinstance(value, dict):
        return {name: kinds(item) for name, item in value.items()}
    if isinstance(value, list):
        return [kinds(item) for item in value]
    return type(value), value


@BOUNDED
@given(tables)
def test_decode_undoes_encode(table: dict[str, object]) -> None:
    data = encode_table(table)
    again = decode_table(data)
    assert kinds(again) == kinds(table)
    assert encode_table(again) == data


@BOUNDED
@given(st.binary(max_size=200))
def test_any_bytes_decode_or_are_a_frame_error(content: bytes) -> None:
    data = len(content).to_bytes(4, "big") + content
    try:
        table = decode_table(data)
    except ProtocolError as error:
        assert error.code == ReplyCode.FRAME_ERROR
    else:
        again = encode_table(table)
        assert kinds(decode_table(again)) == kinds(table) or "nan" in repr(table)


@BOUNDED
@given(tables, st.data())
def test_every_cut_of_a_table_is_a_frame_error(
    table: dict[str, object], data: st.DataObject
) -> None:
    whole = encode_table(table)
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(ProtocolError):
        decode_table(whole[:cut])
    with pytest.raises(ProtocolError):
        decode_table(whole + b"\x00")


simple = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(codec="ascii"), max_size=20), inner, max_size=3)
    ),
    max_leaves=8,
)


@BOUNDED
@given(st.dictionaries(st.text(st.characters(codec="ascii"), max_size=20), simple, max_size=4))
def test_pamqp_reads_our_tables_and_we_read_its(table: dict[str, object]) -> None:
    used, theirs = pamqp.decode.field_table(encode_table(table))
    assert used == len(encode_table(table))
    assert theirs == table
    encoded = pamqp.encode.field_table(table)  # type: ignore[arg-type]
    assert decode_table(encoded) == table
    assert encode_table(decode_table(encoded)) == encoded


def nested(depth: int) -> bytes:
    data = b"\x00\x00\x00\x00"
    for _ in range(depth - 1):
        data = one_field(b"F", data)
    return data


def test_tables_nest_thirty_two_deep_and_no_deeper() -> None:
    decode_table(nested(32))
    with pytest.raises(ProtocolError, match="nested deeper than 32"):
        decode_table(nested(33))


def test_tables_side_by_side_are_not_deep() -> None:
    table: dict[str, object] = {str(number): {"k": [{}]} for number in range(40)}
    assert decode_table(encode_table(table)) == table


def test_a_length_beyond_the_table_is_refused_before_memory_is_taken() -> None:
    for kind in (b"S", b"x", b"A", b"F"):
        with pytest.raises(ProtocolError, match="FRAME_ERROR - cannot decode"):
            decode_table(one_field(kind, b"\xff\xff\xff\xff"))


def test_an_unknown_kind_is_a_frame_error() -> None:
    with pytest.raises(ProtocolError, match="FRAME_ERROR - cannot decode"):
        decode_table(one_field(b"Z", b""))


@pytest.mark.parametrize(
    "value",
    [
        *(2**63, -(2**63) - 1, UInt8(256), Int8(128), UInt32(-1), Timestamp(-1), object()),
        Float32(1e300),
        *(Decimal("1e5"), Decimal(2**31), Decimal("NaN")),
    ],
)
def test_a_value_that_no_kind_holds_is_our_own_error(value: object) -> None:
    with pytest.raises(ValueError):
        encode_table({"k": value})


def test_a_name_over_255_bytes_is_our_own_error() -> None:
    with pytest.raises(ValueError, match="255 bytes"):
        encode_table({"k" * 256: None})


def test_infinite_floats_round_trip() -> None:
    assert decode_table(encode_table({"k": inf})) == {"k": inf}


def test_bytes_are_shown_as_rabbitmq_shows_them() -> None:
    assert binary_term(b"\x01\xff") == "<<1,255>>"
    assert binary_term(b"abc") == '<<"abc">>'
    assert binary_term(b"") == "<<>>"
