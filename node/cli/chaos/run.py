"""`warren chaos run SCENARIO`: a local cluster under load, broken again and again, and judged.

Writes to a folder: `history.jsonl`, `timeline.svg`, `verdict.json`, `table.md` (by kind of fault),
and the logs of the nodes; a folder with a history of another run is left as it is. Exit codes: 0
nothing is wrong, 1 something is, 64 there is no time for a single fault, 69 there is no Toxiproxy
for a scenario that needs it, 70 a node did not start or did not come back (what was seen before is
judged all the same), or nothing was confirmed, 73 the folder cannot be had, 130 after Ctrl-C.
"""

import argparse
import asyncio
import json
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Protocol, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from node.cli.chaos.arguments import MIRRORED
from node.cli.chaos.chaos import EXIT_WRONG, as_json
from warren.testing import ClusterOfNodes, NodeFailed
from warren.testing.chaos.campaign import WARM_S, Campaign, OnProgress
from warren.testing.chaos.clients import Habits
from warren.testing.chaos.faults import Target
from warren.testing.chaos.local import LocalTarget
from warren.testing.chaos.picture import draw
from warren.testing.chaos.scenarios import Scenario, scenario
from warren.testing.chaos.table import markdown, rows
from warren.testing.chaos.timeline import Timeline, timeline
from warren.testing.chaos.workload import CLASSIC, NotDeclared, Plan, QueuePlan, Workload
from warren.testing.history import Recorder, Verdict, judge, read
from warren.testing.toxiproxy import MISSING, ToxiproxyFailed, find_server

EXIT_USAGE: Final = 64  # sysexits, as those that follow
EXIT_UNREACHABLE: Final = 69
EXIT_FAILED: Final = 70
EXIT_CANNOT_CREATE: Final = 73
EXIT_INTERRUPTED: Final = 130
HISTORY: Final = "history.jsonl"
TABLE: Final = "table.md"
SLOTS: Final = 300  # in a picture
# Mirrors on all nodes, of which none may lose what was confirmed.
MIRRORS: Final = {
    "pattern": "^chaos-",
    "apply-to": "queues",
    "definition": {
        "ha-mode": "all",
        "ha-sync-mode": "automatic",
        "ha-promote-on-failure": "when-synced",
    },
}
READY_SECONDS: Final = 120.0  # a machine that is busy is no fault of the cluster


class CannotBegin(Exception):
    """The text says why, `code` is the exit code."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class Broken(Target, Protocol):
    """A cluster that is broken, and says how many messages a queue holds; None: unknown."""

    async def depth(self, queue: str) -> int | None: ...


def main(options: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Run the scenario, judge it and report; the exit code is returned."""
    chosen = chosen_scenario(options)
    try:
        if chosen.needs_links and shutil.which(find_server() or "") is None:
            raise CannotBegin(EXIT_UNREACHABLE, f"{chosen.name} breaks links: {MISSING}")
        folder = prepare(options, chosen, f"chaos-{chosen.name}")
    except CannotBegin as error:
        print(f"warren: {error}", file=err)
        return error.code
    try:
        _break(options, chosen, folder, err)
    except (NodeFailed, NotDeclared, ToxiproxyFailed) as error:
        return give_up(error, folder, options, out, err)
    except KeyboardInterrupt:
        return interrupted(folder, err)
    return conclude(folder, options, out)


def chosen_scenario(options: argparse.Namespace) -> Scenario:
    """The scenario that the options name, at their pace."""
    chosen = scenario(options.scenario)
    return chosen if options.each is None else chosen.at_pace(options.each)


def prepare(options: argparse.Namespace, chosen: Scenario, name: str) -> Path:
    """The folder where the run is kept, made for it; CannotBegin: there is none, or no time."""
    least_s = WARM_S + chosen.lasts_s[1]
    if options.each is None and 60 * options.minutes < least_s:
        short = f"--minutes {options.minutes:g}: no fault of {chosen.name} ends in that time, "
        raise CannotBegin(EXIT_USAGE, f"{short}which takes {least_s / 60:.2f}; or say --each")
    folder: Path = options.out or Path(time.strftime(f"{name}-%Y%m%d-%H%M%S"))
    history = folder / HISTORY
    if history.exists() and history.stat().st_size:
        raise CannotBegin(EXIT_CANNOT_CREATE, f"{folder}: has the history of another run")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        history.touch()
    except OSError as error:
        raise CannotBegin(EXIT_CANNOT_CREATE, f"{folder}: {error.strerror}") from error
    return folder


def carry_out(
    target: Broken,
    urls: Sequence[str],
    chosen: Scenario,
    folder: Path,
    options: argparse.Namespace,
    err: TextIO,
) -> None:
    """Clients and faults, for as long as the options say, or each fault once; the history is in
    the folder then.

    NotDeclared: the clients' queues cannot be had.
    """
    seconds = chosen.each_s() if options.each is not None else 60 * options.minutes
    with Recorder(folder / HISTORY) as recorder, progress(seconds, err) as told:
        plan = plan_of(options)
        campaign = Campaign(target, urls, chosen, plan, recorder, target.depth, options.seed, told)
        asyncio.run(campaign.run_each() if options.each is not None else campaign.run(seconds))


