"""The host of a quorum queue over a fake log and a fake group: nothing before the commit, bodies
that move or are shared meanwhile, deletion with entries under way, recovery.
"""

import pytest

from node.owners import QueueOwners
from queues.commands import (
    ACCEPT,
    REJECT,
    Attach,
    BadCommand,
    Command,
    Enqueue,
    Purge,
    Restarted,
    SessionId,
    Settle,
    Tick,
    consumer_key,
)
from queues.credit import CreditActor, CreditSpec
from queues.fifo_snapshot import encode_fifo
from queues.hosts.classic import LOGGED, ClassicHost
from queues.hosts.quorum import QuorumHost, decode_entry, encode_entry
from queues.hosts.seams import Undertaker
from queues.message import Chunk
from queues.options import REJECT_PUBLISH, Options
from tests.unit.queues.at_most_once import AtMostOnce
from tests.unit.queues.fake_group import FakeGroup
from tests.unit.queues.fake_log import Written
from tests.unit.queues.fake_node import FakeNode
from tests.unit.queues.fake_sink import FakeSink, Told
from tests.unit.queues.messages import body_of, chunk_of

UID = 5


class FakeGrave(AtMostOnce):
    """An undertaker that writes down who came."""

    def __init__(self) -> None:
        self.dead: list[tuple[bytes, str]] = []

    def bury(self, chunk: Chunk, index: int, count: int, reason: str) -> int:
        self.dead += [(body_of(chunk, at), reason) for at in range(index, index + count)]
        return count

    def close(self) -> None:
        return


class Desk:
    """One quorum queue and one session with it."""

    def __init__(
        self,
        options: Options | None = None,
        node: FakeNode | None = None,
        grave: Undertaker | None = None,
        state: bytes | None = None,
        snapshot_index: int = 0,
    ) -> None:
        self.node = FakeNode() if node is None else node
        self.inner = ClassicHost(
            UID,
            "/",
            "q",
            True,
            self.node.journal,
            self.node.budget,
            self.node,
            CreditActor("q", CreditSpec(400, 200)),
            False,
            Options(counts_deliveries=True) if options is None else options,
            LOGGED,
            grave,
        )
        self.host = QuorumHost(self.inner, self.node.journal, self.node, snapshot_entries=3)
        self.group = FakeGroup(self.node.log, self.host.committed, state, snapshot_index)
        self.sink = FakeSink()
        self.next_seq = 1

    def begin(self) -> "Desk":
        self.host.begin(self.group)
        self.turn()
        self.commit()
        self.node.log.take()
        return self

    def publish(self, bodies: list[bytes]) -> Chunk:
        chunk = chunk_of(bodies, True, base=7)
        self.give(chunk)
        return chunk

    def give(self, chunk: Chunk) -> None:
        self.host.publish(self.sink, chunk, self.next_seq)
        self.next_seq += chunk.count()

    def attach(self, number: int, credit: int) -> None:
        key = consumer_key(self.sink.session, number)
        self.host.command(self.sink, Attach(key, credit, True, False, 0))

    def settle(self, number: int, outcome: int, runs: list[tuple[int, int]]) -> None:
        key = consumer_key(self.sink.session, number)
        self.host.command(self.sink, Settle(key, outcome, runs))

    def turn(self) -> list[Told]:
        self.node.turn()
        return self.sink.take()

    def commit(self) -> list[Told]:
        self.group.commit()
        self.node.sync()
        return self.sink.take()

    def live(self) -> int:
        """Bytes of the log that are claimed."""
        return sum(self.node.log.live.values())

    def written(self) -> list[Written]:
        return [record for record in self.node.log.take() if record[0] != "mark"]

    def body(self, seq: int) -> bytes:
        for _ in range(3):
            view = self.host.view(self.sink, seq, 1)
            if view is not None:
                return body_of(view.chunk, view.index)
            self.answer_loads()
        raise AssertionError(f"message {seq} cannot be had")

    def answer_loads(self) -> None:
        """Read from the files; what is in none cannot be read."""
        loads, self.node.loads = self.node.loads, []
        for host, chunk in loads:
            if chunk.file_id == 0:
                host.load_failed(chunk)
                continue
            self.node.loads = [(host, chunk)]
            self.node.answer_loads()

    def move(self, first: int, bodies: list[bytes]) -> int:
        """Do to the promised or present messages first.. what a compaction does; the new file."""
        log = self.node.log
        log.active += 1
        chunk = chunk_of(bodies)
        place = log.put(b"".join(bodies), 0)
        owners = QueueOwners({UID: self.inner}, lambda uid: 0)
        owners.relocated(UID, first, len(bodies), place.file_id, place.offset, chunk.offsets)
        for at, count in owners.live_ranges(UID, first, len(bodies)):
            log.live[place.file_id] += sum(map(len, bodies[at - first : at - first + count]))
        return place.file_id


