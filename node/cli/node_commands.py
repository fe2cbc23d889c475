"""Commands of `warrenctl` that change how nodes and vhosts run: limits of alarms, listeners, log,
traces, feature flags. What is not kept in the definitions is in force until the node restarts.
"""

from collections.abc import Callable
from typing import Final, TextIO

from node.cli.api import Api
from node.cli.verbs import (
    Argument,
    BadCall,
    Commands,
    Options,
    Run,
    Verb,
    done,
    own_node,
    path,
    tell,
    whole,
)
from node.config.config_layers import passphrase
from node.config.encrypted_values import decrypt, encrypt

UNITS: Final = {
    "": 1, "k": 1 << 10, "ki": 1 << 10, "kib": 1 << 10, "kb": 10**3, "m": 1 << 20, "mi": 1 << 20,
    "mib": 1 << 20, "mb": 10**6, "g": 1 << 30, "gi": 1 << 30, "gib": 1 << 30, "gb": 10**9,
    "t": 1 << 40, "ti": 1 << 40, "tib": 1 << 40, "tb": 10**12,
}  # fmt: skip
LEVELS: Final = ("debug", "info", "warning", "error", "critical", "none")
NODE_OPTION: Final = Argument("--node", "")  # the one that is asked, unless another is named


def node_of(api: Api, options: Options) -> str:
    return str(options.node or own_node(api))


def bytes_of(text: str) -> int:
    """A number of bytes, perhaps with a unit, as in the configuration."""
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    unit = text[len(digits) :].lower()
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19) or unit not in UNITS:
        raise BadCall(f"not a number of bytes: {text}")
    return int(digits) * UNITS[unit]


def share_of(text: str, share_max: float = 100) -> float:
    try:
        share = float(text)
    except ValueError as error:
        raise BadCall(f"not a number: {text}") from error
    if not 0 <= share <= share_max:
        raise BadCall(f"out of range: {text}; allowed: 0 to {share_max:g}")
    return share


def set_memory_limit(api: Api, options: Options, out: TextIO) -> None:
    """`0.4`, or `absolute 2GB`."""
    first, *rest = options.values or [""]
    if first == "absolute" and len(rest) == 1:
        limit: dict[str, object] = {"absolute": bytes_of(rest[0])}
    elif not rest:
        limit = {"relative": share_of(first, 1)}
    else:
        raise BadCall("a share of the memory is wanted, or: absolute BYTES")
    place = path("nodes", node_of(api, options), "limits")
    api.put(place, {"vm_memory_high_watermark": limit})
    done(options, out)


def set_disk_limit(api: Api, options: Options, out: TextIO) -> None:
    """`2GB`, or `mem_relative 1.5`."""
    first, *rest = options.values or [""]
    if first == "mem_relative" and len(rest) == 1:
        limit: dict[str, object] = {"mem_relative": share_of(rest[0])}
    elif not rest:
        limit = {"absolute": bytes_of(first)}
    else:
        raise BadCall("a number of bytes is wanted, or: mem_relative SHARE")
    api.put(path("nodes", node_of(api, options), "limits"), {"disk_free_limit": limit})
    done(options, out)


def listeners(action: str) -> Run:
    def run(api: Api, options: Options, out: TextIO) -> None:
        api.post(path("nodes", node_of(api, options), "listeners"), {"action": action})
        done(options, out)

    return run


def tracing(on: bool) -> Run:
    def run(api: Api, options: Options, out: TextIO) -> None:
        api.get(path("vhosts", options.vhost))  # It is not to be made by this.
        api.put(path("vhosts", options.vhost), {"tracing": on})
        state = "enabled" if on else "disabled"
        done(options, out, f"Trace {state} for vhost {options.vhost}")

    return run


def publishing_events(is_on: bool) -> Run:
    """Switch the event exchange, whatever the settings of the nodes say."""

    def switch(api: Api, options: Options, out: TextIO) -> None:
        value = {"enabled": True, "vhost": options.vhost} if is_on else {"enabled": False}
        api.put(path("global-parameters", "event-exchange"), {"value": value})
        done(options, out)

    return switch


