"""Bad places where entries and hard states of members of log groups were: which members are hit."""

import pytest

from tests.sim.storage.sim_disk import SimDisk
from tests.unit.storage.test_recovery_damage import Node
from warren.storage.record import HARD_STATE, KIND_NAMES, PUBLISH, RAFT_ENTRY
from warren.storage.recovery.damage import FAR

A, B, C = 500, 501, 502


@pytest.fixture
def node() -> Node:
    return Node(SimDisk())


def append(node: Node, owner: int, first: int, last: int, appended_term: int = 2) -> None:
    for index in range(first, last + 1):
        node.wal.append_raft_entries(owner, 1, index, 1, appended_term, 0, [(b"entry" * 10,)])
    node.rest()


def state(node: Node, owner: int, term: int) -> None:
    node.wal.append_hard_state(owner, 1, term, 1)
    node.rest()


def members(node: Node) -> list[tuple[int, str, int]]:
    """Owner, kind of the bad record, and up to which index an entry may be missing."""
    return [
        (hit.owner, KIND_NAMES.get(hit.place.kind, ""), hit.lost_upto)
        for hit in node.report.hits
        if hit.lost_upto >= 0
    ]


def with_zeros(node: Node, kind: int, number: int, before: int = 0) -> Node:
    """Restarted, without a record and the end of the one before it: no owner can be named."""
    path, offset, size = node.records(kind)[number]
    for at in range(offset - before, offset + size):
        node.disk.names[path].cached[at] = 0
    return Node(node.disk)


def test_a_lost_entry_hits_its_member_below_the_entry_behind_it(node: Node) -> None:
    append(node, A, 1, 5)
    append(node, B, 1, 3)
    path, offset, _ = node.records(RAFT_ENTRY)[2]
    assert members(node.damaged(path, offset + 70)) == [(A, "RAFT_ENTRY", 3)]


def test_the_last_entry_of_a_member_is_missed_by_its_index(node: Node) -> None:
    append(node, A, 1, 5)
    append(node, B, 1, 3)
    path, offset, _ = node.records(RAFT_ENTRY)[4]
    assert members(node.damaged(path, offset + 70)) == [(A, "RAFT_ENTRY", 5)]


def test_an_index_that_was_not_due_is_not_believed(node: Node) -> None:
    append(node, A, 1, 5)
    append(node, B, 1, 3)
    path, offset, _ = node.records(RAFT_ENTRY)[4]
    assert members(node.damaged(path, offset + 24)) == [(A, "RAFT_ENTRY", FAR)]


def test_a_lost_entry_that_took_the_place_of_others_is_not_hidden_by_them(node: Node) -> None:
    append(node, A, 1, 6, appended_term=2)
    append(node, A, 4, 5, appended_term=3)
    append(node, B, 1, 3)
    path, offset, _ = node.records(RAFT_ENTRY)[6]
    after = node.damaged(path, offset + 70)
    assert members(after) == [(A, "RAFT_ENTRY", 4)]


def test_a_lost_hard_state_hits_its_member(node: Node) -> None:
    state(node, A, 1)
    state(node, B, 1)
    append(node, C, 1, 1)
    path, offset, _ = node.records(HARD_STATE)[0]
    assert members(node.damaged(path, offset + 45)) == [(A, "HARD_STATE", FAR)]


def test_a_lost_hard_state_with_a_newer_one_behind_it_hits_nobody(node: Node) -> None:
    state(node, A, 1)
    state(node, A, 2)
    append(node, B, 1, 1)
    path, offset, _ = node.records(HARD_STATE)[0]
    after = node.damaged(path, offset + 45)
    assert (members(after), len(after.report.corrupt)) == ([], 1)


def test_a_record_of_no_known_kind_may_have_been_either(node: Node) -> None:
    state(node, A, 1)
    append(node, A, 1, 3)
    state(node, A, 2)
    append(node, B, 1, 1)
    path, offset, _ = node.records(HARD_STATE)[1]
    after = node.damaged(path, offset + 32)
    assert members(after) == [(A, "", FAR)]


