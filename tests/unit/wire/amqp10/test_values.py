"""AMQP 1.0 types: golden bytes, every encoding, types that stay, limits, wrong bytes."""

import math
import struct
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.wire.amqp10.messages import BOUNDED
from warren.wire.amqp10.codec.reader import DEPTH_MAX, Reader, decode_value, value_end
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
    Pairs,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)
from warren.wire.amqp10.codec.writer import encode_value
from warren.wire.amqp10.errors import Condition, ProtocolError

UUID_1 = UUID(int=1)

GOLDEN: list[tuple[object, str]] = [
    (None, "40"),
    (True, "41"),
    (False, "42"),
    (UByte(7), "5007"),
    (UShort(258), "600102"),
    (UInt(0), "43"),
    (UInt(255), "52ff"),
    (UInt(256), "7000000100"),
    (ULong(0), "44"),
    (ULong(255), "53ff"),
    (ULong((1 << 64) - 1), "80ffffffffffffffff"),
    (Byte(-1), "51ff"),
    (Short(-2), "61fffe"),
    (Int(-128), "5480"),
    (Int(128), "7100000080"),
    (-128, "5580"),
    (128, "810000000000000080"),
    (Float32(1.5), "723fc00000"),
    (1.5, "823ff8000000000000"),
    (Decimal32(b"abcd"), "7461626364"),
    (Decimal64(b"abcdefgh"), "846162636465666768"),
    (Decimal128(bytes(16)), "94" + "00" * 16),
    (Char("€"), "73000020ac"),
    (Timestamp(-1), "83ffffffffffffffff"),
    (UUID_1, "98" + "00" * 15 + "01"),
    (b"ab", "a0026162"),
    (b"a" * 256, "b000000100" + "61" * 256),
    ("€", "a103e282ac"),
    (Symbol("ab"), "a3026162"),
    ([], "45"),
    ([None, UInt(0)], "c003024043"),
    ({}, "c10100"),
    ({Symbol("a"): True}, "c10502a3016141"),
    (Pairs(((1, 1), (UInt(1), 1))), "c10904550155015201" + "5501"),
    (Array("uint", [UInt(1), UInt(255)]), "e0040252" + "01ff"),
    (Array("uint", [UInt(1), UInt(256)]), "e00a0270" + "0000000100000100"),
    (Array("boolean", [True, False]), "e004025601" + "00"),
    (Array("symbol", []), "e00200b3"),
    (Array("list", [[], [True]]), "e00702c0" + "0100" + "020141"),
    (Array("ulong", [ULong(1)], (Symbol("x"),)), "e0070100a301785301"),
    (Described(ULong(0x77), "x"), "005377a10178"),
]


def typed(value: object) -> object:
    """The value with the classes of all its parts, which plain equality does not look at."""
    if isinstance(value, list):
        return [typed(item) for item in value]
    if isinstance(value, dict):
        return {key: (type(key), typed(item)) for key, item in value.items()}
    if isinstance(value, Pairs):
        return Pairs((typed(key), typed(item)) for key, item in value)
    if isinstance(value, Array):
        return value.kind, typed(value.items), typed(list(value.descriptors))
    if isinstance(value, Described):
        return "described", typed(value.descriptor), typed(value.value)
    if isinstance(value, float):
        return type(value), struct.pack(">d", value)
    return type(value), value


@pytest.mark.parametrize(("value", "octets"), GOLDEN, ids=[repr(one)[:40] for one, _ in GOLDEN])
def test_the_smallest_encoding_is_written_and_read_back(value: object, octets: str) -> None:
    assert encode_value(value).hex() == octets
    assert typed(decode_value(bytes.fromhex(octets))) == typed(value)


