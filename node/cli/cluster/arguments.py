"""The options of `warren cluster`. Reads arguments alone: nothing else is imported."""

import argparse
from pathlib import Path
from typing import Final

SIZES: Final = (1, 3, 5, 7)
BASE_PORT: Final = 5672
BASE_PORT_MAX: Final = 45_000  # those of peers are 20,000 higher


def add_arguments(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """`cluster`, for the parser of `warren`."""
    cluster = commands.add_parser(
        "cluster",
        help="run a cluster of local nodes in the foreground",
        description="Nodes n1, n2, ... on loopback. Ctrl-C stops all of them.",
        allow_abbrev=False,
    )
    cluster.add_argument("count", metavar="N", type=int, choices=SIZES, help="how many nodes")
    cluster.add_argument(
        "--data",
        metavar="DIR",
        type=Path,
        help="keep data and logs here, and go on with what is there; default: a folder that goes",
    )
    cluster.add_argument(
        "--base-port",
        metavar="P",
        type=base_port,
        default=BASE_PORT,
        help="AMQP on P, P+1, ..., the API on P+10000, ..., peers on P+20000, ... (default 5672)",
    )
    cluster.add_argument(
        "--set",
        metavar="KEY=VALUE",
        dest="sets",
        action="append",
        default=[],
        help="one setting of every node; may be given again",
    )


def base_port(text: str) -> int:
    """ArgumentTypeError: it leaves no room for the other ports."""
    if not text.isdecimal() or not 1024 <= int(text) <= BASE_PORT_MAX:
        raise argparse.ArgumentTypeError(f"{text}: allowed: 1024 to {BASE_PORT_MAX}")
    return int(text)
