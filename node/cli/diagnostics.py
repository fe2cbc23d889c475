"""Commands of `warrenctl` that look: rabbitmq-diagnostics' and some of rabbitmq-queues'.

What checks ends with 69 and the reason where something is wrong. What waits (`await_startup`) asks
again until it is so or the time of `--timeout` is over.
"""

import json
import re
import socket
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final, TextIO

from node.cli.api import EXIT_UNAVAILABLE, Api, ApiFailure
from node.cli.cluster.commands import CHECKS, await_check, check, listed
from node.cli.tables import write_json
from node.cli.verbs import (
    Argument,
    BadCall,
    Commands,
    Options,
    Row,
    Verb,
    done,
    own_node,
    path,
    show,
    show_facts,
    tell,
    whole,
)

UNRESPONSIVE: Final = ("down", "crashed", "stopped", "minority", "timeout", "nodedown")
STUCK_S: Final = 5.0  # held back for so long by now
NODE_OPTION: Final = Argument("--node", "")
CONNECT_S: Final = 5.0


def node_row(api: Api, options: Options) -> Row:
    return api.get_object(path("nodes", str(options.node or own_node(api))))


def version(api: Api, options: Options, out: TextIO) -> None:
    row = node_row(api, options)
    tell(options, out, str(row.get("version")), {"version": row.get("version")})


def log_location(api: Api, options: Options, out: TextIO) -> None:
    """Of the node that is asked."""
    section = api.get_object("/api/config/effective").get("log")
    file = section.get("file") if isinstance(section, dict) else None
    place = str(file) if file else "<stderr>"
    tell(options, out, place, {"paths": [place]})


def listeners(api: Api, options: Options, out: TextIO) -> None:
    rows = listed(node_row(api, options), "listeners")
    show(rows, ("ip_address", "port", "protocol"), options, out)


def check_port_connectivity(api: Api, options: Options, out: TextIO) -> None:
    """Whether each listener of the node can be reached from here."""
    failed: list[str] = []
    for row in listed(node_row(api, options), "listeners"):
        host = options.address or str(row.get("ip_address"))
        host = "127.0.0.1" if host in ("0.0.0.0", "::") else host
        try:
            with socket.create_connection((host, int(row["port"])), CONNECT_S):
                continue
        except OSError as error:
            failed.append(f"{row.get('protocol')} {host}:{row.get('port')}: {error}")
    if failed:
        raise ApiFailure("; ".join(failed), EXIT_UNAVAILABLE)
    done(options, out, "All listeners can be reached")


def checked_by(pattern: str, text: str) -> Any:
    """A check whose path has the arguments of the call in it."""

    def run(api: Api, options: Options, out: TextIO) -> None:
        api.get(f"{CHECKS}/{pattern.format(**vars(options))}")
        done(options, out, text.format(**vars(options)))

    return run


def check_certificates(api: Api, options: Options, out: TextIO) -> None:
    within, unit = whole(options.within), options.unit
    if unit not in ("days", "weeks", "months", "years"):
        raise BadCall(f"unknown unit: {unit}; known: days, weeks, months, years")
    api.get(f"{CHECKS}/certificate-expiration/{within}/{unit}")
    done(options, out, "No certificate expires by then")


def check_deprecated(api: Api, options: Options, out: TextIO) -> None:
    rows = api.get_list("/api/deprecated-features/used")
    if rows:
        names = ", ".join(str(row.get("name")) for row in rows)
        raise ApiFailure(f"deprecated features are used: {names}", EXIT_UNAVAILABLE)
    done(options, out, "No deprecated features are used")


def memory_breakdown(api: Api, options: Options, out: TextIO) -> None:
    """The parts, the largest first, and the share of each."""
    parts = api.get_object(path("nodes", str(options.node or own_node(api)), "memory"))
    memory = parts.get("memory")
    if not isinstance(memory, dict):
        raise ApiFailure(f"no breakdown: {memory}", EXIT_UNAVAILABLE)
    sizes = {name: size for name, size in memory.items() if isinstance(size, int)}
    total = sizes.pop("total", 0) or sum(sizes.values()) or 1
    factor = {"bytes": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30}[options.unit]
    rows = [
        {"part": name, "size": f"{size / factor:.4g} {options.unit}", "bytes": size,
         "percentage": f"{100 * size / total:.2f}%"}
        for name, size in sorted(sizes.items(), key=lambda each: -each[1])
    ]  # fmt: skip
    show(rows, ("part", "size", "percentage"), options, out)


def environment(api: Api, options: Options, out: TextIO) -> None:
    """The configuration that is in force, without secrets."""
    facts = list(flat(api.get_object("/api/config/effective")))
    show_facts(facts, options, out)


