"""Entries of a quorum queue with several members, and the runs beside them."""

from struct import pack

import pytest

from queues.hosts.quorum_entry import (
    cut_of,
    decode_member_entry,
    encode_member_entry,
    put_run,
    take_attached,
    take_runs,
)
from queues.machine.commands import BadCommand, Enqueue, Numbered, SessionId, Tick
from queues.message import FORMAT_10, Chunk

SESSION = SessionId(7 << 64 | 3)


def chunk_of(*payloads: bytes, base: int = 0) -> Chunk:
    places = [base]
    for payload in payloads:
        places.append(places[-1] + len(payload))
    return Chunk(FORMAT_10, b"".join(payloads), base, pack(f"<{len(places)}I", *places), 5, b"n")


def payloads_of(chunk: Chunk) -> list[bytes]:
    data = chunk.data
    assert data is not None
    return [data[slice(*chunk.span(index))] for index in range(chunk.count())]


def test_bytes_that_are_no_entry_are_refused() -> None:
    good = encode_member_entry(5, 9, [Tick(), Enqueue(SESSION, 1, 2)])
    for wrong in (good[:-1], good + b"\0", b"\1" + good[1:], good[:20], b""):
        with pytest.raises((ValueError, BadCommand)):
            decode_member_entry(wrong)


def test_an_entry_has_these_bytes() -> None:
    encoded = encode_member_entry(0x0102, 3 << 40 | 1, [Tick()])
    assert encoded.hex() == (
        "02" + "0201000000000000" + "0100000000030000" + "01000000" + "02000000" + "0b01"
    )


def test_what_is_decoded_is_what_was_encoded() -> None:
    numbered = Numbered(SESSION, 4, 2, Enqueue(SESSION, 3, 5))
    decoded = decode_member_entry(encode_member_entry(11, 12, [numbered, Tick()]))
    assert (decoded.now_ms, decoded.message_first) == (11, 12)
    first = decoded.commands[0]
    assert isinstance(first, Numbered)
    assert (first.number, first.confirmed) == (4, 2)
    assert isinstance(decoded.commands[1], Tick)


def test_runs_that_lie_are_refused() -> None:
    head, data = put_run(3, chunk_of(b"one", b"two"), 0, 2)
    for wrong in (
        [head],
        [head, data[:-1]],
        [head[:-4], data],
        [head[:8] + b"\x07" + head[9:], data],
        [b"", data],
    ):
        with pytest.raises(ValueError, match="run"):
            take_attached(wrong)
    for size in range(1, len(head + data)):
        with pytest.raises(ValueError, match="run"):
            take_runs((head + data)[:size], 0)


@pytest.mark.parametrize("base", [0, 70])
def test_a_part_of_a_chunk_comes_back_under_its_numbers(base: int) -> None:
    chunk = chunk_of(b"one", b"", b"three", b"four", base=base)
    attached = [*put_run(8, chunk, 1, 2), *put_run(20, chunk, 3, 1)]
    found = take_attached(attached)
    assert [first for first, _ in found] == [8, 20]
    assert payloads_of(found[0][1]) == [b"", b"three"]
    assert payloads_of(found[1][1]) == [b"four"]
    assert (found[0][1].format_tag, found[0][1].info, found[0][1].names) == (FORMAT_10, 5, b"n")
    again = take_runs(b"x" + b"".join(attached), 1)
    assert [payloads_of(each) for _, each in again] == [[b"", b"three"], [b"four"]]


def test_a_whole_chunk_is_not_copied() -> None:
    chunk = chunk_of(b"one", b"two")
    assert put_run(1, chunk, 0, 2)[1] is chunk.data
    assert cut_of(chunk, 0, 2) is chunk
    assert payloads_of(cut_of(chunk, 1, 1)) == [b"two"]
    twin = chunk.twin()
    assert twin is not chunk
    assert twin.data is chunk.data
