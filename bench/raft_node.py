"""One node of the measurement of log groups (bench/raft.py): groups, log, links, and load on them.

    python -m bench.raft_node MEMBER DIRECTORY PORT,PORT,... --groups N

All on the real thing: `warren.storage.wal` with its syncs, `node.cluster.peering.peer_links`,
`raft.host`. The owner of
a group counts what is committed and keeps nothing; every SNAPSHOT_ENTRIES entries it says that it
has a snapshot, so that the log may go. Commands come as lines of JSON on stdin, answers go to
stdout. A failure of the log or of a group ends the process.
"""

import argparse
import asyncio
import gc
import json
import logging
import os
import resource
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

import uvloop

from node.cluster.peering.link_socket import LinkSocket
from node.cluster.peering.peer_links import PeerLinks
from node.resources.memory import bound_allocator
from raft import core
from raft.codec import BadMessage
from raft.entries import Config, Entry, SnapshotPoint
from raft.group import Group
from raft.host import TICK_MS, RaftHost, host_settings
from raft.links import BadEnvelope
from raft.log_group import COMMITTED
from raft.messages import SnapshotSlice
from raft.ready import Lead
from raft.recovery import founded
from warren.storage.direct import DirectDisk
from warren.storage.disk import OsDisk
from warren.storage.recovery.recovery import RecoveredPublish
from warren.storage.recovery.stretches import Stretch
from warren.storage.wal import Wal
from warren.wire.peer.handshake import Identity

SWITCH_INTERVAL_S: Final = 0.0005
FIRST_UID: Final = 10
SNAPSHOT_ENTRIES: Final = 4096
CLUSTER_ID: Final = b"bench-of-groups!"
KEY: Final = bytes(32)


def tell(**values: Any) -> None:
    print(json.dumps(values), flush=True)


class Nothing:
    """What the log finds and asks: it begins empty, and there are no messages in it."""

    def entry(self, owner: int, index: int, payload: bytes) -> None:
        raise AssertionError("the directory is not empty")

    def raft_entry(
        self,
        owner: int,
        incarnation: int,
        index: int,
        term: int,
        appended_term: int,
        kind: int,
        content: bytes,
    ) -> None:
        raise AssertionError("the directory is not empty")

    def hard_state(self, owner: int, incarnation: int, term: int, vote: int) -> None:
        raise AssertionError("the directory is not empty")

    def knows(self, owner: int) -> bool:
        return True

    def all_owners(self) -> tuple[list[int], list[int]]:
        return [], []

    def saved_index(self, owner: int) -> int:
        return 0

    def accepted_file_id(self, owner: int) -> int:
        return 0

    def owner(self, owner: int, last_seq: int, mark: int) -> None:
        raise AssertionError("the directory is not empty")

    def publish(self, found: RecoveredPublish) -> None:
        raise AssertionError("the directory is not empty")

    def stretch(self, found: Stretch) -> None:
        raise AssertionError("the directory is not empty")

    def live_ranges(
        self, owner: int, first: int, count: int, file_id: int
    ) -> list[tuple[int, int]]:
        return []

    def places(self, owner: int, file_id: int, after: int) -> tuple[list[int], int]:
        return [], 0

    def relocated(
        self,
        owner: int,
        first: int,
        count: int,
        source: tuple[int, int],
        target: tuple[int, int],
        offsets: bytes,
    ) -> list[tuple[int, int]]:
        raise AssertionError("no messages")

    def alive_from(self, owner: int, first: int) -> tuple[list[tuple[int, int]], int]:
        return [], 0

    def mark(self, owner: int) -> int:
        return 0


class Load:
    """Proposals in a closed loop: `window` entries of each group in flight."""

    def __init__(self, batch: int, window: int, size: int) -> None:
        self.parts = [os.urandom(size)] * batch
        self.window = window
        self.is_on = True
        self.entries = 0
        self.latencies_s: list[float] = []


