"""One session's use of a quorum queue whose leader may change (0036). Pure, compiled.

A `RemoteSession` numbers what its session hands down and keeps it until the machine is known to
have applied it. It goes to the current leader (`RemoteSessionHome`): as objects, if that is this
node, else as items. To a leader that is new to it the session says what it waits for, hears how the
session stands, and goes on from there: sends again what was not applied, drops what it has seen.

At most one command that wants an answer is under way, and what the session hands down after it
waits, because the machine keeps one answer for each session. EndSession goes last, once all else is
applied: a session that a leader does not know any more has then ended, and was not forgotten.

`Inspect` is no command of the log: the leader answers it from what it has applied, once everything
is applied that the session handed down before. So a redeclare of a queue writes nothing.

What the session has received and not looked at is asked for again from a new leader, in the
order in which it was received; so bodies are looked at in the order in which they come. Limits: the
owner's. Invariant: `_kept` are the commands `_applied + 1` .. `_next - 1`.

A session may ask not to wait for ever without a leader (`watch_leader`). Its question is withdrawn
then, and also when the session ends, but not if it was sent: a leader may have it in its log.
"""

from collections import deque
from typing import Final, final

from mypy_extensions import i64

from queues.hosts.effect_dispatch import tell_resumed
from queues.machine.commands import (
    GROUP_CONSUMER,
    Attach,
    Command,
    ConsumerKey,
    EndSession,
    Enqueue,
    Inspect,
    JoinGroup,
    Numbered,
    SessionId,
    Settle,
)
from queues.machine.consuming.consumers import Consumer
from queues.machine.consuming.numbered_sessions import Resume, asks
from queues.message import Chunk
from queues.queue_host import LeaderlessSink, SessionSink, View
from queues.remote.home import VISITOR_CREDIT
from queues.remote.kept import Body, Kept, Told
from queues.remote.moving import Moved, Taker
from queues.remote.proxy import Tie
from queues.remote.remote_interfaces import WINDOW_BYTES, RemoteSessionHome
from queues.sessions.credit import CreditActor

FAR: Final = 1 << 62
TAKEN_BYTES: Final = WINDOW_BYTES // 4  # looked at, and told to the leader at once


