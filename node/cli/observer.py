"""`warrenctl observer`: the cluster on the terminal, redrawn every few seconds, until Ctrl-C.

Rates are made here, from what two looks have counted. `rich` is imported when it is called.
"""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TextIO

from msgspec import Struct, field

from node.cli.api import Api, ApiFailure
from node.cli.cluster.commands import alarms_of, maintenance_of
from node.cli.verbs import BadCall, Options

if TYPE_CHECKING:
    from rich.console import Group

RATES: Final = (
    ("publish", "Published"),
    ("confirm", "Confirmed"),
    ("deliver_get", "Delivered"),
    ("redeliver", "Redelivered"),
    ("ack", "Acknowledged"),
)
QUEUES_SHOWN: Final = 15
EDGES_SHOWN: Final = 8
MIB: Final = 1 << 20


class Look(Struct, frozen=True):
    """What there was at one time; `at_s` of a clock that does not jump."""

    at_s: float
    overview: Mapping[str, Any]
    nodes: list[dict[str, Any]]
    queues: list[dict[str, Any]] = field(default_factory=list)
    held: list[str] = field(default_factory=list)


def observer(api: Api, options: Options, out: TextIO) -> None:
    """Draw until the call is ended, or so many times as `--count` says."""
    interval_s, count = seconds_of(options.interval), count_of(options.count)
    from rich.console import Console
    from rich.live import Live

    console = Console(file=out)
    before: Look | None = None
    try:
        with Live(console=console, auto_refresh=False, screen=count == 0 and out.isatty()) as live:
            for drawn in range(1, 1 << 62):
                now = look(api)
                live.update(picture(now, before), refresh=True)
                before = now
                if drawn == count:
                    return
                time.sleep(interval_s)
    except KeyboardInterrupt:
        return


def seconds_of(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError as error:
        raise BadCall(f"not a number: {text}") from error
    if not 0.1 <= seconds <= 3600:
        raise BadCall("the interval is from 0.1 to 3600 seconds")
    return seconds


def count_of(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise BadCall(f"not a number: {text}")
    return int(text)


def look(api: Api) -> Look:
    columns = "name,vhost,type,leader,node,state,messages,messages_ready,consumers"
    page = api.get_object(
        f"/api/queues?page=1&page_size={QUEUES_SHOWN}&sort=messages&sort_reverse=true"
        f"&columns={columns}"
    )
    items = page.get("items")
    return Look(
        time.monotonic(),
        api.get_object("/api/overview"),
        api.get_list("/api/nodes"),
        list(items) if isinstance(items, list) else [],
        held_back(api),
    )


def held_back(api: Api) -> list[str]:
    """Who is held back now, in words."""
    try:
        graph: Mapping[str, Any] = api.get_object("/api/flow/graph")
    except ApiFailure:
        return []
    names = {row["id"]: row["name"] for row in graph["nodes"]}
    return [
        f"{names[edge['from']]} is held back by {names[edge['to']]} ({edge['reason']})"
        for edge in graph["edges"]
        if edge["since"] is not None
    ]


def rates(now: Look, before: Look | None) -> dict[str, float]:
    """Each of RATES per second since the look before; 0 for the first."""
    stats = now.overview.get("message_stats", {})
    if before is None:
        return dict.fromkeys((key for key, _ in RATES), 0.0)
    past = before.overview.get("message_stats", {})
    span_s = max(now.at_s - before.at_s, 0.001)
    return {key: max(0, stats.get(key, 0) - past.get(key, 0)) / span_s for key, _ in RATES}


def picture(now: Look, before: Look | None) -> "Group":
    from rich.console import Group
    from rich.text import Text

    totals = {**now.overview.get("object_totals", {}), **now.overview.get("queue_totals", {})}
    line = "  ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in totals.items()
                     if isinstance(count, int))  # fmt: skip
    speeds = rates(now, before)
    parts: list[Any] = [
        Text(f"{now.overview.get('cluster_name')}   {time.strftime('%H:%M:%S')}", style="bold"),
        Text(line),
        Text("  ".join(f"{words} {speeds[key]:,.0f}/s" for key, words in RATES)),
        node_table(now),
        queue_table(now),
    ]
    if now.held:
        parts.append(Text("Held back", style="bold"))
        parts += [Text(each, overflow="ellipsis") for each in now.held[:EDGES_SHOWN]]
        if len(now.held) > EDGES_SHOWN:
            parts.append(Text(f"and {len(now.held) - EDGES_SHOWN} more"))
    return Group(*parts)


def node_table(now: Look) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(title="Nodes", title_justify="left")
    for name in ("Name", "State", "Memory", "Disk free", "Files", "Sockets", "Alarms"):
        table.add_column(name)
    for node in now.nodes:
        alarms = ", ".join(each["resource"] for each in alarms_of(node))
        state = "running" if node.get("running") else "not running"
        if node.get("being_drained"):
            state = maintenance_of(node)
        table.add_row(
            Text(str(node.get("name"))),
            state,
            megabytes(node.get("mem_used")),
            megabytes(node.get("disk_free")),
            str(node.get("fd_used", "")),
            str(node.get("sockets_used", "")),
            alarms or "none",
        )
    return table


def queue_table(now: Look) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(title="Queues with the most messages", title_justify="left")
    for name in ("Vhost", "Name", "Type", "Leader", "State", "Messages", "Ready", "Consumers"):
        table.add_column(name, overflow="ellipsis", no_wrap=True)
    for queue in now.queues:
        table.add_row(
            *(Text(str(value)) for value in queue_cells(queue)),
        )
    return table


def queue_cells(queue: Mapping[str, Any]) -> list[object]:
    leader = queue.get("leader") or queue.get("node")
    counts = [queue.get(key, "") for key in ("state", "messages", "messages_ready", "consumers")]
    return [queue.get("vhost"), queue.get("name"), queue.get("type"), leader, *counts]


def megabytes(value: object) -> str:
    return f"{value / MIB:,.0f} MiB" if isinstance(value, (int, float)) else ""
