"""Metrics of the shovels and federation links that this node runs, under RabbitMQ's names."""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from node.management.metrics.node_families import by_label
from node.management.metrics.text import GAUGE, Family, counter, gauge

if TYPE_CHECKING:
    from node.federating.link_service import LinkService

LINK_STATES: Final = ("starting", "running", "error", "paused")
SHOVEL_STATES: Final = ("starting", "running", "terminated", "paused")


def link_families(links: "LinkService | None") -> Iterator[Family]:
    """Nothing while the node runs none."""
    if links is None or not links.runs_any:
        return
    of_links, of_shovels = links.link_rows(), links.shovel_rows()
    states = Counter(str(row["status"]) for row in of_links)
    yield by_label(
        "rabbitmq_federation_links",
        GAUGE,
        "Federation links of this node, by status.",
        "status",
        {state: states[state] for state in LINK_STATES},
    )
    states = Counter(str(row["state"]) for row in of_shovels)
    yield by_label(
        "rabbitmq_shovel_dynamic",
        GAUGE,
        "Dynamic shovels of this node, by status.",
        "status",
        {state: states[state] for state in SHOVEL_STATES},
    )
    rows = (*of_links, *of_shovels)
    yield gauge(
        "warren_links_lag_messages",
        "Messages that wait at the sources of this node's shovels and links.",
        float(sum(int(str(row["lag_messages"])) for row in rows)),
    )
    yield gauge(
        "warren_links_lag_seconds",
        "Age of the oldest message that waits at a source of this node's shovels and links.",
        max((float(str(row["lag_seconds"])) for row in rows), default=0.0),
    )
    for name, place in (("messages", "messages_forwarded"), ("bytes", "bytes_forwarded")):
        yield counter(
            f"warren_links_{name}",
            f"{name.capitalize()} forwarded by shovels and links that run on this node.",
            float(sum(int(str(row[place])) for row in rows)),
        )
