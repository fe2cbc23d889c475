"""What a consumer selects by: terms, all of which a message must match, and their bytes.

A term is a SQL expression, a JMS selector, a map of properties or a map of application properties.
Bytes name a selector in commands (`queues.machine.commands.Attach`) and on all nodes: equal terms
have equal bytes. They are a list of AMQP 1.0 values, kind and value of each term. No I/O.
"""

from typing import Final

from queues.machine.command_fields import SELECTOR_BYTES_MAX
from queues.selectors.message_fields import (
    BadFilter,
    Clock,
    Selector,
    property_filter,
    selector_of,
)
from queues.selectors.sql import APPLICATION, Expression, parse_sql
from warren.wire.amqp10.codec.reader import Reader
from warren.wire.amqp10.codec.writer import encode_value
from warren.wire.errors import ProtocolError

SQL: Final = "sql"
JMS: Final = "jms"  # SQL with the names of JMS, such as JMSPriority
PROPERTIES: Final = "properties"
TERMS_MAX: Final = 16

Term = tuple[str, object]  # kind, value


def expression_of(term: Term) -> Expression:
    """Parse a term; BadFilter or BadExpression says where it is wrong, and why."""
    kind, value = term
    if kind in (PROPERTIES, APPLICATION):
        return property_filter(kind, value)
    if kind not in (SQL, JMS) or not isinstance(value, str):
        raise BadFilter(f"{value!r}; allowed is a string")
    return parse_sql(value, kind == JMS)


def selector_in(terms: list[Term], clock: Clock) -> Selector | None:
    """The selector of these terms; None: there is no term."""
    return selector_of([expression_of(term) for term in terms], clock)


def encode_terms(terms: list[Term]) -> bytes:
    """The bytes of a selector; empty: there is no term. BadFilter: there is too much of it."""
    if not terms:
        return b""
    if len(terms) > TERMS_MAX:
        raise BadFilter(f"{len(terms)} filters; at most {TERMS_MAX} are allowed")
    flat = [part for term in sorted(terms, key=repr) for part in term]
    encoded = encode_value(flat)
    if len(encoded) > SELECTOR_BYTES_MAX:
        raise BadFilter(
            f"filters of {len(encoded)} bytes; at most {SELECTOR_BYTES_MAX} are allowed"
        )
    return encoded


def decode_terms(encoded: bytes) -> list[Term]:
    """The terms of a selector, whose bytes another node may have encoded. BadFilter: they are no
    terms."""
    try:
        reader = Reader(encoded, 0, len(encoded))
        flat = reader.value()
        reader.finish()
    except ProtocolError as error:
        raise BadFilter(str(error)) from error
    if not isinstance(flat, list) or len(flat) % 2:
        raise BadFilter("no list of terms")
    return [(str(flat[at]), flat[at + 1]) for at in range(0, len(flat), 2)]
