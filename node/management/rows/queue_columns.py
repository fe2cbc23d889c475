"""The columns that every queue has: name, value, and what kind of value it is.

Rows, columns for sorting and the entry of the OpenAPI document are made of this table: a column
more is one line here. What only some queues have is in `queue_rows`.
"""

from collections.abc import Mapping
from operator import attrgetter
from typing import Any, Final

from node.management.rows.columns import Column, Kind, row_of
from node.management.rows.view import QueueView


def _of(field: str, kind: Kind, name: str = "", is_bare: bool = False) -> Column[QueueView]:
    return Column(name or field, kind, attrgetter(field), is_bare)


def _bare(field: str, kind: Kind, name: str = "") -> Column[QueueView]:
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


QUEUE_COLUMNS: Final[tuple[Column[QueueView], ...]] = (
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
    Column("messages", Kind.COUNT_OR_NULL, _messages),
    _of("messages_ready", Kind.COUNT_OR_NULL),
    _of("messages_unacknowledged", Kind.COUNT_OR_NULL),
    _of("messages_delayed", Kind.COUNT_OR_NULL),
    _of("messages_pending_dead_letters", Kind.COUNT_OR_NULL, "messages_dlx"),
    Column("message_bytes", Kind.COUNT_OR_NULL, _message_bytes),
    _of("message_bytes_ready", Kind.COUNT_OR_NULL),
    _of("message_bytes_unacknowledged", Kind.COUNT_OR_NULL),
    _of("messages_ram", Kind.COUNT_OR_NULL),
    _of("messages_paged_out", Kind.COUNT_OR_NULL),
    _of("messages_persistent", Kind.COUNT_OR_NULL),
    _of("message_bytes_persistent", Kind.COUNT_OR_NULL),
    _of("message_bytes_ram", Kind.COUNT_OR_NULL),
    _of("message_bytes_paged_out", Kind.COUNT_OR_NULL),
    _of("memory_bytes", Kind.COUNT_OR_NULL, "memory"),
    _of("consumers", Kind.COUNT_OR_NULL),
    Column("consumer_capacity", Kind.SHARE_OR_NULL, _capacity),
    Column("consumer_utilisation", Kind.SHARE_OR_NULL, _capacity),
    Column("message_stats", Kind.COUNTS_BY_NAME, _message_stats),
)
COUNTED: Final = frozenset(
    each.name for each in QUEUE_COLUMNS if each.kind in (Kind.COUNT_OR_NULL, Kind.SHARE_OR_NULL)
)
BARE: Final = tuple(each.name for each in QUEUE_COLUMNS if each.is_bare)
# In place of the counts of a queue whose node does not answer: 0 would be a claim.
UNKNOWN: Final[Mapping[str, object]] = {**dict.fromkeys(COUNTED), "message_stats": {}}
VALUES: Final = tuple((each.name, each.value) for each in QUEUE_COLUMNS)


def columns_of(queue: QueueView) -> dict[str, Any]:
    return row_of(QUEUE_COLUMNS, queue)
