"""Runs of transfers found in place: what is taken, what is left, and the form it is kept in."""

import struct
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.wire.amqp10.messages import (
    BOUNDED,
    DATA,
    DELIVERY_ANNOTATIONS,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    bgen_transfer,
    frame,
    message,
    messages,
    performative_of,
    section,
    transfer,
    wide_transfer,
)
from warren.wire.amqp10.codec.frames import FrameScanner
from warren.wire.amqp10.codec.message import INFO_DURABLE, INFO_PRIORITY, INFO_TTL, Sections
from warren.wire.amqp10.codec.performatives import (
    Accepted,
    Begin,
    Header,
    Transfer,
    read_performative,
)
from warren.wire.amqp10.codec.reader import Reader
from warren.wire.amqp10.codec.values import Symbol
from warren.wire.amqp10.errors import ProtocolError, Scope
from warren.wire.amqp10.transfers import (
    STOP_ODD,
    STOP_SHORT,
    Transfers,
    TransferScanner,
    is_unannotated,
    payload_at,
    single,
    store,
)

FRAME_MAX = 4096


def scan(data: bytes, start: int = 0, channel: int = 0) -> tuple[Transfers | None, TransferScanner]:
    scanner = TransferScanner(FRAME_MAX)
    return scanner.scan(data, start, channel), scanner


def payloads(run: Transfers) -> list[bytes]:
    offsets = struct.unpack(f"<{run.count + 1}I", run.offsets)
    return [run.data[payload_at(run.data, offsets[i]) : offsets[i + 1]] for i in range(run.count)]


def infos(run: Transfers) -> list[int]:
    ends = [*run.firsts[1:], run.count]
    return [
        info
        for first, end, info in zip(run.firsts, ends, run.infos, strict=True)
        for _ in range(first, end)
    ]


def found(data: bytes, start: int = 0, channel: int = 0) -> Transfers:
    run, _ = scan(data, start, channel)
    assert run is not None
    return run


def test_nothing_is_found_in_nothing() -> None:
    run, scanner = scan(b"")
    assert run is None
    assert (scanner.end, scanner.stop, scanner.need) == (0, STOP_SHORT, 8)


@pytest.mark.parametrize("shape", [transfer, bgen_transfer, wide_transfer])
def test_a_run_is_one_event_in_every_shape(shape: Callable[..., bytes]) -> None:
    bodies = [message(b"%d" % number) for number in range(300)]
    data = b"".join(shape(body, 7 + number, 3) for number, body in enumerate(bodies))
    run, scanner = scan(data)
    assert run is not None
    assert (run.handle, run.delivery_id, run.count, run.settled) == (3, 7, 300, False)
    assert (run.firsts, run.infos) == ([0], [INFO_DURABLE])
    assert payloads(run) == bodies
    assert (scanner.end, scanner.stop) == (len(data), STOP_SHORT)


def test_delivery_ids_wrap_within_a_run() -> None:
    data = transfer(message(), 0xFFFFFFFF) + transfer(message(), 0)
    assert found(data).count == 2


def test_the_run_begins_where_it_is_told_to_and_names_its_channel() -> None:
    data = b"rest" + transfer(message(), 1, channel=9)
    run, scanner = scan(data, 4, 9)
    assert run is not None
    assert (run.channel, payloads(run), scanner.end) == (9, [message()], len(data))
    assert scan(data, 4, 8)[0] is None


def test_a_small_run_does_not_keep_a_large_read() -> None:
    data = transfer(message(), 1) + frame(bytes(2000))
    assert found(data).data == transfer(message(), 1)


def test_info_is_told_where_it_changes() -> None:
    heads = [Header(durable=True), Header(durable=True), Header(priority=7), Header(ttl=1)]
    data = b"".join(
        transfer(head.encoded() + section(DATA, b"x"), number) for number, head in enumerate(heads)
    )
    run = found(data)
    assert run.firsts == [0, 2, 3]
    assert run.infos == [INFO_DURABLE, INFO_PRIORITY | 7 << 8, INFO_TTL]


