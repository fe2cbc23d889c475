"""Queue hosts above a fake log, and the turns of their loop (`queues.hosts.classic.Steps`)."""

from queues.credit import CreditActor, CreditSpec
from queues.hosts.classic import ClassicHost
from queues.hosts.journal import Journal
from queues.message import Chunk
from queues.store import BodyBudget
from tests.unit.queues.fake_log import FakeLog

PLENTY = 1 << 30


class FakeNode:
    """`turn` steps what was marked and ends the turn; `sync` says that the log is durable."""

    def __init__(self, budget_bytes: int = PLENTY, log_credit: int = 4000) -> None:
        self.log = FakeLog()
        self.budget = BodyBudget(budget_bytes)
        credit = CreditActor("log", CreditSpec(log_credit, max(log_credit // 4, 1)))
        self.journal = Journal(self.log, self.budget, credit)
        self.unused: list[int] = []
        self.loads: list[tuple[ClassicHost, Chunk]] = []
        self.now_ms = 1000
        self._marked: list[ClassicHost] = []

    def queue(self, uid: int, durable: bool = True, auto_delete: bool = False) -> ClassicHost:
        credit = CreditActor(f"q{uid}", CreditSpec(400, 200))
        name = f"q{uid}"
        arguments = self.journal, self.budget, self, credit, auto_delete
        return ClassicHost(uid, "/", name, durable, *arguments)

    def mark_host(self, host: ClassicHost) -> None:
        self._marked.append(host)

    def queue_unused(self, host: ClassicHost) -> None:
        self.unused.append(host.uid)

    def load(self, host: ClassicHost, chunk: Chunk) -> None:
        self.loads.append((host, chunk))

    def turn(self) -> None:
        while self._marked:
            hosts, self._marked = self._marked, []
            for host in hosts:
                host.step(self.now_ms)
        self.journal.end_turn(self.now_ms)

    def sync(self) -> None:
        self.journal.on_durable(self.log.appended_lsn)

    def answer_loads(self) -> None:
        """Read what was asked for from the files."""
        loads, self.loads = self.loads, []
        for host, chunk in loads:
            begin = chunk.file_offset
            host.loaded(chunk, bytes(self.log.files[chunk.file_id][begin : begin + chunk.size()]))
