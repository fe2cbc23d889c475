"""`warren bench`: how fast a broker is, or what links of one connection do to each other.

Takes the parsed options and names on `err` the broker that it is about to load; gives a table or
JSON on `out`, progress on `err` where that is a terminal, and the exit code: 69 if a broker is not
there, 70 if it refused something on the way, 130 after Ctrl-C.

The client is one process and one loop. `client_cpu` is the share of a core that it took while it
measured: near 1 it was the limit, and not the broker.
"""

import argparse
import asyncio
import os
import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TextIO

import uvloop
from msgspec import Struct
from msgspec.structs import replace

from node.cli.bench import overview as bench_overview
from node.cli.bench.arguments import (
    AMQP_091,
    AMQP_10,
    HOST,
    PORT,
    SECONDS_LOAD,
    SECONDS_OVERVIEW,
)
from node.cli.bench.links import Place, Side, dial
from node.cli.bench.shapes import (
    Link,
    Load,
    Measured,
    OnProgress,
    clean,
    run,
)
from node.cli.tables import write_json, write_table
from warren.client import ClientError
from warren.testing.node import Node, NodeFailed

EXIT_OK: Final = 0
EXIT_USAGE: Final = 64
EXIT_UNREACHABLE: Final = 69
EXIT_FAILED: Final = 70
EXIT_INTERRUPTED: Final = 130

COLUMNS: Final = ("broker", "protocol", "link", "queue", "messages", "per_s", "share_of_alone")


class Result(Struct, frozen=True):
    """One load on one broker over one connection of each protocol."""

    broker: str  # HOST:PORT
    product: str  # what it says that it is
    links: list[Link]
    alone: dict[str, float]  # of the fast link by protocol: messages/s without the slow one
    client_cpu: float


class Unreachable(Exception):
    """A broker does not answer."""


