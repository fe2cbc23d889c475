"""The machine of a stream: each publish gets its offsets once, under any leader."""

import pytest

from queues.machine.commands import (
    TRACKED_OFFSET,
    TRACKED_PUBLISHER,
    Command,
    EndProcess,
    EndSession,
    Enqueue,
    Identify,
    Leads,
    Numbered,
    QueryTracking,
    SessionId,
    StoreOffsets,
)
from queues.machine.consuming.numbered_sessions import Resume
from queues.machine.effects import Inspected
from queues.message import Chunk
from queues.streams.entry import decode_entry, encode_entry
from queues.streams.machine import Outcome, StreamMachine, restored_machine
from queues.streams.offsets import OffsetSpec, Start, interval_ms, parse_offset
from queues.streams.settings import StreamSettings, stream_settings
from queues.streams.storage import decode_state, encode_state
from queues.streams.tracking import BATCH, NAMES_MAX, use
from tests.unit.queues.messages import bodies_of, chunk_of
from warren.storage.streams.segments import Segment

SESSION = SessionId(7 << 64 | 1)
OTHER = SessionId(8 << 64 | 1)


def publish(number: int, first_seq: int, count: int, session: SessionId = SESSION) -> Numbered:
    return Numbered(session, number, 0, Enqueue(session, first_seq, count))


def chunk(count: int) -> Chunk:
    return chunk_of([b"%d" % index for index in range(count)])


def apply(machine: StreamMachine, *commands: Command, now_ms: int = 5) -> Outcome:
    chunks = [
        chunk(int(each.command.count))
        for each in commands
        if isinstance(each, Numbered) and isinstance(each.command, Enqueue)
    ]
    return machine.apply(now_ms, commands, chunks)


def test_messages_get_offsets_in_order_and_are_confirmed() -> None:
    machine = StreamMachine()
    outcome = apply(machine, publish(1, 1, 3), publish(1, 1, 2, OTHER))
    assert (outcome.first_offset, outcome.count, machine.next_offset) == (0, 5, 5)
    assert outcome.confirmed == [(SESSION, 3), (OTHER, 2)]
    assert outcome.applied == [(SESSION, 1), (OTHER, 1)]


def test_a_publish_that_comes_again_is_confirmed_and_gets_no_second_offset() -> None:
    machine = StreamMachine()
    apply(machine, publish(1, 1, 3))
    outcome = apply(machine, publish(1, 1, 3), publish(2, 4, 1))
    assert (outcome.first_offset, outcome.count) == (3, 1)
    assert outcome.confirmed == [(SESSION, 3), (SESSION, 4)]


def test_a_publish_behind_a_missing_one_is_asked_for_again() -> None:
    machine = StreamMachine()
    outcome = apply(machine, publish(2, 4, 1))
    assert (outcome.resend, outcome.confirmed, machine.next_offset) == ([SESSION], [], 0)


def test_time_never_goes_back() -> None:
    machine = StreamMachine()
    assert apply(machine, publish(1, 1, 1), now_ms=90).now_ms == 90
    assert apply(machine, publish(2, 2, 1), now_ms=40).now_ms == 90


def test_sessions_of_a_process_that_is_gone_end_and_do_not_come_back() -> None:
    machine = StreamMachine()
    apply(machine, publish(1, 1, 1), publish(1, 1, 1, OTHER))
    outcome = apply(machine, EndProcess(7))
    assert outcome.ended == [SESSION]
    assert machine.processes() == {8}
    assert apply(machine, publish(1, 1, 1)).count == 0


def test_a_session_resumes_with_what_was_applied() -> None:
    machine = StreamMachine()
    apply(machine, publish(1, 1, 3), publish(2, 4, 2))
    resumed = machine.resume(Resume(SESSION, 0, 0, []))
    assert (resumed.number, resumed.published) == (2, 5)
    apply(machine, Numbered(SESSION, 3, 5, EndSession(SESSION)))
    assert machine.resume(Resume(SESSION, 0, 0, [])).number == 0


