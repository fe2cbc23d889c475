"""Frames in and lanes out: any split, cut messages, turns, limits."""

import struct
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warren.wire.peer.codes import (
    ASK,
    ASK_ANSWER,
    ASK_ROLE,
    BEAT,
    BULK_LANE,
    BULK_ROLE,
    CONTROL_LANE,
    CONTROL_ROLE,
    OTHER_KIND_MIN,
    RAFT,
    PeerFault,
)
from warren.wire.peer.frames import FRAME_BYTES_MAX, FRAME_HEAD, Frame, FrameReader
from warren.wire.peer.lanes import Lanes

BOUNDED = settings(max_examples=100, deadline=None, database=None)
BYTES_MAX = 1 << 30
Told = tuple[int, int, bytes]


def frame(length: int, kind: int, lane: int, flags: int = 0, zero: int = 0) -> bytes:
    return struct.pack("<IBBBB", length, kind, lane, flags, zero)


def written(lanes: Lanes, bytes_max: int = 1 << 20) -> bytes:
    sent = b""
    while not lanes.is_empty():
        sent += b"".join(lanes.take(bytes_max))
    return sent


def read(data: bytes, cuts: list[int], role: int = BULK_ROLE) -> list[Told]:
    """What comes of these bytes when they are read in these portions."""
    reader = FrameReader(role, BYTES_MAX)
    found: list[Frame] = []
    borders = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for start, end in pairwise(borders):
        reader.receive(data[start:end], found)
    return [(each.kind, each.lane, bytes(each.payload)) for each in found]


def fault(data: bytes, role: int = BULK_ROLE, message_bytes_max: int = BYTES_MAX) -> str:
    with pytest.raises(PeerFault) as caught:
        FrameReader(role, message_bytes_max).receive(data, [])
    return caught.value.text


def test_the_bytes_of_a_frame_are_these() -> None:
    lanes = Lanes(BYTES_MAX)
    lanes.put(RAFT, BULK_LANE, [b"ab", b"", b"c"])
    assert written(lanes) == b"\x03\0\0\0\x03\x01\0\0abc"


def test_parts_leave_as_they_came_and_are_not_joined() -> None:
    lanes = Lanes(BYTES_MAX)
    parts = [b"x" * 10, b"y" * 1000]
    lanes.put(RAFT, BULK_LANE, parts)
    head, *rest = lanes.take(1 << 20)
    assert len(head) == FRAME_HEAD
    assert [each is part for each, part in zip(rest, parts, strict=True)] == [True, True]


def test_a_message_within_one_read_is_a_view_of_that_read() -> None:
    data = frame(3, RAFT, BULK_LANE) + b"abc"
    found: list[Frame] = []
    FrameReader(BULK_ROLE, BYTES_MAX).receive(data, found)
    assert found[0].payload.obj is data


@settings(BOUNDED)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([RAFT, OTHER_KIND_MIN, 255]),
            st.integers(1, 3),
            st.lists(st.binary(max_size=20), max_size=4),
        ),
        max_size=8,
    ),
    st.lists(st.integers(0, 1000), max_size=12),
    st.integers(1, 200),
)
def test_any_split_gives_each_lane_in_order(
    messages: list[tuple[int, int, list[bytes]]], cuts: list[int], bytes_max: int
) -> None:
    lanes = Lanes(BYTES_MAX)
    for kind, lane, parts in messages:
        assert lanes.put(kind, lane, parts)
    told = read(written(lanes, bytes_max), cuts)
    for lane in range(4):
        sent = [(kind, lane, b"".join(parts)) for kind, at, parts in messages if at == lane]
        assert [each for each in told if each[1] == lane] == sent


