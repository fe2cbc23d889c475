"""`status`, `ping` and what accepts damage, of `warrenctl`: the node that is asked, as it is."""

import argparse
from collections.abc import Mapping
from typing import Final, TextIO
from urllib.parse import quote

from node.cli.api import Api
from node.cli.tables import TABLES, duration, size, write_json
from node.cli.verbs import Argument, Commands, Verb, done, rows_of, show, show_table


def ping(api: Api, options: argparse.Namespace, out: TextIO) -> None:
    api.get("/api/health/checks/is-in-service")
    done(options, out, "Ping succeeded")


def accept_damage(api: Api, options: argparse.Namespace, out: TextIO) -> None:
    place = f"{quote(options.vhost, safe='')}/{quote(options.queue, safe='')}"
    api.post(f"/api/queues/{place}/actions", {"action": "accept_damage"})
    done(options, out, f"Queue {options.queue} in vhost {options.vhost} is served again")


def accept_all_damage(api: Api, options: argparse.Namespace, out: TextIO) -> None:
    chosen = {"vhost_pattern": options.vhost_pattern, "queue_pattern": options.queue_pattern}
    answer = api.post("/api/queues/actions", {"action": "accept_damage", **chosen})
    rows = rows_of(answer, "accept_all_damage")
    show(rows, ("vhost", "name", "result"), options, out)


def status(api: Api, options: argparse.Namespace, out: TextIO) -> None:
    overview = api.get_object("/api/overview")
    node = api.get_object(f"/api/nodes/{quote(str(overview.get('node')), safe='')}")
    release = overview.get("rabbitmq_version")
    if options.formatter == "json":
        write_json({"rabbitmq_version": release, "overview": overview, "node": node}, out)
        return
    rows = [
        ("Node", node.get("name")),
        ("Cluster", overview.get("cluster_name")),
        ("Version", f"{node.get('version')} ({node.get('build')})"),
        ("OS PID", node.get("os_pid")),
        ("Uptime", duration(_number(node.get("uptime")))),
        ("Data directory", node.get("db_dir")),
        ("In service", not node.get("being_drained")),
        ("Alarms", ", ".join(_alarms(node)) or "none"),
        *(("Alarm", each) for each in _alarm_details(node)),
        ("Memory", _memory(node)),
        ("Disk free", f"{_size(node, 'disk_free')}, alarm below {_size(node, 'disk_free_limit')}"),
        ("Files", f"{_number(node.get('fd_used')):,} of {_number(node.get('fd_total')):,}"),
        *_recovery(node),
        *((name.capitalize(), f"{_number(count):,}") for name, count in _counts(overview).items()),
        *(("Listener", each) for each in _listeners(node)),
    ]
    if options.formatter in TABLES:
        print(f"RabbitMQ version: {release}", file=out)  # What scripts look for.
    options.no_table_headers = True
    show_table(("Status", ""), rows, options, out)


def _memory(node: Mapping[str, object]) -> str:
    used, limit = _number(node.get("mem_used")), _number(node.get("mem_limit"))
    share = f" ({100 * used // limit} %)" if limit else ""
    return f"{size(used)} of {size(limit)}{share}"


def _size(node: Mapping[str, object], key: str) -> str:
    return size(_number(node.get(key)))


def _alarms(node: Mapping[str, object]) -> list[str]:
    keys = {"memory": "mem_alarm", "disk": "disk_free_alarm", "clock": "clock_alarm"}
    return [name for name, key in keys.items() if node.get(key)]


def _alarm_details(node: Mapping[str, object]) -> list[str]:
    details = node.get("alarm_details")
    return [str(each) for each in details] if isinstance(details, list) else []


def _recovery(node: Mapping[str, object]) -> list[tuple[str, object]]:
    """What the start of the node has met in its log."""
    found = node.get("recovery")
    if not isinstance(found, dict):
        return []
    rows: list[tuple[str, object]] = [("Last stop", "clean" if found.get("clean") else "not clean")]
    torn = found.get("torn")
    if isinstance(torn, dict):
        rows.append(("Torn end cut", f"{torn.get('file')} at offset {torn.get('offset')}"))
    for each in found.get("corrupt") or ():
        names = [f"'{queue['name']}' in vhost '{queue['vhost']}'" for queue in each["queues"]]
        hit = f", hits queue {', '.join(names)}" if names else ""
        what = each.get("reason") or f"at offset {each['offset']}"
        rows.append(("Corrupt", f"{each['file']} {what}{hit}"))
    return rows


def _counts(overview: Mapping[str, object]) -> dict[str, object]:
    counts: dict[str, object] = {}
    for key in ("object_totals", "queue_totals"):
        part = overview.get(key)
        counts.update(part if isinstance(part, dict) else {})
    return {
        name.replace("_", " "): count
        for name, count in counts.items()
        if not name.endswith("_details")  # Rates.
    }


def _listeners(node: Mapping[str, object]) -> list[str]:
    listeners = node.get("listeners")
    return [
        f"{each.get('protocol')} {each.get('ip_address')}:{each.get('port')}"
        for each in (listeners if isinstance(listeners, list) else [])
    ]


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


STATUS: Final[Commands] = {
    "status": Verb("what the node is, does and has open", "", (), status),
    "ping": Verb("whether the node answers and serves clients", "", (), ping),
    "accept_damage": Verb(
        "serve a crashed queue with what could be read of it",
        "",
        (Argument("queue"),),
        accept_damage,
        in_vhost=True,
    ),
    "accept_all_damage": Verb(
        "serve all crashed queues of the node with what could be read of them",
        "",
        (Argument("--vhost-pattern", ".*"), Argument("--queue-pattern", ".*")),
        accept_all_damage,
    ),
}
