"""A stream on a node that has a member of its group.

The leader makes one entry of what a turn brought: commands and the messages that they publish. The
entry is durable on a majority when it is committed, and publishers get their confirms then. Every
member appends the messages of a committed entry to its segments, as one chunk, and serves consumers
of its own node from there: so a consumer never sees a message that is not committed. Segments are
written behind; now and then they are synced, and the snapshot of the group is the machine and the
segments as they are then. After a crash the entries behind it are applied again.

Members cut segments by the time of entries, so all cut at the same entry. While no publish arrives,
the leader proposes an entry without commands when a segment becomes older than `max-age`.

Sessions of all nodes publish through `hand_down` (`queues.remote.remote_interfaces.HomeEnd`).
Keeps `raft.log_group.GroupOwner`; owns the machine, the segments' log and the tail.

    member = StreamMember(node, queue, turn, shelf, disks, credit)
    member.begin_new(config, appended_term, birth, done) | member.load(standing, state)
    member.join(group)
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from queues.hosts.host_interfaces import Steps
from queues.hosts.quorum_snapshot import Shelf, Standing
from queues.machine.commands import (
    GROUP_CONSUMER,
    Command,
    EndProcess,
    EndSession,
    Leads,
    Numbered,
    SessionId,
)
from queues.machine.consuming.numbered_sessions import Resume, Resumed
from queues.machine.expiry import FAR
from queues.message import Chunk
from queues.queue_host import SessionSink, View
from queues.remote.remote_interfaces import StreamSink
from queues.sessions.credit import CreditActor
from queues.streams.entry import Batch, Owed, decode_entry, encode_entry
from queues.streams.filtering import values_of
from queues.streams.machine import Outcome, StreamMachine, restored_machine
from queues.streams.offloading import Offloader, decode_change, is_change
from queues.streams.settings import StreamSettings
from queues.streams.storage import Disks, decode_state, encode_state, pieces
from queues.streams.tail import Tail
from queues.streams.transfer import SLICE_BYTES, IncomingFiles, OutgoingFiles, SliceDone
from raft.entries import COMMAND, CONFIG, Config, Entry, SnapshotPoint
from raft.group import Group, WantedMembers
from raft.messages import SnapshotSlice
from raft.ready import Lead
from raft.status import Status
from warren.storage.record import CorruptRecord
from warren.storage.streams.chunk_format import ChunkHead, bloom_of
from warren.storage.streams.log import nothing
from warren.storage.streams.segments import Segment

SNAPSHOT_ENTRIES: Final = 4096
SNAPSHOT_BYTES: Final = 32 << 20  # of entries
LATE: Final = 16  # times as much, while another member gets the last snapshot
CAMPAIGN_MS: Final = 50
CAMPAIGNS: Final = 20
RETRY_MS: Final = 20  # until what the group did not take is proposed again
CHANGE_MS: Final = 200  # until a change of the members that was refused is tried again
EXPIRY_MS: Final = 10_000  # between entries that only pass on the time
UNWRITTEN_MAX: Final = 64 << 20  # bytes that wait for the segments: then publishers wait

OnLead = Callable[[int, int, int, bool], None]  # uid, leader or 0, term, leads here and is ready


class Expiry:
    """When segments are cut for their age, and whether their files are still there."""

    __slots__ = ("due_ms", "has_cut", "is_woken", "proposed_ms")

    def __init__(self) -> None:
        self.due_ms: int = FAR  # for this leader to propose an entry that has members cut
        self.proposed_ms = 0  # when it last did
        self.is_woken = False  # by a timer, since the last step
        self.has_cut = False  # the files of segments wait for a snapshot


class StreamMember:
    """See the module. Invariant: what was handed down and is not proposed is there only while
    `term` is set."""

    def __init__(
        self,
        node: int,
        uid: int,
        vhost: str,
        name: str,
        turn: Steps,
        shelf: Shelf,
        disks: Disks,
        credit: CreditActor,
        settings: StreamSettings,
        snapshot_entries: int = SNAPSHOT_ENTRIES,
        slice_bytes: int = SLICE_BYTES,
    ) -> None:
        self.node = node
        self.uid = uid
        self.vhost = vhost
        self.name = name
        self.credit = credit
        self.settings = settings
        self.term = 0
        self.leader = 0
        self.on_lead: OnLead | None = None
        self.on_left: Callable[[int], None] | None = None
        self.reborn_term = 0
        self.applied_index = 0
        self.fault = ""  # why its files cannot be used; it takes no part then
        self.published_count = 0
        self.consumer_count = 0  # on this node
        self.delivered_count = 0
        self.machine = StreamMachine()
        self.tail = Tail()
        self.is_gone = False
        self.watchers: list[Callable[[], None]] = []  # called when there is more to read
        self._turn = turn
        self._shelf = shelf
        self._disks = disks
        self._snapshot_entries = snapshot_entries
        self._slice_bytes = slice_bytes  # of a snapshot for another member
        self._generation = 1
        self._files = disks.files(uid, 1)
        self.log = disks.log(self._files, (), 0, settings.segment_bytes)
        self.log.on_written = self._written
        self._group: Group | None = None
        self._birth = b""
        self._wanted = WantedMembers(node)
        self._sinks: dict[SessionId, StreamSink] = {}
        self._inspects: list[StreamSink] = []  # to be answered in the next step
        self._waiting = Batch([], [], [])
        self._open: deque[Batch] = deque()
        self._withheld: Owed = []
        self._marked = self._is_saving = False
        self._campaigns = self._unsaved_bytes = 0
        self._expiry = Expiry()
        self.offloader = Offloader(
            uid, disks.store, self._mark, lambda at: turn.wake_host(self, at)
        )
        self._saved: OutgoingFiles | None = None
        self._incoming: IncomingFiles | None = None
        self._loss_saved: Callable[[], None] | None = None

    # What listings and sessions see

    @property
    def is_leading(self) -> bool:
        return self.term > 0

    @property
    def first_offset(self) -> int:
        return self.log.first_offset

    @property
    def next_offset(self) -> int:
        """Of the next message that is committed."""
        return self.log.end_offset

    @property
    def last_chunk_offset(self) -> int:
        """Of the first message of the last chunk; the next offset if there is none."""
        return self.machine.last_chunk if self.ready_count > 0 else self.next_offset

    def find_time(
        self, timestamp_ms: int, done: Callable[[int], None], failed: Callable[[Exception], None]
    ) -> None:
        """Find the first chunk that is not older. `done` may be called at once."""
        self.log.find_time(timestamp_ms, done, failed)

    @property
    def ready_count(self) -> int:
        return self.next_offset - self.first_offset

    @property
    def checked_out_count(self) -> int:
        return 0

    def status(self) -> Status | None:
        return None if self._group is None else self._group.raft.status()

    def configure(self, settings: StreamSettings) -> None:
        """Arguments and policies say this from now on."""
        self.settings = settings
        self.log.segment_bytes = settings.segment_bytes
        self.retain(self.machine.last_ms)
        self.offloader.retry_now()

    # HomeEnd

    def hand_down(self, sink: StreamSink, command: Command, chunk: Chunk | None) -> bool:
        """See HomeEnd."""
        if self.term == 0:
            return False
        self._adopt(sink)
        waiting = self._waiting
        waiting.commands.append(command)
        if chunk is not None:
            count = int(chunk.count())
            sink.credit.send(self.credit, count)
            waiting.chunks.append(chunk.twin())  # Its owner may let go of the bytes.
            waiting.owed.append((sink.credit, count))
        self._mark()
        return True

    def resume(self, sink: StreamSink, wanted: Resume) -> Resumed | None:
        """See HomeEnd."""
        if self.term == 0:
            return None
        self._adopt(sink)
        return self.machine.resume(wanted)

    def inspect(self, sink: StreamSink) -> bool:
        """See HomeEnd."""
        if self.term == 0:
            return False
        self._inspects.append(sink)
        self._mark()
        return True

    def _answer_inspects(self) -> None:
        sinks, self._inspects = self._inspects, []
        for sink in sinks:
            sink.on_inspect_ok(self.uid, self.ready_count, self.consumer_count)

    def view(self, sink: SessionSink, first: int, count: int) -> View | None:
        """See HomeEnd. Consumers read on their own node, not here."""
        return None

    def _adopt(self, sink: StreamSink) -> None:
        known = self._sinks.get(sink.session)
        if known is not sink:
            if known is not None:
                self.forget_sink(sink.session)
            self._sinks[sink.session] = sink

    def forget_sink(
        self, session: SessionId, sink: StreamSink | None = None, is_cut_off: bool = False
    ) -> None:
        self._inspects = [sink for sink in self._inspects if sink.session != session]
        if (known := self._sinks.pop(session, None)) is not None:
            self.credit.peer_down(known.credit)
            known.credit.peer_down(self.credit)

    def processes(self) -> set[int]:
        """Of all sessions that publish, also of those that have yet to be applied."""
        batches = (*self._open, self._waiting)
        return self.machine.processes().union(*(batch.processes() for batch in batches))

    def suspended(self) -> set[int]:
        """Publishers hold no messages: none is ever suspended."""
        return set()

    def order(self, command: Command) -> bool:
        """A command of the cluster. Of those, only the end of a process matters to a stream."""
        if self.term == 0:
            return False
        if isinstance(command, EndProcess):
            self._waiting.commands.append(command)
            self._mark()
        return True

    # The turn

    def _mark(self) -> None:
        if not self._marked:
            self._marked = True
            self._turn.mark_host(self)

    def on_timer(self) -> None:
        self._expiry.is_woken = True
        self._mark()

    def step(self, now_ms: int) -> None:
        """Make an entry of what was handed down."""
        self._marked = False
        group = self._group
        if group is None or self.is_gone:
            return
        if self.term == 0:
            self._campaign(group, now_ms)
        else:
            self._propose(group, now_ms)
        if self._expiry.has_cut:
            self._remove_expired(group, now_ms)

    def _propose(self, group: Group, now_ms: int) -> None:
        if self._wanted.is_refused:
            self._turn.wake_host(self, now_ms + CHANGE_MS)
            self._follow()
        self._answer_inspects()
        if now_ms >= self._expiry.due_ms:
            self._propose_expiry(group, now_ms)
        elif self._expiry.is_woken and self._expiry.due_ms < FAR:
            # Timers wake a host once, and it was for something earlier.
            self._turn.wake_host(self, self._expiry.due_ms)
        self._expiry.is_woken = False
        self.offloader.step(self.log, self.settings, group, now_ms)
        batch = self._waiting
        if not batch.commands or group.raft.term != self.term:
            return
        batch.remember_ids(self.machine.duplicates.limit, self.settings.ids_max)
        place = group.propose(encode_entry(now_ms, batch.commands, batch.chunks))
        if place is None:  # Too much is under way, or a transfer; or `lead` is about to tell.
            self._turn.wake_host(self, now_ms + RETRY_MS)
            return
        batch.now_ms = now_ms
        batch.place = place
        self._open.append(batch)
        self._waiting = Batch([], [], [])

    # Segments that expire

    def _plan_expiry(self) -> None:
        """Wake the leader when the first segment becomes too old."""
        self._expiry.due_ms = FAR
        expiry_ms = self.log.expiry_ms(self.settings.age_max_ms)
        if self.term > 0 and expiry_ms is not None:
            self._expiry.due_ms = max(expiry_ms, self._expiry.proposed_ms + EXPIRY_MS)
            self._turn.wake_host(self, self._expiry.due_ms)

    def _propose_expiry(self, group: Group, now_ms: int) -> None:
        """Have all members cut at the same entry, whatever their clocks say."""
        self._expiry.proposed_ms = now_ms
        self._plan_expiry()  # Try again if this entry is lost.
        if group.raft.term == self.term:
            group.propose(encode_entry(now_ms, (), ()))
        self.offloader.look()

    def _remove_expired(self, group: Group, now_ms: int) -> None:
        """Take the snapshot that lets files of cut segments be removed; an idle stream takes no
        other one."""
        self._take_snapshot(group)
        if self._expiry.has_cut:  # Another snapshot is being written, or the entry is not durable.
            self._turn.wake_host(self, now_ms + EXPIRY_MS)
            if self.term > 0 and self.applied_index == group.raft.snapshot_index:
                group.propose(encode_entry(now_ms, (), ()))  # A snapshot needs a new index.

    # GroupOwner: the log

    def store(self, entry: Entry) -> None:
        """All of an entry is in the log."""

    def truncated(self, index: int) -> None:
        """Only what is committed is in the segments."""

    def reattach(self, entries: Sequence[Entry], done: Callable[[Sequence[Entry]], None]) -> None:
        done(entries)

    def apply(self, entries: Sequence[Entry]) -> None:
        group = self._group
        assert group is not None
        for entry in entries:
            self.applied_index = entry.index
            self._unsaved_bytes += int(entry.byte_count)
            if entry.kind == COMMAND:
                self._apply(entry)
            elif entry.kind == CONFIG:
                self._settle_members(group)
                if self._group is None:
                    return  # This node was removed, and has left.
        self._take_snapshot(group)
        for watcher in self.watchers:
            watcher()

    def _apply(self, entry: Entry) -> None:
        if is_change(entry.parts[0]):
            self._apply_change(entry)
            return
        batch = self._batch_of(entry)
        if batch is not None:
            now_ms, commands, chunks = batch.now_ms, batch.commands, batch.chunks
        else:
            now_ms, commands, chunks = decode_entry(b"".join(entry.parts))
        outcome = self.machine.apply(now_ms, commands, chunks)
        if outcome.chunks:
            self._append(entry, outcome)
        elif not commands:
            self.retain(outcome.now_ms)
        if batch is not None:
            self._give_back(batch.owed)
        if self.term > 0:
            self._tell(commands, outcome)

    def _apply_change(self, entry: Entry) -> None:
        """Other segments are in the object store: files of theirs may go."""
        now_ms, change = decode_change(b"".join(entry.parts))
        has_removed = self.machine.offload(now_ms, change)
        self.log.offloaded = self.machine.offloaded
        self._expiry.has_cut = self.log.trim(change.upto) or self._expiry.has_cut
        self.retain(self.machine.last_ms)
        self.offloader.applied(has_removed)
        self._mark()

    def _batch_of(self, entry: Entry) -> Batch | None:
        """What was proposed here for this place, if it is what came to be there."""
        if not self._open or self._open[0].place != (entry.index, entry.term):
            return None
        return self._open.popleft()

    def _append(self, entry: Entry, outcome: Outcome) -> None:
        payload = encode_entry(outcome.now_ms, (), outcome.chunks)
        size = sum(map(len, payload))
        head = ChunkHead(
            outcome.first_offset,
            outcome.count,
            outcome.now_ms,
            int(entry.term),
            size,
            bloom_of(values_of(outcome.chunks), self.settings.filter_bytes),
        )
        begins_segment = self.log.append(head, payload)
        self.tail.append(outcome.first_offset, outcome.chunks, outcome.now_ms)
        self.tail.trim(self.log.written_offset)
        self.published_count += outcome.count
        if begins_segment:
            self.retain(outcome.now_ms)
            self.offloader.look()

    def retain(self, now_ms: int) -> None:
        """Cut segments that the limits do not allow any more."""
        count = 0
        if not self.offloader.is_busy:  # It must not be cut while it is uploaded.
            count = self.log.retain(self.settings.bytes_max, self.settings.age_max_ms, now_ms)
        if self.log.drop_offloaded(self.settings.local_bytes_max) or count > 0:
            self._expiry.has_cut = True
            self._mark()
        self._plan_expiry()

    def _give_back(self, owed: Owed) -> None:
        """Grant credit again, unless the disk is behind."""
        if self._withheld or self.log.pending_bytes > UNWRITTEN_MAX:
            self._withheld.extend(owed)
            return
        for sender, count in owed:
            self.credit.ack(sender, count)

    def _written(self) -> None:
        self.tail.trim(self.log.written_offset)
        if self._withheld and self.log.pending_bytes <= UNWRITTEN_MAX // 2:
            owed, self._withheld = self._withheld, []
            self._give_back(owed)
        for watcher in self.watchers:
            watcher()

    def _tell(self, commands: Sequence[Command], outcome: Outcome) -> None:
        """Tell the sessions, as their leader."""
        known = self._sinks.get
        for session, upto in outcome.confirmed:
            if (sink := known(session)) is not None:
                sink.on_confirms(self.uid, upto)
        for answer in outcome.answers:
            if (sink := known(answer.session)) is not None:
                sink.on_inspected(self.uid, int(answer.ready), 0)
        for session, number in outcome.applied:
            if (sink := known(session)) is not None:
                sink.on_applied(self.uid, number)
        for session, is_active in outcome.activated:
            if (sink := known(session)) is not None:
                sink.on_activated(self.uid, GROUP_CONSUMER, is_active)
        for session in outcome.resend:
            if (sink := known(session)) is not None:
                sink.on_resend(self.uid)
        for session in outcome.ended:
            sink = known(session)
            self.forget_sink(session)
            if sink is not None:
                sink.on_gone(self.uid)
        for command in commands:
            session = ended_by(command)
            if session in self._sinks and session not in self.machine.sessions.by_session:
                self.forget_sink(session)

    def outcome(self, first: int, last: int, term: int, outcome: int) -> None:
        """Sessions send again to the next leader what was lost."""
        while self._open and self._open[0].place[0] <= last:
            if self._open[0].place[1] > term:
                return
            self._open.popleft()

    # GroupOwner: who leads

    def lead(self, lead: Lead) -> None:
        leads = lead.is_ready and lead.leader == self.node
        if self.term > 0 and (not leads or lead.term != self.term):
            self._step_down()
        self.leader = lead.leader
        if lead.leader != 0:
            self._campaigns = 0
        if leads and self.term == 0:
            self._take_over(int(lead.term))
        if self.on_lead is not None:
            self.on_lead(self.uid, int(self.leader), int(lead.term), self.term > 0)

    def _take_over(self, term: int) -> None:
        """All that older leaders have committed is applied here."""
        self.term = term
        commands: list[Command] = [Leads(term)]
        if self.machine.led_term < self.reborn_term:  # What sessions know of it may be lost.
            commands.extend(EndSession(each) for each in sorted(self.machine.sessions.by_session))
        self._waiting.commands[:0] = commands
        self._mark()
        self._plan_expiry()
        self.offloader.lead(term)
        self._follow()

    def _step_down(self) -> None:
        """Sessions go to the next leader with what was handed down."""
        self.term = 0
        self.offloader.follow()
        self._waiting = Batch([], [], [])
        self._withheld = []
        sinks, self._sinks = self._sinks, {}
        sinks.update({sink.session: sink for sink in self._inspects})
        self._inspects = []
        self.credit.peer_down_everywhere()
        for sink in sinks.values():
            sink.on_leader_lost(self.uid)

    def campaign_first(self) -> None:
        """The stream is new, and is to begin here: stand, until there is a leader."""
        self._campaigns = CAMPAIGNS
        self._mark()

    def _campaign(self, group: Group, now_ms: int) -> None:
        if self._campaigns > 0 and self.leader == 0:
            self._campaigns -= 1
            group.campaign()
            self._turn.wake_host(self, now_ms + CAMPAIGN_MS)

    def transfer(self, member: int) -> bool:
        """Have another member lead; False: it cannot be tried here."""
        return self._group is not None and self._group.transfer(member)

    # Members

    def rebirth(self, term: int) -> None:
        """See `QuorumMember.rebirth`."""
        self.reborn_term = term

    def follow(self, members: tuple[int, ...]) -> None:
        """The definitions name these as members."""
        self._wanted.members = members
        self._follow()

    def is_wanted(self, node: int) -> bool:
        return self._wanted.has(node)

    def configured(self, config: Config) -> None:
        """What counts comes with `apply`."""

    def _settle_members(self, group: Group) -> None:
        """A change of the members is committed."""
        if self.node in group.raft.config.members() or self.is_wanted(self.node):
            self._follow()
        elif self.on_left is not None:
            self.on_left(self.uid)

    def _follow(self) -> None:
        """Take one step to the members that are wanted, if this node leads; later if refused."""
        group, wanted = self._group, self._wanted
        if group is None or self.term == 0:
            return
        was_refused = wanted.is_refused
        wanted.approach(group)
        if wanted.is_refused and not was_refused:
            self._mark()

    # GroupOwner: snapshots

    def _take_snapshot(self, group: Group) -> None:
        behind = self.applied_index - group.raft.snapshot_index
        share = LATE if group.raft.is_sending_snapshot else 1
        is_due = behind >= share * self._snapshot_entries
        is_due = is_due or self._unsaved_bytes >= share * SNAPSHOT_BYTES
        is_due = is_due or (self._expiry.has_cut and share == 1 and behind > 0)
        if not is_due or self._is_saving or group.raft.snapshot_limit < self.applied_index:
            return
        self._is_saving = True
        self._unsaved_bytes = 0
        self._expiry.has_cut = False
        point = group.snapshot_point(self.applied_index)
        machine = self.machine.state()
        generation = self._generation

        def synced(segments: Sequence[Segment]) -> None:
            if not self.is_gone and generation == self._generation:
                state = encode_state(generation, machine, segments)
                self._save(point, state, segments)

        self.log.checkpoint(synced)

    def _save(
        self,
        point: SnapshotPoint,
        state: bytes,
        segments: Sequence[Segment],
        done: Callable[[], None] | None = None,
    ) -> None:
        """Write the snapshot; its segments are durable."""
        generation = self._generation
        standing = Standing(point, decode_state(state)[1].next_offset + 1, self._birth)
        writer = self._shelf.begin(self.uid, int(point.index), standing.encode())
        for piece in pieces(state):
            writer.add([piece])

        def saved() -> None:
            if self.is_gone or generation != self._generation:
                return
            self._is_saving = False
            self._saved = self._outgoing(int(point.index), state, segments)
            self.log.recorded(segments)
            if done is not None:
                done()
            elif self._group is not None:
                self._group.snapshot_taken(point)
            self._tell_loss_saved()

        writer.commit(saved)

    def _outgoing(self, index: int, state: bytes, segments: Sequence[Segment]) -> OutgoingFiles:
        files, step = self._files, self._slice_bytes
        return OutgoingFiles(self._disks, files, index, state, segments, step)

    def read_slice(self, index: int, number: int, done: SliceDone) -> None:
        saved = self._saved
        if saved is None or saved.index != index:
            done(None, False)
            return
        saved.read_slice(number, done)

    def stage(
        self, piece: SnapshotSlice, point: SnapshotPoint | None, done: Callable[[], None]
    ) -> None:
        if piece.slice_number == 0:
            self.drop_staged()
            files = self._disks.files(self.uid, self._generation + 1)
            self._incoming = IncomingFiles(self._disks, files)
        incoming = self._incoming
        assert incoming is not None

        def staged() -> None:
            if self._incoming is not incoming:
                return
            if point is None:
                done()
            else:
                incoming.sync(lambda: self._install(incoming, point, done))

        incoming.take(b"".join(piece.parts), staged)

    def _install(
        self, incoming: IncomingFiles, point: SnapshotPoint, done: Callable[[], None]
    ) -> None:
        """All of it is durable: have it count in place of what is here."""
        if self.is_gone or self._incoming is not incoming:
            return
        _, state, segments = decode_state(incoming.state)
        self._incoming = None
        self._is_saving = True
        old, self._files = self.log, incoming.files
        self._generation += 1
        own = encode_state(self._generation, state, segments)

        def installed() -> None:
            old.close()
            self._keep_only(segments)
            self._use(restored_machine(state), segments)
            self.applied_index = int(point.index)
            done()
            self._written()

        self._save(point, own, segments, installed)

    def _keep_only(self, segments: Sequence[Segment]) -> None:
        """Remove the files of the last generation."""
        files = self._files

        def work() -> Callable[[], None]:
            files.keep_only(segments)
            return nothing

        self._disks.write(work)

    def _use(self, machine: StreamMachine, segments: Sequence[Segment]) -> None:
        self.machine = machine
        self._expiry.has_cut = False
        self.tail.clear()
        size = self.settings.segment_bytes
        self.log = self._disks.log(self._files, segments, machine.next_offset, size)
        self.log.offloaded = machine.offloaded
        self.log.on_written = self._written

    def drop_staged(self) -> None:
        incoming, self._incoming = self._incoming, None
        if incoming is None:
            return
        files = incoming.files

        def work() -> Callable[[], None]:
            files.discard()
            return nothing

        self._disks.write(work)

    # Beginning and end

    def begin_new(
        self, config: Config, appended_term: int, birth: bytes, done: Callable[[], None]
    ) -> None:
        """A member that is new; see `QuorumMember.begin_new`."""
        self._birth = birth
        self._files.open(())  # Of an earlier member nothing is wanted.
        point = SnapshotPoint(0, 0, appended_term, config)
        self._is_saving = True
        self._save(point, encode_state(self._generation, self.machine.state(), ()), (), done)

    def begin_again(self, point: SnapshotPoint, birth: bytes, done: Callable[[], None]) -> None:
        """The log was damaged, and this was the only member: go on with what the segments have."""
        self._birth = birth
        self.applied_index = int(point.index)
        self._is_saving = True
        state = encode_state(self._generation, self.machine.state(), self.log.segments)
        self._save(point, state, tuple(self.log.segments), done)

    def load(self, standing: Standing, slices: Sequence[bytes]) -> None:
        """The node starts: the newest snapshot. ValueError: it is none."""
        content = b"".join(slices)
        generation, machine, segments = decode_state(content)
        self._birth = standing.birth
        self.applied_index = int(standing.point.index)
        self._generation = generation
        self._files = self._disks.files(self.uid, generation)
        try:
            self._files.open(segments)
        except (CorruptRecord, OSError) as error:
            self.fault = str(error)
        self._use(restored_machine(machine), segments)
        index = int(standing.point.index)
        self._saved = self._outgoing(index, content, segments)

    def drop_damaged(self) -> None:
        """An operator accepts the loss: go on with the segments whose files are whole. A crash
        before the next snapshot brings the damage back (`when_loss_is_saved`)."""
        self.fault = ""
        kept = self._files.open_whole(self.log.segments)
        self._use(self.machine, kept)
        self._expiry.has_cut = True  # The next start must not miss them again.
        self._saved = None

    def when_loss_is_saved(self, done: Callable[[], None]) -> None:
        """Call back when the loss is durable, or the member has left the group."""
        self._loss_saved = done
        if self._group is None:
            self._tell_loss_saved()

    def _tell_loss_saved(self) -> None:
        done, self._loss_saved = self._loss_saved, None
        if done is not None:
            done()

    def recovered(self) -> None:
        """All was found."""

    def join(self, group: Group) -> None:
        """Take part in the group (`RaftHost.add`)."""
        self._group = group
        self._mark()

    def part(self) -> None:
        """The group has restarted without this member."""
        if self.term > 0:
            self._step_down()
        self.leader = 0
        self._group = None
        self._open.clear()
        self._tell_loss_saved()

    def leave(self) -> None:
        """The stream is deleted, or the group has no member here any more."""
        self.part()
        self.is_gone = True
        self.drop_staged()
        self.log.delete()
        self._shelf.forget(self.uid)
        for watcher in self.watchers:
            watcher()


def ended_by(command: Command) -> SessionId:
    """The session that the command ends; 0: none."""
    if isinstance(command, Numbered):
        command = command.command
    return command.session if isinstance(command, EndSession) else SessionId(0)