@pytest.mark.parametrize("extra", [-1, 0, 1, FRAME_BYTES_MAX, FRAME_BYTES_MAX + 1])
def test_long_messages_are_cut_and_joined_again(extra: int) -> None:
    content = bytes(range(256)) * 1024 + b"z" * (extra + 1)
    content = content[: FRAME_BYTES_MAX + extra]
    parts = [content[:5], b"", content[5:300], content[300:]]
    lanes = Lanes(BYTES_MAX)
    lanes.put(RAFT, 2, parts)
    lanes.put(RAFT, 2, [b"behind"])
    data = written(lanes)
    frames = 1 if extra <= 0 else 2 if extra <= FRAME_BYTES_MAX else 3
    assert len(data) == len(content) + 6 + FRAME_HEAD * (frames + 1)
    for cuts in ([], [1], [FRAME_HEAD, FRAME_BYTES_MAX + 9], [100, 200_000, 262_150]):
        assert read(data, cuts) == [(RAFT, 2, content), (RAFT, 2, b"behind")]


def test_whole_parts_of_a_message_that_is_cut_leave_as_they_came() -> None:
    lanes = Lanes(BYTES_MAX)
    parts = [b"%03d" % number * 40_000 for number in range(5)]
    lanes.put(RAFT, BULK_LANE, parts)
    taken = lanes.take(1 << 20)
    as_they_came = [any(each is part for each in taken) for part in parts]
    assert as_they_came == [True, True, False, True, False]
    assert read(b"".join(taken), []) == [(RAFT, BULK_LANE, b"".join(parts))]


def test_a_long_message_of_one_lane_does_not_hold_up_the_others() -> None:
    lanes = Lanes(BYTES_MAX)
    lanes.put(RAFT, 2, [bytes(20 * FRAME_BYTES_MAX)])
    lanes.put(RAFT, 1, [b"short"])
    first = b"".join(lanes.take(1))
    second = b"".join(lanes.take(1))
    assert b"short" in first + second[: FRAME_HEAD + 5]


def test_lanes_take_turns_by_bytes_and_not_by_messages() -> None:
    lanes = Lanes(BYTES_MAX)
    for _ in range(3000):
        lanes.put(RAFT, 1, [bytes(1000)])
    lanes.put(RAFT, 2, [bytes(3_000_000)])
    half = b"".join(lanes.take(2_000_000))
    told = read(half, [])
    assert 900 < len(told) < 1400  # so about half of it was the other lane's


def test_beats_go_before_all_that_waits_but_never_into_a_frame() -> None:
    lanes = Lanes(BYTES_MAX)
    lanes.put(RAFT, 1, [bytes(3 * FRAME_BYTES_MAX)])
    data = b"".join(lanes.take(1))
    beat = frame(8, BEAT, 0) + b"12345678"
    lanes.put_first(beat)
    data += b"".join(lanes.take(1))
    assert data[FRAME_HEAD + FRAME_BYTES_MAX :].startswith(beat)
    data += written(lanes)
    for cuts in ([], [FRAME_HEAD + FRAME_BYTES_MAX + 10]):
        told = read(data, cuts)
        assert told == [(BEAT, 0, b"12345678"), (RAFT, 1, bytes(3 * FRAME_BYTES_MAX))]


def test_a_full_lane_takes_nothing_until_it_has_given_something() -> None:
    lanes = Lanes(100)
    assert lanes.put(RAFT, 1, [bytes(1000)])  # The first one fits, whatever its size.
    assert lanes.is_full()
    assert not lanes.put(RAFT, 1, [b"x"])
    lanes.take(1)
    assert not lanes.is_full()
    assert lanes.queued_bytes == 0
    assert lanes.put(RAFT, 1, [b"x"])


def test_an_empty_message_comes_as_one() -> None:
    lanes = Lanes(BYTES_MAX)
    lanes.put(RAFT, 1, [])
    lanes.put(RAFT, 1, [b""])
    assert read(written(lanes), [3]) == [(RAFT, 1, b""), (RAFT, 1, b"")]


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (frame(FRAME_BYTES_MAX + 1, RAFT, 1), "where 262144 are allowed"),
        (frame(0xFFFFFFFF, RAFT, 1), "a frame of 4294967295 bytes"),
        (frame(1, 0, 1), "unknown kind 0"),
        (frame(1, 4, 1), "unknown kind 4"),
        (frame(1, 127, 1), "unknown kind 127"),
        (frame(1, RAFT, 4), "malformed"),
        (frame(1, RAFT, 1, flags=2), "malformed"),
        (frame(1, RAFT, 1, flags=1), "malformed"),  # goes on, and is not full
        (frame(1, RAFT, 1, zero=1), "malformed"),
        (frame(1, RAFT, CONTROL_LANE), "lane 0 on the wrong connection"),
        (frame(7, BEAT, 0), "a beat is malformed"),
        (frame(8, BEAT, 1), "a beat is malformed"),
    ],
)
def test_a_wrong_head_is_refused_before_its_bytes_come(head: bytes, words: str) -> None:
    assert words in fault(head)


