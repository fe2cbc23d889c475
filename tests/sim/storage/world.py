"""A node's log under random load, crashed at random steps and checked after each recovery.

The checker knows every message ever published and when the log reported it, and its settling,
durable. After a crash:

- reported durable and not settled: there, exactly once, with its bytes;
- settled, reported durable: gone for good;
- anything else that is there was once published, with these bytes, and its owner exists;
- members of log groups are found as they were at some moment since (`members`).
"""

from copy import copy
from random import Random

from tests.sim.storage.block_disk import past_cache
from tests.sim.storage.members import Members
from tests.sim.storage.queues_model import Queues
from tests.sim.storage.sim_disk import Crashed, SimDisk
from tests.sim.storage.sim_keyed import SimKeyed
from tests.sim.storage.steps import StepRunner
from warren.storage.log_proof import LogProof
from warren.storage.record import padded
from warren.storage.snapshot import SnapshotStore
from warren.storage.wal import Wal

DIRECTORY = "/data"
PROOF_DIRECTORY = "/"
GROUP = 1
LIVE_MAX = 120  # above that nothing is published, so that files die


class World:
    """One seed's run."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.disk = SimDisk()
        self.bodies: dict[tuple[int, int], bytes] = {}  # by owner, message_seq: ever published
        self.settled: dict[tuple[int, int], int] = {}  # lsn of the settle; 0: durable
        self.deleted: dict[int, int] = {}  # lsn of DELETED
        self.entries: dict[int, bytes] = {}  # ever proposed
        self.released = 0  # index
        self.durable_marks: dict[int, int] = {}
        self.durable_lsn = 0  # as far as was known at the crash
        self.noted_marks: list[tuple[int, int, int]] = []  # lsn, owner, mark
        self.number = 0
        self.next_owner = 10
        self.crashes = 0
        self.recovered = 0
        self.failed: list[BaseException] = []
        self.queues = Queues({10, 11, 12})
        self.members = Members([1000, 1001])
        self.next_owner = 13
        self.file_bytes = self.random.choice((16_384, 32_768, 65_536))
        self.orderly = self.random.choice((0.1, 0.7))  # how often the oldest are settled first
        self.boot()

    def boot(self) -> None:
        self.runner = StepRunner()
        disk = self.random.choice((self.disk, past_cache(self.disk, self.runner, self.random)))
        self.wal = Wal(
            disk,
            DIRECTORY,
            post=self.runner.post,
            on_failure=self.failed.append,
            file_bytes=self.file_bytes,
            group_bytes=self.random.choice((512, 4096, 1 << 20)),
            reserve_files=self.random.choice((2, 6)),  # 6: dead files are used again
            slack_bytes=self.random.choice((0, 0, self.file_bytes)),
            runner=self.runner,
            proof=LogProof(self.disk, PROOF_DIRECTORY),
            draw_epoch=lambda: self.random.getrandbits(32),
        )
        self.store = SnapshotStore(SimKeyed(self.disk, self.runner))
        report = self.wal.open(self.queues)
        assert not report.corrupt, f"corrupt: {report.corrupt}"
        self.queues.wal = self.wal
        self.wal.on_durable.append(self.on_durable)
        self.wal.attach(self.queues)
        self.wal.release_log(GROUP, self.released)
        self.members.boot(disk, self.wal, self.store, self.random)

    def on_durable(self, lsn: int) -> None:
        while self.noted_marks and self.noted_marks[0][0] <= lsn:
            _, owner, mark = self.noted_marks.pop(0)
            self.durable_marks[owner] = mark

    # One step of load.

    def act(self) -> None:
        if self.random.random() < 0.1:
            self.members.act()
        choice = self.random.random()
        if choice < 0.30 and self.live_count() < LIVE_MAX:
            self.publish()
        elif choice < 0.55:
            self.settle()
        elif choice < 0.60:
            self.wal.flush()
        elif choice < 0.64:
            self.propose()
        elif choice < 0.66:
            self.mark()
        elif choice < 0.67:
            self.wal.roll()
        elif choice < 0.675:
            self.delete()
        elif choice < 0.68:
            self.wal.prove()
        elif choice < 0.70:
            self.read()
        else:
            for _ in range(self.random.choice((1, 1, 6))):
                self.runner.step(self.random)

    def live_count(self) -> int:
        return sum(len(held) for held in self.queues.live.values())

    def publish(self) -> None:
        known = sorted(self.queues.known)
        owners = self.random.sample(known, min(len(known), self.random.choice((1, 1, 1, 2, 3))))
        count = self.random.choice((1, 1, 2, 10))
        bodies = [self.body() for _ in range(count)]
        firsts = self.queues.publish_bodies(owners, bodies, self.random.choice((0, 100)))
        for owner, first in zip(owners, firsts, strict=True):
            for place, body in enumerate(bodies):
                assert (owner, first + place) not in self.bodies, "a message_seq was used twice"
                self.bodies[owner, first + place] = body

    def body(self) -> bytes:
        self.number += 1
        length = self.random.choice((8, 20, 300, 300, 3000))
        return (b"%08d" % self.number).ljust(length, b"%d" % (self.number % 10))

    def settle(self) -> None:
        owner = self.random.choice(sorted(self.queues.known))
        live = list(self.queues.live[owner])
        if not live:
            return
        choice = self.random.random()
        if choice < 0.05:
            seqs = live
        elif choice < self.orderly:
            seqs = live[: self.random.randint(1, 20)]
        else:
            seqs = self.random.sample(live, min(len(live), self.random.randint(1, 12)))
        self.queues.settle(owner, seqs)
        for seq in seqs:
            self.settled[owner, seq] = self.wal.appended_lsn

    def propose(self) -> None:
        index = max([self.released, *self.queues.entries]) + 1
        body = self.body()
        self.wal.append_entry(GROUP, index, [body[:4], body[4:]])
        self.entries[index] = self.queues.entries[index] = body
        self.queues.entry_lsns[index] = self.wal.appended_lsn
        durable = [
            index
            for index, lsn in self.queues.entry_lsns.items()
            if lsn <= self.wal.durable_lsn and index > self.released
        ]
        if durable and self.random.random() < 0.3:
            self.released = self.random.choice(durable)
            self.wal.release_log(GROUP, self.released)

    def mark(self) -> None:
        owner = self.random.choice(sorted(self.queues.known))
        mark = self.queues.last_seqs[owner]
        if mark > self.queues.marks[owner]:
            self.queues.marks[owner] = mark
            self.wal.append_mark(owner, mark)
            self.noted_marks.append((self.wal.appended_lsn, owner, mark))

    def delete(self) -> None:
        owner = self.random.choice(sorted(self.queues.known))
        self.queues.delete(owner)
        self.deleted[owner] = self.wal.appended_lsn
        fresh = self.next_owner
        self.next_owner += 1
        self.queues.known.add(fresh)
        self.queues.live[fresh] = {}
        self.queues.last_seqs[fresh] = 0
        self.queues.marks[fresh] = -1

    def read(self) -> None:
        owner = self.random.choice(sorted(self.queues.known))
        durable = [
            (seq, held)
            for seq, held in self.queues.live[owner].items()
            if held.lsn <= self.wal.durable_lsn
        ]
        if not durable:
            return
        seq, held = self.random.choice(durable)
        body = self.bodies[owner, seq]

        def check(found: bytes | Exception) -> None:
            assert found == body

        self.wal.read(held.file_id, held.offset, held.length, check)

    # The crash.

    def run(self, steps: int, crash_in: int) -> None:
        """Load, then a crash in the midst of it, recovery and check."""
        self.disk.crash_in = crash_in
        try:
            for _ in range(steps):
                self.act()
            self.disk.crash_in = -1
        except Crashed:
            # The loop may have gone on for a moment: what it had received by then counts.
            for work in list(self.runner.posted):
                work()
        assert not self.failed
        self.crash()

    def load(self, steps: int) -> None:
        """Load without a crash."""
        for _ in range(steps):
            self.act()

    def rest(self) -> None:
        """Let everything come to an end; then the books must be exact."""
        self.wal.flush()
        self.runner.settle()
        live = sum(
            held.length for queue in self.queues.live.values() for held in queue.values()
        ) + sum(
            padded(len(body))
            for index, body in self.queues.entries.items()
            if index > self.released
        )
        live += self.members.live_bytes()
        assert self.wal.ledger.live_bytes() == live, "the books are wrong"
        assert self.wal.pending_bytes == 0

    def crash(self) -> None:
        self.durable_lsn = self.wal.durable_lsn
        image = self.disk.crash(self.random)
        image.crash_in = self.random.randint(0, 60) if self.random.random() < 0.3 else -1
        before = self.copy()
        try:
            self.recover(image)
        except Crashed:
            image = image.crash(self.random)
            vars(self).update(vars(before.copy()))
            self.recover(image)
        self.disk.crash_in = -1

    def recover(self, image: SimDisk) -> None:
        """Go on with this disk after a crash."""
        self.crashes += 1
        before = self.queues
        members = self.members
        self.disk = image
        self.noted_marks = []
        self.queues = Queues(set(before.known))
        self.members = Members([])
        self.boot()
        self.members.recover(members, self.queues, self.durable_lsn)
        self.check(before, self.durable_lsn)

    def known(self) -> "World":
        """A world that can `recover` from a crash that happens now."""
        self.durable_lsn = self.wal.durable_lsn
        return self.copy()

    def copy(self) -> "World":
        """This one once more, but for its disk and its log."""
        twin = copy(self)
        twin.bodies = dict(self.bodies)
        twin.settled = dict(self.settled)
        twin.deleted = dict(self.deleted)
        twin.entries = dict(self.entries)
        twin.durable_marks = dict(self.durable_marks)
        twin.noted_marks = []
        twin.failed = []
        twin.queues = self.queues.copy()
        twin.members = self.members.copy()
        return twin

    def check(self, before: Queues, durable_lsn: int) -> None:
        for owner in sorted(self.queues.known):
            found = self.queues.live[owner]
            for seq, held in before.live[owner].items():
                assert held.lsn > durable_lsn or seq in found, f"lost {owner}/{seq}"
            for seq, held in found.items():
                body = self.bodies[owner, seq]
                settled_lsn = self.settled.get((owner, seq))
                assert settled_lsn is None or settled_lsn > durable_lsn, f"back: {owner}/{seq}"
                assert self.content(held.file_id, held.offset, held.length) == body
                assert held.body in (body[:4].ljust(4, b"-"), b"")
                self.recovered += 1
            mark = self.durable_marks.get(owner, -1)
            assert self.queues.marks[owner] >= mark, f"the mark of {owner} is lost"
        self.check_entries(before, durable_lsn)
        self.take_as_truth()

    def content(self, file_id: int, offset: int, length: int) -> bytes:
        """What is on disk, read past the log."""
        return self.disk.pread(self.wal.files[file_id].handle, length, offset)

    def check_entries(self, before: Queues, durable_lsn: int) -> None:
        for index, payload in self.queues.entries.items():
            assert payload == self.entries[index]
        for index, lsn in before.entry_lsns.items():
            if lsn <= durable_lsn and index > self.released:
                assert index in self.queues.entries, f"lost entry {index}"

    def take_as_truth(self) -> None:
        """What was recovered is durable now; what was not is gone and its numbers are free."""
        for key in list(self.settled):
            if key[1] in self.queues.live.get(key[0], {}):
                del self.settled[key]
            else:
                self.settled[key] = 0
        for owner in self.queues.known:
            last_seq = self.queues.last_seqs[owner]
            for key in [key for key in self.bodies if key[0] == owner and key[1] > last_seq]:
                del self.bodies[key]
                self.settled.pop(key, None)
        self.durable_marks = {owner: self.queues.marks[owner] for owner in self.queues.known}
