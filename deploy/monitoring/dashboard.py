"""Writes the Grafana dashboard `grafana/dashboards/warren.json`. Run after a change of the panels.

A panel is a row of PANELS: its title, the unit of its axis, and queries with the words of their
legend. Rows of the dashboard have a title of their own and up to three panels side by side.
"""

import json
from pathlib import Path
from typing import Any, Final

TARGET: Final = Path(__file__).parent / "grafana" / "dashboards" / "warren.json"
WIDTH: Final = 24  # of Grafana's grid
HEIGHT: Final = 8
NODES: Final = '{instance=~"$node"}'
RATE: Final = "[$__rate_interval]"

Query = tuple[str, str]  # expression, legend
Panel = tuple[str, str, tuple[Query, ...]]


def rate(metric: str, by: str = "", where: str = "") -> str:
    labels = NODES if not where else NODES[:-1] + f",{where}}}"
    summed = f"sum by ({by}) " if by else "sum "
    return f"{summed}(rate({metric}{labels}{RATE}))"


def total(metric: str, by: str = "", where: str = "") -> str:
    labels = NODES if not where else NODES[:-1] + f",{where}}}"
    return (f"sum by ({by}) " if by else "sum ") + f"({metric}{labels})"


def quantiles(metric: str, by: str = "") -> tuple[Query, ...]:
    inner = rate(f"{metric}_bucket", f"le, {by}" if by else "le")
    name = f"{{{{{by}}}}} " if by else ""
    return tuple(
        (f"histogram_quantile({share}, {inner})", f"{name}p{share * 100:g}")
        for share in (0.5, 0.99)
    )


GLOBAL: Final = "rabbitmq_global_messages"
ROWS: Final[tuple[tuple[str, tuple[Panel, ...]], ...]] = (
    (
        "Messages",
        (
            (
                "Published",
                "ops",
                (
                    (rate(f"{GLOBAL}_received_total", "protocol"), "{{protocol}}"),
                    (rate(f"{GLOBAL}_confirmed_total"), "confirmed"),
                    (rate(f"{GLOBAL}_unroutable_dropped_total"), "dropped, no route"),
                    (rate(f"{GLOBAL}_unroutable_returned_total"), "returned, no route"),
                ),
            ),
            (
                "Delivered",
                "ops",
                (
                    (rate(f"{GLOBAL}_delivered_total", "queue_type"), "{{queue_type}}"),
                    (rate(f"{GLOBAL}_acknowledged_total"), "acknowledged"),
                    (rate(f"{GLOBAL}_redelivered_total"), "redelivered"),
                    (rate(f"{GLOBAL}_get_empty_total"), "get, empty"),
                ),
            ),
            (
                "From publish to confirm",
                "s",
                quantiles("warren_confirm_seconds", "queue_type"),
            ),
        ),
    ),
    (
        "Queues",
        (
            (
                "Messages",
                "short",
                (
                    (total("rabbitmq_queue_messages_ready"), "ready"),
                    (total("rabbitmq_queue_messages_unacked"), "unacknowledged"),
                ),
            ),
            (
                "Oldest message",
                "s",
                (
                    (
                        f"max by (instance) (warren_oldest_message_age_seconds{NODES})",
                        "{{instance}}",
                    ),
                ),
            ),
            (
                "Queues, consumers, connections",
                "short",
                (
                    (total("warren_queues", "queue_type"), "{{queue_type}} queues"),
                    (total("rabbitmq_consumers"), "consumers"),
                    (total("rabbitmq_connections"), "connections"),
                    (total("rabbitmq_channels"), "channels"),
                ),
            ),
        ),
    ),
    (
        "Dead letters and sizes",
        (
            (
                "Dead-lettered",
                "ops",
                tuple(
                    (rate(f"{GLOBAL}_dead_lettered_{reason}_total"), reason.replace("_", " "))
                    for reason in ("expired", "rejected", "maxlen", "delivery_limit")
                ),
            ),
            ("Size of messages", "bytes", quantiles("rabbitmq_message_size_bytes", "protocol")),
            (
                "Bytes given to queues",
                "Bps",
                (
                    (rate("warren_published_bytes_total"), "all"),
                    (rate("warren_published_away_bytes_total"), "for leaders elsewhere"),
                ),
            ),
        ),
    ),
    (
        "Who holds back whom",
        (
            (
                "Blocked by credit",
                "percentunit",
                (
                    (
                        rate("warren_flow_blocked_seconds_total", "held_back, by"),
                        "{{held_back}} by {{by}}",
                    ),
                ),
            ),
            (
                "Share of local leaders",
                "percentunit",
                (
                    (f"warren_locality_ratio{NODES}", "{{instance}} published"),
                    (f"warren_amqp10_locality_ratio{NODES}", "{{instance}} links"),
                ),
            ),
            (
                "Turns of the loop",
                "ms",
                quantiles("warren_loop_turn_ms", "instance"),
            ),
        ),
    ),
    (
        "Nodes",
        (
            (
                "Memory",
                "bytes",
                (
                    (f"rabbitmq_process_resident_memory_bytes{NODES}", "{{instance}}"),
                    (f"rabbitmq_resident_memory_limit_bytes{NODES}", "{{instance}} limit"),
                    (f"warren_bodies_in_memory_bytes{NODES}", "{{instance}} bodies"),
                ),
            ),
            (
                "Disk",
                "bytes",
                (
                    (f"rabbitmq_disk_space_available_bytes{NODES}", "{{instance}} free"),
                    (total("warren_wal_bytes", "instance"), "{{instance}} log"),
                    (f"warren_wal_live_bytes{NODES}", "{{instance}} alive"),
                ),
            ),
            (
                "Alarms",
                "short",
                tuple(
                    (f"{metric}{NODES}", f"{{{{instance}}}} {words}")
                    for metric, words in (
                        ("rabbitmq_alarms_memory_used_watermark", "memory"),
                        ("rabbitmq_alarms_free_disk_space_watermark", "disk"),
                        ("rabbitmq_alarms_file_descriptor_limit", "files"),
                        ("warren_alarms_clock_step", "clock"),
                        ("warren_wal_behind", "log behind"),
                    )
                ),
            ),
        ),
    ),
    (
        "Log",
        (
            ("Write and sync", "s", quantiles("warren_wal_sync_seconds", "instance")),
            (
                "Upkeep",
                "Bps",
                (
                    (
                        rate("warren_wal_rewritten_bytes_total", "instance"),
                        "{{instance}} rewritten",
                    ),
                    (rate("warren_page_written_bytes_total", "instance"), "{{instance}} paged out"),
                    (rate("warren_page_read_bytes_total", "instance"), "{{instance}} paged in"),
                ),
            ),
            (
                "Files",
                "short",
                ((total("warren_wal_files", "instance, kind"), "{{instance}} {{kind}}"),),
            ),
        ),
    ),
    (
        "Cluster",
        (
            (
                "Elections and changes of leaders",
                "ops",
                (
                    (rate("warren_raft_elections_total", "instance"), "{{instance}} elections"),
                    (rate("warren_raft_leader_changes_total", "instance"), "{{instance}} changes"),
                    (rate("warren_raft_suspicions_total", "instance"), "{{instance}} suspicions"),
                ),
            ),
            (
                "Log groups",
                "ops",
                (
                    (rate("warren_raft_proposals_total", "instance"), "{{instance}} proposed"),
                    (rate("warren_raft_commits_total", "instance"), "{{instance}} applied"),
                    (rate("warren_raft_held_back_total", "instance"), "{{instance}} held back"),
                ),
            ),
            (
                "Between nodes",
                "ms",
                ((f"warren_peer_rtt_ms{NODES}", "{{instance}} to {{peer}}"),),
            ),
        ),
    ),
    (
        "Clients",
        (
            (
                "Connections and channels",
                "ops",
                tuple(
                    (rate(f"rabbitmq_{name}_total"), name.replace("_", " "))
                    for name in (
                        "connections_opened",
                        "connections_closed",
                        "channels_opened",
                        "channels_closed",
                    )
                ),
            ),
            (
                "Logins",
                "ops",
                (
                    (rate("rabbitmq_auth_attempts_succeeded_total"), "succeeded"),
                    (rate("rabbitmq_auth_attempts_failed_total"), "failed"),
                ),
            ),
            (
                "Queues declared and deleted",
                "ops",
                (
                    (rate("rabbitmq_queues_created_total"), "made"),
                    (rate("rabbitmq_queues_deleted_total"), "deleted"),
                ),
            ),
        ),
    ),
)


