"""The turn of the loop: what was read in one round is stepped, synced and sent together.

Sockets mark their endpoint, sessions mark the queues that they hand something to; once all ready
sockets have been read, `run` steps the queues, hands the journal to the disk and writes to each
socket once. Owns no rule: order and time only. Compiled.
"""

from collections.abc import Callable
from time import perf_counter, thread_time
from typing import Final, Protocol, final

from mypy_extensions import i64

from node.turn_stages import ELSEWHERE, GROUPS, JOURNAL, QUEUES, READING, SOCKETS, Stages
from queues.bodies.paging import Pager
from queues.dead_lettering.dead_letter_limits import DeadLetterLimits
from queues.hosts.host_interfaces import Steppable
from queues.hosts.journal import Journal
from queues.remote.remote_interfaces import Ending
from queues.routing.pace import RoutingPace

READ_BYTES_MAX: Final = 2 << 20  # of input in one turn; what came beyond waits for the next
READ_MS_MAX: Final = 4.0  # reading in one turn; then it ends, and the rest belongs to the next
LETTERS_MS_MAX: Final = 30.0  # into a turn; then each queue publishes one dead letter at a time
STEPS_MAX: Final = 8  # rounds of host steps in one turn; what is left goes on in the next
GROUP_ROUNDS_MAX: Final = 2  # of log groups in a turn: what they bring about may be proposed
# Upper bounds of the buckets of `warren_loop_turn_ms`, in milliseconds.
TURN_BUCKETS_MS: Final[tuple[float, ...]] = (
    0.1,
    0.25,
    0.5,
    1.0,
    2.0,
    5.0,
    10.0,
    20.0,
    50.0,
    100.0,
    1000.0,
)


class Groups(Protocol):
    """The log groups of a node in a cluster (`raft.host.RaftHost`)."""

    def on_durable(self, lsn: int) -> None:
        """The log up to there is durable."""

    def end_turn(self) -> None:
        """Take in what has arrived and become durable, write, send, and apply what is committed."""


class Flushable(Protocol):
    """An endpoint: writes what its core and channels have ready."""

    def flush(self) -> None: ...