# Nothing before the commit


def test_bodies_are_written_before_the_entry_and_confirmed_after_its_commit() -> None:
    desk = Desk().begin()
    desk.publish([b"a", b"b"])
    assert desk.turn() == []
    assert desk.written() == [("publish", [(UID, 1)], [b"a", b"b"]), ("entry", 2)]
    assert desk.inner.ready_count == 0
    desk.node.sync()
    assert desk.sink.take() == []
    assert desk.commit() == [("confirms", UID, 2)]
    assert desk.inner.ready_count == 2


def test_what_is_handed_down_in_one_turn_is_one_entry_in_its_order() -> None:
    desk = Desk().begin()
    desk.attach(1, 10)
    desk.publish([b"a"])
    desk.turn()
    desk.publish([b"b"])
    desk.turn()
    assert len(desk.group.entries) == 3
    _, commands = decode_entry(desk.group.entries[1])
    assert [type(command) for command in commands] == [Attach, Enqueue]
    assert desk.commit() == [
        ("attached", UID, 1),
        ("confirms", UID, 1),
        ("delivers", UID, 1, 1, 1, 1, False),
        ("confirms", UID, 2),
        ("delivers", UID, 1, 2, 2, 1, False),
    ]
    assert desk.body(2) == b"b"


def test_a_settlement_is_in_the_log_only_after_the_commit_of_its_entry() -> None:
    desk = Desk().begin()
    desk.publish([b"aa", b"b"])
    desk.attach(1, 10)
    desk.turn()
    desk.commit()
    desk.settle(1, ACCEPT, [(1, 1)])
    desk.turn()
    desk.written()
    assert desk.live() == 3
    desk.commit()
    desk.turn()
    assert desk.written() == [("settle", UID, [(1, 1)])]
    assert desk.live() == 1


def test_a_refused_publish_has_a_number_and_no_body_in_the_end() -> None:
    desk = Desk(Options(length_max=1, overflow=REJECT_PUBLISH)).begin()
    desk.publish([b"a", b"b"])
    desk.publish([b"c"])
    desk.turn()
    assert desk.commit() == [
        ("refused", UID, 2, 1),
        ("refused", UID, 3, 1),
        ("confirms", UID, 2),
        ("confirms", UID, 3),
    ]
    desk.turn()
    assert desk.live() == len(b"a")
    assert desk.inner.machine.next_seq == 4


def test_time_makes_an_entry_when_nothing_else_does() -> None:
    desk = Desk(Options(ttl_ms=100)).begin()
    desk.publish([b"a"])
    desk.turn()
    desk.commit()
    _, due_ms = desk.node.wakes[-1]
    desk.node.now_ms = due_ms
    desk.host.on_timer()
    desk.turn()
    now_ms, commands = decode_entry(desk.group.entries[-1])
    assert (now_ms, [type(command) for command in commands]) == (due_ms, [Tick])
    assert desk.inner.ready_count == 1
    desk.commit()
    assert desk.inner.ready_count == 0


def test_a_timer_that_finds_nothing_due_is_set_again() -> None:
    desk = Desk(Options(ttl_ms=100)).begin()
    desk.publish([b"a"])
    desk.turn()
    desk.commit()
    wakes = len(desk.node.wakes)
    _, due_ms = desk.node.wakes[-1]
    entries = len(desk.group.entries)
    desk.node.now_ms = due_ms - 1
    desk.host.on_timer()
    desk.turn()
    assert len(desk.group.entries) == entries
    assert [each for _, each in desk.node.wakes[wakes:]] == [due_ms]


