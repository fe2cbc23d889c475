"""Settlements found in runs, and dispositions and flows written without making objects."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.wire.amqp10.messages import BOUNDED, frame, frames_of, performative_of
from warren.wire.amqp10.codec.descriptors import ACCEPTED, MODIFIED, REJECTED, RELEASED
from warren.wire.amqp10.codec.performatives import (
    Accepted,
    Composite,
    DeliveryState,
    Disposition,
    Error,
    Flow,
    Modified,
    Received,
    Rejected,
    Released,
)
from warren.wire.amqp10.dispositions import (
    ABSENT,
    NO_STATE,
    Dispositions,
    DispositionScanner,
    write_disposition,
    write_flow,
)
from warren.wire.buffer import BytesWriter

STATES: dict[int, DeliveryState | None] = {
    NO_STATE: None,
    ACCEPTED: Accepted(),
    REJECTED: Rejected(),
    RELEASED: Released(),
    MODIFIED: Modified(),
}
uints = st.integers(0, 0xFFFFFFFF) | st.integers(0, 300)


def scan(data: bytes, channel: int = 0) -> tuple[Dispositions | None, int]:
    scanner = DispositionScanner(4096)
    return scanner.scan(data, 0, channel), scanner.end


def told(run: Dispositions | None) -> tuple[object, ...]:
    assert run is not None
    return run.as_receiver, run.first, run.last, run.settled, run.state


def settle(first: int, last: int | None = None, **others: object) -> bytes:
    state = others.get("state", Accepted())
    assert state is None or isinstance(state, Accepted | Released | Rejected | Received)
    return frame(
        Disposition(
            role=others.get("role", True) is True,
            first=first,
            last=last,
            settled=others.get("settled", True) is True,
            state=state,
        ).encoded()
    )


def test_dispositions_that_follow_each_other_are_one() -> None:
    data = b"".join(settle(number) for number in range(1, 400))
    run, end = scan(data + settle(500))
    assert told(run) == (True, 1, 399, True, ACCEPTED)
    assert end == len(data)


def test_ranges_join_and_ids_wrap() -> None:
    run, _ = scan(settle(0xFFFFFFF0, 0xFFFFFFFF) + settle(0, 7) + settle(8))
    assert told(run) == (True, 0xFFFFFFF0, 8, True, ACCEPTED)


@pytest.mark.parametrize(
    "other",
    [
        settle(2, state=Released()),
        settle(2, settled=False),
        settle(2, role=False),
        settle(3),
        settle(1),
        settle(2, state=Rejected(error=Error(condition="a:b"))),
        settle(2, state=Received(section_number=1, section_offset=1)),
        frame(settle(2)[8:], channel=1),
        frame(b""),
        settle(2)[:-1],
    ],
)
def test_what_says_something_else_ends_the_run(other: bytes) -> None:
    one = settle(1)
    run, end = scan(one + other)
    assert (told(run), end) == ((True, 1, 1, True, ACCEPTED), len(one))


def test_shapes_of_several_clients_are_taken() -> None:
    bodies = [
        "005315 c00905 41 43 43 41 00532445",
        "005315 c00b05 41 43 40 41 005324c00100",
        "005315 d00000001d00000006 41 7000000000 7000000000 41 005324d00000000400000000 42",
        "005315 d00000000c00000005 41 43 43 41 00532445",  # rhea
        "005315 c00605 41 43 40 41 40",
    ]
    runs = [scan(frame(bytes.fromhex(body)))[0] for body in bodies]
    assert [told(run) for run in runs[:4]] == [(True, 0, 0, True, ACCEPTED)] * 4
    assert told(runs[4]) == (True, 0, 0, True, NO_STATE)


def slow(data: bytes) -> tuple[object, ...] | None:
    performative, _ = performative_of(data)
    assert isinstance(performative, Disposition)
    for code, state in STATES.items():
        if performative.state == state:
            last = performative.first if performative.last is None else performative.last
            return performative.role, performative.first, last, performative.settled, code
    return None


@settings(BOUNDED, max_examples=100)
@given(
    st.booleans(),
    uints,
    st.none() | uints,
    st.booleans(),
    st.sampled_from(list(STATES.values())),
    st.lists(st.tuples(st.integers(8, 999), st.integers(0, 255)), max_size=2),
)
def test_the_scan_says_what_decoding_says(
    role: bool,
    first: int,
    last: int | None,
    settled: bool,
    state: DeliveryState | None,
    changes: list[tuple[int, int]],
) -> None:
    data = bytearray(
        frame(
            Disposition(role=role, first=first, last=last, settled=settled, state=state).encoded()
        )
    )
    for place, octet in changes:
        data[8 + place % (len(data) - 8)] = octet
    run, _ = scan(bytes(data))
    if run is not None:
        assert told(run) == slow(bytes(data))
    elif not changes:
        assert last is not None and (last - first) & 0xFFFFFFFF >= 1 << 31


def only(writer: BytesWriter) -> Composite:
    (one,) = frames_of(writer.getvalue())
    performative, rest = performative_of(one)
    assert (rest, one[6:8]) == (b"", b"\x01\x02")
    return performative


@settings(BOUNDED)
@given(st.booleans(), uints, uints, st.booleans(), st.sampled_from(list(STATES)))
def test_a_disposition_is_written_as_its_object_would_be(
    role: bool, first: int, last: int, settled: bool, state: int
) -> None:
    writer = BytesWriter()
    write_disposition(writer, 0x102, role, first, last, settled, state)
    assert only(writer) == Disposition(
        role=role,
        first=first,
        last=None if last == first else last,
        settled=settled,
        state=STATES[state],
    )


@settings(BOUNDED)
@given(
    st.none() | uints,
    st.tuples(uints, uints, uints),
    st.none() | st.tuples(st.integers(0, 255), st.none() | uints, st.none() | uints),
    st.none() | uints,
    st.booleans(),
    st.booleans(),
)
def test_a_flow_is_written_as_its_object_would_be(
    next_incoming_id: int | None,
    windows: tuple[int, int, int],
    link: tuple[int, int | None, int | None] | None,
    available: int | None,
    drain: bool,
    echo: bool,
) -> None:
    handle, delivery_count, credit = link or (None, None, None)
    writer = BytesWriter()
    write_flow(
        writer,
        0x102,
        ABSENT if next_incoming_id is None else next_incoming_id,
        *windows,
        ABSENT if handle is None else handle,
        ABSENT if delivery_count is None else delivery_count,
        ABSENT if credit is None else credit,
        ABSENT if available is None else available,
        drain,
        echo,
    )
    assert only(writer) == Flow(
        next_incoming_id=next_incoming_id,
        incoming_window=windows[0],
        next_outgoing_id=windows[1],
        outgoing_window=windows[2],
        handle=handle,
        delivery_count=delivery_count,
        link_credit=credit,
        available=available if link else None,
        drain=drain,
        echo=echo,
    )
