"""`warren check-data DIR`: whether the files of a stopped node are sound, without changing them.

Reads with the code of a start (`warren.storage.recovery.recovery`) on a disk that takes no writes,
and tells what each file holds, every bad place and whom it hits, and what is alive of each queue.
Nothing is sealed, cut, recycled or removed; only the lock of the directory is held meanwhile, so
that a running node is refused. Memory as for a start without the bodies' index.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final, TextIO

import msgspec
from msgspec import Struct, field
from msgspec.structs import asdict

from node.boot import KEYED_DIRECTORY, LOG_DIRECTORY
from node.cli.tables import write_json, write_table
from node.cluster.definitions.definitions_store import BIRTHS_OWNER, read_accepted
from queues.definitions.broker_objects import Queue
from queues.definitions.metadata.machine import Metadata
from queues.definitions.metadata.snapshot import BadSnapshot
from raft.log_group import METADATA_OWNER
from warren.storage.disk import DirectoryInUse, DirectoryLock, OsDisk
from warren.storage.files import FilePool, LogFile
from warren.storage.keyed import METADATA, KeyedDamaged, KeyedReader
from warren.storage.log_proof import NAME as PROOF
from warren.storage.log_proof import LogProof
from warren.storage.record import KIND_NAMES, Buffer, CorruptRecord
from warren.storage.recovery.recovery import RecoveredPublish, Recovery, RecoveryReport
from warren.storage.recovery.stretches import Stretch
from warren.storage.snapshot import SnapshotStore

EXIT_DAMAGED: Final = 1
EXIT_NO_INPUT: Final = 66  # sysexits, as are these:
EXIT_IO_ERROR: Final = 74
EXIT_IN_USE: Final = 75


class ReadOnlyDisk(OsDisk):
    """Files are read; what a recovery would write is left out."""

    def list(self, directory: str) -> list[str]:
        return super().list(directory) if os.path.isdir(directory) else []  # It may be lost.

    def open(self, path: str) -> int:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def create(self, path: str, size: int) -> int:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def pwritev(self, handle: int, parts: Sequence[Buffer], offset: int, dsync: bool) -> None:
        return

    def fsync(self, handle: int) -> None:
        return

    def fsync_directory(self, path: str) -> None:
        return

    def rename(self, old: str, new: str) -> None:
        return

    def unlink(self, path: str) -> None:
        return

    def truncate(self, handle: int, size: int) -> None:
        return


class OwnerTotals(Struct):
    """What is alive of one queue."""

    messages: int = 0
    byte_count: int = 0
    last_seq: int = 0
    mark: int = -1


class MemberTotals(Struct):
    """What is left of one member of a log group."""

    incarnation: int = 0
    term: int = 0
    vote: int = 0
    entries: int = 0
    first_index: int = 0
    last_index: int = 0
    snapshot_index: int = 0


class Findings(Struct):
    """Takes what recovery finds (`RecoverySink`); counts, and keeps the definitions."""

    metadata: Metadata
    snapshots: SnapshotStore | None
    totals: dict[int, OwnerTotals] = field(default_factory=dict)
    definitions: dict[int, int] = field(default_factory=dict)  # appended term by index
    births: dict[int, Queue] = field(default_factory=dict)
    members: dict[int, MemberTotals] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    accepted: int = 0  # the last log file whose lost definitions were accepted

    def entry(self, owner: int, index: int, payload: bytes) -> None:
        """The birth of a queue that the saved definitions may not have yet."""
        if owner != BIRTHS_OWNER:
            return
        try:
            queue = msgspec.msgpack.decode(payload, type=Queue)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self.problems.append(f"entry {index} of the births of queues cannot be read: {error}")
            return
        if queue.uid >= self.metadata.next_uid:
            self.births[int(queue.uid)] = queue

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
        member = self._member(owner)
        member.entries += 1
        member.first_index = min(member.first_index or index, index)
        member.last_index = max(member.last_index, index)
        if owner == METADATA_OWNER and index > self.metadata.applied_index:
            self.definitions[index] = max(appended_term, self.definitions.get(index, 0))

    def check_definitions(self) -> None:
        """Tell of an entry that is neither in the log nor in the saved state."""
        index, appended_term = self.metadata.applied_index, 0
        while index + 1 in self.definitions:
            index += 1
            appended_term = self.definitions[index]
        if any(at > index and term >= appended_term for at, term in self.definitions.items()):
            self.problems.append(f"entry {index + 1} of the definitions is missing")

    def hard_state(self, owner: int, incarnation: int, term: int, vote: int) -> None:
        member = self._member(owner)
        member.incarnation, member.term, member.vote = incarnation, term, vote

    def _member(self, owner: int) -> MemberTotals:
        member = self.members.get(owner)
        if member is None:
            member = self.members[owner] = MemberTotals()
            member.snapshot_index = self._snapshot_index(owner)
        return member

    def _snapshot_index(self, owner: int) -> int:
        """Of the newest one of the owner, which is read to its end; 0 if there is none. The
        definitions are rows, and a snapshot only while they come from another node."""
        saved = self.metadata.applied_index if owner == METADATA_OWNER else 0
        if self.snapshots is None:
            return saved
        try:
            head = self.snapshots.head(owner)
            for _ in () if head is None else self.snapshots.slices(owner, head):
                pass
        except KeyedDamaged as error:
            self.problems.append(str(error))
            return saved
        return saved if head is None else max(saved, head.index)

    def saved_index(self, owner: int) -> int:
        return self._member(owner).snapshot_index

    def accepted_file_id(self, owner: int) -> int:
        return self.accepted if owner == METADATA_OWNER else 0

    def knows(self, owner: int) -> bool:
        return True

    def all_owners(self) -> tuple[list[int], list[int]]:
        queues = queues_of(self)
        classic = [uid for uid, queue in queues.items() if queue.outlives_restart]
        return classic, sorted({*self.members, METADATA_OWNER})

    def owner(self, owner: int, last_seq: int, mark: int) -> None:
        total = self._total(owner)
        total.last_seq, total.mark = last_seq, mark

    def publish(self, found: RecoveredPublish) -> None:
        table = memoryview(found.offsets).cast("I")
        for owner, first, live in found.targets:
            total = self._total(owner)
            for start, count in live:
                total.messages += count
                total.byte_count += table[start - first + count] - table[start - first]

    def stretch(self, found: Stretch) -> None:
        total = self._total(found.owner)
        total.messages += found.count
        total.byte_count += sum(memoryview(found.sizes).cast("I"))

    def _total(self, owner: int) -> OwnerTotals:
        return self.totals.setdefault(owner, OwnerTotals())


Row = dict[str, object]


class Check(Struct, frozen=True):
    """The answer."""

    report: RecoveryReport
    problems: list[str]
    corrupt: list[Row]
    queues: list[Row]
    members: list[Row]

    @property
    def is_sound(self) -> bool:
        return not (self.report.corrupt or self.problems)

    def as_json(self) -> Row:
        torn = self.report.torn
        return {
            "verdict": "sound" if self.is_sound else "damaged",
            "clean": self.report.clean,
            "torn": None if torn is None else {"file": torn[0], "offset": torn[1]},
            "problems": self.problems,
            "corrupt": self.corrupt,
            "files": file_rows(self.report),
            "queues": self.queues,
            "members": self.members,
        }


def run(directory: str, formatter: str, out: TextIO, errors: TextIO) -> int:
    """Check the data directory and print what was found; the exit code is returned."""
    if not any(os.path.exists(os.path.join(directory, name)) for name in (LOG_DIRECTORY, PROOF)):
        print(f"warren: {directory} is not the data directory of a node", file=errors)
        return EXIT_NO_INPUT
    try:
        lock = DirectoryLock(directory)
    except DirectoryInUse as error:
        print(f"warren: {error}", file=errors)
        return EXIT_IN_USE
    try:
        with progress(errors, directory) as on_read:
            found = check(directory, on_read)
    except OSError as error:  # The disk is faulty: its contents are unknown.
        print(f"warren: {directory} cannot be read: {error}", file=errors)
        return EXIT_IO_ERROR
    finally:
        lock.release()
    if formatter == "json":
        write_json(found.as_json(), out)
    else:
        write_report(found, out)
    return 0 if found.is_sound else EXIT_DAMAGED


def check(directory: str, on_read: Callable[[LogFile], None]) -> Check:
    """Read everything."""
    disk = ReadOnlyDisk()
    place = os.path.join(directory, LOG_DIRECTORY)
    findings, keyed = open_keyed(os.path.join(directory, KEYED_DIRECTORY))
    pool = FilePool(disk, place, 0, 0, LogProof(disk, directory))
    ledger, report = Recovery(disk, place, pool, on_read).run(findings)
    findings.check_definitions()
    for file in ledger.files.values():
        if file.handle >= 0:  # Else it is lost.
            disk.close(file.handle)
    pool.close()
    rows = queue_rows(findings, report)
    corrupt = corrupt_rows(findings, report)
    if keyed is not None:
        keyed.close()
    return Check(report, findings.problems, corrupt, rows, member_rows(findings))


def open_keyed(path: str) -> tuple[Findings, KeyedReader | None]:
    """The definitions as they were saved last, and the snapshots."""
    if not os.path.isdir(path):
        return Findings(Metadata(), None), None
    keyed: KeyedReader | None = None
    try:
        keyed = KeyedReader(path)
        rows = partial(keyed.rows, METADATA)
        findings = Findings(Metadata.load(rows) or Metadata(), SnapshotStore(keyed))
        findings.accepted = read_accepted(rows)
        return findings, keyed
    except (KeyedDamaged, BadSnapshot) as error:
        findings = Findings(Metadata(), None)
        findings.problems.append(str(error))
        return findings, keyed


@contextmanager
def progress(errors: TextIO, directory: str) -> Iterator[Callable[[LogFile], None]]:
    """A bar on a terminal: many GB take minutes."""
    if not errors.isatty() or not os.path.isdir(os.path.join(directory, LOG_DIRECTORY)):
        yield lambda file: None
        return
    from rich.console import Console
    from rich.progress import Progress

    place = os.path.join(directory, LOG_DIRECTORY)
    sizes = [each.stat().st_size for each in os.scandir(place) if each.name[:4] in ("wal-", "seg-")]
    with Progress(console=Console(file=errors), transient=True) as bar:
        task = bar.add_task("reading", total=sum(sizes))
        yield lambda file: bar.advance(task, file.size)


def queues_of(findings: Findings) -> dict[int, Queue]:
    """By uid: those of the saved definitions, and those that were declared since."""
    found = {
        int(queue.uid): queue
        for vhost in findings.metadata.vhosts.values()
        for queue in vhost.queues.values()
    }
    return found | findings.births


def hit_queues(findings: Findings, report: RecoveryReport, bad: CorruptRecord) -> list[Row]:
    """The queues that a bad place hits, as a start would find."""
    queues = queues_of(findings)
    found: list[Row] = []
    for hit in report.hits:
        queue = queues.get(hit.owner)
        if queue is None or (hit.place.path, hit.place.offset) != (bad.path, bad.offset):
            continue
        if hit.entry_after >= 0 and hit.lost_upto < 0:
            continue
        row: Row = {"vhost": queue.vhost, "name": queue.name}
        if row not in found:
            found.append(row)
    return found


def hit_members(findings: Findings, report: RecoveryReport, bad: CorruptRecord) -> list[int]:
    """The uids of the groups whose member here a bad place hits."""
    return [
        hit.owner
        for hit in report.hits
        if (hit.place.path, hit.place.offset) == (bad.path, bad.offset) and hit.lost_upto >= 0
    ]


def corrupt_rows(findings: Findings, report: RecoveryReport) -> list[Row]:
    return [
        {
            "file": bad.path,
            "offset": bad.offset,
            "record": KIND_NAMES.get(bad.kind, "unknown"),
            "reason": bad.reason,
            "owners": list(bad.owners),
            "queues": hit_queues(findings, report, bad),
            "members": hit_members(findings, report, bad),
        }
        for bad in report.corrupt
    ]


def file_rows(report: RecoveryReport) -> list[Row]:
    return [
        {
            "file": each.path,
            "bytes": each.file_bytes,
            "used_bytes": each.used_bytes,
            "live_bytes": each.live_bytes,
            "sealed": each.sealed,
            "records": {KIND_NAMES.get(k, str(k)): n for k, n in each.record_counts.items()},
        }
        for each in report.file_reports
    ]


def queue_rows(findings: Findings, report: RecoveryReport) -> list[Row]:
    """What is alive, by queue; then what belongs to no queue that is defined."""
    queues = queues_of(findings)
    rows: list[Row] = []
    for owner in sorted({*queues, *findings.totals} - {METADATA_OWNER}):
        queue = queues.get(owner)
        total = findings.totals.get(owner, OwnerTotals())
        rows.append(
            {
                "uid": owner,
                "vhost": None if queue is None else queue.vhost,
                "name": None if queue is None else queue.name,
                "messages": total.messages,
                "live_bytes": total.byte_count,
                "last_seq": total.last_seq,
                "mark": total.mark,
            }
        )
    return rows


def member_rows(findings: Findings) -> list[Row]:
    """What is left of each member of a log group; a part of its entries may be of no use."""
    queues = queues_of(findings)
    return [
        {
            "uid": owner,
            "vhost": queues[owner].vhost if owner in queues else None,
            "name": queues[owner].name if owner in queues else None,
            **asdict(member),
        }
        for owner, member in sorted(findings.members.items())
    ]


def write_report(found: Check, out: TextIO) -> None:
    """Tables, and the verdict in the last line."""
    files = file_rows(found.report)
    columns = ("file", "bytes", "used_bytes", "live_bytes", "sealed", "records")
    table = [[shown(row, column) for column in columns] for row in files]
    write_table(columns, table, out)
    print(file=out)
    shown_of_queues = ("uid", "vhost", "name", "messages", "live_bytes", "last_seq", "mark")
    table = [[row[column] for column in shown_of_queues] for row in found.queues]
    write_table(shown_of_queues, table, out)
    print(file=out)
    if found.members:
        shown_of_members = tuple(found.members[0])
        table = [list(row.values()) for row in found.members]
        write_table(shown_of_members, table, out)
        print(file=out)
    if found.report.torn is not None:
        path, offset = found.report.torn
        print(f"torn end, which a start cuts: {path} at offset {offset}", file=out)
    for row in found.corrupt:
        what = row["reason"] or f"at offset {row['offset']}"
        print(f"corrupt: {row['file']} {what}, {whom(row)}", file=out)
    for problem in found.problems:
        print(f"problem: {problem}", file=out)
    print("verdict: sound" if found.is_sound else "verdict: damaged", file=out)


def shown(row: Mapping[str, object], column: str) -> object:
    value = row[column]
    if column == "file":
        return os.path.basename(str(value))
    if isinstance(value, dict):
        return " ".join(f"{name}={count}" for name, count in value.items())
    return value


def whom(row: Mapping[str, object]) -> str:
    queues = row["queues"]
    assert isinstance(queues, list)
    names = [f"queue '{each['name']}' in vhost '{each['vhost']}'" for each in queues]
    members = row["members"]
    assert isinstance(members, list)
    names.extend(f"the member of log group {uid}" for uid in members)
    return f"record {row['record']}, hits {', '.join(names) or 'no queue'}"