def test_a_read_that_ends_within_a_frame_says_what_is_needed() -> None:
    one, two = transfer(message(), 1), transfer(message(), 2)
    for cut in range(len(two)):
        run, scanner = scan(one + two[:cut])
        assert run is not None
        assert run.count == 1
        need = len(one) + (8 if cut < 8 else len(two))
        assert (scanner.end, scanner.stop, scanner.need) == (len(one), STOP_SHORT, need)


ODD_TRANSFERS = {
    "more": Transfer(handle=0, delivery_id=1, delivery_tag=b"", message_format=0, more=True),
    "aborted": Transfer(handle=0, delivery_id=1, delivery_tag=b"", aborted=True),
    "resume": Transfer(handle=0, delivery_id=1, delivery_tag=b"", resume=True),
    "state": Transfer(handle=0, delivery_id=1, delivery_tag=b"", state=Accepted()),
    "receiver mode": Transfer(handle=0, delivery_id=1, delivery_tag=b"", rcv_settle_mode=1),
    "no id": Transfer(handle=0, delivery_tag=b""),
    "no tag": Transfer(handle=0, delivery_id=1),
    "long tag": Transfer(handle=0, delivery_id=1, delivery_tag=bytes(33)),
    "other handle": Transfer(handle=1, delivery_id=1, delivery_tag=b"1", message_format=0),
    "other format": Transfer(handle=0, delivery_id=1, delivery_tag=b"1", message_format=1),
    "settled": Transfer(handle=0, delivery_id=1, delivery_tag=b"1", settled=True),
    "gap": Transfer(handle=0, delivery_id=2, delivery_tag=b"1"),
    "back": Transfer(handle=0, delivery_id=0, delivery_tag=b"1"),
}


@pytest.mark.parametrize("name", ODD_TRANSFERS)
def test_what_does_not_fit_ends_the_run(name: str) -> None:
    ordinary = transfer(message(), 0)
    data = ordinary + frame(ODD_TRANSFERS[name].encoded() + message())
    run, scanner = scan(data)
    assert run is not None
    assert (run.count, scanner.end, scanner.stop) == (1, len(ordinary), STOP_ODD)


def raw_transfer(fields: str) -> bytes:
    """A transfer of handle 0 and id 1 whose list has these bytes, whatever they are."""
    inside = bytes.fromhex(fields)
    head = b"\x00\x53\x14\xc0" + bytes([len(inside)])
    return frame(head + inside + message())


@pytest.mark.parametrize(
    "fields",
    [
        "04 43 5201 a000 43 42",  # more bytes than fields
        "06 43 5201 a000 43 42",  # fewer
        "07 43 5201 a000 43 42 42 42",  # a boolean where the receiver's settle mode stands
        "08 43 5201 a000 43 42 42 40 42",  # and where the state stands
        "05 43 5201 a000 41 42",  # and where the format stands
        "05 43 5201 a100 43 42",  # a string for a tag
        "0c 43 5201 a000 43 42 42 40 40 42 42 42 40",  # an unknown field
        "02 43 5201",
    ],
)
def test_lists_that_are_not_as_they_should_be_end_the_run(fields: str) -> None:
    assert found(raw_transfer("05 43 5201 a000 43 42")).count == 1
    assert scan(raw_transfer(fields))[0] is None


def test_a_head_that_comes_and_goes_does_not_end_a_run() -> None:
    annotated = Header(durable=True).encoded() + section(0x72, {}) + section(DATA, b"x")
    bodies = [message(), annotated, message(), section(DATA, b"y"), annotated]
    run = found(b"".join(transfer(body, number) for number, body in enumerate(bodies)))
    assert payloads(run) == bodies
    assert infos(run) == [INFO_DURABLE, 65, INFO_DURABLE, 0, 65]


@pytest.mark.parametrize(
    "odd",
    [
        frame(Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1).encoded()),
        frame(b""),
        frame(transfer(message(), 1)[8:], kind=1),
        frame(transfer(message(), 1)[8:], channel=1),
        transfer(message(bytes(FRAME_MAX)), 1),
        transfer(message()[:-1], 1),
        transfer(message() + b"\x00", 1),
        transfer(section(DATA, b"x") + Header().encoded(), 1),
        transfer(message(), 1).replace(b"\x53\x14", b"\x53\x15", 1),
    ],
)
def test_what_is_no_message_ends_the_run(odd: bytes) -> None:
    run, scanner = scan(transfer(message(), 0) + odd)
    assert run is not None
    assert (run.count, scanner.stop) == (1, STOP_ODD)


