"""`warrenctl`: RabbitMQ's command names over the HTTP API of a node.

Tables are drawn on a terminal; into a pipe go lines of values between tabs, under a line of names,
as scripts for rabbitmqctl expect. Exit codes are those of sysexits: 64 wrong call, 65 no such
object, 69 no node there, 70 the node failed, 77 login refused.
"""

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TextIO
from urllib.parse import quote

from node.cli.api import Api, ApiFailure
from node.cli.changes import CHANGES, LISTS, BadCall, change, list_rows
from node.cli.operating import COMMANDS as CLUSTER
from node.cli.operating import run as run_cluster
from node.cli.tables import write_json, write_table

EXIT_OK: Final = 0
EXIT_USAGE: Final = 64

URL_DEFAULT: Final = "http://127.0.0.1:15672"

# What each list can show; the first of them are shown unless columns are asked for.
COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "list_queues": (
        "name", "messages", "vhost", "type", "durable", "auto_delete", "exclusive", "arguments",
        "node", "state", "leader", "members", "online", "policy", "messages_ready",
        "messages_unacknowledged", "message_bytes", "message_bytes_ready",
        "message_bytes_unacknowledged", "memory", "consumers", "reason",
    ),
    "list_connections": (
        "user", "peer_host", "peer_port", "state", "name", "vhost", "host", "port", "protocol",
        "channels", "channel_max", "frame_max", "timeout", "auth_mechanism", "ssl",
        "connected_at", "client_properties", "user_provided_name", "node", "recv_oct", "recv_cnt",
        "send_oct", "send_cnt", "send_pend",
    ),
    "list_exchanges": (
        "name", "type", "vhost", "durable", "auto_delete", "internal", "arguments", "policy",
    ),
    "list_bindings": (
        "source", "destination", "destination_type", "routing_key", "arguments", "vhost",
        "properties_key",
    ),
}  # fmt: skip
SHOWN_COUNT: Final[Mapping[str, int]] = {
    "list_queues": 2,
    "list_connections": 4,
    "list_exchanges": 2,
    "list_bindings": 5,
}