def test_a_snapshot_restores_all_of_it() -> None:
    machine = StreamMachine()
    apply(machine, Leads(4), publish(1, 1, 3), publish(1, 1, 2, OTHER))
    segments = [Segment(0, 3, 1, 2, 100, 1), Segment(3, 5, 2, 2, 50, 1)]
    content = encode_state(2, machine.state(), segments)
    generation, state, found = decode_state(content)
    assert (generation, found) == (2, segments)
    again = restored_machine(state)
    assert again.state() == machine.state()
    assert apply(again, publish(1, 1, 3)).count == 0


def identify(number: int, name: bytes, *runs: tuple[int, int]) -> Numbered:
    return Numbered(SESSION, number, 0, Identify(SESSION, name, list(runs)))


def taken(outcome: Outcome) -> list[bytes]:
    return [body for each in outcome.chunks for body in bodies_of(each)]


def test_a_batch_under_one_publishing_id_is_appended_whole_or_not_at_all() -> None:
    machine = StreamMachine()
    apply(machine, identify(1, b"app", (5, BATCH | 2), (6, 1)), publish(2, 1, 3))
    again = identify(3, b"app", (5, BATCH | 2), (7, BATCH | 1), (8, 1))
    outcome = apply(machine, again, publish(4, 4, 4))
    assert (outcome.first_offset, taken(outcome), machine.next_offset) == (3, [b"2", b"3"], 5)
    assert machine.tracking.publishers[b"app"] == 8


def test_messages_with_a_known_publishing_id_are_confirmed_and_not_appended() -> None:
    machine = StreamMachine()
    apply(machine, identify(1, b"app", (5, 3)), publish(2, 1, 3))
    outcome = apply(machine, identify(3, b"app", (6, 4)), publish(4, 4, 4))
    assert (outcome.first_offset, taken(outcome), machine.next_offset) == (3, [b"2", b"3"], 5)
    assert outcome.confirmed == [(SESSION, 7)]


def test_publishing_ids_are_compared_message_by_message() -> None:
    machine = StreamMachine()
    outcome = apply(machine, identify(1, b"app", (4, 1), (9, 2), (5, 1), (11, 1)), publish(2, 1, 5))
    assert taken(outcome) == [b"0", b"1", b"2", b"4"]
    assert machine.tracking.publishers == {b"app": 11}


def test_publishing_ids_of_another_publisher_do_not_count() -> None:
    machine = StreamMachine()
    apply(machine, identify(1, b"app", (1, 3)), publish(2, 1, 3))
    assert apply(machine, identify(3, b"other", (1, 3)), publish(4, 4, 3)).count == 3
    assert apply(machine, publish(5, 7, 2)).count == 2


def test_ids_hold_for_the_next_publish_across_a_snapshot() -> None:
    machine = StreamMachine()
    apply(machine, identify(1, b"app", (1, 3)), publish(2, 1, 3), identify(3, b"app", (2, 3)))
    again = restored_machine(decode_state(encode_state(1, machine.state(), ()))[1])
    assert again.state() == machine.state()
    assert taken(apply(again, publish(4, 4, 3))) == [b"2"]


def test_stored_offsets_are_answered_and_survive_a_snapshot() -> None:
    machine = StreamMachine()
    command = StoreOffsets(SESSION, [(b"reader", 40), (b"other", 2), (b"reader", 41)])
    outcome = apply(machine, Numbered(SESSION, 1, 0, command))
    assert [(each.session, each.ready) for each in outcome.answers] == [(SESSION, 0)]
    again = restored_machine(machine.state())
    asked = [(TRACKED_OFFSET, b"reader"), (TRACKED_OFFSET, b"none"), (TRACKED_PUBLISHER, b"reader")]
    queries = [
        Numbered(SESSION, 2 + place, 0, QueryTracking(SESSION, subject, name))
        for place, (subject, name) in enumerate(asked)
    ]
    assert [each.ready for each in apply(again, *queries).answers] == [42, 0, 0]


