"""The columns of exchanges."""

from typing import Final

from node.management.rows.columns import Column, Kind
from node.management.rows.columns import field_column as _of
from node.management.rows.view import ExchangeView

EXCHANGE_COLUMNS: Final[tuple[Column[ExchangeView], ...]] = (
    _of("name", Kind.TEXT),
    _of("vhost", Kind.TEXT),
    _of("type", Kind.TEXT),
    _of("durable", Kind.FLAG),
    _of("auto_delete", Kind.FLAG),
    _of("internal", Kind.FLAG),
    _of("arguments", Kind.MAP),
    _of("policy", Kind.TEXT_OR_NULL, "policy.name"),
)