def flat(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        if isinstance(value, dict) and value:
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def unresponsive(api: Api, options: Options, out: TextIO) -> None:
    rows = api.get_list(path("queues", options.vhost) + "?columns=name,vhost,state,node,reason")
    found = [row for row in rows if row.get("state") in UNRESPONSIVE]
    show(found, ("name", "state", "node", "reason"), options, out)


def maybe_stuck(api: Api, options: Options, out: TextIO) -> None:
    """What has waited for long: actors without credit, queues without a leader, nodes away."""
    found = [*stuck_actors(api), *stuck_queues(api)]
    for row in api.get_list("/api/nodes"):
        if not row.get("running"):
            found.append({"what": f"node {row.get('name')}", "why": "it is not running"})
        found += [
            {"what": f"node {row.get('name')}", "why": f"it cannot reach {each}"}
            for each in listed(row, "partitions")
        ]
    if not found:
        done(options, out, "There is nothing that looks stuck", [])
        return
    show(found, ("what", "why"), options, out)


def stuck_actors(api: Api) -> list[dict[str, object]]:
    graph = api.get_object("/api/flow/graph")
    names = {row["id"]: f"{row['kind']} {row['name']}" for row in listed(graph, "nodes")}
    now_ms = time.time() * 1000
    found: list[dict[str, object]] = []
    for edge in listed(graph, "edges"):
        waited_s = 0.0 if edge["since"] is None else (now_ms - edge["since"]) / 1000
        if waited_s >= STUCK_S:
            why = f"held back for {waited_s:.0f} s by {names[edge['to']]}: {edge['reason']}"
            found.append({"what": names[edge["from"]], "why": why})
    return found


def stuck_queues(api: Api) -> list[dict[str, object]]:
    rows = api.get_list("/api/queues?columns=name,vhost,state,reason")
    return [
        {
            "what": f"queue '{row.get('name')}' in vhost '{row.get('vhost')}'",
            "why": f"{row.get('state')} {row.get('reason') or ''}".strip(),
        }
        for row in rows
        if row.get("state") in UNRESPONSIVE
    ]


def message_sizes(api: Api, options: Options, out: TextIO) -> None:
    """Messages since the start of the node, by size."""
    buckets: dict[float, int] = {}
    for line in api.text("/metrics").splitlines():
        found = re.match(r'rabbitmq_message_size_bytes_bucket\{.*le="([^"]+)"\} (\S+)', line)
        if found is not None:
            bound = float(found[1])
            buckets[bound] = buckets.get(bound, 0) + int(float(found[2]))
    rows: list[dict[str, object]] = []
    below, total = 0, max(buckets.values(), default=0)
    for bound, count in sorted(buckets.items()):
        share = 100 * (count - below) / total if total else 0.0
        name = "more" if bound == float("inf") else f"up to {bound:.0f} bytes"
        rows.append({"size": name, "messages": count - below, "percentage": f"{share:.2f}%"})
        below = count
    show(rows, ("size", "messages", "percentage"), options, out)


def matching_policies(api: Api, options: Options, out: TextIO) -> None:
    """Policies that match an object, the one in force first."""
    from node.auth.patterns import is_found  # Late: it loads RE2, which only this command needs.

    kind = f"{options.object_type}s"
    row = api.get_object(path(kind, options.vhost, options.name))
    applied = {"all", kind, f"{row.get('type')}_queues"}
    found = [
        policy
        for policy in api.get_list(path("policies", options.vhost))
        if policy.get("apply-to") in applied and is_found(str(policy.get("pattern")), options.name)
    ]
    found.sort(key=lambda policy: -int(str(policy.get("priority", 0))))
    columns = ("name", "pattern", "apply-to", "definition", "priority")
    show(found, columns, options, out)


def consume_events(api: Api, options: Options, out: TextIO) -> None:
    """Events as they happen, one JSON object on a line, until the call is ended."""
    place = "/api/events"
    if options.pattern:
        place += f"?names={options.pattern}"
    for line in api.lines("GET", place):
        name, _, text = line.partition(":")
        if name == "data":
            try:
                write_json(json.loads(text), out)
            except ValueError:
                print(text.strip(), file=out)
            out.flush()


def check_initial_sync(api: Api, options: Options, out: TextIO) -> None:
    """Whether all members of quorum queues have caught up with their leaders."""
    late: list[str] = []
    for row in api.get_list("/api/queues?columns=name,vhost,type"):
        if row.get("type") != "quorum":
            continue
        place = path("queues", "quorum", str(row["vhost"]), str(row["name"]), "status")
        for member in api.get_list(place):
            if member.get("Membership") in ("promotable", "non_voter"):
                late.append(f"'{row['name']}' in vhost '{row['vhost']}'")
                break
    if late:
        raise ApiFailure(f"members catch up: queue {', '.join(late)}", EXIT_UNAVAILABLE)
    done(options, out, "All members have finished their initial sync")


def resolve_hostname(api: Api, options: Options, out: TextIO) -> None:
    family = {"ipv4": socket.AF_INET, "ipv6": socket.AF_INET6}.get(
        options.address_family, socket.AF_UNSPEC
    )
    try:
        found = socket.getaddrinfo(options.hostname, None, family, socket.SOCK_STREAM)
    except OSError as error:
        raise ApiFailure(f"{options.hostname}: {error}", EXIT_UNAVAILABLE) from error
    addresses = sorted({str(each[4][0]) for each in found})
    show([{"address": each} for each in addresses], ("address",), options, out)


DIAGNOSTICS: Final[Commands] = {
    "await_startup": Verb(
        "wait until the node serves clients",
        "Will wait for the node to start ...",
        (),
        await_check("is-in-service", "the node does not serve clients"),
    ),
    "version": Verb("the version of the node", "", (NODE_OPTION,), version),
    "server_version": Verb("the version of the node", "", (NODE_OPTION,), version),
    "is_running": Verb(
        "fail if the node serves no clients",
        "",
        (),
        check("is-in-service", "The node is in service"),
    ),
    "listeners": Verb(
        "the listeners of a node", "Interfaces and ports:", (NODE_OPTION,), listeners
    ),
    "check_port_listener": Verb(
        "fail if nothing listens on a port",
        "",
        (Argument("port"),),
        checked_by("port-listener/{port}", "Port {port} has a listener"),
    ),
    "check_protocol_listener": Verb(
        "fail if nothing listens for a protocol",
        "",
        (Argument("protocol"),),
        checked_by("protocol-listener/{protocol}", "Protocol {protocol} has a listener"),
    ),
    "check_port_connectivity": Verb(
        "fail if a listener cannot be reached from here",
        "",
        (NODE_OPTION, Argument("--address", "")),
        check_port_connectivity,
    ),
    "check_virtual_hosts": Verb(
        "fail if a vhost does not run",
        "",
        (),
        check("virtual-hosts", "All virtual hosts are running"),
    ),
    "check_certificate_expiration": Verb(
        "fail if a certificate expires within so many days, weeks, months or years",
        "",
        (Argument("--within", "4"), Argument("--unit", "weeks")),
        check_certificates,
    ),
    "check_if_any_deprecated_features_are_used": Verb(
        "fail if deprecated features are used", "", (), check_deprecated
    ),
    "check_if_new_quorum_queue_replicas_have_finished_initial_sync": Verb(
        "fail if members of quorum queues still catch up", "", (), check_initial_sync
    ),
    "check_if_metadata_store_is_initialized": Verb(
        "fail if the node has not read its definitions",
        "",
        (),
        check("metadata-store/initialized", "The definitions are there"),
    ),
    "check_if_node_is_mirror_sync_critical": Verb(
        "fail if queues would lose their only synchronised copy with the node: none has mirrors",
        "",
        (),
        check("node-is-mirror-sync-critical", "No queue depends on this node for its mirrors"),
    ),
    "log_location": Verb("the file of the log", "", (), log_location),
    "memory_breakdown": Verb(
        "what takes how much memory on a node",
        "Reporting memory breakdown on node {node} ...",
        (NODE_OPTION, Argument("--unit", "mb", choices=("bytes", "kb", "mb", "gb"))),
        memory_breakdown,
    ),
    "environment": Verb(
        "the configuration that is in force", "Application environment ...", (), environment
    ),
    "list_unresponsive_queues": Verb(
        "queues that do not answer, and why",
        "Listing unresponsive queues for vhost {vhost} ...",
        (),
        unresponsive,
        in_vhost=True,
    ),
    "maybe_stuck": Verb(
        "what has waited for long, and for what",
        "Asking all nodes for what waits ...",
        (),
        maybe_stuck,
    ),
    "message_size_stats": Verb(
        "messages by size, since the start of the node",
        "Gathering message size statistics ...",
        (),
        message_sizes,
    ),
    "list_policies_that_match": Verb(
        "policies that match a queue or an exchange",
        "Listing policies that match {object_type} '{name}' in vhost '{vhost}' ...",
        (Argument("name"), Argument("--object-type", "queue", choices=("queue", "exchange"))),
        matching_policies,
        in_vhost=True,
    ),
    "consume_event_stream": Verb(
        "events of the cluster as they happen, until the call is ended",
        "Streaming events ...",
        (Argument("--pattern", ""),),
        consume_events,
    ),
    "resolve_hostname": Verb(
        "the addresses of a host name",
        "Resolving hostname {hostname} ...",
        (Argument("hostname"), Argument("--address-family", "")),
        resolve_hostname,
    ),
}
