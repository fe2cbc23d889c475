"""The options of `warren chaos`. Reads arguments alone: nothing else is imported."""

import argparse
from pathlib import Path
from typing import Final

MIRRORED: Final = "mirrored"
QUEUE_TYPES: Final = ("quorum", "classic", MIRRORED)
# Names of warren.testing.chaos.scenarios, which is not imported for the parser.
SCENARIOS: Final = (
    "processes",
    "partitions",
    "network",
    "clients",
    "all",
    "kill",
    "kill-all",
    "restart",
    "restart-all",
    "pause",
    "pause-all",
    "wipe",
    "isolate",
    "halves",
    "swallow",
    "one-way",
    "deaf",
    "down",
    "latency",
    "jitter",
    "bandwidth",
    "slow-close",
    "timeout",
    "reset-peer",
    "slicer",
    "limit-data",
    "client-down",
    "client-latency",
    "client-jitter",
    "client-bandwidth",
    "client-slow-close",
    "client-timeout",
    "client-reset-peer",
    "client-slicer",
    "client-limit-data",
)


def add_arguments(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """`chaos` and its commands, for the parser of `warren`."""
    chaos = commands.add_parser(
        "chaos", help="break a cluster under load; judge such a history", allow_abbrev=False
    )
    kinds = chaos.add_subparsers(dest="chaos", metavar="COMMAND", required=True)
    check = kinds.add_parser("check", help="judge a history", allow_abbrev=False)
    check.add_argument("history", metavar="HISTORY", help="JSON lines, as a Recorder writes them")
    check.add_argument(
        "--unordered", action="store_true", help="the order of messages is not promised"
    )
    check.add_argument("--formatter", choices=("table", "json", "markdown"), default="table")
    _add_run(kinds)


def _add_run(kinds: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    run = kinds.add_parser(
        "run",
        help="run a scenario on a local cluster",
        description="Clients on all nodes, one fault after the other, then the verdict. "
        "Scenarios: " + ", ".join(SCENARIOS),
        allow_abbrev=False,
    )
    run.add_argument("scenario", metavar="SCENARIO", choices=SCENARIOS)
    run.add_argument("--nodes", metavar="N", type=int, choices=(3, 5, 7), default=3)
    run.add_argument("--minutes", metavar="M", type=_positive, default=5.0)
    run.add_argument(
        "--each",
        metavar="SECONDS",
        type=_positive,
        help="each fault once, for about so long, in place of --minutes",
    )
    run.add_argument("--queue-type", choices=QUEUE_TYPES, default="quorum")
    run.add_argument("--queues", metavar="N", type=int, choices=range(1, 33), default=1)
    run.add_argument("--protocol", choices=("both", "amqp091", "amqp10"), default="both")
    run.add_argument(
        "--rate", metavar="R", type=_positive, default=1000.0, help="messages per second, in all"
    )
    run.add_argument("--size", metavar="BYTES", type=_size, default=256)
    run.add_argument("--seed", metavar="N", type=int, default=0, help="which faults, and where")
    run.add_argument("--out", metavar="DIR", type=Path, help="default: chaos-SCENARIO-TIME")


def _size(text: str) -> int:
    """ArgumentTypeError: it is no size of a body that begins with the id of a message."""
    if not text.isdecimal() or not 64 <= int(text) <= 1 << 20:
        raise argparse.ArgumentTypeError(f"{text}: allowed: 64 to {1 << 20}")
    return int(text)


def _positive(text: str) -> float:
    """ArgumentTypeError: it is no number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text}: allowed: a number above 0")
    return value
