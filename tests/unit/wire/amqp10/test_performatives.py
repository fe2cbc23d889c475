"""The generated composite types: current, golden bytes, round trips, cuts, and wrong fields."""

import sys
import xml.etree.ElementTree as ElementTree
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warren.wire.amqp10.codec import codes, performatives
from warren.wire.amqp10.codec.performatives import (
    Accepted,
    Attach,
    Begin,
    Close,
    Composite,
    Coordinator,
    Disposition,
    Error,
    Flow,
    Modified,
    Open,
    Rejected,
    SaslInit,
    SaslMechanisms,
    Source,
    Target,
    Transfer,
    read_performative,
    read_sasl_frame,
)
from warren.wire.amqp10.codec.reader import Reader
from warren.wire.amqp10.codec.values import Array, Described, Symbol, UInt, ULong
from warren.wire.amqp10.codec.writer import encode_value
from warren.wire.amqp10.errors import Condition, ProtocolError

BOUNDED = settings(max_examples=30, deadline=None, database=None)
ROOT = Path(__file__).resolve().parents[4]
XML = ROOT / "tools" / "specs" / "amqp-1-0"
CLASSES: list[type[Composite]] = [
    one
    for one in vars(performatives).values()
    if isinstance(one, type) and issubclass(one, Composite) and one is not Composite
]