@final
class Turn:
    """Marks, and the one callback that works them off."""

    def __init__(
        self,
        call_soon: Callable[[Callable[[], None]], object],
        on_failure: Callable[[Exception], None],
        clock_s: Callable[[], float] = perf_counter,
        cpu_s: Callable[[], float] = thread_time,
    ) -> None:
        self._call_soon = call_soon
        self.stages = Stages(clock_s, cpu_s)
        self._on_failure = on_failure  # we are wrong, and it is unknown how far the turn came
        self.hosts: list[Steppable] = []  # marked, to be stepped in the next round
        self._later: dict[Steppable, None] = {}  # each once, however often it asked
        self._endpoints: list[Flushable] = []
        self._unfinished: list[Flushable] = []  # marked while they or others were flushed
        self._peers: list[Ending] = []  # connections to other nodes that have something to write
        self._groups_due = False
        self.groups: Groups | None = None  # of a node in a cluster
        self.away: Ending | None = None  # of the same: what goes to queues of other nodes
        self._between: list[Callable[[], None]] = []
        self._stepping = False
        self._scheduled = False
        self._ends_here = False  # in a callback that runs the turn itself, if one is begun
        self.routing = RoutingPace(cpu_s)
        self.dead_letters = DeadLetterLimits(is_late=self._is_late, routing=self.routing)
        self.journal: Journal | None = None
        self.pager: Pager | None = None
        self.now_ms: Callable[[], int] | None = None
        self.read_bytes: i64 = 0  # of input taken in this turn, all connections together
        self.count: i64 = 0
        self.longest_ms = 0.0
        self.sum_ms = 0.0
        self.buckets: list[int] = [0] * (len(TURN_BUCKETS_MS) + 1)

    def begin(self) -> None:
        """Work has arrived (a socket was read, a sync came back): a turn is under way."""
        if not self._scheduled:
            self._scheduled = True
            self.stages.begin()
            if not self._ends_here:
                self._call_soon(self._run_guarded)

    def end_if_long(self) -> None:
        """End the turn here if it has been reading for long: many sockets were ready at once."""
        if self._scheduled and self.stages.so_far_ms() > READ_MS_MAX:
            self._run_guarded()

    def mark_host(self, host: Steppable) -> None:
        self.hosts.append(host)
        if not self._scheduled:
            self.begin()

    def mark_host_later(self, host: Steppable) -> None:
        """Step it in the next turn."""
        self._later[host] = None
        if not self._scheduled:
            self.begin()

    def between_steps(self, call: Callable[[], None]) -> None:
        """Call now or, while a round of hosts is being stepped, right behind it.

        For what may publish: the queues that share a chunk must all be stepped in one turn, for the
        journal writes a chunk once; of those that are marked during a round some may be in it
        still, and the others in the next.
        """
        if self._stepping:
            self._between.append(call)
        else:
            call()

    def mark_endpoint(self, endpoint: Flushable) -> None:
        """To be flushed at the end of this turn; the endpoint marks itself once."""
        self._endpoints.append(endpoint)
        if not self._scheduled:
            self.begin()

    def begin_groups(self) -> None:
        """The log groups have something for a turn: this one, or the next if they are through."""
        self._groups_due = True
        if not self._scheduled:
            self.begin()

    def mark_peer(self, socket: Ending) -> bool:
        """Have that connection to another node write at the end of the turn. False: no turn is
        under way."""
        if not self._scheduled:
            return False
        self._peers.append(socket)
        return True

    def on_durable(self, lsn: int) -> None:
        """A sync came back: the log up to `lsn` is durable.

        The turn ends in this very callback, for nothing else is read in it. If nothing waits for
        the sync, as where a leader is ahead of its followers, there is no turn.
        """
        journal = self.journal
        groups = self.groups
        assert journal is not None
        self._ends_here = True
        try:
            journal.on_durable(lsn)
            if groups is not None:
                groups.on_durable(lsn)
        except Exception as error:
            self._on_failure(error)
            return
        finally:
            self._ends_here = False
        self._run_guarded()

    def _run_guarded(self) -> None:
        if not self._scheduled:
            return  # Nothing was begun, or the turn that this callback was to end has ended.
        try:
            self.run()
        except Exception as error:
            self._on_failure(error)

    def run(self) -> None:
        """Step the marked queues, write the journal, end the turn of the log groups, which need
        what is journaled, flush the marked endpoints, send what goes to queues elsewhere."""
        journal = self.journal
        now = self.now_ms
        assert journal is not None
        assert now is not None
        now_ms = now()
        stages = self.stages
        self.read_bytes = 0
        self.dead_letters.begin_turn()
        self.routing.begin_turn()
        stages.end_of(READING)
        self._step_hosts(now_ms)
        stages.end_of(QUEUES)
        journal.end_turn(now_ms)  # the disk works while the sockets are written
        stages.end_of(JOURNAL)
        if self._groups_due:
            self._run_groups(journal, now_ms)
            stages.end_of(GROUPS)
        # Those that had more to write than a turn allows, as to a consumer that reads a stream from
        # its beginning, come last: confirms do not wait for them.
        endpoints = self._endpoints
        endpoints.extend(self._unfinished)
        self._endpoints = []
        for endpoint in endpoints:
            endpoint.flush()
        self._unfinished = self._endpoints
        self._endpoints = []
        stages.end_of(SOCKETS)
        if len(self.hosts) > 0:
            # What the flush settled (automatic acknowledgement) belongs to the same turn.
            self._step_hosts(now_ms)
            stages.end_of(QUEUES)
            journal.end_turn(now_ms)
            stages.end_of(JOURNAL)
        if self.away is not None:
            self.away.end_turn()
        if self.pager is not None:
            self.pager.end_turn()
        if len(self._peers) > 0:
            peers = self._peers
            self._peers = []
            for socket in peers:
                socket.end_turn()
        stages.end_of(ELSEWHERE)
        self._scheduled = False
        self._measure()
        if len(self._later) > 0:
            # Another one comes first each time: the first ones may use up what a turn allows.
            later = list(self._later)
            first = self.count % len(later)
            self.hosts.extend(later[first:])
            self.hosts.extend(later[:first])
            self._later = {}
        to_flush = len(self._endpoints) + len(self._unfinished)
        if len(self.hosts) > 0 or to_flush > 0 or self._groups_due:
            self.begin()

    def _run_groups(self, journal: Journal, now_ms: int) -> None:
        """What is applied may step hosts, and what these journal may be proposed."""
        groups = self.groups
        if groups is None:
            self._groups_due = False  # The node stops.
            return
        rounds: i64 = 0
        while self._groups_due and rounds < GROUP_ROUNDS_MAX:
            self._groups_due = False
            groups.end_turn()
            if len(self.hosts) > 0:
                self._step_hosts(now_ms)
            journal.end_turn(now_ms)
            rounds += 1

    def _is_late(self) -> bool:
        return self.stages.so_far_ms() > LETTERS_MS_MAX

    def _step_hosts(self, now_ms: int) -> None:
        rounds: i64 = 0
        while len(self.hosts) > 0 and rounds < STEPS_MAX:
            hosts = self.hosts
            self.hosts = []
            self._stepping = True
            for host in hosts:
                host.step(now_ms)
            self._stepping = False
            if len(self._between) > 0:
                between = self._between
                self._between = []
                for call in between:
                    call()
            rounds += 1

    def _measure(self) -> None:
        took_ms = self.stages.end()
        self.count += 1
        self.sum_ms += took_ms
        if took_ms > self.longest_ms:
            self.longest_ms = took_ms
        place = 0
        while place < len(TURN_BUCKETS_MS) and took_ms > TURN_BUCKETS_MS[place]:
            place += 1
        self.buckets[place] += 1
