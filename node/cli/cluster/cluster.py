"""`warren cluster N`: a cluster of local nodes in the foreground, for developers.

Prints the ready line of each node when it comes, and on `err` what goes on meanwhile and which node
has ended. Ctrl-C or SIGTERM stops all nodes. Exit codes: 0 stopped by its user, 64 a wrong setting,
70 a node did not become ready, 1 all nodes ended by themselves.
"""

import argparse
import signal
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from types import FrameType
from typing import Final, TextIO

from warren.testing import ClusterOfNodes, Node, NodeFailed

EXIT_ENDED: Final = 1
EXIT_USAGE: Final = 64
EXIT_FAILED: Final = 70
READY_SECONDS: Final = 60.0
WATCH_S: Final = 0.5


def main(options: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Run the cluster until it is interrupted; the exit code is returned."""
    try:
        settings = dict(_setting(text) for text in options.sets)
    except ValueError as error:
        print(f"warren: {error}", file=err)
        return EXIT_USAGE
    stopping = threading.Event()
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}

    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        stopping.set()

    for each in before:
        signal.signal(each, stop)
    cluster = ClusterOfNodes(
        options.count,
        data_dir=None if options.data is None else options.data.absolute(),
        settings=settings,
        base_port=options.base_port,
        ready_seconds=READY_SECONDS,
    )
    try:
        return _run(cluster, stopping, out, err)
    finally:
        cluster.close()
        for each, handler in before.items():
            signal.signal(each, handler)


def _run(cluster: ClusterOfNodes, stopping: threading.Event, out: TextIO, err: TextIO) -> int:
    nodes = cluster.begin()
    failure = _await_ready(nodes, stopping, out, err)
    if stopping.is_set():
        return 0
    if failure is not None:
        print(f"warren: {failure}", file=err)
        return EXIT_FAILED
    print(f"{len(nodes)} nodes are ready; Ctrl-C stops them", file=err, flush=True)
    ended: set[str] = set()
    while not stopping.wait(WATCH_S):
        for node in nodes:
            if not node.is_running() and node.name not in ended:
                ended.add(node.name)
                print(f"warren: {node.name} has ended; its log: {node.log_path}", file=err)
        if len(ended) == len(nodes):
            return EXIT_ENDED
    print("stopping all nodes", file=err, flush=True)
    return 0


def _await_ready(
    nodes: list[Node], stopping: threading.Event, out: TextIO, err: TextIO
) -> NodeFailed | None:
    """Print the ready lines as they come; why a node did not become ready, or None."""
    ready = 0
    with ThreadPoolExecutor(len(nodes)) as pool:
        waiting = {pool.submit(node.await_ready): node for node in nodes}
        for future in as_completed(waiting):
            node = waiting[future]
            error = future.exception()
            if isinstance(error, NodeFailed):
                _end(nodes)
                return None if stopping.is_set() else NodeFailed(f"{node.name}: {error}")
            if error is not None:
                raise error
            ready += 1
            print(node.ready_line, file=out, flush=True)
            if ready < len(nodes):
                print(f"forming: {ready} of {len(nodes)} are ready", file=err, flush=True)
    return None


def _end(nodes: list[Node]) -> None:
    """End those that run, so that no task waits for their ready lines."""
    for node in nodes:
        if node.is_running():
            node.stop(wait=False)


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"--set {text}: allowed: KEY=VALUE")
    return key, value
