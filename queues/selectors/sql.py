"""SQL filter expressions over the fields of a message, with three-valued logic. Compiled.

    wants = parse_sql("properties.subject LIKE 'order.%' AND priority > 3")
    wants(field) is True        # `field(section, name)` gives a value, or None: absent

Grammar: OR, AND, NOT, comparisons (= <> != < <= > >=), [NOT] IN (...), [NOT] LIKE '...' [ESCAPE
'c'], [NOT] BETWEEN a AND b, IS [NOT] NULL, + - * / %, UTC(), parentheses, strings in single or
double quotes, binaries such as 0xFF, numbers, TRUE, FALSE. A name is `header.NAME` (`h.`),
`properties.NAME` (`p.`), `application_properties.NAME` (`a.`), or NAME alone for an application
property; [NAME] may have any character, with ]] for ]. In selectors of JMS, names such as
JMSPriority stand for fields of the message. NULL stands for an absent field, for what cannot be
computed and for operands whose types do not fit; a message matches only if the expression is true.
"""

import operator
import re
from collections.abc import Callable
from typing import Final
from uuid import UUID

TEXT_MAX: Final = 4096  # characters of an expression
TOKENS_MAX: Final = 1024
DEPTH_MAX: Final = 64
APPLICATION: Final = "application_properties"
CLOCK: Final = "utc"  # the section of the time in ms since 1970
SECTIONS: Final = {
    "h": "header",
    "header": "header",
    "p": "properties",
    "properties": "properties",
    "a": APPLICATION,
    APPLICATION: APPLICATION,
    "application-properties": APPLICATION,
}
FIELDS: Final = {
    "header": frozenset(("durable", "priority", "ttl", "first_acquirer", "delivery_count")),
    "properties": frozenset(
        (
            *("message_id", "user_id", "to", "subject", "reply_to", "correlation_id"),
            *("content_type", "content_encoding", "absolute_expiry_time", "creation_time"),
            *("group_id", "group_sequence", "reply_to_group_id"),
        )
    ),
}
TOKEN: Final = re.compile(
    r"""\s*(?:
    (?P<binary>0[xX](?:[0-9A-Fa-f]{2})+(?!\w))
    |(?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+)
    |(?P<string>'(?:[^']|'')*'|"(?:[^"]|"")*")
    |(?P<quoted>\[(?:[^\]]|\]\])*\])
    |(?P<word>[A-Za-z_$][\w$]*)
    |(?P<sign><>|!=|<=|>=|[=<>+\-*/%(),.])
    )""",
    re.VERBOSE | re.ASCII,
)
KEYWORDS: Final = frozenset(
    ("AND", "OR", "NOT", "IN", "LIKE", "ESCAPE", "BETWEEN", "IS", "NULL", "TRUE", "FALSE")
)
COMPARISONS: Final = ("=", "<>", "!=", "<", "<=", ">", ">=")

