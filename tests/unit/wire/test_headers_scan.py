"""Headers tables of publishes: what no client library could decode closes the connection."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.wire.frames import (
    BOUNDED,
    error_of,
    failure,
    frame,
    message,
    method_frame,
    opened,
    plain,
)
from tests.unit.wire.test_fields import GOLDEN, nested, one_field, tables
from tests.unit.wire.test_methods import CLASSES
from warren.wire.amqp091.fields import TABLE_DEPTH_MAX, decode_table, encode_table, is_table
from warren.wire.amqp091.methods import BasicPublish, Method, decode_method
from warren.wire.amqp091.properties import BAD_HEADERS, HEADERS, BasicProperties, scan_properties
from warren.wire.errors import ProtocolError

LEGAL: dict[str, bytes] = {
    "empty": b"",
    "name of no bytes": b"\x00V",
    "name of 255 bytes": b"\xff" + b"n" * 255 + b"V",
    "name that is not UTF-8": b"\x01\xffV",
    "same name twice": b"\x01kV\x01kV",
    "L": b"\x01kL" + bytes(8),
    "empty string": b"\x01kS" + bytes(4),
    "empty array": b"\x01kA" + bytes(4),
    "empty table": b"\x01kF" + bytes(4),
    **{f"{kind.decode()} {value!r}": b"\x01k" + kind + value for kind, value, _ in GOLDEN},
}
DAMAGED: dict[str, bytes] = {
    "unknown kind": b"\x01kZ",
    "unknown kind with a value": b"\x01kZ" + bytes(4),
    "kind 0": b"\x01k\x00",
    "name alone": b"\x01k",
    "name of no bytes alone": b"\x00",
    "name cut": b"\x05abc",
    "name that is as long as the rest": b"\x02ab",
    "string longer than the table": b"\x01kS\x00\x00\x00\x09ab",
    "string length cut": b"\x01kS\x00\x00",
    "string length above 31 bits": b"\x01kS\xff\xff\xff\xff",
    "binary longer than the table": b"\x01kx\x00\x00\x00\x02a",
    "array longer than the table": b"\x01kA\x00\x00\x00\x03t\x01",
    "array length above 31 bits": b"\x01kA\x80\x00\x00\x00",
    "array with an item cut": b"\x01kA\x00\x00\x00\x02I\x00",
    "array with an item behind it": b"\x01kA\x00\x00\x00\x01t\x01",
    "inner table longer than the table": b"\x01kF\x00\x00\x00\x04\x01aV",
    "inner table cut": b"\x01kF\x00\x00\x00\x02\x01a\x56",
    "inner table with a length cut": b"\x01kF\x00",
    "a byte behind the last value": b"\x01kV\x00",
    **{
        f"{kind.decode()} {value!r} cut": b"\x01k" + kind + value[:-1]
        for kind, value, _ in GOLDEN
        if value
    },
}
PATHS = ("", "F", "A", "FA", "AF", "AAFF", "F" * (TABLE_DEPTH_MAX - 3))


def within(path: str, inside: bytes) -> bytes:
    """A headers table with this table somewhere inside; all lengths around it are right."""
    value = len(inside).to_bytes(4, "big") + inside
    kind = b"F"
    for outer in reversed(path):
        item = kind + value if outer == "A" else b"\x01n" + kind + value
        value = len(item).to_bytes(4, "big") + item
        kind = outer.encode()
    return value if kind == b"F" else one_field(kind, value)


def decodes(table: bytes) -> bool:
    try:
        decode_table(table)
    except ProtocolError:
        return False
    return True


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("case", LEGAL)
def test_every_legal_value_is_taken_at_every_nesting(case: str, path: str) -> None:
    table = within(path, LEGAL[case])
    assert decodes(table)
    assert is_table(table, 0, len(table))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("case", DAMAGED)
def test_every_damage_is_found_at_every_nesting(case: str, path: str) -> None:
    table = within(path, DAMAGED[case])
    assert not decodes(table)
    assert not is_table(table, 0, len(table))


@pytest.mark.parametrize("kind", range(256))
def test_the_same_kinds_are_known_as_to_the_decoder(kind: int) -> None:
    for size in range(10):
        table = one_field(bytes([kind]), bytes(size))
        assert is_table(table, 0, len(table)) == decodes(table)


@BOUNDED
@given(tables, st.data())
def test_damaged_tables_are_judged_as_by_the_decoder(
    table: dict[str, object], data: st.DataObject
) -> None:
    whole = bytearray(encode_table(table))
    assert is_table(bytes(whole), 0, len(whole))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(whole)))
        until = min(len(whole), at + data.draw(st.integers(0, 3)))
        whole[at:until] = data.draw(st.binary(max_size=3) | st.sampled_from([b"F", b"A", b"S"]))
    for damaged in (bytes(whole), (len(whole) - 4).to_bytes(4, "big", signed=True) + whole[4:]):
        assert is_table(b"??" + damaged + b"??", 2, len(damaged) + 2) == decodes(damaged)


@BOUNDED
@given(st.binary(max_size=80))
def test_any_bytes_are_judged_as_by_the_decoder(inside: bytes) -> None:
    table = len(inside).to_bytes(4, "big") + inside
    assert is_table(table, 0, len(table)) == decodes(table)


@pytest.mark.parametrize("depth", [TABLE_DEPTH_MAX, TABLE_DEPTH_MAX + 1, 10_000])
def test_nesting_has_the_bound_of_the_decoder(depth: int) -> None:
    table = nested(depth)
    assert is_table(table, 0, len(table)) == (depth <= TABLE_DEPTH_MAX)
    in_arrays = b"\x00\x00\x00\x00"
    for _ in range(depth - 2):
        in_arrays = (len(in_arrays) + 1).to_bytes(4, "big") + b"A" + in_arrays
    table = one_field(b"A", in_arrays)
    assert is_table(table, 0, len(table)) == (depth <= TABLE_DEPTH_MAX)


def publish(table: bytes, body: bytes = b"x", more: BasicProperties | None = None) -> bytes:
    """A whole publish with this headers table, and some properties before and behind it."""
    encoded = (more or BasicProperties()).encode()
    flags = int.from_bytes(encoded[:2], "big") | HEADERS
    before = 0
    if more is not None and more.content_type is not None:
        before = 1 + len(more.content_type)
    values = encoded[2 : 2 + before] + table + encoded[2 + before :]
    payload = b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + flags.to_bytes(2, "big") + values
    sent = method_frame(1, BasicPublish("", b"q")) + frame(2, 1, payload)
    return sent + frame(3, 1, body) if body else sent


MORE = BasicProperties(content_type="text/plain", delivery_mode=2, message_id="m")
REFUSED = "501 FRAME_ERROR - cannot decode <<0,0,0,3,1,107,90>>"


@pytest.mark.parametrize("body", [b"", b"x"])
@pytest.mark.parametrize("more", [None, MORE])
def test_a_publish_with_malformed_headers_fails_the_connection(
    body: bytes, more: BasicProperties | None
) -> None:
    data = publish(one_field(b"Z", b""), body, more)
    assert failure(opened(1), data) == REFUSED


def test_it_fails_the_connection_however_its_bytes_arrive() -> None:
    data = publish(one_field(b"Z", b""), b"x", MORE)
    for step in (1, 20, len(data) - 10):
        connection = opened(1)
        texts: list[tuple[object, ...]] = []
        for at in range(0, len(data), step):
            texts += plain(connection.receive(data[at : at + step], 0))
        assert texts == [("failed", REFUSED.removeprefix("501 "))]


def test_what_was_published_before_it_in_the_same_read_counts() -> None:
    good = publish(one_field(b"I", bytes(4)))
    bad = publish(one_field(b"Z", bytes(4)))
    events = plain(opened(1).receive(good * 3 + bad + good, 0))
    assert [entry[0] for entry in events] == ["publish"] * 3 + ["failed"]


def test_the_error_names_basic_publish() -> None:
    connection = opened(1)
    [event] = connection.receive(publish(one_field(b"Z", b"")), 0)
    error = error_of(event)
    assert (error.class_id, error.method_id) == (60, 40)


def test_headers_that_are_nested_too_deeply_fail_the_connection() -> None:
    text = failure(opened(1), publish(nested(5_000)))
    assert text == "501 FRAME_ERROR - field table is nested deeper than 32"


def test_the_scan_tells_malformed_headers_from_other_damage() -> None:
    bad = b"\x20\x00" + one_field(b"Z", b"")
    assert scan_properties(bad, 0, len(bad)) == BAD_HEADERS
    assert scan_properties(bad[:-1], 0, len(bad) - 1) == -1


def test_publishes_with_legal_headers_are_taken() -> None:
    data = publish(b"\x00\x00\x00\x00") + message(1, b"x", properties=MORE)
    for inside in LEGAL.values():
        data += publish(len(inside).to_bytes(4, "big") + inside)
    assert [entry[0] for entry in plain(opened(1).receive(data, 0))] == ["publish"] * (
        len(LEGAL) + 2
    )


WITH_TABLE = [
    (one, name)
    for one in CLASSES
    for name in one.field_names
    if isinstance(getattr(one(), name), dict)
]


@pytest.mark.parametrize(("one", "field"), WITH_TABLE)
def test_the_tables_of_methods_are_decoded_to_the_innermost(one: type[Method], field: str) -> None:
    sound = one(**{field: {"k": "v"}}).encode()
    for path in ("", "F", "AF"):
        for inside in DAMAGED.values():
            damaged = sound.replace(encode_table({"k": "v"}), within(path, inside))
            with pytest.raises(ProtocolError, match="FRAME_ERROR - cannot decode"):
                decode_method(damaged)
    with pytest.raises(ProtocolError, match="nested deeper than 32"):
        decode_method(sound.replace(encode_table({"k": "v"}), nested(10_000)))
