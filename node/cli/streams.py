"""`warrenctl` commands of one stream."""

from typing import Final, TextIO

from node.cli.api import Api
from node.cli.verbs import Argument, BadCall, Commands, Options, Verb, path, show_table

COLUMNS: Final = ("type", "name", "tracking_value")


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
        rows += [[kind, name, number] for name, number in sorted(known.items())]
    show_table(COLUMNS, rows, options, out)


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


STREAMS: Final[Commands] = {
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
