"""What a leader does for the others: entries, snapshots, heartbeats, reads, transfer. Compiled.

It lives as long as one leadership. It decides nothing about commits or terms: `raft.core` asks it.
Messages go to the outbox. All entries of one turn go to a member in one message, and members that
are at the same place get the same message object.
"""

from collections.abc import Sequence
from typing import final

from mypy_extensions import i64

from raft.entries import Config, Entry
from raft.log import Log
from raft.membership import agreed, is_majority
from raft.messages import (
    AppendRequest,
    AppendResponse,
    SliceResponse,
    SnapshotSlice,
    TimeoutNow,
)
from raft.outbox import Outbox
from raft.progress import PROBE, SNAPSHOT, STREAM, UNKNOWN, Progress
from raft.ready import Load, LoadSlice, Read
from raft.settings import Settings


@final
class Leadership:
    """`first_index` is the first entry of the leader's term; `peers` are all other members."""

    __slots__ = (
        "_beat_elapsed",
        "_log",
        "_member",
        "_outbox",
        "_read_is_open",
        "_read_seq",
        "_reads",
        "_settings",
        "_shared",
        "_term",
        "_transfer_ticks",
        "elapsed",
        "first_index",
        "peers",
        "transferee",
    )

    def __init__(
        self,
        member: i64,
        term: i64,
        first_index: i64,
        log: Log,
        outbox: Outbox,
        settings: Settings,
        config: Config,
        unreachable: set[int],
        held: set[int],
    ) -> None:
        self._member: i64 = member
        self._term: i64 = term
        self._log = log
        self._outbox = outbox
        self._settings = settings
        self.first_index: i64 = first_index
        self.peers: dict[int, Progress] = {}
        self.elapsed: i64 = 0  # ticks since the last look whether a majority is there
        self._beat_elapsed: i64 = 0
        self.transferee: i64 = 0
        self._transfer_ticks: i64 = 0
        self._read_seq: i64 = 0
        self._read_is_open = False  # nothing was sent with `_read_seq` so far
        self._reads: list[tuple[int, int, int]] = []  # read_seq, context, index
        self._shared: AppendRequest | None = None  # the newest message with entries
        self.configure(config, unreachable, held, first_index)

    def configure(
        self, config: Config, unreachable: set[int], held: set[int], next_index: i64
    ) -> None:
        """Other members count; new ones are first told of the entry at `next_index`."""
        members = config.members()
        for member in members:
            if member != self._member and member not in self.peers:
                peer = Progress(member, next_index)
                peer.is_reachable = member not in unreachable
                peer.is_held = member in held
                self.peers[member] = peer
        for member in list(self.peers):
            if member not in members:
                del self.peers[member]
            elif member not in config.joining:
                self.peers[member].goal_index = UNKNOWN
        if self.transferee not in config.voters:
            self.transferee = 0

    # What is agreed

    def agreed_index(self, voters: Sequence[int], durable_index: i64) -> i64:
        """How far the log is durable on a majority; the own log by the word of the disk."""
        matches: list[int] = []
        for voter in voters:
            if voter == self._member:
                matches.append(durable_index)
            else:
                matches.append(self.peers[voter].match_index)
        return agreed(matches)

    def read(self, context: i64, commit_index: i64) -> None:
        """Reads of one turn share a round of messages, sent after they were asked for."""
        if not self._read_is_open:
            self._read_is_open = True
            self._read_seq += 1
        self._reads.append((self._read_seq, context, commit_index))

    def finish_reads(self, voters: Sequence[int]) -> None:
        """Give out those that a majority has answered."""
        if not self._reads:
            return
        rounds: list[int] = []
        for voter in voters:
            rounds.append(self._read_seq if voter == self._member else self.peers[voter].read_seq)
        finished = agreed(rounds)
        count = 0
        for read_seq, context, index in self._reads:
            if read_seq > finished:
                break
            self._outbox.reads.append(Read(context, index))
            count += 1
        del self._reads[:count]

    def end(self) -> None:
        """The leadership is lost: what was asked here is to be asked elsewhere."""
        for _, context, _ in self._reads:
            self._outbox.reads.append(Read(context, -1))
        self._reads = []

    def quorum_is_reachable(self, voters: Sequence[int]) -> bool:
        there = {self._member}
        for member, peer in self.peers.items():
            if peer.is_reachable:
                there.add(member)
        return is_majority(there, voters)

    def is_idle(self, commit_index: i64) -> bool:
        """Nothing is under way, and every member that can be reached knows that."""
        if self._reads or self.transferee:
            return False
        for peer in self.peers.values():
            if not peer.is_reachable:
                continue
            if peer.match_index != commit_index or peer.known_commit != commit_index:
                return False
            if peer.state != STREAM or peer.goal_index != UNKNOWN:
                return False
        return True

    def is_awaited(self, joining: Sequence[int]) -> bool:
        """A learner that can be reached is to be a voter: only ticks make it one."""
        count = 0
        for member in joining:
            if self.peers[member].is_reachable:
                count += 1
        return count > 0

    # Time

    def tick(self, voters: Sequence[int], commit_index: i64) -> bool:
        """False: no majority was heard of in an election timeout."""
        settings = self._settings
        if self.transferee:
            self._transfer_ticks += 1
            if self._transfer_ticks >= settings.election_ticks:
                self.transferee = 0
        self.elapsed += 1
        if self.elapsed >= settings.election_ticks and not self._check_quorum(voters):
            return False
        self._beat_elapsed += 1
        is_beat = self._beat_elapsed >= settings.heartbeat_ticks
        if is_beat:
            self._beat_elapsed = 0
        for peer in self.peers.values():
            if is_beat:
                self._beat(peer, commit_index)
            elif peer.sent_commit < commit_index and not peer.is_paused:
                self._send_empty(peer, commit_index)
        return True

    def caught_up(self, config: Config) -> int:
        """A joining learner that got all of a round within an election timeout; 0: none.

        A round is what the log had at its beginning (dissertation, 4.2.1). Once a tick.
        """
        for member in config.joining:
            peer = self.peers[member]
            peer.goal_ticks += 1
            if peer.goal_index != UNKNOWN and peer.match_index >= peer.goal_index:
                if peer.goal_ticks <= self._settings.election_ticks:
                    return member
                peer.goal_index = UNKNOWN
            if peer.goal_index == UNKNOWN:
                peer.goal_index = self._log.last_index
                peer.goal_ticks = 0
        return 0

    def _check_quorum(self, voters: Sequence[int]) -> bool:
        self.elapsed = 0
        active = {self._member}
        for member, peer in self.peers.items():
            if peer.is_active:
                active.add(member)
            peer.is_active = False
        return is_majority(active, voters)

    def _beat(self, peer: Progress, commit_index: i64) -> None:
        if peer.state == SNAPSHOT:
            self._beat_slices(peer, self._settings.heartbeat_ticks)
        elif peer.state == STREAM and not peer.is_quiet and peer.sent_commit == commit_index:
            peer.is_quiet = True
            return
        self._send_empty(peer, commit_index)
        peer.is_quiet = True

    def _beat_slices(self, peer: Progress, ticks: i64) -> None:
        """Send again what was not acknowledged for long."""
        peer.stalled_ticks += ticks
        if peer.stalled_ticks > self._settings.election_ticks:
            # The last one once more if it has them all: what it said of that was lost.
            again = peer.acked_slice
            if again == peer.slice_count:
                again -= 1
            peer.resume_slices(again)

    # Sending

    def send(self, commit_index: i64) -> None:
        """To each member what it lacks and may get. Once a turn."""
        tells = self._settings.tells_commits_at_once
        has_reads = len(self._reads) > 0
        for peer in self.peers.values():
            if (
                peer.state != SNAPSHOT
                and peer.next_index <= self._log.last_index
                and not peer.is_held
            ):
                self._send_entries(peer, commit_index)
            if peer.state == SNAPSHOT:
                self._ask_slices(peer)
            if (has_reads and peer.sent_read_seq < self._read_seq) or (
                tells and peer.sent_commit < commit_index and not peer.is_paused
            ):
                self._send_empty(peer, commit_index)
        self._read_is_open = False

    # Of a mirror ring (raft/ring.py)

    def carry(self, mark: i64) -> None:
        """Have each message carry a number, in the place of a round of reads."""
        self._read_seq = mark

    def tell_carried(self, commit_index: i64) -> None:
        """Send the number to members that no message took it to."""
        for peer in self.peers.values():
            if peer.sent_read_seq < self._read_seq and not peer.is_paused:
                self._send_empty(peer, commit_index)

    def send_slices(self) -> None:
        """Of a snapshot alone, to a member that gets entries by another instance."""
        for peer in self.peers.values():
            if peer.state == SNAPSHOT:
                self._ask_slices(peer)

    def beat_slices(self) -> None:
        """A tick, for `send_slices`."""
        for peer in self.peers.values():
            if peer.state == SNAPSHOT:
                self._beat_slices(peer, 1)

    def greet(self, member: i64, commit_index: i64) -> None:
        """It has asked for votes: it does not know that there is a leader, or what is committed."""
        peer = self.peers.get(member)
        if peer is not None:
            peer.known_commit = UNKNOWN
            self._send_empty(peer, commit_index)

    def greet_unanswered(self, commit_index: i64) -> None:
        """A tick, where members wait for each other: to those whose log is not known."""
        for peer in self.peers.values():
            if peer.state == PROBE and peer.is_reachable:
                self._send_empty(peer, commit_index)

    def send_last_commit(self, voters: Sequence[int], commit_index: i64) -> None:
        """The leader is no member any more: let all know, and let the foremost take over."""
        foremost: Progress | None = None
        for member, peer in self.peers.items():
            if peer.state != SNAPSHOT:
                self._send_empty(peer, commit_index)
            if (
                member in voters
                and peer.is_reachable
                and (foremost is None or foremost.match_index < peer.match_index)
            ):
                foremost = peer
        if foremost is not None:
            self._outbox.messages.append((foremost.member, TimeoutNow(self._term)))

    def _send_entries(self, peer: Progress, commit_index: i64) -> None:
        log = self._log
        settings = self._settings
        while peer.next_index <= log.last_index and peer.load is None:
            if peer.state == PROBE:
                if peer.is_paused:
                    return
            elif (
                peer.unacked_bytes >= settings.window_bytes
                or len(peer.unacked) >= settings.window_messages
            ):
                return
            first = peer.next_index
            if first <= log.base_index:
                self._begin_snapshot(peer)
                return
            if first < log.memory_first:
                last = min(log.memory_first, first + settings.append_entries_max) - 1
                peer.load = Load(peer.member, first, last, settings.append_bytes_max)
                self._outbox.loads.append(peer.load)
                return
            last = min(log.last_index, first + settings.append_entries_max - 1)
            last = log.last_within(first, last, settings.append_bytes_max)
            byte_count = log.bytes_between(first, last)
            self._send_append(peer, first - 1, log.slice(first, last), byte_count, commit_index)

    def _send_append(
        self,
        peer: Progress,
        previous_index: i64,
        entries: Sequence[Entry],
        byte_count: i64,
        commit_index: i64,
    ) -> None:
        """Entries or none. The term at `previous_index` is known, or it is 0."""
        shared = self._shared
        if (
            shared is None
            or shared.previous_index != previous_index
            or shared.entries is not entries
            or shared.commit_index != commit_index
            or shared.read_seq != self._read_seq
        ):
            previous_term = self._log.term(previous_index) if previous_index else 0
            assert previous_term >= 0
            shared = AppendRequest(
                self._term, previous_index, previous_term, commit_index, entries, self._read_seq
            )
            self._shared = shared
        self._outbox.messages.append((peer.member, shared))
        peer.sent_commit = commit_index
        peer.sent_read_seq = self._read_seq
        peer.is_quiet = False
        if peer.state == PROBE:
            peer.is_paused = True
        elif entries:
            peer.sent(previous_index + len(entries), byte_count)

    def _send_empty(self, peer: Progress, commit_index: i64) -> None:
        """A heartbeat, a probe, or news of commits or reads: no entries."""
        previous_index = peer.next_index - 1
        if peer.state == SNAPSHOT:
            previous_index = 0  # matches whatever it has
        elif previous_index < self._log.base_index:
            self._begin_snapshot(peer)
            previous_index = 0
        self._send_append(peer, previous_index, (), 0, commit_index)

    def loaded(self, load: Load, entries: Sequence[Entry], commit_index: i64) -> None:
        """Entries from below memory. The peer may no longer need them."""
        peer = self.peers.get(load.member)
        if peer is None or peer.load is not load:
            return
        peer.load = None
        if not entries or load.first <= self._log.base_index:
            self._begin_snapshot(peer)
            return
        byte_count: i64 = 0
        index = load.first
        for entry in entries:
            assert entry.index == index
            assert entry.term == self._log.term(index)
            byte_count += entry.byte_count
            index += 1
        self._send_append(peer, load.first - 1, entries, byte_count, commit_index)

    # Answers

    def appended(self, peer: Progress, response: AppendResponse) -> bool:
        """Whether its log is the leader's further than was known."""
        peer.is_active = True
        if peer.read_seq < response.read_seq <= self._read_seq:
            peer.read_seq = response.read_seq
        if response.index > self._log.last_index:
            return False  # nothing that could have been an answer
        if not response.is_matching:
            self._rejected(peer, response)
            return False
        peer.known_commit = response.commit_index
        is_news = peer.matched(response.index)
        if peer.state == PROBE or (
            peer.state == SNAPSHOT and peer.match_index >= self._log.base_index
        ):
            peer.stream()
        if self.transferee == peer.member:
            self._hand_over(peer)
        return is_news

    def is_late(self, response: AppendResponse, commit_index: i64) -> bool:
        """Whether the answer changes nothing that anyone waits for: the member has all that there
        is, and it was committed before; it will answer again when it hears of that."""
        if not response.is_matching or response.term != self._term or self.transferee:
            return False
        if response.commit_index >= commit_index or len(self._reads) > 0:
            return False
        return response.index == self._log.last_index <= commit_index

    def _rejected(self, peer: Progress, response: AppendResponse) -> None:
        """Not there: from the last place on that may be alike. An old answer changes nothing."""
        if response.index <= peer.match_index or peer.state == SNAPSHOT:
            return
        if peer.state == PROBE and response.index != peer.next_index - 1:
            return
        hint = min(response.hint_index, response.index - 1)
        peer.probe(self._log.last_at_most(hint, response.hint_term) + 1)

    def reachable(self, member: i64, is_reachable: bool, commit_index: i64) -> None:
        """The word of the failure detector: what was under way may be lost."""
        peer = self.peers.get(member)
        if peer is None:
            return
        peer.is_reachable = is_reachable
        peer.known_commit = UNKNOWN
        if peer.state == SNAPSHOT:
            peer.resume_slices(peer.acked_slice)
        else:
            peer.probe(peer.next_index)
        if is_reachable:
            self._send_empty(peer, commit_index)

    # Transfer

    def transfer(self, member: i64) -> bool:
        peer = self.peers.get(member)
        if peer is None or not peer.is_reachable or self.transferee:
            return False
        self.transferee = member
        self._transfer_ticks = 0
        self._hand_over(peer)
        return True

    def _hand_over(self, peer: Progress) -> None:
        """Once it has everything."""
        if peer.match_index == self._log.last_index:
            self._outbox.messages.append((peer.member, TimeoutNow(self._term)))

    # Snapshots

    def is_sending_snapshot(self) -> bool:
        """To a member that can be reached."""
        count = 0
        for peer in self.peers.values():
            if peer.state == SNAPSHOT and peer.is_reachable:
                count += 1
        return count > 0

    def needed_index(self, snapshot_index: i64) -> i64:
        """Entries up to here are of no use to members that can be reached, nor in the snapshot.

        Bounded: who is too far behind gets a snapshot.
        """
        needed = snapshot_index
        for peer in self.peers.values():
            if peer.is_reachable:
                point = peer.snapshot
                has = peer.match_index if point is None else point.index
                needed = min(needed, has)
        return max(needed, snapshot_index - self._settings.trailing_entries_max)

    def _begin_snapshot(self, peer: Progress) -> None:
        assert self._log.snapshot.index > 0
        peer.send_snapshot(self._log.snapshot)

    def _ask_slices(self, peer: Progress) -> None:
        """One is read at a time."""
        point = peer.snapshot
        assert point is not None
        if (
            peer.slice_load is None
            and not peer.is_held
            and peer.next_slice != peer.slice_count
            and peer.next_slice - peer.acked_slice < self._settings.slice_window
        ):
            peer.slice_load = LoadSlice(peer.member, point.index, peer.next_slice)
            self._outbox.slice_loads.append(peer.slice_load)

    def slice_loaded(self, load: LoadSlice, parts: Sequence[bytes], is_last: bool) -> None:
        peer = self.peers.get(load.member)
        if peer is None or peer.slice_load is not load:
            return
        point = peer.snapshot
        assert point is not None
        peer.slice_load = None
        number = load.slice_number
        peer.next_slice = number + 1
        if is_last:
            peer.slice_count = number + 1
        self._outbox.messages.append(
            (
                load.member,
                SnapshotSlice(
                    self._term,
                    self._member,
                    point.index,
                    point.term,
                    point.config,
                    number,
                    is_last,
                    parts,
                ),
            )
        )

    def slice_lost(self, load: LoadSlice) -> None:
        """The snapshot is not there any more: begin again with the newest one."""
        peer = self.peers.get(load.member)
        if peer is not None and peer.slice_load is load:
            self._begin_snapshot(peer)

    def slice_stored(self, peer: Progress, response: SliceResponse) -> None:
        """It has slices up to there: more than before, or, after a loss, fewer."""
        peer.is_active = True
        point = peer.snapshot
        if (
            point is None
            or response.source != self._member
            or response.index != point.index
            or response.snapshot_term != point.term
        ):
            return
        stored = response.next_slice
        if peer.acked_slice <= stored <= peer.next_slice:
            if stored > peer.acked_slice:
                peer.stalled_ticks = 0
            peer.acked_slice = stored
        elif stored < peer.acked_slice or stored <= peer.slice_count:
            peer.resume_slices(stored)
        elif peer.slice_count == UNKNOWN:
            # It is not known here whether there is one behind: the last of them is sent again.
            peer.resume_slices(stored - 1)
