"""Quorum queues as the sessions of this node see them, whoever leads them (0036, 0042).

A `RoamingProxy` is the `QueueHost` of such a queue; it has a `Strand` for each session that uses
it, and is told who leads (`leader`). While nobody does, everything waits. If this node leads, what
the strands send goes to its end as objects; else over the road to the node that does, as items.

`Roaming` has the proxies of a node, takes what leaders elsewhere say, and is told when a road has
lost what was under way (`lost`): then the strands resume, as with a leader that is new to them.

Bounded: publishes that are not known to be applied are kept, up to KEPT_BYTES_MAX for each queue;
beyond that, and while the road is full, the sessions that publish to it are held up. Compiled.
"""

from typing import Final, final

from mypy_extensions import i64

from queues.away.items import (
    ACTIVATED,
    APPLIED,
    ATTACH_REFUSED,
    ATTACHED,
    BODIES,
    CONFIRMS,
    COUNTED,
    DELIVERS,
    DETACHED,
    DRAINED,
    GONE,
    GOT,
    GOT_BODY,
    INSPECTED,
    NOT_LEADER,
    NUMBERED,
    PUBLISH,
    PURGED,
    REFUSED,
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
from queues.away.proxy import answer
from queues.away.seam import EndOfTurn, FindEnd, FindRoad, HomeEnd, Road
from queues.away.strand import Strand
from queues.commands import Command, SessionId
from queues.credit import QUEUE, CreditActor, CreditSpec
from queues.host import SessionSink, View
from queues.message import Chunk
from queues.streams import Resume

NOBODY: Final = 0  # no member has this id
KEPT_BYTES_MAX: Final = 64 << 20
GO_ON_BYTES: Final = KEPT_BYTES_MAX // 2
BRAKE_SPEC: Final = CreditSpec(1, 1)
ANSWERS: Final = frozenset(
    (
        *(DELIVERS, GOT, REFUSED, ATTACHED, ATTACH_REFUSED, DETACHED, ACTIVATED, TIMED_OUT),
        *(DRAINED, PURGED, INSPECTED, UNREADABLE),
    )
)


@final
class RoamingProxy:
    """A quorum queue, on a node of a cluster."""

    def __init__(
        self,
        uid: int,
        vhost: str,
        name: str,
        single_active: bool,
        spec: CreditSpec,
        roaming: "Roaming",
    ) -> None:
        self.uid: int = uid
        self.vhost = vhost
        self.name = name
        place = f"queue '{name}' in vhost '{vhost}'"
        self.credit = CreditActor(place, spec, None, QUEUE)
        self.is_gone = False
        self._single_active = single_active
        self._roaming = roaming
        self.member = NOBODY  # who leads
        self.term = 0  # in which; 0: nobody leads
        self.end: HomeEnd | None = None  # if that is this node
        self._road: Road | None = None  # if it is another
        self._strands: dict[SessionId, Strand] = {}
        self._kept_bytes: i64 = 0
        self._brake = CreditActor("commands that wait", BRAKE_SPEC)
        self._braked = False
        self._counts = (0, 0, 0)

    @property
    def quorum(self) -> bool:
        return True

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
        return set(self._strands)

    @property
    def kept_bytes(self) -> int:
        """Of publishes that are not known to be applied."""
        return self._kept_bytes

    # Handed down by sessions

    def publish(self, sink: SessionSink, chunk: Chunk, first_seq: i64) -> None:
        """See QueueHost."""
        sink.credit.send(self.credit, chunk.count())
        self._strand(sink).publish(chunk, first_seq)
        road = self._road
        if road is not None and road.is_held:
            road.hold(self.credit)

    def command(self, sink: SessionSink, command: Command) -> None:
        """See QueueHost."""
        self._strand(sink).command(command)

    def view(self, sink: SessionSink, first: i64, count: i64) -> View | None:
        """See QueueHost."""
        return self._strand(sink).view(first, count)

    def _strand(self, sink: SessionSink) -> Strand:
        strand = self._strands.get(sink.session)
        if strand is None:
            strand = Strand(sink, self)
            self._strands[sink.session] = strand
        return strand

    # Who leads

    def leader(self, member: int, term: int) -> None:
        """That node leads, in that term, and takes commands; NOBODY: none does that can be reached.

        News of an earlier term than one heard of is old.
        """
        if self.is_gone or (member != NOBODY and term < self.term):
            return
        self.member = member
        self.end = None
        self._road = None
        if member == NOBODY:
            for strand in list(self._strands.values()):
                strand.close()
            return
        self.term = term
        if member == self._roaming.member:
            self.end = self._roaming.find_end(self.uid)
        else:
            self._road = self._roaming.find_road(member)
        self.resume_all(False)

    @property
    def is_led(self) -> bool:
        return self.end is not None or self._road is not None

    def resume_all(self, refused_alone: bool) -> None:
        """All strands are to find out how far they have come, or those that were refused."""
        if not self.is_led:
            return
        for strand in list(self._strands.values()):
            if strand.is_refused or not refused_alone:
                strand.resume()

    # What strands need (StrandHome)

    def send_publish(
        self, session: SessionId, number: int, confirmed: int, chunk: Chunk, first_seq: int
    ) -> None:
        self._roaming.published_bytes += chunk.size()
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

    def send_taken(self, session: SessionId, byte_count: int) -> None:
        self._put([put_numbers(TAKEN, self.uid, session, byte_count)])

    def _put(self, parts: list[bytes]) -> None:
        road = self._road
        assert road is not None
        road.put(parts)

    def keeps(self, byte_count: int) -> None:
        self._kept_bytes += byte_count
        if self._kept_bytes >= KEPT_BYTES_MAX and not self._braked:
            self._braked = True
            self.credit.send(self._brake, 1)
        elif self._braked and self._kept_bytes <= GO_ON_BYTES:
            self._braked = False
            self._brake.ack(self.credit, 1)

    def over(self, strand: Strand) -> None:
        if self._strands.get(strand.session) is strand:
            del self._strands[strand.session]

    # From a leader on another node

    def take(self, member: int, item: Item) -> None:
        """An answer to one of the sessions. BadItem: it makes no sense."""
        if item.kind == COUNTED:
            ready, checked_out, consumers = item.numbers
            self._counts = (ready, checked_out, consumers)
            return
        strand = self._strands.get(item.session)
        if strand is None or member != self.member or self._road is None:
            return
        if item.kind == RESUMED:
            term, attempt, number = item.numbers
            if term == self.term:
                strand.resumed(attempt, number)
        elif item.kind == NOT_LEADER:
            if item.numbers[0] == self.term:
                strand.refused()
        elif strand.is_open:
            self._answer(strand, item)

    def _answer(self, strand: Strand, item: Item) -> None:
        kind = item.kind
        if kind in (BODIES, GOT_BODY):
            assert item.chunk is not None
            if kind == BODIES:
                strand.take_bodies(item.first, item.chunk)
            else:
                strand.take_got(item.first, item.chunk)
        elif kind == APPLIED:
            strand.on_applied(self.uid, item.numbers[0])
        elif kind == CONFIRMS:
            strand.on_confirms(self.uid, item.numbers[0])
        elif kind == RESEND:
            strand.resume()
        elif kind == GONE:
            strand.on_gone(self.uid)
        elif kind in ANSWERS:
            answer(strand, self.uid, item)
        else:
            raise BadItem(f"an item of kind {kind} for a session")

    # The end

    def delete(self) -> None:
        """The definition is gone."""
        self.is_gone = True
        strands = list(self._strands.values())
        self._strands = {}
        for strand in strands:
            strand.lose()
        self.credit.peer_down_everywhere()


@final
class Roaming:
    """The proxies of all quorum queues on a node of a cluster."""

    def __init__(
        self, member: int, find_end: FindEnd, find_road: FindRoad, turn: EndOfTurn
    ) -> None:
        self.member = member  # this node
        self.find_end = find_end
        self.find_road = find_road
        self.hosts: dict[int, RoamingProxy] = {}
        self.published_bytes: i64 = 0  # of messages that went to leaders on other nodes
        self._turn = turn

    def add(self, host: RoamingProxy) -> None:
        self.hosts[host.uid] = host

    def remove(self, uid: int) -> None:
        """The queue is deleted."""
        host = self.hosts.pop(uid, None)
        if host is not None:
            host.delete()

    def take(self, member: int, item: Item) -> None:
        """What a leader elsewhere says. BadItem: it makes no sense."""
        host = self.hosts.get(item.uid)
        if host is not None:
            host.take(member, item)

    def lost(self, member: int) -> None:
        """What was under way to that node and from it is lost."""
        for host in list(self.hosts.values()):
            if host.member == member:
                host.resume_all(False)

    def tick(self) -> None:
        """About once a second: those that were refused by a leader try again, in case that nobody
        tells them of another."""
        for host in list(self.hosts.values()):
            host.resume_all(True)