def test_the_head_of_a_run_is_a_run() -> None:
    heads = [True, True, False, False]
    bodies = [message(b"x", durable) for durable in heads]
    run = found(b"".join(transfer(body, number) for number, body in enumerate(bodies)))
    for count in (1, 2, 3, 4):
        head = run.head(count)
        assert (payloads(head), infos(head)) == (bodies[:count], infos(run)[:count])


def test_the_messages_before_one_that_is_too_large_are_counted() -> None:
    bodies = [message(bytes(size)) for size in (10, 200, 300)]
    run = found(b"".join(transfer(body, number) for number, body in enumerate(bodies)))
    assert run.payload_max() == len(bodies[2])
    assert [run.fitting(len(body)) for body in bodies] == [1, 2, 3]
    assert run.fitting(len(bodies[0]) - 1) == 0


def test_a_single_message_is_kept_in_the_same_form() -> None:
    run = single(4, 5, 6, 0, True, message())
    assert (run.channel, run.handle, run.delivery_id, run.settled) == (4, 5, 6, True)
    assert (payloads(run), run.infos) == ([message()], [INFO_DURABLE])
    assert store(b"ab") == b"\x00\x00\x00\x0e\x02\x00\x00\x00\x00\x53\x14\x45ab"


def test_a_single_payload_that_is_no_message_is_a_decode_error_of_the_link() -> None:
    with pytest.raises(ProtocolError) as caught:
        single(0, 0, 0, 0, False, b"\x00\x53")
    assert (caught.value.condition, caught.value.scope) == ("amqp:decode-error", Scope.LINK)


def test_a_null_value_before_the_rest_of_a_message_is_put_behind_it() -> None:
    properties = b"\x00\x53\x73\xc0\x04\x01\xa1\x01m"
    run = single(0, 0, 0, 0, True, b"\x00\x53\x77\x40" + properties)
    assert payloads(run) == [properties + b"\x00\x53\x77\x40"]


def slow(data: bytes, channel: int) -> Transfers | None:
    """The first message of the data, by way of decoding; None: it is not an ordinary one."""
    frames = FrameScanner(FRAME_MAX)
    try:
        if not frames.scan(data, 0) or frames.channel != channel or frames.kind != 0:
            return None
        reader = Reader(data, frames.body_at, frames.end)
        one = read_performative(reader)
        if not isinstance(one, Transfer) or one.delivery_id is None or one.delivery_tag is None:
            return None
        if one.more or one.aborted or one.resume or one.state or one.rcv_settle_mode is not None:
            return None
        payload = data[reader.pos : frames.end]
        settled, message_format = one.settled is True, one.message_format or 0
        return single(channel, one.handle, one.delivery_id, message_format, settled, payload)
    except ProtocolError:
        return None


def told(run: Transfers) -> tuple[object, ...]:
    return (
        run.channel,
        run.handle,
        run.delivery_id,
        run.settled,
        run.message_format,
        payloads(run),
        infos(run),
    )


@settings(BOUNDED, max_examples=80)
@given(
    messages(),
    st.sampled_from([transfer, bgen_transfer, wide_transfer]),
    st.integers(0, 0xFFFFFFFF),
    st.integers(0, 255),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=3),
)
def test_the_scan_says_what_decoding_says(
    payload: bytes,
    shape: Callable[..., bytes],
    delivery_id: int,
    handle: int,
    changes: list[tuple[int, int]],
) -> None:
    """Whatever is taken is what the slow way makes of it, with bytes changed at random."""
    data = bytearray(shape(payload, delivery_id, handle))
    for place, octet in changes:
        data[place % len(data)] = octet
    run, scanner = scan(bytes(data))
    decoded = slow(bytes(data), 0)
    if run is not None:
        assert decoded is not None
        assert told(run) == told(decoded)
        assert scanner.end == int.from_bytes(data[:4], "big")
    elif not changes:
        raise AssertionError("an ordinary transfer was left out")


