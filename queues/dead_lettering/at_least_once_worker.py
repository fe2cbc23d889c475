"""Dead letters at least once: the worker of a queue whose machine keeps what dies (0053).

Takes which messages died, makes letters of them one by one (`DeadLetterPublisher.address`) and
publishes
them, as a session of its own, to the queues that the dead-letter exchange names; what these have
confirmed it gives to `bury` as a command for the machine. What is to be sent when, and again, is
decided by `queues.dead_lettering.dead_letter_schedule`.

There is one where the queue is led, from the first death on, and it ends with the leadership: the
next leader begins with what its machine keeps, so a letter may arrive twice. A queue that has no
dead-letter exchange any more buries its dead at once, and so it is with what would go round in a
circle for ever: both are logged. A body that cannot be read is tried again later. Compiled.
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from queues.dead_lettering.dead_letter_schedule import DeadLetterSchedule, Letter
from queues.hosts.host_interfaces import Steps
from queues.machine.commands import Command, EndSession, ReleaseDeadLetters, SessionId
from queues.machine.expiry import FAR
from queues.machine.pending_dead_letters import DEATHS, PendingDeadLetters
from queues.message import Chunk
from queues.queue_host import PublishingOnly, QueueHost
from queues.sessions.credit import CreditActor, CreditSpec

if TYPE_CHECKING:
    from queues.hosts.queue_core import QueueCore

LETTERS: Final = 128  # looked at in one step
SPEC: Final = CreditSpec(400, 200)


@final
class Sent:
    """A letter on its way to a queue, as this session's number there."""

    __slots__ = ("is_refused", "letter", "seq")

    def __init__(self, seq: i64, letter: Letter) -> None:
        self.seq: i64 = seq
        self.letter = letter
        self.is_refused = False


@final
class Outbox:
    """What is on its way to one queue."""

    __slots__ = ("host", "next_seq", "sent")

    def __init__(self, host: QueueHost) -> None:
        self.host = host
        self.next_seq: i64 = 1
        self.sent: deque[Sent] = deque()


@final
class Unfinished:
    """A letter that the queues of `hosts` from `at` on have not got yet."""

    __slots__ = ("at", "chunk", "hosts", "letter")

    def __init__(self, letter: Letter, chunk: Chunk, hosts: list[QueueHost]) -> None:
        self.letter = letter
        self.chunk = chunk
        self.hosts = hosts
        self.at: i64 = 0


