"""What consumers of AMQP 1.0 may ask of a stream, and how they see its messages.

In the filter set `rabbitmq:stream-offset-spec` says where a link begins: first, last, next, an
interval (`1h`), an offset, or a timestamp. `rabbitmq:stream-filter` names the filter values that
the link wants, and `rabbitmq:stream-match-unfiltered` adds messages without one.
`amqp:properties-filter`, `amqp:application-properties-filter` and `amqp:sql-filter` select messages
by their fields; these are known by their descriptors, whatever the key. `warren:packed` asks for
many messages in each delivery (`packed_link`), if nothing is to be left out. Every other delivery
bears its offset in the annotation `x-stream-offset`. The answering attach leaves out filters that
the stream does not apply.
"""

from typing import Final

from node.amqp10.forms import COST_MAX, COUNT_MAX, Forms
from node.clock import utc_ms
from queues.conversion.annotated import annotated_form_10
from queues.conversion.costs import REPEATED
from queues.conversion.offset_marks import ZERO, OffsetMarks
from queues.message import FORMAT_10
from queues.queue_host import QueueHost, View
from queues.selectors.message_fields import BadFilter
from queues.selectors.sql import APPLICATION, BadExpression
from queues.selectors.terms import JMS, SQL, Term, encode_terms, expression_of, selector_in
from queues.streams.filtering import StreamFilter, parse_filter
from queues.streams.host import StreamHost
from queues.streams.offsets import NEXT, OffsetSpec, Start, parse_offset
from warren.wire.amqp10.codec.performatives import Source
from warren.wire.amqp10.codec.values import Array, Described, Symbol, Timestamp
from warren.wire.amqp10.errors import Condition, ProtocolError, Scope
from warren.wire.amqp10.packed import PACKED_FILTER

OFFSET_FILTER: Final = "rabbitmq:stream-offset-spec"
VALUES_FILTER: Final = "rabbitmq:stream-filter"
UNFILTERED_FILTER: Final = "rabbitmq:stream-match-unfiltered"
SELECTORS: Final[dict[object, str]] = {  # kinds of terms by descriptor
    "amqp:properties-filter": "properties",
    0x173: "properties",
    "amqp:application-properties-filter": APPLICATION,
    0x174: APPLICATION,
    "amqp:sql-filter": SQL,
    0x120: SQL,
    "apache.org:selector-filter:string": JMS,
    0x468C00000004: JMS,
}
SHOWN_BYTES: Final = 256 * 1024  # at once: about what a link may write in a turn
OFFSET_KEY: Final = b"x-stream-offset"


def start_of_link(host: QueueHost, source: Source, answer: Source) -> OffsetSpec | None:
    """Where the link begins; None: the queue is no stream. Put what is applied into `answer`.

    ProtocolError: the filter is no offset, or this node has no member of the stream.
    """
    if not isinstance(host, StreamHost):
        return None
    place = f"queue '{host.name}' in vhost '{host.vhost}'"
    if not host.has_member:
        text = f"stream {place} does not have a running replica on the local node"
        raise ProtocolError(Condition.PRECONDITION_FAILED, text, Scope.LINK)
    filters = source.filter or {}
    spec = _start(filters, place)
    found = _filter(filters, place)
    selector = selector_in(terms_in(host, filters), utc_ms)
    if selector is not None:
        found = StreamFilter(None if found is None else found.values, selector)
    applied = [OFFSET_FILTER, VALUES_FILTER, UNFILTERED_FILTER]
    if found is None:
        applied.append(PACKED_FILTER)
    answer.filter = {
        key: each for key, each in filters.items() if key in applied or _selects(each)
    } or None
    return OffsetSpec(spec.start, spec.value, found)


def _selects(asked: object) -> bool:
    """Whether this is a filter by the fields of a message."""
    if not isinstance(asked, Described) or not isinstance(asked.descriptor, (str, int)):
        return False
    return asked.descriptor in SELECTORS


def selector_of_link(host: QueueHost, source: Source, answer: Source) -> bytes:
    """What a consumer of a queue that is no stream selects by; empty: it wants every message. Put
    what is applied into `answer`. ProtocolError: a filter is wrong."""
    if isinstance(host, StreamHost) or not source.filter:
        return b""
    terms = terms_in(host, source.filter)
    answer.filter = {key: each for key, each in source.filter.items() if _selects(each)} or None
    try:
        return encode_terms(terms)
    except BadFilter as error:
        text = f"queue '{host.name}' in vhost '{host.vhost}': {error}"
        raise ProtocolError(Condition.INVALID_FIELD, text, Scope.LINK) from error


def terms_in(host: QueueHost, filters: dict[object, object]) -> list[Term]:
    """The filters by fields of messages. ProtocolError: one is wrong."""
    found: list[Term] = []
    for asked in filters.values():
        if not isinstance(asked, Described) or not _selects(asked):
            continue
        term = SELECTORS[asked.descriptor], asked.value
        try:
            expression_of(term)
        except (BadFilter, BadExpression) as error:
            place = f"queue '{host.name}' in vhost '{host.vhost}'"
            text = f"invalid filter {asked.descriptor} for {place}: {error}"
            raise ProtocolError(Condition.INVALID_FIELD, text, Scope.LINK) from error
        found.append(term)
    return found


def _value(filters: dict[object, object], key: str) -> object:
    asked = filters.get(Symbol(key))
    return asked.value if isinstance(asked, Described) else asked


def _filter(filters: dict[object, object], place: str) -> StreamFilter | None:
    values = _value(filters, VALUES_FILTER)
    if values is None:
        return None
    if isinstance(values, Array):
        values = values.items
    found = parse_filter(values, _value(filters, UNFILTERED_FILTER))
    if found is None:
        text = f"invalid filter {VALUES_FILTER} for {place}: {values!r}; allowed are a string and "
        text += "a list of strings"
        raise ProtocolError(Condition.INVALID_FIELD, text, Scope.LINK)
    return found


def _start(filters: dict[object, object], place: str) -> OffsetSpec:
    value = _value(filters, OFFSET_FILTER)
    if value is None:
        return NEXT
    spec = _spec_of(value)
    if spec is None:
        text = (
            f"invalid filter {OFFSET_FILTER} for {place}: {value!r}; allowed are first, last, "
            "next, an offset, a timestamp, and an interval such as 1h (units Y, M, D, h, m, s)"
        )
        raise ProtocolError(Condition.INVALID_FIELD, text, Scope.LINK)
    return spec


def _spec_of(value: object) -> OffsetSpec | None:
    if isinstance(value, Timestamp):
        return OffsetSpec(Start.TIMESTAMP, int(value))
    return parse_offset(value)


def with_offsets(view: View, forms: Forms) -> View:
    """The view's first messages in stored form 2, each with the annotation of its offset; those of
    form 1 are converted by `forms`, whose `cost` says what all that did."""
    chunk, index, count = view.chunk, view.index, min(view.count, COUNT_MAX)
    cost = 0
    if chunk.format_tag != FORMAT_10:
        chunk = forms.convert(chunk, index, count, COST_MAX)
        index, count, cost = 0, chunk.count(), forms.cost
    shown = MARKS.mark(chunk, index, count, view.first - 1, SHOWN_BYTES)
    forms.cost = max(cost, shown.count() * REPEATED)
    return View(shown, 0, view.first, shown.count())


def _annotate(message: bytes) -> bytes:
    return annotated_form_10(message, {OFFSET_KEY: ZERO})


MARKS: Final = OffsetMarks(_annotate)
