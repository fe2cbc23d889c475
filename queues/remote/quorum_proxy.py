"""Quorum queues as the sessions of this node see them, whichever node leads them (0036).

A `QuorumProxy` is the `QueueHost` of such a queue; it has a `RemoteSession` for each session that
uses
it, and gets the leader (`leader`). Without a leader, everything waits. If this node leads, what
the sessions send goes to its end as objects; else to the node that does, as items.

`QuorumProxies` has the proxies of a node, takes what leaders elsewhere say, and is called when a
connection has
lost what was under way (`lost`): then the sessions resume, as with a leader that is new to them.

Bounded: publishes that are not known to be applied are kept, up to KEPT_BYTES_MAX for each queue;
beyond that, and while the connection is full, the sessions that publish to it are held up.
Compiled.
"""

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from queues.machine.commands import Command, ConsumerKey, EndSession, SessionId
from queues.machine.consuming.numbered_sessions import Resume
from queues.machine.fifo import Fifo
from queues.message import Chunk
from queues.queue_host import CancelSink, LeaderlessSink, QueueHost, SessionSink, View
from queues.remote.items import (
    ACTIVATED,
    APPLIED,
    ATTACH_REFUSED,
    ATTACHED,
    BODIES,
    CONFIRMS,
    CONFIRMS_HELD,
    COUNTED,
    DELIVERS,
    DETACHED,
    DRAINED,
    GONE,
    GOT,
    GOT_BODY,
    INSPECT,
    INSPECT_OK,
    INSPECTED,
    NOT_LEADER,
    NUMBERED,
    PUBLISH,
    PURGED,
    REFUSED,
    RELEASED,
    RESEND,
    RESUMED,
    TAKEN,
    TIMED_OUT,
    UNREADABLE,
    BadItem,
    Item,
    put_command,
    put_numbers,
    put_resume,
    put_run,
)
from queues.remote.moving import Moved
from queues.remote.proxy import Proxy, Tie, answer
from queues.remote.remote_interfaces import EndOfTurn, FindEnd, FindPeerRoute, HomeEnd, PeerRoute
from queues.remote.remote_session import RemoteSession
from queues.sessions.credit import QUEUE, CreditActor, CreditSpec

NO_MEMBER: Final = 0  # no member has this id
KEPT_BYTES_MAX: Final = 64 << 20
GO_ON_BYTES: Final = KEPT_BYTES_MAX // 2
PATIENCE_MS: Final = 15_000  # for a question without a leader
BRAKE_SPEC: Final = CreditSpec(1, 1)
ANSWERS: Final = frozenset(
    (
        *(DELIVERS, GOT, REFUSED, ATTACHED, ATTACH_REFUSED, DETACHED, ACTIVATED, TIMED_OUT),
        *(DRAINED, PURGED, INSPECTED, UNREADABLE),
    )
)


