"""The part of a machine's snapshot that there is where leaders change (docs/formats).

Takes and gives what `queues.machine.time_and_leadership` keeps: sessions with numbered commands,
processes that cannot be reached, rows of what consumers hold. `ValueError`: of no machine.
"""

from typing import Final

import msgspec

from queues.machine.commands import SessionId, consumer_key
from queues.machine.consuming.checked_out import Row, Rows
from queues.machine.consuming.numbered_sessions import Stream, Streams
from queues.machine.effects import (
    Attached,
    AttachRefused,
    Detached,
    Drained,
    Effect,
    Got,
    Inspected,
    Purged,
)
from queues.machine.expiry import FAR
from queues.runs.seqset import SeqSet

SESSION_BYTES: Final = 16
PROCESS_BYTES: Final = 8
NUMBER_MASK: Final = 0xFFFFFFFF

# Kinds of answers
GOT: Final = 1
ATTACHED: Final = 2
ATTACH_REFUSED: Final = 3
DETACHED: Final = 4
DRAINED: Final = 5
PURGED: Final = 6
INSPECTED: Final = 7

Answer = tuple[int, int, int, int, int]  # kind and up to four numbers; all 0: there is none
RowState = tuple[int, int, int, int, bool, int]
NO_ANSWER: Final[Answer] = (0, 0, 0, 0, 0)


class StreamState(msgspec.Struct, frozen=True, array_like=True):
    session: bytes
    number: int
    asked: int
    answered: int
    answer: Answer
    refused: list[tuple[int, int]]


class LeadershipState(msgspec.Struct, frozen=True, array_like=True):
    order: int
    streams: list[StreamState]
    suspended: list[tuple[bytes, int]]  # process, when what it holds is returned
    ended: list[bytes]  # processes


def leadership_state(streams: Streams | None) -> LeadershipState | None:
    if streams is None:
        return None
    rows = [_stream_state(session, each) for session, each in streams.by_session.items()]
    suspended = [
        (process.to_bytes(PROCESS_BYTES, "little"), due_ms)
        for process, due_ms in streams.suspended.items()
    ]
    ended = [process.to_bytes(PROCESS_BYTES, "little") for process in streams.ended]
    return LeadershipState(streams.order, rows, suspended, ended)


def _stream_state(session: SessionId, stream: Stream) -> StreamState:
    return StreamState(
        int(session).to_bytes(SESSION_BYTES, "little"),
        stream.number,
        stream.asked,
        stream.answered,
        answer_numbers(stream.answer),
        [] if stream.refused is None else stream.refused.runs(),
    )


def restored_streams(state: LeadershipState) -> Streams:
    """ValueError: these are of no machine."""
    streams = Streams()
    streams.order = in_bounds(state.order)
    for each in state.streams:
        session = SessionId(int.from_bytes(each.session, "little"))
        stream = Stream()
        stream.number = in_bounds(each.number)
        stream.asked = in_bounds(each.asked)
        stream.answered = in_bounds(each.answered)
        if len(each.session) != SESSION_BYTES or session in streams.by_session:
            raise ValueError("a stream of a wrong session, or one twice")
        if not each.answered <= each.asked <= each.number:
            raise ValueError(f"a stream at {each.number} that has asked at {each.asked}")
        stream.answer = answer_of(session, each.answer)
        stream.refused = _refused(each.refused)
        streams.restore(session, stream)
    streams.suspended = {_process(each): in_bounds(due_ms) for each, due_ms in state.suspended}
    streams.ended = [_process(each) for each in state.ended]
    return streams


def _process(data: bytes) -> int:
    if len(data) != PROCESS_BYTES:
        raise ValueError("a process of a wrong length")
    return int.from_bytes(data, "little")


def in_bounds(number: int) -> int:
    if not 0 <= number <= FAR:
        raise ValueError("a number out of its bounds")
    return number


def _refused(runs: list[tuple[int, int]]) -> SeqSet | None:
    if not runs:
        return None
    refused = SeqSet()
    end = 1
    for first, count in runs:
        if first < end or not 0 < count < FAR - first:
            raise ValueError("refused publishes out of order")
        refused.add(first, count)
        end = first + count
    return refused


def answer_numbers(answer: Effect | None) -> Answer:
    """What the answer says, without its session."""
    match answer:
        case Got():
            flag = answer.redelivered
            return (GOT, answer.message, int(flag), answer.ready, answer.attempts)
        case Attached():
            return (ATTACHED, answer.key & NUMBER_MASK, 0, 0, 0)
        case AttachRefused():
            return (ATTACH_REFUSED, answer.key & NUMBER_MASK, answer.reason, 0, 0)
        case Detached():
            return (DETACHED, answer.key & NUMBER_MASK, 0, 0, 0)
        case Drained():
            return (DRAINED, answer.key & NUMBER_MASK, answer.delivery_count, 0, 0)
        case Purged():
            return (PURGED, answer.count, 0, 0, 0)
        case Inspected():
            return (INSPECTED, answer.ready, answer.consumer_count, 0, 0)
        case _:
            return NO_ANSWER


def answer_of(session: SessionId, numbers: Answer) -> Effect | None:
    """ValueError: no answer says that."""
    kind, a, b, c, d = numbers
    for number in (a, b, c):
        in_bounds(number)
    if not 0 <= d < 1 << 63:
        raise ValueError("a number out of its bounds")
    match kind:
        case 0:
            return None
        case 1:
            return Got(session, a, b != 0, c, d)
        case 2:
            return Attached(consumer_key(session, a & NUMBER_MASK))
        case 3:
            return AttachRefused(consumer_key(session, a & NUMBER_MASK), b)
        case 4:
            return Detached(consumer_key(session, a & NUMBER_MASK))
        case 5:
            return Drained(consumer_key(session, a & NUMBER_MASK), b)
        case 6:
            return Purged(session, a)
        case 7:
            return Inspected(session, a, b)
        case _:
            raise ValueError(f"an answer of kind {kind}")


def row_states(rows: Rows | None) -> list[RowState] | None:
    if rows is None:
        return None
    return [
        (each.order, each.delivery_seq, each.first, each.count, each.redelivered, each.attempts)
        for each in rows.rows
    ]


def restored_rows(
    states: list[RowState] | None, held: list[tuple[int, int]], delivery_count: int, order: int
) -> Rows | None:
    """ValueError: they are not of what is `held`, or not in order."""
    if states is None:
        return None
    rows = Rows()
    last_order, last_number = 0, 0
    for state in states:
        for number in state:
            in_bounds(number)
        if state[0] < max(last_order, 1) or state[1] <= last_number or state[3] < 1:
            raise ValueError("rows of deliveries out of order")
        last_order, last_number = state[0], state[1] + state[3] - 1
        rows.rows.append(Row(*state))
    if last_order > order or last_number > delivery_count:
        raise ValueError("rows of deliveries that were never made")
    named = [
        seq
        for first, count in sorted((each[2], each[3]) for each in states)
        for seq in (first, first + count)
    ]
    if _borders(named) != _borders(
        [seq for first, count in held for seq in (first, first + count)]
    ):
        raise ValueError("rows of other messages than the consumer holds")
    return rows


def _borders(places: list[int]) -> list[int]:
    """Begins and ends of ascending runs, without those at which one meets the next."""
    found: list[int] = []
    for place in places:
        if found and found[-1] == place:
            found.pop()
        else:
            found.append(place)
    return found