@pytest.mark.parametrize(
    ("octets", "value"),
    [
        ("5600", False),
        ("5601", True),
        ("7000000000", UInt(0)),
        ("800000000000000000", ULong(0)),
        ("7100000001", Int(1)),
        ("810000000000000001", 1),
        ("b00000000161", b"a"),
        ("b10000000161", "a"),
        ("b30000000161", Symbol("a")),
        ("c00100", []),
        ("d00000000400000000", []),
        ("d100000006000000024041", {None: True}),
        ("e0020343", Array("uint", [UInt(0)] * 3)),
        ("f00000000600000001" + "5001", Array("ubyte", [UByte(1)])),
    ],
)
def test_every_wider_encoding_is_read(octets: str, value: object) -> None:
    assert typed(decode_value(bytes.fromhex(octets))) == typed(value)


WRONG = {
    "nothing": "",
    "a code that is not defined": "46",
    "a code that is not defined, in an array": "e0020059",
    "a described value without a value": "005301",
    "a boolean of 2": "5602",
    "a string that is not UTF-8": "a101ff",
    "a symbol that is not ASCII": "a30180",
    "a character beyond Unicode": "7300110000",
    "a surrogate": "730000d800",
    "a size beyond the end": "a00561",
    "a huge size": "b0ffffffff61",
    "a count beyond the bytes": "d00000000cffffffff" + "40" * 8,
    "a list larger than its items": "c003014040",
    "a list smaller than its items": "c00202" + "40" + "40",
    "a list whose size leaves no room for its count": "c000",
    "a map with a key alone": "c1020140",
    "the same key twice": "c10504" + "40404040",
    "the same key twice, encoded differently": "c10a04" + "5201" + "40" + "7000000001" + "40",
    "a million nulls in eight bytes": "f000000005" + "000f4240" + "40",
    "an array without a constructor": "e00100",
    "bytes after the value": "4040",
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_bytes_are_a_decode_error(name: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        decode_value(bytes.fromhex(WRONG[name]))
    assert caught.value.condition == Condition.DECODE_ERROR


@pytest.mark.parametrize(
    "opening", [b"\x00", b"\xc0\xff\x01", b"\xc1\xff\x02", b"\xe0\xff\x01\xe0"]
)
def test_values_nest_only_so_deep(opening: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_value(opening * 5000)


def test_the_greatest_depth_is_read_and_one_more_is_not() -> None:
    value: list[object] = []
    for _ in range(DEPTH_MAX):
        value = [value]
    assert decode_value(encode_value(value)) == value
    with pytest.raises(ProtocolError):
        decode_value(encode_value([value, 1]))


def test_free_items_of_all_arrays_together_are_bounded() -> None:
    one = b"\xf0\x00\x00\x00\x05\x00\x00\x00\x30\x40"
    assert decode_value(one) == Array("null", [None] * 48)
    with pytest.raises(ProtocolError):
        decode_value(b"\xc0\x15\x02" + one + one)


def test_keys_that_python_takes_for_equal_stay_apart() -> None:
    pairs = Pairs(((1, "long"), (UInt(1), "uint"), (True, "boolean"), (1.0, "double")))
    assert typed(decode_value(encode_value(pairs))) == typed(pairs)


def test_a_symbol_is_found_by_its_text() -> None:
    decoded = decode_value(encode_value({Symbol("x-opt"): 1}))
    assert isinstance(decoded, dict)
    assert decoded["x-opt"] == 1


def test_maps_with_keys_whose_hashes_a_peer_can_choose_are_pairs() -> None:
    assert decode_value(encode_value({UUID_1: 1})) == Pairs(((UUID_1, 1),))


@pytest.mark.parametrize(
    "value",
    [
        UByte(256),
        UInt(-1),
        ULong(1 << 64),
        1 << 63,
        Timestamp(1 << 63),
        Float32(1e300),
        Decimal32(b"abc"),
        Char("ab"),
        Symbol("€"),
        object(),
        Array("uint", ["text"]),
        Array("nothing", []),
    ],
)
def test_what_no_type_holds_is_refused(value: object) -> None:
    with pytest.raises(ValueError):
        encode_value(value)


def test_plain_numbers_and_text_may_stand_in_typed_arrays() -> None:
    assert encode_value(Array("uint", [1])) == encode_value(Array("uint", [UInt(1)]))
    assert encode_value(Array("symbol", ["a"])) == encode_value(Array("symbol", [Symbol("a")]))


i64s = st.integers(-(1 << 63), (1 << 63) - 1)
scalars: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(0, 255).map(UByte),
    st.integers(0, 0xFFFF).map(UShort),
    st.integers(0, 0xFFFFFFFF).map(UInt),
    st.integers(0, (1 << 64) - 1).map(ULong),
    st.integers(-128, 127).map(Byte),
    st.integers(-0x8000, 0x7FFF).map(Short),
    st.integers(-(1 << 31), (1 << 31) - 1).map(Int),
    i64s,
    st.floats(width=32, allow_nan=False).map(Float32),
    st.floats(allow_nan=False),
    st.binary(min_size=4, max_size=4).map(Decimal32),
    st.binary(min_size=8, max_size=8).map(Decimal64),
    st.binary(min_size=16, max_size=16).map(Decimal128),
    st.characters().map(Char),
    i64s.map(Timestamp),
    st.uuids(),
    st.binary(max_size=300),
    st.text(max_size=90),
    st.text(st.characters(max_codepoint=127), max_size=9).map(Symbol),
)
keys = st.text(max_size=9) | i64s | st.binary(max_size=9)
values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(keys, inner, max_size=4),
        st.builds(Described, scalars, inner),
        st.lists(st.lists(inner, max_size=3), max_size=3).map(lambda items: Array("list", items)),
        st.lists(st.integers(0, 400).map(UInt), max_size=5).map(lambda items: Array("uint", items)),
        st.lists(st.binary(max_size=300), max_size=3).map(
            lambda items: Array("binary", items, (ULong(1), Symbol("inner")))
        ),
    ),
    max_leaves=10,
)


