"""Contents and settlements: runs, splits, contents put together, and what they may hold."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.wire.frames import (
    BOUNDED,
    HEARTBEAT,
    failure,
    frame,
    header_frame,
    message,
    method_frame,
    opened,
    plain,
)
from warren.wire.amqp091.connection import Limits
from warren.wire.amqp091.events import (
    ACK,
    INFO_EXPIRATION,
    INFO_PERSISTENT,
    INFO_PRIORITY,
    NACK,
    REJECT,
    Called,
    Publishes,
    Settles,
)
from warren.wire.amqp091.methods import (
    BasicAck,
    BasicGet,
    BasicNack,
    BasicPublish,
    BasicReject,
    ChannelCloseOk,
    ChannelOpen,
    Method,
)
from warren.wire.amqp091.properties import BasicProperties
from warren.wire.errors import ProtocolError, ReplyCode

PERSISTENT = BasicProperties(delivery_mode=2)


def only_run(events: list[object]) -> Publishes:
    assert len(events) == 1
    run = events[0]
    assert isinstance(run, Publishes)
    return run


def test_messages_read_together_are_one_run_over_the_read_itself() -> None:
    data = message(1, b"one") + message(1, b"two") + message(1, b"")
    run = only_run([*opened(1).receive(data, 0)])
    assert run.count == 3
    assert run.data is data
    assert run.firsts == [0]
    assert run.keys == [b"\x00\x01q\x00"]
    assert run.infos == [0]


def test_a_new_key_or_new_properties_begin_a_new_entry_of_the_run() -> None:
    urgent = BasicProperties(delivery_mode=2, priority=9, expiration="5")
    data = b"".join(
        [
            message(1, b"0"),
            message(1, b"1"),
            message(1, b"2", routing_key=b"r"),
            message(1, b"3", routing_key=b"r", properties=urgent),
            message(1, b"4", routing_key=b"r", properties=urgent, mandatory=True),
            message(1, b"5", routing_key=b"r", properties=urgent, mandatory=True, exchange="e"),
        ]
    )
    run = only_run([*opened(1).receive(data, 0)])
    assert run.firsts == [0, 2, 3, 4, 5]
    assert run.keys == [
        *(b"\x00\x01q\x00", b"\x00\x01r\x00", b"\x00\x01r\x00", b"\x00\x01r\x01"),
        b"\x01e\x01r\x01",
    ]
    info = INFO_PERSISTENT | INFO_EXPIRATION | INFO_PRIORITY | 9 << 8
    assert run.infos == [0, 0, info, info, info]


def test_properties_that_differ_without_a_difference_to_routing_stay_in_one_entry() -> None:
    parts = [message(1, b"x", properties=BasicProperties(message_id=str(i))) for i in range(9)]
    run = only_run([*opened(1).receive(b"".join(parts), 0)])
    assert run.firsts == [0]


def test_properties_of_the_same_length_are_told_apart() -> None:
    modes = [BasicProperties(delivery_mode=mode) for mode in (2, 2, 1, 2)]
    data = b"".join(message(1, b"x", properties=one) for one in modes)
    run = only_run([*opened(1).receive(data, 0)])
    assert run.firsts == [0, 2, 3]
    assert run.infos == [INFO_PERSISTENT, 0, INFO_PERSISTENT]


def test_a_run_that_is_little_of_a_read_does_not_keep_all_of_it() -> None:
    small = message(1, b"small")
    data = method_frame(1, BasicGet("q" * 200)) * 3 + small + small
    events = opened(1).receive(data, 0)
    run = only_run(events[3:])  # type: ignore[arg-type]
    assert run.data == small + small
    assert plain([run])[1][-1] == b"small"


def test_a_run_behind_a_short_frame_has_absolute_offsets() -> None:
    data = HEARTBEAT + message(1, b"one") + message(1, b"two")
    run = only_run([*opened(1).receive(data, 0)])
    assert run.data is data
    assert run.offsets[:4] == b"\x08\x00\x00\x00"
    assert [entry[-1] for entry in plain([run])] == [b"one", b"two"]


def test_a_run_ends_where_another_channel_or_another_event_comes() -> None:
    one, two = message(1, b"1"), message(2, b"2")
    data = one + one + two + one + method_frame(1, BasicGet("q")) + one
    events = opened(1, 2).receive(data, 0)
    assert [type(event) for event in events] == [Publishes] * 3 + [Called, Publishes]
    assert [entry[1] for entry in plain(events)] == [1, 1, 2, 1, 1, 1]


def test_contents_of_two_channels_may_be_mixed_frame_by_frame() -> None:
    data = b"".join(
        [
            method_frame(1, BasicPublish("", b"a")),
            method_frame(2, BasicPublish("", b"b")),
            header_frame(2, 4),
            header_frame(1, 4),
            frame(3, 1, b"AA"),
            HEARTBEAT,
            frame(3, 2, b"BB"),
            frame(3, 1, b"aa"),
            frame(3, 2, b"bb"),
        ]
    )
    events = plain(opened(1, 2).receive(data, 0))
    assert [(entry[1], entry[5], entry[7]) for entry in events] == [
        (1, b"a", b"AAaa"),
        (2, b"b", b"BBbb"),
    ]


def test_acknowledgements_of_ascending_tags_are_one_event() -> None:
    data = b"".join(method_frame(1, BasicAck(tag)) for tag in range(5, 105))
    [settles] = opened(1).receive(data, 0)
    assert isinstance(settles, Settles)
    assert (settles.channel, settles.kind, settles.first, settles.last) == (1, ACK, 5, 104)
    assert not settles.multiple


@pytest.mark.parametrize(
    ("methods", "expected"),
    [
        ([BasicAck(1), BasicAck(3)], [(ACK, 1, 1, 0, 0), (ACK, 3, 3, 0, 0)]),
        ([BasicAck(2), BasicAck(1)], [(ACK, 2, 2, 0, 0), (ACK, 1, 1, 0, 0)]),
        ([BasicAck(1), BasicAck(1)], [(ACK, 1, 1, 0, 0), (ACK, 1, 1, 0, 0)]),
        (
            [BasicAck(1), BasicAck(2, True), BasicAck(3)],
            [(ACK, 1, 1, 0, 0), (ACK, 2, 2, 1, 0), (ACK, 3, 3, 0, 0)],
        ),
        ([BasicAck(0, True)], [(ACK, 0, 0, 1, 0)]),
        ([BasicAck(0)], [(ACK, 0, 0, 0, 0)]),
        ([BasicReject(1, True), BasicReject(2, True)], [(REJECT, 1, 2, 0, 1)]),
        ([BasicReject(1, True), BasicReject(2)], [(REJECT, 1, 1, 0, 1), (REJECT, 2, 2, 0, 0)]),
        ([BasicNack(1, False, True), BasicNack(2, False, True)], [(NACK, 1, 2, 0, 1)]),
        ([BasicNack(9, True, False)], [(NACK, 9, 9, 1, 0)]),
        ([BasicAck(1), BasicReject(2), BasicNack(3)], [(k, t, t, 0, 0) for k, t in
            ((ACK, 1), (REJECT, 2), (NACK, 3))]),
        ([BasicAck(2**63 - 1)], [(ACK, 2**63 - 1, 2**63 - 1, 0, 0)]),
    ],
)  # fmt: skip
def test_only_alike_and_consecutive_settlements_are_merged(
    methods: list[Method], expected: list[tuple[int, ...]]
) -> None:
    events = opened(1).receive(b"".join(method_frame(1, method) for method in methods), 0)
    found = []
    for event in events:
        assert isinstance(event, Settles)
        flags = (int(event.multiple), int(event.requeue))
        found.append((event.kind, event.first, event.last, *flags))
    assert found == expected


def stream() -> bytes:
    rich = BasicProperties(content_type="text/plain", headers={"k": 1}, delivery_mode=2)
    return b"".join(
        [
            message(1, b"one"),
            message(1, b"two", properties=rich),
            method_frame(1, BasicAck(1)),
            method_frame(1, BasicAck(2)),
            HEARTBEAT,
            message(2, b"three" * 10, body_frame_bytes=20),
            message(2, b""),
            method_frame(2, BasicGet("q")),
            method_frame(1, BasicPublish("e", b"r")),
            HEARTBEAT,
            header_frame(1, 3),
            method_frame(2, BasicNack(7, True, True)),
            frame(3, 1, b"mix"),
            message(1, b"last"),
        ]
    )


def test_every_split_in_two_gives_the_same_events() -> None:
    data = stream()
    whole = plain(opened(1, 2).receive(data, 0))
    assert len(whole) == 10
    for at in range(len(data)):
        connection = opened(1, 2)
        first = plain(connection.receive(data[:at], 0))
        assert first + plain(connection.receive(data[at:], 0)) == whole


def test_byte_by_byte_gives_the_same_events() -> None:
    data = stream()
    connection = opened(1, 2)
    events = []
    for at in range(len(data)):
        events += plain(connection.receive(data[at : at + 1], 0))
    assert events == plain(opened(1, 2).receive(data, 0))


def test_every_frame_is_told_as_soon_as_its_last_byte_is_there() -> None:
    connection = opened(1, 2)
    connection.receive(method_frame(1, BasicPublish("", b"q")) + header_frame(1, 9), 0)
    assert connection.receive(method_frame(2, BasicGet("q"))[:-1], 0) == []
    assert len(connection.receive(b"\xce", 0)) == 1


pieces = st.one_of(
    st.builds(
        message,
        st.integers(1, 2),
        st.binary(max_size=400),
        st.binary(max_size=9),
        st.sampled_from([None, PERSISTENT, BasicProperties(message_id="é" * 9, priority=3)]),
        st.sampled_from(["", "amq.topic", "é"]),
        st.booleans(),
        st.sampled_from([7, 100, 131_064]),
    ),
    st.builds(lambda tag: method_frame(1, BasicAck(tag)), st.integers(0, 4)),
    st.builds(lambda tag: method_frame(2, BasicReject(tag, True)), st.integers(0, 4)),
    st.just(HEARTBEAT),
    st.just(method_frame(2, BasicGet("q"))),
)


@BOUNDED
@given(st.lists(pieces, max_size=25), st.lists(st.integers(1, 700), min_size=1, max_size=8))
def test_any_split_gives_the_same_events(parts: list[bytes], steps: list[int]) -> None:
    data = b"".join(parts)
    whole = plain(opened(1, 2).receive(data, 0))
    connection = opened(1, 2)
    events: list[tuple[object, ...]] = []
    at = turn = 0
    while at < len(data):
        step = steps[turn % len(steps)]
        events += plain(connection.receive(data[at : at + step], 0))
        at, turn = at + step, turn + 1
    assert events == whole


def test_stored_form_1_is_the_frames_as_they_came() -> None:
    one = message(1, b"x" * 50, body_frame_bytes=20)
    assert only_run([*opened(1).receive(one, 0)]).data == one
    connection = opened(1)
    connection.receive(one[:30], 0)
    assert only_run([*connection.receive(one[30:], 0)]).data == one


@pytest.mark.parametrize("step", [1000, 65_536, 200_000, 262_144])
def test_a_large_body_comes_through_whatever_the_size_of_the_reads(step: int) -> None:
    body = bytes(range(256)) * 4096
    data = message(1, b"before") + message(1, body) + message(1, b"after")
    connection = opened(1)
    events = []
    for at in range(0, len(data), step):
        events += plain(connection.receive(data[at : at + step], 0))
    assert [entry[-1] for entry in events] == [b"before", body, b"after"]


def test_a_large_body_is_not_copied_at_every_read() -> None:
    body = bytes(8 * 1024 * 1024)
    data = message(1, body)
    connection = opened(1)
    reads = [data[at : at + 65_536] for at in range(0, len(data), 65_536)]
    tracemalloc.start()
    events = [event for read in reads for event in connection.receive(read, 0)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(events) == 1
    assert peak < 2.2 * len(data)


def test_a_frame_that_trickles_in_is_not_kept_as_a_list_of_crumbs() -> None:
    connection = opened(1)
    data = message(1, bytes(100_000))
    tracemalloc.start()
    for at in range(0, 90_000, 2):
        assert connection.receive(data[at : at + 2], 0) == []
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held < 400_000
    assert plain(connection.receive(data[90_000:], 0))[0][-1] == bytes(100_000)


def begin(channel: int, body_bytes: int) -> bytes:
    return method_frame(channel, BasicPublish("", b"q")) + header_frame(channel, body_bytes)


def test_unfinished_contents_of_all_channels_are_bounded() -> None:
    connection = opened(1, 2, 3, limits=Limits(held_bytes_max=1_000_000))
    for channel in (1, 2, 3):
        assert connection.receive(begin(channel, 1_000_000), 0) == []
    assert connection.receive(frame(3, 1, bytes(100_000)) * 5, 0) == []
    assert connection.receive(frame(3, 2, bytes(100_000)) * 4, 0) == []
    text = failure(connection, frame(3, 3, bytes(100_000)))
    assert text == "506 RESOURCE_ERROR - unfinished messages hold more than 1000000 bytes"


def test_what_is_held_is_given_back_when_a_content_ends_or_its_channel_closes() -> None:
    connection = opened(1, 2, limits=Limits(held_bytes_max=1_000_000))
    for _ in range(3):
        assert connection.receive(begin(1, 900_000), 0) == []
        events = connection.receive(frame(3, 1, bytes(100_000)) * 9, 0)
        assert [type(event) for event in events] == [Publishes]
    for _ in range(3):
        assert connection.receive(begin(2, 900_000) + frame(3, 2, bytes(100_000)) * 8, 0) == []
        connection.close_channel(2, ProtocolError(ReplyCode.NOT_FOUND, "no exchange"))
        reopen = method_frame(2, ChannelCloseOk()) + method_frame(2, ChannelOpen())
        assert len(connection.receive(reopen, 0)) == 1


def test_a_body_in_one_byte_frames_counts_with_what_it_costs_to_hold() -> None:
    connection = opened(1, limits=Limits(held_bytes_max=1_000_000))
    connection.receive(begin(1, 1_000_000), 0)
    assert connection.receive(frame(3, 1, b"x") * 13_000, 0) == []
    assert failure(connection, frame(3, 1, b"x") * 1_000).startswith("506 RESOURCE_ERROR")


def test_a_malformed_exchange_name_is_refused_in_a_run() -> None:
    good = message(1, b"x", exchange="ab")
    bad = good.replace(b"\x02ab", b"\x02\xff\xff")
    assert failure(opened(1), good + bad).startswith("501 FRAME_ERROR")


def test_input_is_taken_up_to_the_next_publish_while_publishes_are_held() -> None:
    connection = opened(1)
    connection.holds_publishes = True
    data = method_frame(1, BasicAck(7)) + message(1, b"one") + method_frame(1, BasicAck(8))
    (settles,) = connection.receive(data, 0)
    assert isinstance(settles, Settles)
    assert (settles.last, connection.publish_held) == (7, True)
    assert connection.receive(message(1, b"two"), 0) == []

    connection.holds_publishes = False
    events = connection.receive(b"", 0)
    assert [type(each) for each in events] == [Publishes, Settles, Publishes]
    assert not connection.publish_held


def test_a_message_whose_body_has_begun_is_taken_although_publishes_are_held() -> None:
    connection = opened(1)
    data = message(1, b"x" * 300_000)
    assert connection.receive(data[:200_000], 0) == []
    connection.holds_publishes = True
    (run,) = connection.receive(data[200_000:], 0)
    assert isinstance(run, Publishes)
    assert not connection.publish_held
