"""Commands and their bytes: each one golden, there and back, cut short, and of unknown kinds."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queues.machine.annotations import WORDS_BYTES_MAX, encode_words
from queues.machine.commands import (
    ACCEPT,
    FAIL,
    REJECT_TOO_LARGE,
    RELEASE,
    RETURN_UNSEEN,
    TRACKED_PUBLISHER,
    Attach,
    BadCommand,
    Command,
    Configure,
    ConsumerKey,
    Credit,
    Detach,
    DropLost,
    EndProcess,
    EndSession,
    Enqueue,
    Get,
    Identify,
    Inspect,
    JoinGroup,
    Leads,
    Numbered,
    Purge,
    QueryTracking,
    ReleaseDeadLetters,
    Restarted,
    Retire,
    SessionId,
    Settle,
    StoreOffsets,
    Suspend,
    Tick,
    Unsuspend,
    consumer_key,
    decode,
    encode,
    session_of,
)
from queues.machine.options import REJECT_PUBLISH_DLX, Options
from queues.machine.traits import Traits

BOUNDED = settings(max_examples=250, deadline=None, database=None)
SESSION = SessionId(0x0102030405060708 << 64 | 9)
KEY = consumer_key(SESSION, 3)
SESSION_BYTES = "0900000000000000" + "0807060504030201"
KEY_BYTES = "03000000" + SESSION_BYTES


def i32s(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}i", *numbers)


def i64s(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}q", *numbers)


GOLDEN: list[tuple[Command, str]] = [
    (Enqueue(SESSION, 5, 7), "0101" + SESSION_BYTES + "0500000000000000" + "07000000" + "00"),
    (
        Enqueue(SESSION, 5, 7, Traits(4, 60_000)),
        "0101"
        + SESSION_BYTES
        + "0500000000000000"
        + "07000000"
        + "01"
        + "04000000"
        + "60ea000000000000",
    ),
    (
        Enqueue(SESSION, 1, 2, Traits(-1, -1, i32s(9, -1), i64s(-1, 1 << 32), i32s(3, 258))),
        "0101" + SESSION_BYTES + "0100000000000000" + "02000000"
        "0f" + "ffffffff" + "ffffffffffffffff" + "09000000" + "ffffffff"
        "ffffffffffffffff" + "0000000001000000" + "03000000" + "02010000",
    ),
    (
        Enqueue(SESSION, 1, 1, Traits(7, -1, None, None, i32s(5))),
        "0101" + SESSION_BYTES + "0100000000000000" + "01000000"
        "09" + "07000000" + "ffffffffffffffff" + "05000000",
    ),
    (
        Settle(KEY, ACCEPT, [(1, 2), (258, 1)]),
        "0201" + KEY_BYTES + "01" + "02000000"
        "0100000000000000" + "02000000" + "0201000000000000" + "01000000",
    ),
    (Settle(KEY, RETURN_UNSEEN, []), "0201" + KEY_BYTES + "04" + "00000000"),
    (Settle(KEY, FAIL, []), "0201" + KEY_BYTES + "05" + "00000000"),
    (
        Settle(KEY, RELEASE, [(1, 2)], encode_words({b"x-a": b"\x41"})),
        "0202" + KEY_BYTES + "03" + "01000000" + "0100000000000000" + "02000000"
        "09000000" + "03782d61" + "01000000" + "41",
    ),
    (
        Attach(KEY, 2000, True, True, -2),
        "0301" + KEY_BYTES + "03" + "d007000000000000" + "feffffff" + "ff" * 8,
    ),
    (
        Attach(KEY, 0, False, False, 10, 1000),
        "0301" + KEY_BYTES + "00" + "0000000000000000" + "0a000000" + "e803000000000000",
    ),
    (
        Credit(KEY, 6, 100, True, False),
        "0401" + KEY_BYTES + "04" + "0600000000000000" + "6400000000000000",
    ),
    (
        Credit(KEY, 0, 1, False, True),
        "0401" + KEY_BYTES + "01" + "0000000000000000" + "0100000000000000",
    ),
    (Detach(KEY), "0501" + KEY_BYTES),
    (Get(SESSION), "0601" + SESSION_BYTES),
    (Purge(SESSION), "0701" + SESSION_BYTES),
    (Inspect(SESSION), "0801" + SESSION_BYTES),
    (EndSession(SESSION), "0901" + SESSION_BYTES),
    (EndSession(SESSION, is_cut_off=True), "0902" + SESSION_BYTES),
    (Configure(Options()), "0a01" + "00000000" + "ff" * 48),
    (
        Configure(
            Options(
                *(32, 4, 1000, 258, 65_536, REJECT_PUBLISH_DLX),
                single_active=True,
                dead_letters=True,
                delivery_limit=20,
                consumer_timeout_ms=0,
                expires_ms=60_000,
            )
        ),
        "0a01" + "09021f04" + "e803000000000000" + "0201000000000000" + "0000010000000000"
        "1400000000000000" + "0000000000000000" + "60ea000000000000",
    ),
    (
        Configure(Options(drain_handover=True, counts_deliveries=True)),
        "0a01" + "06000000" + "ff" * 48,
    ),
    (
        Configure(Options(bytes_max=9), [(1, 2, 3), (258, 1, 0)]),
        "0a02" + "00000000" + "ff" * 16 + "0900000000000000" + "ff" * 24 + "02000000"
        "0100000000000000" + "02000000" + "03000000" + "0201000000000000" + "01000000" + "00000000",
    ),
    (Tick(), "0b01"),
    (Restarted(258), "0c01" + "0201000000000000"),
    (
        Numbered(SESSION, 7, 258, Get(SESSION)),
        "0d01" + SESSION_BYTES + "0700000000000000" + "0201000000000000" + "12000000"
        "0601" + SESSION_BYTES,
    ),
    (Leads(9), "0e01" + "0900000000000000"),
    (Retire(SESSION, False, True, True), "0f01" + SESSION_BYTES + "06"),
    (Retire(SESSION, True), "0f01" + SESSION_BYTES + "01"),
    (Suspend(0xFF << 56 | 1, 60_000), "1001" + "01000000000000ff" + "60ea000000000000"),
    (Unsuspend(0xFF << 56 | 1), "1101" + "01000000000000ff"),
    (EndProcess(0xFF << 56 | 1), "1201" + "01000000000000ff"),
    (EndProcess(0xFF << 56 | 1, is_cut_off=True), "1202" + "01000000000000ff"),
    (DropLost([(258, 1)]), "1701" + "01000000" + "0201000000000000" + "01000000"),
    (ReleaseDeadLetters([(258, 1)]), "1301" + "01000000" + "0201000000000000" + "01000000"),
    (
        StoreOffsets(SESSION, [(b"ab", 258)]),
        "1401" + SESSION_BYTES + "01000000" + "026162" + "0201000000000000",
    ),
    (QueryTracking(SESSION, TRACKED_PUBLISHER, b"ab"), "1501" + SESSION_BYTES + "02" + "026162"),
    (
        Identify(SESSION, b"ab", [(258, 1)]),
        "1601" + SESSION_BYTES + "026162" + "01000000" + "0201000000000000" + "01000000",
    ),
    (JoinGroup(SESSION, b"ab", 2), "1801" + SESSION_BYTES + "026162" + "03000000"),
    (JoinGroup(SESSION, b"ab", -1), "1801" + SESSION_BYTES + "026162" + "00000000"),
]


U32 = st.integers(0, (1 << 32) - 1)
I32 = st.integers(-(1 << 31), (1 << 31) - 1)
U63 = st.integers(0, (1 << 63) - 1)
SESSIONS = st.integers(0, (1 << 128) - 1).map(SessionId)
KEYS = st.builds(consumer_key, SESSIONS, U32)
RUNS = st.lists(st.tuples(U63, U32), max_size=5)
WORDS = st.dictionaries(st.binary(max_size=9), st.binary(max_size=9), max_size=3).map(encode_words)
NAMES = st.binary(max_size=255)
I64 = st.integers(-(1 << 63), (1 << 63) - 1)
FLAGS = st.booleans()
OPTIONS = st.builds(
    Options,
    *(st.integers(200, 256), st.integers(0, 199), I64, I64, I64, st.integers(0, 2)),
    *(FLAGS, FLAGS, FLAGS, I64, I64, I64, FLAGS),
)


def enqueue_of(
    session: SessionId, first: int, count: int, priority: int, ttl_ms: int, columns: int
) -> Enqueue:
    """With traits; `columns` says which of them differ from message to message."""
    numbers = range(-1, count - 1)
    made = i32s(*numbers), i64s(*numbers), i32s(*numbers)
    kept = [column if columns & 1 << place else None for place, column in enumerate(made)]
    return Enqueue(session, first, count, Traits(priority, ttl_ms, *kept))


PROCESSES = st.integers(0, (1 << 64) - 1)


def numbered_of(number: int, confirmed: int, key: ConsumerKey, kind: int) -> Numbered:
    session = session_of(key)
    commands: list[Command] = [Get(session), Detach(key), Enqueue(session, 5, 2)]
    return Numbered(session, number, confirmed, commands[kind])


COMMANDS: st.SearchStrategy[Command] = st.one_of(
    st.builds(numbered_of, U63, U63, KEYS, st.integers(0, 2)),
    st.builds(Leads, st.integers(1, (1 << 23) - 1)),
    st.builds(Retire, SESSIONS, FLAGS, FLAGS, FLAGS),
    st.builds(Suspend, PROCESSES, U63),
    st.builds(Unsuspend, PROCESSES),
    st.builds(EndProcess, PROCESSES, st.booleans()),
    st.builds(ReleaseDeadLetters, RUNS),
    st.builds(DropLost, RUNS),
    st.builds(Enqueue, SESSIONS, U63, U32),
    st.builds(enqueue_of, SESSIONS, U63, st.integers(0, 5), I32, I64, st.integers(0, 7)),
    st.builds(Settle, KEYS, st.integers(ACCEPT, REJECT_TOO_LARGE), RUNS),
    st.builds(Settle, KEYS, st.integers(ACCEPT, REJECT_TOO_LARGE), RUNS, WORDS),
    st.builds(Attach, KEYS, U63, st.booleans(), st.booleans(), I32, I64),
    st.builds(Credit, KEYS, U63, U63, st.booleans(), st.booleans()),
    st.builds(Detach, KEYS),
    st.builds(Get, SESSIONS),
    st.builds(Purge, SESSIONS),
    st.builds(Inspect, SESSIONS),
    st.builds(EndSession, SESSIONS, st.booleans()),
    st.builds(Configure, OPTIONS),
    st.builds(Tick),
    st.builds(Restarted, U63),
    st.builds(StoreOffsets, SESSIONS, st.lists(st.tuples(NAMES, U63), max_size=4)),
    st.builds(QueryTracking, SESSIONS, st.integers(1, 2), NAMES),
    st.builds(Identify, SESSIONS, NAMES, RUNS),
    st.builds(JoinGroup, SESSIONS, NAMES, st.integers(-1, 1000)),
)


def fields_of(command: Command) -> tuple[object, ...]:
    """What the command says, as something that compares."""
    names = (
        *("session", "first_seq", "count", "key", "outcome", "runs"),
        *("credit", "auto_return", "exclusive", "priority", "delivery_count", "drain"),
        *("timeout_ms", "options", "sizes", "next_seq", "annotations"),
        *("number", "confirmed", "term", "off", "if_empty", "if_unused", "process"),
        *("rows", "subject", "name", "publisher"),
    )
    traits = traits_fields(command.traits) if isinstance(command, Enqueue) else None
    inner = fields_of(command.command) if isinstance(command, Numbered) else None
    fields = (getattr(command, name, None) for name in names)
    return type(command), command.kind, traits, inner, *fields


def traits_fields(traits: Traits | None) -> tuple[object, ...] | None:
    if traits is None:
        return None
    columns = traits.priorities, traits.ttls, traits.sizes
    return traits.priority, traits.ttl_ms, *columns


@pytest.mark.parametrize(("command", "expected"), GOLDEN)
def test_each_command_has_the_bytes_of_the_document(command: Command, expected: str) -> None:
    assert encode(command).hex() == expected
    assert fields_of(decode(bytes.fromhex(expected))) == fields_of(command)


@BOUNDED
@given(COMMANDS)
def test_what_is_encoded_is_decoded_again(command: Command) -> None:
    assert fields_of(decode(encode(command))) == fields_of(command)


@BOUNDED
@given(COMMANDS)
def test_every_truncation_and_every_addition_is_refused(command: Command) -> None:
    data = encode(command)
    for end in range(len(data)):
        with pytest.raises(BadCommand):
            decode(data[:end])
    with pytest.raises(BadCommand):
        decode(data + b"\0")


@pytest.mark.parametrize("kind", [0, 23, 77, 255])
def test_an_unknown_kind_is_refused_whatever_follows(kind: int) -> None:
    for size in (0, 16, 20, 40):
        with pytest.raises(BadCommand):
            decode(bytes([kind, 1]) + bytes(size))


@pytest.mark.parametrize("version", [0, 2, 255])
def test_another_version_of_a_known_kind_is_refused(version: int) -> None:
    for command, _ in GOLDEN:
        data = bytearray(encode(command))
        if data[1] == version:
            continue  # It is of this version.
        if version == 2 and isinstance(command, (EndSession, EndProcess)):
            continue  # The same fields.
        data[1] = version
        with pytest.raises(BadCommand):
            decode(bytes(data))


@pytest.mark.parametrize(
    "sizes", [[(5, 1, 1), (4, 1, 1)], [(1, 2, 1), (2, 1, 1)], [(1, 1, 1 << 31)]]
)
def test_sizes_out_of_order_or_range_are_refused(sizes: list[tuple[int, int, int]]) -> None:
    with pytest.raises(BadCommand):
        decode(encode(Configure(Options(), sizes)))


@pytest.mark.parametrize(
    "words",
    [b"", b"\x01", 2 * encode_words({b"a": b"1"}), encode_words({b"a": bytes(WORDS_BYTES_MAX)})],
)
def test_annotations_that_are_none_or_too_many_are_refused(words: bytes) -> None:
    data = bytearray(encode(Settle(KEY, RELEASE, [(1, 1)])))
    data[1] = 2
    with pytest.raises(BadCommand):
        decode(bytes(data) + len(words).to_bytes(4, "little") + words)


@pytest.mark.parametrize("kind", [1, *range(4, 9), *range(11, 18), 19])
def test_no_other_kind_has_a_second_version(kind: int) -> None:
    with pytest.raises(BadCommand, match="version"):
        decode(bytes([kind, 2]) + bytes(60))


@pytest.mark.parametrize("outcome", [0, 7, 255])
def test_an_unknown_outcome_is_refused(outcome: int) -> None:
    data = bytearray(encode(Settle(KEY, ACCEPT, [(1, 1)])))
    data[22] = outcome
    with pytest.raises(BadCommand):
        decode(bytes(data))


def test_an_unknown_flag_is_refused() -> None:
    for command in (Attach(KEY, 1, True, True, 0), Credit(KEY, 0, 1, True, True)):
        for flag in (8, 16, 32, 64, 128):
            data = bytearray(encode(command))
            data[22] |= flag
            with pytest.raises(BadCommand):
                decode(bytes(data))


def test_an_unknown_column_of_traits_is_refused() -> None:
    for command in (Enqueue(SESSION, 1, 1), Enqueue(SESSION, 1, 1, Traits(1, 2))):
        for flag in (16, 32, 64, 128):
            data = bytearray(encode(command))
            data[30] |= flag
            with pytest.raises(BadCommand):
                decode(bytes(data))


def test_a_column_that_the_bytes_cannot_hold_is_refused_at_once() -> None:
    data = bytearray(encode(Enqueue(SESSION, 1, 1, Traits(1, 2, i32s(3)))))
    data[26:30] = b"\xff\xff\xff\xff"
    with pytest.raises(BadCommand):
        decode(bytes(data))


@pytest.mark.parametrize(("place", "value"), [(2, 64), (3, 3), (3, 255), (5, 1), (5, 255)])
def test_unknown_options_are_refused(place: int, value: int) -> None:
    data = bytearray(encode(Configure(Options())))
    data[place] = value
    with pytest.raises(BadCommand):
        decode(bytes(data))


def test_a_count_of_runs_that_the_bytes_cannot_hold_is_refused_at_once() -> None:
    data = bytearray(encode(Settle(KEY, ACCEPT, [(1, 1)])))
    data[23:27] = b"\xff\xff\xff\xff"
    with pytest.raises(BadCommand):
        decode(bytes(data))


def test_a_number_beyond_63_bits_is_refused() -> None:
    data = bytearray(encode(Enqueue(SESSION, 1, 1)))
    data[25] = 0x80
    with pytest.raises(BadCommand):
        decode(bytes(data))


@BOUNDED
@given(st.binary(max_size=60), st.integers(0, 20))
def test_bytes_that_are_no_command_raise_nothing_but_bad_command(data: bytes, kind: int) -> None:
    for candidate in (data, bytes([kind, 1]) + data):
        try:
            command = decode(candidate)
        except BadCommand:
            continue
        assert encode(command) == candidate


def test_a_consumer_key_names_its_session() -> None:
    for number in (0, 1, (1 << 32) - 1):
        assert session_of(consumer_key(SESSION, number)) == SESSION


@pytest.mark.parametrize("flags", [2, 4, 8, 14])
def test_columns_without_the_bit_for_traits_are_refused(flags: int) -> None:
    data = bytearray(encode(Enqueue(SessionId(1), 1, 1, None)))
    data[-1] = flags
    with pytest.raises(BadCommand, match="columns of no traits"):
        decode(bytes(data) + bytes(64))


@pytest.mark.parametrize(
    "inner", [Get(SessionId(8)), Tick(), Leads(1), Numbered(SESSION, 1, 0, Get(SESSION))]
)
def test_a_stream_has_commands_of_its_own_session_alone(inner: Command) -> None:
    head = encode(Numbered(SESSION, 1, 0, Get(SESSION)))[:34]
    inside = encode(inner)
    with pytest.raises(BadCommand, match="stream of others"):
        decode(head + len(inside).to_bytes(4, "little") + inside)


@pytest.mark.parametrize("term", [0, 1 << 23, 1 << 62])
def test_a_term_that_no_message_number_can_bear_is_refused(term: int) -> None:
    with pytest.raises(BadCommand, match="term"):
        decode(bytes((14, 1)) + term.to_bytes(8, "little"))