@settings(BOUNDED, max_examples=150)
@given(values)
def test_any_value_is_decoded_to_itself_with_its_type(value: object) -> None:
    data = encode_value(value)
    again = decode_value(data)
    assert typed(again) == typed(value)
    assert encode_value(again) == data
    assert value_end(b"x" + data + b"y", 1, len(data) + 2) == len(data) + 1


@settings(BOUNDED)
@given(values)
def test_every_cut_is_refused(value: object) -> None:
    data = encode_value(value)
    for end in {0, len(data) // 3, len(data) // 2, len(data) - 1}:
        assert value_end(data, 0, end) == -1
        with pytest.raises(ProtocolError):
            decode_value(data, 0, end)


@settings(BOUNDED, max_examples=150)
@given(values, st.lists(st.tuples(st.integers(0, 9999), st.integers(0, 255)), max_size=4))
def test_any_bytes_are_decoded_or_refused(value: object, changes: list[tuple[int, int]]) -> None:
    data = bytearray(encode_value(value))
    for place, octet in changes:
        data[place % len(data)] = octet
    try:
        decoded = decode_value(bytes(data))
    except ProtocolError:
        return
    again = decode_value(encode_value(decoded))
    assert typed(again) == typed(decoded) or has_nan(decoded)


def has_nan(value: object) -> bool:
    return "nan" in repr(value).lower()


@settings(BOUNDED, max_examples=100)
@given(st.binary(max_size=64))
def test_any_bytes_at_all_end_in_a_value_or_a_decode_error(data: bytes) -> None:
    end = value_end(data, 0, len(data))
    try:
        reader = Reader(data, 0, len(data))
        reader.value()
    except ProtocolError as error:
        assert error.condition == Condition.DECODE_ERROR
    else:
        assert end == reader.pos


def test_negative_zero_and_infinities_stay_what_they_are() -> None:
    for number in (-0.0, math.inf, -math.inf):
        assert typed(decode_value(encode_value(number))) == typed(number)
        assert typed(decode_value(encode_value(Float32(number)))) == typed(Float32(number))
