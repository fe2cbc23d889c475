"""`warren chaos run SCENARIO`: a local cluster under load, broken again and again, and judged.

Writes to a folder: `history.jsonl`, `timeline.svg`, `verdict.json`, `table.md` (by kind of fault),
and the logs of the nodes. Exit codes: 0 nothing is wrong, 1 something is, 69 there is no Toxiproxy
for a scenario that needs it, 70 a node did not start or did not come back (what was seen before is
judged all the same), 130 after Ctrl-C.
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

from node.cli.chaos import EXIT_WRONG, as_json
from warren.testing import ClusterOfNodes, NodeFailed
from warren.testing.chaos.campaign import Campaign, OnProgress
from warren.testing.chaos.clients import Habits
from warren.testing.chaos.faults import Target
from warren.testing.chaos.local import LocalTarget
from warren.testing.chaos.picture import draw
from warren.testing.chaos.scenarios import Scenario, scenario
from warren.testing.chaos.table import markdown, rows
from warren.testing.chaos.timeline import Timeline, timeline
from warren.testing.chaos.workload import NotDeclared, Plan, QueuePlan, Workload
from warren.testing.history import Recorder, Verdict, judge, read
from warren.testing.toxiproxy import ToxiproxyFailed, find_server

EXIT_UNREACHABLE: Final = 69
EXIT_FAILED: Final = 70
EXIT_INTERRUPTED: Final = 130
HISTORY: Final = "history.jsonl"
TABLE: Final = "table.md"
SLOTS: Final = 300  # in a picture
READY_SECONDS: Final = 120.0  # a machine that is busy is no fault of the cluster


class Broken(Target, Protocol):
    """A cluster that is broken, and says how many messages a queue holds; None: nobody knows."""

    async def depth(self, queue: str) -> int | None: ...


def main(options: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Run the scenario, judge it and report; the exit code is returned."""
    chosen = chosen_scenario(options)
    if chosen.needs_links and find_server() is None:
        print("warren: this scenario needs toxiproxy-server: make tools, or PATH", file=err)
        return EXIT_UNREACHABLE
    folder = make_folder(options, f"chaos-{chosen.name}")
    try:
        _break(options, chosen, folder, err)
    except (NodeFailed, NotDeclared, ToxiproxyFailed) as error:
        return give_up(error, folder, options, out, err)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return conclude(folder, options, out)


def chosen_scenario(options: argparse.Namespace) -> Scenario:
    """The scenario that the options name, at their pace."""
    chosen = scenario(options.scenario)
    return chosen if options.each is None else chosen.at_pace(options.each)


def make_folder(options: argparse.Namespace, name: str) -> Path:
    """Where the run is kept, without the history of an earlier one."""
    folder: Path = options.out or Path(time.strftime(f"{name}-%Y%m%d-%H%M%S"))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / HISTORY).unlink(missing_ok=True)
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
    return 0 if verdict.is_clean else EXIT_WRONG


def give_up(
    error: Exception, folder: Path, options: argparse.Namespace, out: TextIO, err: TextIO
) -> int:
    """The cluster has failed: say so, and judge what there is; the exit code."""
    print(f"warren: {error}", file=err)
    if (folder / HISTORY).exists():
        conclude(folder, options, out)
    return EXIT_FAILED


def plan_of(options: argparse.Namespace) -> Plan:
    """The clients that the options ask for: each queue has one of each kind for every node."""
    queues = tuple(
        QueuePlan(f"chaos-{number}", options.queue_type, options.nodes, options.nodes)
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
