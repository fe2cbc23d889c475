"""Snapshots of long machines, made and read piece by piece while the machine goes on."""

import os
from random import Random

import pytest

from queues.machine.annotations import encode_words
from queues.machine.commands import (
    ACCEPT,
    FAIL,
    RELEASE,
    Attach,
    Credit,
    Enqueue,
    SessionId,
    Settle,
    consumer_key,
)
from queues.machine.fifo import Fifo
from queues.machine.fifo_snapshot import (
    LONG,
    RECORD,
    BadSnapshot,
    Frozen,
    Thawing,
    decode_fifo,
    encode_fifo,
    machine_state,
)
from queues.machine.fifo_state import HEAD, encode_state, head_of
from queues.machine.options import Options
from queues.machine.snapshot_parts import DYING, END, HELD, LANE, LEVELS, ROWS
from queues.runs.seqset import SeqSet
from tests.unit.queues.runs import runs_of
from tests.unit.queues.test_fifo_snapshot import Story, rows
from tests.unit.queues.test_leadership import Led, attach

ONE = SessionId(7 << 64 | 1)
KEY = consumer_key(ONE, 1)
SCATTERED = 100_000 if os.environ.get("WARREN_LONG") == "1" else 600


def pieces_of(frozen: Frozen) -> list[bytes]:
    return list(iter(frozen.take, None))


@pytest.mark.parametrize("seed", range(30))
def test_a_machine_is_frozen_as_it_was_though_it_goes_on_between_the_pieces(seed: int) -> None:
    story = Story(seed)
    machine = story.machine
    for _ in range(story.random.randint(0, 60)):
        machine.apply(*story.batch())
    before = machine_state(machine)
    wanted = encode_fifo(machine, small=0)
    frozen = Frozen(machine, small=0, piece_bytes=story.random.choice((20, 300, 60_000)))
    pieces = []
    while (piece := frozen.take()) is not None:
        pieces.append(piece)
        machine.apply(*story.batch())
    assert b"".join(pieces) == wanted
    copy = Fifo(story.options)
    thawing = Thawing(copy)
    for piece in pieces:
        thawing.feed(piece)
    thawing.finish()
    assert machine_state(copy) == before
    assert encode_fifo(copy, small=0) == wanted


@pytest.mark.parametrize("seed", range(10))
def test_the_copy_of_a_long_machine_lives_the_same_life(seed: int) -> None:
    story = Story(100 + seed)
    machine = story.machine
    for _ in range(40):
        machine.apply(*story.batch())
    copy = Fifo(story.options)
    decode_fifo(copy, encode_fifo(machine, small=0))
    for _ in range(40):
        commands, now_ms = story.batch()
        assert rows(copy.apply(commands, now_ms)) == rows(machine.apply(commands, now_ms))
    assert machine_state(copy) == machine_state(machine)


def led_machine() -> Fifo:
    """With rows of two consumers, and something that died."""
    led = Led()
    led.publish(9)
    led.give(attach(ONE, 1, 3))
    led.publish(4)
    return led.fifo


def test_what_consumers_hold_is_told_row_by_row() -> None:
    machine = led_machine()
    assert any(each.rows is not None and each.rows.rows for each in machine.consumers.values())
    copy = Fifo(machine.options)
    copy.begin_streams()
    decode_fifo(copy, encode_fifo(machine, small=0))
    assert machine_state(copy) == machine_state(machine)


@pytest.mark.parametrize("cut", [1, 2, 7, 100])
def test_it_does_not_matter_where_the_bytes_are_cut(cut: int) -> None:
    machine = led_machine()
    whole = encode_fifo(machine, small=0)
    copy = Fifo(machine.options)
    copy.begin_streams()
    thawing = Thawing(copy)
    for at in range(0, len(whole), cut):
        thawing.feed(whole[at : at + cut])
    thawing.finish()
    assert machine_state(copy) == machine_state(machine)


def test_pieces_that_are_cut_short_or_go_on_are_no_snapshot() -> None:
    machine = led_machine()
    whole = encode_fifo(machine, small=0)
    for cut in range(len(whole)):
        with pytest.raises(BadSnapshot):
            decode_fifo(Fifo(machine.options), whole[:cut])
    for more in (b"\x00", whole, RECORD.pack(LANE, 0, 0, 1) + b"\x00"):
        with pytest.raises(BadSnapshot):
            decode_fifo(Fifo(machine.options), whole + more)


def test_a_head_alone_is_no_snapshot() -> None:
    machine = Fifo()
    with pytest.raises(BadSnapshot, match="alone"):
        decode_fifo(Fifo(), encode_state(head_of(machine)))


def run(first: int, count: int) -> bytes:
    seqs = SeqSet()
    seqs.add(first, count)
    return seqs.encode()


WRONG: list[tuple[int, int, int, bytes]] = [
    (LANE, 0, 0, run(1, 99)),  # beyond the next number
    (LANE, 0, 0, b""),
    (LANE, 0, 0, run(1, 2) + b"\x00"),
    (LANE, 9, 0, run(1, 2)),
    (HELD, 5, 0, run(1, 2)),
    (ROWS, 0, 0, bytes([1, 1, 1, 1, 99, 0, 0])),
    (ROWS, 0, 0, bytes([1, 1, 1, 1, 2, 0, 0])),  # other messages than it holds
    (LEVELS, 0, 0, bytes([1, 1, 2, 0])),  # there is one level alone
    (DYING, 77, 0, run(1, 2)),
    (99, 0, 0, run(1, 2)),
]