def test_bulk_lanes_do_not_belong_on_the_control_connection() -> None:
    assert "lane 1 on the wrong connection" in fault(frame(1, RAFT, 1), CONTROL_ROLE)


def test_a_message_that_grows_too_long_is_refused_at_the_head_that_says_so() -> None:
    full = frame(FRAME_BYTES_MAX, RAFT, 1, flags=1) + bytes(FRAME_BYTES_MAX)
    text = fault(full + full + frame(1, RAFT, 1), BULK_ROLE, 2 * FRAME_BYTES_MAX)
    assert text == f"a message of more than {2 * FRAME_BYTES_MAX} bytes"


def test_a_message_does_not_change_its_kind_on_the_way() -> None:
    full = frame(FRAME_BYTES_MAX, RAFT, 1, flags=1) + bytes(FRAME_BYTES_MAX)
    text = fault(full + frame(1, OTHER_KIND_MIN, 1))
    assert "a message of kind 3 goes on as one of kind 128" in text


@settings(BOUNDED)
@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=5))
def test_garbage_is_a_fault_or_waits_for_more_and_is_the_same_in_any_split(
    data: bytes, cuts: list[int]
) -> None:
    def outcome(portions: list[int]) -> tuple[list[Told], str]:
        reader = FrameReader(BULK_ROLE, BYTES_MAX)
        found: list[Frame] = []
        text = ""
        borders = [0, *sorted(cut % (len(data) + 1) for cut in portions), len(data)]
        try:
            for start, end in pairwise(borders):
                reader.receive(data[start:end], found)
        except PeerFault as error:
            text = error.text
        return [(each.kind, each.lane, bytes(each.payload)) for each in found], text

    assert outcome(cuts) == outcome([])


def test_a_beat_in_the_midst_of_a_long_control_message_belongs_to_neither_side_of_it() -> None:
    lanes = Lanes(BYTES_MAX)
    content = bytes(range(256)) * 2048
    lanes.put(RAFT, CONTROL_LANE, [content])
    data = b"".join(lanes.take(1))
    lanes.put_first(frame(8, BEAT, 0) + b"12345678")
    data += written(lanes)
    at_beat = FRAME_HEAD + FRAME_BYTES_MAX
    for cuts in ([], [at_beat + 12], [at_beat - 1, at_beat + 3, at_beat + 15]):
        told = read(data, cuts, CONTROL_ROLE)
        assert told == [(BEAT, 0, b"12345678"), (RAFT, CONTROL_LANE, content)]


def test_a_connection_that_asks_carries_questions_and_answers_alone() -> None:
    question = frame(3, ASK, CONTROL_LANE) + b"who"
    answer = frame(2, ASK_ANSWER, CONTROL_LANE) + b"me"
    told = read(question + answer, [2, 9], ASK_ROLE)
    assert told == [(ASK, CONTROL_LANE, b"who"), (ASK_ANSWER, CONTROL_LANE, b"me")]
    for kind, lane, flags in [
        (RAFT, CONTROL_LANE, 0),
        (OTHER_KIND_MIN, CONTROL_LANE, 0),
        (ASK, BULK_LANE, 0),
    ]:
        assert "on a connection that asks" in fault(frame(3, kind, lane, flags), ASK_ROLE)
    cut = frame(FRAME_BYTES_MAX, ASK, CONTROL_LANE, 1)
    assert "on a connection that asks" in fault(cut, ASK_ROLE)
    assert "unknown kind 4" in fault(frame(3, ASK, CONTROL_LANE), CONTROL_ROLE)
