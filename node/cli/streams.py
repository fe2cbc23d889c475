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


STREAMS: Final[Commands] = {
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
