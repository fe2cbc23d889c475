"""The `warren` command. `warren server` runs one node, `warren host` several behind one address,
`warren cluster` a cluster for trying things out. `warren check-data` verifies files, `warren
convert-config` reads a rabbitmq.conf, `warren bench` measures links of one connection, `warren
chaos` breaks clusters, `warren declare`, `publish`, `get` and `tail` try out a broker as its
client.

Only the arguments are read here. The broker is imported after they and the configuration have been
found good, so that a mistake is answered at once.
"""

import argparse
import gc
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from node.cli.bench.arguments import add_arguments as add_bench
from node.cli.chaos.arguments import add_arguments as add_chaos
from node.cli.cluster.arguments import add_arguments as add_cluster
from node.cli.host_arguments import node_count
from node.cli.try_arguments import COMMANDS as TRY_COMMANDS
from node.cli.try_arguments import add_arguments as add_try

EXIT_USAGE: Final = 64  # sysexits
EXIT_CONFIG: Final = 78

# Options of `warren server` and the keys that they set.
FLAG_KEYS: Final[Mapping[str, str]] = {
    "name": "node.name",
    "data": "node.data_dir",
    "listen": "listeners.amqp",
    "management": "listeners.management",
    "cluster": "listeners.cluster",
    "seed": "cluster.seeds",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit code is returned."""
    if not __debug__:
        print(
            "warren: refusing to run under python -O: the checks that guard stored messages "
            "would be off",
            file=sys.stderr,
        )
        return EXIT_CONFIG
    try:
        words = sys.argv[1:] if arguments is None else arguments
        options = make_parser(*words[:1]).parse_args(words)
    except SystemExit as stop:  # argparse has printed why; its code for a wrong call is 2.
        return EXIT_USAGE if stop.code == 2 else int(stop.code or 0)
    if options.version:
        from node.build import installed_version

        print(f"warren {installed_version()}")
        return 0
    if options.command == "server":
        return serve(options)
    if options.command == "host":
        from node.cli.host import main as host

        return host(options, config_file(options.config, os.environ), flags_given(options))
    if options.command == "check-data":
        from node.recovery.check_data import run

        return run(options.directory, options.formatter, sys.stdout, sys.stderr)
    if options.command == "convert-config":
        from node.cli.convert_config import main as convert_config

        return convert_config(options, sys.stdout, sys.stderr)
    if options.command == "bench":
        from node.cli.bench.bench import main as bench

        return bench(options, sys.stdout, sys.stderr)
    if options.command == "chaos":
        return chaos(options)
    if options.command in TRY_COMMANDS:
        from node.cli.try_out import main as try_out

        return try_out(options, sys.stdout, sys.stderr)
    if options.command == "cluster":
        from node.cli.cluster.cluster import main as cluster

        return cluster(options, sys.stdout, sys.stderr)
    make_parser().print_help(sys.stderr)
    return EXIT_USAGE


def make_parser(command: str = "") -> argparse.ArgumentParser:
    """Of all commands; of `server` alone if that is the command, for a start is not to wait."""
    parser = argparse.ArgumentParser(
        prog="warren",
        description="Warren, a message broker for RabbitMQ and AMQP applications.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    server = commands.add_parser(
        "server", help="run one node in the foreground", allow_abbrev=False
    )
    add_server_options(server)
    if command == "server":
        return parser
    host = commands.add_parser(
        "host",
        help="run several nodes of this machine behind one address, in the foreground",
        description="Nodes NAME-1, NAME-2, ... share the AMQP address; each has a port of its own "
        "above it, and for HTTP and other nodes. SIGUSR2 restarts them one at a time.",
        allow_abbrev=False,
    )
    host.add_argument("--nodes", metavar="N", type=node_count, required=True, help="1 to 16")
    add_server_options(host)
    check = commands.add_parser(
        "check-data",
        help="verify the files of a stopped node, changing nothing",
        allow_abbrev=False,
    )
    check.add_argument("directory", metavar="DIR", help="the node's data directory")
    check.add_argument("--formatter", choices=("table", "json"), default="table")
    converting = commands.add_parser(
        "convert-config",
        help="write a rabbitmq.conf as a configuration file, and what it cannot carry over",
        allow_abbrev=False,
    )
    converting.add_argument("file", metavar="FILE", type=Path, help="a rabbitmq.conf")
    add_bench(commands)
    add_chaos(commands)
    add_cluster(commands)
    add_try(commands)
    return parser


def add_server_options(server: argparse.ArgumentParser) -> None:
    """The settings that a node has options for."""
    server.add_argument("--name", metavar="N", help="name of the node")
    server.add_argument("--data", metavar="DIR", help="where messages and definitions are kept")
    server.add_argument("--listen", metavar="HOST:PORT", help="address for AMQP clients")
    server.add_argument("--management", metavar="HOST:PORT", help="address for HTTP")
    server.add_argument("--cluster", metavar="HOST:PORT", help="address for other nodes")
    server.add_argument(
        "--seed",
        metavar="HOST:PORT",
        action="extend",
        nargs="+",
        help="a founding node of the cluster; may be given again; the same list on every node",
    )
    server.add_argument("--config", metavar="FILE", type=Path, help="a TOML file")
    server.add_argument(
        "--set",
        metavar="KEY=VALUE",
        dest="sets",
        action="append",
        default=[],
        help="one setting, named as in the file; may be given again",
    )


def chaos(options: argparse.Namespace) -> int:
    """`warren chaos check` and `warren chaos run`."""
    if options.chaos == "run":
        from node.cli.chaos.run import main as run

        return run(options, sys.stdout, sys.stderr)
    from node.cli.chaos.chaos import main as check

    return check(options, sys.stdout, sys.stderr)


def serve(options: argparse.Namespace) -> int:
    """`warren server`: read the configuration and run the node with it."""
    gc.disable()  # What is imported stays: to look through it costs a quarter of the start.
    try:
        from node.config.settings import ConfigError, load

        try:
            config = load(
                config_file(options.config, os.environ),
                flags_given(options),
                options.sets,
                os.environ,
            )
        except ConfigError as error:
            print(f"warren: {error}", file=sys.stderr)
            return EXIT_CONFIG
        from node.boot import run
    finally:
        gc.enable()
    gc.freeze()
    return run(config)


def flags_given(options: argparse.Namespace) -> dict[str, object]:
    """The settings among the options, by key."""
    flags: dict[str, object] = {}
    for option, key in FLAG_KEYS.items():
        given = getattr(options, option)
        if given is not None:
            flags[key] = ",".join(given) if option == "seed" else given
    return flags


def config_file(option: Path | None, environment: Mapping[str, str]) -> Path | None:
    """`--config`, or else the file that WARREN_CONFIG names."""
    named = environment.get("WARREN_CONFIG", "")
    return option or (Path(named) if named else None)


if __name__ == "__main__":
    sys.exit(main())
