"""Chaos runs against the compose kit: `python -m deploy.chaos.run SCENARIO --nodes 5 --minutes 5`.

The cluster must be up (`make compose-up N=5`). Scenarios, clients, verdict, table and picture are
those of `warren chaos run`, which needs no containers. COMPOSE in the environment names the
program. Exit codes: as there.
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

from deploy.chaos.target import Compose, ComposeFailed, ComposeTarget
from node.cli.chaos.arguments import MIRRORED, add_arguments
from node.cli.chaos.run import (
    EXIT_UNREACHABLE,
    CannotBegin,
    carry_out,
    chosen_scenario,
    conclude,
    give_up,
    interrupted,
    prepare,
)
from warren.testing.chaos.workload import NotDeclared

PROGRAMS: Final = ("docker compose", "docker-compose")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the scenario and report; the exit code is returned."""
    parser = argparse.ArgumentParser(prog="deploy.chaos.run")
    add_arguments(parser.add_subparsers(dest="command"))
    given = sys.argv[1:] if arguments is None else list(arguments)
    options = parser.parse_args(["chaos", "run", *given])
    if options.queue_type == MIRRORED:
        parser.error("--queue-type mirrored: allowed here: quorum, classic")
    words = os.environ.get("COMPOSE") or next(filter(_answers, PROGRAMS), "")
    if not words:
        print("warren: neither docker compose nor docker-compose is there", file=sys.stderr)
        return EXIT_UNREACHABLE
    chosen = chosen_scenario(options)
    try:
        folder = prepare(options, chosen, f"chaos-compose-{chosen.name}")
    except CannotBegin as error:
        print(f"warren: {error}", file=sys.stderr)
        return error.code
    target = ComposeTarget(Compose(words, options.nodes))
    try:
        target.look()
        carry_out(target, target.urls, chosen, folder, options, sys.stderr)
    except (ComposeFailed, NotDeclared, OSError, subprocess.SubprocessError) as error:
        return give_up(error, folder, options, sys.stdout, sys.stderr)
    except KeyboardInterrupt:
        return interrupted(folder, sys.stderr)
    return conclude(folder, options, sys.stdout)


def _answers(words: str) -> bool:
    """Whether there is such a program; `docker` may be there without its compose."""
    command = [*words.split(), "version"]
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
