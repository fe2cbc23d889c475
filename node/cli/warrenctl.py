"""`warrenctl`: RabbitMQ's command names over the HTTP API of a node.

Tables are drawn on a terminal; into a pipe go lines of values between tabs, under a line of names,
as scripts for rabbitmqctl expect. Options of the tool may stand before or behind the command, and
the name of RabbitMQ's tool before it (`warrenctl queues grow ...`, `warrenctl diagnostics alarms`).
WARREN_CTL_URL, WARREN_CTL_USER and WARREN_CTL_PASSWORD say who is asked and by whom where a caller
cannot: under the name `rabbitmqctl` on the path it serves Ansible's modules for RabbitMQ.
Exit codes are those of sysexits: 64 wrong call, 65 no such object, 69 no node there, 70 the node
failed, 77 login refused.
"""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Final, Protocol, TextIO
from urllib.parse import urlsplit

from node.cli.absent_commands import ABSENT
from node.cli.api import Api, ApiFailure
from node.cli.changes import CHANGES, change
from node.cli.cluster.commands import COMMANDS as CLUSTER
from node.cli.cluster.commands import run as run_cluster
from node.cli.completion import SHELLS, script
from node.cli.diagnostics import DIAGNOSTICS
from node.cli.limits import LIMITS
from node.cli.links import LINKS
from node.cli.lists import LISTS, list_rows
from node.cli.node_commands import RUNNING
from node.cli.observer import observer
from node.cli.queue_messages import LETTERS
from node.cli.report import report
from node.cli.status import STATUS
from node.cli.streams import STREAMS
from node.cli.tables import FORMATTERS
from node.cli.verbs import (
    Argument,
    BadCall,
    Commands,
    Options,
    Run,
    Verb,
    carried_out,
    own_node,
)

EXIT_OK: Final = 0
EXIT_USAGE: Final = 64

URL_DEFAULT: Final = "http://127.0.0.1:15672"
GROUPS: Final = ("ctl", "queues", "diagnostics", "upgrade", "streams", "federation")
WITH_VALUE: Final = ("--node-url", "--user", "--password", "--formatter", "--timeout", "-t")
NODE: Final = ("-n", "--node")
RABBIT: Final = "rabbit"
VHOST: Final = ("-p", "--vhost")
FLAGS: Final = ("-q", "--quiet", "-s", "--silent", "--no-table-headers")
HELP: Final = "help"  # warrenctl help COMMAND
NAME_WIDTH: Final = 32  # of nearly all commands


class Described(Protocol):
    """A row of a table of commands."""

    @property
    def help(self) -> str: ...

    def describe(self, parser: argparse.ArgumentParser) -> None:
        """Add its arguments."""


def is_url(text: str) -> bool:
    """Whether it names a scheme that the API is spoken over, and a host."""
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and parts.hostname is not None
    except ValueError:
        return False


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit code is returned."""
    own, rest = parted(sys.argv[1:] if arguments is None else arguments)
    if rest[:1] == [HELP]:
        rest = [*rest[1:2], "--help"]
    try:
        check_command(rest)
        options = make_parser().parse_args(own + rest)
    except BadCall as error:
        print(f"warrenctl: {error}", file=sys.stderr)
        return EXIT_USAGE
    except SystemExit as stop:  # argparse has printed why; its code for a wrong call is 2.
        return EXIT_USAGE if stop.code == 2 else int(stop.code or 0)
    if options.silent:
        options.quiet = options.no_table_headers = True
    try:
        if not is_url(options.node_url):
            raise BadCall(f"--node-url {options.node_url}: no URL such as {URL_DEFAULT}")
        password = options.password or os.environ.get("WARREN_CTL_PASSWORD") or "guest"
        api = Api(options.node_url, options.user, password, options.timeout)
        if options.node_name:
            api = api_of_node(api, options.node_name)
        runners()[options.command](api, options, sys.stdout)
    except BadCall as error:
        print(f"warrenctl: {error}", file=sys.stderr)
        return EXIT_USAGE
    except ApiFailure as failure:
        print(f"warrenctl: {failure}", file=sys.stderr)
        return failure.exit_code
    except BrokenPipeError:  # The reader closed the pipe early.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        return EXIT_OK
    return EXIT_OK


def api_of_node(api: Api, name: str) -> Api:
    """The API of the node of this name, which the node at --node-url knows.

    BadCall: no such member, or it has no listener for HTTP. `rabbit` and `rabbit@HOST`, which
    scripts for RabbitMQ give, mean the node at --node-url.
    """
    if name.partition("@")[0] == RABBIT:
        return api
    nodes = {str(each.get("name")): each for each in api.get_list("/api/nodes")}
    if name not in nodes:
        raise BadCall(f"-n {name}: no such node; members of the cluster: {', '.join(nodes)}")
    listeners = nodes[name].get("listeners")
    for each in listeners if isinstance(listeners, list) else []:
        if each.get("protocol") in ("http", "https"):
            return api.at(str(each["protocol"]), str(each["ip_address"]), int(each["port"]))
    raise BadCall(f"-n {name}: the node does not run, or has no listener for the HTTP API")


def parted(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Options of the tool, wherever they stood; the rest, without the name of RabbitMQ's tool and
    without the node that `-n` names. `-p` belongs to the command."""
    own: list[str] = []
    rest: list[str] = []
    late: list[str] = []  # of the command, and came before it
    words = iter(arguments)
    for word in words:
        name = word.partition("=")[0]
        if word == "--":
            rest += [word, *words]
        elif name == "--user" and rest[-1:] == ["list_user_limits"]:
            rest.append("--username" + word[len(name) :])  # There it is not who logs in.
        elif word in FLAGS:
            own.append(word)
        elif name in WITH_VALUE or (not rest and name in (*NODE, *VHOST)) or word == NODE[0]:
            taken = [word, *islice(words, int(name == word))]
            if name in NODE:
                own += ["--node-name", *(taken[1:] or [word.partition("=")[2]])]
            else:
                (late if name in VHOST else own).extend(taken)
        else:
            rest.append(word)
    if len(rest) > 1 and rest[0] in GROUPS:
        del rest[0]
    return own, rest[:1] + late + rest[1:]


