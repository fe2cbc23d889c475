"""The lists of `warrenctl`: what each can show, and where the API has it.

    warrenctl list_queues name messages consumers        # these columns
    warrenctl --formatter csv list_channels              # those that rabbitmqctl shows

Columns have rabbitmqctl's names; a name that the API does not have is a path into its rows. Unknown
columns end the call with 64.
"""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TextIO
from urllib.parse import quote

from msgspec import Struct, field

from node.cli.api import Api
from node.cli.tables import write_json
from node.cli.verbs import Argument, BadCall, Options, Row, announce, own_node, path, show_table

Keep = Callable[[Row, Options, Api], bool]

POLICY_COLUMNS: Final = ("vhost", "name", "pattern", "apply-to", "definition", "priority")
RIGHTS: Final = ("configure", "write", "read")
USER: Final = Argument("username")


class Listing(Struct, frozen=True):
    """A command that lists: the path that gives its rows, and their columns.

    `shown`: so many of the columns are shown unless others are asked for; 0: all, and there is no
    choice. `places`: where a column is in a row, if that is not its name.
    """

    help: str
    path: Callable[[Options], str]
    columns: tuple[str, ...]
    arguments: tuple[Argument, ...] = ()
    in_vhost: bool = False
    shown: int = 0
    places: Mapping[str, str] = field(default_factory=dict)
    in_json: str = ""  # the column whose values are JSON, texts too
    said: str = ""  # the line above; else from `help`

    def describe(self, parser: argparse.ArgumentParser) -> None:
        if self.in_vhost:
            parser.add_argument("-p", "--vhost", default="/")
        for argument in self.arguments:
            argument.add_to(parser)
        if self.shown:
            parser.add_argument("columns", nargs="*", metavar="COLUMN")
            parser.epilog = f"columns: {' '.join(self.columns)}"

    def chosen(self, options: Options) -> Sequence[str]:
        if not self.shown:
            return self.columns
        asked: list[str] = options.columns
        unknown = [column for column in asked if column not in self.columns]
        if unknown:
            raise BadCall(
                f"{options.command}: unknown column {', '.join(unknown)}; "
                f"allowed: {' '.join(self.columns)}"
            )
        return asked or self.columns[: self.shown]


def list_rows(api: Api, options: Options, out: TextIO) -> None:
    """Show one of LISTS."""
    listing = LISTS[options.command]
    columns = listing.chosen(options)
    places = [listing.places.get(column, column) for column in columns]
    place = listing.path(options)
    if listing.shown:
        wanted = [*places, *(FILTERED if options.command == "list_queues" else ())]
        place += f"?columns={quote(','.join(wanted), safe=',')}"
    rows = [row for row in api.get_list(place) if is_kept(api, options, row)]
    if options.formatter == "json":
        write_json([named(row, columns, places) for row in rows], out)
        return
    said = listing.said or f"{listing.help[0].upper()}{listing.help[1:]} ..."
    announce(said, options, out)
    if listing.in_json:
        for row in rows:
            row[listing.in_json] = json.dumps(row.get(listing.in_json), ensure_ascii=False)
    show_table(columns, [[shown(row, each) for each in places] for row in rows], options, out)


FILTERED: Final = ("state", "node", "counts_known")  # what options and `shown` look at
SERVED: Final = ("running", "flow", "syncing")


def is_kept(api: Api, options: Options, row: Row) -> bool:
    """Whether the options want this parameter or queue."""
    if options.command == "list_parameters":
        return row.get("vhost") == str(options.vhost)
    if options.command != "list_queues":
        return True
    is_online = row.get("state") in SERVED
    if (options.online and not is_online) or (options.offline and is_online):
        return False
    return not options.local or row.get("node") == own_node_once(api, options)


def own_node_once(api: Api, options: Options) -> str:
    if not hasattr(options, "own_node"):
        options.own_node = own_node(api)
    return str(options.own_node)


def named(row: Row, columns: Sequence[str], places: Sequence[str]) -> Row:
    """The columns that were asked for, under their names."""
    return {column: at(row, place) for column, place in zip(columns, places, strict=True)}


def shown(row: Row, place: str) -> object:
    """A value for a table: a count of a queue that no running node knows is `unknown`."""
    value = at(row, place)
    is_unknown = value is None and place in row and row.get("counts_known") is False
    return "unknown" if is_unknown else value


def at(row: Row, place: str) -> object:
    """A value by its path."""
    if place in row:
        return row[place]
    value: object = row
    for part in place.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def in_vhost(*kind: str) -> Callable[[Options], str]:
    return lambda options: path(*kind, options.vhost)