@final
class RemoteSession:
    """See the module. Towards a leader on this node it is the `StreamSink`."""

    def __init__(self, sink: SessionSink, home: RemoteSessionHome) -> None:
        self._sink = sink
        self._session = sink.session
        self._home = home
        # Towards a leader on this node.
        self._credit = CreditActor("quorum session", VISITOR_CREDIT, self.grant)
        self._ungranted: i64 = 0  # confirmed publishes for which the session has no credit yet
        self._kept: deque[Kept] = deque()
        self._next: i64 = 1  # number of the next command
        self._applied: i64 = 0
        self._sent: i64 = 0  # to the leader that there is
        self._handed: i64 = 0  # to any leader
        self._asking: i64 = 0  # the command under way whose answer is waited for
        self._used = False  # some leader has been sent something
        self.is_open = False  # the leader that there is knows how far the stream has come
        self.is_refused = False  # it has said that it does not lead
        self._attempt: i64 = 0  # to resume
        self._takers: dict[int, Taker] = {}
        self._published: i64 = 0  # the session's highest publish
        self._confirmed: i64 = 0  # what became of it is known up to here
        self._told: deque[Told] = deque()
        self._bodies: deque[Body] = deque()  # in the order of the deliveries
        self._got: View | None = None  # what basic.get has brought last
        self._getting: tuple[int, bool, int, int] | None = None  # an answer without its body yet
        self._taken_bytes: i64 = 0  # looked at, and not told to the leader yet
        self._wanted: i64 = 0  # the session waits for this message; 0: for none
        self._ended = False
        self._joins = False  # `_next` is not known yet
        self._least_term: i64 = 0  # of a leader that has applied what another node numbered
        self._inspects: deque[int] = deque()  # not answered: each waits for this command
        self._inspecting = False  # the leader that there is was asked for the first of them
        self._leaderless_sink: LeaderlessSink | None = None  # does not wait for ever
        self._patience_ms: i64 = 0
        self._awaits_confirms = False  # the same for its publishes
        self._closed_ms: i64 = 0  # since when it waits without a leader; 0: it does not

    @property
    def session(self) -> SessionId:
        return self._session

    @property
    def credit(self) -> CreditActor:
        return self._credit

    @property
    def uid(self) -> int:
        return self._home.uid

    # Handed down by the session

    def publish(self, chunk: Chunk, first_seq: i64) -> None:
        self._published = first_seq + chunk.count() - 1
        kept = Kept(self._next, None, chunk, first_seq)
        self._next += 1
        self._home.keeps(kept.size())
        self._keep(kept, chunk)

    def command(self, command: Command) -> None:
        if isinstance(command, Settle):
            self._drop(command.runs)
            self._tell_taken(TAKEN_BYTES)
        elif isinstance(command, Attach):
            self._takers[command.key & 0xFFFFFFFF] = Taker(command.timeout_ms)
        elif isinstance(command, JoinGroup):
            self._takers.setdefault(GROUP_CONSUMER, Taker(0))
        elif isinstance(command, Inspect):
            self._inspect()
            return
        elif isinstance(command, EndSession):
            self._end()
            self._withdraw(False)
            if self._next == 1 and not self._used:
                self._home.over(self.session, self)
                return
        kept = Kept(self._next, command, None, 0)
        self._next += 1
        self._keep(kept, None)
        if self._ended and self.is_open:
            self._pump()  # What waited for an answer waits no more.

    def _keep(self, kept: Kept, chunk: Chunk | None) -> None:
        self._kept.append(kept)
        if self.is_open and self._sent == kept.number - 1 and self._may_go(kept):
            self._send(kept, chunk)
        elif not self.is_open and not self._used:
            self.begin()

    # Without a leader for long

    def watch_leader(self, sink: LeaderlessSink, patience_ms: i64, awaits_confirms: bool) -> None:
        """Tell the sink, once, if what is asked waits for so long without a leader; if
        `awaits_confirms`, also if publishes do."""
        self._leaderless_sink = sink
        self._patience_ms = patience_ms
        self._awaits_confirms = awaits_confirms

    def look_at_time(self, now_ms: i64) -> None:
        """Some time has passed."""
        sink = self._leaderless_sink
        if sink is None or self.is_open or self._ended or not self._is_waiting():
            self._closed_ms = 0
        elif self._closed_ms == 0:
            self._closed_ms = now_ms
        elif now_ms - self._closed_ms >= self._patience_ms:
            self._closed_ms = 0
            self._leaderless_sink = None
            self._withdraw(False)
            sink.on_leaderless(self.uid)

    def _is_waiting(self) -> bool:
        if self._asking > 0 or len(self._inspects) > 0:
            return True
        if self._awaits_confirms and self._confirmed < self._published:
            return True
        return any(kept.command is not None and asks(kept.command) for kept in self._kept)

    def withdraw_publishes(self) -> None:
        """Forget those that no leader can have got: the session is about to end."""
        self._withdraw(True)

    def _withdraw(self, publishes: bool) -> None:
        """Forget what was asked, or published, and was not sent to any leader."""
        self._inspects.clear()
        left: deque[Kept] = deque()
        freed: i64 = 0
        gone: i64 = 0
        for kept in self._kept:
            command = kept.command
            drops = publishes if command is None else asks(command)
            if kept.number <= self._handed or not drops:
                kept.number -= gone
                left.append(kept)
                continue
            gone += 1
            freed += kept.size()
            if isinstance(command, Attach):
                self._takers.pop(command.key & 0xFFFFFFFF, None)
        self._kept = left
        self._next -= gone
        if freed > 0:
            self._home.keeps(-freed)

    def adopt(
        self, published: i64, consumers: list[Consumer], active_key: ConsumerKey | None
    ) -> None:
        """The session has used the queue before its commands had numbers: all that it has published
        up to `published` is confirmed, and these are its consumers."""
        self._used = True
        self._published = max(self._published, published)
        self._confirmed = published
        for consumer in consumers:
            rows = consumer.rows
            if rows is None:
                continue  # It holds what basic.get has brought.
            taker = Taker(consumer.timeout_ms)
            taker.next_seq = consumer.delivery_count + 1
            taker.attached = True
            taker.gone = not consumer.attached
            taker.active = consumer.key == active_key
            number = consumer.key & 0xFFFFFFFF
            self._takers[number] = taker
            for row in rows.rows:
                self._told.append(Told(number, row.delivery_seq, row.first, row.count))

    def end_unknown(self) -> None:
        """End what the session has had by way of another node, which has numbered its commands."""
        self._used = True
        self._ended = True
        self._joins = True

    # From node to node

    def hand_over(self) -> Moved | None:
        """The session goes on by itself, on its own node; None: not all that it has handed down is
        applied and answered."""
        if len(self._kept) > 0 or self._asking > 0 or len(self._inspects) > 0:
            return None
        if self._confirmed < self._published:
            return None
        self.close()
        self._end()
        return Moved(self._applied, self._takers, {})

    def wait_for_move(self) -> None:
        """Keep what the session hands down until another node has handed it over (`go_on`)."""
        self._used = True
        self._least_term = FAR

    def go_on(self, moved: Moved, tie: Tie) -> None:
        """It was handed over, and `tie` has what has come for it and was not looked at yet."""
        self._least_term = moved.term
        for kept in self._kept:
            kept.number += moved.number
        self._inspects = deque([each + int(moved.number) for each in self._inspects])
        self._next += moved.number
        self._applied = moved.number
        self._published = max(self._published, tie.published)
        self._confirmed = tie.confirmed
        self._takers.update(moved.takers)
        if self._ended:
            return
        for number, delivery_seq in moved.wanted.items():
            count = moved.takers[number].next_seq - delivery_seq
            self._told.append(Told(number, delivery_seq, 0, count))
        for body in tie.bodies:
            self._bodies.append(Body(body.first, body.chunk))
        if tie.got is not None:
            self._got = View(tie.got.chunk, 0, tie.got.first, 1)
        self._wanted = tie.wanted

    def move_lost(self, published: i64) -> None:
        """It was not handed over: what it has handed down since is refused."""
        self._confirmed = published
        self._session_over()

    def begin(self) -> None:
        """To a leader, if there is one, that never heard of the session, as no one has."""
        home = self._home
        if home.is_led and not self.is_refused and not home.is_ending(self._session):
            self.is_open = True
            self._closed_ms = 0
            self._pump()

    def _may_go(self, kept: Kept) -> bool:
        if self._asking > 0:
            return False
        if len(self._inspects) > 0 and kept.number > self._inspects[0]:
            return False
        return not isinstance(kept.command, EndSession) or self._applied == kept.number - 1

    def _pump(self) -> None:
        """Send what may go."""
        if len(self._inspects) > 0:
            self._ask_counts()
        if len(self._kept) == 0 or self._kept[len(self._kept) - 1].number <= self._sent:
            return
        for kept in list(self._kept):
            if kept.number <= self._sent:
                continue
            if not self.is_open or not self._may_go(kept):
                return
            self._send(kept, None)

    def _send(self, kept: Kept, chunk: Chunk | None) -> None:
        """`chunk`: as the session has just handed it down; else a new one is made."""
        self._used = True
        self._sent = kept.number
        self._handed = max(self._handed, kept.number)
        command = kept.command
        if command is not None and asks(command):
            self._asking = kept.number
        if kept.chunk is not None and chunk is None:
            chunk = kept.fresh()
        end = self._home.end
        if end is not None:
            if command is None:
                assert chunk is not None
                command = Enqueue(self._session, kept.first_seq, chunk.count())
            numbered = Numbered(self._session, kept.number, self._confirmed, command)
            if end.term != self._home.term or not end.hand_down(self, numbered, chunk):
                self.refused()
        elif command is not None:
            self._home.send_command(self._session, kept.number, self._confirmed, command)
        else:
            assert chunk is not None
            confirmed = self._confirmed
            self._home.send_publish(self._session, kept.number, confirmed, chunk, kept.first_seq)

    def _inspect(self) -> None:
        self._inspects.append(int(self._next - 1))
        if self.is_open or self._used:
            self._ask_counts()
        else:
            self.begin()

    def _ask_counts(self) -> None:
        """Ask the leader, if all is applied and answered that was handed down before."""
        if self._inspecting or not self.is_open:
            return
        if self._asking > 0 or self._inspects[0] > self._applied:
            return
        self._inspecting = True
        end = self._home.end
        if end is None:
            self._home.send_inspect(self._session)
        elif end.term != self._home.term or not end.inspect(self):
            self.refused()

    def on_inspect_ok(self, uid: int, ready: int, consumer_count: int) -> None:
        if not self._inspecting:
            return  # Asked before the session resumed.
        self._inspecting = False
        due: i64 = 0
        while len(self._inspects) > 0 and self._inspects[0] <= self._applied:
            self._inspects.popleft()
            due += 1
        while due > 0 and not self._ended:
            due -= 1
            self._sink.on_inspected(uid, ready, consumer_count)
        self._pump()

    def view(self, first: i64, count: i64) -> View | None:
        """See QueueHost; what was delivered before `first` was looked at, or never will be."""
        got = self._got
        if got is not None and got.first == first and got.chunk.data is not None:
            return got
        while len(self._bodies) > 0:
            body = self._bodies[0]
            if body.first <= first < body.first + body.count:
                self._tell_taken(TAKEN_BYTES)
                index = first - body.first
                return View(body.chunk, index, first, min(count, body.count - index))
            self._looked_at(self._bodies.popleft())
        end = self._home.end
        if end is not None and self.is_open:
            view = end.view(self, first, count)
            if view is not None:
                self._came(view.first, view.count)
                return view
        self._wanted = first
        self._tell_taken(1)  # Or what is wanted might wait for room for ever.
        return None

    def _looked_at(self, body: Body) -> None:
        if not body.foreign:
            self._taken_bytes += body.chunk.size()

    def _tell_taken(self, least: i64) -> None:
        if self._taken_bytes >= least and self._home.end is None and self.is_open:
            self._home.send_taken(self._session, self._taken_bytes)
            self._taken_bytes = 0

    def _came(self, first: i64, count: i64) -> None:
        """The session can look at these, or has settled them."""
        while count > 0 and len(self._told) > 0 and self._told[0].first == first:
            head = self._told[0]
            some = min(head.count, count)
            if some == head.count:
                self._told.popleft()
            else:
                head.first += some
                head.delivery_seq += some
                head.count -= some
            first += some
            count -= some
        if count > 0 and len(self._told) > 0:
            self._came_out_of_turn(first, first + count)

    def _came_out_of_turn(self, first: i64, end: i64) -> None:
        kept: deque[Told] = deque()
        for told in self._told:
            stop = told.first + told.count
            if stop <= first or told.first >= end:
                kept.append(told)
                continue
            if told.first < first:
                kept.append(Told(told.number, told.delivery_seq, told.first, first - told.first))
            if stop > end:
                number = told.delivery_seq + end - told.first
                kept.append(Told(told.number, number, end, stop - end))
        self._told = kept

    def _drop(self, runs: list[tuple[int, int]]) -> None:
        """Messages that were settled: what has come of them and was not looked at is not wanted.
        Whole chunks alone; what is left of one goes when a later one is looked at."""
        for first, count in runs:
            if len(self._told) > 0:
                self._came(first, count)
            if len(self._bodies) > 0:
                self._drop_bodies(first, first + count)

    def _drop_bodies(self, first: i64, end: i64) -> None:
        kept: deque[Body] = deque()
        for body in self._bodies:
            if first <= body.first and body.first + body.count <= end:
                self._looked_at(body)
            else:
                kept.append(body)
        self._bodies = kept

    def _end(self) -> None:
        """The session hears no more of this queue."""
        self._ended = True
        self._told.clear()
        self._bodies.clear()
        self._inspects.clear()
        self._got = None
        if self._getting is not None:  # No client waits for its body any more.
            self._getting = None
            self._asking = 0
        self._home.credit.peer_down(self._sink.credit)
        self._sink.credit.peer_down(self._home.credit)

    def lose(self) -> None:
        """To the session the queue is gone."""
        self.close()
        self._give_back(self._next)
        if not self._ended:
            self._end()
            self._sink.on_gone(self.uid)

    # Who leads

    def close(self) -> None:
        """The leader that there was is none any more."""
        self.is_open = False
        self._inspecting = False
        self._credit.peer_down_everywhere()
        self.grant()

    def refused(self) -> None:
        """It has said that it does not lead: another will be told, or this one again."""
        self.close()
        self.is_refused = True

    def resume(self) -> None:
        """There is a leader that does not know how far the stream has come."""
        if self._home.term < self._least_term:
            return
        self.close()
        self.is_refused = False
        if not self._used:
            self.begin()
            return
        self._attempt += 1
        wanted = self._wants()
        self._taken_bytes = 0
        self._getting = None
        for body in self._bodies:
            body.foreign = True
        end = self._home.end
        if end is None:
            self._home.send_resume(self._attempt, wanted)
            return
        resumed = end.resume(self, wanted) if end.term == self._home.term else None
        if resumed is None:
            self.refused()
            return
        tell_resumed(self, self.uid, self._home.term, resumed)
        if self._wanted > 0 and self.is_open:
            self.on_loaded(self.uid)

    def _wants(self) -> Resume:
        """From each consumer what it was not told, or could not look at yet."""
        first: dict[int, int] = {}
        for told in self._told:
            first.setdefault(told.number, told.delivery_seq)
        wanted = [
            (number, first.get(number, each.next_seq)) for number, each in self._takers.items()
        ]
        return Resume(self._session, self._asking, self._confirmed, wanted)

    # From the leader's end (StreamSink), or its items

    def resumed(self, attempt: int, number: int) -> None:
        """An answer from another node."""
        if attempt == self._attempt and not self.is_open:
            self.on_resumed(self.uid, self._home.term, number)

    def on_resumed(self, uid: int, term: int, number: int) -> None:
        if self._joins:
            # Number 0 as well: the machine may know consumers that the session had before that.
            self._joins = False
            self._applied = number
            self._next = number + 2
            self._kept.append(Kept(number + 1, EndSession(self._session), None, 0))
        elif number < self._applied:
            self._session_over()
            return
        self.is_open = True
        self._closed_ms = 0
        self._told.clear()  # It is sent again.
        self._sent = number
        if self._asking > number:
            self._asking = 0
        self._settle_up(number)
        self._pump()

    def home_lost(self) -> None:
        """The only node that has the queue is lost, and with it all that it knew of the session."""
        self._session_over()

    def _session_over(self) -> None:
        """The session is not known any more: it has ended as was asked, or the cluster has ended
        it. What became of publishes that were not confirmed is not known."""
        self.close()
        open_count = self._published - self._confirmed
        if open_count > 0 and not self._ended:
            self._sink.on_refused(self.uid, self._confirmed + 1, open_count)
            self._sink.on_confirms(self.uid, self._published)
        self.lose()
        self._home.over(self.session, self)

    def on_applied(self, uid: int, number: int) -> None:
        self._settle_up(number)
        self._pump()

    def _settle_up(self, number: i64) -> None:
        """Commands up to this one are applied."""
        if number <= self._applied:
            return
        self._give_back(number + 1)
        self._applied = number
        if self._ended and self._applied == self._next - 1:
            self.close()
            self._home.over(self.session, self)

    def _give_back(self, end: i64) -> None:
        """Commands before `end` are not needed any more."""
        freed: i64 = 0
        while len(self._kept) > 0 and self._kept[0].number < end:
            freed += self._kept.popleft().size()
        if freed > 0:
            self._home.keeps(-freed)

    def on_resend(self, uid: int) -> None:
        self.resume()

    def on_leader_lost(self, uid: int) -> None:
        self.refused()

    def on_gone(self, uid: int) -> None:
        """The leader's node has the queue no more; that it is deleted, its definition says."""
        self.refused()

    def on_confirms(self, uid: int, upto_seq: int) -> None:
        self.confirmed(uid, upto_seq, False)

    def confirmed(self, uid: int, upto_seq: int, is_held: bool) -> None:
        """`is_held`: the leader withholds the credit for these."""
        if upto_seq <= self._confirmed:
            return
        count = upto_seq - self._confirmed
        self._confirmed = upto_seq
        if not self._ended:
            self._ungranted += count
            if not (is_held or self._credit.is_blocked()):
                self.grant()
            self._sink.on_confirms(uid, upto_seq)

    def grant(self) -> None:
        """Give the session credit for what was confirmed: the leader withholds it no longer."""
        count = self._ungranted
        self._ungranted = 0
        if count > 0 and not self._ended:
            self._home.credit.ack(self._sink.credit, count)

    def on_refused(self, uid: int, first_seq: int, count: int) -> None:
        first = max(first_seq, self._confirmed + 1)
        count -= int(first) - first_seq
        if count > 0 and not self._ended:
            self._sink.on_refused(uid, int(first), count)

    def on_delivers(
        self,
        uid: int,
        number: int,
        delivery_seq: int,
        first: int,
        count: int,
        redelivered: bool,
        attempts: int,
    ) -> None:
        taker = self._takers.get(number)
        if taker is None or self._ended:
            return
        self._told.append(Told(number, delivery_seq, first, count))
        seen = max(int(taker.next_seq) - delivery_seq, 0)
        if seen >= count:
            return
        taker.next_seq = delivery_seq + count
        rest = count - seen
        self._sink.on_delivers(
            uid, number, delivery_seq + seen, first + seen, rest, redelivered, attempts
        )

    def take_bodies(self, first: i64, chunk: Chunk) -> None:
        """From another node, behind the deliveries that name them."""
        if self._ended:
            return
        body = Body(first, chunk)
        self._bodies.append(body)
        self._came(first, body.count)
        if first <= self._wanted < first + body.count:
            self._wanted = 0
            self._sink.on_loaded(self.uid)

    def take_got(self, first: i64, chunk: Chunk) -> None:
        """The message that the answer behind it names."""
        self._got = View(chunk, 0, first, 1)

    def on_got(self, uid: int, message: int, redelivered: bool, ready: int, attempts: int) -> None:
        if self._asking == 0:
            return
        if message > 0 and self._home.end is not None and not self._ended:
            self._getting = (message, redelivered, ready, attempts)
            self._answer_get()
            return
        if self._answered():
            self._sink.on_got(uid, message, redelivered, ready, attempts)
        self._pump()

    def _answer_get(self) -> None:
        """Answer a get as soon as the body of its message can be looked at."""
        getting = self._getting
        end = self._home.end
        if getting is None or end is None:
            return
        view = end.view(self, getting[0], 1)
        if view is not None:
            self._got = view
            self._end_get(getting)

    def _end_get(self, getting: tuple[int, bool, int, int]) -> None:
        message, redelivered, ready, attempts = getting
        self._getting = None
        if self._answered():
            self._sink.on_got(self.uid, message, redelivered, ready, attempts)
        self._pump()

    def _answered(self) -> bool:
        """The answer has come that was waited for; whether the session is to be told."""
        waited = self._asking > 0
        self._asking = 0
        return waited and not self._ended

    def on_attached(self, uid: int, number: int) -> None:
        taker = self._takers.get(number)
        if self._asking == 0 or taker is None or taker.attached:
            return
        taker.attached = True
        if self._answered():
            self._sink.on_attached(uid, number)
        self._pump()

    def on_attach_refused(self, uid: int, number: int, reason: int) -> None:
        self._takers.pop(number, None)
        if self._answered():
            self._sink.on_attach_refused(uid, number, reason)
        self._pump()

    def on_detached(self, uid: int, number: int, goes: bool) -> None:
        taker = self._takers.get(number)
        if taker is not None:
            taker.gone = True
        if self._answered():
            self._sink.on_detached(uid, number, goes)
        self._forget_takers()
        self._pump()

    def _forget_takers(self) -> None:
        """Consumers that have gone, and of which the session could look at everything."""
        wanted = {int(told.number) for told in self._told}
        for number in [each for each, taker in self._takers.items() if taker.gone]:
            if number not in wanted:
                del self._takers[number]

    def on_activated(self, uid: int, number: int, active: bool) -> None:
        taker = self._takers.get(number)
        if taker is not None and taker.active != active and not self._ended:
            taker.active = active
            self._sink.on_activated(uid, number, active)

    def on_timed_out(self, uid: int, number: int, timeout_ms: int) -> None:
        taker = self._takers.get(number)
        if number > 0:
            if taker is None or not taker.attached or taker.gone:
                return
            del self._takers[number]
        elif self._getting is not None:
            self._getting = None
            if self._answered():
                self._sink.on_got(uid, 0, False, 0, 0)
            self._pump()
        self._told = deque([each for each in self._told if each.number != number])
        if not self._ended:
            own = -1 if taker is None else int(taker.timeout_ms)
            self._sink.on_timed_out(uid, number, own if own >= 0 and timeout_ms > 0 else timeout_ms)

    def on_drained(self, uid: int, number: int, delivery_count: int) -> None:
        taker = self._takers.get(number)
        if self._answered() and taker is not None:
            taker.next_seq = max(taker.next_seq, delivery_count + 1)
            self._sink.on_drained(uid, number, delivery_count)
        self._pump()

    def on_purged(self, uid: int, count: int) -> None:
        if self._answered():
            self._sink.on_purged(uid, count)
        self._pump()

    def on_inspected(self, uid: int, ready: int, consumer_count: int) -> None:
        if self._answered():
            self._sink.on_inspected(uid, ready, consumer_count)
        self._pump()

    def on_loaded(self, uid: int) -> None:
        self._answer_get()
        if self._wanted > 0 and not self._ended:
            self._wanted = 0
            self._sink.on_loaded(uid)

    def on_unreadable(self, uid: int) -> None:
        getting = self._getting
        if getting is not None:  # The session must know the message to settle it without a body.
            self._end_get(getting)
        if not self._ended:
            self._sink.on_unreadable(uid)
