"""Commands of `warrenctl` that change definitions, queues and connections.

Each command is a row of a table: its arguments as rabbitmqctl has them, and the calls of the HTTP
API that it makes. Nothing here knows the broker.
"""

import json
import sys
from collections.abc import Callable, Mapping
from typing import Final, TextIO

from node.cli.api import EXIT_DATA, Api, ApiFailure
from node.cli.progress import Bar, Progress, wants_bar
from node.cli.tables import write_json
from node.cli.verbs import (
    Argument,
    BadCall,
    Body,
    Options,
    Verb,
    announce,
    parsed,
    parsed_object,
    path,
)

Change = Callable[[Api, Options], object]


def change(api: Api, options: Options, out: TextIO) -> None:
    """Carry out one of CHANGES."""
    verb = CHANGES[options.command]
    announce(verb.told, options, out)
    answer = verb.run(api, options)
    if options.formatter == "json":
        write_json({"result": "ok"} if answer is None else answer, out)
    elif isinstance(answer, str):
        print(answer, file=out)


# Users and vhosts


def secret_of(options: Options) -> str:
    """The password: an argument, or a line of the input. BadCall: it is empty."""
    secret = options.password_argument or sys.stdin.readline().rstrip("\n")
    if not secret:
        raise BadCall("the password is empty: give it as an argument or as a line of the input")
    return str(secret)


def _add_user(api: Api, options: Options) -> object:
    known = {str(row.get("name")) for row in api.get_list("/api/users?columns=name")}
    if options.username in known:
        raise BadCall(f"user '{options.username}' already exists")
    secret = secret_of(options)
    return api.put(path("users", options.username), {"password": secret, "tags": ""})


def _change_user(api: Api, options: Options, body: Body) -> object:
    """What is not said stays as it is."""
    place = path("users", options.username)
    row = api.get_object(place)
    kept: dict[str, object] = {"tags": row.get("tags", [])}
    if "password" not in body:
        kept["password_hash"] = row.get("password_hash", "")
        kept["hashing_algorithm"] = row.get("hashing_algorithm")
    return api.put(place, {**kept, **body})


def _change_password(api: Api, options: Options) -> object:
    secret = secret_of(options)
    return _change_user(api, options, {"password": secret})


def _clear_password(api: Api, options: Options) -> object:
    return _change_user(api, options, {"password_hash": ""})


def _set_user_tags(api: Api, options: Options) -> object:
    return _change_user(api, options, {"tags": options.tags})


def _authenticate(api: Api, options: Options) -> object:
    secret = options.password_argument or sys.stdin.readline().rstrip("\n")
    try:
        api.as_user(options.username, secret).get("/api/whoami")
    except ApiFailure as failure:
        if NO_TAG not in str(failure):  # Else the password is right, which is what was asked.
            raise
    return "Success"


def _add_vhost(api: Api, options: Options) -> object:
    body: dict[str, object] = {}
    if options.description:
        body["description"] = options.description
    if options.tags:
        body["tags"] = options.tags
    if options.default_queue_type:
        body["default_queue_type"] = options.default_queue_type
    return api.put(path("vhosts", options.name), body)


def _set_permissions(api: Api, options: Options) -> object:
    body = {"configure": options.configure, "write": options.write, "read": options.read}
    return api.put(path("permissions", options.vhost, options.username), body)


def _set_topic_permissions(api: Api, options: Options) -> object:
    body = {"exchange": options.exchange, "write": options.write, "read": options.read}
    return api.put(path("topic-permissions", options.vhost, options.username), body)


def _clear_topic_permissions(api: Api, options: Options) -> object:
    parts = ["topic-permissions", options.vhost, options.username]
    return api.delete(path(*parts, *([options.exchange] if options.exchange else [])))


# Policies, parameters, limits