class Counter:
    """Owner of a group: counts, and keeps the load going where it leads."""

    def __init__(self, node: "Node") -> None:
        self.node = node
        self.group: Group | None = None
        self.applied_index = 0
        self.snapshot_index = 0
        self.began: deque[float] = deque()

    def propose(self, count: int = 1) -> None:
        """So many entries, one by one."""
        load = self.node.load
        group = self.group
        assert group is not None
        assert load is not None
        parts = load.parts
        began_s = time.perf_counter()
        for _ in range(count):
            if group.propose(parts) is not None:
                self.began.append(began_s)

    def store(self, entry: Entry) -> None:
        raise AssertionError("nothing is attached")

    def truncated(self, index: int) -> None:
        self.began.clear()

    def apply(self, entries: Sequence[Entry]) -> None:
        self.applied_index = index = entries[-1].index
        if index - self.snapshot_index >= self.node.snapshot_entries:
            self.take_snapshot()

    def take_snapshot(self) -> None:
        group = self.group
        assert group is not None
        self.snapshot_index = self.applied_index
        group.snapshot_taken(group.snapshot_point(self.applied_index))

    def outcome(self, first: int, last: int, term: int, outcome: int) -> None:
        load = self.node.load
        if outcome == COMMITTED and self.node.is_watching:
            self.node.is_watching = False
            tell(event="commit", at_s=time.monotonic())
        count = min(last - first + 1, len(self.began))
        if load is None or count == 0:
            return
        now_s = time.perf_counter()
        took_s = [now_s - self.began.popleft() for _ in range(count)]
        if outcome == COMMITTED:
            load.entries += count
            load.latencies_s += took_s
        if load.is_on:
            self.propose(count)

    def lead(self, lead: Lead) -> None:
        node = self.node
        if lead.leader != node.member:
            self.began.clear()
        elif lead.is_ready and node.is_watching:
            assert self.group is not None
            self.group.propose([b"first"])

    def configured(self, config: Config) -> None:
        raise AssertionError("no node joins here")

    def reattach(self, entries: Sequence[Entry], done: Callable[[Sequence[Entry]], None]) -> None:
        done(entries)

    def read_slice(
        self, index: int, number: int, done: Callable[[Sequence[bytes] | None, bool], None]
    ) -> None:
        done([b"nothing"], True)

    def stage(
        self, piece: SnapshotSlice, point: SnapshotPoint | None, done: Callable[[], None]
    ) -> None:
        if point is not None:
            self.applied_index = self.snapshot_index = point.index
        done()

    def drop_staged(self) -> None:
        self.began.clear()


