"""Items between the two ends of a queue in use from another node."""

import pytest

from queues.machine.commands import Get, SessionId, decode
from queues.machine.consuming.numbered_sessions import Resume
from queues.remote.items import (
    BODIES,
    COMMAND,
    CONFIRMS,
    HEAD,
    NUMBERS,
    PUBLISH,
    RESUME,
    BadItem,
    put_command,
    put_head,
    put_numbers,
    put_resume,
    put_run,
    resume_in,
    take_items,
)
from tests.unit.queues.messages import bodies_of, chunk_of

SESSION = SessionId(0x0102030405060708 << 64 | 9)


def test_numbers_have_these_bytes() -> None:
    encoded = put_numbers(CONFIRMS, 5, SESSION, 7)
    assert encoded.hex() == ("110500000000000000090000000000000008070605040302010700000000000000")


def test_a_run_has_these_bytes() -> None:
    parts = put_run(PUBLISH, 5, SESSION, 3, chunk_of([b"ab", b"c"], base=7), 0, 2)
    assert b"".join(parts).hex() == (
        "01"
        "0500000000000000"
        "0900000000000000"
        "0807060504030201"
        "0300000000000000"
        "01"
        "01000000"
        "07000000"
        "0000"
        "02000000"
        "03000000"
        "07000000"
        "09000000"
        "0a000000"
        "616263"
    )


def test_all_kinds_come_back_as_they_were() -> None:
    message = b"".join(
        put_numbers(kind, 5, SESSION, *range(1, count + 1)) for kind, count in NUMBERS.items()
    )
    for item, (kind, count) in zip(take_items(message), NUMBERS.items(), strict=True):
        assert (item.kind, item.uid, item.session) == (kind, 5, SESSION)
        assert item.numbers == tuple(range(1, count + 1))


def test_part_of_a_chunk_comes_back_with_its_names() -> None:
    chunk = chunk_of([b"a", b"bb", b"ccc", b"d"], base=100)
    chunk.names = b"\x01x\x01y"
    message = b"".join(put_run(BODIES, 5, SESSION, 12, chunk, 1, 2))
    (item,) = take_items(message)
    assert item.first == 12
    assert item.chunk is not None
    assert bodies_of(item.chunk) == [b"bb", b"ccc"]
    assert item.chunk.names == chunk.names
    assert item.chunk.info == chunk.info


def test_a_command_comes_back() -> None:
    (item,) = take_items(put_command(5, SESSION, Get(SESSION)))
    assert item.kind == COMMAND
    assert isinstance(decode(item.command), Get)


def test_no_cut_of_a_message_is_taken_for_a_whole_one() -> None:
    run = b"".join(put_run(PUBLISH, 5, SESSION, 3, chunk_of([b"ab", b"c"]), 0, 2))
    message = put_command(5, SESSION, Get(SESSION)) + run + put_numbers(CONFIRMS, 5, SESSION, 7)
    whole = (len(put_command(5, SESSION, Get(SESSION))), len(message) - HEAD.size - 8, len(message))
    for end in range(1, len(message)):
        if end not in whole:
            with pytest.raises(BadItem):
                take_items(message[:end])


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (0, 0),  # no such kind
        (0, 99),
        (8, 0x80),  # a uid of 64 bits
        (25 + 8, 3),  # an unknown format
        (25 + 19, 0),  # no messages
        (25 + 27, 8),  # offsets that do not begin at the base
        (25 + 31, 6),  # offsets that descend
        (25 + 35, 200),  # offsets beyond the data
    ],
)
def test_wrong_fields_are_refused(at: int, value: int) -> None:
    message = bytearray(
        b"".join(put_run(PUBLISH, 5, SESSION, 3, chunk_of([b"ab", b"c"], base=7), 0, 2))
    )
    message[at] = value
    with pytest.raises(BadItem):
        take_items(bytes(message))


def test_a_question_about_a_session_has_these_bytes_and_comes_back() -> None:
    wanted = Resume(SESSION, 7, 3, [(1, 9), (258, 1)])
    encoded = put_resume(5, 4, 2, wanted)
    numbers = (4, 2, 7, 3, 1, 9, 258, 1)
    head = "0505000000000000000900000000000000080706050403020108000000"
    assert encoded.hex() == head + b"".join(n.to_bytes(8, "little") for n in numbers).hex()
    (item,) = take_items(encoded)
    term, attempt, back = resume_in(item)
    assert (term, attempt, back.asked, back.confirmed) == (4, 2, 7, 3)
    assert (back.session, back.wanted) == (SESSION, wanted.wanted)


@pytest.mark.parametrize("count", [0, 3, 5])
def test_a_question_in_too_few_or_odd_numbers_is_refused(count: int) -> None:
    head = put_head(RESUME, 5, SESSION) + count.to_bytes(4, "little")
    (item,) = take_items(head + bytes(8 * count))
    with pytest.raises(BadItem):
        resume_in(item)


def test_a_question_that_is_cut_short_is_refused() -> None:
    encoded = put_resume(5, 4, 2, Resume(SESSION, 7, 3, [(1, 9)]))
    for end in range(1, len(encoded)):
        with pytest.raises(BadItem):
            take_items(encoded[:end])