def _set_policy(kind: str) -> Change:
    def run(api: Api, options: Options) -> object:
        try:
            priority = int(options.priority)
        except ValueError as error:
            raise BadCall(f"the priority is no number: {options.priority}") from error
        body = {
            "pattern": options.pattern,
            "definition": parsed_object(options.definition),
            "priority": priority,
            "apply-to": options.apply_to,
        }
        return api.put(path(kind, options.vhost, options.name), body)

    return run


def _clear_policy(kind: str) -> Change:
    return lambda api, options: api.delete(path(kind, options.vhost, options.name))


def _set_parameter(api: Api, options: Options) -> object:
    body = {"value": parsed(options.value)}
    return api.put(path("parameters", options.component, options.vhost, options.name), body)


def _clear_parameter(api: Api, options: Options) -> object:
    return api.delete(path("parameters", options.component, options.vhost, options.name))


def _set_limits(kind: str, owner: str) -> Change:
    def run(api: Api, options: Options) -> object:
        for name, value in parsed_object(options.definition).items():
            api.put(path(kind, str(getattr(options, owner)), name), {"value": value})
        return None

    return run


def _clear_vhost_limits(api: Api, options: Options) -> object:
    for name in ("max-connections", "max-queues"):
        api.delete(path("vhost-limits", options.vhost, name))
    return None


def _clear_user_limits(api: Api, options: Options) -> object:
    names = ["max-connections", "max-channels"] if options.limit == "all" else [options.limit]
    for name in names:
        api.delete(path("user-limits", options.username, name))
    return None


# Queues, connections, definitions


def _delete_queue(api: Api, options: Options) -> object:
    asked = [name for name in ("if-empty", "if-unused") if getattr(options, name.replace("-", "_"))]
    query = "?" + "&".join(f"{name}=true" for name in asked) if asked else ""
    return api.delete(path("queues", options.vhost, options.queue) + query)


def _purge_queue(api: Api, options: Options) -> object:
    return api.delete(path("queues", options.vhost, options.queue) + "/contents")


def _close_connection(api: Api, options: Options) -> object:
    return api.delete(path("connections", options.connection), options.reason)


def _close_all_connections(api: Api, options: Options) -> object:
    rows = api.get_list(path("vhosts", options.vhost, "connections") + "?columns=name")
    for row in rows:
        api.delete(path("connections", str(row.get("name"))), options.reason)
    return f"Closed {len(rows)} connections"


def _export(api: Api, options: Options) -> object:
    whole = json.dumps(api.get_object("/api/definitions"), indent=2, ensure_ascii=False)
    if options.file == "-":
        return whole
    try:
        with open(options.file, "w", encoding="utf-8") as target:
            target.write(whole + "\n")
    except OSError as error:
        raise BadCall(str(error)) from error
    return None


def _import(api: Api, options: Options) -> object:
    try:
        if options.file == "-":
            whole = sys.stdin.read()
        else:
            with open(options.file, encoding="utf-8") as source:
                whole = source.read()
    except (OSError, UnicodeDecodeError) as error:
        raise BadCall(str(error)) from error
    definitions = parsed_object(whole)
    if not wants_bar(options, sys.stderr):
        answer = api.post("/api/definitions", definitions)
        _show_warnings(answer)
        return None
    _import_with_bar(api, definitions)
    return None


def _import_with_bar(api: Api, definitions: Body) -> None:
    """The same, and the node tells how far it is."""
    bar = Bar("Importing", sys.stderr)
    try:
        for line in api.lines("POST", "/api/definitions?progress=true", definitions):
            told = parsed_object(line)
            if "error" in told:
                raise ApiFailure(str(told.get("reason")), EXIT_DATA)
            _show_warnings(told)
            done, total = told.get("done"), told.get("total")
            if isinstance(done, int) and isinstance(total, int):
                bar.show(Progress(done, total))
    finally:
        bar.end()