class Node:
    """Log, links and host put together; also what the links tell
    (`node.cluster.peering.peer_links.PeerUser`)."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.loop = asyncio.get_running_loop()
        self.member: int = arguments.member
        self.ports = [int(port) for port in arguments.ports.split(",")]
        self.snapshot_entries: int = arguments.snapshot_entries
        self.wal = Wal(
            DirectDisk(OsDisk()),
            str(arguments.directory),
            post=self.loop.call_soon_threadsafe,
            on_failure=stop,
        )
        nothing = Nothing()
        self.wal.open(nothing)
        self.wal.attach(nothing)
        identity = Identity(self.member, self.member, self.member, CLUSTER_ID, KEY)
        self.links = PeerLinks(identity, self)
        self.host = RaftHost(
            self.member,
            self.wal,
            self.links,
            host_settings(),
            Random(),
            self.begin_turn,
        )
        self.wal.on_durable.append(self.host.on_durable)
        self.owners: list[Counter] = []
        self.load: Load | None = None
        self.is_watching = False
        self.peers_up = 0
        self.dials_in_vain = 0
        self.longest_turn_s = 0.0
        self.longest_turn_cpu_s = 0.0
        self.turns = 0
        for number in range(arguments.groups):
            self.add(FIRST_UID + number)

    def add(self, uid: int) -> None:
        owner = Counter(self)
        self.owners.append(owner)
        config = Config(range(1, len(self.ports) + 1))
        owner.group = self.host.add(uid, 1, founded(config), owner)

    async def run(self) -> None:
        await self.links.listen("127.0.0.1", self.ports[self.member - 1])
        for number, port in enumerate(self.ports, 1):
            if number != self.member:
                self.host.add_peer(number)
                self.links.add_peer(number, "127.0.0.1", port)
        self.tick()
        gc.collect()
        gc.freeze()
        gc.set_threshold(5_000, 10, 1000)
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        await self.loop.connect_read_pipe(lambda: protocol, sys.stdin)
        while line := await reader.readline():
            await self.carry_out(json.loads(line))

    def begin_turn(self) -> None:
        self.loop.call_soon(self.turn)

    def turn(self) -> None:
        began = time.perf_counter()
        began_cpu = time.thread_time()
        try:
            self.host.end_turn()
        except Exception as error:
            stop(error)
        self.turns += 1
        self.longest_turn_s = max(self.longest_turn_s, time.perf_counter() - began)
        took_cpu_s = time.thread_time() - began_cpu
        self.longest_turn_cpu_s = max(self.longest_turn_cpu_s, took_cpu_s)

    def tick(self) -> None:
        self.loop.call_later(TICK_MS / 1000, self.tick)
        self.host.tick(int(time.monotonic() * 1000))

    # Commands

    async def carry_out(self, command: dict[str, Any]) -> None:
        name = command["do"]
        if name == "gather":
            self.gather(command["member"])
        elif name == "load":
            await self.run_load(command)
        elif name == "begin_load":
            self.begin_load(command)
        elif name == "watch":
            self.is_watching = True
            tell(event="watching")
        elif name == "snapshot":
            self.snapshot_all()
        elif name == "reset":
            self.reset()
            tell(event="reset")
        elif name == "status":
            self.tell_status()
        else:
            raise ValueError(name)

    def gather(self, member: int) -> None:
        """Have that member lead all groups; asked of all nodes until it does."""
        for owner in self.owners:
            group = owner.group
            assert group is not None
            if member == self.member and group.raft.leader == 0:
                group.campaign()
            elif member != self.member and group.is_leader:
                group.transfer(member)

    def begin_load(self, command: dict[str, Any]) -> Load:
        load = Load(command["batch"], command["window"], command["size"])
        self.load = load
        for owner in self.owners:
            owner.began.clear()
            owner.propose(load.window)
        return load

    async def run_load(self, command: dict[str, Any]) -> None:
        """Until so many seconds have passed or so many entries are committed; tell of it."""
        load = self.begin_load(command)
        await asyncio.sleep(command.get("warmup_s", 0))
        load.entries = 0
        load.latencies_s.clear()
        self.reset()
        turns = self.turns
        began_s = time.perf_counter()
        deadline_s = began_s + command["seconds"]
        entries_max = command.get("entries", 1 << 62)
        while time.perf_counter() < deadline_s and load.entries < entries_max:
            await asyncio.sleep(min(0.05, max(deadline_s - time.perf_counter(), 0)))
        took_s = time.perf_counter() - began_s
        load.is_on = False
        latencies = sorted(load.latencies_s)
        tell(
            event="load",
            entries_per_s=round(load.entries / took_s),
            ops_per_s=round(load.entries * len(load.parts) / took_s),
            entries=load.entries,
            p50_ms=round(1000 * part_of(latencies, 0.5), 3),
            p99_ms=round(1000 * part_of(latencies, 0.99), 3),
            longest_turn_ms=round(1000 * self.longest_turn_s, 1),
            longest_turn_cpu_ms=round(1000 * self.longest_turn_cpu_s, 1),
            turns_per_s=round((self.turns - turns) / took_s),
        )

    def reset(self) -> None:
        """The longest turn from now on."""
        self.longest_turn_s = 0.0
        self.longest_turn_cpu_s = 0.0

    def snapshot_all(self) -> None:
        """What is applied is not needed any more, all at once."""
        self.reset()
        began_s = time.perf_counter()
        for owner in self.owners:
            owner.take_snapshot()
        took_s = time.perf_counter() - began_s
        self.loop.call_later(
            1.0,
            lambda: tell(
                event="snapshot",
                applied=sum(owner.applied_index for owner in self.owners),
                call_ms=round(1000 * took_s, 1),
                longest_turn_ms=round(1000 * self.longest_turn_s, 1),
            ),
        )

    def tell_status(self) -> None:
        host = self.host
        counters = host.counters
        tell(
            event="status",
            member=self.member,
            groups=host.group_count,
            hibernating=host.hibernating_count,
            leading=sum(each.group.is_leader for each in self.owners if each.group is not None),
            applied=sum(owner.applied_index for owner in self.owners),
            proposals=counters.proposals,
            commits=counters.commits,
            elections=counters.elections,
            leader_changes=counters.leader_changes,
            suspicions=counters.suspicions,
            strays=counters.strays,
            held_back=counters.held_back,
            snapshots_sent=counters.snapshots_sent,
            turns=self.turns,
            reserve=self.wal.reserve_count,
            longest_turn_ms=round(1000 * self.longest_turn_s, 1),
            longest_turn_cpu_ms=round(1000 * self.longest_turn_cpu_s, 1),
            rss_mb=round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
            build="compiled" if (core.__file__ or "").endswith(".so") else "pure",
        )

    # What the links tell

    def connected(self, member: int, incarnation: int) -> None:
        self.host.connected(member)
        self.peers_up += 1
        if self.peers_up == len(self.ports) - 1:
            tell(event="ready", member=self.member)

    def lost(self, member: int, reason: str) -> None:
        self.host.lost(member)

    def unreachable(self, member: int, reason: str) -> None:
        self.dials_in_vain += 1

    def answered(self, member: int) -> None:
        self.host.heard(member)

    def received(self, member: int, lane: int, kind: int, payload: memoryview) -> None:
        try:
            self.host.receive(member, payload)
        except (BadEnvelope, BadMessage) as error:
            self.links.drop(member, str(error))

    def drained(self, member: int) -> None:
        self.host.drained(member)

    def ends_turn(self, socket: LinkSocket) -> bool:
        return False

    def conflict(self, member: int, text: str) -> None:
        stop(RuntimeError(text))


def part_of(ascending: list[float], part: float) -> float:
    return ascending[int(len(ascending) * part)] if ascending else 0.0


def stop(error: BaseException) -> None:
    """Nothing goes on after a failure."""
    traceback.print_exception(error, file=sys.stderr)
    os._exit(70)


async def serve(arguments: argparse.Namespace) -> None:
    await Node(arguments).run()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("member", type=int)
    parser.add_argument("directory", type=Path)
    parser.add_argument("ports")
    parser.add_argument("--groups", type=int, default=1)
    parser.add_argument("--snapshot-entries", type=int, default=SNAPSHOT_ENTRIES)
    arguments = parser.parse_args()
    bound_allocator()  # As a node does, and the next as well.
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    logging.getLogger("warren").setLevel(logging.ERROR)  # Nodes start one after the other.
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(arguments))


if __name__ == "__main__":
    main()
