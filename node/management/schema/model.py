"""What an operation of the HTTP API is in words of OpenAPI: the forms that its entries are made of.

Schemas are JSON Schema (draft 2020-12) as plain dicts. A record has a title, a closed set of
properties, and the names of those that are always there (`x-always`): not `required`, because
`columns` of a request may leave out any of them. Bodies of requests say what is required; keys that
are unknown are ignored. Interpreted; loaded on request for the document.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

Schema = dict[str, object]

STRING: Final[Schema] = {"type": "string"}
INTEGER: Final[Schema] = {"type": "integer"}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
NUMBER: Final[Schema] = {"type": "number"}
BOOLEAN: Final[Schema] = {"type": "boolean"}
ANY: Final[Schema] = {}
MAP: Final[Schema] = {"type": "object"}
TEXTS: Final[Schema] = {"type": "array", "items": STRING}

# Who may ask: the tag of a user that is enough.
MANAGEMENT: Final = "management"
MONITORING: Final = "monitoring"
POLICYMAKER: Final = "policymaker"
ADMINISTRATOR: Final = "administrator"


class Query(Struct, frozen=True):
    """A parameter behind the question mark."""

    name: str
    schema: Schema
    about: str


class Operation(Struct, frozen=True, kw_only=True):
    """One method of one path. `path` is as in the router, without its expressions.

    Refusals that any operation may give (400, 401, 405) are not listed; nor is 404 where the path
    names something, 413 where there is a body, nor 503 of what changes definitions.
    """

    method: str
    path: str
    summary: str
    rights: str = MANAGEMENT
    query: tuple[Query, ...] = ()
    body: Schema | None = None
    answers: Mapping[int, Schema | None] = field(default_factory=dict)  # None: no body
    refusals: tuple[int, ...] = ()
    content_type: str = "application/json"  # of the answer


# Rates may stand beside any number; these end with the same word and are none.
RATED: Final = "^(?!alarm_|owner_pid_|connection_|channel_|consumer_).*_details$"
RATES: Final[Schema] = {
    "title": "Rate",
    "type": "object",
    "properties": {
        "rate": NUMBER,
        "avg": NUMBER,
        "avg_rate": NUMBER,
        "samples": {"type": "array", "items": MAP},
    },
    "additionalProperties": False,
}


def record(
    title: str, always: Mapping[str, Schema], sometimes: Mapping[str, Schema] | None = None
) -> Schema:
    """An object of an answer."""
    return {
        "title": title,
        "type": "object",
        "properties": {**always, **(sometimes or {})},
        "patternProperties": {RATED: RATES},
        "x-always": sorted(always),
        "additionalProperties": False,
    }


def wanted(
    required: Mapping[str, Schema] | None = None, optional: Mapping[str, Schema] | None = None
) -> Schema:
    """An object in the body of a request."""
    schema: Schema = {"type": "object", "properties": {**(required or {}), **(optional or {})}}
    if required:
        schema["required"] = sorted(required)
    return schema


def listed(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def table(values: Schema) -> Schema:
    """An object with any keys."""
    return {"type": "object", "additionalProperties": values}


def one_of(*words: str) -> Schema:
    return {"type": "string", "enum": list(words)}


def either(*schemas: Schema) -> Schema:
    return {"anyOf": list(schemas)}


def or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


NAME: Final[Schema] = {"type": "string", "maxLength": 255}
FLAG: Final[Schema] = either(BOOLEAN, one_of("true", "false"))
DIGITS: Final[Schema] = either(COUNT, {"type": "string", "pattern": "^[0-9]+$"})
TAGS: Final[Schema] = either(STRING, TEXTS)  # with commas, or a list
ARGUMENTS: Final[Schema] = or_null(MAP)

PAGING: Final = (
    Query("page", {"type": "integer", "minimum": 1}, "Which page of the list; without, all of it."),
    Query("page_size", {"type": "integer", "minimum": 1, "maximum": 500}, "Rows on a page: 100."),
    Query("name", STRING, "Only rows whose name has this in it."),
    Query("use_regex", one_of("true", "false"), "Whether `name` is a regular expression."),
    Query("sort", STRING, "The column to sort by, with dots into nested ones."),
    Query("sort_reverse", one_of("true", "false"), "Whether the last comes first."),
    Query("columns", STRING, "Names of columns, with commas: the others are left out."),
)
COLUMNS: Final = PAGING[-1:]
# Samples besides the rates: of how many seconds, and how far apart.
RANGES: Final = tuple(
    Query(f"{family}_{what}", {"type": "integer", "minimum": 0}, f"Samples of {about}: {words}.")
    for family, about in (
        ("msg_rates", "messages"),
        ("lengths", "lengths"),
        ("data_rates", "bytes"),
        ("node_stats", "nodes"),
    )
    for what, words in (("age", "of so many seconds"), ("incr", "so many seconds apart"))
)
STATS: Final = (
    Query("disable_stats", one_of("true", "false"), "Whether to leave out counts and rates."),
    Query("enable_queue_totals", one_of("true", "false"), "Whether to keep counts of messages."),
)
QUEUE_NAME: Final = record("QueueName", {"vhost": STRING, "name": STRING})
IF_UNUSED: Final = Query("if-unused", one_of("true", "false"), "Refuse if it is in use.")
IF_EMPTY: Final = Query("if-empty", one_of("true", "false"), "Refuse if there are messages.")


def page_of(row: Schema) -> Schema:
    """The rows as an array, or a page of them if one is asked for."""
    page = {
        "type": "object",
        "properties": {
            **dict.fromkeys(("filtered_count", "item_count", "total_count"), COUNT),
            **dict.fromkeys(("page", "page_count", "page_size"), COUNT),
            "items": listed(row),
        },
        "required": ["filtered_count", "item_count", "items", "page", "page_count"],
        "additionalProperties": False,
    }
    return either(listed(row), page)


def lists(
    path: str,
    summary: str,
    row: Schema,
    rights: str = MANAGEMENT,
    more: tuple[Query, ...] = (),
) -> Operation:
    """A list that can be paged, sorted and cut."""
    return Operation(
        method="GET", path=path, summary=summary, rights=rights, query=(*PAGING, *more),
        answers={200: page_of(row)},
    )  # fmt: skip


def reads(
    path: str,
    summary: str,
    answer: Schema,
    rights: str = MANAGEMENT,
    query: tuple[Query, ...] = (),
    refusals: tuple[int, ...] = (),
) -> Operation:
    return Operation(
        method="GET", path=path, summary=summary, rights=rights, query=query,
        answers={200: answer}, refusals=refusals,
    )  # fmt: skip


def puts(
    path: str,
    summary: str,
    body: Schema,
    rights: str = MANAGEMENT,
    statuses: tuple[int, ...] = (201, 204),
    refusals: tuple[int, ...] = (),
) -> Operation:
    """201 for what is new, 204 for what was there."""
    return Operation(
        method="PUT", path=path, summary=summary, rights=rights, body=body,
        answers=dict.fromkeys(statuses), refusals=refusals,
    )  # fmt: skip


def deletes(
    path: str,
    summary: str,
    rights: str = MANAGEMENT,
    query: tuple[Query, ...] = (),
    refusals: tuple[int, ...] = (),
) -> Operation:
    return Operation(
        method="DELETE", path=path, summary=summary, rights=rights, query=query,
        answers={204: None}, refusals=refusals,
    )  # fmt: skip


def posts(
    path: str,
    summary: str,
    body: Schema | None = None,
    answer: Schema | None = None,
    rights: str = MANAGEMENT,
    query: tuple[Query, ...] = (),
    refusals: tuple[int, ...] = (),
) -> Operation:
    """200 with an answer, else 204."""
    return Operation(
        method="POST", path=path, summary=summary, rights=rights, body=body, query=query,
        answers={204: None} if answer is None else {200: answer}, refusals=refusals,
    )  # fmt: skip