def _show_warnings(answer: object) -> None:
    """What the import kept although it has no effect."""
    warnings = answer.get("warnings") if isinstance(answer, dict) else None
    for each in warnings if isinstance(warnings, list) else ():
        print(f"Warning: {each}", file=sys.stderr)


def _option(name: str) -> Argument:
    return Argument(name, "")


NO_TAG: Final = "Not management user"
USER: Final = Argument("username")
NAME: Final = Argument("name")
SECRET: Final = Argument("password_argument", "")
EMPTY_UNUSED: Final = (
    Argument("--if-empty", is_flag=True),
    Argument("--if-unused", is_flag=True),
)
POLICY: Final = (
    NAME,
    Argument("pattern"),
    Argument("definition"),
    Argument("--priority", "0"),
    Argument("--apply-to", "all"),
)

CHANGES: Final[Mapping[str, Verb[Change]]] = {
    "add_user": Verb("make a user", 'Adding user "{username}" ...', (USER, SECRET), _add_user),
    "delete_user": Verb(
        "delete a user",
        'Deleting user "{username}" ...',
        (USER,),
        lambda api, options: api.delete(path("users", options.username)),
    ),
    "change_password": Verb(
        "give a user another password",
        'Changing password for user "{username}" ...',
        (USER, SECRET),
        _change_password,
    ),
    "clear_password": Verb(
        "let a user no longer log in by password",
        'Clearing password for user "{username}" ...',
        (USER,),
        _clear_password,
    ),
    "set_user_tags": Verb(
        "give a user these tags and no others",
        'Setting tags for user "{username}" to {tags} ...',
        (USER, Argument("tags", many=True)),
        _set_user_tags,
    ),
    "authenticate_user": Verb(
        "try a user's password",
        'Authenticating user "{username}" ...',
        (USER, SECRET),
        _authenticate,
    ),
    "add_vhost": Verb(
        "make a vhost",
        'Adding vhost "{name}" ...',
        (NAME, _option("--description"), _option("--tags"), _option("--default-queue-type")),
        _add_vhost,
    ),
    "delete_vhost": Verb(
        "delete a vhost with all that is in it",
        'Deleting vhost "{name}" ...',
        (NAME,),
        lambda api, options: api.delete(path("vhosts", options.name)),
    ),
    "set_permissions": Verb(
        "give a user rights in a vhost",
        'Setting permissions for user "{username}" in vhost "{vhost}" ...',
        (USER, Argument("configure"), Argument("write"), Argument("read")),
        _set_permissions,
        in_vhost=True,
    ),
    "clear_permissions": Verb(
        "take a user's rights in a vhost",
        'Clearing permissions for user "{username}" in vhost "{vhost}" ...',
        (USER,),
        lambda api, options: api.delete(path("permissions", options.vhost, options.username)),
        in_vhost=True,
    ),
    "set_topic_permissions": Verb(
        "limit the routing keys of a user at an exchange",
        'Setting topic permissions on "{exchange}" for user "{username}" in vhost "{vhost}" ...',
        (USER, Argument("exchange"), Argument("write"), Argument("read")),
        _set_topic_permissions,
        in_vhost=True,
    ),
    "clear_topic_permissions": Verb(
        "take such limits away",
        'Clearing topic permissions for user "{username}" in vhost "{vhost}" ...',
        (USER, Argument("exchange", "")),
        _clear_topic_permissions,
        in_vhost=True,
    ),
    "set_policy": Verb(
        "set a policy",
        'Setting policy "{name}" for pattern "{pattern}" to "{definition}" with priority '
        '"{priority}" for vhost "{vhost}" ...',
        POLICY,
        _set_policy("policies"),
        in_vhost=True,
    ),
    "clear_policy": Verb(
        "remove a policy",
        'Clearing policy "{name}" on vhost "{vhost}" ...',
        (NAME,),
        _clear_policy("policies"),
        in_vhost=True,
    ),
    "set_operator_policy": Verb(
        "set an operator policy",
        'Setting operator policy override "{name}" for pattern "{pattern}" to "{definition}" with '
        'priority "{priority}" for vhost "{vhost}" ...',
        POLICY,
        _set_policy("operator-policies"),
        in_vhost=True,
    ),
    "clear_operator_policy": Verb(
        "remove an operator policy",
        'Clearing operator policy "{name}" on vhost "{vhost}" ...',
        (NAME,),
        _clear_policy("operator-policies"),
        in_vhost=True,
    ),
    "set_parameter": Verb(
        "set a runtime parameter",
        'Setting runtime parameter "{name}" for component "{component}" to "{value}" in vhost '
        '"{vhost}" ...',
        (Argument("component"), NAME, Argument("value")),
        _set_parameter,
        in_vhost=True,
    ),
    "clear_parameter": Verb(
        "remove a runtime parameter",
        'Clearing runtime parameter "{name}" for component "{component}" on vhost "{vhost}" ...',
        (Argument("component"), NAME),
        _clear_parameter,
        in_vhost=True,
    ),
    "set_global_parameter": Verb(
        "set a global parameter",
        'Setting global runtime parameter "{name}" to "{value}" ...',
        (NAME, Argument("value")),
        lambda api, options: api.put(
            path("global-parameters", options.name), {"value": parsed(options.value)}
        ),
    ),
    "clear_global_parameter": Verb(
        "remove a global parameter",
        'Clearing global runtime parameter "{name}" ...',
        (NAME,),
        lambda api, options: api.delete(path("global-parameters", options.name)),
    ),
    "set_cluster_name": Verb(
        "name the cluster",
        "Setting cluster name to {name} ...",
        (NAME,),
        lambda api, options: api.put("/api/cluster-name", {"name": options.name}),
    ),
    "set_vhost_limits": Verb(
        "set limits of a vhost, as a JSON object",
        'Setting vhost limits to "{definition}" for vhost "{vhost}" ...',
        (Argument("definition"),),
        _set_limits("vhost-limits", "vhost"),
        in_vhost=True,
    ),
    "clear_vhost_limits": Verb(
        "remove the limits of a vhost",
        'Clearing vhost "{vhost}" limits ...',
        (),
        _clear_vhost_limits,
        in_vhost=True,
    ),
    "set_user_limits": Verb(
        "set limits of a user, as a JSON object",
        'Setting user limits to "{definition}" for user "{username}" ...',
        (USER, Argument("definition")),
        _set_limits("user-limits", "username"),
    ),
    "clear_user_limits": Verb(
        "remove a limit of a user, or all of them",
        'Clearing user "{username}" limits ...',
        (USER, Argument("limit")),
        _clear_user_limits,
    ),
    "delete_queue": Verb(
        "delete a queue",
        "Deleting queue '{queue}' on vhost '{vhost}' ...",
        (Argument("queue"), *EMPTY_UNUSED),
        _delete_queue,
        in_vhost=True,
    ),
    "purge_queue": Verb(
        "delete all messages of a queue that are ready",
        "Purging queue '{queue}' in vhost '{vhost}' ...",
        (Argument("queue"),),
        _purge_queue,
        in_vhost=True,
    ),
    "close_connection": Verb(
        "close a connection, by its name",
        "Closing connection {connection}, reason: {reason}...",
        (Argument("connection"), Argument("reason")),
        _close_connection,
    ),
    "close_all_connections": Verb(
        "close all connections of a vhost",
        "Closing all connections in vhost {vhost}, reason: {reason}...",
        (Argument("reason"),),
        _close_all_connections,
        in_vhost=True,
    ),
    "export_definitions": Verb(
        "write all definitions as JSON; -: to the terminal", "", (Argument("file"),), _export
    ),
    "import_definitions": Verb(
        "read definitions from JSON; -: from the input",
        "Importing definitions from {file} ...",
        (Argument("file", "-"),),
        _import,
    ),
}
