"""The generated methods: current, round trips, cuts, and pamqp as a second opinion."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pamqp.commands
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.wire.frames import BOUNDED
from tests.unit.wire.test_fields import tables
from warren.wire.amqp091 import methods
from warren.wire.amqp091.methods import (
    TO_SERVER,
    BasicDeliver,
    BasicNack,
    ChannelFlow,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionBlocked,
    ConnectionUpdateSecret,
    Method,
    QueueDeclare,
    decode_method,
)
from warren.wire.errors import ProtocolError, ReplyCode

ROOT = Path(__file__).resolve().parents[3]
CLASSES: list[type[Method]] = [
    one
    for one in vars(methods).values()
    if isinstance(one, type) and issubclass(one, Method) and one is not Method
]


def generator() -> ModuleType:
    spec = spec_from_file_location("generate_amqp091", ROOT / "tools" / "generate_amqp091.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.source
def test_the_generated_file_is_current() -> None:
    module = generator()
    written = (ROOT / "warren" / "wire" / "amqp091" / "methods.py").read_text("utf-8")
    assert module.generate(module.SPEC) == written


def test_golden_bytes_of_queue_declare() -> None:
    method = QueueDeclare("q", durable=True, no_wait=True, arguments={"x": 1})
    assert method.encode() == (
        b"\x00\x32\x00\x0a\x00\x00\x01q\x12\x00\x00\x00\x07\x01xI\x00\x00\x00\x01"
    )


def test_golden_bytes_of_basic_deliver() -> None:
    method = BasicDeliver("c", 258, True, "x", b"\xff")
    assert method.encode() == b"\x00\x3c\x00\x3c\x01c\0\0\0\0\0\0\x01\x02\x01\x01x\x01\xff"


def test_neighbouring_bits_share_an_octet() -> None:
    assert BasicNack(1, multiple=True, requeue=True).encode()[-1] == 3
    assert ChannelFlow(True).encode() == b"\x00\x14\x00\x14\x01"


def test_rabbitmqs_additions_to_class_connection_are_there() -> None:
    assert ConnectionBlocked("low on memory").encode() == b"\x00\x0a\x00\x3c\x0dlow on memory"
    assert ConnectionUpdateSecret.identity in TO_SERVER
    assert ConnectionBlocked.identity not in TO_SERVER


WIDTHS = {"version_major": 8, "version_minor": 8, "reply_code": 16, "class_id": 16}
WIDTHS |= {"method_id": 16, "channel_max": 16, "heartbeat": 16, "prefetch_count": 16}
WIDTHS |= {"delivery_tag": 64}
THEIR_NAMES = {"no_wait": "nowait", "type": "exchange_type"}


def strategy(name: str, default: object) -> st.SearchStrategy[object]:
    short = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
    if isinstance(default, bool):
        return st.booleans()
    if isinstance(default, int):
        return st.integers(0, 2 ** WIDTHS.get(name, 32) - 1)
    if isinstance(default, str):
        return short
    if isinstance(default, bytes):
        return st.binary(max_size=255)
    return tables


@settings(BOUNDED, max_examples=150)
@given(st.sampled_from(CLASSES), st.data())
def test_decode_undoes_encode_for_every_method(one: type[Method], data: st.DataObject) -> None:
    empty = one()
    fields = {name: data.draw(strategy(name, getattr(empty, name))) for name in empty.field_names}
    method = one(**fields)
    again = decode_method(method.encode())
    assert type(again) is one
    assert again == method
    assert [getattr(again, name) for name in fields] == list(fields.values())


@pytest.mark.filterwarnings("ignore:This command is deprecated")
@pytest.mark.parametrize("one", CLASSES)
def test_pamqp_knows_the_same_fields_and_bytes(one: type[Method]) -> None:
    identity = one.identity
    theirs = pamqp.commands.INDEX_MAPPING.get(identity)
    if theirs is None:
        assert one.name.startswith("connection.update-secret")
        return
    fields: dict[str, object] = {}
    for name in one.field_names:
        default = getattr(one(), name)
        fields[name] = {bool: True, int: 7, str: "abc", bytes: b"abc", dict: {"k": "v"}}[
            type(default)
        ]
    method = one(**fields)
    theirs_filled = theirs()
    theirs_filled.unmarshal(method.encode()[4:])
    for name, value in fields.items():
        their_value = getattr(theirs_filled, THEIR_NAMES.get(name, name))
        assert their_value in (value, value.decode() if isinstance(value, bytes) else value)
    if one not in (ChannelOpen, ChannelOpenOk):  # Theirs fills the reserved field.
        assert theirs_filled.marshal() == method.encode()[4:]


@pytest.mark.parametrize("one", CLASSES)
def test_a_method_cut_short_or_too_long_is_a_frame_error(one: type[Method]) -> None:
    payload = one().encode()
    for cut in range(4, len(payload)):
        with pytest.raises(ProtocolError) as caught:
            decode_method(payload[:cut])
        assert caught.value.code == ReplyCode.FRAME_ERROR
        assert (caught.value.class_id << 16 | caught.value.method_id) == one.identity
    with pytest.raises(ProtocolError, match="cannot decode"):
        decode_method(payload + b"\x00")


def test_an_unknown_class_or_method_is_an_invalid_command() -> None:
    for payload in (b"\x00\x63\x00\x0a", b"\x00\x3c\x00\x0c"):
        with pytest.raises(ProtocolError, match="COMMAND_INVALID - unknown method"):
            decode_method(payload)


def test_a_payload_without_a_method_is_a_frame_error() -> None:
    for payload in (b"", b"\x00", b"\x00\x3c\x00"):
        with pytest.raises(ProtocolError, match="FRAME_ERROR"):
            decode_method(payload)


def test_a_short_string_that_is_not_utf8_is_a_frame_error() -> None:
    payload = QueueDeclare("é").encode().replace("é".encode(), b"\xff\xff")
    with pytest.raises(ProtocolError, match="FRAME_ERROR - Malformed UTF-8 in shortstr"):
        decode_method(payload)


@BOUNDED
@given(st.binary(max_size=60), st.sampled_from(CLASSES))
def test_any_arguments_decode_or_are_a_protocol_error(arguments: bytes, one: type[Method]) -> None:
    try:
        method = decode_method(one.identity.to_bytes(4, "big") + arguments)
    except ProtocolError as error:
        assert error.code == ReplyCode.FRAME_ERROR
    else:
        assert type(method) is one
