"""Messages of a stream taken apart for columns."""

import struct
from dataclasses import replace
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.client import Message
from warren.wire.amqp10.codec.reader import Reader
from warren.wire.amqp10.codec.values import Described, ULong
from warren.wire.amqp10.packed import pack, pack_run, route_annotations
from warren.wire.amqp10.rows import NotOfStream, Samples, StreamRows
from warren.wire.amqp10.transfers import Transfers, store
from warren.wire.buffer import BytesWriter

OFFSET = "x-stream-offset"


def run_of(payloads: list[bytes]) -> Transfers:
    """As the connection finds them."""
    return in_a_run([store(each) for each in payloads])


def in_a_run(stored: list[bytes]) -> Transfers:
    offsets = list(accumulate(map(len, stored), initial=0))
    table = struct.pack(f"<{len(offsets)}I", *offsets)
    return Transfers(0, 0, 1, True, 0, b"".join(stored), table, [0], [0])


def encoded(first: int, messages: list[Message]) -> list[bytes]:
    """With the offsets that the broker adds, behind the annotations of the message."""
    return [
        replace(each, annotations={**each.annotations, OFFSET: ULong(offset)}).encode()
        for offset, each in enumerate(messages, first)
    ]


def body_of(message: bytes) -> bytes:
    return b"odd:" + message


def begun() -> StreamRows:
    return StreamRows(body_of)


def packed_of(runs: list[tuple[int, bytes, list[bytes]]]) -> Transfers:
    """One delivery with runs: offset of the first message, names, payloads."""
    parts: list[bytes] = []
    for first, names, payloads in runs:
        run = run_of(payloads)
        parts += pack_run(first, names, run.data, 0, run.offsets, 0, len(payloads))
    return in_a_run([pack(parts)])


def numbers(packed: BytesWriter, code: str) -> list[int]:
    content = packed.getvalue()
    return list(struct.unpack(f"<{len(content) // struct.calcsize(code)}{code}", content))


def offsets_of(rows: StreamRows) -> list[int]:
    return numbers(rows.offsets, "q")


def bodies_of(rows: StreamRows) -> list[bytes]:
    ends, content = numbers(rows.body_ends, "i"), rows.bodies.getvalue()
    return [content[begin:end] for begin, end in pairwise(ends)]


def places_of(samples: Samples) -> list[int]:
    return numbers(samples.places, "i")


def test_sections_that_are_alike_are_kept_once() -> None:
    rows = begun()
    named = Message(b"b", message_id="m", annotations={"x-a": 1})
    messages = [Message(b"a"), named, replace(named, body=b"c"), Message(b"d", message_id="n")]
    rows.add(run_of(encoded(250, messages)), 1000)
    assert (rows.count, rows.is_complete, rows.runs) == (4, False, [(250, 4)])
    assert offsets_of(rows) == [250, 251, 252, 253]
    assert bodies_of(rows) == [b"a", b"b", b"c", b"d"]
    assert places_of(rows.header) == [0, 0, 0, 0]
    assert places_of(rows.annotations) == [0, 1, 1, 0]
    assert places_of(rows.properties) == [0, 1, 1, 2]
    assert rows.application_properties.samples == [b""]


def test_rows_that_use_the_memory_of_others_have_their_own_messages_alone() -> None:
    before = begun()
    before.add(run_of(encoded(7, [Message(b"one", priority=3), Message(b"two")])), 9)
    rows = StreamRows(body_of, before)
    assert (rows.count, rows.size, bodies_of(rows)) == (0, 0, [])
    rows.add(run_of(encoded(9, [Message(b"three"), Message(b"")])), 11)
    assert (offsets_of(rows), bodies_of(rows)) == ([9, 10], [b"three", b""])
    assert places_of(rows.header) == [0, 0] and rows.runs == [(9, 2)]


