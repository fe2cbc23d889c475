"""Batches of messages: what was put in comes out, and anything else is refused."""

import pytest

from raft.links import BadEnvelope, open_batch, put

UID = 0x0102030405060708
INCARNATION = 0x0A0B0C0D
SENDER = 0x1112131415161718
GOLDEN = bytes.fromhex("0807060504030201 0d0c0b0a 1817161514131211 03000000 616263")


@pytest.mark.parametrize("cut", range(1, len(GOLDEN)))
def test_a_batch_that_is_cut_short_is_refused_whole(cut: int) -> None:
    batch = GOLDEN * 2
    with pytest.raises(BadEnvelope):
        open_batch(memoryview(batch[: len(batch) - cut]))


def test_a_message_that_is_longer_than_its_batch_is_refused() -> None:
    batch = bytearray(GOLDEN)
    batch[20:24] = b"\xff\xff\xff\xff"
    with pytest.raises(BadEnvelope):
        open_batch(memoryview(batch))


def test_a_batch_has_the_documented_bytes() -> None:
    lane: list[bytes] = []
    assert put(lane, UID, INCARNATION, SENDER, [b"ab", b"", b"c"]) == 3
    assert b"".join(lane) == GOLDEN
    (envelope,) = open_batch(memoryview(GOLDEN))
    assert (envelope.uid, envelope.incarnation, envelope.sender) == (UID, INCARNATION, SENDER)
    assert bytes(envelope.message) == b"abc"


def test_what_was_put_into_a_batch_comes_out_of_it() -> None:
    lane: list[bytes] = []
    put(lane, 2**64 - 1, 2**32 - 1, 2**64 - 1, [b"x" * 1000])
    put(lane, 1, 0, 2, [])
    first, second = open_batch(memoryview(b"".join(lane)))
    assert (first.uid, first.incarnation, first.sender) == (2**64 - 1, 2**32 - 1, 2**64 - 1)
    assert (len(first.message), len(second.message)) == (1000, 0)
    assert open_batch(memoryview(b"")) == []
