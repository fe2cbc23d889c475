"""A federation link's status as `/api/federation-links` shows it, in RabbitMQ's words."""

from time import gmtime, strftime
from typing import TYPE_CHECKING, Final

from federation.forwarding import PAUSED, RUNNING, STARTING, TERMINATED

if TYPE_CHECKING:
    from federation.link import LinkStatus
    from federation.running import Facts

ERROR: Final = "error"
DOWN: Final = "down"  # in requests for a list: every status but those of UP
UP: Final = frozenset({STARTING, RUNNING})
STATUSES: Final = (ERROR, PAUSED, RUNNING, STARTING)


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
        "status": shown_state(status.facts.state),
        "uri": status.uri,
        **forwarded(status.facts),
    }
    if config.kind == "queue":
        row["consumer_tag"] = config.consumer_tag
    if status.facts.state == TERMINATED:
        row["error"] = status.facts.reason
    return row


def shown_state(state: str) -> str:
    """RabbitMQ's word for the state of a link."""
    return ERROR if state == TERMINATED else state


def is_in_state(status: object, state: str) -> bool:
    """Whether a link of that status is listed for that state: a status, or RabbitMQ's `down`."""
    return status not in UP if state == DOWN else status == state


def forwarded(facts: "Facts") -> dict[str, object]:
    """What shovels and links have in common: counters, lag, last error, and whether the
    target is blocked by an alarm."""
    row: dict[str, object] = {
        "timestamp": strftime("%Y-%m-%d %H:%M:%S", gmtime(facts.since_s)),
        "messages_forwarded": facts.forwarded,
        "bytes_forwarded": facts.bytes,
        "in_flight": facts.in_flight,
        "lag_messages": facts.lag_messages,
        "lag_seconds": round(facts.lag_s, 1),
    }
    if facts.state == RUNNING:
        row["blocked_status"] = "blocked" if facts.blocked else "running"
    if facts.last_error:
        row["last_error"] = facts.last_error
    if facts.last_s:
        row["last_forwarded"] = int(facts.last_s * 1000)
    return row
