"""Bodies of batches as text and JSON, and the options that say so. Neither Spark nor a broker."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow")

from tests.spark.test_columns import rows_of
from tests.unit.wire.amqp10.test_rows import encoded, run_of
from warren.client import Message
from warren.spark.bodies import BadBody, body_type, decoder_of, shown
from warren.spark.body_types import ddl_of, parse_schema
from warren.spark.columns import Batches, batches_for, body_of, schema_of
from warren.spark.options import OptionError, read_options
from warren.wire.amqp10.codec.values import Array, Symbol, Timestamp, ULong
from warren.wire.amqp10.rows import StreamRows

GIVEN = {"url": "amqp://guest:guest@localhost", "stream": "s"}
SCHEMA = """id bigint, price DECIMAL(10,2), `a b`: string, tags array<string>, ok boolean,
    sizes map<string, double>, at timestamp, day date, raw binary,
    inner struct<n: tinyint, deep: struct<x int>>"""


def batch_with(bodies: list[bytes]) -> Any:
    rows = StreamRows(body_of)
    rows.add(run_of(encoded(0, [Message(each) for each in bodies])), len(bodies))
    return Batches("orders").of(rows)


def decoded(bodies: list[bytes], **options: str) -> list[Any]:
    decoder = decoder_of(read_options(GIVEN | options))
    assert decoder is not None
    batch = decoder.decode(batch_with(bodies))
    batch.validate(full=True)
    found: list[Any] = batch.column(batch.schema.get_field_index("body")).to_pylist(
        maps_as_pydicts="strict"
    )
    return found


def test_json_bodies_have_the_types_of_the_schema() -> None:
    body = {
        "id": 1 << 62,
        "price": 12.5,
        "a b": "ü",
        "tags": ["x", None],
        "ok": True,
        "sizes": {"m": 1, "l": 2.5},
        "at": "2026-11-24T08:30:00Z",
        "day": "2026-11-24",
        "raw": "AAE=",
        "inner": {"n": -128, "deep": {"x": 3}},
        "more": [1, {}],
    }
    full, empty, none = decoded(
        [json.dumps(body).encode(), b" {} ", b"null"], bodyFormat="json", schema=SCHEMA
    )
    assert full == {
        "id": 1 << 62,
        "price": Decimal("12.50"),
        "a b": "ü",
        "tags": ["x", None],
        "ok": True,
        "sizes": {"m": 1.0, "l": 2.5},
        "at": datetime(2026, 11, 24, 8, 30, tzinfo=UTC),
        "day": date(2026, 11, 24),
        "raw": b"\x00\x01",
        "inner": {"n": -128, "deep": {"x": 3}},
    }
    assert empty == dict.fromkeys(full) and none is None


@pytest.mark.parametrize(
    ("schema", "body", "text"),
    [
        (
            "a int",
            b'{"a": 2147483648}',
            "field 'a' does not fit the schema: 2147483648 is no whole",
        ),
        ("a int", b'{"a": true}', "true is no whole number of 32 bits"),
        ("a int", b'{"a": 1.0}', "is no whole number of 32 bits"),
        ("a string", b'{"a": 1}', "field 'a' does not fit the schema: 1 is no string"),
        ("a string", b'{"a": "\\ud800"}', "is no string"),
        ("a map<string,int>", b'{"a": {"\\ud800": 1}}', "keys in Unicode"),
        ("a double", b'{"a": 1e400}', "is no number of floating point"),
        ("a float", b'{"a": 1e39}', "is no number of floating point"),
        ("a double", b'{"a": NaN}', "the body is no JSON: NaN"),
        ("a decimal(4,2)", b'{"a": 100}', "100 is no decimal"),
        ("a decimal(4,2)", b'{"a": 1.001}', "is no decimal"),
        ("a decimal(38,0)", b'{"a": 1' + b"0" * 38 + b"}", "is no decimal"),
        ("a decimal(4,2)", b'{"a": "NaN"}', "is no decimal"),
        ("a boolean", b'{"a": 0}', "0 is no boolean"),
        ("a date", b'{"a": "2026-13-01"}', "is no date"),
        ("a timestamp", b'{"a": 5}', "5 is no timestamp"),
        ("a binary", b'{"a": "*"}', "is no text in base64"),
        ("a array<struct<b int>>", b'{"a": [{"b": 1}, {"b": "x"}]}', "field 'a\\[\\].b' does not"),
        ("a map<string,int>", b'{"a": {"k": "v"}}', '"v" is no whole number'),
        ("a int", b"[]", "the body does not fit the schema: \\[\\] is no object"),
        ("a int", b'{"a": 1} {"a": 2}', "the body is no JSON: Extra data"),
        ("a int", b"", "the body is no JSON"),
        ("a int", b"\xff", "the body is no UTF-8: invalid start byte at byte 0"),
        ("a int", b"[" * 100_000, "nested too deep"),
        ("a int", b"9" * 5000, "limit"),
    ],
)
def test_a_body_that_does_not_fit_is_named_or_null(schema: str, body: bytes, text: str) -> None:
    bodies = [b'{"a": null}', body]
    with pytest.raises(BadBody, match=f"^stream 'orders', offset 1: .*{text}"):
        decoded(bodies, bodyFormat="json", schema=schema)
    found = decoded(bodies, bodyFormat="json", schema=schema, badBody="null")
    assert found == [{"a": None}, None]


def test_bodies_in_utf8_are_texts() -> None:
    assert decoded(["ü".encode(), b""], bodyFormat="text") == ["ü", ""]
    with pytest.raises(BadBody, match=r"offset 1: the body is no UTF-8.*badBody=null"):
        decoded([b"", b"a\xff"], bodyFormat="text")
    assert decoded([b"", b"a\xff"], bodyFormat="text", badBody="null") == ["", None]


VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=8,
)


@given(st.lists(st.one_of(st.binary(max_size=20), VALUES.map(lambda v: json.dumps(v).encode()))))
def test_no_body_breaks_a_lenient_decoder(bodies: list[bytes]) -> None:
    schema = "a int, b string, c decimal(38,10), d array<double>, e map<string,float>, f timestamp"
    wrapped = [b'{"%c": %s}' % (b"abcdef"[n % 6], body) for n, body in enumerate(bodies)]
    for each in (bodies, wrapped):
        assert len(decoded(each, bodyFormat="json", schema=schema, badBody="null")) == len(each)


def test_types_are_written_as_spark_does() -> None:
    assert ddl_of(parse_schema("a INT, `b ``c`: decimal, d map<string,array<long>>")) == (
        "struct<`a`: int, `b ``c`: decimal(10,0), `d`: map<string, array<bigint>>>"
    )
    assert parse_schema(ddl_of(parse_schema(SCHEMA))[len("struct<") : -1]) == parse_schema(SCHEMA)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ("id bigin", "field 'id' has the type 'bigin'; allowed: boolean, tinyint"),
        ("id", "field 'id' has the type ''"),
        ("id int,", "expected the name of a field, not ''"),
        ("id int name string", "after the field 'id' expected ',', not 'name'"),
        ("id int, id int", "field 'id' is there twice"),
        ("m map<int,string>", "keys of the map 'm' must be strings"),
        ("a array<int", "expected '>', not ''"),
        ("d decimal(39,1)", "more than 38 digits"),
        ("a int; b int", "';' is not expected"),
        ("a struct<>", "expected the name of a field, not '>'"),
    ],
)
def test_a_schema_that_is_wrong_is_refused(schema: str, text: str) -> None:
    with pytest.raises(OptionError, match="option 'schema' is ") as failed:
        parse_schema(schema)
    assert text in str(failed.value)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"bodyFormat": "xml"}, "option 'bodyFormat' is 'xml'; allowed: binary, text, json, avro"),
        ({"bodyFormat": "json"}, "'bodyFormat' is 'json', which needs 'schema'"),
        ({"bodyFormat": "avro"}, "'bodyFormat' is 'avro', which needs 'avroSchema'"),
        ({"schema": "a int"}, "option 'schema' is for the option 'bodyFormat' 'json', not 'bina"),
        ({"avroSchema": '"int"', "bodyFormat": "text"}, "'avroSchema' is for the option 'bodyFo"),
        ({"badBody": "null"}, "option 'badBody' needs the option 'bodyFormat'"),
        ({"bodyFormat": "text", "badBody": "drop"}, "'badBody' is 'drop'; allowed: fail, null"),
        ({"startingTimestamp": "soon"}, "'startingTimestamp' is 'soon'; allowed: milliseconds"),
        ({"startingTimestamp": "5", "startingOffset": "5"}, "'startingOffset' and 'startingTime"),
        ({"endingTimestamp": "5", "endingOffset": "5"}, "'endingOffset' and 'endingTimestamp'"),
        ({"endingOffset": "last"}, "option 'endingOffset' is 'last'; allowed: a whole number"),
        ({"maxBytesPerTrigger": "1k"}, "option 'maxBytesPerTrigger' is '1k'; allowed: a whole"),
        ({"maxTriggerDelay": "1m"}, "'maxTriggerDelay' needs the option 'minOffsetsPerTrigger'"),
        (
            {"minOffsetsPerTrigger": "5", "maxTriggerDelay": "1 week"},
            "option 'maxTriggerDelay' is '1 week'; allowed: a number and a unit (ms, s, m, h, d)",
        ),
        (
            {"minOffsetsPerTrigger": "5", "maxMessagesPerTrigger": "4"},
            "'minOffsetsPerTrigger' is '5'; allowed: at most maxMessagesPerTrigger, which is 4",
        ),
        ({"failOnDataLoss": "no"}, "option 'failOnDataLoss' is 'no'; allowed: true, false"),
    ],
)
def test_an_option_that_is_wrong_is_named(options: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError) as failed:
        read_options(GIVEN | options)
    assert text in str(failed.value)


def test_times_are_milliseconds_or_iso_8601() -> None:
    for text in ("1500", "1970-01-01T00:00:01.500Z", "1970-01-01T01:00:01.5+01:00"):
        assert read_options(GIVEN | {"startingTimestamp": text}).starting_ms == 1500
    assert read_options(GIVEN | {"endingTimestamp": "1970-01-02"}).ending_ms == 86_400_000
    limits = read_options(GIVEN | {"minOffsetsPerTrigger": "9", "maxTriggerDelay": "250 ms"}).limits
    assert (limits.messages_min, limits.delay_max_s) == (9, 0.25)


def test_what_the_broker_adds_to_a_message_has_columns() -> None:
    death = {
        Symbol("queue"): "q",
        Symbol("reason"): Symbol("expired"),
        Symbol("count"): ULong(2),
        Symbol("exchange"): "",
        Symbol("routing-keys"): Array("string", ["k"]),
        Symbol("first-time"): Timestamp(1000),
        Symbol("last-time"): Timestamp(2500),
    }
    noted = {"x-opt-ingress-time": 1_500, "x-opt-deaths": Array("map", [death])}
    dead, plain, wild = rows_of(
        0,
        [
            Message(b"", annotations=noted),
            Message(b""),
            Message(b"", annotations={"x-opt-ingress-time": 1 << 62, "x-opt-deaths": "x"}),
        ],
    )
    assert dead["ingress_time"] == datetime.fromtimestamp(1.5, UTC) and dead["annotations"] is None
    (found,) = dead["deaths"]
    assert found == {
        "queue": "q",
        "reason": "expired",
        "count": 2,
        "exchange": "",
        "routing_keys": ["k"],
        "first_time": datetime.fromtimestamp(1, UTC),
        "ttl_ms": None,
        "last_time": datetime.fromtimestamp(2.5, UTC),
    }
    for each in (plain, wild):
        assert (each["ingress_time"], each["delivery_count"], each["deaths"]) == (None, 0, None)


def test_a_query_has_the_columns_that_it_asks_for() -> None:
    options = read_options(GIVEN | {"columns": "body, message_id", "bodyFormat": "text"})
    assert schema_of(options, body_type(options)) == "body string, message_id string"
    rows = StreamRows(body_of)
    rows.add(run_of(encoded(0, [Message(b"one", message_id="m"), Message(b"\xff")])), 2)
    batches = shown(options, iter([batches_for(options).of(rows)]))
    with pytest.raises(BadBody, match="stream 's', offset 1: the body is no UTF-8"):
        next(batches)
    lenient = replace(options, null_bad_bodies=True)
    (batch,) = shown(lenient, iter([batches_for(lenient).of(rows)]))
    batch.validate(full=True)
    assert batch.to_pylist() == [
        {"body": "one", "message_id": "m"},
        {"body": None, "message_id": None},
    ]
    without = replace(options, columns=("offset",))
    assert schema_of(without, body_type(without)) == "offset bigint"
    (batch,) = shown(without, iter([batches_for(without).of(rows)]))
    assert batch.to_pylist() == [{"offset": 0}, {"offset": 1}], "no body is decoded"


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ("", "option 'columns' is ''; allowed: names of columns"),
        ("body,,offset", "option 'columns' is 'body,,offset'; allowed"),
        ("body, body", "allowed: names of columns with commas between them, each once"),
        ("body, Size", "option 'columns' has 'Size'; allowed: queue, exchange, "),
    ],
)
def test_columns_that_a_query_cannot_have_are_named(columns: str, text: str) -> None:
    with pytest.raises(OptionError, match=text):
        schema_of(read_options(GIVEN | {"columns": columns}), None)