def generator() -> ModuleType:
    spec = spec_from_file_location("generate_amqp10", ROOT / "tools" / "generate_amqp10.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def reader_of(data: bytes) -> Reader:
    return Reader(data, 0, len(data))


def read(data: bytes) -> Composite:
    reader = reader_of(data)
    result = read_performative(reader)
    reader.finish()
    return result


def composite(code: int, *fields: object) -> bytes:
    """A composite type whose fields are any values at all."""
    return encode_value(Described(ULong(code), list(fields)))


def refusal(data: bytes) -> tuple[str, str]:
    with pytest.raises(ProtocolError) as caught:
        read(data)
    return caught.value.condition.value, caught.value.text


@pytest.mark.source
def test_the_generated_files_are_current() -> None:
    for name, text in generator().generate(XML).items():
        assert (ROOT / "warren" / "wire" / "amqp10" / "codec" / name).read_text("utf-8") == text


@pytest.mark.source
def test_every_error_condition_of_the_specification_is_known() -> None:
    specification = generator().Specification(XML)
    published = {
        value
        for name, one in specification.types.items()
        if one.attrib.get("provides", "") == "error-condition"
        for value in specification.choices(name).values()
    }
    assert {condition.value for condition in Condition} == published


@pytest.mark.source
def test_every_constructor_of_the_specification_is_known_with_its_width() -> None:
    sized = {"1": codes.SIZE_U8, "4": codes.SIZE_U32}
    published = {}
    root = ElementTree.parse(XML / "types.bare.xml").getroot()
    for one in root.iter("{http://www.amqp.org/schema/amqp.xsd}encoding"):
        width, kind = one.attrib["width"], one.attrib["category"]
        size = int(width) if kind == "fixed" else sized[width]
        published[int(one.attrib["code"], 16)] = size
    known = {code: width for code, width in enumerate(codes.WIDTHS) if width != codes.UNKNOWN}
    assert known == published


def test_golden_bytes_of_an_open() -> None:
    opened = Open(container_id="c", max_frame_size=512, channel_max=63, idle_time_out=30_000)
    assert opened.encoded().hex(" ") == (
        "00 53 10 c0 12 05 a1 01 63 40 70 00 00 02 00 60 00 3f 70 00 00 75 30"
    )


def test_golden_bytes_of_a_flow() -> None:
    flow = Flow(next_incoming_id=0, incoming_window=400, next_outgoing_id=1, outgoing_window=7)
    assert flow.encoded().hex(" ") == "00 53 13 c0 0b 04 43 70 00 00 01 90 52 01 52 07"


def test_golden_bytes_of_a_disposition() -> None:
    disposition = Disposition(role=True, first=1, last=300, settled=True, state=Accepted())
    assert disposition.encoded().hex(" ") == (
        "00 53 15 c0 0e 05 41 52 01 70 00 00 01 2c 41 00 53 24 45"
    )


def test_a_composite_without_fields_is_an_empty_list() -> None:
    assert Close().encoded() == b"\x00\x53\x18\x45"
    assert read(b"\x00\x53\x18\x45") == Close()


def test_one_symbol_of_several_stands_alone_and_is_read_as_a_list() -> None:
    one = SaslMechanisms(sasl_server_mechanisms=["PLAIN"])
    assert one.encoded() == b"\x00\x53\x40\xc0\x08\x01\xa3\x05PLAIN"
    data = composite(0x40, Array("symbol", [Symbol("PLAIN")]))
    assert read_sasl_frame(reader_of(data)) == one


def test_descriptors_may_be_symbols_and_wide_numbers() -> None:
    closed = b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x18\xd0\x00\x00\x00\x04\x00\x00\x00\x00"
    assert read(closed) == Close()
    assert read(encode_value(Described(Symbol("amqp:close:list"), []))) == Close()


def test_an_attach_carries_its_termini() -> None:
    attach = Attach(
        name="link",
        handle=3,
        role=True,
        source=Source(
            address="/queues/q",
            filter={Symbol("rabbitmq:stream-offset-spec"): Described(Symbol("x"), "first")},
            default_outcome=Modified(delivery_failed=True),
            outcomes=["amqp:accepted:list", "amqp:modified:list"],
        ),
        target=Coordinator(capabilities=["amqp:local-transactions"]),
        unsettled={b"tag": None},
        max_message_size=(1 << 64) - 1,
        properties={"paired": True},
    )
    assert read(attach.encoded()) == attach


def test_every_wider_encoding_of_a_field_is_read() -> None:
    wide = composite(0x13, None, UInt(1), UInt(2), UInt(3), None, None, None, None, False)
    flow = Flow(incoming_window=1, next_outgoing_id=2, outgoing_window=3)
    assert read(wide) == flow
    numbers = "7000000001 7000000002 7000000003"
    widest = bytes.fromhex(f"005313 d00000001a 00000009 40 {numbers} 40404040 5600")
    assert read(widest) == flow


def test_fields_that_a_later_edition_adds_are_skipped() -> None:
    assert read(composite(0x18, None, "new", [1, 2])) == Close()


@pytest.mark.parametrize(
    ("data", "condition", "text"),
    [
        (composite(0x10), "amqp:invalid-field", "field container-id of open is mandatory"),
        (composite(0x10, None), "amqp:invalid-field", "field container-id of open is mandatory"),
        (composite(0x12, "n", UInt(0)), "amqp:invalid-field", "field role of attach is mandatory"),
        (
            composite(0x10, Symbol("c")),
            "amqp:decode-error",
            "field container-id of open: expected string, found symbol",
        ),
        (
            composite(0x14, ULong(1)),
            "amqp:decode-error",
            "field handle of transfer: expected uint, found ulong",
        ),
        (
            composite(0x18, Described(ULong(0x24), [])),
            "amqp:decode-error",
            "field error of close: not an error",
        ),
        (
            composite(0x18, Described(ULong(0x1D), [])),
            "amqp:invalid-field",
            "field condition of error is mandatory",
        ),
        (
            composite(0x15, True, UInt(1), None, None, Described(ULong(0x28), [])),
            "amqp:decode-error",
            "field state of disposition: not a known delivery-state",
        ),
        (composite(0x30), "amqp:decode-error", "unknown performative 0x30"),
        (b"\x00\xa3\x01x\x45", "amqp:decode-error", "unknown performative 0xff"),
        (b"\x45", "amqp:decode-error", "a described type was expected"),
        (
            b"\x00\x53\x18\xa1\x00",
            "amqp:decode-error",
            "the fields of close are string, not a list",
        ),
    ],
)
def test_a_wrong_field_is_named_with_its_type(data: bytes, condition: str, text: str) -> None:
    assert refusal(data) == (condition, text)


def test_a_settle_mode_that_does_not_exist_is_refused() -> None:
    data = Attach(name="n", handle=0, role=False, snd_settle_mode=3).encoded()
    assert refusal(data)[0] == "amqp:invalid-field"


def test_a_negative_number_does_not_fit_a_field() -> None:
    with pytest.raises(ValueError):
        Disposition(role=True, first=-1).encoded()


texts = st.text(max_size=8)
symbols = st.text(st.characters(max_codepoint=127), max_size=8)
uints = st.integers(0, 0xFFFFFFFF) | st.integers(0, 300)
maps = st.dictionaries(symbols, st.none() | st.booleans() | texts, max_size=3)

BY_KIND: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "ubyte": st.integers(0, 1),
    "ushort": st.integers(0, 0xFFFF),
    "uint": uints,
    "ulong": st.integers(0, (1 << 64) - 1),
    "timestamp": st.integers(-(1 << 63), (1 << 63) - 1),
    "binary": st.binary(max_size=300),
    "string": texts,
    "symbol": symbols,
    "symbols": st.lists(symbols, max_size=3),
    "map": maps.map(lambda found: {Symbol(key): value for key, value in found.items()}),
    "fields": maps,
    "value": texts,
    "message-id": texts | st.binary(max_size=9) | uints.map(ULong),
    "error": symbols.map(lambda condition: Error(condition=condition)),
    "delivery-state": st.sampled_from([Accepted(), Rejected(error=Error(condition="a:b"))]),
    "outcome": st.just(Accepted()),
    "source": texts.map(lambda address: Source(address=address)),
    "target": texts.map(lambda address: Target(address=address)),
}


