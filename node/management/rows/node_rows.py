"""Rows of nodes, and what of them other resources show: listeners and alarms."""

from collections.abc import Iterator
from typing import Final

from node.management.rows.columns import Column, Kind, row_of
from node.management.rows.columns import field_column as _of
from node.management.rows.view import MirroringView, NodeView, RecoveryView

# RabbitMQ's plugins whose work a node does by itself; tools look whether they are there.
PLUGINS: Final = (
    "rabbitmq_consistent_hash_exchange",
    "rabbitmq_event_exchange",
    "rabbitmq_management",
    "rabbitmq_prometheus",
)


def paused_details(reason: str) -> tuple[str, ...]:
    """What an operator reads of a node that pauses."""
    return (f"paused: classic and mirrored queues are not served; {reason}",) if reason else ()


def slow_mirror_details(mirroring: MirroringView) -> Iterator[str]:
    """What an operator reads about mirrors that publishers wait for."""
    for each in mirroring.slow:
        yield (
            f"slow mirrors: node {each.node} takes {each.lag_ms} ms to sync messages of "
            f"{each.queue}"
            + (f" and of {each.queue_count - 1} more queues" if each.queue_count > 1 else "")
            + "; publishers wait for it"
        )


def _alarm_details(node: NodeView) -> list[str]:
    return [
        *node.alarm_details,
        *paused_details(node.paused_because),
        *slow_mirror_details(node.mirroring),
    ]


def recovery_row(recovery: RecoveryView) -> dict[str, object]:
    """What the start of the node has met in its log."""
    torn = recovery.torn
    return {
        "clean": recovery.clean,
        "torn": None if torn is None else {"file": torn[0], "offset": torn[1]},
        "corrupt": [
            {
                "file": each.file,
                "offset": each.offset,
                "record": each.record,
                "reason": each.reason,
                "queues": [{"vhost": vhost, "name": name} for vhost, name in each.queues],
            }
            for each in recovery.corrupt
        ],
    }


def listener_rows(node: NodeView) -> list[dict[str, object]]:
    return [
        {
            "node": node.name,
            "protocol": each.protocol,
            "ip_address": each.host,
            "port": each.port,
        }
        for each in node.listeners
    ]


def alarms_of(node: NodeView) -> list[dict[str, str]]:
    """The alarms in effect, as the health checks show them."""
    raised = [
        ("memory", node.memory_alarm),
        ("disk", node.disk_alarm),
        ("clock", node.clock_alarm),
    ]
    return [{"node": node.name, "resource": resource} for resource, is_on in raised if is_on]


NODE_COLUMNS: Final[tuple[Column[NodeView], ...]] = (
    _of("name", Kind.TEXT),
    Column("type", Kind.TEXT, lambda _: "disc"),
    Column("running", Kind.FLAG, lambda _: True),
    Column("being_drained", Kind.FLAG, lambda node: not node.in_service),
    Column("alarm_details", Kind.TEXTS, _alarm_details),
)
# Only of a node that answers.
ANSWERING_COLUMNS: Final[tuple[Column[NodeView], ...]] = (
    _of("uptime", Kind.COUNT, "uptime_ms"),
    Column("os_pid", Kind.TEXT, lambda node: str(node.process_id)),
    _of("processors", Kind.COUNT),
    Column("run_queue", Kind.COUNT, lambda _: 0),  # One loop: nothing else runs while it answers.
    _of("proc_used", Kind.COUNT, "threads_used"),
    _of("proc_total", Kind.COUNT, "threads_max"),
    Column("enabled_plugins", Kind.TEXTS, lambda _: list(PLUGINS)),
    _of("version", Kind.TEXT),
    _of("build", Kind.TEXT),
    _of("db_dir", Kind.TEXT, "data_dir"),
    _of("mem_used", Kind.COUNT, "memory_used_bytes"),
    _of("mem_limit", Kind.COUNT, "memory_limit_bytes"),
    _of("mem_alarm", Kind.FLAG, "memory_alarm"),
    _of("disk_free", Kind.COUNT, "disk_free_bytes"),
    _of("disk_free_limit", Kind.COUNT, "disk_free_limit_bytes"),
    _of("disk_free_alarm", Kind.FLAG, "disk_alarm"),
    _of("clock_alarm", Kind.FLAG),
    Column("paused", Kind.FLAG, lambda node: bool(node.paused_because)),
    _of("fd_used", Kind.COUNT, "files_used"),
    _of("fd_total", Kind.COUNT, "files_max"),
    _of("sockets_used", Kind.COUNT),
)


def node_row(node: NodeView) -> dict[str, object]:
    return {
        **row_of(NODE_COLUMNS, node),
        **row_of(ANSWERING_COLUMNS, node),
        "listeners": listener_rows(node),
        "recovery": recovery_row(node.recovery),
    }
