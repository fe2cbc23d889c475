"""The annotation x-stream-offset on messages of a stream."""

import struct
from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from node.amqp10.forms import Forms
from node.amqp10.links.stream_source import MARKS, with_offsets
from queues.conversion.annotated import annotated_form_10
from queues.message import FORMAT_10, Chunk
from queues.queue_host import View
from warren.client.message import Message, decode_message
from warren.wire.amqp10.codec.values import ULong
from warren.wire.amqp10.codec.writer import encode_value
from warren.wire.amqp10.transfers import payload_at, store

MARK = b"\x12\x34"  # of a dead letter, in place of the channel
MESSAGES = st.builds(
    Message,
    st.binary(max_size=40),
    durable=st.booleans(),
    message_id=st.sampled_from([None, "m", "n"]),
    annotations=st.dictionaries(
        st.sampled_from(["x-a", "x-b", "x-stream-offset"]), st.integers(0, 9), max_size=2
    ),
)


def chunk_of(messages: list[Message]) -> Chunk:
    frames = [store(each.encode()) for each in messages]
    frames = [each[:6] + MARK + each[8:] for each in frames]
    places = [7, *accumulate(map(len, frames), initial=7)][1:]
    return Chunk(FORMAT_10, b"".join(frames), 7, struct.pack(f"<{len(places)}I", *places), 0)


def marked(view: View) -> list[tuple[bytes, Message]]:
    """The head of each frame, and its message."""
    shown = with_offsets(view, Forms())
    data = shown.chunk.data
    assert data is not None
    found = []
    for index in range(shown.count):
        start, end = shown.chunk.span(index)
        assert int.from_bytes(data[start : start + 4], "big") == end - start
        at = int(payload_at(data, start))
        found.append((data[start + 4 : start + 12], decode_message(data, at, end)))
    return found


@given(st.lists(MESSAGES, min_size=1, max_size=8), st.data())
def test_each_message_has_its_offset_and_nothing_else_is_changed(
    messages: list[Message], data: st.DataObject
) -> None:
    index = data.draw(st.integers(0, len(messages) - 1))
    first = data.draw(st.sampled_from([1, 200, 1 << 40]))
    view = View(chunk_of(messages), index, first, len(messages) - index)
    found = marked(view)
    assert len(found) == view.count
    for offset, (head, message), sent in zip(
        range(first - 1, first + 9), found, messages[index:], strict=False
    ):
        assert head == b"\x02\x00" + MARK + b"\x00\x53\x14\x45"
        assert message.annotations == {**sent.annotations, "x-stream-offset": offset}
        wanted = {"x-stream-offset": encode_value(ULong(offset))}
        slow = annotated_form_10(
            store(sent.encode()), {key.encode(): value for key, value in wanted.items()}
        )
        assert decode_message(slow, int(payload_at(slow, 0)), len(slow)) == message


def test_no_more_messages_are_marked_once_there_are_enough_bytes() -> None:
    chunk = chunk_of([Message(bytes(100))] * 5)
    assert MARKS.mark(chunk, 0, 5, 0, 1).count() == 1
    assert MARKS.mark(chunk, 0, 5, 0, 400).count() == 3
    assert MARKS.mark(chunk, 3, 2, 3, 10_000).count() == 2


def test_a_malformed_message_stays_as_it_is() -> None:
    frame = store(b"\x00\x53\x72\xc1\xff")
    chunk = Chunk(FORMAT_10, frame, 0, struct.pack("<2I", 0, len(frame)), 0)
    assert MARKS.mark(chunk, 0, 1, 5, 1).data == frame
