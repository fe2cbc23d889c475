"""Large bodies on their way out: the same bytes as small ones, and not copied."""

import pytest

from tests.unit.wire.frames import message, opened, split_frames
from tests.unit.wire.test_deliver import deliveries, offsets_of
from warren.wire.amqp091.deliver import LARGE_BYTES, Buffer, consumer_prefix, write_large
from warren.wire.amqp091.properties import BasicProperties
from warren.wire.buffer import BytesWriter

FRAME_MAX = 131_072
BODY = bytes(range(256)) * (LARGE_BYTES // 256)
HEADERS = BasicProperties(headers={"k": "v" * LARGE_BYTES})


def large(
    messages: list[bytes], channel: int, base: int, frame_max: int
) -> tuple[list[Buffer], bytes]:
    """The parts, and what stays in the writer; message 0 is left out."""
    writer = BytesWriter()
    writer.write(b"before")
    parts: list[Buffer] = []
    write_large(
        writer,
        parts,
        channel,
        consumer_prefix(b"ctag"),
        9,
        True,
        b"".join(messages),
        base,
        offsets_of(messages, base),
        1,
        len(messages),
        frame_max,
    )
    return parts, writer.getvalue()


@pytest.mark.parametrize("channel", [7, 258])
@pytest.mark.parametrize("frame_max", [FRAME_MAX, LARGE_BYTES // 2, LARGE_BYTES + 8])
def test_large_bodies_are_the_same_bytes_as_copied_ones(channel: int, frame_max: int) -> None:
    messages = [
        message(7, b"left out"),
        message(7, BODY),
        message(7, b""),
        message(7, b"short"),
        message(7, BODY + b"!", body_frame_bytes=LARGE_BYTES),  # two frames, one of them small
        message(7, BODY * 5, routing_key=b"other"),
        message(7, BODY, properties=HEADERS),
        message(7, b"at the end"),
    ]
    parts, rest = large(messages, channel, 1000, frame_max)
    copied = deliveries(messages, channel, 1, None, 1000, True, 9, frame_max)
    assert b"".join(parts) + rest == b"before" + copied
    assert {number for _, number, _ in split_frames(copied)} == {channel}


def test_a_large_body_is_a_view_of_what_is_stored() -> None:
    parts, rest = large([message(1, b""), message(1, BODY * 3), message(1, BODY)], 1, 0, FRAME_MAX)
    views = [part for part in parts if isinstance(part, memoryview)]
    assert [len(view) for view in views] == [len(BODY) * 3 + 1, len(BODY) + 1]
    assert sum(len(part) for part in parts if isinstance(part, bytes)) < 250
    assert rest == b""


def test_a_connection_gives_its_parts_in_order_and_counts_them() -> None:
    connection = opened(1)
    connection.data_to_send()
    sent = connection.bytes_sent
    connection.parts += [b"first", memoryview(b"second")]
    connection.writer.write(b"last")
    assert connection.pending_bytes() == 15
    assert [bytes(part) for part in connection.take_parts()] == [b"first", b"second", b"last"]
    assert connection.bytes_sent - sent == 15
    connection.parts.append(b"first")
    connection.writer.write(b"last")
    assert connection.data_to_send() == b"firstlast"
    assert connection.data_to_send() == b""
    assert connection.pending_bytes() == 0