def test_a_timer_that_finds_an_entry_under_way_adds_none() -> None:
    desk = Desk(Options(ttl_ms=100)).begin()
    desk.publish([b"a"])
    desk.turn()
    desk.commit()
    desk.node.now_ms += 200
    desk.publish([b"b"])
    desk.turn()
    entries = len(desk.group.entries)
    desk.host.on_timer()
    desk.turn()
    assert len(desk.group.entries) == entries
    desk.commit()
    assert desk.inner.ready_count == 1


# Bodies


def test_a_body_over_the_budget_may_leave_memory_before_the_commit() -> None:
    desk = Desk(node=FakeNode(budget_bytes=0)).begin()
    chunk = desk.publish([b"a", b"b"])
    desk.turn()
    desk.node.sync()
    assert chunk.data is None
    desk.attach(1, 5)
    desk.turn()
    desk.commit()
    assert [desk.body(1), desk.body(2)] == [b"a", b"b"]
    desk.settle(1, ACCEPT, [(1, 2)])
    desk.turn()
    desk.commit()
    assert desk.node.budget.used_bytes == 0


def test_what_is_promised_is_alive_for_the_log_and_in_its_checkpoints() -> None:
    desk = Desk().begin()
    desk.publish([b"a"])
    desk.turn()
    desk.commit()
    desk.publish([b"b", b"c"])
    desk.turn()
    owners = QueueOwners({UID: desk.inner}, lambda uid: 0)
    assert owners.live_ranges(UID, 1, 10) == [(1, 1), (2, 2)]
    assert owners.alive_from(UID, 1) == ([(1, 1), (2, 2)], 0)
    desk.commit()
    assert owners.alive_from(UID, 1) == ([(1, 3)], 0)


@pytest.mark.parametrize("budget_bytes", [0, 1 << 30])
def test_a_chunk_that_moves_between_write_and_commit_is_found_and_released_there(
    budget_bytes: int,
) -> None:
    desk = Desk(node=FakeNode(budget_bytes)).begin()
    desk.publish([b"aa", b"b", b"cc"])
    desk.turn()
    desk.node.sync()
    place = desk.move(1, [b"aa", b"b", b"cc"])
    again = desk.move(2, [b"b", b"cc"])
    assert desk.node.log.live[again] == 3
    desk.attach(1, 2)
    desk.turn()
    desk.commit()
    assert [desk.body(1), desk.body(2)] == [b"aa", b"b"]
    assert desk.inner.store.find(1).chunk.file_id == place
    assert desk.inner.store.find(2).chunk.file_id == again
    desk.settle(1, ACCEPT, [(2, 1)])
    desk.turn()
    desk.commit()
    assert desk.node.log.live[again] == 2


def test_messages_that_leave_in_the_very_entry_that_brings_them_are_released_where_they_moved() -> (
    None
):
    desk = Desk(Options(length_max=1)).begin()
    desk.publish([b"aa", b"b"])
    desk.turn()
    desk.node.sync()
    old = desk.node.log.active
    place = desk.move(1, [b"aa", b"b"])
    desk.commit()
    assert desk.node.log.live == {old: 3, place: 1}  # The old one is dropped by whoever copied.
    assert desk.inner.store.find(2).chunk.file_id == place


def test_a_chunk_shared_with_a_classic_queue_is_one_record_even_if_the_log_tidies_up_between() -> (
    None
):
    desk = Desk().begin()
    other = desk.node.queue(6)
    chunk = chunk_of([b"a"])
    desk.give(chunk)
    other.publish(desk.sink, chunk, 1)
    desk.node.journal.end_turn(desk.node.now_ms)  # Wal.before_upkeep
    assert desk.written() == []
    desk.turn()
    publishes = [record for record in desk.written() if record[0] == "publish"]
    assert publishes == [("publish", [(UID, 1), (6, 1)], [b"a"])]
    assert desk.live() == 2


def test_a_dead_letter_of_a_quorum_queue_is_buried_at_the_commit_and_then_released() -> None:
    grave = FakeGrave()
    desk = Desk(Options(dead_letters=True), grave=grave).begin()
    desk.publish([b"a"])
    desk.attach(1, 1)
    desk.turn()
    desk.commit()
    desk.settle(1, REJECT, [(1, 1)])
    desk.turn()
    assert grave.dead == []
    desk.commit()
    assert grave.dead == [(b"a", "rejected")]
    assert desk.live() == 0


