"""Bodies in Avro, without Spark and without a broker."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow")
pytest.importorskip("fastavro")

import fastavro

from tests.spark.test_bodies import GIVEN, decoded
from warren.spark.avro import parse_avro
from warren.spark.bodies import BadBody, body_type
from warren.spark.body_types import ddl_of
from warren.spark.options import OptionError, read_options

LINE: Final = {"type": "record", "name": "Line", "fields": [{"name": "n", "type": "int"}]}
FIELDS: Final[dict[str, Any]] = {
    "id": "long",
    "note": ["null", "string"],
    "kind": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]},
    "day": {"type": "int", "logicalType": "date"},
    "at": {"type": "long", "logicalType": "timestamp-millis"},
    "time": {"type": "int", "logicalType": "time-millis"},
    "price": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2},
    "key": {"type": "string", "logicalType": "uuid"},
    "mark": {"type": "fixed", "name": "Mark", "size": 2},
    "lines": {"type": "array", "items": LINE},
    "best": "Line",
    "more": {"type": "map", "values": "double"},
    "raw": "bytes",
    "ok": "boolean",
    "small": "float",
}
SCHEMA: Final = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": name, "type": kind} for name, kind in FIELDS.items()],
}
TEXT: Final = json.dumps(SCHEMA)
ORDER: Final = {
    "id": 1 << 60,
    "note": None,
    "kind": "B",
    "day": date(2026, 11, 24),
    "at": datetime(2026, 11, 24, 8, 30, tzinfo=UTC),
    "time": 5,
    "price": Decimal("12.50"),
    "key": "k",
    "mark": b"ab",
    "lines": [{"n": 1}, {"n": -2}],
    "best": {"n": 3},
    "more": {"x": 0.5},
    "raw": b"\xff",
    "ok": True,
    "small": 0.5,
}


def encoded(schema: Any, value: Any) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def plain(schema: Any) -> Any:
    """Without the logical types that are not read as such, so that fastavro writes plain values."""
    text = json.dumps(schema)
    for each in ("uuid", "time-millis"):
        text = text.replace(f', "logicalType": "{each}"', "")
    return json.loads(text)


def test_avro_bodies_have_the_types_of_the_schema() -> None:
    body = encoded(plain(SCHEMA), ORDER)
    assert decoded([body], bodyFormat="avro", avroSchema=TEXT) == [ORDER]
    options = read_options(GIVEN | {"bodyFormat": "avro", "avroSchema": TEXT})
    assert ddl_of(body_type(options)) == (
        "struct<`id`: bigint, `note`: string, `kind`: string, `day`: date, `at`: timestamp, "
        "`time`: int, `price`: decimal(6,2), `key`: string, `mark`: binary, "
        "`lines`: array<struct<`n`: int>>, `best`: struct<`n`: int>, `more`: map<string, double>, "
        "`raw`: binary, `ok`: boolean, `small`: float>"
    )
    assert decoded([b"\x06abc"], bodyFormat="avro", avroSchema='"string"') == ["abc"]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (encoded(plain(SCHEMA), ORDER)[:-1], "does not fit the Avro schema: "),
        (encoded(plain(SCHEMA), ORDER) + b"..", "schema: 2 bytes are left"),
        (b"", "does not fit the Avro schema: EOFError"),
    ],
)
def test_a_body_that_does_not_fit_is_named_or_null(body: bytes, text: str) -> None:
    bodies = [encoded(plain(SCHEMA), ORDER), body]
    with pytest.raises(BadBody, match=f"^stream 'orders', offset 1: .*{text}"):
        decoded(bodies, bodyFormat="avro", avroSchema=TEXT)
    found = decoded(bodies, bodyFormat="avro", avroSchema=TEXT, badBody="null")
    assert found == [ORDER, None]


def test_a_decimal_with_more_digits_than_the_schema_has_does_not_fit() -> None:
    price = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 0}
    bodies = [b"\x02\x07", b"\x08" + (123456789).to_bytes(4)]
    options = {"bodyFormat": "avro", "avroSchema": json.dumps(price)}
    assert decoded(bodies, **options, badBody="null") == [Decimal(7), None]
    with pytest.raises(BadBody, match=r"^stream 'orders', offset 1: "):
        decoded(bodies, **options)


@given(st.lists(st.binary(max_size=60), max_size=3), st.integers(0, 70), st.binary(max_size=3))
def test_no_body_breaks_a_lenient_decoder(bodies: list[bytes], at: int, put: bytes) -> None:
    order = encoded(plain(SCHEMA), ORDER)
    given_ = [*bodies, order[:at] + put + order[at + len(put) :]]
    found = decoded(given_, bodyFormat="avro", avroSchema=TEXT, badBody="null")
    assert len(found) == len(given_)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ("{", "JSONDecodeError"),
        ('"lon"', "UnknownType: lon"),
        ('{"type": "record", "name": "R"}', "'body' has the type 'record'; not allowed"),
        ('["int", "string"]', "'body' is a union; allowed: a union of null and one type"),
        ('"null"', "'body' has the type 'null'; not allowed"),
        ('{"type": "record", "name": "R", "fields": []}', "'body' has the type 'record'"),
        ('{"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}', "'body[]' has"),
        (
            '{"type": "record", "name": "R", "fields": [{"name": "r", "type": ["null", "R"]}]}',
            "'r' has the type 'R'; not allowed",
        ),
        ('{"type": "bytes", "logicalType": "decimal", "precision": 50}', "a decimal of 50 digits"),
    ],
)
def test_a_schema_that_is_wrong_is_refused(schema: str, text: str) -> None:
    with pytest.raises(OptionError, match=r"^option 'avroSchema': ") as failed:
        parse_avro(schema)
    assert text in str(failed.value)