class UsageError(Exception):
    """The call is wrong in a way that the parser of arguments does not see."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit code is returned."""
    try:
        options = make_parser().parse_args(arguments)
    except SystemExit as stop:  # argparse has printed why; its code for a wrong call is 2.
        return EXIT_USAGE if stop.code == 2 else int(stop.code or 0)
    commands: Mapping[str, Callable[[Api, argparse.Namespace, TextIO], None]] = {
        "status": status,
        "ping": ping,
        "accept_damage": accept_damage,
        **dict.fromkeys(COLUMNS, list_objects),
        **dict.fromkeys(CHANGES, change),
        **dict.fromkeys(LISTS, list_rows),
        **dict.fromkeys(CLUSTER, run_cluster),
    }
    try:
        password = options.password or os.environ.get("WARREN_CTL_PASSWORD") or "guest"
        api = Api(options.node_url, options.user, password, options.timeout)
        commands[options.command](api, options, sys.stdout)
    except (UsageError, BadCall) as error:
        print(f"warrenctl: {error}", file=sys.stderr)
        return EXIT_USAGE
    except ApiFailure as failure:
        print(f"warrenctl: {failure}", file=sys.stderr)
        return failure.exit_code
    return EXIT_OK


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="warrenctl", description="Look after a Warren node.", allow_abbrev=False
    )
    parser.add_argument("--node-url", default=URL_DEFAULT, help=f"default: {URL_DEFAULT}")
    parser.add_argument("--user", default="guest", help="default: guest")
    parser.add_argument("--password", help="default: WARREN_CTL_PASSWORD, else guest")
    parser.add_argument("--formatter", choices=("table", "json"), default="table")
    parser.add_argument("--timeout", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("-q", "--quiet", action="store_true", help="no line above a list")
    parser.add_argument("--no-table-headers", action="store_true")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("status", help="what the node is, does and has open")
    commands.add_parser("ping", help="whether the node answers and serves clients")
    accept = commands.add_parser(
        "accept_damage", help="serve a crashed queue with what could be read of it"
    )
    accept.add_argument("-p", "--vhost", default="/")
    accept.add_argument("queue", metavar="QUEUE")
    for command, columns in COLUMNS.items():
        each = commands.add_parser(command, help=f"columns: {' '.join(columns)}")
        each.add_argument("-p", "--vhost", default="/")
        each.add_argument("columns", nargs="*", metavar="COLUMN")
    for name, verb in CHANGES.items():
        verb.describe(commands.add_parser(name, help=verb.help))
    for name, listing in LISTS.items():
        listing.describe(commands.add_parser(name, help=listing.help))
    for name, row in CLUSTER.items():
        row.describe(commands.add_parser(name, help=row.help))
    return parser


def ping(api: Api, options: argparse.Namespace, out: TextIO) -> None:
    api.get("/api/health/checks/is-in-service")
    if options.formatter == "json":
        write_json({"result": "ok"}, out)
    else:
        print("Ping succeeded", file=out)


def accept_damage(api: Api, options: argparse.Namespace, out: TextIO) -> None:
    place = f"{quote(options.vhost, safe='')}/{quote(options.queue, safe='')}"
    api.post(f"/api/queues/{place}/actions", {"action": "accept_damage"})
    if options.formatter == "json":
        write_json({"result": "ok"}, out)
    elif not options.quiet:
        print(f"Queue {options.queue} in vhost {options.vhost} is served again", file=out)


def status(api: Api, options: argparse.Namespace, out: TextIO) -> None:
    overview = api.get_object("/api/overview")
    node = api.get_object(f"/api/nodes/{quote(str(overview.get('node')), safe='')}")
    if options.formatter == "json":
        write_json({"overview": overview, "node": node}, out)
        return
    rows = [
        ("Node", node.get("name")),
        ("Cluster", overview.get("cluster_name")),
        ("Version", f"{node.get('version')} ({node.get('build')})"),
        ("OS PID", node.get("os_pid")),
        ("Uptime, s", _number(node.get("uptime")) // 1000),
        ("Data directory", node.get("db_dir")),
        ("In service", not node.get("being_drained")),
        ("Alarms", ", ".join(_alarms(node)) or "none"),
        *(("Alarm", each) for each in _alarm_details(node)),
        ("Memory", f"{node.get('mem_used')} of {node.get('mem_limit')} bytes"),
        ("Disk free", f"{node.get('disk_free')} bytes, limit {node.get('disk_free_limit')}"),
        ("Files", f"{node.get('fd_used')} of {node.get('fd_total')}"),
        *_recovery(node),
        *((name.capitalize(), count) for name, count in _counts(overview).items()),
        *(("Listener", each) for each in _listeners(node)),
    ]
    write_table(["Status", ""], rows, out, with_names=False)


def list_objects(api: Api, options: argparse.Namespace, out: TextIO) -> None:
    """The four lists: their objects, and what is shown of them."""
    command = options.command
    known = COLUMNS[command]
    columns = options.columns or known[: SHOWN_COUNT[command]]
    unknown = [column for column in columns if column not in known]
    if unknown:
        raise UsageError(
            f"{command}: unknown column {', '.join(unknown)}; allowed: {' '.join(known)}"
        )
    kind = command.removeprefix("list_")
    path = f"/api/{kind}"
    if kind != "connections":  # They are listed for all vhosts, as by rabbitmqctl.
        path += "/" + quote(options.vhost, safe="")
    rows = api.get_list(f"{path}?columns={','.join(columns)}")
    if options.formatter == "json":
        write_json(rows, out)
        return
    if not options.quiet:
        where = "" if kind == "connections" else f" for vhost {options.vhost}"
        print(f"Listing {kind}{where} ...", file=out)
    table = [[row.get(column) for column in columns] for row in rows]
    write_table(columns, table, out, with_names=not options.no_table_headers)


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
        rows.append(("Corrupt", f"{each['file']} at offset {each['offset']}{hit}"))
    return rows


def _counts(overview: Mapping[str, object]) -> dict[str, object]:
    counts: dict[str, object] = {}
    for key in ("object_totals", "queue_totals"):
        part = overview.get(key)
        counts.update(part if isinstance(part, dict) else {})
    return {name.replace("_", " "): count for name, count in counts.items()}


def _listeners(node: Mapping[str, object]) -> list[str]:
    listeners = node.get("listeners")
    return [
        f"{each.get('protocol')} {each.get('ip_address')}:{each.get('port')}"
        for each in (listeners if isinstance(listeners, list) else [])
    ]


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


if __name__ == "__main__":
    sys.exit(main())