def dashboard() -> dict[str, Any]:
    panels: list[dict[str, Any]] = []
    top = 0
    for title, row in ROWS:
        panels.append(placed({"type": "row", "title": title, "collapsed": False}, 0, top, WIDTH, 1))
        width = WIDTH // len(row)
        for place, panel in enumerate(row):
            panels.append(placed(graph(panel), place * width, top + 1, width, HEIGHT))
        top += 1 + HEIGHT
    for number, made in enumerate(panels, 1):
        made["id"] = number
    return {
        "uid": "warren",
        "title": "Warren",
        "tags": ["warren", "rabbitmq"],
        "schemaVersion": 39,
        "version": 1,
        "timezone": "browser",
        "refresh": "15s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [variable()]},
        "panels": panels,
    }


def variable() -> dict[str, Any]:
    """Which nodes are shown."""
    query = 'label_values(rabbitmq_identity_info{job="warren"}, instance)'
    return {
        "name": "node",
        "label": "Node",
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "prometheus"},
        "query": {"query": query, "refId": "node"},
        "definition": query,
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
    }


def graph(panel: tuple[str, str, tuple[Query, ...]]) -> dict[str, Any]:
    title, unit, queries = panel
    return {
        "type": "timeseries",
        "title": title,
        "datasource": {"type": "prometheus", "uid": "prometheus"},
        "fieldConfig": {
            "defaults": {"unit": unit, "min": 0, "custom": {"fillOpacity": 10, "lineWidth": 1}},
            "overrides": [],
        },
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        "targets": [
            {"expr": expression, "legendFormat": legend, "refId": chr(ord("A") + number)}
            for number, (expression, legend) in enumerate(queries)
        ],
    }


def placed(panel: dict[str, Any], x: int, y: int, width: int, height: int) -> dict[str, Any]:
    return {**panel, "gridPos": {"x": x, "y": y, "w": width, "h": height}}


def text() -> str:
    return json.dumps(dashboard(), indent=1) + "\n"


if __name__ == "__main__":
    TARGET.write_text(text(), encoding="utf-8")
