"""A federation link's status as `/api/federation-links` shows it, in RabbitMQ's words."""

from time import gmtime, strftime
from typing import TYPE_CHECKING, Final

from federation.forwarding import TERMINATED

if TYPE_CHECKING:
    from federation.link import LinkStatus

ERROR: Final = "error"


def link_row(status: "LinkStatus", node: str) -> dict[str, object]:
    config = status.config
    row: dict[str, object] = {
        "node": node,
        "id": status.id,
        "type": config.kind,
        "vhost": config.vhost,
        "upstream": config.upstream,
        config.kind: config.name,
        f"upstream_{config.kind}": config.remote,
        "status": ERROR if status.state == TERMINATED else status.state,
        "uri": status.uri,
        "timestamp": strftime("%Y-%m-%d %H:%M:%S", gmtime(status.since_s)),
        "messages_forwarded": status.forwarded,
        "bytes_forwarded": status.bytes,
        "in_flight": status.in_flight,
    }
    if config.kind == "queue":
        row["consumer_tag"] = config.consumer_tag
    if status.state == TERMINATED:
        row["error"] = status.reason
    if status.last_s:
        row["last_forwarded"] = int(status.last_s * 1000)
    return row
