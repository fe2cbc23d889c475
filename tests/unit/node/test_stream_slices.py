"""How much of a Publish frame one turn of the loop carries out."""

import gzip

from node.streams.commands import BYTES_PER_TURN, MESSAGES_PER_TURN, Publishing
from node.streams.publisher import joined_ids
from queues.streams.tracking import BATCH
from warren.wire.stream import codes
from warren.wire.stream.frames import Fields, FrameWriter


def publishing(*entries: bytes) -> Publishing:
    frame = FrameWriter(codes.PUBLISH).u8(1).u32(len(entries)).raw(b"".join(entries)).end()
    return Publishing(Fields(frame[4:]))


def batch(publishing_id: int, messages: list[bytes], compression: int = 1) -> bytes:
    content = b"".join(len(each).to_bytes(4, "big") + each for each in messages)
    packed = gzip.compress(content)
    head = publishing_id.to_bytes(8, "big") + bytes((0x80 | compression << 4,))
    sizes = len(content).to_bytes(4, "big") + len(packed).to_bytes(4, "big")
    return head + len(messages).to_bytes(2, "big") + sizes + packed


def test_a_slice_ends_with_the_batch_that_has_too_many_messages() -> None:
    work = publishing(*[batch(number, [b""] * 65_535) for number in range(20)])
    for number in range(20):
        assert [entry.publishing_id for entry in work.take_slice()] == [number]
        assert work.is_slice_full
    assert work.left == 0


def test_a_slice_ends_with_the_batch_that_has_too_many_bytes() -> None:
    work = publishing(*[batch(number, [bytes(BYTES_PER_TURN)]) for number in range(4)])
    for number in range(4):
        assert [entry.publishing_id for entry in work.take_slice()] == [number]
        assert work.is_slice_full


def test_single_messages_are_taken_a_slice_at_a_time() -> None:
    count = MESSAGES_PER_TURN + 5
    work = publishing(*[number.to_bytes(8, "big") + b"\0\0\0\1x" for number in range(count)])
    assert len(work.take_slice()) == MESSAGES_PER_TURN
    assert len(work.take_slice()) == 5
    assert not work.is_slice_full
    assert work.left == 0


def test_what_cannot_be_published_is_refused_and_the_rest_is_taken() -> None:
    too_high = (1 << 63).to_bytes(8, "big") + b"\0\0\0\1x"
    work = publishing(batch(1, [b"a"]), batch(2, [b"b"], compression=7), too_high, batch(3, [b"c"]))
    assert [entry.publishing_id for entry in work.take_slice()] == [1, 3]
    assert work.refused == [2, 1 << 63]
    assert "compression 7;" in work.fault


def test_single_messages_and_batches_of_a_frame_come_in_order() -> None:
    single = b"".join([(5).to_bytes(8, "big"), (2).to_bytes(4, "big"), b"aa"])
    work = publishing(single, batch(6, [b"b", b"c"]), single)
    found = [(entry.publishing_id, entry.messages) for entry in work.take_slice()]
    assert found == [(5, (b"aa",)), (6, (b"b", b"c")), (5, (b"aa",))]


def test_ids_that_count_up_are_runs_and_batches_stand_alone() -> None:
    ids = [(1, 1), (2, 1), (3, BATCH | 4), (4, 1), (5, 1), (9, 1)]
    assert joined_ids(ids) == [(1, 2), (3, BATCH | 4), (4, 2), (9, 1)]
