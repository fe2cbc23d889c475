"""Redelivery delays in the log: what is written when, and what a restart makes of it."""

from struct import iter_unpack

import pytest

from queues.hosts import delay_log
from queues.hosts.delay_log import DELAYS_OWNER, ROW, queue_of_delays
from queues.hosts.id_log import IDS_OWNER, queue_of_ids
from queues.machine.address_settings import AddressSettings
from queues.machine.commands import ACCEPT, FAIL, RELEASE
from queues.machine.effects import ACQUIRED_SHIFT
from queues.machine.options import Options
from tests.unit.queues.classic_harness import Harness

UID = 5
DELAY_MS = 10_000
ONCE = 1 << ACQUIRED_SHIFT


def harness_with(delay_ms: int = DELAY_MS, durable: bool = True) -> Harness:
    harness = Harness(durable=durable)
    settings = AddressSettings(redelivery_ms=delay_ms, redelivery_multiplier=2000)
    harness.host.configure(Options(address=settings if delay_ms else None), 0, None)
    harness.turn()
    harness.node.log.take()
    return harness


def returned(harness: Harness, *seqs: int) -> None:
    """Messages are delivered, and given back."""
    harness.settle(1, RELEASE, [(seq, 1) for seq in seqs])
    harness.turn()


def consumed(count: int, durable: bool = True) -> Harness:
    """A queue with so many messages, all with a consumer."""
    harness = harness_with(durable=durable)
    harness.publish([b"%d" % number for number in range(count)])
    harness.attach(1, count)
    harness.turn()
    harness.node.log.take()
    return harness


def logged(harness: Harness) -> list[tuple[int, list[tuple[int, int, int]]]]:
    """Entries of delays that were written since the last call: index and rows."""
    found = []
    for record in harness.node.log.take():
        if record[0] == "entry":
            _, owner, index, content = record
            assert owner == DELAYS_OWNER + UID
            assert isinstance(index, int) and isinstance(content, bytes)
            found.append((index, list(iter_unpack(ROW.format, content))))
    return found


def restarted(
    entries: list[tuple[int, list[tuple[int, int, int]]]],
    count: int,
    delay_ms: int = DELAY_MS,
    is_known: bool = True,
) -> Harness:
    """A new process that finds `count` messages and these entries. `is_known`: it knows the policy
    before it reads them."""
    again = harness_with(delay_ms)
    chunk = again.publish([b"%d" % number for number in range(count)])
    again.host = again.node.queue(UID)
    settings = AddressSettings(redelivery_ms=delay_ms, redelivery_multiplier=2000)
    options = Options(address=settings if delay_ms else None)
    if is_known:
        again.host.configure(options, 0, None)
        again.node.turn()
    for index, rows in entries:
        again.host.delays_found(index, b"".join(ROW.pack(*row) for row in rows))
    again.host.core.recover(chunk, 1, [(1, count)], b"", again.node.now_ms)
    again.host.recovered(count, 0, 0)
    if not is_known:
        again.host.configure(options, 0, None)
    again.node.turn()
    return again


def test_owner_of_delays_says_whose_they_are() -> None:
    assert queue_of_delays(DELAYS_OWNER + UID) == UID
    assert [queue_of_delays(owner) for owner in (0, UID, IDS_OWNER + UID, DELAYS_OWNER)] == [0] * 4
    assert queue_of_ids(DELAYS_OWNER + UID) == 0


def test_messages_that_begin_to_wait_are_written_in_one_entry() -> None:
    harness = consumed(3)
    returned(harness, 1, 3)
    due_ms = harness.node.now_ms + DELAY_MS
    assert logged(harness) == [(1, [(1, due_ms, ONCE), (3, due_ms, ONCE)])]


def test_transient_queue_and_queue_without_delays_write_nothing() -> None:
    harness = consumed(1, durable=False)
    returned(harness, 1)
    assert logged(harness) == []
    harness = harness_with(0)
    harness.publish([b"1"])
    harness.attach(1, 1)
    harness.turn()
    returned(harness, 1)
    assert logged(harness) == []


@pytest.mark.parametrize("is_known", [True, False])
def test_wait_goes_on_after_a_restart_and_the_next_one_is_longer(is_known: bool) -> None:
    harness = consumed(2)
    returned(harness, 1)
    again = restarted(logged(harness), 2, is_known=is_known)
    assert again.host.ready_count == 1
    again.attach(1, 2)
    again.turn()
    assert again.host.checked_out_count == 1
    again.node.now_ms += DELAY_MS + 100
    again.host.on_timer()
    again.turn()
    assert again.host.checked_out_count == 2
    again.node.log.take()
    returned(again, 1)
    assert logged(again) == [(2, [(1, again.node.now_ms + 2 * DELAY_MS, 2 * ONCE)])]


def test_wait_that_ended_while_the_node_was_down_is_over_but_its_delivery_counts() -> None:
    harness = consumed(1)
    returned(harness, 1)
    entries = logged(harness)
    early = [(index, [(seq, 1, tries) for seq, _, tries in rows]) for index, rows in entries]
    again = restarted(early, 1)
    assert again.host.ready_count == 1
    again.attach(1, 1)
    again.turn()
    again.node.log.take()
    returned(again, 1)
    assert logged(again)[0][1][0][2] == 2 * ONCE


def test_the_last_row_of_a_message_counts_after_a_restart() -> None:
    due_ms = 1_000_000
    again = restarted([(1, [(1, 1, ONCE)]), (2, [(1, due_ms, 2 * ONCE)])], 1)
    assert again.host.ready_count == 0
    assert again.host.core.machine.attempts.get(1) == 2 * ONCE


def test_rows_mean_nothing_to_a_queue_that_delays_no_more() -> None:
    again = restarted([(1, [(1, 1_000_000, ONCE)])], 1, delay_ms=0)
    assert again.host.ready_count == 1
    assert again.host.core.machine.attempts.count == 0


def test_entry_is_released_once_its_messages_have_left_or_were_returned_again() -> None:
    harness = consumed(3)
    released = harness.node.log.released_entries
    returned(harness, 1, 2)
    harness.node.now_ms += DELAY_MS + 100
    harness.host.on_timer()
    harness.turn()
    harness.settle(1, ACCEPT, [(1, 1)])
    harness.turn()
    assert released == {}
    harness.settle(1, FAIL, [(2, 1)])
    harness.turn()
    assert released == {DELAYS_OWNER + UID: 1}
    harness.host.delete()
    assert released == {DELAYS_OWNER + UID: 2}


def test_message_that_stays_for_long_does_not_keep_the_rows_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not delay_log.__file__.endswith(".py"):
        pytest.skip("compiled constants cannot be changed")
    monkeypatch.setattr(delay_log, "SLACK", 2)
    harness = consumed(6)
    for seq in range(1, 7):
        returned(harness, seq)
    logged(harness)
    harness.node.now_ms += DELAY_MS + 100
    harness.host.on_timer()
    harness.turn()
    for seq in range(2, 7):
        harness.settle(1, ACCEPT, [(seq, 1)])
        harness.turn()
    moved = logged(harness)
    assert [[row[0] for row in rows] for _, rows in moved] == [[1]]
    assert harness.node.log.released_entries == {DELAYS_OWNER + UID: 6}
    again = restarted(moved, 1)
    assert again.host.core.machine.attempts.get(1) == ONCE
