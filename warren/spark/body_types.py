"""Types of a body: the option `schema` as types of Arrow, and as Spark writes them. No I/O.

    payload = parse_schema("id bigint, price decimal(10,2), tags array<string>")
    ddl_of(payload)          # struct<`id` bigint, ...>, for the schema that Spark asks for

The text has the form of Spark's DDL: names with types, separated by commas.
"""

import re
from typing import Any, Final

import pyarrow

from warren.spark.options import OptionError

Type = Any  # pyarrow.DataType; pyarrow has no types of its own
PLAIN: Final[dict[str, Type]] = {
    "boolean": pyarrow.bool_(),
    **dict.fromkeys(("tinyint", "byte"), pyarrow.int8()),
    **dict.fromkeys(("smallint", "short"), pyarrow.int16()),
    **dict.fromkeys(("int", "integer"), pyarrow.int32()),
    **dict.fromkeys(("bigint", "long"), pyarrow.int64()),
    **dict.fromkeys(("float", "real"), pyarrow.float32()),
    "double": pyarrow.float64(),
    "string": pyarrow.string(),
    "binary": pyarrow.binary(),
    "date": pyarrow.date32(),
    "timestamp": pyarrow.timestamp("us", "UTC"),
}
NAMES: Final = {kind: name for name, kind in reversed(PLAIN.items())}
ALLOWED: Final = f"{', '.join(PLAIN)}, decimal(P,S), array<T>, map<string,T>, struct<NAME T, ...>"
DIGITS_MAX: Final = 38  # of a decimal
TOKEN: Final = re.compile(r"\s*(?:(`(?:[^`]|``)+`)|(\w+)|([<>(),:]))")


def parse_schema(text: str) -> Type:
    """The struct of the option `schema`. OptionError: a name or type is wrong."""
    return _Parser(text).fields("")


def ddl_of(kind: Type) -> str:
    """The type as Spark writes it."""
    if pyarrow.types.is_struct(kind):
        fields = (kind.field(place) for place in range(kind.num_fields))
        inside = (f"`{each.name.replace('`', '``')}`: {ddl_of(each.type)}" for each in fields)
        return f"struct<{', '.join(inside)}>"
    if pyarrow.types.is_list(kind):
        return f"array<{ddl_of(kind.value_type)}>"
    if pyarrow.types.is_map(kind):
        return f"map<string, {ddl_of(kind.item_type)}>"
    if pyarrow.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return NAMES[kind]


class _Parser:
    """Goes through the text once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = []
        at = 0
        while text[at:].strip():
            found = TOKEN.match(text, at)
            if found is None:
                raise self._wrong(f"'{text[at:].strip()[0]}' is not expected")
            self._tokens.append(found.group().strip())
            at = found.end()
        self._at = 0

    def fields(self, end: str) -> Type:
        """Names and types up to the token `end`; empty: the end of the text."""
        found: list[tuple[str, Type]] = []
        while True:
            name = self._next()
            if not (name[:1] == "`" or re.fullmatch(r"\w+", name)):
                raise self._wrong(f"expected the name of a field, not '{name}'")
            if name[0] == "`":
                name = name[1:-1].replace("``", "`")
            if any(name == known for known, _ in found):
                raise self._wrong(f"the field '{name}' is there twice")
            if self._peek() == ":":
                self._next()
            found.append((name, self._type(name)))
            mark = self._next()
            if mark == end:
                return pyarrow.struct(found)
            if mark != ",":
                raise self._wrong(f"after the field '{name}' expected ',', not '{mark}'")

    def _type(self, name: str) -> Type:
        word = self._next()
        kind = word.lower()
        if kind in PLAIN:
            return PLAIN[kind]
        if kind == "decimal":
            return self._decimal()
        if kind not in ("array", "map", "struct"):
            raise self._wrong(f"the field '{name}' has the type '{word}'; allowed: {ALLOWED}")
        self._expect("<")
        if kind == "struct":
            return self.fields(">")
        if kind == "map":
            if self._next().lower() != "string":
                raise self._wrong(f"keys of the map '{name}' must be strings")
            self._expect(",")
        inside = self._type(name)
        self._expect(">")
        return pyarrow.list_(inside) if kind == "array" else pyarrow.map_(PLAIN["string"], inside)

    def _decimal(self) -> Type:
        if self._peek() != "(":
            return pyarrow.decimal128(10, 0)
        self._next()
        digits, scale = self._next(), "0"
        if self._peek() == ",":
            self._next()
            scale = self._next()
        self._expect(")")
        if not (digits.isdigit() and scale.isdigit() and int(scale) <= int(digits) <= DIGITS_MAX):
            raise self._wrong(f"decimal({digits},{scale}) has more than {DIGITS_MAX} digits")
        return pyarrow.decimal128(int(digits), int(scale))

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        found = self._peek()
        self._at += 1
        return found

    def _expect(self, token: str) -> None:
        found = self._next()
        if found != token:
            raise self._wrong(f"expected '{token}', not '{found}'")

    def _wrong(self, text: str) -> OptionError:
        return OptionError(f"option 'schema' is '{self._text}': {text}")
