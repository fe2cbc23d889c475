"""`warrenctl` commands of one stream."""

from typing import Final, TextIO

from node.cli.api import Api
from node.cli.cluster.commands import NODE, add_replica, delete_member
from node.cli.lists import at
from node.cli.verbs import Argument, BadCall, Commands, Options, Row, Verb, done, path, show

COLUMNS: Final = ("type", "name", "tracking_value")
STATUS_COLUMNS: Final = (
    *("role", "node", "epoch", "offset", "committed_offset", "first_offset", "readers"),
    *("segments", "segments_offloaded", "bytes", "bytes_offloaded", "offload_error"),
)
STATUS_ROW: Final = (
    *("First Offset", "Readers", "Segments", "Segments Offloaded", "Bytes", "Bytes Offloaded"),
    "Offload Error",
)
GROUP_COLUMNS: Final = ("stream", "reference", "partition_index", "consumers")
MEMBER_COLUMNS: Final = ("subscription_id", "connection_name", "state")
NO_PARTITION: Final = -1
NO_GROUP: Final = "no group '{reference}' of consumers of stream '{stream}' in vhost '{vhost}'"
QUEUE: Final = Argument("queue")
STREAM: Final = Argument("--stream")
REFERENCE: Final = Argument("--reference")


def list_tracking(api: Api, options: Options, out: TextIO) -> None:
    """Offsets of consumers and ids of publishers that a stream remembers by name."""
    if sum((options.all, options.offset, options.writer)) > 1:
        raise BadCall(f"{options.command}: only one of --all, --offset and --writer")
    place = path("stream", options.vhost, options.stream, "tracking")
    kinds = {"offset": not options.writer, "writer": not options.offset}
    found = api.get_object(place)
    rows = []
    for kind in (each for each, is_wanted in kinds.items() if is_wanted):
        known = found.get(f"{kind}s")
        assert isinstance(known, dict)
        for name, number in sorted(known.items()):
            rows.append(dict(zip(COLUMNS, (kind, name, number), strict=True)))
    show(rows, COLUMNS, options, out)


ARGUMENTS: Final = (
    *("max_length_bytes", "max_age", "stream_max_segment_size_bytes"),
    *("leader_locator", "initial_cluster_size"),
)


def add_super_stream(api: Api, options: Options, out: TextIO) -> None:
    """An exchange and its partitions: so many, or one for each binding key."""
    if bool(options.partitions) == bool(options.binding_keys):
        raise BadCall(f"{options.command}: give one of --partitions and --binding-keys")
    body: dict[str, object] = {"partitions": options.partitions}
    if options.binding_keys:
        body = {"binding-keys": options.binding_keys}
    told = {name.replace("_", "-"): getattr(options, name) for name in ARGUMENTS}
    told["queue-leader-locator"] = told.pop("leader-locator")
    body["arguments"] = {name: value for name, value in told.items() if value}
    api.put(path("stream", "super-streams", options.vhost, options.name), body)


def delete_super_stream(api: Api, options: Options, out: TextIO) -> None:
    """The exchange and all its partitions."""
    api.delete(path("stream", "super-streams", options.vhost, options.name))


def status(api: Api, options: Options, out: TextIO) -> None:
    """A row for each replica; replicas have committed messages alone in their segments."""
    rows = []
    for each in api.get_list(path("queues", "quorum", options.vhost, options.queue, "status")):
        next_offset = each.get("Stream Next Offset")
        last = next_offset - 1 if isinstance(next_offset, int) else ""
        state = each["Raft State"]
        role = {"leader": "writer", "follower": "replica"}.get(str(state), state)
        known = (each.get(f"Stream {name}", "") for name in STATUS_ROW)
        values = (role, each["Node Name"], each["Term"], last, last, *known)
        rows.append(dict(zip(STATUS_COLUMNS, values, strict=True)))
    show(rows, STATUS_COLUMNS, options, out)


def restart(api: Api, options: Options, out: TextIO) -> None:
    """Another replica leads the stream: the preferred one, or the first one that runs."""
    found = api.get_object(path("queues", options.vhost, options.queue))
    leader, online = found.get("leader"), found.get("online")
    assert isinstance(online, list)
    preferred = options.preferred_leader_node
    others = [preferred] if preferred else [each for each in online if each != leader]
    if not others:
        raise BadCall(f"{options.command}: no other replica of '{options.queue}' runs")
    place = path("queues", "quorum", options.vhost, options.queue, "leader")
    api.post(place, {"node": others[0]})
    done(options, out)