def test_a_dead_letter_waits_for_its_body_and_is_alive_so_long() -> None:
    grave = FakeGrave()
    desk = Desk(Options(dead_letters=True), FakeNode(budget_bytes=0), grave).begin()
    desk.publish([b"a"])
    desk.attach(1, 1)
    desk.turn()
    desk.commit()
    desk.settle(1, REJECT, [(1, 1)])
    desk.turn()
    desk.commit()
    assert (grave.dead, desk.inner.live_ranges(1, 9)) == ([], [(1, 1)])
    desk.node.answer_loads()
    desk.turn()
    assert (grave.dead, desk.inner.live_ranges(1, 9)) == ([(b"a", "rejected")], [])
    assert (desk.live(), desk.node.budget.used_bytes) == (0, 0)


# Snapshots


def test_a_snapshot_is_written_after_so_many_entries_and_one_at_a_time() -> None:
    desk = Desk().begin()
    for _ in range(4):
        desk.publish([b"a"])
        desk.turn()
        desk.commit()
    assert [index for index, _ in desk.group.snapshots] == [3]
    desk.group.saved()
    desk.publish([b"a"])
    desk.turn()
    desk.commit()
    assert [index for index, _ in desk.group.snapshots] == [3, 6]
    assert desk.group.snapshots[-1][1] == encode_fifo(desk.inner.machine)


# Deletion


def test_a_queue_deleted_with_entries_under_way_gives_back_all_that_it_claimed() -> None:
    desk = Desk().begin()
    desk.publish([b"applied"])
    desk.turn()
    desk.commit()
    desk.publish([b"proposed"])
    desk.turn()
    desk.publish([b"stepped"])
    desk.host.step(1000)
    desk.publish([b"handed down"])
    desk.host.delete()
    desk.inner.delete()
    desk.turn()
    assert desk.group.closed
    assert ("deleted", UID) in desk.written()
    assert desk.live() == 0
    assert desk.node.budget.used_bytes == 0
    assert desk.sink.take() == []
    desk.commit()
    assert desk.inner.store.is_empty()


def test_a_queue_deleted_with_a_moved_promise_gives_it_back_where_it_is() -> None:
    desk = Desk().begin()
    desk.publish([b"aa", b"b"])
    desk.turn()
    old = desk.node.log.active
    place = desk.move(2, [b"b"])
    desk.host.delete()
    desk.inner.delete()
    desk.turn()
    assert desk.node.log.live == {old: 1, place: 0}


def test_a_queue_deleted_again_before_its_bodies_were_found_at_a_restart_ends_quietly() -> None:
    before = Desk().begin()
    before.publish([b"a"])
    before.turn()
    before.commit()
    desk = Desk(state=encode_fifo(before.inner.machine), snapshot_index=2)
    desk.host.begin_recovery(desk.group)
    desk.host.delete()
    assert desk.inner.delete() == 1
    desk.turn()
    assert desk.written() == [("deleted", UID)]


def test_an_answer_of_the_disk_after_the_deletion_is_taken_quietly() -> None:
    desk = Desk(node=FakeNode(budget_bytes=0)).begin()
    desk.publish([b"a"])
    desk.attach(1, 1)
    desk.turn()
    desk.commit()
    assert desk.host.view(desk.sink, 1, 1) is None
    desk.host.delete()
    desk.inner.delete()
    desk.node.answer_loads()
    desk.host.on_timer()
    desk.turn()
    assert desk.node.budget.used_bytes == 0


# Recovery


def recovered(entries: list[bytes], found: list[tuple[int, list[bytes]]], last_seq: int) -> Desk:
    """A queue of which a recovery found these entries, and these messages by first number."""
    desk = Desk()
    desk.host.begin_recovery(desk.group)
    desk.group.replay(entries)
    for first, bodies in found:
        place = desk.node.log.put(b"".join(bodies), sum(map(len, bodies)))
        chunk = chunk_of(bodies)
        chunk.data = None
        chunk.file_id, chunk.file_offset, chunk.durable = place.file_id, place.offset, True
        desk.inner.recover(chunk, first, [(first, len(bodies))], b"", 0)
    desk.host.recovered(last_seq)
    return desk