@settings(BOUNDED)
@given(st.lists(st.tuples(messages(), st.booleans()), min_size=1, max_size=6), st.data())
def test_any_split_of_the_input_gives_the_same_messages(
    sent: list[tuple[bytes, bool]], draw: st.DataObject
) -> None:
    stream = b"".join(
        transfer(payload, number, settled=settled) for number, (payload, settled) in enumerate(sent)
    )
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(stream)), max_size=4)))
    scanner = TransferScanner(FRAME_MAX)
    taken: list[tuple[int, bool, bytes, int]] = []
    rest = b""
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        rest += stream[begin:end]
        pos = 0
        while (run := scanner.scan(rest, pos, 0)) is not None:
            for place, payload in enumerate(payloads(run)):
                taken.append((run.delivery_id + place, run.settled, payload, infos(run)[place]))
            pos = scanner.end
        rest = rest[pos:]
    assert rest == b""
    walked = Sections()
    expected = []
    for number, (payload, settled) in enumerate(sent):
        assert walked.walk(payload, 0, len(payload))
        expected.append((number, settled, payload, walked.info))
    assert taken == expected


@settings(BOUNDED)
@given(st.binary(max_size=60))
def test_any_bytes_behind_a_transfer_head_are_taken_or_left(rest: bytes) -> None:
    data = frame(b"\x00\x53\x14\xc0" + rest)
    run, _ = scan(data)
    assert run is None or told(run) == told(slow(data, 0) or run)


CAPTURED = {
    "proton": (
        "00000032 02000000 005314 c00b04 43 5201 a00474616731 43"
        "005370 c0020141 005373 c00401a10131 005377 a10568656c6c6f"
    ),
    "rhea": (
        "00000042 02000000 005314 d00000000d00000006 43 5201 a00131 43 42 42"
        "005370 d00000000500000001 41 005373 d00000000600000001 5301 005375 a00568656c6c6f"
    ),
}


@pytest.mark.parametrize("client", CAPTURED)
def test_frames_as_real_clients_send_them_are_ordinary(client: str) -> None:
    sent = bytes.fromhex(CAPTURED[client])
    performative, payload = performative_of(sent)
    assert isinstance(performative, Transfer)
    run = found(sent)
    assert (run.delivery_id, payloads(run), run.infos) == (1, [payload], [INFO_DURABLE])


@pytest.mark.parametrize(
    ("head", "is_found"),
    [
        (b"", True),
        (Header(durable=True).encoded(), True),
        (Header(durable=True, priority=3, ttl=70_000).encoded(), True),
        (b"\x00\x53\x70\x45", True),  # an empty list
        (b"\x00\x53\x70\xd0\x00\x00\x00\x05\x00\x00\x00\x01\x41", False),  # a wide one
        (Header(durable=True).encoded() + section(DELIVERY_ANNOTATIONS, {}), False),
        (Header(durable=True).encoded() + section(MESSAGE_ANNOTATIONS, {Symbol("x-k"): 1}), False),
        (section(MESSAGE_ANNOTATIONS, {Symbol("x-k"): 1}), False),
    ],
)
def test_a_message_without_annotations_is_known_by_its_first_sections(
    head: bytes, is_found: bool
) -> None:
    for rest in (section(DATA, b"x"), section(PROPERTIES, ["id"]) + section(DATA, b"x")):
        whole = b"before" + head + rest
        assert is_unannotated(whole, 6, len(whole)) == is_found


@BOUNDED
@given(messages(), st.binary(max_size=12))
def test_a_message_with_annotations_never_passes_for_one_without(
    whole: bytes, behind: bytes
) -> None:
    sections = Sections()
    assert sections.walk(whole, 0, len(whole))
    is_found = is_unannotated(whole + behind, 0, len(whole))
    places = sections.delivery_annotations_at, sections.message_annotations_at, sections.bare_at
    assert not is_found or len(set(places)) == 1
    for end in range(len(whole)):
        is_unannotated(whole[:end], 0, end)  # No part of one is read beyond its end.