def test_a_place_that_names_nobody_hits_members_with_entries_in_its_file(node: Node) -> None:
    append(node, C, 1, 2)
    node.wal.roll()
    node.rest()
    append(node, A, 1, 2)
    append(node, B, 1, 1)
    append(node, A, 3, 4)
    append(node, B, 2, 3)
    for owner in (A, B, C):
        state(node, owner, 1)
    after = with_zeros(node, RAFT_ENTRY, 5, before=30)  # 1 of B, and 3 of A.
    assert members(after) == [(A, "", 3), (B, "", 1)]


def test_entries_that_follow_each_other_show_that_nothing_was_between(node: Node) -> None:
    append(node, A, 1, 2)
    node.publish(10)
    node.publish(10)
    append(node, A, 3, 4)
    state(node, A, 1)
    after = with_zeros(node, PUBLISH, 0)
    assert len(after.report.corrupt) == 1
    assert members(after) == []


def test_entries_of_different_terms_do_not(node: Node) -> None:
    append(node, A, 1, 2, appended_term=2)
    append(node, B, 1, 1)
    append(node, A, 3, 4, appended_term=3)
    append(node, B, 2, 2)
    state(node, A, 1)
    state(node, B, 1)
    after = with_zeros(node, RAFT_ENTRY, 2)
    assert (A, "", 2) in members(after)


def test_numbers_of_hard_states_show_whether_one_was_in_the_place(node: Node) -> None:
    for owner in (A, B, C):
        state(node, owner, 1)
    append(node, 503, 1, 3)
    state(node, B, 2)
    append(node, 503, 4, 5)
    state(node, C, 2)
    one_lost = with_zeros(Node(node.disk.copy()), HARD_STATE, 3, before=30)
    # The newest one of C is behind the place; that of 503 was never there, which is unknown.
    assert [hit[:1] for hit in members(one_lost)] == [(A,), (B,), (503,)]
    none_lost = with_zeros(Node(node.disk.copy()), RAFT_ENTRY, 1, before=30)
    assert members(none_lost) == [(503, "", 2)]


def test_the_number_that_was_lost_is_not_given_again(node: Node) -> None:
    state(node, A, 1)
    append(node, C, 1, 2)
    state(node, B, 1)
    append(node, A, 1, 2)
    after = with_zeros(node, HARD_STATE, 1, before=30)
    assert {hit[0] for hit in members(after)} >= {A}
    state(after, C, 1)
    append(after, C, 3, 3)
    again = Node(after.disk)
    assert {hit[0] for hit in members(again)} >= {A}


def test_damage_of_messages_hits_no_member(node: Node) -> None:
    state(node, A, 1)
    append(node, A, 1, 2)
    node.publish(10)
    node.publish(10)
    append(node, A, 3, 3)
    path, offset, _ = node.records(PUBLISH)[0]
    after = node.damaged(path, offset + 70)
    assert (members(after), after.hit()) == ([], {10})


def test_a_deleted_member_is_not_hit(node: Node) -> None:
    append(node, A, 1, 5)
    append(node, B, 1, 1)
    path, offset, _ = node.records(RAFT_ENTRY)[2]
    node.wal.append_deleted(A)
    node.rest()
    append(node, B, 2, 2)
    assert members(node.damaged(path, offset + 70)) == []


def test_the_file_with_the_hard_state_of_a_frozen_member_stays(node: Node) -> None:
    state(node, A, 3)
    file_id = node.wal.ledger.hard_states[A].file.id
    node.wal.roll()
    node.rest()
    node.wal.freeze(A)
    node.wal.attach(node.queues)
    node.rest()
    assert file_id in node.wal.files
    node.wal.thaw(A)
    node.rest()
    assert file_id not in node.wal.files