def conclude(folder: Path, options: argparse.Namespace, out: TextIO) -> int:
    """Judge the history in the folder, keep what it looks like, report; the exit code."""
    history = folder / HISTORY
    verdict = judge(read(history))
    minutes = 0.0 if options.each is not None else options.minutes
    made = timeline(read(history), max(0.2, 60 * minutes / SLOTS))
    _write(folder, options, verdict, made)
    _report(folder, verdict, out)
    if verdict.is_clean and not verdict.confirmed:
        out.write("nothing was confirmed: this run shows nothing\n")
        return EXIT_FAILED
    return 0 if verdict.is_clean else EXIT_WRONG


def interrupted(folder: Path, err: TextIO) -> int:
    """The run was interrupted: say what there is of it; the exit code."""
    print(f"warren: interrupted; judge what there is: chaos check {folder / HISTORY}", file=err)
    return EXIT_INTERRUPTED


def give_up(
    error: Exception, folder: Path, options: argparse.Namespace, out: TextIO, err: TextIO
) -> int:
    """The cluster has failed: say so, and judge what there is; the exit code."""
    print(f"warren: {error}", file=err)
    if (folder / HISTORY).stat().st_size:
        conclude(folder, options, out)
    return EXIT_FAILED


def plan_of(options: argparse.Namespace) -> Plan:
    """The clients that the options ask for: each queue has one of each kind for every node."""
    type_ = CLASSIC if options.queue_type == MIRRORED else options.queue_type
    queues = tuple(
        QueuePlan(f"chaos-{number}", type_, options.nodes, options.nodes)
        for number in range(1, options.queues + 1)
    )
    clients = options.nodes * options.queues
    habits = Habits(rate=options.rate / clients, size=options.size)
    protocols = ("amqp091", "amqp10") if options.protocol == "both" else (options.protocol,)
    return Plan(queues=queues, protocols=protocols, habits=habits)


def _break(options: argparse.Namespace, chosen: Scenario, folder: Path, err: TextIO) -> None:
    """The run itself; its history and the logs are in the folder afterwards."""
    cluster = ClusterOfNodes(options.nodes, proxied=chosen.needs_links, ready_seconds=READY_SECONDS)
    try:
        cluster.start()
        if options.queue_type == MIRRORED:
            cluster.node(1).api("PUT", "/api/policies/%2F/chaos", MIRRORS)
        urls = cluster.client_urls if chosen.breaks_clients else cluster.urls
        carry_out(LocalTarget(cluster), urls, chosen, folder, options, err)
    finally:
        shutil.copytree(cluster.keep_logs(), folder / "logs", dirs_exist_ok=True)
        cluster.close()


def _write(folder: Path, options: argparse.Namespace, verdict: Verdict, made: Timeline) -> None:
    """The picture, the verdict and the table."""
    title = (
        f"{options.scenario}, {options.nodes} nodes, {options.queue_type} queues, "
        f"seed {options.seed}"
    )
    table = rows(made, verdict)
    length = f"{made.seconds / 60:.1f} min, {len(made.leaders)} leaders seen"
    (folder / TABLE).write_text(f"{title}, {length}\n\n{markdown(table)}", "utf-8")
    (folder / "timeline.svg").write_text(draw(made, title), "utf-8")
    kept: dict[str, Any] = as_json(verdict)
    kept["longest_silence_s"] = made.longest_silences()
    kept["leaders"] = len(made.leaders)
    kept["by_fault"] = [asdict(row) for row in table]
    (folder / "verdict.json").write_text(json.dumps(kept, indent=2) + "\n", "utf-8")


def _report(folder: Path, verdict: Verdict, out: TextIO) -> None:
    out.write(f"{verdict.format()}\n\n{(folder / TABLE).read_text('utf-8')}\n")
    kept = ", ".join(sorted(path.name for path in folder.iterdir()))
    out.write(f"kept in {folder}: {kept}\n")


@contextmanager
def progress(seconds: float, err: TextIO) -> Iterator[OnProgress | None]:
    """A bar of so many seconds where `err` is a terminal; else a line for what begins."""
    if not err.isatty():
        yield _lines(err)
        return
    columns = (BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(file=err), transient=True) as progress:
        task = progress.add_task("starting", total=seconds)

        def told(doing: str, passed: float, workload: Workload) -> None:
            counts = workload.counts
            words = f"{doing}: confirmed {counts.confirmed:,}, taken {counts.taken:,}"
            progress.update(task, completed=passed, description=words)

        yield told


def _lines(err: TextIO) -> OnProgress:
    last = ""

    def told(doing: str, seconds: float, workload: Workload) -> None:
        nonlocal last
        if doing != last:
            last = doing
            counts = workload.counts
            print(
                f"{seconds:7.1f} s  {doing}; confirmed {counts.confirmed}, taken {counts.taken}",
                file=err,
                flush=True,
            )

    return told