def everywhere(kind: str) -> Callable[[Options], str]:
    return lambda options: f"/api/{kind}"


LISTS: Final[Mapping[str, Listing]] = {
    "list_queues": Listing(
        "listing queues",
        in_vhost("queues"),
        (
            "name", "messages", "vhost", "type", "durable", "auto_delete", "exclusive",
            "arguments", "node", "state", "leader", "members", "online", "policy",
            "operator_policy", "effective_policy_definition", "messages_ready",
            "messages_unacknowledged", "messages_ram", "messages_paged_out", "message_bytes",
            "message_bytes_ready", "message_bytes_unacknowledged", "message_bytes_ram",
            "message_bytes_paged_out", "messages_persistent", "message_bytes_persistent",
            "memory", "consumers", "consumer_capacity",
            "consumer_utilisation", "owner_pid", "reason", "single_active_consumer_tag",
            "single_active_consumer_pid", "pid", "slave_pids", "synchronised_slave_pids",
            "recoverable_slaves", "mirror_pids", "synchronised_mirror_pids",
            "sync_messages",
        ),
        (
            Argument("--online", is_flag=True),
            Argument("--offline", is_flag=True),
            Argument("--local", is_flag=True),
        ),
        in_vhost=True,
        shown=2,
        places={
            "owner_pid": "owner_pid_details.name",
            "pid": "node",
            "slave_pids": "slave_nodes",
            "synchronised_slave_pids": "synchronised_slave_nodes",
            "mirror_pids": "slave_nodes",
            "synchronised_mirror_pids": "synchronised_slave_nodes",
        },
        said="Listing queues for vhost {vhost} ...",
    ),
    "list_exchanges": Listing(
        "listing exchanges",
        in_vhost("exchanges"),
        ("name", "type", "vhost", "durable", "auto_delete", "internal", "arguments", "policy"),
        in_vhost=True,
        shown=2,
        said="Listing exchanges for vhost {vhost} ...",
    ),
    "list_addresses": Listing(
        "listing addresses with limits",
        everywhere("addresses"),
        (
            "vhost", "kind", "name", "policy", "full", "bytes", "max_size_bytes", "messages",
            "max_size_messages", "blocked_publishers", "refused", "dropped", "blocked_times",
            "queues", "over_bytes_max", "refusing_above_bytes", "refusing_above_messages",
            "producer_max_rate", "amqp_credits", "amqp_low_credits", "producer_window_size",
            "granted_credit", "granted_bytes",
        ),
        shown=12,
    ),
    "list_leases": Listing(
        "listing leases of queues",
        everywhere("leases"),
        (
            "vhost", "queue", "name", "user", "node", "messages", "expires_in_ms",
            "message_bytes", "batches", "newest_batch", "timeout_ms",
        ),
        shown=7,
    ),
    "list_bindings": Listing(
        "listing bindings",
        in_vhost("bindings"),
        (
            "source", "destination", "destination_type", "routing_key", "arguments", "vhost",
            "properties_key", "source_name", "source_kind", "destination_name",
            "destination_kind",
        ),
        in_vhost=True,
        shown=5,
        places={
            "source_name": "source",
            "destination_name": "destination",
            "destination_kind": "destination_type",
        },
        said="Listing bindings for vhost {vhost} ...",
    ),
    "list_connections": Listing(
        "listing connections",
        everywhere("connections"),
        (
            "user", "peer_host", "peer_port", "state", "name", "vhost", "host", "port",
            "protocol", "channels", "channel_max", "frame_max", "timeout", "auth_mechanism",
            "ssl", "ssl_protocol", "ssl_cipher", "ssl_key_exchange", "ssl_hash",
            "peer_cert_subject", "peer_cert_issuer", "peer_cert_validity", "connected_at",
            "client_properties", "user_provided_name", "node", "recv_oct", "recv_cnt", "send_oct",
            "send_cnt", "send_pend", "pid",
        ),
        shown=4,
        places={"pid": "name"},
    ),
    "list_channels": Listing(
        "listing channels",
        everywhere("channels"),
        (
            "pid", "user", "consumer_count", "messages_unacknowledged", "name", "connection",
            "number", "vhost", "transactional", "confirm", "messages_uncommitted",
            "acks_uncommitted", "messages_unconfirmed", "prefetch_count", "global_prefetch_count",
            "state", "node", "protocol",
        ),
        shown=4,
        places={"pid": "name", "connection": "connection_details.name"},
    ),
    "list_consumers": Listing(
        "listing consumers",
        in_vhost("consumers"),
        (
            "queue_name", "channel_pid", "consumer_tag", "ack_required", "prefetch_count",
            "active", "arguments", "activity_status", "exclusive", "priority", "vhost",
        ),
        in_vhost=True,
        shown=7,
        places={
            "queue_name": "queue.name",
            "channel_pid": "channel_details.name",
            "vhost": "queue.vhost",
        },
        said="Listing consumers in vhost {vhost} ...",
    ),
    "list_stream_connections": Listing(
        "listing stream connections",
        everywhere("stream/connections"),
        (
            "name", "user", "vhost", "state", "peer_host", "peer_port", "host", "port", "node",
            "heartbeat", "frame_max", "connected_at", "client_properties", "recv_oct", "send_oct",
        ),
        shown=1,
        places={"heartbeat": "timeout"},
    ),
    "list_stream_consumers": Listing(
        "listing stream consumers",
        in_vhost("stream", "consumers"),
        (
            "connection", "stream", "messages_consumed", "subscription_id", "credits", "offset",
            "offset_lag", "active", "activity_status", "properties", "node",
        ),
        in_vhost=True,
        shown=3,
        places={
            "connection": "connection_details.name",
            "stream": "queue.name",
            "messages_consumed": "consumed",
            "node": "connection_details.node",
        },
    ),
    "list_stream_publishers": Listing(
        "listing stream publishers",
        in_vhost("stream", "publishers"),
        (
            "connection", "stream", "publisher_id", "reference", "messages_published",
            "messages_confirmed", "messages_errored", "node",
        ),
        in_vhost=True,
        shown=3,
        places={
            "connection": "connection_details.name",
            "stream": "queue.name",
            "messages_published": "published",
            "messages_confirmed": "confirmed",
            "messages_errored": "errored",
            "node": "connection_details.node",
        },
    ),
    "list_vhosts": Listing(
        "listing vhosts",
        everywhere("vhosts"),
        (
            "name", "description", "tags", "default_queue_type", "tracing", "metadata",
            "protected_from_deletion", "cluster_state", "messages",
        ),
        shown=3,
    ),
    "list_users": Listing(
        "listing users", everywhere("users"), ("user", "tags"), places={"user": "name"}
    ),
    "list_permissions": Listing(
        "listing permissions",
        lambda options: path("vhosts", options.vhost, "permissions"),
        ("user", *RIGHTS),
        in_vhost=True,
    ),
    "list_user_permissions": Listing(
        "listing permissions of a user",
        lambda options: path("users", options.username, "permissions"),
        ("vhost", *RIGHTS),
        (USER,),
    ),
    "list_topic_permissions": Listing(
        "listing topic permissions",
        lambda options: path("vhosts", options.vhost, "topic-permissions"),
        ("user", "exchange", "write", "read"),
        in_vhost=True,
    ),
    "list_user_topic_permissions": Listing(
        "listing topic permissions of a user",
        lambda options: path("users", options.username, "topic-permissions"),
        ("vhost", "exchange", "write", "read"),
        (USER,),
    ),
    "list_policies": Listing(
        "listing policies", in_vhost("policies"), POLICY_COLUMNS, in_vhost=True
    ),
    "list_operator_policies": Listing(
        "listing operator policy overrides",
        in_vhost("operator-policies"),
        POLICY_COLUMNS,
        in_vhost=True,
    ),
    "list_parameters": Listing(
        "listing runtime parameters",
        everywhere("parameters"),
        ("component", "name", "value"),
        in_vhost=True,
        said="Listing runtime parameters for vhost \"{vhost}\" ...",
        in_json="value",
    ),
    "list_global_parameters": Listing(
        "listing global runtime parameters",
        everywhere("global-parameters"),
        ("name", "value"),
        in_json="value",
    ),
    "list_feature_flags": Listing(
        "listing feature flags",
        everywhere("feature-flags"),
        ("name", "state", "stability", "provided_by", "desc", "doc_url"),
        shown=2,
    ),
    "list_deprecated_features": Listing(
        "listing deprecated features",
        everywhere("deprecated-features"),
        ("name", "deprecation_phase", "provided_by", "desc", "doc_url"),
        shown=2,
    ),
    "list_node_auth_attempt_stats": Listing(
        "listing attempts to log in to a node",
        lambda options: path("auth", "attempts", options.node)
        + ("/source" if options.by_source else ""),
        (
            "protocol", "auth_attempts", "auth_attempts_failed", "auth_attempts_succeeded",
            "remote_address", "username",
        ),
        (Argument("node"), Argument("--by-source", is_flag=True)),
    ),
}  # fmt: skip
