"""SQL filter expressions over the fields of a message, with three-valued logic. Compiled.

    wants = parse_sql("properties.subject LIKE 'order.%' AND priority > 3")
    wants(field) is True        # `field(section, name)` gives a value, or None: absent

Grammar: OR, AND, NOT, comparisons (= <> != < <= > >=), [NOT] IN (...), [NOT] LIKE '...' [ESCAPE
'c'], [NOT] BETWEEN a AND b, IS [NOT] NULL, + - * / %, UTC(), parentheses, strings in single or
double quotes, binaries such as 0xFF, numbers, TRUE, FALSE. A name is `header.NAME` (`h.`),
`properties.NAME` (`p.`), `application_properties.NAME` (`a.`), or NAME alone for an application
property; [NAME] may have any character, with ]] for ]. In selectors of JMS, names such as
JMSPriority stand for fields of the message. What comes out of an expression says
`queues.selectors.sql_operations`; a message matches only if the expression is true.
"""

import re
from collections.abc import Callable
from typing import Final
from uuid import UUID

from queues.selectors.sql_operations import (
    ALL,
    ANY,
    COMPARED,
    COMPUTED,
    IS_NULL,
    LIKE_ONE,
    NOT,
    SIGNS,
    Field,
    Operation,
    field_named,
    function_of,
    like,
    literal,
)

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
    return found.value


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

    def disjunction(self) -> Operation:
        return self._joined("OR", ANY, self._conjunction)

    def _conjunction(self) -> Operation:
        return self._joined("AND", ALL, self._negation)

    def _joined(self, word: str, kind: int, operand: Callable[[], Operation]) -> Operation:
        parts = [operand()]
        while self._take("keyword", word):
            parts.append(operand())
        return parts[0] if len(parts) == 1 else Operation(kind, parts)

    def _negation(self) -> Operation:
        if self._take("keyword", "NOT") is None:
            return self._comparison()
        self._enter()
        inner = self._negation()
        self._depth -= 1
        return Operation(NOT, [inner])

    def _comparison(self) -> Operation:
        left = self._sum()
        sign = self._take("sign", *COMPARISONS)
        if sign is not None:
            return Operation(COMPARED, [left, self._sum()], SIGNS[sign])
        if self._take("keyword", "IS"):
            is_not = self._take("keyword", "NOT") is not None
            self._need("keyword", "NULL")
            found = Operation(IS_NULL, [left])
            return Operation(NOT, [found]) if is_not else found
        is_not = self._take("keyword", "NOT") is not None
        if self._take("keyword", "IN"):
            found = self._in(left)
        elif self._take("keyword", "LIKE"):
            found = self._like(left)
        elif self._take("keyword", "BETWEEN"):
            low = self._sum()
            self._need("keyword", "AND")
            high = self._sum()
            reached = Operation(COMPARED, [left, low], SIGNS[">="])
            found = Operation(ALL, [reached, Operation(COMPARED, [left, high], SIGNS["<="])])
        elif is_not:
            raise self.wrong("IN, LIKE or BETWEEN")
        else:
            return left
        return Operation(NOT, [found]) if is_not else found

    def _in(self, left: Operation) -> Operation:
        self._need("sign", "(")
        choices = [Operation(COMPARED, [left, self._sum()], SIGNS["="])]
        while self._take("sign", ","):
            choices.append(Operation(COMPARED, [left, self._sum()], SIGNS["="]))
        self._need("sign", ")")
        return Operation(ANY, choices)

    def _like(self, left: Operation) -> Operation:
        pattern, escape = self._string("a pattern in single quotes"), ""
        if self._take("keyword", "ESCAPE"):
            escape = self._string("an escape character in single quotes")
            if len(escape) != 1:
                raise self.wrong(f"one escape character, not {escape!r},")
        segments = _like_segments(pattern, escape)
        if segments is None:
            raise self.wrong(f"%, _ or {escape!r} behind each {escape!r} of the pattern")
        return like(left, segments)

    def _string(self, expected: str) -> str:
        text = self._take("string")
        if text is None:
            raise self.wrong(expected)
        return text[1:-1].replace(2 * text[0], text[0])

    def _sum(self) -> Operation:
        return self._chained(("+", "-"), self._product)

    def _product(self) -> Operation:
        return self._chained(("*", "/", "%"), self._factor)

    def _chained(self, signs: tuple[str, ...], operand: Callable[[], Operation]) -> Operation:
        found = operand()
        while sign := self._take("sign", *signs):
            self._enter()  # Each operator is a call deeper when it is evaluated.
            found = Operation(COMPUTED, [found, operand()], SIGNS[sign])
        return found

    def _factor(self) -> Operation:
        sign = self._take("sign", "-", "+")
        if sign is not None:
            self._enter()
            inner = self._factor()
            self._depth -= 1
            return Operation(COMPUTED, [literal(0), inner], SIGNS[sign])
        if self._take("sign", "("):
            self._enter()
            found = self.disjunction()
            self._depth -= 1
            self._need("sign", ")")
            return found
        if self.kind in ("word", "quoted"):
            return self._name()
        return self._literal()

    def _literal(self) -> Operation:
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
        return literal(value)

    def _name(self) -> Operation:
        position = self._tokens[self._at][2]
        is_word = self.kind == "word"
        name, section = self._part(), APPLICATION
        if is_word and self._take("sign", "("):
            if name.upper() != "UTC":
                raise BadExpression(f"position {position}: no function {name!r}; there is UTC()")
            self._need("sign", ")")
            return field_named(CLOCK, "")
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
        return field_named(section, name)

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


JMS_NAMES: Final[dict[str, Operation]] = {
    "JMSDeliveryMode": function_of(_delivery_mode),
    "JMSPriority": field_named("header", "priority"),
    "JMSMessageID": function_of(_message_id),
    "JMSTimestamp": field_named("properties", "creation_time"),
    "JMSCorrelationID": field_named("properties", "correlation_id"),
    "JMSType": field_named("properties", "subject"),
    "JMSXGroupID": field_named("properties", "group_id"),
    "JMSXGroupSeq": field_named("properties", "group_sequence"),
    "JMSXUserID": field_named("properties", "user_id"),
}


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
