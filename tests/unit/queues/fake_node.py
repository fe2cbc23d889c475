"""Queue hosts above a fake log, and the turns of their loop (`host_interfaces.Steps`)."""

from queues.bodies.paging import Pager
from queues.bodies.store import BodyBudget
from queues.hosts.classic import ClassicHost
from queues.hosts.host_interfaces import BodyOwner, Steppable, Waking
from queues.hosts.journal import Journal
from queues.hosts.queue_core import DEFAULT, QueueCore
from queues.machine.effects import SlowConsumer
from queues.message import Chunk
from queues.sessions.credit import CreditActor, CreditSpec
from tests.unit.queues.fake_log import FakeLog
from tests.unit.queues.fake_pages import FakePages

PLENTY = 1 << 30


class FakeNode:
    """`turn` steps what was marked and ends the turn; `sync` says that the log is durable."""

    def __init__(self, budget_bytes: int = PLENTY, log_credit: int = 4000) -> None:
        self.log = FakeLog()
        self.budget = BodyBudget(budget_bytes)
        credit = CreditActor("log", CreditSpec(log_credit, max(log_credit // 4, 1)))
        self.journal = Journal(self.log, self.budget, credit)
        self.pages = FakePages()
        self.pager = Pager(self.pages, self.budget, 0)
        self.unused: list[int] = []
        self.slow: list[tuple[int, SlowConsumer]] = []
        self.loads: list[tuple[BodyOwner, Chunk]] = []
        self.now_ms = 1000
        self.wakes: list[tuple[Waking, int]] = []
        self.later: list[Steppable] = []  # to be stepped in the next turn
        self._marked: list[Steppable] = []

    def queue(self, uid: int, durable: bool = True, auto_delete: bool = False) -> ClassicHost:
        return ClassicHost(self.core(uid, durable, auto_delete))

    def core(
        self, uid: int, durable: bool = True, auto_delete: bool = False, mode: int = DEFAULT
    ) -> QueueCore:
        credit = CreditActor(f"q{uid}", CreditSpec(400, 200))
        name = f"q{uid}"
        arguments = self.journal, self.budget, self, credit, auto_delete, None, mode
        return QueueCore(uid, "/", name, durable, *arguments)

    def mark_host(self, host: Steppable) -> None:
        self._marked.append(host)

    def mark_host_later(self, host: Steppable) -> None:
        self.later.append(host)

    def wake_host(self, host: Waking, due_ms: int) -> None:
        self.wakes.append((host, due_ms))

    def queue_unused(self, uid: int) -> None:
        self.unused.append(uid)

    def consumer_slow(self, uid: int, effect: SlowConsumer) -> None:
        self.slow.append((uid, effect))

    def load(self, owner: BodyOwner, chunk: Chunk) -> None:
        self.loads.append((owner, chunk))

    def turn(self) -> None:
        self._marked += self.later
        self.later = []
        while self._marked:
            hosts, self._marked = self._marked, []
            for host in hosts:
                host.step(self.now_ms)
        self.journal.end_turn(self.now_ms)
        self.pager.end_turn()

    def sync(self) -> None:
        self.journal.on_durable(self.log.appended_lsn)

    def answer_loads(self) -> None:
        """Read what was asked for from the files."""
        loads, self.loads = self.loads, []
        for owner, chunk in loads:
            if chunk.page_id > 0:
                file, begin = self.pages.files[chunk.page_id], chunk.page_offset
            else:
                file, begin = self.log.files[chunk.file_id], chunk.file_offset
            owner.loaded(chunk, bytes(file[begin : begin + chunk.size()]))
