"""Rows of nodes, and what of them other resources show: listeners and alarms."""

from collections.abc import Iterator
from typing import Final

from node.management.rows.view import MirroringView, NodeView, RecoveryView

# RabbitMQ's plugins whose work a node does by itself; tools look whether they are there.
PLUGINS: Final = (
    "rabbitmq_consistent_hash_exchange",
    "rabbitmq_event_exchange",
    "rabbitmq_management",
    "rabbitmq_prometheus",
)


def node_row(node: NodeView) -> dict[str, object]:
    return {
        "name": node.name,
        "type": "disc",
        "running": True,
        "being_drained": not node.in_service,
        "uptime": node.uptime_ms,
        "os_pid": str(node.process_id),
        "processors": node.processors,
        "run_queue": 0,  # One loop: nothing else runs while it answers.
        "proc_used": node.threads_used,
        "proc_total": node.threads_max,
        "enabled_plugins": list(PLUGINS),
        "version": node.version,
        "build": node.build,
        "db_dir": node.data_dir,
        "mem_used": node.memory_used_bytes,
        "mem_limit": node.memory_limit_bytes,
        "mem_alarm": node.memory_alarm,
        "disk_free": node.disk_free_bytes,
        "disk_free_limit": node.disk_free_limit_bytes,
        "disk_free_alarm": node.disk_alarm,
        "clock_alarm": node.clock_alarm,
        "paused": bool(node.paused_because),
        "alarm_details": [
            *node.alarm_details,
            *paused_details(node.paused_because),
            *slow_mirror_details(node.mirroring),
        ],
        "fd_used": node.files_used,
        "fd_total": node.files_max,
        "sockets_used": node.sockets_used,
        "listeners": listener_rows(node),
        "recovery": recovery_row(node.recovery),
    }


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