def test_messages_behind_the_end_are_left_out() -> None:
    messages = [Message(b"aa"), Message("odd"), Message(b"cc")]
    for end, wanted in ((5, 0), (6, 1), (8, 3), (9, 3)):
        marked, packed = begun(), begun()
        marked.add(run_of(encoded(5, messages)), end)
        packed.add_packed(packed_of([(5, b"", [each.encode() for each in messages])]), end)
        for rows in (marked, packed):
            assert (int(rows.count), rows.is_complete) == (wanted, end <= 8)
            assert offsets_of(rows) == list(range(5, 5 + wanted))
        odd = messages[1].encode()
        assert bodies_of(packed) == [b"aa", b"odd:" + odd, b"cc"][:wanted]


SAID = st.builds(
    Message,
    st.one_of(st.binary(max_size=2), st.binary(min_size=256, max_size=258), st.just("text")),
    durable=st.booleans(),
    message_id=st.sampled_from([None, "a", "b"]),
    annotations=st.sampled_from([{}, {"x-a": 1}, {"x-exchange": "own"}]),
    application_properties=st.sampled_from([{}, {"n": 1}]),
)
RUNS = st.lists(
    st.tuples(
        st.integers(0, 3),  # messages that are left out before the run
        st.sampled_from([b"", b"\x00\x03log", b"\x02ex\x03key"]),
        st.lists(SAID, min_size=1, max_size=5),
    ),
    min_size=1,
    max_size=5,
)


@given(RUNS, st.integers(1, 3))
def test_packed_runs_have_what_single_messages_have(
    given_runs: list[tuple[int, bytes, list[Message]]], cut: int
) -> None:
    """Exchange and routing key of a run are as annotations of its messages."""
    packed, single = begun(), begun()
    runs: list[tuple[int, bytes, list[bytes]]] = []
    offset = 300
    for skipped, names, messages in given_runs:
        offset += skipped
        runs.append((offset, names, [each.encode() for each in messages]))
        for each in messages:
            annotations = {**each.annotations, **route_annotations(names)}
            single.add(run_of(encoded(offset, [replace(each, annotations=annotations)])), 10_000)
            offset += 1
    for at in range(0, len(runs), cut):
        packed.add_packed(packed_of(runs[at : at + cut]), 10_000)
    assert packed.runs == single.runs and packed.count == single.count
    assert packed.offsets.getvalue() == single.offsets.getvalue()
    for name in ("header", "properties", "application_properties"):
        assert sampled(getattr(packed, name)) == sampled(getattr(single, name))
    for one, other in zip(sampled(packed.annotations), sampled(single.annotations), strict=True):
        assert annotations_of(one) == annotations_of(other)
    is_odd = [each.body == "text" for _, _, messages in given_runs for each in messages]
    for one, other, odd in zip(bodies_of(packed), bodies_of(single), is_odd, strict=True):
        assert odd or one == other


def sampled(samples: Samples) -> list[bytes]:
    return [samples.samples[place] for place in places_of(samples)]


def annotations_of(section: bytes) -> dict[str, object]:
    if not section:
        return {}
    found = Reader(section, 0, len(section)).value()
    assert isinstance(found, Described) and isinstance(found.value, dict)
    return {str(key): each for key, each in found.value.items() if key != OFFSET}


@pytest.mark.parametrize("size", [1, 15, 16, 30, 60])
def test_a_run_that_is_cut_short_is_refused(size: int) -> None:
    whole = packed_of([(7, b"\x00\x03log", [Message(b"x" * 40).encode()])])
    begin = len(pack([]))
    content = whole.data[begin : begin + size]
    with pytest.raises(NotOfStream, match="cut short"):
        begun().add_packed(in_a_run([pack([content])]), 10)


@pytest.mark.parametrize(
    "payload",
    [
        Message(b"x").encode(),
        Message(b"x", annotations={"x-other": 1}).encode(),
        Message(b"x", annotations={OFFSET: "5"}).encode(),
        Message(b"x", annotations={OFFSET: ULong(1)}).encode()[:-1],
        b"",
        b"garbage",
    ],
)
def test_a_message_without_an_offset_is_not_of_a_stream(payload: bytes) -> None:
    with pytest.raises(NotOfStream):
        begun().add(run_of([payload]), 10)
    with pytest.raises(NotOfStream):
        begun().add_packed(run_of([payload]), 10)