@final
class QuorumProxy:
    """A quorum queue, on a node of a cluster."""

    def __init__(
        self,
        uid: int,
        vhost: str,
        name: str,
        single_active: bool,
        spec: CreditSpec,
        quorum_proxies: "QuorumProxies",
        quorum: bool = True,
    ) -> None:
        self.uid: int = uid
        self.vhost = vhost
        self.name = name
        place = f"queue '{name}' in vhost '{vhost}'"
        self.credit = CreditActor(place, spec, None, QUEUE)
        self.is_gone = False
        self._single_active = single_active
        self._quorum = quorum  # False: it is a mirrored queue
        self._quorum_proxies = quorum_proxies
        self.member = NO_MEMBER  # who leads
        self.term = 0  # in which; 0: no leader
        self._led_by = NO_MEMBER  # who led last
        self._failover_sinks: dict[ConsumerKey, CancelSink] = {}
        self.end: HomeEnd | None = None  # if that is this node
        self._peer_route: PeerRoute | None = None  # if it is another
        self._remote_sessions: dict[SessionId, RemoteSession] = {}
        # Who serves sessions that used the queue before it had mirrors, as one of another node
        self.relayed: Proxy | None = None
        # The queue has no mirrors any more: it serves sessions that come to use it.
        self._successor: QueueHost | None = None
        self._ending: dict[SessionId, RemoteSession] = {}  # of those whose old home is gone
        self._kept_bytes: i64 = 0
        self._brake = CreditActor("commands that wait", BRAKE_SPEC)
        self._braked = False
        self._counts = (0, 0, 0)

    @property
    def quorum(self) -> bool:
        return self._quorum

    @property
    def single_active(self) -> bool:
        return self._single_active

    @property
    def ready_count(self) -> int:
        """Of a leader elsewhere as it has told it last, and so for the others."""
        return self._counts[0] if self.end is None else self.end.ready_count

    @property
    def checked_out_count(self) -> int:
        return self._counts[1] if self.end is None else self.end.checked_out_count

    @property
    def consumer_count(self) -> int:
        return self._counts[2] if self.end is None else self.end.consumer_count

    @property
    def sessions(self) -> set[SessionId]:
        """Those that use it, or whose end is still to be applied."""
        return set(self._remote_sessions)

    @property
    def kept_bytes(self) -> int:
        """Of publishes that are not known to be applied."""
        return self._kept_bytes

    # Handed down by sessions

    def publish(self, sink: SessionSink, chunk: Chunk, first_seq: i64) -> None:
        """See QueueHost."""
        relayed = self.relayed
        if relayed is not None and relayed.takes(sink.session):
            relayed.publish(sink, chunk, first_seq)
            return
        successor = self._successor_for(sink)
        if successor is not None:
            successor.publish(sink, chunk, first_seq)
            return
        if self.is_gone:  # Since the message was routed, some turns ago.
            sink.on_gone(self.uid)
            return
        sink.credit.send(self.credit, chunk.count())
        self._remote_session(sink).publish(chunk, first_seq)
        peer_route = self._peer_route
        if peer_route is not None and peer_route.is_held:
            peer_route.hold(self.credit)

    def command(self, sink: SessionSink, command: Command) -> None:
        """See QueueHost."""
        relayed = self.relayed
        if relayed is not None and relayed.takes(sink.session):
            relayed.command(sink, command)
            return
        if relayed is not None and isinstance(command, EndSession):
            relayed.end_moving(sink.session)
        successor = self._successor_for(sink)
        if successor is not None:
            successor.command(sink, command)
            return
        self._remote_session(sink).command(command)

    def view(self, sink: SessionSink, first: i64, count: i64) -> View | None:
        """See QueueHost."""
        relayed = self.relayed
        if relayed is not None and relayed.serves(sink.session):
            return relayed.view(sink, first, count)
        successor = self._successor_for(sink)
        if successor is not None:
            return successor.view(sink, first, count)
        return self._remote_session(sink).view(first, count)

    def _remote_session(self, sink: SessionSink) -> RemoteSession:
        remote_session = self._remote_sessions.get(sink.session)
        if remote_session is None:
            remote_session = RemoteSession(sink, self)
            self._remote_sessions[sink.session] = remote_session
        return remote_session

    def adopt(self, sink: SessionSink, machine: Fifo) -> None:
        """The session has used the queue while it was one of this node alone."""
        published = machine.last_seqs.of(sink.session)
        keys = machine.roster.of_session(sink.session)
        if published > 0 or len(keys) > 0:
            consumers = [machine.roster.consumers[key] for key in keys]
            self._remote_session(sink).adopt(published, consumers, machine.roster.active_key)

    def _successor_for(self, sink: SessionSink) -> QueueHost | None:
        """Who serves the session in place of this proxy, once an earlier use has ended."""
        session = sink.session
        if self._successor is None or session in self._remote_sessions or session in self._ending:
            return None
        return self._successor

    def succeed_by(self, successor: QueueHost | None) -> None:
        """The queue has no mirrors any more: the successor serves all sessions but those that use
        the queue now. None: it has mirrors again."""
        self._successor = successor

    def home_lost(self) -> None:
        """The node is lost that has the queue alone: its sessions are over."""
        for remote_session in self._all_sessions():
            remote_session.home_lost()

    @property
    def is_succeeded(self) -> bool:
        return self._successor is not None

    @property
    def led_by(self) -> int:
        """Who leads, or led last."""
        return self._led_by

    @property
    def is_in_use(self) -> bool:
        return len(self._remote_sessions) + len(self._ending) > 0 or self.relayed is not None

    def relay_by(self, proxy: Proxy | None) -> None:
        """See `queues.remote.proxy.Relay`."""
        self.relayed = proxy
        self.tell_unused()

    def tell_unused(self) -> None:
        """Say so when the last session has ended that needs the proxy of a plain queue."""
        if self._successor is not None and not self.is_in_use and not self.is_gone:
            self._quorum_proxies.on_unused(self.uid)

    def has(self, session: SessionId) -> bool:
        """See `queues.remote.proxy.Relay`."""
        return session in self._remote_sessions

    def begin_moving(self, sink: SessionSink) -> None:
        """See `queues.remote.proxy.Relay`."""
        self._remote_session(sink).wait_for_move()

    def moved(self, tie: Tie, moved: Moved) -> None:
        """See `queues.remote.proxy.Relay`."""
        remote_session = self._remote_session(tie.sink)
        remote_session.go_on(moved, tie)
        if self.is_led:
            remote_session.resume()

    def moving_lost(self, tie: Tie) -> bool:
        """See `queues.remote.proxy.Relay`."""
        remote_session = self._remote_sessions.get(tie.sink.session)
        if remote_session is None:
            return False
        remote_session.move_lost(tie.published)
        return True

    def hand_over(self, session: SessionId) -> Moved | None:
        """See `queues.remote.moving.Mirrored`."""
        remote_session = self._remote_sessions.get(session)
        if remote_session is None:
            return Moved(0, {}, {})
        moved = remote_session.hand_over()
        if moved is not None:
            moved.term = self.term
            self.over(remote_session.session, remote_session)
        return moved

    def end_session(self, sink: SessionSink) -> None:
        """See `queues.remote.proxy.Relay`."""
        ending = RemoteSession(sink, self)
        self._ending[sink.session] = ending
        ending.end_unknown()
        if self.is_led:
            ending.resume()

    def is_ending(self, session: SessionId) -> bool:
        """Whether an earlier use of the queue by the session has yet to end."""
        return session in self._ending

    # Who leads

    def leader(self, member: int, term: int) -> None:
        """That node leads, in that term, and takes commands; NO_MEMBER: no reachable node leads.

        News of an earlier term than one heard of is old.
        """
        if self.is_gone or (member != NO_MEMBER and term < self.term):
            return
        self.member = member
        self._counts = (self.ready_count, self.checked_out_count, self.consumer_count)
        self.end = None
        self._peer_route = None
        if member == NO_MEMBER:
            for remote_session in self._all_sessions():
                remote_session.close()
            return
        self.term = term
        if member == self._quorum_proxies.member:
            self.end = self._quorum_proxies.find_end(self.uid)
        else:
            self._peer_route = self._quorum_proxies.find_peer_route(member)
        self.resume_all(False)
        if self._led_by not in (NO_MEMBER, member):
            sinks, self._failover_sinks = self._failover_sinks, {}
            for key, sink in sinks.items():
                sink.on_cancelled(self.uid, key)
        self._led_by = member

    def watch_failover(self, key: ConsumerKey, sink: CancelSink) -> None:
        """Call the sink when another node leads."""
        self._failover_sinks[key] = sink

    def unwatch_failover(self, key: ConsumerKey) -> None:
        self._failover_sinks.pop(key, None)

    def watch_leader(
        self, session: SessionId, sink: LeaderlessSink, patience_ms: i64, awaits_confirms: bool
    ) -> None:
        """Tell the sink if what the session has just asked waits for so long (0: as long as usual)
        without a leader; if `awaits_confirms`, also if its publishes do."""
        remote_session = self._remote_sessions.get(session)
        if remote_session is not None:
            usual: i64 = self._quorum_proxies.patience_ms
            patience_ms = patience_ms if patience_ms > 0 else usual
            remote_session.watch_leader(sink, patience_ms, awaits_confirms)

    def withdraw_publishes(self, session: SessionId) -> None:
        """The session is about to end: forget what it has published and no leader can have got."""
        remote_session = self._remote_sessions.get(session)
        if remote_session is not None:
            remote_session.withdraw_publishes()

    def look_at_time(self, now_ms: i64) -> None:
        """About once a second."""
        for remote_session in list(self._remote_sessions.values()):
            remote_session.look_at_time(now_ms)

    @property
    def is_led(self) -> bool:
        return self.end is not None or self._peer_route is not None

    def resume_all(self, refused_alone: bool) -> None:
        """All sessions are to find out how far they have come, or those that were refused."""
        if not self.is_led:
            return
        for remote_session in self._all_sessions():
            if remote_session.is_refused or not refused_alone:
                remote_session.resume()

    # What remote sessions need (RemoteSessionHome)

    def send_publish(
        self, session: SessionId, number: int, confirmed: int, chunk: Chunk, first_seq: int
    ) -> None:
        self._quorum_proxies.published_bytes += chunk.size()
        run = put_run(PUBLISH, self.uid, session, first_seq, chunk, 0, chunk.count())
        self._put([self._address(session, number, confirmed), *run])

    def send_command(
        self, session: SessionId, number: int, confirmed: int, command: Command
    ) -> None:
        item = put_command(self.uid, session, command)
        self._put([self._address(session, number, confirmed), item])

    def _address(self, session: SessionId, number: int, confirmed: int) -> bytes:
        return put_numbers(NUMBERED, self.uid, session, self.term, number, confirmed)

    def send_resume(self, attempt: int, wanted: Resume) -> None:
        self._put([put_resume(self.uid, self.term, attempt, wanted)])

    def send_inspect(self, session: SessionId) -> None:
        self._put([put_numbers(INSPECT, self.uid, session, self.term)])

    def send_taken(self, session: SessionId, byte_count: int) -> None:
        self._put([put_numbers(TAKEN, self.uid, session, byte_count)])

    def _put(self, parts: list[bytes]) -> None:
        peer_route = self._peer_route
        assert peer_route is not None
        peer_route.put(parts)

    def keeps(self, byte_count: int) -> None:
        self._kept_bytes += byte_count
        if self._kept_bytes >= KEPT_BYTES_MAX and not self._braked:
            self._braked = True
            self.credit.send(self._brake, 1)
        elif self._braked and self._kept_bytes <= GO_ON_BYTES:
            self._braked = False
            self._brake.ack(self.credit, 1)

    def _all_sessions(self) -> list[RemoteSession]:
        return [*self._ending.values(), *self._remote_sessions.values()]

    def over(self, session: SessionId, remote_session: object) -> None:
        if self._ending.get(session) is remote_session:
            del self._ending[session]
            following = self._remote_sessions.get(session)
            if following is not None:
                following.begin()
        elif self._remote_sessions.get(session) is remote_session:
            del self._remote_sessions[session]
        self.tell_unused()

    # From a leader on another node

    def take(self, member: int, item: Item) -> None:
        """An answer to one of the sessions. BadItem: it makes no sense."""
        if item.kind == COUNTED:
            ready, checked_out, consumers = item.numbers
            self._counts = (ready, checked_out, consumers)
            return
        remote_session = self._ending.get(item.session)
        if remote_session is None:
            remote_session = self._remote_sessions.get(item.session)
        if remote_session is None or member != self.member or self._peer_route is None:
            return
        if item.kind == RESUMED:
            term, attempt, number = item.numbers
            if term == self.term:
                remote_session.resumed(attempt, number)
        elif item.kind == NOT_LEADER:
            if item.numbers[0] == self.term:
                remote_session.refused()
        elif remote_session.is_open:
            self._answer(remote_session, item)

    def _answer(self, remote_session: RemoteSession, item: Item) -> None:
        kind = item.kind
        if kind in (BODIES, GOT_BODY):
            assert item.chunk is not None
            if kind == BODIES:
                remote_session.take_bodies(item.first, item.chunk)
            else:
                remote_session.take_got(item.first, item.chunk)
        elif kind == APPLIED:
            remote_session.on_applied(self.uid, item.numbers[0])
        elif kind in (CONFIRMS, CONFIRMS_HELD):
            remote_session.confirmed(self.uid, item.numbers[0], kind == CONFIRMS_HELD)
        elif kind == RELEASED:
            remote_session.grant()
        elif kind == INSPECT_OK:
            remote_session.on_inspect_ok(self.uid, item.numbers[0], item.numbers[1])
        elif kind == RESEND:
            remote_session.resume()
        elif kind == GONE:
            remote_session.on_gone(self.uid)
        elif kind in ANSWERS:
            answer(remote_session, self.uid, item)
        else:
            raise BadItem(f"an item of kind {kind} for a session")

    # The end

    def delete(self) -> None:
        """The definition is gone."""
        self.is_gone = True
        remote_sessions = self._all_sessions()
        self._remote_sessions = {}
        self._ending = {}
        for remote_session in remote_sessions:
            remote_session.lose()
        self.credit.peer_down_everywhere()


