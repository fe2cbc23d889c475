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
    if links is None:
        return
    yield from standby_families(links.standbys.rows())
    if not links.runs_any:
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


def standby_families(rows: list[dict[str, object]]) -> Iterator[Family]:
    """Of the queues of warm standbys that this node leads."""
    if not rows:
        return
    ages = {str(row["vhost"]): row["rpo_seconds"] for row in rows}
    yield by_label(
        "warren_standby_rpo_seconds",
        GAUGE,
        "How long ago the standby of a vhost had all that its primary had confirmed.",
        "vhost",
        {vhost: float("inf") if age is None else float(str(age)) for vhost, age in ages.items()},
    )
    yield by_label(
        "warren_standby_messages",
        GAUGE,
        "Messages that the standby of a vhost holds on this node.",
        "vhost",
        {str(row["vhost"]): float(str(row["messages"])) for row in rows},
    )
