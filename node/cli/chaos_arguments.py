"""The options of `warren chaos`. Reads arguments alone: nothing else is imported."""

import argparse


def add_arguments(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """`chaos` and its commands, for the parser of `warren`."""
    chaos = commands.add_parser(
        "chaos", help="judge the history of a run with faults", allow_abbrev=False
    )
    kinds = chaos.add_subparsers(dest="chaos", metavar="COMMAND", required=True)
    check = kinds.add_parser("check", help="judge a history", allow_abbrev=False)
    check.add_argument("history", metavar="HISTORY", help="JSON lines, as a Recorder writes them")
    check.add_argument(
        "--unordered", action="store_true", help="nobody has promised the order of messages"
    )
    check.add_argument("--formatter", choices=("table", "json"), default="table")
