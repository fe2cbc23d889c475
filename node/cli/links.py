"""Commands of `warrenctl` for shovels and federation links, with RabbitMQ's names."""

from typing import Final, TextIO

from node.cli.api import EXIT_DATA, Api, ApiFailure
from node.cli.tables import write_json
from node.cli.verbs import Argument, Commands, Options, Verb, announce, path, show

NAME: Final = Argument("name")
COLUMNS: Final = (
    "name", "vhost", "type", "state", "source", "source_uri", "source_protocol", "destination",
    "destination_uri", "destination_protocol", "termination_reason", "last_changed",
)  # fmt: skip
PLACES: Final = {  # of the columns in a row of the API
    "source": ("src_queue", "src_exchange", "src_address"),
    "source_uri": ("src_uri",),
    "source_protocol": ("src_protocol",),
    "destination": ("dest_queue", "dest_exchange", "dest_address"),
    "destination_uri": ("dest_uri",),
    "destination_protocol": ("dest_protocol",),
    "termination_reason": ("reason",),
    "last_changed": ("timestamp",),
}


def _shovel_status(api: Api, options: Options, out: TextIO) -> None:
    announce("Shovel status of the cluster ...", options, out)
    rows = []
    for row in api.get_list("/api/shovels"):
        found = {name: _value(row, PLACES.get(name, (name,))) for name in COLUMNS}
        rows.append({**row, **found} if options.formatter == "json" else found)
    show(rows, COLUMNS, options, out)


def _value(row: dict[str, object], places: tuple[str, ...]) -> object:
    return next((row[place] for place in places if place in row), "")


def _done(options: Options, out: TextIO) -> None:
    if options.formatter == "json":
        write_json({"result": "ok"}, out)


def _delete_shovel(api: Api, options: Options, out: TextIO) -> None:
    announce('Deleting shovel "{name}" in vhost "{vhost}" ...', options, out)
    api.delete(path("shovels", "vhost", options.vhost, options.name))
    _done(options, out)


def _restart_shovel(api: Api, options: Options, out: TextIO) -> None:
    announce('Restarting dynamic Shovel "{name}" in vhost "{vhost}" ...', options, out)
    api.delete(path("shovels", "vhost", options.vhost, options.name, "restart"))
    _done(options, out)


def _pause_shovel(api: Api, options: Options, out: TextIO) -> None:
    announce('Pausing shovel "{name}" in vhost "{vhost}" ...', options, out)
    api.put(path("shovels", "vhost", options.vhost, options.name, "pause"), {})
    _done(options, out)


def _resume_shovel(api: Api, options: Options, out: TextIO) -> None:
    announce('Resuming shovel "{name}" in vhost "{vhost}" ...', options, out)
    api.delete(path("shovels", "vhost", options.vhost, options.name, "pause"))
    _done(options, out)


FEDERATION: Final = (
    "id", "type", "vhost", "exchange", "queue", "upstream", "upstream_exchange", "upstream_queue",
    "status", "error", "uri", "node", "timestamp",
)  # fmt: skip
ONLY_DOWN: Final = Argument("--only-down", is_flag=True)


def _federation_status(api: Api, options: Options, out: TextIO) -> None:
    announce("Listing federation links of the cluster ...", options, out)
    down = "/state/down" if options.only_down else ""
    rows = api.get_list(f"/api/federation-links{down}")
    show([dict.fromkeys(FEDERATION, "") | row for row in rows], FEDERATION, options, out)


def _restart_federation_link(api: Api, options: Options, out: TextIO) -> None:
    announce("Restarting federation link {link} ...", options, out)
    row = _link(api, options)
    vhost, node = str(row.get("vhost")), str(row.get("node"))
    api.delete(path("federation-links", "vhost", vhost, options.link, node, "restart"))
    _done(options, out)


def _link(api: Api, options: Options) -> dict[str, object]:
    for row in api.get_list("/api/federation-links"):
        if row.get("id") == options.link:
            return row
    raise ApiFailure(f"Link with the given ID '{options.link}' was not found", EXIT_DATA)


def _pause_federation_link(api: Api, options: Options, out: TextIO) -> None:
    announce("Pausing federation link {link} ...", options, out)
    api.put(_pause_path(api, options), {})
    _done(options, out)


def _resume_federation_link(api: Api, options: Options, out: TextIO) -> None:
    announce("Resuming federation link {link} ...", options, out)
    api.delete(_pause_path(api, options))
    _done(options, out)


def _pause_path(api: Api, options: Options) -> str:
    vhost = str(_link(api, options).get("vhost"))
    return path("federation-links", "vhost", vhost, options.link, "pause")


STANDBYS: Final = (
    "vhost", "state", "rpo_seconds", "messages", "queues", "error", "uri", "synced_at",
)  # fmt: skip
FORCE: Final = Argument("--force", is_flag=True)


def _standby_status(api: Api, options: Options, out: TextIO) -> None:
    announce("Listing warm standbys of the cluster ...", options, out)
    rows = [dict.fromkeys(STANDBYS, "") | row for row in api.get_list("/api/standbys")]
    show(rows, STANDBYS, options, out)


def _promote_standby(api: Api, options: Options, out: TextIO) -> None:
    announce('Promoting the standby of vhost "{vhost}" ...', options, out)
    row = api.post(path("standbys", options.vhost, "promote"), {"force": options.force})
    if options.formatter == "json":
        write_json(row, out)
        return
    age = row.get("rpo_seconds") if isinstance(row, dict) else None
    if age is None:
        print("The vhost serves clients. How old its messages are is not known.", file=out)
    else:
        text = f"It has all that the primary had confirmed until {age} seconds ago."
        print(f"The vhost serves clients. {text}", file=out)


LINKS: Final[Commands] = {
    "standby_status": Verb("status of the warm standbys", "", (), _standby_status),
    "promote_standby": Verb(
        "have a warm standby serve clients; --force: also while its primary answers",
        "",
        (FORCE,),
        _promote_standby,
        True,
    ),
    "federation_status": Verb(
        "status of the federation links", "", (ONLY_DOWN,), _federation_status
    ),
    "restart_federation_link": Verb(
        "restart a federation link, by its id", "", (Argument("link"),), _restart_federation_link
    ),
    "pause_federation_link": Verb(
        "pause a federation link, by its id", "", (Argument("link"),), _pause_federation_link
    ),
    "resume_federation_link": Verb(
        "resume a federation link, by its id", "", (Argument("link"),), _resume_federation_link
    ),
    "shovel_status": Verb("status of the shovels", "", (), _shovel_status),
    "delete_shovel": Verb("delete a shovel", "", (NAME,), _delete_shovel, True),
    "restart_shovel": Verb("restart a shovel at once", "", (NAME,), _restart_shovel, True),
    "pause_shovel": Verb("pause a shovel", "", (NAME,), _pause_shovel, True),
    "resume_shovel": Verb("resume a shovel", "", (NAME,), _resume_shovel, True),
}