Field = Callable[[str, str], object]  # section, name
Number = int | float  # A compiled `float` alone would turn integers into floats, as `a + b` might.
EXACT: Final[dict[str, Callable[[object, object], object]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}
Expression = Callable[[Field], object]


class BadExpression(Exception):
    """An expression that is wrong at a place, which the text names."""


def parse_sql(text: str, jms: bool = False) -> Expression:
    """Parse a filter expression, or a selector of JMS; BadExpression names position and reason."""
    if len(text) > TEXT_MAX:
        raise BadExpression(f"{len(text)} characters; at most {TEXT_MAX} are allowed")
    parser = _Parser(_tokens(text), jms)
    found = parser.disjunction()
    if parser.kind != "end":
        raise parser.wrong("an operator or the end")
    return found


def _tokens(text: str) -> list[tuple[str, str, int]]:
    """Kind, text and position of each; the last one is of kind `end`."""
    found: list[tuple[str, str, int]] = []
    at, end = 0, len(text.rstrip())
    while at < end:
        match = TOKEN.match(text, at)
        if match is None:
            while text[at].isspace():
                at += 1
            raise BadExpression(f"position {at}: {text[at]!r} begins nothing that is allowed")
        kind = str(match.lastgroup)
        value, begin = match.group(kind), match.start(kind)
        if kind == "word" and value.upper() in KEYWORDS:
            kind, value = "keyword", value.upper()
        found.append((kind, value, begin))
        at = match.end()
        if len(found) > TOKENS_MAX:
            raise BadExpression(f"position {at}: more than {TOKENS_MAX} words and signs")
    return [*found, ("end", "", end)]


class _Parser:
    """Recursive descent; each method parses one level of precedence."""

    def __init__(self, tokens: list[tuple[str, str, int]], jms: bool) -> None:
        self._tokens = tokens
        self._jms = jms
        self._at = 0
        self._depth = 0

    @property
    def kind(self) -> str:
        return self._tokens[self._at][0]

    def wrong(self, expected: str) -> BadExpression:
        kind, text, position = self._tokens[self._at]
        found = "the end" if kind == "end" else repr(text)
        return BadExpression(f"position {position}: found {found}, expected {expected}")

    def _take(self, kind: str, *texts: str) -> str | None:
        """Take the next token if it is one of these."""
        found, text, _ = self._tokens[self._at]
        if found != kind or (texts and text not in texts):
            return None
        self._at += 1
        return text

    def _need(self, kind: str, text: str) -> None:
        if self._take(kind, text) is None:
            raise self.wrong(repr(text))

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            position = self._tokens[self._at][2]
            raise BadExpression(f"position {position}: nested deeper than {DEPTH_MAX}")

    def disjunction(self) -> Expression:
        return self._joined("OR", True, self._conjunction)

    def _conjunction(self) -> Expression:
        return self._joined("AND", False, self._negation)

    def _joined(self, word: str, by: bool, operand: Callable[[], Expression]) -> Expression:
        parts = [operand()]
        while self._take("keyword", word):
            parts.append(operand())
        return parts[0] if len(parts) == 1 else _decided(by, parts)

    def _negation(self) -> Expression:
        if self._take("keyword", "NOT") is None:
            return self._comparison()
        self._enter()
        inner = self._negation()
        self._depth -= 1
        return _not(inner)

    def _comparison(self) -> Expression:
        left = self._sum()
        sign = self._take("sign", *COMPARISONS)
        if sign is not None:
            return _compared(left, sign, self._sum())
        if self._take("keyword", "IS"):
            is_not = self._take("keyword", "NOT") is not None
            self._need("keyword", "NULL")
            return lambda field: (left(field) is None) != is_not
        is_not = self._take("keyword", "NOT") is not None
        if self._take("keyword", "IN"):
            found = self._in(left)
        elif self._take("keyword", "LIKE"):
            found = self._like(left)
        elif self._take("keyword", "BETWEEN"):
            low = self._sum()
            self._need("keyword", "AND")
            high = self._sum()
            found = _decided(False, [_compared(left, ">=", low), _compared(left, "<=", high)])
        elif is_not:
            raise self.wrong("IN, LIKE or BETWEEN")
        else:
            return left
        return _not(found) if is_not else found

    def _in(self, left: Expression) -> Expression:
        self._need("sign", "(")
        choices = [_compared(left, "=", self._sum())]
        while self._take("sign", ","):
            choices.append(_compared(left, "=", self._sum()))
        self._need("sign", ")")
        return _decided(True, choices)

    def _like(self, left: Expression) -> Expression:
        pattern, escape = self._string("a pattern in single quotes"), ""
        if self._take("keyword", "ESCAPE"):
            escape = self._string("an escape character in single quotes")
            if len(escape) != 1:
                raise self.wrong(f"one escape character, not {escape!r},")
        segments = _like_segments(pattern, escape)
        if segments is None:
            raise self.wrong(f"%, _ or {escape!r} behind each {escape!r} of the pattern")

        def evaluate(field: Field) -> object:
            value = left(field)
            return is_like(value, segments) if isinstance(value, str) else None

        return evaluate

    def _string(self, expected: str) -> str:
        text = self._take("string")
        if text is None:
            raise self.wrong(expected)
        return text[1:-1].replace(2 * text[0], text[0])

    def _sum(self) -> Expression:
        return self._chained(("+", "-"), self._product)

    def _product(self) -> Expression:
        return self._chained(("*", "/", "%"), self._factor)

    def _chained(self, signs: tuple[str, ...], operand: Callable[[], Expression]) -> Expression:
        found = operand()
        while sign := self._take("sign", *signs):
            self._enter()  # Each operator is a call deeper when it is evaluated.
            found = _computed(found, sign, operand())
        return found

    def _factor(self) -> Expression:
        sign = self._take("sign", "-", "+")
        if sign is not None:
            self._enter()
            inner = self._factor()
            self._depth -= 1
            return _computed(lambda field: 0, sign, inner)
        if self._take("sign", "("):
            self._enter()
            found = self.disjunction()
            self._depth -= 1
            self._need("sign", ")")
            return found
        if self.kind in ("word", "quoted"):
            return self._name()
        return self._literal()

    def _literal(self) -> Expression:
        value: object
        if self.kind == "string":
            value = self._string("a string")
        elif self.kind == "binary":
            value = bytes.fromhex((self._take("binary") or "")[2:])
        elif self.kind == "number":
            text = self._take("number") or ""
            value = _number(text)
        else:
            word = self._take("keyword", "TRUE", "FALSE", "NULL")
            if word is None:
                raise self.wrong("a name, a literal or '('")
            value = None if word == "NULL" else word == "TRUE"
        return lambda field: value

    def _name(self) -> Expression:
        position = self._tokens[self._at][2]
        is_word = self.kind == "word"
        name, section = self._part(), APPLICATION
        if is_word and self._take("sign", "("):
            if name.upper() != "UTC":
                raise BadExpression(f"position {position}: no function {name!r}; there is UTC()")
            self._need("sign", ")")
            return lambda field: field(CLOCK, "")
        if name.lower() == "application" and self._is_next("-", "properties"):
            self._at += 2
            name = APPLICATION
        if is_word and self._take("sign", "."):
            known = SECTIONS.get(name.lower())
            if known is None:
                raise BadExpression(f"position {position}: unknown section {name!r}")
            section, name = known, self._part()
            if section != APPLICATION:
                name = self._field_name(section, name)
                if name not in FIELDS[section]:
                    raise BadExpression(f"position {position}: no field {name!r} in {section}")
        elif is_word and self._jms and name.startswith("JMS"):
            found = JMS_NAMES.get(name)
            if found is None:
                raise BadExpression(f"position {position}: {name!r} cannot be selected by")
            return found
        return lambda field: field(section, name)

    def _is_next(self, *texts: str) -> bool:
        """Whether these signs and words come next."""
        following = self._tokens[self._at : self._at + len(texts)]
        return [text for _, text, _ in following] == list(texts)

    def _field_name(self, section: str, name: str) -> str:
        """A name with hyphens, such as message-id, is that of a field if there is one."""
        name = name.replace("-", "_")
        while self._is_next("-") and self._tokens[self._at + 1][0] == "word":
            longer = f"{name}_{self._tokens[self._at + 1][1]}"
            if not any(known.startswith(longer) for known in FIELDS[section]):
                break
            name = longer
            self._at += 2
        return name

    def _part(self) -> str:
        quoted = self._take("quoted")
        if quoted is not None:
            return quoted[1:-1].replace("]]", "]")
        word = self._take("word")
        if word is None:
            raise self.wrong("a name")
        return word


def _number(text: str) -> object:
    if text.isdigit():
        return int(text)
    return float(text)


def _delivery_mode(field: Field) -> object:
    return "PERSISTENT" if field("header", "durable") is True else "NON_PERSISTENT"


def _message_id(field: Field) -> object:
    """The id as Qpid JMS shows it."""
    value = field("properties", "message_id")
    if isinstance(value, str):
        return value if value.startswith("ID:") else f"ID:AMQP_NO_PREFIX:{value}"
    if isinstance(value, UUID):
        return f"ID:AMQP_UUID:{value}"
    if isinstance(value, bytes):
        return f"ID:AMQP_BINARY:{value.hex().upper()}"
    return None if value is None else f"ID:AMQP_ULONG:{value}"


def _named(section: str, name: str) -> Expression:
    return lambda field: field(section, name)


JMS_NAMES: Final[dict[str, Expression]] = {
    "JMSDeliveryMode": _delivery_mode,
    "JMSPriority": _named("header", "priority"),
    "JMSMessageID": _message_id,
    "JMSTimestamp": _named("properties", "creation_time"),
    "JMSCorrelationID": _named("properties", "correlation_id"),
    "JMSType": _named("properties", "subject"),
    "JMSXGroupID": _named("properties", "group_id"),
    "JMSXGroupSeq": _named("properties", "group_sequence"),
    "JMSXUserID": _named("properties", "user_id"),
}


def _decided(by: bool, parts: list[Expression]) -> Expression:
    """OR of the parts, where True decides, or AND, where False does; None: one is unknown."""

    def evaluate(field: Field) -> object:
        found: object = not by
        for part in parts:
            value = part(field)
            if value is by:
                return by
            if value is not (not by):
                found = None
        return found

    return evaluate


def _not(part: Expression) -> Expression:
    def evaluate(field: Field) -> object:
        value = part(field)
        return not value if isinstance(value, bool) else None

    return evaluate


def _compared(left: Expression, sign: str, right: Expression) -> Expression:
    def evaluate(field: Field) -> object:
        return compare(left(field), sign, right(field))

    return evaluate


def compare(a: object, sign: str, b: object) -> bool | None:
    """Compare two values; None: one is absent or they are of different kinds."""
    if is_number(a) and is_number(b):
        return ordered(a, sign, b)
    if isinstance(a, str) and isinstance(b, str):
        return ordered(a, sign, b)
    if isinstance(a, bytes) and isinstance(b, bytes):
        return ordered(a, sign, b)
    if isinstance(a, bool) and isinstance(b, bool) and sign in ("=", "<>", "!="):
        return (a is b) == (sign == "=")
    return None


def is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def ordered(a: object, sign: str, b: object) -> bool:
    if sign == "=":
        return a == b
    if sign in ("<>", "!="):
        return a != b
    if sign == "<":
        return a < b  # type: ignore[operator,no-any-return]  # both numbers, or both of one kind
    if sign == "<=":
        return a <= b  # type: ignore[operator,no-any-return]
    if sign == ">":
        return a > b  # type: ignore[operator,no-any-return]
    return a >= b  # type: ignore[operator,no-any-return]


def _computed(left: Expression, sign: str, right: Expression) -> Expression:
    def evaluate(field: Field) -> object:
        a, b = left(field), right(field)
        if isinstance(a, bool) or isinstance(b, bool):
            return None
        if not isinstance(a, (int, float)) or not isinstance(b, (int, float)):
            return None
        return compute(a, sign, b)

    return evaluate


def compute(a: Number, sign: str, b: Number) -> object:
    """The result; None: there is none, or it is out of range. Integers divide towards zero."""
    exact = EXACT.get(sign)
    try:
        found = _divided(a, sign, b) if exact is None else exact(a, b)
    except (OverflowError, ZeroDivisionError):
        return None
    if isinstance(found, int) and found.bit_length() > 128:
        return None
    return found


def _divided(a: Number, sign: str, b: Number) -> Number:
    if not (isinstance(a, int) and isinstance(b, int)):
        return a / b if sign == "/" else a - b * int(a / b)
    quotient = abs(a) // abs(b)
    if (a < 0) != (b < 0):
        quotient = -quotient
    return quotient if sign == "/" else a - b * quotient


LIKE_ONE: Final = ""  # stands for one character; others for themselves


def _like_segments(pattern: str, escape: str) -> list[list[str]] | None:
    """What is between the % of a pattern, as characters; None: an escape escapes nothing."""
    segments: list[list[str]] = [[]]
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if escape and char == escape:
            at += 1
            if at == len(pattern) or pattern[at] not in ("%", "_", escape):
                return None
            segments[-1].append(pattern[at])
        elif char == "%":
            segments.append([])
        else:
            segments[-1].append(LIKE_ONE if char == "_" else char)
        at += 1
    return segments


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
