"""What a filter expression computes: a tree of operations, with three-valued logic. Compiled.

`queues.selectors.sql` parses text into it. NULL (None) stands for an absent field, for what cannot
be computed and for operands whose types do not fit.
"""

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

# Kinds of operations, and their operands.
LITERAL: Final = 0  # `literal`
FIELD: Final = 1  # `section`, `name`
FUNCTION: Final = 2  # `function` of the fields
ALL: Final = 3  # AND: False decides
ANY: Final = 4  # OR: True decides
NOT: Final = 5
IS_NULL: Final = 6
LIKE: Final = 7  # `segments`
COMPARED: Final = 8  # by `sign`
COMPUTED: Final = 9  # by `sign`

EQUAL: Final = 0
UNEQUAL: Final = 1
LESS: Final = 2
AT_MOST: Final = 3
MORE: Final = 4
AT_LEAST: Final = 5
ADD: Final = 6
SUBTRACT: Final = 7
MULTIPLY: Final = 8
DIVIDE: Final = 9
REMAINDER: Final = 10
SIGNS: Final[dict[str, int]] = {
    "=": EQUAL,
    "<>": UNEQUAL,
    "!=": UNEQUAL,
    "<": LESS,
    "<=": AT_MOST,
    ">": MORE,
    ">=": AT_LEAST,
    "+": ADD,
    "-": SUBTRACT,
    "*": MULTIPLY,
    "/": DIVIDE,
    "%": REMAINDER,
}
INTEGER_END: Final = 1 << 128  # integers reach to below it, and to above its negative

Field = Callable[[str, str], object]  # section, name
Number = int | float  # A compiled `float` alone would turn integers into floats, as `a + b` might.
LIKE_ONE: Final = ""  # stands for one character; others for themselves


@final
class Operation:
    """One operation; its operands are operations too."""

    def __init__(self, kind: i64, operands: list["Operation"], sign: i64 = 0) -> None:
        self.kind: i64 = kind
        self.operands = operands
        self.sign: i64 = sign
        self.literal: object = None
        self.section = ""
        self.name = ""
        self.function: Callable[[Field], object] | None = None
        self.segments: list[list[str]] = []

    def value(self, field: Field) -> object:
        """What comes out for a message whose fields are `field(section, name)`."""
        kind = self.kind
        if kind == FIELD:
            return field(self.section, self.name)
        if kind == LITERAL:
            return self.literal
        if kind == COMPARED:
            left = self.operands[0].value(field)
            return compare(left, self.sign, self.operands[1].value(field))
        if kind == COMPUTED:
            left = self.operands[0].value(field)
            return compute(left, self.sign, self.operands[1].value(field))
        if kind in (ALL, ANY):
            return self._decided(kind == ANY, field)
        if kind == FUNCTION:
            assert self.function is not None
            return self.function(field)
        operand = self.operands[0].value(field)
        if kind == IS_NULL:
            return operand is None
        if kind == NOT:
            return not operand if isinstance(operand, bool) else None
        return is_like(operand, self.segments) if isinstance(operand, str) else None

    def _decided(self, by: bool, field: Field) -> object:
        """Whether an operand is `by`, which decides; None: that is unknown."""
        found: object = not by
        for operand in self.operands:
            value = operand.value(field)
            if not isinstance(value, bool):
                found = None
            elif value == by:
                return by
        return found


def literal(value: object) -> Operation:
    made = Operation(LITERAL, [])
    made.literal = value
    return made


def field_named(section: str, name: str) -> Operation:
    made = Operation(FIELD, [])
    made.section = section
    made.name = name
    return made


def function_of(function: Callable[[Field], object]) -> Operation:
    made = Operation(FUNCTION, [])
    made.function = function
    return made


def like(operand: Operation, segments: list[list[str]]) -> Operation:
    made = Operation(LIKE, [operand])
    made.segments = segments
    return made


def compare(a: object, sign: i64, b: object) -> object:
    """Compare two values; None: one is absent or they are of different kinds."""
    if isinstance(a, bool) or isinstance(b, bool):
        if isinstance(a, bool) and isinstance(b, bool) and sign <= UNEQUAL:
            return (a == b) == (sign == EQUAL)
        return None
    if isinstance(a, int) and isinstance(b, int):
        return _ordered_integers(a, sign, b)
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return _ordered(a, sign, b)
    if isinstance(a, str) and isinstance(b, str):
        return _ordered(a, sign, b)
    if isinstance(a, bytes) and isinstance(b, bytes):
        return _ordered(a, sign, b)
    return None


def _ordered_integers(a: int, sign: i64, b: int) -> bool:
    if sign == EQUAL:
        return a == b
    if sign == UNEQUAL:
        return a != b
    if sign == LESS:
        return a < b
    if sign == AT_MOST:
        return a <= b
    if sign == MORE:
        return a > b
    return a >= b


def _ordered(a: object, sign: i64, b: object) -> bool:
    """The same for two numbers, or two texts."""
    if sign == EQUAL:
        return a == b
    if sign == UNEQUAL:
        return a != b
    if sign == LESS:
        return a < b  # type: ignore[operator,no-any-return]  # of one kind
    if sign == AT_MOST:
        return a <= b  # type: ignore[operator,no-any-return]
    if sign == MORE:
        return a > b  # type: ignore[operator,no-any-return]
    return a >= b  # type: ignore[operator,no-any-return]


def compute(a: object, sign: i64, b: object) -> object:
    """The result; None: there is none, or it is out of range. Integers divide towards zero."""
    if isinstance(a, bool) or isinstance(b, bool):
        return None
    if isinstance(a, int) and isinstance(b, int):
        return _computed_integers(a, sign, b)
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        try:
            return _computed(a, sign, b)
        except (OverflowError, ZeroDivisionError, ValueError):  # ValueError: not a number
            return None
    return None


def _computed_integers(a: int, sign: i64, b: int) -> object:
    if sign == ADD:
        found = a + b
    elif sign == SUBTRACT:
        found = a - b
    elif sign == MULTIPLY:
        found = a * b
    elif b == 0:
        return None
    else:
        quotient = (a if a >= 0 else -a) // (b if b >= 0 else -b)
        if (a < 0) != (b < 0):
            quotient = -quotient
        found = quotient if sign == DIVIDE else a - b * quotient
    return found if -INTEGER_END < found < INTEGER_END else None


def _computed(a: Number, sign: i64, b: Number) -> Number:
    """The same where one is a float. Raises OverflowError, ZeroDivisionError, ValueError."""
    if sign == ADD:
        return a + b
    if sign == SUBTRACT:
        return a - b
    if sign == MULTIPLY:
        return a * b
    return a / b if sign == DIVIDE else a - b * int(a / b)


def is_like(text: str, segments: list[list[str]]) -> bool:
    """Whether the text has all segments in order; takes at most len(text) * len(pattern) steps."""
    first, last = segments[0], segments[-1]
    if len(segments) == 1:
        return len(text) == len(first) and _fits(text, 0, first)
    if len(text) < len(first) + len(last) or not _fits(text, 0, first):
        return False
    end = len(text) - len(last)
    if not _fits(text, end, last):
        return False
    at = len(first)
    for segment in segments[1:-1]:
        while at + len(segment) <= end and not _fits(text, at, segment):
            at += 1
        if at + len(segment) > end:
            return False
        at += len(segment)
    return True


def _fits(text: str, at: int, segment: list[str]) -> bool:
    return all(each in (LIKE_ONE, text[at + place]) for place, each in enumerate(segment))
