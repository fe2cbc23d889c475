"""Commands of `warrenctl` about the cluster, its nodes and the members of quorum queues.

Each is a row of COMMANDS: its arguments as rabbitmqctl, rabbitmq-queues, rabbitmq-upgrade and
rabbitmq-diagnostics have them, and what it asks of the HTTP API. What waits (`await_...`) asks
again every POLL_S until it is so or the time of `--timeout` is over, and then ends with 69.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any, Final, TextIO

from node.cli.api import EXIT_UNAVAILABLE, Api, ApiFailure
from node.cli.progress import Progress, shown_while
from node.cli.tables import write_json
from node.cli.verbs import (
    Argument,
    BadCall,
    Commands,
    Options,
    Row,
    Run,
    Verb,
    announce,
    done,
    own_node,
    path,
    rows_of,
    show,
    show_table,
    whole,
)

POLL_S: Final = 0.25
CHECKS: Final = "/api/health/checks"
STATUS_COLUMNS: Final = (
    "Node Name", "Raft State", "Membership", "Last Log Index", "Last Written", "Last Applied",
    "Commit Index", "Snapshot Index", "Term", "Machine Version",
)  # fmt: skip
RESULT_COLUMNS: Final = ("vhost", "name", "size", "result")
PATTERNS: Final = (Argument("--vhost-pattern", ".*"), Argument("--queue-pattern", ".*"))
NODE: Final = Argument("node")
OWN_NODE: Final = Argument("node", "")  # the one that is asked, unless another is named
QUEUE: Final = Argument("queue")
ERRORS_ONLY: Final = Argument("--errors-only", is_flag=True)
MEMBERSHIP: Final = Argument("--membership", "promotable", choices=("promotable", "voter"))


def run(api: Api, options: Options, out: TextIO) -> None:
    """Carry out one of COMMANDS."""
    command = COMMANDS[options.command]
    if OWN_NODE in command.arguments and not options.node:
        options.node = own_node(api)
    announce(command.told, options, out)
    command.run(api, options, out)


# The cluster


def cluster_status(api: Api, options: Options, out: TextIO) -> None:
    name = api.get_object("/api/cluster-name").get("name")
    nodes = api.get_list("/api/nodes")
    running = [each for each in nodes if each.get("running")]
    told = {
        "cluster_name": name,
        "disk_nodes": [each.get("name") for each in nodes],
        "running_nodes": [each.get("name") for each in running],
        "partitions": {
            each["name"]: each["partitions"] for each in nodes if each.get("partitions")
        },
        "alarms": [alarm for each in nodes for alarm in alarms_of(each)],
        "versions": {str(each.get("name")): each.get("version") for each in running},
        "maintenance_status": {str(each.get("name")): maintenance_of(each) for each in nodes},
        "listeners": {str(each.get("name")): each.get("listeners") for each in running},
    }
    if options.formatter == "json":
        write_json(told, out)
        return
    rows = [
        (
            each.get("name"),
            "running" if each.get("running") else "not running",
            maintenance_of(each),
            each.get("version"),
            ", ".join(alarm["resource"] for alarm in alarms_of(each)) or "none",
            ", ".join(map(str, listed(each, "partitions"))) or "none",
            ", ".join(listener_text(row) for row in listed(each, "listeners")),
        )
        for each in nodes
    ]
    options.cluster_name = name
    announce("Cluster name: {cluster_name}", options, out)
    columns = ("Node", "State", "Maintenance", "Version", "Alarms", "Cannot reach", "Listeners")
    show_table(columns, rows, options, out)


def listed(row: Row, key: str) -> list[Any]:
    found = row.get(key)
    return found if isinstance(found, list) else []


def alarms_of(node: Row) -> list[dict[str, str]]:
    keys = (("memory", "mem_alarm"), ("disk", "disk_free_alarm"), ("clock", "clock_alarm"))
    name = str(node.get("name"))
    return [{"node": name, "resource": resource} for resource, key in keys if node.get(key)]


def maintenance_of(node: Row) -> str:
    return "under maintenance" if node.get("being_drained") else "not under maintenance"


def listener_text(row: Row) -> str:
    return f"{row.get('protocol')} {row.get('ip_address')}:{row.get('port')}"


def alarms(api: Api, options: Options, out: TextIO) -> None:
    """Those of all nodes."""
    rows = [alarm for each in api.get_list("/api/nodes") for alarm in alarms_of(each)]
    show(rows, ("node", "resource"), options, out)


def forget(api: Api, options: Options, out: TextIO) -> None:
    query = "?force=true" if options.force else ""
    answer = api.delete(path("nodes", options.node) + query)
    failed = rows_of(answer, "forget_cluster_node")
    if failed and options.formatter != "json":
        show(failed, RESULT_COLUMNS, options, out)
        return
    done(options, out, answer=failed or None)


def reset(api: Api, options: Options, out: TextIO) -> None:
    api.post(path("nodes", options.node, "reset"), {"force": options.force})
    done(options, out, f"Node {options.node} leaves the cluster and stops; it starts empty")


def drain(api: Api, options: Options, out: TextIO) -> None:
    answer = api.post(path("nodes", options.node, "drain"), {"force": options.force})
    report = answer if isinstance(answer, dict) else {}
    closed, moved = report.get("connections_closed"), report.get("leaders_moved")
    done(
        options, out, f"{options.node}: {closed} connections closed, {moved} leaders moved", report
    )
    if options.formatter != "json":
        for each in listed(report, "still_led_here"):
            print(f"still led there: {each}", file=out)
    classic = report.get("classic_queues_here")
    if not classic:
        return
    if options.formatter != "json" and not options.quiet:
        advice = "" if options.wait else "; --wait waits until they are empty"
        print(f"{classic} classic queues stay on {options.node}{advice}", file=out)
    if options.wait:
        await_empty(api, options.node, options.timeout)


def await_empty(api: Api, node: str, seconds: float) -> None:
    """Wait until no classic queue of the node has messages."""
    place = "/api/queues?columns=node,type,messages"

    def is_so() -> bool:
        return not any(
            row.get("messages") != 0
            for row in api.get_list(place)
            if row.get("node") == node and row.get("type") == "classic"
        )

    await_until(is_so, seconds, f"classic queues of {node} still have messages")


def revive(api: Api, options: Options, out: TextIO) -> None:
    api.post(path("nodes", options.node, "revive"), {})
    done(options, out, f"{options.node} takes clients again")


def await_online_nodes(api: Api, options: Options, out: TextIO) -> None:
    wanted = whole(options.count)

    def is_so() -> bool:
        nodes = api.get_list("/api/nodes")
        return sum(bool(each.get("running")) for each in nodes) >= wanted

    await_until(is_so, options.timeout, f"fewer than {wanted} nodes are running")
    done(options, out)


def await_check(name: str, reason: str) -> Run:
    """Wait until a health check is good; `reason`: why it was not."""

    def run_await(api: Api, options: Options, out: TextIO) -> None:
        def is_good() -> bool:
            try:
                api.get(f"{CHECKS}/{name}")
            except ApiFailure as failure:
                if failure.exit_code != EXIT_UNAVAILABLE:
                    raise
                return False
            return True

        await_until(is_good, options.timeout, reason)
        done(options, out)

    return run_await


def await_until(is_so: Callable[[], bool], seconds: float, reason: str) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() >= deadline:
            raise ApiFailure(f"after {seconds:g} s {reason}", EXIT_UNAVAILABLE)
        time.sleep(POLL_S)


def check(name: str, text: str) -> Run:
    """A health check: 69 and the reason where it fails."""

    def run_check(api: Api, options: Options, out: TextIO) -> None:
        api.get(f"{CHECKS}/{name}")
        done(options, out, text)

    return run_check


# Quorum queues


def quorum_status(api: Api, options: Options, out: TextIO) -> None:
    place = path("queues", "quorum", options.vhost, options.queue, "status")
    show(api.get_list(place), STATUS_COLUMNS, options, out)


def add_replica(api: Api, options: Options, out: TextIO) -> None:
    _add(api, options, {"node": options.node}, out)


def add_member(api: Api, options: Options, out: TextIO) -> None:
    _add(api, options, {"node": options.node, "membership": options.membership}, out)


def _add(api: Api, options: Options, body: dict[str, object], out: TextIO) -> None:
    api.post(path("queues", "quorum", options.vhost, options.queue, "replicas", "add"), body)
    done(options, out)


def delete_member(api: Api, options: Options, out: TextIO) -> None:
    place = path("queues", "quorum", options.vhost, options.queue, "replicas", "delete")
    api.delete_with(place, {"node": options.node})
    done(options, out)


def transfer_leadership(api: Api, options: Options, out: TextIO) -> None:
    place = path("queues", "quorum", options.vhost, options.queue, "leader")
    api.post(place, {"node": options.node})
    done(options, out)


def sync_queue(api: Api, options: Options, out: TextIO) -> None:
    api.post(path("queues", options.vhost, options.queue, "actions"), {"action": "sync"})
    done(options, out)


def cancel_sync_queue(api: Api, options: Options, out: TextIO) -> None:
    api.post(path("queues", options.vhost, options.queue, "actions"), {"action": "cancel_sync"})
    done(options, out)


def recover(api: Api, options: Options, out: TextIO) -> None:
    if not options.unsafe:
        raise BadCall(
            "what the other members of the queue alone have is lost; say --unsafe if it is to be"
        )
    body = {"confirm": options.queue, **({"node": options.node} if options.node else {})}
    answer = api.post(path("queues", "quorum", options.vhost, options.queue, "recover"), body)
    report = answer if isinstance(answer, dict) else {}
    lost = ", ".join(map(str, listed(report, "members_lost"))) or "none"
    text = f"The queue goes on with the member on {report.get('node')}; given up: {lost}"
    done(options, out, text, report)


def recover_queues(api: Api, options: Options, out: TextIO) -> None:
    if not options.unsafe:
        raise BadCall(
            "what the other members of all these queues alone have is lost; say --unsafe if it is "
            "to be"
        )
    answer = api.post(path("queues", "quorum", "recover"), {"confirm": "all", **patterns(options)})
    columns = ("vhost", "name", "node", "members_lost", "result")
    show(rows_of(answer, "recover_queues"), columns, options, out)


def recover_cluster(api: Api, options: Options, out: TextIO) -> None:
    if not options.unsafe:
        raise BadCall("all other nodes are forgotten for ever; say --unsafe if they are to be")
    answer = api.post("/api/cluster/recover", {"confirm": own_node(api)})
    report = answer if isinstance(answer, dict) else {}
    names = ", ".join(map(str, listed(report, "forgotten")))
    done(options, out, f"The cluster goes on with this node alone; forgotten: {names}", report)


def grow(api: Api, options: Options, out: TextIO) -> None:
    place = path("queues", "quorum", "replicas", "on", options.node, "grow")
    body = {
        "strategy": strategy(options),
        "membership": options.membership,
        "errors_only": options.errors_only,
        **patterns(options),
    }
    answer = shown_while(
        lambda: api.post(place, body), lambda: with_member(api, options.node), "Growing", options
    )
    show(rows_of(answer, "grow"), RESULT_COLUMNS, options, out)


def grow_to_count(api: Api, options: Options, out: TextIO) -> None:
    body = {"count": whole(options.count), "strategy": strategy(options), **patterns(options)}
    answer = shown_while(
        lambda: api.post(path("queues", "quorum", "replicas", "grow-to-count"), body),
        lambda: of_size(api, whole(options.count)),
        "Growing",
        options,
    )
    show(rows_of(answer, "grow_to_count"), RESULT_COLUMNS, options, out)


def shrink(api: Api, options: Options, out: TextIO) -> None:
    query = "?errors_only=true" if options.errors_only else ""
    place = path("queues", "quorum", "replicas", "on", options.node, "shrink")
    answer = shown_while(
        lambda: api.delete(place + query),
        lambda: without_member(api, options.node),
        "Shrinking",
        options,
    )
    show(rows_of(answer, "shrink"), RESULT_COLUMNS, options, out)


def rebalance(api: Api, options: Options, out: TextIO) -> None:
    if options.type not in ("all", "classic", "quorum"):
        raise BadCall(f"unknown type: {options.type}; known: all, classic, quorum")
    body = {"type": options.type, **patterns(options)}
    answer = shown_while(
        lambda: api.post("/api/rebalance/queues", body),
        lambda: balanced(api),
        "Rebalancing",
        options,
    )
    columns = ("node", "number of classic queues", "number of quorum queues")
    show(rows_of(answer, "rebalance"), columns, options, out)


# Where leaders should go

PLAN_COLUMNS: Final = ("vhost", "name", "from", "to", "why", "result")
TO_MOVE: Final = "to be moved"


def cluster_plan(api: Api, options: Options, out: TextIO) -> None:
    rows = advised(api, options.advice) if options.advice else planned(api)
    for row in rows:
        if options.apply and row["result"] == TO_MOVE:
            place = path("queues", "quorum", str(row["vhost"]), str(row["name"]), "leader")
            api.post(place, {"node": row["to"]})
            row["result"] = "moved"
    show(rows, PLAN_COLUMNS, options, out)


def planned(api: Api) -> list[dict[str, object]]:
    """What a rebalance would move, and what the node advises by the traffic that it sees."""
    plan = api.get_object("/api/cluster/plan")
    moves = [{**row, "why": "balance"} for row in listed(plan, "moves")]
    traffic = [
        {**row, "why": f"{row['share_percent']} % of its messages"}
        for row in listed(plan, "traffic")
    ]
    return [{**row, "result": TO_MOVE} for row in (*moves, *traffic)]


def advised(api: Api, file: str) -> list[dict[str, object]]:
    """The moves of the job `placement` (`python -m warren.spark --json placement`), looked at
    beside the queues as they are now."""
    try:
        with sys.stdin if file == "-" else open(file, encoding="utf-8") as opened:
            told = json.load(opened)
        moves = [(str(row["vhost"]), str(row["queue"]), row) for row in told["rows"]]
        wanted = [str(row["move to"]) for _, _, row in moves]
        why = [f"{float(row['local % then']):.0f} % of its deliveries" for _, _, row in moves]
    except (OSError, ValueError, KeyError, TypeError) as error:
        text = f"{file}: not the JSON of the job 'placement': {type(error).__name__}: {error}"
        raise BadCall(text) from error
    columns = "vhost,name,type,leader,online"
    queues = api.get_list(f"/api/queues?columns={columns}")
    known = {(row.get("vhost"), row.get("name")): row for row in queues}
    return [
        {
            "vhost": vhost,
            "name": name,
            "from": known.get((vhost, name), {}).get("leader", ""),
            "to": to,
            "why": reason,
            "result": movable(known.get((vhost, name)), to),
        }
        for (vhost, name, _), to, reason in zip(moves, wanted, why, strict=True)
    ]


def movable(queue: Row | None, to: str) -> str:
    """Whether the leader of that queue can go to that node, or why not."""
    if queue is None:
        return "no such queue"
    if queue.get("type") != "quorum":
        return f"a queue of the type {queue.get('type')}"
    if queue.get("leader") == to:
        return "leads already"
    return TO_MOVE if to in listed(queue, "online") else f"no running member on {to}"


# How far they are


def quorum_queues(api: Api) -> list[Row]:
    rows = api.get_list("/api/queues?columns=type,members,leader")
    return [row for row in rows if row.get("type") == "quorum"]


def with_member(api: Api, node: str) -> Progress:
    rows = quorum_queues(api)
    return Progress(sum(node in listed(row, "members") for row in rows), len(rows))


def without_member(api: Api, node: str) -> Progress:
    there = with_member(api, node)
    return Progress(there.total - there.done, there.total)


def of_size(api: Api, count: int) -> Progress:
    rows = quorum_queues(api)
    return Progress(sum(len(listed(row, "members")) >= count for row in rows), len(rows))


def balanced(api: Api) -> Progress:
    """Leaders that are not too many on their node."""
    rows = quorum_queues(api)
    led: dict[object, int] = {}
    for row in rows:
        led[row.get("leader")] = led.get(row.get("leader"), 0) + 1
    nodes = sum(bool(each.get("running")) for each in api.get_list("/api/nodes"))
    fair = -(-len(rows) // max(1, nodes))
    return Progress(sum(min(count, fair) for count in led.values()), len(rows))


def strategy(options: Options) -> str:
    chosen = str(options.strategy)
    if chosen not in ("all", "even"):
        raise BadCall(f"unknown strategy: {chosen}; known: all, even")
    return chosen


def patterns(options: Options) -> dict[str, str]:
    return {"vhost_pattern": options.vhost_pattern, "queue_pattern": options.queue_pattern}


FORCE: Final = Argument("--force", is_flag=True)
UNSAFE: Final = Argument("--unsafe", is_flag=True)
RECOVER: Final[Verb[Run]] = Verb(
    "go on with one member of a quorum queue whose majority is lost for ever; loses messages",
    "Recovering queue {queue} in vhost {vhost} with one member ...",
    (QUEUE, OWN_NODE, UNSAFE),
    recover,
    in_vhost=True,
)

COMMANDS: Final[Commands] = {
    "cluster_status": Verb("nodes of the cluster, and how they are", "", (), cluster_status),
    "forget_cluster_node": Verb(
        "remove a node for good (a majority must run); --force: also while it runs",
        "Removing node {node} from the cluster",
        (NODE, FORCE),
        forget,
    ),
    "reset": Verb(
        "have a node leave the cluster, stop, and start empty; of two nodes both must run",
        "Resetting node {node} ...",
        (OWN_NODE, FORCE),
        reset,
    ),
    "drain": Verb(
        "put a node into maintenance: no clients, no leaders",
        "Will put node {node} into maintenance mode. The node will no longer serve any client "
        "traffic!",
        (OWN_NODE, FORCE, Argument("--wait", is_flag=True)),
        drain,
    ),
    "revive": Verb(
        "take a node out of maintenance",
        "Will undo maintenance mode for node {node}",
        (OWN_NODE,),
        revive,
    ),
    "await_online_nodes": Verb(
        "wait until so many nodes run",
        "Will wait for at least {count} nodes to join the cluster ...",
        (Argument("count"),),
        await_online_nodes,
    ),
    "await_online_quorum_plus_one": Verb(
        "wait until no queue would lose its quorum with this node",
        "Will wait for a quorum + 1 of nodes to be online for all quorum queues ...",
        (),
        await_check("node-is-quorum-critical", "queues still hang on this node"),
    ),
    "alarms": Verb("alarms of all nodes", "Alarms of the cluster:", (), alarms),
    "check_alarms": Verb(
        "fail if there is an alarm in the cluster",
        "",
        (),
        check("alarms", "There are no alarms in effect"),
    ),
    "check_local_alarms": Verb(
        "fail if there is an alarm on the node",
        "",
        (),
        check("local-alarms", "There are no alarms in effect on the node"),
    ),
    "check_running": Verb(
        "fail if the node serves no clients",
        "",
        (),
        check("is-in-service", "The node is in service"),
    ),
    "check_if_node_is_quorum_critical": Verb(
        "fail if queues would lose their quorum with this node",
        "",
        (),
        check("node-is-quorum-critical", "No quorum queue depends on this node"),
    ),
    "check_for_quorum_queues_without_an_elected_leader": Verb(
        "fail if a quorum queue has no leader",
        "",
        (),
        check(
            "quorum-queues-without-elected-leaders/all-vhosts", "All quorum queues have a leader"
        ),
    ),
    "quorum_status": Verb(
        "how the members of a quorum queue stand",
        "Status of quorum queue {queue} on vhost {vhost} ...",
        (QUEUE,),
        quorum_status,
        in_vhost=True,
    ),
    "add_member": Verb(
        "add a member to a quorum queue; it votes once it has caught up, with both memberships",
        "Adding a replica for queue {queue} on node {node}...",
        (QUEUE, NODE, MEMBERSHIP),
        add_member,
        in_vhost=True,
    ),
    "delete_member": Verb(
        "remove a member from a quorum queue",
        "Removing a replica of queue {queue} on node {node}...",
        (QUEUE, NODE),
        delete_member,
        in_vhost=True,
    ),
    "transfer_leadership": Verb(
        "have another member lead a quorum queue",
        "Transferring leadership of queue {queue} in vhost {vhost} to node {node}...",
        (QUEUE, NODE),
        transfer_leadership,
        in_vhost=True,
    ),
    "sync_queue": Verb(
        "have the mirrors of a queue synchronised",
        "Synchronising queue '{queue}' in vhost '{vhost}' ...",
        (QUEUE,),
        sync_queue,
        in_vhost=True,
    ),
    "cancel_sync_queue": Verb(
        "cancel the synchronisation of a queue's mirrors",
        "Stopping synchronising queue '{queue}' in vhost '{vhost}' ...",
        (QUEUE,),
        cancel_sync_queue,
        in_vhost=True,
    ),
    "recover_queue": RECOVER,
    "force_shrink_member_to_current_member": RECOVER,
    "recover_queues": Verb(
        "go on with one member of each quorum queue that lost its majority for ever",
        "Recovering queues with one member each ...",
        (UNSAFE, *PATTERNS),
        recover_queues,
    ),
    "recover_cluster": Verb(
        "go on with the node that is asked alone, and forget the others, which are lost for ever",
        "Recovering the cluster with one node ...",
        (UNSAFE,),
        recover_cluster,
    ),
    "grow": Verb(
        "add a member on a node to all quorum queues, or to those with an even number; it votes "
        "once it has caught up, with both memberships",
        "Growing {strategy} quorum queues on {node}...",
        (NODE, Argument("strategy"), *PATTERNS, ERRORS_ONLY, MEMBERSHIP),
        grow,
    ),
    "grow_to_count": Verb(
        "add members to quorum queues until they have so many",
        "Growing {strategy} quorum queues to {count} members...",
        (Argument("count"), Argument("strategy"), *PATTERNS),
        grow_to_count,
    ),
    "shrink": Verb(
        "remove the members of all quorum queues from a node",
        "Shrinking quorum queues on {node}...",
        (NODE, ERRORS_ONLY),
        shrink,
    ),
    "rebalance": Verb(
        "spread the leaders of queues over the nodes: all, classic or quorum",
        "Rebalancing {type} queues...",
        (Argument("type"), *PATTERNS),
        rebalance,
    ),
    "cluster_plan": Verb(
        "which leaders should move: as nodes see it, or as the job placement of warren.spark found "
        "it (--advice FILE, - for stdin); --apply: move them",
        "Leaders that should move:",
        (Argument("--advice", ""), Argument("--apply", is_flag=True)),
        cluster_plan,
    ),
}