@pytest.mark.parametrize(("part", "place", "sub", "encoded"), WRONG)
def test_records_that_no_machine_wrote_are_refused(
    part: int, place: int, sub: int, encoded: bytes
) -> None:
    machine = led_machine()
    head = encode_state(head_of(machine))
    record = RECORD.pack(part, place, sub, len(encoded)) + encoded
    whole = LONG.pack(HEAD, len(head)) + head + record + RECORD.pack(END, 1, 0, 0)
    copy = Fifo(machine.options)
    copy.begin_streams()
    with pytest.raises(BadSnapshot):
        decode_fifo(copy, whole)


def test_a_set_told_twice_is_refused() -> None:
    head = encode_state(head_of(led_machine()))
    record = RECORD.pack(LANE, 0, 0, len(run(1, 2))) + run(1, 2)
    whole = LONG.pack(HEAD, len(head)) + head + 2 * record + RECORD.pack(END, 2, 0, 0)
    with pytest.raises(BadSnapshot, match="early"):
        decode_fifo(Fifo(), whole)


def test_the_bytes_of_a_long_machine_are_those_of_the_document() -> None:
    machine = Fifo()
    machine.apply([Enqueue(ONE, 1, 3)], 7)
    head = encode_state(head_of(machine))
    assert encode_fifo(machine, small=0) == b"".join(
        (
            *(b"\x05", len(head).to_bytes(4, "little"), head),
            bytes.fromhex("01 00000000 00000000 03000000  01 01 03"),
            bytes.fromhex("00 01000000 00000000 00000000"),
        )
    )


def test_a_machine_with_little_in_it_is_one_array_as_ever() -> None:
    machine = Fifo()
    machine.apply([Enqueue(ONE, 1, 3)], 7)
    assert encode_fifo(machine) == encode_state(machine_state(machine))


def scattered_machine(count: int) -> Fifo:
    """Every second message is settled, every sixth was given back."""
    machine = Fifo(Options(counts_deliveries=True, delivery_limit=20))
    machine.begin_streams()
    machine.apply([Attach(KEY, 2 * count, True, False, 0), Enqueue(ONE, 1, 2 * count)], 5)
    for base in range(0, 2 * count, 10_000):
        some = range(base + 1, min(base + 10_000, 2 * count) + 1)
        for outcome, wanted in ((ACCEPT, 1), (FAIL, 2)):
            seqs = [seq for seq in some if seq % (2 if wanted == 1 else 6) == wanted % 2]
            machine.apply([Settle(KEY, outcome, runs_of(seqs))], 6)
    return machine


def test_many_scattered_messages_are_the_same_behind_a_snapshot() -> None:
    machine = scattered_machine(SCATTERED)
    lots = Random(3)
    frozen = Frozen(machine, small=0, piece_bytes=200)
    wanted = machine_state(machine)
    pieces = []
    while (piece := frozen.take()) is not None:
        pieces.append(piece)
        assert len(piece) <= 60 << 10
        held = machine.consumers[KEY].held.runs_from(lots.randrange(1, SCATTERED), 50)
        machine.apply([Settle(KEY, lots.choice((ACCEPT, RELEASE)), held)], 7)
        machine.apply([Credit(KEY, machine.consumers[KEY].delivery_count, 5, False, True)], 7)
    assert len(pieces) > 5
    copy = Fifo(machine.options)
    copy.begin_streams()
    thawing = Thawing(copy)
    for piece in pieces:
        thawing.feed(piece)
    thawing.finish()
    assert machine_state(copy) == wanted


def test_sizes_and_levels_are_told_with_the_messages_and_counted_for_the_limits() -> None:
    story = Story(0)
    story.options = Options(levels=4, bytes_max=10_000, delays=True, delay_type=1, delay_min_ms=50)
    machine = story.machine = Fifo(story.options)
    for _ in range(80):
        machine.apply(*story.batch())
    copy = Fifo(story.options)
    decode_fifo(copy, encode_fifo(machine, small=0))
    for name in ("ready_bytes", "beside_count", "beside_bytes", "pending_dead_letter_bytes"):
        assert getattr(copy.notes, name) == getattr(machine.notes, name)
    assert machine_state(copy) == machine_state(machine)


def test_notes_of_consumers_are_in_the_head() -> None:
    machine = Fifo()
    machine.apply([Attach(KEY, 2, True, False, 0), Enqueue(ONE, 1, 2)], 5)
    words = encode_words({b"x-a": b"1"})
    machine.apply([Settle(KEY, RELEASE, [(1, 1)], words)], 5)
    copy = Fifo()
    decode_fifo(copy, encode_fifo(machine, small=0))
    assert copy.annotations.runs() == machine.annotations.runs() == [(1, 1, words)]


def test_whoever_needs_no_more_pieces_lets_go_of_the_rows() -> None:
    machine = led_machine()
    rows_held = next(each.rows for each in machine.consumers.values() if each.rows is not None)
    frozen = Frozen(machine, small=0)
    row = rows_held.rows[0]
    frozen.close()
    assert frozen.take() is None
    first = row.first
    rows_held.remove(first, 1)
    assert rows_held.rows[0] is row
