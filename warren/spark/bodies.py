"""Bodies as text, JSON or Avro: the column `body` of a batch in the type that is asked for. No I/O.

    decoder = decoder_of(options)            # None: bodies stay binary
    batch = decoder.decode(batch)            # BadBody names the stream and the offset

A body that does not fit is an error, or null (`badBody`).
"""

import json
import sys
from base64 import b64decode
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Context, Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final, final

import pyarrow

from warren.spark.body_types import DIGITS_MAX, Type, parse_schema
from warren.spark.options import OptionError, ReadOptions

if TYPE_CHECKING:
    from warren.spark.avro import AvroSchema

SHOWN_MAX: Final = 60  # characters of a value in an error
EXACT: Final = Context(prec=DIGITS_MAX + 1)
FLOAT_MAX: Final = (2 - 2**-23) * 2.0**127  # of 32 bits
DOUBLE_MAX: Final = sys.float_info.max
UNFIT: Final = (ValueError, TypeError, OverflowError)  # of pyarrow, for a value of another type
Fit = Callable[[Any], Any]


class BadBody(Exception):
    """A body does not have the form that was asked for."""


class _Misfit(ValueError):
    """A value is not of the type; the text says which value of which field."""


@final
class BodyDecoder:
    """The bodies of batches as values of one type."""

    def __init__(self, kind: Type, decode: Callable[[bytes], Any], is_lenient: bool) -> None:
        self.kind = kind
        self._decode = decode
        self._is_lenient = is_lenient

    def decode(self, batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        """The same rows with decoded bodies. BadBody: one does not fit."""
        place = batch.schema.get_field_index("body")
        values = [
            self._value(batch, row, body)
            for row, body in enumerate(batch.column(place).to_pylist())
        ]
        try:
            column = pyarrow.array(values, self.kind)
        except UNFIT:
            fitted = [self._fitted(batch, row, value) for row, value in enumerate(values)]
            column = pyarrow.array(fitted, self.kind)
        return batch.set_column(place, pyarrow.field("body", self.kind), column)

    def _value(self, batch: pyarrow.RecordBatch, row: int, body: bytes) -> Any:
        try:
            return self._decode(body)
        except ValueError as error:  # Of JSON, of UTF-8, or a misfit.
            return self._bad(batch, row, error)

    def _fitted(self, batch: pyarrow.RecordBatch, row: int, value: Any) -> Any:
        try:
            pyarrow.array([value], self.kind)
        except UNFIT as error:
            return self._bad(batch, row, error)
        return value

    def _bad(self, batch: pyarrow.RecordBatch, row: int, error: Exception) -> None:
        """In place of a body that does not fit. BadBody."""
        if not self._is_lenient:
            queue, offset = (batch.column(name)[row].as_py() for name in ("queue", "offset"))
            where = f"queue '{queue}'" if offset is None else f"stream '{queue}', offset {offset}"
            raise BadBody(f"{where}: {error}; badBody=null makes such bodies null") from None


def shown(
    options: ReadOptions, batches: Iterator[pyarrow.RecordBatch]
) -> Iterator[pyarrow.RecordBatch]:
    """The batches as the query has them: with decoded bodies, and the columns of `columns`."""
    names = options.columns
    decoder = None if names and "body" not in names else decoder_of(options)
    if decoder is not None:
        batches = map(decoder.decode, batches)
    return (each.select(list(names)) for each in batches) if names else batches


def body_type(options: ReadOptions) -> Type:
    """Of the column `body`. OptionError: the schema is wrong."""
    decoder = decoder_of(options)
    return pyarrow.binary() if decoder is None else decoder.kind


def decoder_of(options: ReadOptions) -> BodyDecoder | None:
    """None: bodies stay binary. OptionError: the schema is wrong."""
    is_lenient = options.null_bad_bodies
    if options.body_format == "text":
        return BodyDecoder(pyarrow.string(), _text, is_lenient)
    if options.body_format == "json":
        kind = parse_schema(options.schema)
        return BodyDecoder(kind, _json(kind), is_lenient)
    if options.body_format == "avro":
        schema = _avro(options.schema)
        return BodyDecoder(schema.kind, schema.decode, is_lenient)
    return None


def _avro(text: str) -> "AvroSchema":
    try:
        from warren.spark.avro import parse_avro
    except ImportError as error:
        raise OptionError(f"option 'bodyFormat' is 'avro', which needs fastavro: {error}") from None
    return parse_avro(text)


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise _Misfit(f"the body is no UTF-8: {error.reason} at byte {error.start}") from None


def _json(kind: Type) -> Callable[[bytes], Any]:
    fit = _fit_of(kind, "")

    def decode(body: bytes) -> Any:
        try:
            # Not as binary floating point: decimals stay as they are written.
            value = json.loads(_text(body), parse_float=Decimal, parse_constant=_constant)
        except json.JSONDecodeError as error:
            raise _Misfit(f"the body is no JSON: {error}") from None
        except RecursionError:
            raise _Misfit("the body is no JSON that can be read: it is nested too deep") from None
        return fit(value)

    return decode


def _constant(name: str) -> Any:
    raise _Misfit(f"the body is no JSON: {name}")


# Values of JSON as values that pyarrow takes for the type


def _fit_of(kind: Type, name: str) -> Fit:
    """`name`: of the field, with those around it, for errors."""
    fit = _inner_fit(kind, name)

    def fitted(value: Any) -> Any:
        return None if value is None else fit(value)

    return fitted


def _inner_fit(kind: Type, name: str) -> Fit:
    types = pyarrow.types
    if types.is_struct(kind):
        return _struct(kind, name)
    if types.is_list(kind):
        return _list(kind, name)
    if types.is_map(kind):
        return _map(kind, name)
    if types.is_integer(kind):
        return _integer(kind, name)
    if types.is_decimal(kind):
        return _decimal(kind, name)
    if types.is_timestamp(kind):
        return _parsed(_timestamp, "timestamp", name)
    if types.is_date(kind):
        return _parsed(date.fromisoformat, "date", name)
    if types.is_binary(kind):
        return _parsed(lambda text: b64decode(text, validate=True), "text in base64", name)
    if types.is_floating(kind):
        return _floating(kind, name)
    return _string(name) if types.is_string(kind) else _boolean(name)


def _misfit(name: str, value: object, wanted: str) -> _Misfit:
    text = json.dumps(value, default=str)
    shown = text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}..."
    field = f"field '{name}'" if name else "the body"
    return _Misfit(f"{field} does not fit the schema: {shown} is no {wanted}")