def set_log_level(api: Api, options: Options, out: TextIO) -> None:
    body = {"level": options.level}
    if options.category:
        body["category"] = options.category
    api.put(path("nodes", node_of(api, options), "log-level"), body)
    done(options, out)


def log_tail(api: Api, options: Options, out: TextIO) -> None:
    """The lines are printed as they were logged."""
    where = path("nodes", node_of(api, options), "log")
    lines = api.get_object(f"{where}?lines={whole(options.number)}").get("lines")
    found = lines if isinstance(lines, list) else []
    tell(options, out, "\n".join(map(str, found)), {"lines": found})


def enable_feature_flag(api: Api, options: Options, out: TextIO) -> None:
    names = [options.flag]
    if options.flag == "all":
        rows = api.get_list("/api/feature-flags")
        names = [str(row.get("name")) for row in rows if row.get("state") != "enabled"]
    for name in names:
        api.put(path("feature-flags", name, "enable"), {})
    done(options, out)


def restart_vhost(api: Api, options: Options, out: TextIO) -> None:
    api.post(path("vhosts", options.vhost, "start", node_of(api, options)), {})
    done(options, out)


def set_vhost_tags(api: Api, options: Options, out: TextIO) -> None:
    api.get(path("vhosts", options.name))
    api.put(path("vhosts", options.name), {"tags": options.tags})
    done(options, out)


def update_vhost_metadata(api: Api, options: Options, out: TextIO) -> None:
    asked = {
        "description": options.description,
        "tags": options.tags,
        "default_queue_type": options.default_queue_type,
    }
    api.get(path("vhosts", options.name))
    api.put(path("vhosts", options.name), {key: value for key, value in asked.items() if value})
    done(options, out)


def protect(on: bool) -> Run:
    def run(api: Api, options: Options, out: TextIO) -> None:
        place = path("vhosts", options.name, "deletion", "protection")
        if on:
            api.post(place, {})
        else:
            api.delete(place)
        done(options, out)

    return run


def set_permissions_globally(api: Api, options: Options, out: TextIO) -> None:
    body = {"configure": options.configure, "write": options.write, "read": options.read}
    for row in api.get_list("/api/vhosts?columns=name"):
        api.put(path("permissions", str(row.get("name")), options.username), body)
    done(options, out)


def close_all_user_connections(api: Api, options: Options, out: TextIO) -> None:
    api.delete(path("connections", "username", options.username), options.reason)
    done(options, out)


def hash_password(api: Api, options: Options, out: TextIO) -> None:
    answer = api.post("/api/auth/hash_password", {"password": options.cleartext_password})
    hashed = answer.get("ok") if isinstance(answer, dict) else answer
    tell(options, out, str(hashed), answer)


def encode(api: Api, options: Options, out: TextIO) -> None:
    """Asks no node."""
    _crypt(encrypt, options, out)


def decode(api: Api, options: Options, out: TextIO) -> None:
    """Asks no node."""
    _crypt(decrypt, options, out)


def _crypt(work: Callable[[str, str], str], options: Options, out: TextIO) -> None:
    try:
        text = work(options.value, options.passphrase or passphrase())
    except ValueError as error:
        raise BadCall(str(error)) from error
    tell(options, out, text, text)