def main(options: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Measure and report; the exit code is returned."""
    try:
        places = _places(options)
    except ValueError as error:
        print(f"warren: {error}", file=err)
        return EXIT_USAGE
    results: list[Result] = []
    figures: list[bench_overview.Figures] = []
    unreachable: list[BaseException] = []
    failed: list[BaseException] = []
    exit_code = EXIT_OK
    try:
        with (
            _broker(options, places[0], err) as own,
            _progress(None if options.json else err) as progress,
            asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        ):
            if options.load is None:
                figures = runner.run(_overview(options, own, progress, err))
            else:
                results = runner.run(_measure_all(options, places, progress, err))
    except* Unreachable as errors:
        unreachable += errors.exceptions
    except* (ClientError, OSError, NodeFailed) as errors:
        failed += errors.exceptions
    except* KeyboardInterrupt:
        exit_code = EXIT_INTERRUPTED
    for each in unreachable + failed:
        print(f"warren: {each or type(each).__name__}", file=err)
    if unreachable or failed:
        exit_code = EXIT_UNREACHABLE if unreachable else EXIT_FAILED
    if exit_code == EXIT_OK and options.load is None:
        _report_overview(options, figures, out)
    elif exit_code == EXIT_OK:
        _report(options, results, out)
    return exit_code


def _places(options: argparse.Namespace) -> list[Place]:
    """The broker, and the one to compare it with."""
    port = options.port or PORT
    own = Place(options.host, port, options.user, options.password, options.vhost)
    if options.load is None or options.compare is None:
        return [own]
    host, _, port = str(options.compare).rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError(f"--compare {options.compare}: allowed: HOST:PORT")
    return [own, replace(own, host=host, port=int(port))]


@contextmanager
def _broker(options: argparse.Namespace, place: Place, err: TextIO) -> Iterator[Place]:
    """The broker to load: that at the address, or a temporary node if no address was given and
    nothing listens at the default one. Its data is in the current folder, for the sake of the disk.
    """
    given = options.load is not None or options.port is not None or options.host != HOST
    if given or _listens(place):
        yield place
        return
    where = f"{place.host}:{place.port}"
    print(f"warren: nothing listens on {where}: starting a temporary node", file=err, flush=True)
    with (
        tempfile.TemporaryDirectory(prefix=".warren-bench-", dir=os.curdir) as folder,
        Node("bench", data_dir=Path(folder).absolute()) as node,
    ):
        print(f"warren: {node.ready_line.strip()}", file=err, flush=True)
        yield Place(node.host, node.port, "guest", "guest", "/")


def _listens(place: Place) -> bool:
    try:
        socket.create_connection((place.host, place.port), timeout=5).close()
    except ConnectionRefusedError:
        return False
    except OSError:
        return True  # The attempt to log in tells what is wrong.
    return True


def _name(place: Place, side: Side, err: TextIO) -> None:
    """Tell the user which broker is about to be loaded."""
    where = f"{place.host}:{place.port}, vhost {place.vhost}"
    print(f"warren: loading {side.description}, at {where}", file=err, flush=True)


async def _overview(
    options: argparse.Namespace, place: Place, progress: OnProgress, err: TextIO
) -> list[bench_overview.Figures]:
    """Run all shapes, each over a connection of its own."""
    figures: list[bench_overview.Figures] = []
    seconds = options.seconds or SECONDS_OVERVIEW
    for shape in bench_overview.SHAPES:
        side = await _dial(place, shape.protocol)
        if not figures:
            _name(place, side, err)
        try:
            run_one = bench_overview.run_shape(side, shape, seconds, options.size, progress)
            figures.append(await run_one)
        finally:
            await side.close()
    return figures


async def _measure_all(
    options: argparse.Namespace, places: Sequence[Place], progress: OnProgress, err: TextIO
) -> list[Result]:
    protocols = [AMQP_091, AMQP_10] if options.protocol == "both" else [options.protocol]
    groups = [protocols] if options.together else [[each] for each in protocols]
    load = Load(
        options.load,
        options.seconds or SECONDS_LOAD,
        options.size,
        options.fast,
        options.slow,
        getattr(options, "messages", 0),
        getattr(options, "credit", 0),
        getattr(options, "batch", 0),
    )
    for place in places:  # All of them must be there before the time is spent on one.
        for protocol in protocols:
            side = await _dial(place, protocol)
            if protocol == protocols[0]:
                _name(place, side, err)
            await side.close()
    results: list[Result] = []
    for place in places:
        for group in groups:
            results.append(await _measure(place, group, load, options, progress))
    return results


async def _measure(
    place: Place,
    protocols: Sequence[str],
    load: Load,
    options: argparse.Namespace,
    progress: OnProgress,
) -> Result:
    """One load on one broker; first without the slow link, if that was asked for."""
    alone: dict[str, float] = {}
    if options.alone:
        fast_only = replace(load, parts=("fast",))
        _, measured = await _once(place, protocols, fast_only, False, progress)
        alone = {link.protocol: link.per_s for link in measured.links}
    product, measured = await _once(place, protocols, load, options.keep, progress)
    return Result(f"{place.host}:{place.port}", product, measured.links, alone, measured.client_cpu)


async def _once(
    place: Place, protocols: Sequence[str], load: Load, keep: bool, progress: OnProgress
) -> tuple[str, Measured]:
    """One load over new connections, one of each protocol; the broker's name and the figures."""
    sides: list[Side] = []
    try:
        for protocol in protocols:
            sides.append(await _dial(place, protocol))
        measured = await run(sides, load, progress)
        if not keep:
            await clean(sides, load)
        return sides[0].product, measured
    finally:
        for side in sides:
            await side.close()


async def _dial(place: Place, protocol: str) -> Side:
    try:
        return await dial(place, protocol)
    except (OSError, ClientError) as error:
        where = f"{place.host}:{place.port}"
        raise Unreachable(f"no AMQP {protocol} at {where}: {error or 'no answer'}") from error


# What is shown


def _report_overview(
    options: argparse.Namespace, figures: Sequence[bench_overview.Figures], out: TextIO
) -> None:
    rows = [each.json() for each in figures]
    if options.json:
        seconds = options.seconds or SECONDS_OVERVIEW
        write_json({"seconds": seconds, "size": options.size, "shapes": rows}, out)
        return
    columns = bench_overview.COLUMNS
    write_table(columns, [[row[column] for column in columns] for row in rows], out)


def _report(options: argparse.Namespace, results: Sequence[Result], out: TextIO) -> None:
    rows = [row for result in results for row in _rows(result)]
    if not options.json:
        write_table(COLUMNS, rows, out)
        return
    answer = {
        "load": options.load,
        "seconds": options.seconds or SECONDS_LOAD,
        "size": options.size,
        "results": [
            {
                "broker": result.broker,
                "product": result.product,
                "client_cpu": result.client_cpu,
                "links": [_link_json(link, result.alone) for link in result.links],
            }
            for result in results
        ],
    }
    write_json(answer, out)


def _rows(result: Result) -> Iterator[list[object]]:
    for link in result.links:
        share = _share(link, result.alone)
        yield [
            result.broker,
            link.protocol,
            link.role,
            link.type,
            link.messages,
            round(link.per_s),
            "" if share is None else f"{share:.0%}",
        ]


def _link_json(link: Link, alone: dict[str, float]) -> dict[str, object]:
    return {
        "protocol": link.protocol,
        "queue": link.queue,
        "type": link.type,
        "role": link.role,
        "messages": link.messages,
        "per_s": round(link.per_s, 1),
        "share_of_alone": _share(link, alone),
        "series": link.series,
    }


def _share(link: Link, alone: dict[str, float]) -> float | None:
    """What the fast link has left of what it reaches alone."""
    per_s = alone.get(link.protocol, 0.0)
    if not per_s or "-fast-" not in link.queue:
        return None
    return round(link.per_s / per_s, 3)


@contextmanager
def _progress(err: TextIO | None) -> Iterator[OnProgress]:
    """A bar on a terminal; nothing else anywhere else."""
    if err is None or not err.isatty():
        yield lambda what, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:.0f} %"))
    with Progress(*columns, console=Console(file=err), transient=True) as bar:
        tasks: dict[str, TaskID] = {}

        def show(what: str, done: float, total: float) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], completed=done, total=total)

        yield show