@st.composite
def composites(draw: st.DrawFn) -> Composite:
    """Any composite type with any of its fields."""
    shape = draw(st.sampled_from(SHAPES))
    chosen = {}
    for field in shape.fields:
        if field.mandatory or draw(st.booleans()):
            chosen[field.name] = draw(BY_KIND[field.kind])
    made: Composite = getattr(performatives, shape.python_name)(**chosen)
    return made


SHAPES: list[Any] = generator().Specification(XML).composites() if XML.exists() else []


def read_as(one: Composite, data: bytes) -> Composite:
    reader = reader_of(data)
    assert reader.descriptor() == one.descriptor
    function = getattr(performatives, "read_" + one.type_name.replace("-", "_"))
    result: Composite = function(reader)
    reader.finish()
    return result


@pytest.mark.source
@settings(BOUNDED)
@given(composites())
def test_what_is_encoded_is_decoded_again(one: Composite) -> None:
    data = one.encoded()
    again = read_as(one, data)
    assert again == one
    assert again.encoded() == data


@pytest.mark.source
@settings(BOUNDED, max_examples=30)
@given(composites())
def test_every_cut_is_refused(one: Composite) -> None:
    data = one.encoded()
    for end in range(len(data)):
        with pytest.raises(ProtocolError):
            read_as(one, data[:end])


@settings(BOUNDED)
@given(st.binary(max_size=40), st.sampled_from([*range(0x10, 0x19), 0x41]))
def test_any_bytes_are_read_or_refused(rest: bytes, code: int) -> None:
    data = bytes((0, 0x53, code)) + rest
    try:
        (read_sasl_frame if code == 0x41 else read_performative)(reader_of(data))
    except ProtocolError as error:
        assert error.condition in (Condition.DECODE_ERROR, Condition.INVALID_FIELD)


def test_begin_transfer_and_sasl_init_keep_what_is_null_apart_from_zero() -> None:
    begin = read(Begin(next_outgoing_id=0, incoming_window=0, outgoing_window=0).encoded())
    assert isinstance(begin, Begin)
    assert (begin.remote_channel, begin.next_outgoing_id) == (None, 0)
    transfer = read(Transfer(handle=0, settled=False).encoded())
    assert isinstance(transfer, Transfer)
    assert (transfer.delivery_id, transfer.settled, transfer.more) == (None, False, False)
    init = read_sasl_frame(reader_of(SaslInit(mechanism="PLAIN", initial_response=b"").encoded()))
    assert isinstance(init, SaslInit)
    assert (init.initial_response, init.hostname) == (b"", None)