def check_command(words: Sequence[str]) -> None:
    """BadCall: the first of them is no command. The parser would say it with all that there are."""
    names = [name for _, table in TABLES for name in table]
    command = words[0] if words else ""
    if command in names or command in ("", "-h", "--help"):
        return
    if command in ABSENT:
        raise BadCall(f"no command '{command}': {ABSENT[command]}")
    if command.startswith("-"):
        raise BadCall(f"no option '{command}' before a command; see warrenctl --help")
    from difflib import get_close_matches

    near = ", ".join(get_close_matches(command, names)) or "see warrenctl --help"
    raise BadCall(f"no command '{command}'; known: {near}")


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="warrenctl",
        description="Look after a Warren node: RabbitMQ's commands over its HTTP API.",
        epilog="\n\n".join(listed(title, table) for title, table in TABLES),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    url = os.environ.get("WARREN_CTL_URL") or URL_DEFAULT
    parser.add_argument("--node-url", default=url, help=f"WARREN_CTL_URL, else {URL_DEFAULT}")
    parser.add_argument("--node-name", default="", help="-n NODE: ask this node of the cluster")
    user = os.environ.get("WARREN_CTL_USER") or "guest"
    parser.add_argument("--user", default=user, help="default: WARREN_CTL_USER, else guest")
    parser.add_argument("--password", help="default: WARREN_CTL_PASSWORD, else guest")
    parser.add_argument("--formatter", choices=FORMATTERS, default="table")
    parser.add_argument("-t", "--timeout", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("-q", "--quiet", action="store_true", help="no line above a list")
    parser.add_argument("-s", "--silent", action="store_true", help="and no names of columns")
    parser.add_argument("--no-table-headers", action="store_true")
    commands = parser.add_subparsers(
        dest="command",
        required=True,
        metavar="COMMAND",
        help="one of the following; COMMAND --help",
    )
    for _, table in TABLES:
        for name, row in table.items():
            row.describe(commands.add_parser(name, description=row.help))
    return parser


def listed(title: str, table: Mapping[str, Described]) -> str:
    """Commands and what they do, as `--help` shows them."""
    rows = [f"  {name:<{NAME_WIDTH}} {row.help}" for name, row in table.items()]
    return "\n".join([f"{title}:", *rows])


def runners() -> Mapping[str, Run]:
    """Who carries out each command."""
    at_nodes = {**DIAGNOSTICS, **RUNNING}
    others = {**STATUS, **LETTERS, **LIMITS, **LINKS, **STREAMS, **OWN}
    return {
        **{name: carried_out(command) for name, command in others.items()},
        **dict.fromkeys(CHANGES, change),
        **dict.fromkeys(LISTS, list_rows),
        **dict.fromkeys(CLUSTER, run_cluster),
        **{name: partial(run_at_node, command) for name, command in at_nodes.items()},
    }


def run_at_node(command: Verb[Run], api: Api, options: Options, out: TextIO) -> None:
    """At the node that is named, or the one that is asked, whose name is to be said."""
    if "{node}" in command.told and not options.node:
        options.node = own_node(api)
    carried_out(command)(api, options, out)


def completion(api: Api, options: Options, out: TextIO) -> None:
    print(script(options.shell, make_parser()), end="", file=out)


OWN: Final[Commands] = {
    "report": Verb(
        "all that a report of a fault needs, without secrets; --file: as an archive",
        "",
        (Argument("--file", ""),),
        report,
    ),
    "observer": Verb(
        "the cluster on the terminal, redrawn until Ctrl-C",
        "",
        (Argument("--interval", "5"), Argument("--count", "0")),
        observer,
    ),
    "completion": Verb(
        "a script that completes commands for a shell",
        "",
        (Argument("shell", choices=SHELLS),),
        completion,
    ),
}


TABLES: Final[Sequence[tuple[str, Mapping[str, Described]]]] = (
    ("the node that is asked", STATUS),
    ("lists", LISTS),
    ("users, vhosts, permissions, policies, queues, connections, definitions", CHANGES),
    ("limits of vhosts and users", LIMITS),
    ("shovels and federation", LINKS),
    ("messages and dead letters", LETTERS),
    ("what streams remember", STREAMS),
    ("the cluster, and members of quorum queues", CLUSTER),
    ("how nodes run", RUNNING),
    ("checks, and a look inside", DIAGNOSTICS),
    ("more", OWN),
)


if __name__ == "__main__":
    sys.exit(main())