def ignore(uid: int) -> None:
    return


@final
class QuorumProxies:
    """The proxies of all quorum queues on a node of a cluster."""

    def __init__(
        self,
        member: int,
        find_end: FindEnd,
        find_peer_route: FindPeerRoute,
        turn: EndOfTurn,
        patience_ms: int = PATIENCE_MS,
    ) -> None:
        self.member = member  # this node
        self.find_end = find_end
        self.find_peer_route = find_peer_route
        self.hosts: dict[int, QuorumProxy] = {}
        self.published_bytes: i64 = 0  # of messages that went to leaders on other nodes
        self.on_unused: Callable[[int], None] = ignore  # uid: no session needs that proxy any more
        self.patience_ms: i64 = patience_ms
        self._turn = turn

    def add(self, host: QuorumProxy) -> None:
        self.hosts[host.uid] = host

    def remove(self, uid: int) -> None:
        """The queue is deleted."""
        host = self.hosts.pop(uid, None)
        if host is not None:
            host.delete()

    def forget(self, uid: int) -> None:
        """The queue has no mirrors any more, and no session needs the proxy: its successor serves
        those that still know it."""
        self.hosts.pop(uid, None)

    def take(self, member: int, item: Item) -> None:
        """What a leader elsewhere says. BadItem: it makes no sense."""
        host = self.hosts.get(item.uid)
        if host is not None:
            host.take(member, item)

    def lost(self, member: int) -> None:
        """What was under way to that node and from it is lost."""
        for host in list(self.hosts.values()):
            if host.is_succeeded and host.led_by == member:
                host.home_lost()
            elif host.member == member:
                host.resume_all(False)

    def tick(self, now_ms: i64) -> None:
        """About once a second: those that were refused by a leader try again, in case that no node
        reports another; those that waited too long for one hear that. `now_ms` is monotonic."""
        for host in list(self.hosts.values()):
            host.resume_all(True)
            host.look_at_time(now_ms)