NAME: Final = Argument("name")
CRYPT: Final = (Argument("value"), Argument("passphrase", default=""))
RUNNING: Final[Commands] = {
    "set_vm_memory_high_watermark": Verb(
        "set the memory watermark of a node: a share of the memory, or: absolute BYTES",
        "Setting memory threshold to {values} ...",
        (Argument("values", many=True), NODE_OPTION),
        set_memory_limit,
    ),
    "set_disk_free_limit": Verb(
        "set the free disk space below which publishers wait: BYTES, or: mem_relative SHARE",
        "Setting disk free limit to {values} ...",
        (Argument("values", many=True), NODE_OPTION),
        set_disk_limit,
    ),
    "suspend_listeners": Verb(
        "take no new client connections on a node",
        "Will suspend client connection listeners. No new client connections will be accepted!",
        (NODE_OPTION,),
        listeners("suspend"),
    ),
    "resume_listeners": Verb(
        "take them again",
        "Will resume client connection listeners. New client connections will be accepted",
        (NODE_OPTION,),
        listeners("resume"),
    ),
    "trace_on": Verb(
        "copy all messages of a vhost to amq.rabbitmq.trace",
        "Starting tracing for vhost {vhost} ...",
        (),
        tracing(True),
        in_vhost=True,
    ),
    "trace_off": Verb(
        "copy them no more",
        "Stopping tracing for vhost {vhost} ...",
        (),
        tracing(False),
        in_vhost=True,
    ),
    "enable_event_exchange": Verb(
        "publish events to amq.rabbitmq.event of a vhost, on all nodes",
        "Publishing events to amq.rabbitmq.event in vhost {vhost} ...",
        (),
        publishing_events(True),
        in_vhost=True,
    ),
    "disable_event_exchange": Verb(
        "publish them no more",
        "Stopping to publish events ...",
        (),
        publishing_events(False),
    ),
    "set_log_level": Verb(
        "set the level of a node's log",
        'Setting log level to "{level}" ...',
        (Argument("level", choices=LEVELS), Argument("--category", ""), NODE_OPTION),
        set_log_level,
    ),
    "log_tail": Verb(
        "print the last lines of a node's log: 50, or --number N, 500 at most",
        "",
        (Argument("--number", "50"), NODE_OPTION),
        log_tail,
    ),
    "enable_feature_flag": Verb(
        "enable a feature flag, or all of them",
        "Enabling feature flag {flag} ...",
        (Argument("flag"),),
        enable_feature_flag,
    ),
    "restart_vhost": Verb(
        "start a vhost again",
        "Trying to restart vhost {vhost} ...",
        (NODE_OPTION,),
        restart_vhost,
        in_vhost=True,
    ),
    "set_vhost_tags": Verb(
        "give a vhost these tags and no others",
        'Setting tags for vhost "{name}" to {tags} ...',
        (NAME, Argument("tags", many=True)),
        set_vhost_tags,
    ),
    "update_vhost_metadata": Verb(
        "change the description, tags or default queue type of a vhost",
        'Updating metadata of vhost "{name}" ...',
        (
            NAME,
            Argument("--description", ""),
            Argument("--tags", ""),
            Argument("--default-queue-type", ""),
        ),
        update_vhost_metadata,
    ),
    "enable_vhost_protection_from_deletion": Verb(
        "refuse to delete a vhost",
        'Protecting vhost "{name}" from deletion ...',
        (NAME,),
        protect(True),
    ),
    "disable_vhost_protection_from_deletion": Verb(
        "let a vhost be deleted again",
        'Removing the protection of vhost "{name}" ...',
        (NAME,),
        protect(False),
    ),
    "set_permissions_globally": Verb(
        "give a user rights in all vhosts",
        'Setting permissions for user "{username}" in all virtual hosts ...',
        (Argument("username"), Argument("configure"), Argument("write"), Argument("read")),
        set_permissions_globally,
    ),
    "close_all_user_connections": Verb(
        "close all connections of a user",
        "Closing connections of user {username}, reason: {reason}...",
        (Argument("username"), Argument("reason")),
        close_all_user_connections,
    ),
    "encode": Verb(
        "encrypt a password for the configuration; the passphrase: WARREN_CONFIG_PASSPHRASE",
        "",
        CRYPT,
        encode,
    ),
    "decode": Verb("decrypt what encode has encrypted", "", CRYPT, decode),
    "hash_password": Verb(
        "hash a password as definitions keep it",
        "",
        (Argument("cleartext_password"),),
        hash_password,
    ),
}
