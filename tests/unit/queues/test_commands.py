"""Commands and their bytes: each one golden, there and back, cut short, and of unknown kinds."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queues.commands import (
    ACCEPT,
    RETURN_UNSEEN,
    Attach,
    BadCommand,
    Command,
    Credit,
    Detach,
    EndSession,
    Enqueue,
    Get,
    Inspect,
    Purge,
    SessionId,
    Settle,
    consumer_key,
    decode,
    encode,
    session_of,
)

BOUNDED = settings(max_examples=250, deadline=None, database=None)
SESSION = SessionId(0x0102030405060708 << 64 | 9)
KEY = consumer_key(SESSION, 3)
SESSION_BYTES = "0900000000000000" + "0807060504030201"
KEY_BYTES = "03000000" + SESSION_BYTES

GOLDEN: list[tuple[Command, str]] = [
    (Enqueue(SESSION, 5, 7), "0101" + SESSION_BYTES + "0500000000000000" + "07000000"),
    (
        Settle(KEY, ACCEPT, [(1, 2), (258, 1)]),
        "0201" + KEY_BYTES + "01" + "02000000"
        "0100000000000000" + "02000000" + "0201000000000000" + "01000000",
    ),
    (Settle(KEY, RETURN_UNSEEN, []), "0201" + KEY_BYTES + "04" + "00000000"),
    (
        Attach(KEY, 2000, True, True, -2),
        "0301" + KEY_BYTES + "03" + "d007000000000000" + "feffffff",
    ),
    (
        Attach(KEY, 0, False, False, 10),
        "0301" + KEY_BYTES + "00" + "0000000000000000" + "0a000000",
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
]

U32 = st.integers(0, (1 << 32) - 1)
I32 = st.integers(-(1 << 31), (1 << 31) - 1)
U63 = st.integers(0, (1 << 63) - 1)
SESSIONS = st.integers(0, (1 << 128) - 1).map(SessionId)
KEYS = st.builds(consumer_key, SESSIONS, U32)
RUNS = st.lists(st.tuples(U63, U32), max_size=5)
COMMANDS: st.SearchStrategy[Command] = st.one_of(
    st.builds(Enqueue, SESSIONS, U63, U32),
    st.builds(Settle, KEYS, st.integers(ACCEPT, RETURN_UNSEEN), RUNS),
    st.builds(Attach, KEYS, U63, st.booleans(), st.booleans(), I32),
    st.builds(Credit, KEYS, U63, U63, st.booleans(), st.booleans()),
    st.builds(Detach, KEYS),
    st.builds(Get, SESSIONS),
    st.builds(Purge, SESSIONS),
    st.builds(Inspect, SESSIONS),
    st.builds(EndSession, SESSIONS),
)


def fields_of(command: Command) -> tuple[object, ...]:
    """What the command says, as something that compares."""
    names = (
        *("session", "first_seq", "count", "key", "outcome", "runs"),
        *("credit", "auto_return", "exclusive", "priority", "delivery_count", "drain"),
    )
    return type(command), command.kind, *(getattr(command, name, None) for name in names)


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


@pytest.mark.parametrize("kind", [0, 10, 77, 255])
def test_an_unknown_kind_is_refused_whatever_follows(kind: int) -> None:
    for size in (0, 16, 20, 40):
        with pytest.raises(BadCommand):
            decode(bytes([kind, 1]) + bytes(size))


@pytest.mark.parametrize("version", [0, 2, 255])
def test_another_version_of_a_known_kind_is_refused(version: int) -> None:
    for command, _ in GOLDEN:
        data = bytearray(encode(command))
        data[1] = version
        with pytest.raises(BadCommand):
            decode(bytes(data))


@pytest.mark.parametrize("outcome", [0, 5, 255])
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
@given(st.binary(max_size=60), st.integers(0, 10))
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
