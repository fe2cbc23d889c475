"""Bytes of the messages between members: golden ones, any there and back, and wrong ones."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raft.codec import BadMessage, decode, encode
from raft.entries import CONFIG, INDEX_MAX, NOOP, TERM_MAX, Config, Entry
from raft.membership import encode_config
from raft.messages import (
    AppendRequest,
    AppendResponse,
    Message,
    SliceResponse,
    SnapshotSlice,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
)

CONFIG_BYTES = encode_config(Config((1, 2)))
APPEND = AppendRequest(
    5,
    7,
    3,
    6,
    [
        Entry(8, 4, 0, (b"ab", b"c"), (b"body", b""), 4),
        Entry(9, 5, NOOP, (), (), 5),
        Entry(10, 5, CONFIG, (CONFIG_BYTES,), (), 5),
    ],
    2,
)
SLICE = SnapshotSlice(5, 2, 9, 4, Config((1, 2)), 3, True, (b"sta", b"te"))

GOLDEN: list[tuple[Message, str]] = [
    (
        VoteRequest(5, 9, 4, True, False),
        "01010100 0500000000000000 0900000000000000 0400000000000000",
    ),
    (
        VoteRequest(5, 9, 4, False, True),
        "01010200 0500000000000000 0900000000000000 0400000000000000",
    ),
    (VoteResponse(5, True, True), "01020300 0500000000000000"),
    (
        APPEND,
        "01030000 03000000"
        "0500000000000000 0700000000000000 0300000000000000 0600000000000000 0200000000000000"
        "0400000000000000 03000000 02000000 00000000"
        "0500000000000000 00000000 00000000 01000000"
        "0500000000000000 14000000 00000000 02000000"
        "04000000 00000000"
        "616263 626f6479"
        "01020000 0100000000000000 0200000000000000",
    ),
    (
        AppendResponse(5, False, 9, 6, 8, 3, 2),
        "01040000 0500000000000000 0900000000000000 0600000000000000"
        "0800000000000000 0300000000000000 0200000000000000",
    ),
    (TimeoutNow(5), "01050000 0500000000000000"),
    (
        SLICE,
        "01060100 14000000"
        "0500000000000000 0200000000000000 0900000000000000 0400000000000000 0300000000000000"
        "01020000 0100000000000000 0200000000000000"
        "7374617465",
    ),
    (
        SliceResponse(5, 2, 9, 4, 3),
        "01070000 0500000000000000 0200000000000000 0900000000000000 0400000000000000"
        "0300000000000000",
    ),
]


def joined(message: Message) -> bytes:
    return b"".join(encode(message))


def read(data: bytes) -> Message:
    return decode(memoryview(data))


def told(message: Message) -> tuple[object, ...]:
    """All that a message says; parts of an entry or a slice are one."""
    if isinstance(message, AppendRequest):
        rows = [
            (one.index, one.term, one.kind, b"".join(one.parts), list(one.attached))
            for one in message.entries
        ]
        head = (message.term, message.previous_index, message.previous_term)
        return (*head, message.commit_index, message.read_seq, rows)
    names = [name for name in dir(message) if not name.startswith("_") and name != "parts"]
    values = [getattr(message, name) for name in names]
    parts = b"".join(message.parts) if isinstance(message, SnapshotSlice) else b""
    return (type(message).__name__, *values, parts)


@pytest.mark.parametrize(("message", "golden"), GOLDEN)
def test_messages_have_the_bytes_that_the_format_says(message: Message, golden: str) -> None:
    assert joined(message) == bytes.fromhex(golden)
    assert told(read(joined(message))) == told(message)


def test_contents_are_not_joined_or_copied_on_their_way_out() -> None:
    body = b"x" * 5000
    message = AppendRequest(1, 0, 0, 0, [Entry(1, 1, 0, (b"a",), (body,), 1)])
    assert any(part is body for part in encode(message))


def test_short_contents_go_out_in_one_part() -> None:
    short = [Entry(index, 1, 0, (b"a" * 1000, b"b"), (b"c" * 500,), 1) for index in (1, 2, 3)]
    long = [*short, Entry(4, 1, 0, (b"d" * 20_000,), (), 1)]
    (together,) = encode(AppendRequest(1, 0, 0, 0, short))
    apart = encode(AppendRequest(1, 0, 0, 0, long))
    assert len(apart) == 11
    for entries, encoded in ((short, [together]), (long, apart)):
        found = decode(memoryview(b"".join(encoded)))
        assert isinstance(found, AppendRequest)
        for one, other in zip(found.entries, entries, strict=True):
            assert b"".join(one.parts) == b"".join(other.parts)
            assert list(one.attached) == list(other.attached)


def test_what_comes_in_was_appended_in_the_term_of_the_message() -> None:
    message = read(joined(APPEND))
    assert isinstance(message, AppendRequest)
    assert [one.appended_term for one in message.entries] == [5, 5, 5]
    assert [one.byte_count for one in message.entries] == [64 + 7, 64, 64 + 20]


terms = st.integers(1, TERM_MAX)
numbers = st.integers(0, INDEX_MAX)
ids = st.integers(1, (1 << 63) - 1)
bodies = st.lists(st.binary(max_size=20), max_size=3)


@st.composite
def append_requests(draw: st.DrawFn) -> AppendRequest:
    chosen = sorted(draw(st.lists(st.integers(1, 50), max_size=5)))
    index = draw(st.integers(1, INDEX_MAX - 10))
    entries = [
        Entry(index + place, term, 0, tuple(draw(bodies)), draw(bodies), term)
        for place, term in enumerate(chosen, 1)
    ]
    previous_term = draw(st.integers(0, chosen[0] if chosen else 50))
    return AppendRequest(50, index, previous_term, draw(numbers), entries, draw(numbers))


@st.composite
def slices(draw: st.DrawFn) -> SnapshotSlice:
    term = draw(terms)
    members = draw(st.lists(ids, unique=True, max_size=5))
    return SnapshotSlice(
        term,
        draw(ids),
        draw(st.integers(1, INDEX_MAX)),
        draw(st.integers(1, term)),
        Config(members[:3], members[3:], members[4:]),
        draw(numbers),
        draw(st.booleans()),
        tuple(draw(bodies)),
    )


messages = st.one_of(
    append_requests(),
    slices(),
    st.builds(VoteRequest, terms, numbers, st.just(0), st.booleans(), st.just(False)),
    st.builds(VoteResponse, numbers.filter(lambda n: n <= TERM_MAX), st.booleans(), st.booleans()),
    st.builds(AppendResponse, terms, st.booleans(), numbers, numbers, numbers, st.just(0), numbers),
    st.builds(TimeoutNow, terms),
    st.builds(SliceResponse, terms, ids, st.integers(1, INDEX_MAX), st.just(1), numbers),
)


@settings(max_examples=150, deadline=None)
@given(messages)
def test_any_message_comes_back_as_it_was(message: Message) -> None:
    assert told(read(joined(message))) == told(message)


@settings(max_examples=200, deadline=None)
@given(messages, st.integers(0, 200), st.binary(min_size=1, max_size=9), st.booleans())
def test_a_message_with_a_wound_is_refused_or_is_another(
    message: Message, place: int, wound: bytes, is_cut: bool
) -> None:
    data = joined(message)
    place = min(place, len(data))
    wounded = data[:place] if is_cut else data[:place] + wound + data[place + len(wound) :]
    try:
        other = read(wounded)
    except BadMessage:
        return
    assert joined(other) == wounded


def patched(message: Message, offset: int, layout: str, value: int) -> bytes:
    data = bytearray(joined(message))
    struct.pack_into(layout, data, offset, value)
    return bytes(data)


FIELDS = [
    (message, offset)
    for message, _ in GOLDEN
    for offset in range(8 if message in (APPEND, SLICE) else 4, 44, 8)
    if offset + 8 <= len(joined(message))
]


@pytest.mark.parametrize(("message", "offset"), FIELDS)
@pytest.mark.parametrize("value", [(1 << 63), (1 << 64) - 1])
def test_numbers_out_of_range_are_refused(message: Message, offset: int, value: int) -> None:
    with pytest.raises(BadMessage):
        read(patched(message, offset, "<Q", value))


@pytest.mark.parametrize(
    ("message", "offset", "layout", "value"),
    [
        (APPEND, 0, "<B", 2),  # version
        (APPEND, 1, "<B", 0),  # kind
        (APPEND, 1, "<B", 8),
        (APPEND, 2, "<B", 1),  # flags
        (APPEND, 3, "<B", 1),  # a byte without meaning
        (APPEND, 4, "<I", 2),  # count
        (APPEND, 4, "<I", 4),
        (APPEND, 4, "<I", (1 << 32) - 1),
        (APPEND, 8, "<Q", 0),  # term
        (APPEND, 8, "<Q", 4),  # lower than an entry's
        (APPEND, 8, "<Q", TERM_MAX + 1),
        (APPEND, 16, "<Q", INDEX_MAX),  # the entries would go beyond
        (APPEND, 16, "<Q", 0),  # nothing is there, and has no term
        (APPEND, 24, "<Q", 5),  # higher than that of the first entry
        (APPEND, 48, "<Q", 2),  # an entry's term, lower than the previous
        (APPEND, 48, "<Q", 6),  # higher than the sender's
        (APPEND, 56, "<I", 4),  # length
        (APPEND, 56, "<I", (1 << 32) - 1),
        (APPEND, 60, "<I", 3),  # count of what is attached
        (APPEND, 60, "<I", (1 << 32) - 1),
        (APPEND, 64, "<I", 3),  # kind
        (APPEND, 64, "<I", NOOP),  # of one with contents
        (APPEND, 64, "<I", CONFIG),
        (APPEND, 108, "<I", 5),  # length of something attached
        (VoteRequest(5, 9, 4, True, False), 2, "<B", 3),
        (VoteRequest(5, 9, 4, True, False), 20, "<Q", 5),  # last term: the one it asks about
        (VoteRequest(5, 9, 4, True, False), 4, "<Q", 0),
        (VoteResponse(5, True, True), 2, "<B", 4),
        (TimeoutNow(5), 2, "<B", 1),
        (TimeoutNow(5), 4, "<Q", 0),
        (AppendResponse(5, True, 9, 6), 2, "<B", 2),
        (AppendResponse(5, True, 9, 6), 36, "<Q", 6),  # hint of a higher term
        (SLICE, 2, "<B", 2),
        (SLICE, 4, "<I", 19),  # length of the configuration
        (SLICE, 4, "<I", (1 << 32) - 1),
        (SLICE, 16, "<Q", 0),  # source
        (SLICE, 24, "<Q", 0),  # index
        (SLICE, 32, "<Q", 6),  # term of the snapshot
        (SliceResponse(5, 2, 9, 4, 3), 2, "<B", 1),
        (SliceResponse(5, 2, 9, 4, 3), 12, "<Q", 0),
    ],
)
def test_what_no_member_would_say_is_refused(
    message: Message, offset: int, layout: str, value: int
) -> None:
    with pytest.raises(BadMessage):
        read(patched(message, offset, layout, value))


@pytest.mark.parametrize("message", [message for message, _ in GOLDEN])
def test_messages_cut_short_or_with_something_behind_are_refused(message: Message) -> None:
    data = joined(message)
    open_end = isinstance(message, SnapshotSlice)
    for length in range(len(data) - (5 if open_end else 0)):
        with pytest.raises(BadMessage):
            read(data[:length])
    if not open_end:
        with pytest.raises(BadMessage):
            read(data + b"\0")
