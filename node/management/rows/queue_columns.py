"""The columns that every queue has: name, value, and what kind of value it is.

Rows, columns for sorting and the entry of the OpenAPI document are made of this table: a column
more is one line here. What only some queues have is in `queue_rows`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from operator import attrgetter
from typing import Any, Final

from node.management.rows.view import QueueView


class Kind(Enum):
    TEXT = "text"
    TEXT_OR_NULL = "text or null"
    FLAG = "flag"
    MAP = "map"
    COUNT = "count"  # null if only a node that does not answer knows it
    SHARE = "share"  # of 1, null likewise
    COUNTS = "counts"  # by name; those are empty then


@dataclass(frozen=True, slots=True)
class QueueColumn:
    """`is_bare`: shown even where statistics are not (`disable_stats`)."""

    name: str
    kind: Kind
    value: Callable[[QueueView], Any]
    is_bare: bool = False


def _of(field: str, kind: Kind, name: str = "", is_bare: bool = False) -> QueueColumn:
    return QueueColumn(name or field, kind, attrgetter(field), is_bare)


def _bare(field: str, kind: Kind, name: str = "") -> QueueColumn:
    return _of(field, kind, name, is_bare=True)


def _message_stats(queue: QueueView) -> dict[str, int]:
    return {
        "publish": queue.published,
        "deliver": queue.delivered,
        "deliver_no_ack": queue.delivered_no_ack,
        "get": queue.got,
        "get_no_ack": queue.got_no_ack,
        "deliver_get": queue.delivered + queue.delivered_no_ack + queue.got + queue.got_no_ack,
        "redeliver": queue.redelivered,
        "ack": queue.acknowledged,
    }


def _messages(queue: QueueView) -> int:
    return queue.messages_ready + queue.messages_unacknowledged


def _message_bytes(queue: QueueView) -> int:
    return queue.message_bytes_ready + queue.message_bytes_unacknowledged


def _capacity(queue: QueueView) -> float:
    return round(queue.consumer_capacity, 4)


QUEUE_COLUMNS: Final = (
    _bare("name", Kind.TEXT),
    _bare("vhost", Kind.TEXT),
    _bare("type", Kind.TEXT),
    _bare("durable", Kind.FLAG),
    _bare("auto_delete", Kind.FLAG),
    _bare("exclusive", Kind.FLAG),
    _bare("arguments", Kind.MAP),
    _bare("node", Kind.TEXT),
    _bare("state", Kind.TEXT),
    _of("reason", Kind.TEXT),
    _bare("counts_known", Kind.FLAG),  # False: the counts are null, for their node is silent
    _bare("policy.name", Kind.TEXT_OR_NULL, "policy"),
    _bare("policy.operator", Kind.TEXT_OR_NULL, "operator_policy"),
    _of("policy.definition", Kind.MAP, "effective_policy_definition"),
    QueueColumn("messages", Kind.COUNT, _messages),
    _of("messages_ready", Kind.COUNT),
    _of("messages_unacknowledged", Kind.COUNT),
    _of("messages_delayed", Kind.COUNT),
    _of("messages_pending_dead_letters", Kind.COUNT, "messages_dlx"),
    QueueColumn("message_bytes", Kind.COUNT, _message_bytes),
    _of("message_bytes_ready", Kind.COUNT),
    _of("message_bytes_unacknowledged", Kind.COUNT),
    _of("messages_ram", Kind.COUNT),
    _of("messages_paged_out", Kind.COUNT),
    _of("messages_persistent", Kind.COUNT),
    _of("message_bytes_persistent", Kind.COUNT),
    _of("message_bytes_ram", Kind.COUNT),
    _of("message_bytes_paged_out", Kind.COUNT),
    _of("memory_bytes", Kind.COUNT, "memory"),
    _of("consumers", Kind.COUNT),
    QueueColumn("consumer_capacity", Kind.SHARE, _capacity),
    QueueColumn("consumer_utilisation", Kind.SHARE, _capacity),
    QueueColumn("message_stats", Kind.COUNTS, _message_stats),
)
COUNTED: Final = frozenset(
    each.name for each in QUEUE_COLUMNS if each.kind in (Kind.COUNT, Kind.SHARE)
)
BARE: Final = tuple(each.name for each in QUEUE_COLUMNS if each.is_bare)
# In place of the counts of a queue whose node does not answer: 0 would be a claim.
UNKNOWN: Final[Mapping[str, object]] = {**dict.fromkeys(COUNTED), "message_stats": {}}
VALUES: Final = tuple((each.name, each.value) for each in QUEUE_COLUMNS)


def columns_of(queue: QueueView) -> dict[str, Any]:
    return {name: value(queue) for name, value in VALUES}
