"""Throughput of one peer link: two processes on this machine, the real sockets and handshake.

    python -m bench.micro.peer_link [--seconds 5] [--rounds 3]

Prints a line of JSON for each row and round, then a table of medians: MB/s, messages/s, and the CPU
time of sender and receiver per message in microseconds. Rows: messages of 1 MiB and of 1 KiB, each
one a batch of its own, and 64 of 1 KiB in one batch, as the groups of a node send them in a turn.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Final

import uvloop

from node.cluster.peering.link_settings import LinkSettings
from node.cluster.peering.link_socket import LinkSocket
from node.cluster.peering.peer_links import PeerLinks
from warren.wire.peer import connection
from warren.wire.peer.handshake import Identity, link_key

LOOPBACK: Final = "127.0.0.1"
SECRET: Final = b"of this measurement alone"
SENDER: Final = 1
RECEIVER: Final = 2
BULK: Final = 1
REPORT: Final = 128  # kind of the frame that asks for the counts, and of the answer
SLICE_S: Final = 0.002  # sending in one callback; then the loop has its turn


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    message_bytes: int
    batch: int


ROWS: Final = (Row("1MiB", 1 << 20, 1), Row("1KiB", 1 << 10, 1), Row("1KiB x 64", 1 << 10, 64))


class End:
    """Keeps the `PeerUser` Protocol for either end."""

    def __init__(self, node_id: int) -> None:
        identity = Identity(node_id, node_id, node_id, bytes(16), link_key(SECRET))
        self.links = PeerLinks(identity, self, LinkSettings())
        self.up = asyncio.Event()
        self.room = asyncio.Event()
        self.reports: asyncio.Queue[dict[str, float]] = asyncio.Queue()
        self.batches = 0
        self.bytes = 0
        self.cpu_s = time.process_time()

    def connected(self, member: int, incarnation: int) -> None:
        self.up.set()

    def lost(self, member: int, reason: str) -> None:
        self.up.clear()

    def unreachable(self, member: int, reason: str) -> None:
        print(f"peer_link: {reason}", file=sys.stderr)

    def answered(self, member: int) -> None:
        return

    def ends_turn(self, socket: LinkSocket) -> bool:
        return False

    def conflict(self, member: int, text: str) -> None:
        raise RuntimeError(text)

    def drained(self, member: int) -> None:
        self.room.set()

    def received(self, member: int, lane: int, kind: int, payload: memoryview) -> None:
        if kind != REPORT:
            self.batches += 1
            self.bytes += len(payload)
        elif len(payload) > 0:
            self.reports.put_nowait(json.loads(bytes(payload)))
        else:
            self._report(member)

    def _report(self, member: int) -> None:
        cpu_s = time.process_time()
        counts = {"batches": self.batches, "bytes": self.bytes, "cpu_s": cpu_s - self.cpu_s}
        self.links.send(member, BULK, [json.dumps(counts).encode()], REPORT)
        self.batches = 0
        self.bytes = 0
        self.cpu_s = cpu_s


async def receive() -> None:
    """The other process: tells its port, counts until its input ends."""
    end = End(RECEIVER)
    end.links.add_peer(SENDER, LOOPBACK, 1)
    print(await end.links.listen(LOOPBACK, 0), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await end.links.close()


async def send(port: int, rounds: int, seconds: float) -> list[dict[str, object]]:
    """Run all rows; a result of each row and round."""
    end = End(SENDER)
    end.links.add_peer(RECEIVER, LOOPBACK, port)
    async with asyncio.timeout(10):
        await end.up.wait()
    results: list[dict[str, object]] = []
    for round_number in range(rounds):
        for row in ROWS:
            result = await measure(end, row, seconds)
            results.append({"row": row.name, "round": round_number, **result})
            print(json.dumps(results[-1]), flush=True)
    await end.links.close()
    return results


async def measure(end: End, row: Row, seconds: float) -> dict[str, float]:
    """Send for that long, wait until all of it has arrived."""
    await ask(end)
    parts = [bytes(row.message_bytes)] * row.batch
    began_s = time.perf_counter()
    began_cpu_s = time.process_time()
    while time.perf_counter() - began_s < seconds:
        until_s = time.perf_counter() + SLICE_S
        while not end.links.is_full(RECEIVER) and time.perf_counter() < until_s:
            end.links.send(RECEIVER, BULK, parts)
        if end.links.is_full(RECEIVER):
            end.room.clear()
            await end.room.wait()
        else:
            await asyncio.sleep(0)
    counts = await ask(end)
    took_s = time.perf_counter() - began_s
    messages = counts["batches"] * row.batch
    return {
        "mb_per_s": round(counts["bytes"] / took_s / 1e6, 1),
        "messages_per_s": round(messages / took_s),
        "sender_us": round((time.process_time() - began_cpu_s) / messages * 1e6, 3),
        "receiver_us": round(counts["cpu_s"] / messages * 1e6, 3),
    }


async def ask(end: End) -> dict[str, float]:
    """What has arrived since the last time; the lane keeps its order, so all of it has."""
    while end.links.is_full(RECEIVER):
        end.room.clear()
        await end.room.wait()
    end.links.send(RECEIVER, BULK, [], REPORT)
    async with asyncio.timeout(60):
        return await end.reports.get()


def table(results: list[dict[str, object]]) -> None:
    """Medians of all rounds."""
    keys = ("mb_per_s", "messages_per_s", "sender_us", "receiver_us")
    print("| row | " + " | ".join(keys) + " |\n|---|" + "---|" * len(keys))
    for row in ROWS:
        of_row = [each for each in results if each["row"] == row.name]
        medians = [statistics.median(float(str(each[key])) for each in of_row) for key in keys]
        print(f"| {row.name} | " + " | ".join(f"{median:g}" for median in medians) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--receive", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.receive:
        uvloop.run(receive())
        return
    build = "pure" if (connection.__file__ or "").endswith(".py") else "compiled"
    print(
        json.dumps({"build": build, "seconds": options.seconds, "python": sys.version.split()[0]})
    )
    command = [sys.executable, "-m", "bench.micro.peer_link", "--receive"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdin is not None
        port = int(other.stdout.readline())
        table(uvloop.run(send(port, options.rounds, options.seconds)))
        other.stdin.close()


if __name__ == "__main__":
    main()
