"""Bodies in Avro: one value each, without a header. Needs fastavro.

    schema = parse_avro(text)         # OptionError: it is wrong, or cannot be a column
    schema.kind                       # the type of Arrow
    schema.decode(body)               # ValueError: the body does not fit

The logical types date, timestamp-millis, timestamp-micros and decimal become those of Spark; others
are read as the type that they are made of.
"""

import json
import struct
from io import BytesIO
from typing import Any, Final, final

import pyarrow
from fastavro import parse_schema, schemaless_reader
from fastavro.schema import SchemaParseException, UnknownType, expand_schema

from warren.spark.body_types import Type
from warren.spark.options import OptionError

PLAIN: Final[dict[str, Type]] = {
    "boolean": pyarrow.bool_(),
    "int": pyarrow.int32(),
    "long": pyarrow.int64(),
    "float": pyarrow.float32(),
    "double": pyarrow.float64(),
    "bytes": pyarrow.binary(),
    "fixed": pyarrow.binary(),
    "string": pyarrow.string(),
    "enum": pyarrow.string(),
}
TIME: Final = pyarrow.timestamp("us", "UTC")
LOGICAL: Final[dict[str, Type]] = {
    "date": pyarrow.date32(),
    "timestamp-millis": TIME,
    "timestamp-micros": TIME,
}
DECIMAL: Final = "decimal"
DIGITS_MAX: Final = 38
INSIDE: Final = ("type", "items", "values", "fields")  # have schemas in them
# What fastavro raises for bytes that do not fit.
FAULTS: Final = (ArithmeticError, EOFError, LookupError, TypeError, ValueError, struct.error)


@final
class AvroSchema:
    """A schema that can be a column."""

    def __init__(self, kind: Type, parsed: Any) -> None:
        self.kind = kind
        self._parsed = parsed

    def decode(self, body: bytes) -> Any:
        source = BytesIO(body)
        try:
            value = schemaless_reader(source, self._parsed, None)
        except FAULTS as error:
            said = f"{type(error).__name__} {error}".strip()
            raise ValueError(f"the body does not fit the Avro schema: {said}") from None
        if source.tell() != len(body):
            left = len(body) - source.tell()
            raise ValueError(f"the body does not fit the Avro schema: {left} bytes are left")
        return value


def parse_avro(text: str) -> AvroSchema:
    """OptionError: the text is no schema, or has a type that Spark does not have."""
    try:
        known = _known(json.loads(text))
        return AvroSchema(_type(expand_schema(known), "body"), parse_schema(known))
    except (SchemaParseException, UnknownType, ValueError, TypeError, LookupError) as error:
        kind = "" if type(error) is ValueError else f"{type(error).__name__}: "
        raise OptionError(f"option 'avroSchema': {kind}{error}") from None


def _known(schema: Any) -> Any:
    """The schema without logical types that Spark does not have."""
    if isinstance(schema, list):
        return [_known(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    logical = schema.get("logicalType")
    return {
        key: _known(each) if key in INSIDE else each
        for key, each in schema.items()
        if key != "logicalType" or logical in LOGICAL or logical == DECIMAL
    }


def _type(schema: Any, name: str) -> Type:
    """`name`: of the field, for errors. Types without a size are refused: a body of a few bytes
    could have any number of them."""
    if isinstance(schema, list):
        others = [each for each in schema if each != "null"]
        if len(others) != 1:
            raise ValueError(f"'{name}' is a union; allowed: a union of null and one type")
        return _type(others[0], name)
    kind, about = (schema, {}) if isinstance(schema, str) else (schema["type"], schema)
    if isinstance(kind, (dict, list)):
        return _type(kind, name)
    logical = about.get("logicalType")
    if logical == DECIMAL:
        return _decimal(about, name)
    if logical in LOGICAL:
        return LOGICAL[logical]
    if kind == "array":
        return pyarrow.list_(_type(about["items"], f"{name}[]"))
    if kind == "map":
        return pyarrow.map_(pyarrow.string(), _type(about["values"], f"{name}[]"))
    if kind in ("record", "error") and about["fields"]:
        fields = [(each["name"], _type(each["type"], each["name"])) for each in about["fields"]]
        return pyarrow.struct(fields)
    if kind not in PLAIN or about.get("size") == 0:
        raise ValueError(
            f"'{name}' has the type '{kind}'; not allowed: null alone, records without fields, "
            "fixed of size 0, and types that have themselves in them"
        )
    return PLAIN[kind]


def _decimal(about: dict[str, Any], name: str) -> Type:
    digits, scale = about.get("precision"), about.get("scale", 0)
    if not isinstance(digits, int) or not 0 < digits <= DIGITS_MAX or not 0 <= scale <= digits:
        raise ValueError(f"'{name}' is a decimal of {digits} digits; allowed: 1 to {DIGITS_MAX}")
    return pyarrow.decimal128(digits, scale)