def _struct(kind: Type, name: str) -> Fit:
    fields = [kind.field(place) for place in range(kind.num_fields)]
    inside = {each.name: _fit_of(each.type, f"{name}.{each.name}".lstrip(".")) for each in fields}

    def fit(value: Any) -> Any:
        if type(value) is not dict:
            raise _misfit(name, value, "object")
        return {key: each(value.get(key)) for key, each in inside.items()}

    return fit


def _list(kind: Type, name: str) -> Fit:
    inside = _fit_of(kind.value_type, f"{name}[]")

    def fit(value: Any) -> Any:
        if type(value) is not list:
            raise _misfit(name, value, "array")
        return [inside(each) for each in value]

    return fit


def _map(kind: Type, name: str) -> Fit:
    inside = _fit_of(kind.item_type, f"{name}[]")

    def fit(value: Any) -> Any:
        if type(value) is not dict:
            raise _misfit(name, value, "object")
        if not all(map(is_unicode, value)):
            raise _misfit(name, value, "object with keys in Unicode")
        return [(key, inside(each)) for key, each in value.items()]

    return fit


def _integer(kind: Type, name: str) -> Fit:
    limit = 1 << (kind.bit_width - 1)

    def fit(value: Any) -> Any:
        if type(value) is not int or not -limit <= value < limit:
            raise _misfit(name, value, f"whole number of {kind.bit_width} bits")
        return value

    return fit


def _decimal(kind: Type, name: str) -> Fit:
    unit, limit = Decimal(1).scaleb(-kind.scale), Decimal(10) ** (kind.precision - kind.scale)

    def fit(value: Any) -> Any:
        wanted = f"decimal({kind.precision},{kind.scale})"
        if type(value) not in (int, str, Decimal):
            raise _misfit(name, value, wanted)
        try:
            number = Decimal(value)
            exact = number.quantize(unit, context=EXACT)
        except InvalidOperation:
            raise _misfit(name, value, wanted) from None
        if exact != number or abs(number) >= limit:
            raise _misfit(name, value, wanted)
        return exact

    return fit


def _timestamp(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _parsed(parse: Callable[[str], Any], wanted: str, name: str) -> Fit:
    def fit(value: Any) -> Any:
        if type(value) is not str:
            raise _misfit(name, value, wanted)
        try:
            return parse(value)
        except ValueError:
            raise _misfit(name, value, wanted) from None

    return fit


def _floating(kind: Type, name: str) -> Fit:
    limit = FLOAT_MAX if kind.bit_width == 32 else DOUBLE_MAX

    def fit(value: Any) -> Any:
        try:
            found = float(value) if type(value) in (int, Decimal) else None
        except OverflowError:
            found = None
        if found is None or not abs(found) <= limit:
            raise _misfit(name, value, "number of floating point")
        return found

    return fit


def _string(name: str) -> Fit:
    def fit(value: Any) -> Any:
        if type(value) is not str or not is_unicode(value):
            raise _misfit(name, value, "string")
        return value

    return fit


def is_unicode(text: str) -> bool:
    """False: it has a half of a surrogate pair, which JSON can escape and UTF-8 cannot encode."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _boolean(name: str) -> Fit:
    def fit(value: Any) -> Any:
        if type(value) is not bool:
            raise _misfit(name, value, "boolean")
        return value

    return fit
