"""A stream takes each id of `_AMQ_DUPL_ID` once, under any leader."""

import pytest

from queues.machine.commands import Command, Enqueue, Identify, Leads, Numbered, SessionId
from queues.message import FORMAT_091, Chunk
from queues.streams.duplicates import ids_limit, restored_duplicates
from queues.streams.entry import Batch, decode_entry, encode_entry
from queues.streams.machine import Outcome, StreamMachine, restored_machine
from queues.streams.settings import stream_settings
from queues.streams.storage import decode_state, encode_state
from tests.unit.queues.messages import body_of, table
from warren.wire.amqp091.deliver import build
from warren.wire.amqp091.fields import encode_table

SESSION = SessionId(7 << 64 | 1)
OTHER = SessionId(8 << 64 | 1)


def message(known: str | None, number: int) -> bytes:
    headers: dict[str, object] = {} if known is None else {"_AMQ_DUPL_ID": known}
    return build("", b"q", b"\x20\x00" + encode_table(headers), b"%03d" % number)


def chunk_with(*ids: str | None) -> Chunk:
    messages = [message(each, number) for number, each in enumerate(ids)]
    return Chunk(FORMAT_091, b"".join(messages), 0, table(messages, 0), 0)


def apply(machine: StreamMachine, *steps: Command | Chunk) -> Outcome:
    """Commands, and the chunks of their publishes, by way of the bytes of an entry."""
    commands = [each for each in steps if isinstance(each, Command)]
    chunks = [each for each in steps if isinstance(each, Chunk)]
    return machine.apply(*decode_entry(b"".join(encode_entry(5, commands, chunks))))


def publish(number: int, first_seq: int, count: int, session: SessionId = SESSION) -> Numbered:
    return Numbered(session, number, 0, Enqueue(session, first_seq, count))


def taken(outcome: Outcome) -> list[int]:
    """Places in their publish of the messages that were appended."""
    bodies = [body_of(chunk, index) for chunk in outcome.chunks for index in range(chunk.count())]
    return [int(body[-4:-1]) for body in bodies]


def test_a_message_with_a_known_id_is_confirmed_and_not_appended() -> None:
    machine = StreamMachine()
    chunk = chunk_with("a", "b", "a", None, None, "c")
    outcome = apply(machine, ids_limit(10), publish(1, 1, 6), chunk)
    assert taken(outcome) == [0, 1, 3, 4, 5]
    assert (outcome.confirmed, machine.next_offset) == ([(SESSION, 6)], 5)
    outcome = apply(machine, publish(1, 1, 3, OTHER), chunk_with("c", "d", "b"))
    assert (taken(outcome), outcome.first_offset, machine.next_offset) == ([1], 5, 6)
    assert outcome.confirmed == [(OTHER, 3)]
    outcome = apply(machine, publish(2, 4, 1, OTHER), chunk_with("d"))
    assert (outcome.chunks, machine.next_offset) == ([], 6)


def test_without_a_limit_no_id_is_known() -> None:
    machine = StreamMachine()
    assert taken(apply(machine, publish(1, 1, 2), chunk_with("a", "a"))) == [0, 1]
    apply(machine, ids_limit(10), publish(2, 3, 1), chunk_with("a"))
    assert taken(apply(machine, ids_limit(0), publish(3, 4, 1), chunk_with("a"))) == [0]
    assert machine.duplicates.state() == (0, b"")


def test_the_oldest_id_is_forgotten_first() -> None:
    machine = StreamMachine()
    apply(machine, ids_limit(2), publish(1, 1, 3), chunk_with("a", "b", "c"))
    assert taken(apply(machine, publish(2, 4, 3), chunk_with("c", "b", "a"))) == [2]
    apply(machine, ids_limit(1))
    assert taken(apply(machine, publish(3, 7, 2), chunk_with("a", "c"))) == [1]


def test_ids_and_publishing_ids_are_both_compared() -> None:
    machine = StreamMachine()
    identify = Numbered(SESSION, 1, 0, Identify(SESSION, b"app", [(5, 3)]))
    apply(machine, ids_limit(9), identify, publish(2, 1, 3), chunk_with("a", "b", "c"))
    again = Numbered(SESSION, 3, 0, Identify(SESSION, b"app", [(7, 4)]))
    outcome = apply(machine, again, publish(4, 4, 4), chunk_with("x", "d", "b", "e"))
    assert taken(outcome) == [1, 3]
    assert taken(apply(machine, publish(5, 8, 1), chunk_with("x"))) == [0]


def test_ids_survive_a_snapshot_and_a_change_of_the_leader() -> None:
    machine = StreamMachine()
    apply(machine, ids_limit(3), publish(1, 1, 3), chunk_with("a", "b", "c"))
    again = restored_machine(decode_state(encode_state(1, machine.state(), ()))[1])
    assert again.state() == machine.state()
    outcome = apply(again, Leads(2), publish(1, 1, 3, OTHER), chunk_with("b", "d", "c"))
    assert taken(outcome) == [1]


@pytest.mark.parametrize("state", [(-1, b""), (5, b"short"), (5, bytes(16))])
def test_a_snapshot_with_wrong_ids_is_refused(state: tuple[int, bytes]) -> None:
    with pytest.raises(ValueError, match=r"limit|ids|id"):
        restored_duplicates(state)


def test_a_leader_sets_the_limit_with_the_next_publish_when_it_changes() -> None:
    machine = StreamMachine()
    batch = Batch([publish(1, 1, 2)], [chunk_with("a", "a")], [])
    for _ in range(2):  # The group did not take it at first.
        batch.remember_ids(machine.duplicates.limit, 5)
    assert len(batch.commands) == 2
    assert taken(apply(machine, *batch.commands, *batch.chunks)) == [0]
    batch = Batch([publish(2, 3, 1)], [chunk_with("b")], [])
    batch.remember_ids(machine.duplicates.limit, 5)
    assert len(batch.commands) == 1


def test_the_argument_of_a_stream_is_the_limit() -> None:
    assert stream_settings({"x-id-cache-size": 20_000}).ids_max == 20_000
    assert stream_settings({}).ids_max == 0