def entry(*commands: Command) -> bytes:
    return encode_entry(1000, list(commands))


EARLIER = SessionId(3 << 64 | 1)


def test_a_restart_replays_the_entries_and_ends_the_sessions_before() -> None:
    key = consumer_key(EARLIER, 1)
    entries = [
        entry(Enqueue(EARLIER, 1, 3), Attach(key, 2, True, False, 0)),
        entry(Settle(key, ACCEPT, [(1, 1)])),
    ]
    desk = recovered(entries, [(1, [b"a", b"b", b"c"])], 3)
    assert desk.group.started
    desk.turn()
    assert desk.written() == [("entry", 3), ("settle", UID, [(1, 1)])]
    desk.attach(1, 5)
    desk.turn()
    told = desk.commit()
    assert told == [
        ("attached", UID, 1),
        ("delivers", UID, 1, 1, 2, 1, True, 1 << 32 | 1),
        ("delivers", UID, 1, 2, 3, 1, True, 1 << 32 | 1),
    ]
    assert [desk.body(2), desk.body(3)] == [b"b", b"c"]


def test_a_body_whose_entry_was_lost_goes_and_its_number_is_not_used_again() -> None:
    desk = recovered([entry(Enqueue(EARLIER, 1, 1))], [(1, [b"a"]), (2, [b"lost", b"too"])], 3)
    assert desk.inner.store.find_live(2) is None
    desk.publish([b"new"])
    desk.turn()
    assert ("publish", [(UID, 4)], [b"new"]) in desk.written()
    owners = QueueOwners({UID: desk.inner}, lambda uid: 0)
    assert owners.live_ranges(UID, 1, 9) == [(1, 1), (4, 1)]
    assert desk.live() == len(b"anew")
    desk.commit()
    assert owners.live_ranges(UID, 1, 9) == [(1, 1), (4, 1)]
    _, commands = decode_entry(desk.group.entries[0])
    restarted = commands[0]
    assert isinstance(restarted, Restarted)
    assert restarted.next_seq == 4


def test_a_message_whose_body_the_log_has_lost_is_unreadable_and_harms_nobody_else() -> None:
    desk = recovered([entry(Enqueue(EARLIER, 1, 3))], [(1, [b"a"]), (3, [b"c"])], 3)
    assert desk.inner.damaged
    desk.attach(1, 3)
    desk.turn()
    desk.commit()
    assert [desk.body(1), desk.body(3)] == [b"a", b"c"]
    desk.sink.take()
    assert desk.host.view(desk.sink, 2, 1) is None
    desk.answer_loads()
    assert desk.sink.take() == [("unreadable", UID)]
    desk.settle(1, ACCEPT, [(1, 3)])
    desk.turn()
    desk.commit()
    desk.host.command(desk.sink, Purge(desk.sink.session))
    desk.turn()
    assert desk.commit() == [("purged", UID, 0)]
    desk.host.delete()
    desk.inner.delete()
    desk.turn()
    assert desk.live() == 0


# Entries


def test_an_entry_comes_back_as_it_went() -> None:
    commands = [Enqueue(EARLIER, 1, 3), Tick(), Restarted(9)]
    now_ms, found = decode_entry(encode_entry(77, commands))
    assert now_ms == 77
    assert encode_entry(77, found) == encode_entry(77, commands)


def test_the_bytes_of_an_entry_are_those_of_the_document() -> None:
    assert encode_entry(1000, [Tick()]).hex() == (
        "01e8030000000000000100000002000000" + bytes((11, 1)).hex()
    )


@pytest.mark.parametrize("cut", range(1, 30))
def test_an_entry_cut_short_or_with_more_behind_it_is_refused(cut: int) -> None:
    whole = encode_entry(77, [Tick(), Restarted(9)])
    with pytest.raises((BadCommand, ValueError)):
        decode_entry(whole[:-cut])
    with pytest.raises((BadCommand, ValueError)):
        decode_entry(whole + bytes(cut))
    with pytest.raises(ValueError, match="version"):
        decode_entry(b"\x02" + whole[1:])
