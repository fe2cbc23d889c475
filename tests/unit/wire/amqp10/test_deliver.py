"""Deliveries written in runs, with other heads, and in pieces; decoded again to compare."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.wire.amqp10.messages import (
    BOUNDED,
    DATA,
    DELIVERY_ANNOTATIONS,
    MESSAGE_ANNOTATIONS,
    frames_of,
    message,
    messages,
    performative_of,
    section,
)
from warren.wire.amqp10.codec.message import Sections
from warren.wire.amqp10.codec.performatives import Header, Transfer
from warren.wire.amqp10.codec.values import Described, Symbol, ULong
from warren.wire.amqp10.codec.writer import encode_value
from warren.wire.amqp10.deliver import TAG_MAX, Heads, write_piece, write_transfers
from warren.wire.amqp10.output import Output
from warren.wire.amqp10.transfers import store

ROUTE: dict[str, object] = {"x-exchange": "amq.topic", "x-routing-key": "a.b"}


def chunk_of(payloads: list[bytes], base: int = 0) -> tuple[bytes, bytes]:
    """Data and offsets of messages in stored form 2."""
    stored = [store(payload) for payload in payloads]
    ends = [base]
    for one in stored:
        ends.append(ends[-1] + len(one))
    return b"".join(stored), struct.pack(f"<{len(ends)}I", *ends)


def written(
    payloads: list[bytes],
    heads: Heads | None = None,
    first: int = 0,
    delivery_id: int = 5,
    tag: int = 9,
    settled: bool = False,
    delivery_count: int = 0,
    acquired: bool = False,
    frame_max: int = 131072,
    channel: int = 3,
    handle: int = 7,
) -> tuple[int, bytes]:
    data, offsets = chunk_of(payloads, 1000)
    output = Output()
    count = write_transfers(
        output,
        channel,
        handle,
        delivery_id,
        tag,
        settled,
        heads,
        delivery_count,
        acquired,
        data,
        1000,
        offsets,
        first,
        len(payloads),
        frame_max,
    )
    return count, output.take()


def deliveries(stream: bytes) -> list[tuple[Transfer, bytes]]:
    found = []
    for one in frames_of(stream):
        performative, payload = performative_of(one)
        assert isinstance(performative, Transfer)
        found.append((performative, payload))
    return found


def test_golden_bytes_of_a_delivery() -> None:
    _, stream = written([b"\x00\x53\x75\xa0\x02hi"])
    assert stream.hex(" ") == (
        "00 00 00 28 02 00 00 03 00 53 14 c0 14 05 52 07 70 00 00 00 05 "
        "a0 08 00 00 00 00 00 00 00 09 43 42 00 53 75 a0 02 68 69"
    )


def test_ids_and_tags_count_up_and_the_messages_stay_as_they_were() -> None:
    payloads = [message(bytes(size)) for size in (0, 1, 100, 128, 129, 1000)]
    count, stream = written(payloads, first=1, delivery_id=0xFFFFFFFE, settled=True)
    assert count == 5
    for place, (transfer, payload) in enumerate(deliveries(stream)):
        assert payload == payloads[place + 1]
        assert (
            transfer
            == Transfer(
                handle=7,
                delivery_id=(0xFFFFFFFE + place) & 0xFFFFFFFF,
                delivery_tag=(9 + place).to_bytes(8, "big"),
                message_format=0,
                settled=True,
            )
            or transfer.settled
        )


def test_it_ends_before_a_message_that_needs_more_than_a_frame() -> None:
    payloads = [message(bytes(10)), message(bytes(600)), message(bytes(10))]
    count, stream = written(payloads, frame_max=512)
    assert (count, len(deliveries(stream))) == (1, 1)
    exact = message(bytes(300))
    assert written([exact], frame_max=33 + len(exact))[0] == 1
    assert written([exact], frame_max=32 + len(exact))[0] == 0


def test_the_greatest_tag_is_written() -> None:
    _, stream = written([message()], tag=TAG_MAX - 1)
    assert deliveries(stream)[0][0].delivery_tag == (TAG_MAX - 1).to_bytes(8, "big")
    with pytest.raises(AssertionError):
        written([message()], tag=TAG_MAX)
    with pytest.raises(AssertionError):
        written([message()], handle=256)


def sections_of(payload: bytes) -> Sections:
    sections = Sections()
    assert sections.walk(payload, 0, len(payload))
    return sections


@settings(BOUNDED)
@given(st.lists(messages(), min_size=1, max_size=5), st.integers(0, 3), st.booleans())
def test_only_what_is_before_the_bare_message_changes(
    payloads: list[bytes], failures: int, acquired: bool
) -> None:
    count, stream = written(payloads, Heads(ROUTE), delivery_count=failures, acquired=acquired)
    assert count == len(payloads)
    for came, (_, gone) in zip(payloads, deliveries(stream), strict=True):
        before, after = sections_of(came), sections_of(gone)
        assert gone[after.bare_at :] == came[before.bare_at :]
        assert after.delivery_annotations_at == after.message_annotations_at
        old, new = before.header(came), after.header(gone)
        assert (new.durable is True, new.priority, new.ttl) == (
            old.durable is True,
            old.priority,
            old.ttl,
        )
        assert (new.delivery_count or 0, new.first_acquirer is True) == (failures, not acquired)
        annotations = before.annotations(came)
        assert isinstance(annotations, dict)
        assert after.annotations(gone) == annotations | ROUTE


def test_annotations_of_the_same_name_are_replaced_however_they_are_encoded() -> None:
    for key in (b"\xa3\x0ax-exchange", b"\xb3\x00\x00\x00\x0ax-exchange"):
        inside = key + b"\xa1\x03old" + b"\xa3\x01k\x41"
        size = bytes((len(inside) + 1, 4))
        payload = b"\x00\x53\x72\xc1" + size + inside + section(DATA, b"")
        _, stream = written([payload], Heads(ROUTE))
        gone = deliveries(stream)[0][1]
        assert sections_of(gone).annotations(gone) == {"k": True} | ROUTE


def test_annotations_keep_their_keys_types_and_places() -> None:
    annotations = {ULong(7): 1, Symbol("x-b"): Described(Symbol("d"), [1])}
    payload = section(MESSAGE_ANNOTATIONS, annotations)
    _, stream = written([payload], Heads({}), acquired=True)
    assert deliveries(stream)[0][1] == payload


def test_without_annotations_or_anything_to_say_there_is_no_head() -> None:
    body = section(DATA, b"x")
    payload = Header(durable=False).encoded() + section(DELIVERY_ANNOTATIONS, {}) + body
    _, stream = written([payload], Heads({}), acquired=True)
    assert deliveries(stream)[0][1] == body


def test_a_head_is_made_anew_when_what_came_or_what_is_told_differs() -> None:
    heads = Heads({})
    payloads = [
        message(durable=True),
        message(durable=False),
        message(durable=True)[:7] + section(MESSAGE_ANNOTATIONS, {Symbol("x"): 1}),
        section(DATA, b"x"),
        message(durable=True),
    ]
    _, stream = written(payloads, heads)
    found = [sections_of(payload).header(payload).durable for _, payload in deliveries(stream)]
    assert found == [True, None, True, None, True]
    _, acquired = written(payloads[:1], heads, acquired=True)
    payload = deliveries(acquired)[0][1]
    assert sections_of(payload).header(payload) == Header(durable=True)
    _, again = written(payloads[:1], heads, delivery_count=2, acquired=True)
    payload = deliveries(again)[0][1]
    assert sections_of(payload).header(payload) == Header(durable=True, delivery_count=2)


def test_a_head_that_is_no_sections_goes_as_it_came() -> None:
    wrong = encode_value(Described(ULong(0x70), 1))
    _, again = written([wrong], Heads({}), acquired=True)
    assert deliveries(again)[0][1] == wrong


def pieces(
    head: bytes, body: bytes, frame_max: int, settled: bool = False
) -> list[tuple[Transfer, bytes]]:
    output = Output()
    sent, whole = 0, len(head) + len(body)
    data = b"<" + body + b">"
    while sent < whole or whole == 0:
        after = write_piece(
            output, 1, 2, 3, 4, settled, head, data, 1, len(data) - 1, sent, frame_max
        )
        assert after > sent or whole == 0
        sent = after
        if whole == 0:
            break
    stream = output.take()
    assert all(len(one) <= frame_max for one in frames_of(stream))
    return deliveries(stream)


@settings(BOUNDED)
@given(st.binary(max_size=700), st.binary(max_size=2000), st.integers(512, 900), st.booleans())
def test_pieces_are_the_whole_message_again(
    head: bytes, body: bytes, frame_max: int, settled: bool
) -> None:
    found = pieces(head, body, frame_max, settled)
    assert b"".join(payload for _, payload in found) == head + body
    assert [transfer.more for transfer, _ in found] == [True] * (len(found) - 1) + [False]
    first = found[0][0]
    assert (first.handle, first.delivery_id, first.settled) == (2, 3, settled)
    assert (first.delivery_tag, first.message_format) == ((4).to_bytes(8, "big"), 0)
    for transfer, _ in found[1:]:
        assert transfer == Transfer(handle=2, more=transfer.more)


@pytest.mark.parametrize("over", range(8))
def test_frames_are_as_full_as_they_can_be(over: int) -> None:
    one_frame = 512 - 33
    found = pieces(b"", bytes(one_frame + over), 512)
    assert [len(payload) for _, payload in found] == (
        [one_frame] if over == 0 else [one_frame - 1, over + 1]
    )


def test_large_payloads_go_out_as_they_lie_in_memory() -> None:
    """And small ones between them, in order."""
    bodies = [bytes([number]) * size for number, size in enumerate((9000, 10, 8192, 9000))]
    output = Output()
    for body in bodies:
        data = b"<" + body + b">"
        write_piece(output, 1, 2, 3, 4, False, b"head", data, 1, len(data) - 1, 0, 65_536)
    size = output.pending_bytes()
    parts = output.take_parts()
    views = [part for part in parts if isinstance(part, memoryview)]
    assert [bytes(view) for view in views] == [body for body in bodies if len(body) > 10]
    assert views[0].obj == b"<" + bodies[0] + b">"
    stream = b"".join(parts)
    assert [payload for _, payload in deliveries(stream)] == [b"head" + body for body in bodies]
    assert (size, output.pending_bytes(), output.take()) == (len(stream), 0, b"")