@final
class AtLeastOnceWorker(PublishingOnly):
    """See the module."""

    def __init__(self, core: "QueueCore", turn: Steps, bury: Callable[[Command], None]) -> None:
        self.is_gone = False
        self.schedule = DeadLetterSchedule()
        self._core = core
        self._turn = turn
        self._bury = bury
        self._session = SessionId(0)
        self._credit = CreditActor(f"dead letters of queue '{core.name}'", SPEC)
        self._outboxes: dict[int, Outbox] = {}
        self._reading: Letter | None = None  # its message is being read
        self._unfinished: Unfinished | None = None  # very many queues get it, in several turns
        self._now_ms: i64 = core.machine.now_ms
        self._timer_ms: i64 = FAR
        self._is_marked = False

    @property
    def session(self) -> SessionId:
        return self._session

    @property
    def credit(self) -> CreditActor:
        return self._credit

    # What there is to do

    def begin(self, pending_dead_letters: PendingDeadLetters) -> None:
        """These were dying when the leadership began."""
        self.schedule.begin(pending_dead_letters)
        self._mark()

    def died(self, first: i64, count: i64, reason: i64) -> None:
        self.schedule.died(first, count, reason)
        dead_letter_publisher = self._core.dead_letter_publisher
        if dead_letter_publisher is not None:
            dead_letter_publisher.note_pending_dead_letters(DEATHS[reason], int(count))
        self._mark()

    def purge(self) -> None:
        """The queue is purged: bury what is dying, without dead letters."""
        self.schedule.purge()
        self._mark()

    def _mark(self) -> None:
        if not self._is_marked and not self.is_gone:
            self._is_marked = True
            self._turn.mark_host(self)

    def on_timer(self) -> None:
        self._timer_ms = FAR
        self._mark()

    def step(self, now_ms: i64) -> None:
        """Send what can be sent; tell the machine what is buried."""
        self._is_marked = False
        self._now_ms = now_ms
        if self.is_gone:
            return
        room: i64 = LETTERS
        is_waiting = not self._hand_on()
        while room > 0 and not is_waiting:
            if self._is_spent():
                room = 0
                break
            letter = self.schedule.next(now_ms)
            if letter is None:
                break
            is_waiting = not self._send(letter)
            room -= 1
        released = self.schedule.take_released()
        if len(released) > 0:
            self._bury(ReleaseDeadLetters(released))
        if room == 0 or self._unfinished is not None or self.schedule.has_purged():
            self._is_marked = True
            self._turn.mark_host_later(self)
        else:
            self._set_timer()

    def _is_spent(self) -> bool:
        """Whether this turn has no time left for routing."""
        dead_letter_publisher = self._core.dead_letter_publisher
        return dead_letter_publisher is not None and dead_letter_publisher.is_spent()

    def _set_timer(self) -> None:
        due_ms = self.schedule.due_ms()
        if due_ms < self._timer_ms:
            self._timer_ms = due_ms
            self._turn.wake_host(self, int(due_ms))

    # Letters

    def _send(self, letter: Letter) -> bool:
        """Whether to go on with others."""
        dead_letter_publisher = self._core.dead_letter_publisher
        if dead_letter_publisher is None:
            self.schedule.drop(letter)
            return True
        if self._session == 0:
            self._session = dead_letter_publisher.new_session()
        self._reading = letter
        view = self._core.view(self, letter.seq, 1)
        if view is None:
            self.schedule.put_back(letter, self._now_ms)
            return False
        self._reading = None
        addressed = dead_letter_publisher.address(view.chunk, view.index, DEATHS[letter.reason])
        if addressed is None:
            self.schedule.put_back(letter, self._now_ms)
            return True  # The time of this turn is spent: the rest is for the next one.
        hosts = [host for host in addressed.hosts if host.uid not in letter.safe]
        if addressed.is_held:
            self.schedule.rest(letter, self._now_ms)
            return True
        for host in hosts:
            self._see_host(host)
        if len(hosts) > 0:
            self.schedule.sent(letter, [host.uid for host in hosts], self._now_ms)
            self._unfinished = Unfinished(letter, addressed.chunk, hosts)
            return self._hand_on()
        if addressed.goes_round:
            self.schedule.drop(letter)
        else:
            self.schedule.nowhere(letter, self._now_ms)
        return True

    def _hand_on(self) -> bool:
        """Hand the last letter to further queues; return whether all have it."""
        unfinished = self._unfinished
        if unfinished is None:
            return True
        letter = unfinished.letter
        hosts = unfinished.hosts
        dead_letter_publisher = self._core.dead_letter_publisher
        if dead_letter_publisher is None and not letter.is_done:
            self.schedule.drop(letter)
        if dead_letter_publisher is None or letter.is_done:
            self._unfinished = None
            return True
        at = unfinished.at
        upto = at + dead_letter_publisher.queues_now(int(len(hosts) - at))
        unfinished.at = upto
        if upto == len(hosts):
            self._unfinished = None
        for host in hosts[at:upto]:
            if host.uid not in self._outboxes:  # It is gone, and says so again.
                self._outboxes[host.uid] = Outbox(host)
            self._publish(host, letter, unfinished.chunk)
        return upto == len(hosts)

    def _see_host(self, host: QueueHost) -> None:
        """Have an outbox for it. What was on its way to another host of the queue is lost."""
        uid = host.uid
        known = self._outboxes.get(uid)
        if known is not None and known.host is not host:
            self.on_gone(uid)
            known = None
        if known is None:
            self._outboxes[uid] = Outbox(host)

    def _publish(self, host: QueueHost, letter: Letter, made: Chunk) -> None:
        """Each queue gets a chunk of its own (`queues.dead_lettering.dead_letter_publisher`)."""
        outbox = self._outboxes[host.uid]
        seq = outbox.next_seq
        outbox.next_seq = seq + 1
        outbox.sent.append(Sent(seq, letter))
        host.publish(self, made.twin(), int(seq))

    # What the queues say

    def on_confirms(self, uid: int, upto_seq: int) -> None:
        outbox = self._outboxes.get(uid)
        if outbox is None:
            return
        sent = outbox.sent
        confirmed: i64 = 0
        while len(sent) > 0 and sent[0].seq <= upto_seq:
            each = sent.popleft()
            if each.is_refused:
                self.schedule.refused(each.letter, uid, self._now_ms)
            else:
                confirmed += 1
                self.schedule.confirmed(each.letter, uid, self._now_ms)
        dead_letter_publisher = self._core.dead_letter_publisher
        if confirmed > 0 and dead_letter_publisher is not None:
            dead_letter_publisher.note_confirmed(int(confirmed))
        self._mark()

    def on_refused(self, uid: int, first_seq: int, count: int) -> None:
        """That they are decided is still to be told."""
        outbox = self._outboxes.get(uid)
        if outbox is not None:
            for each in outbox.sent:
                if first_seq <= each.seq < first_seq + count:
                    each.is_refused = True

    def on_gone(self, uid: int) -> None:
        outbox = self._outboxes.pop(uid, None)
        if outbox is not None:
            for each in outbox.sent:
                self.schedule.lost(each.letter, uid, self._now_ms)
            self._mark()

    def on_loaded(self, uid: int) -> None:
        self._mark()

    def on_unreadable(self, uid: int) -> None:
        """It is tried again when those are that no queue wanted."""
        letter = self._reading
        self._reading = None
        if letter is not None and not letter.is_done:
            self.schedule.rest(letter, self._now_ms)
        self._mark()

    # The end

    def close(self) -> None:
        """The queue goes, or is led elsewhere."""
        self.is_gone = True
        for outbox in self._outboxes.values():
            outbox.host.command(self, EndSession(self._session))
        self._outboxes = {}
        self._unfinished = None
        self._credit.peer_down_everywhere()
        self._core.reading.end_session(self._session)
