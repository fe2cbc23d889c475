"""The columns of vhosts."""

from typing import Final

from msgspec import Struct

from node.management.rows.columns import Column, Kind
from node.management.rows.columns import field_column as _of
from node.management.rows.rates import QUEUE_STATS
from node.management.rows.view import VhostView
from queues.definitions.broker_objects import VhostEntry


class DefinedVhost(Struct, frozen=True):
    """A vhost as it is defined, and what `node` counts of it."""

    entry: VhostEntry
    counted: VhostView
    node: str
    default_type: str  # of the node, for vhosts without one of their own

    @property
    def tags(self) -> list[str]:
        return list(self.entry.tags)

    @property
    def queue_type(self) -> str:
        return self.entry.default_queue_type or self.default_type

    @property
    def metadata(self) -> dict[str, object]:
        return {
            "description": self.entry.description,
            "tags": self.tags,
            "default_queue_type": self.queue_type,
        }

    @property
    def states(self) -> dict[str, str]:
        return {self.node: "running" if self.counted.running else "stopped"}

    @property
    def message_count(self) -> int:
        return self.counted.messages_ready + self.counted.messages_unacknowledged

    @property
    def stats(self) -> dict[str, int]:
        return dict(zip(QUEUE_STATS, self.counted.stats, strict=True))


VHOST_COLUMNS: Final[tuple[Column[DefinedVhost], ...]] = (
    _of("name", Kind.TEXT, "counted.name"),
    _of("description", Kind.TEXT, "entry.description"),
    _of("tags", Kind.TEXTS),
    _of("default_queue_type", Kind.TEXT, "queue_type"),
    _of("metadata", Kind.VHOST_METADATA),
    _of("tracing", Kind.FLAG, "entry.tracing"),
    _of("protected_from_deletion", Kind.FLAG, "entry.protected"),
    _of("cluster_state", Kind.TEXTS_BY_NAME, "states"),
    _of("messages", Kind.COUNT, "message_count"),
    _of("messages_ready", Kind.COUNT, "counted.messages_ready"),
    _of("messages_unacknowledged", Kind.COUNT, "counted.messages_unacknowledged"),
    _of("message_stats", Kind.COUNTS_BY_NAME, "stats"),
)
