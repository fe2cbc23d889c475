"""`warrenctl report`: all that a report of a fault needs, as text or as files in an archive.

Takes what the API of one node tells of the whole cluster, and the metrics of that node. No secrets:
passwords and their hashes, tokens, keys and the logins in URIs are left out (`without_secrets`),
and no message is read. A part that cannot be had is named with the reason; it ends nothing.
"""

import io
import json
import platform
import re
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, TextIO
from urllib.parse import quote

from node.cli.api import Api, ApiFailure
from node.cli.verbs import BadCall, Options

SECRET: Final = re.compile(
    r"pass(word|wd|phrase)?|secret|token|credential|private|cookie|hash$|_key$|keyfile", re.I
)
LOGIN: Final = re.compile(r"(?<=://)[^/@\s\"']+@")
HIDDEN: Final = "***"
PARTS: Final = (
    ("overview", "/api/overview"),
    ("nodes", "/api/nodes"),
    ("cluster", "/api/cluster"),
    ("health", "/api/health/checks/alarms"),
    ("queues", "/api/queues"),
    ("connections", "/api/connections"),
    ("channels", "/api/channels"),
    ("consumers", "/api/consumers"),
    ("exchanges", "/api/exchanges"),
    ("bindings", "/api/bindings"),
    ("vhosts", "/api/vhosts"),
    ("users", "/api/users?columns=name,tags"),
    ("permissions", "/api/permissions"),
    ("topic_permissions", "/api/topic-permissions"),
    ("policies", "/api/policies"),
    ("operator_policies", "/api/operator-policies"),
    ("parameters", "/api/parameters"),
    ("global_parameters", "/api/global-parameters"),
    ("vhost_limits", "/api/vhost-limits"),
    ("user_limits", "/api/user-limits"),
    ("feature_flags", "/api/feature-flags"),
    ("flow", "/api/flow/graph"),
    ("environment", "/api/config/effective"),
)


def report(api: Api, options: Options, out: TextIO) -> None:
    """To `out`; with `--file`, into an archive of one file for each part."""
    if not options.file:
        for name, text in parts(api):
            print(f"=== {name}\n{text}\n", file=out)
        return
    try:
        with tarfile.open(options.file, "w:gz") as archive:
            for name, text in parts(api):
                data = text.encode()
                entry = tarfile.TarInfo(f"warren-report/{name}.txt")
                entry.size = len(data)
                entry.mtime = int(time.time())
                archive.addfile(entry, io.BytesIO(data))
    except OSError as error:
        raise BadCall(str(error)) from error
    print(f"The report is in {options.file}", file=out)


def parts(api: Api) -> Iterator[tuple[str, str]]:
    """Name and text of each."""
    client = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "python": platform.python_version(),
        "system": platform.platform(),
        "command": " ".join(sys.argv[1:]),
    }
    client["command"] = re.sub(r"(--password)[= ]\S+", rf"\1 {HIDDEN}", client["command"])
    yield "client", written(client)
    for name, place in PARTS:
        yield name, told(partial(shown, api, place))
    for node in nodes(api):
        place = f"/api/nodes/{quote(node, safe='')}/memory"
        yield f"memory-{node}", told(partial(shown, api, place))
    yield "metrics", told(partial(api.text, "/metrics"))


def shown(api: Api, place: str) -> str:
    return written(without_secrets(api.get(place)))


def nodes(api: Api) -> list[str]:
    try:
        return [str(row.get("name")) for row in api.get_list("/api/nodes?columns=name")]
    except ApiFailure:
        return []  # The part `nodes` says why.


def told(get: Callable[[], str]) -> str:
    try:
        return get()
    except ApiFailure as failure:
        return f"not there: {failure}"


def written(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True)


def without_secrets(value: object) -> object:
    """The same with nothing in it that opens anything."""
    if isinstance(value, dict):
        return {
            key: HIDDEN if SECRET.search(str(key)) and shields(each) else without_secrets(each)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [without_secrets(each) for each in value]
    if isinstance(value, str):
        return LOGIN.sub(f"{HIDDEN}@", value)
    return value


def shields(value: object) -> bool:
    """Whether something is hidden there: text that is some; a number or a flag tells nothing."""
    return bool(value) and not isinstance(value, (bool, int, float))