def test_a_session_that_resumes_gets_the_answer_that_it_waits_for() -> None:
    machine = StreamMachine()
    apply(machine, Numbered(SESSION, 1, 0, StoreOffsets(SESSION, [(b"reader", 7)])))
    query = Numbered(SESSION, 2, 0, QueryTracking(SESSION, TRACKED_OFFSET, b"reader"))
    apply(machine, query)
    again = restored_machine(machine.state())
    (answer,) = again.resume(Resume(SESSION, 2, 0, [])).effects
    assert isinstance(answer, Inspected) and answer.ready == 8
    assert again.resume(Resume(SESSION, 1, 0, [])).effects == []
    assert apply(again, query).answers == []


def test_the_name_that_was_used_least_recently_leaves_a_full_table() -> None:
    rows = {b"%d" % number: number for number in range(NAMES_MAX)}
    use(rows, b"0", 5)
    use(rows, b"new", 6)
    assert len(rows) == NAMES_MAX
    assert b"1" not in rows and rows[b"0"] == 5 and rows[b"new"] == 6


def test_a_snapshot_whose_segments_do_not_fit_is_refused() -> None:
    machine = StreamMachine()
    apply(machine, publish(1, 1, 5))
    for segments in (
        [Segment(0, 6, 1, 2, 100, 1)],
        [Segment(0, 3, 1, 2, 100, 1), Segment(2, 5, 2, 2, 50, 1)],
    ):
        with pytest.raises(ValueError, match="segments"):
            decode_state(encode_state(1, machine.state(), segments))
    with pytest.raises(ValueError, match="cannot be read"):
        decode_state(b"\x93nonsense")


def test_an_entry_is_what_was_encoded() -> None:
    parts = encode_entry(9, [publish(1, 1, 2)], [chunk(2)])
    now_ms, commands, chunks = decode_entry(b"".join(parts))
    assert (now_ms, len(commands)) == (9, 1)
    assert [bodies_of(each) for each in chunks] == [[b"0", b"1"]]
    for wrong in (b"", b"".join(parts)[:-1], b"\x09" + b"".join(parts)[1:]):
        with pytest.raises(ValueError):
            decode_entry(wrong)


@pytest.mark.parametrize(
    ("value", "spec"),
    [
        ("first", OffsetSpec(Start.FIRST)),
        ("last", OffsetSpec(Start.LAST)),
        ("next", OffsetSpec(Start.NEXT)),
        (0, OffsetSpec(Start.OFFSET, 0)),
        (12, OffsetSpec(Start.OFFSET, 12)),
        ("1h", OffsetSpec(Start.AGE, 3_600_000)),
        ("2D", OffsetSpec(Start.AGE, 172_800_000)),
        ("h", None),
        ("1w", None),
        ("-1h", None),
        ("", None),
        (-1, None),
        (True, None),
        (1 << 63, None),
        (1.5, None),
    ],
)
def test_an_offset_argument_is_parsed_or_refused(value: object, spec: OffsetSpec | None) -> None:
    assert parse_offset(value) == spec


def test_an_age_counts_back_from_now() -> None:
    assert OffsetSpec(Start.AGE, 300).at(1000) == OffsetSpec(Start.TIMESTAMP, 700)
    assert interval_ms("10s") == 10_000


def test_arguments_of_a_stream_are_its_settings() -> None:
    arguments = {
        "x-max-age": "1m",
        "x-max-length-bytes": 5,
        "x-stream-max-segment-size-bytes": 6,
        "x-stream-filter-size-bytes": 32,
    }
    assert stream_settings(arguments) == StreamSettings(5, 60_000, 6, 32)
    assert stream_settings({}) == StreamSettings()