def grouped(api: Api, options: Options) -> dict[tuple[str, str], list[Row]]:
    """Single active consumers by stream and by the reference of their group."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in api.get_list(path("stream", "consumers", options.vhost)):
        if at(row, "properties.single-active-consumer") == "true":
            group = str(at(row, "queue.name")), str(at(row, "properties.name"))
            found.setdefault(group, []).append(row)
    return found


def list_groups(api: Api, options: Options, out: TextIO) -> None:
    orders: dict[str, dict[str, object]] = {}
    rows: list[Row] = []
    for (stream, reference), consumers in sorted(grouped(api, options).items()):
        name = str(at(consumers[0], "properties.super-stream") or "")
        if name and name not in orders:
            orders[name] = partition_orders(api, options.vhost, name)
        index = orders.get(name, {}).get(stream, NO_PARTITION)
        values = (stream, reference, index, len(consumers))
        rows.append(dict(zip(GROUP_COLUMNS, values, strict=True)))
    show(rows, GROUP_COLUMNS, options, out)


def partition_orders(api: Api, vhost: str, name: str) -> dict[str, object]:
    """The place of each partition in its super stream."""
    bindings = api.get_list(path("exchanges", vhost, name, "bindings", "source"))
    return {
        str(each["destination"]): at(each, "arguments.x-stream-partition-order")
        for each in bindings
    }


def list_group(api: Api, options: Options, out: TextIO) -> None:
    consumers = grouped(api, options).get((options.stream, options.reference))
    if consumers is None:
        raise BadCall(f"{options.command}: {NO_GROUP.format(**vars(options))}")
    rows: list[Row] = []
    for each in consumers:
        state = "active" if each["active"] else "inactive"
        values = (each["subscription_id"], at(each, "connection_details.name"), state)
        rows.append(dict(zip(MEMBER_COLUMNS, values, strict=True)))
    show(rows, MEMBER_COLUMNS, options, out)


def reset_offset(api: Api, options: Options, out: TextIO) -> None:
    place = path("stream", options.vhost, options.stream, "tracking", "reset-offset")
    api.post(place, {"reference": options.reference})
    done(options, out, "OK")


STREAMS: Final[Commands] = {
    "list_stream_consumer_groups": Verb(
        "list the groups of single active consumers of streams",
        "Listing stream consumer groups in vhost {vhost} ...",
        (),
        list_groups,
        in_vhost=True,
    ),
    "list_stream_group_consumers": Verb(
        "list the consumers of a group of single active consumers",
        "Listing consumers of group {reference} of stream {stream} in vhost {vhost} ...",
        (STREAM, REFERENCE),
        list_group,
        in_vhost=True,
    ),
    "reset_offset": Verb(
        "set the stored offset of a consumer of a stream to 0",
        "Resetting offset of reference {reference} on stream {stream} in vhost {vhost} ...",
        (STREAM, REFERENCE),
        reset_offset,
        in_vhost=True,
    ),
    "add_replica": Verb(
        "add a replica to a stream",
        "Adding a replica for queue {queue} on node {node}...",
        (QUEUE, NODE),
        add_replica,
        in_vhost=True,
    ),
    "delete_replica": Verb(
        "remove a replica from a stream",
        "Removing a replica of queue {queue} on node {node}...",
        (QUEUE, NODE),
        delete_member,
        in_vhost=True,
    ),
    "stream_status": Verb(
        "how the replicas of a stream stand",
        "Status of stream {queue} on vhost {vhost} ...",
        (QUEUE,),
        status,
        in_vhost=True,
    ),
    "restart_stream": Verb(
        "have another replica lead a stream, or the one on --preferred-leader-node",
        "Restarting stream {queue} in vhost {vhost} ...",
        (QUEUE, Argument("--preferred-leader-node", "")),
        restart,
        in_vhost=True,
    ),
    "add_super_stream": Verb(
        "make a super stream, of --partitions N or of one partition for each of --binding-keys A,B",
        "Adding a super stream {name} ...",
        (
            Argument("name"),
            Argument("--partitions", ""),
            Argument("--binding-keys", ""),
            *(Argument(f"--{name.replace('_', '-')}", "") for name in ARGUMENTS),
        ),
        add_super_stream,
        in_vhost=True,
    ),
    "delete_super_stream": Verb(
        "delete a super stream and its partitions, with their messages",
        "Deleting super stream {name} ...",
        (Argument("name"),),
        delete_super_stream,
        in_vhost=True,
    ),
    "list_stream_tracking": Verb(
        "list the offsets of consumers and the ids of publishers that a stream remembers by name",
        "Listing tracking information for stream {stream} ...",
        (
            Argument("stream"),
            Argument("--all", is_flag=True),
            Argument("--offset", is_flag=True),
            Argument("--writer", is_flag=True),
        ),
        list_tracking,
        in_vhost=True,
    ),
}
