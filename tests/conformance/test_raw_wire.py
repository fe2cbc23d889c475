"""Bad and unusual bytes: the right code for each; other connections are not affected."""

import random
import struct
from typing import Final

import pytest

from tests.conformance import raw
from tests.conformance.broker import Broker, drain, numbered, publish_all
from tests.conformance.raw import METHOD, RawClient, frame, long, method, short
from tests.waiting import eventually

AUTH_CLOSE: Final = raw.yes("authentication_failure_close")
QUEUE: Final = "raw-wire"


def client(broker: Broker) -> RawClient:
    """A socket with channel 1 open."""
    return RawClient(broker.host, broker.port).begin_channel()


def assert_serves(broker: Broker) -> None:
    """A well-behaved client finds the broker as it should be."""
    with client(broker) as other:
        other.send(raw.declare(1, "", 4))
        other.expect(raw.QUEUE_DECLARE_OK)


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"AMQP\x00\x00\x08\x00",
        b"AMQP\x01\x01\x08\x00",
        b"\x16\x03\x01\x02\x00\x01\x00\x01",
        bytes(4096),
    ],
)
def test_a_wrong_protocol_header_is_answered_with_the_right_one(
    own_broker: Broker, garbage: bytes
) -> None:
    with RawClient(own_broker.host, own_broker.port) as wrong:
        wrong.send(garbage)
        assert wrong.read_exactly(8) == raw.HEADER
        wrong.expect_end()
    assert_serves(own_broker)


BAD_FRAMES: Final = {
    "wrong end octet": (frame(METHOD, 1, struct.pack(">HH", 60, 10), end=b"\x00"), {501}),
    "oversize frame": (struct.pack(">BHI", METHOD, 1, 1 << 30), {501}),
    "unknown frame type": (frame(5, 1, b""), {501, 503, 505}),
    "empty method frame": (frame(METHOD, 1, b""), {501, 502, 503}),
    "header without a publish": (raw.content_header(1, 5), {505}),
    "body without a publish": (raw.body(1, b"x"), {505}),
    "method amid content": (
        raw.publish_method(1, "", "x") + raw.declare(1, "", 4),
        {505},
    ),
    "body before its header": (raw.publish_method(1, "", "x") + raw.body(1, b"x"), {505}),
    "second publish before a header": (raw.publish_method(1, "", "x") * 2, {505}),
    "header of another class": (
        raw.publish_method(1, "", "x")
        + frame(raw.CONTENT_HEADER, 1, struct.pack(">HHQ", 50, 0, 1) + b"\x00\x00"),
        {505},
    ),
    "channel that is not open": (raw.declare(9, "q"), {504}),
    "channel opened twice": (raw.channel_open(1), {504}),
    "queue method on channel 0": (raw.declare(0, "q"), {503, 504}),
    "connection method on a channel": (
        method(1, raw.OPEN, short("/") + b"\x00\x00"),
        {503, 504},
    ),
    "connection opened twice": (raw.open_vhost(), {503, 504}),
    "heartbeat on a channel": (frame(raw.HEARTBEAT, 1, b""), {501, 503, 505}),
    "truncated method": (method(1, raw.QUEUE_DECLARE, b"\x00"), {501, 502}),
    "bytes after the arguments": (
        method(1, raw.QUEUE_DELETE, b"\x00\x00" + short("q") + b"\x00zzz"),
        {501, 502},
    ),
    "table longer than its frame": (
        method(1, raw.QUEUE_DECLARE, b"\x00\x00" + short("q") + b"\x04\xff\xff\xff\xff"),
        {501, 502},
    ),
}


@pytest.mark.parametrize("case", BAD_FRAMES)
def test_a_bad_frame_closes_its_connection_with_the_right_code(broker: Broker, case: str) -> None:
    sent, codes = BAD_FRAMES[case]
    with client(broker) as wrong, client(broker) as neighbour:
        wrong.send(sent)
        code, text = wrong.expect_connection_close()
        assert code in codes, text
        neighbour.send(raw.declare(1, "", 4))
        neighbour.expect(raw.QUEUE_DECLARE_OK)


OWN_BAD_FRAMES: Final = {
    "frame one byte too large": (struct.pack(">BHI", raw.BODY, 1, 131_072 + 1), {501}),
    "unknown class": (method(1, (99, 10)), {503, 540}),
    "unknown method": (method(1, (60, 199)), {503, 540}),
    "body on channel 0": (raw.body(0, b"x"), {503}),
    "body longer than announced": (
        raw.publish_method(1, "", "x") + raw.content_header(1, 3) + raw.body(1, b"1234"),
        {501, 505},
    ),
    "table with a name cut off": (raw.declare(1, "q", 4, b"\x05abc"), {501, 502}),
    "table with an unknown type": (raw.declare(1, "q", 4, short("k") + b"?1"), {501, 502}),
    "table with a string cut off": (
        raw.declare(1, "q", 4, short("k") + b"S\xff\xff\xff\xff"),
        {501, 502},
    ),
    "protocol header twice": (raw.HEADER, {501, 503}),
}


@pytest.mark.parametrize("case", OWN_BAD_FRAMES)
def test_where_rabbitmq_is_silent_or_lenient_the_code_is_sent_too(
    own_broker: Broker, case: str
) -> None:
    sent, codes = OWN_BAD_FRAMES[case]
    with client(own_broker) as wrong:
        wrong.send(sent)
        code, text = wrong.expect_connection_close()
        assert code in codes, text
    assert_serves(own_broker)


def test_a_deeply_nested_table_is_refused(own_broker: Broker) -> None:
    table = b""
    for _ in range(5_000):
        table = short("k") + b"F" + long(table)
    with client(own_broker) as wrong:
        wrong.send(raw.declare(1, "q", 4, table))
        code, text = wrong.expect_connection_close()
        assert code in (501, 502, 506), text
    assert_serves(own_broker)


UNDECODABLE: Final = {
    "unknown type": short("k") + b"Z",
    "string longer than the table": short("k") + b"S\x00\x00\x00\x09ab",
    "name without a value": short("k"),
    "cut array": short("k") + b"A" + long(b"I\x00"),
    "cut inner table": short("k") + b"F" + long(b"\x05ab"),
}


@pytest.mark.parametrize("case", UNDECODABLE)
def test_a_publish_with_headers_that_no_client_can_decode_is_refused(
    own_broker: Broker, name: str, case: str
) -> None:
    # RabbitMQ 4.0.5 closes the connection with 541 INTERNAL_ERROR.
    table = long(UNDECODABLE[case])
    sent = raw.publish_method(1, "", name)
    sent += raw.content_header(1, 2, struct.pack(">H", 0x2000) + table) + raw.body(1, b"ok")
    with client(own_broker) as wrong:
        wrong.send(raw.declare(1, name))
        wrong.expect(raw.QUEUE_DECLARE_OK)
        wrong.send(sent)
        code, text = wrong.expect_connection_close()
        assert code == 501
        assert text.startswith("FRAME_ERROR - cannot decode <<"), text
    with client(own_broker) as other:
        other.send(raw.publish(1, "", name, b"next"), get(name), raw.delete(1, name))
        other.expect(raw.BASIC_GET_OK)
        assert other.read().kind == raw.CONTENT_HEADER
        assert other.read().payload == b"next"
        deleted = other.expect(raw.QUEUE_DELETE_OK)
        assert int.from_bytes(deleted.arguments) == 0


def test_headers_that_are_nested_deeply_are_refused(own_broker: Broker) -> None:
    # RabbitMQ 4.0.5 takes any depth.
    table = b""
    for _ in range(5_000):
        table = short("k") + b"F" + long(table)
    properties = struct.pack(">H", 0x2000) + long(table)
    with client(own_broker) as wrong:
        wrong.send(raw.publish_method(1, "", "q"), raw.content_header(1, 0, properties))
        assert wrong.expect_connection_close()[0] == 501
    assert_serves(own_broker)


def test_a_table_of_ten_thousand_fields_is_taken(broker: Broker) -> None:
    table = b"".join(raw.yes(f"key-{n}") for n in range(9_000))
    properties = struct.pack(">H", 0x2000) + long(table)
    with client(broker) as wide:
        wide.send(raw.declare(1, QUEUE, 4))
        wide.expect(raw.QUEUE_DECLARE_OK)
        wide.send(raw.publish_method(1, "", QUEUE), raw.content_header(1, 2, properties))
        wide.send(raw.body(1, b"ok"), get(QUEUE))
        wide.expect(raw.BASIC_GET_OK)
        assert len(wide.read().payload) == 12 + len(properties)
        assert wide.read().payload == b"ok"


def get(queue: str, no_ack: bool = True) -> bytes:
    return method(1, raw.BASIC_GET, b"\x00\x00" + short(queue) + bytes([no_ack]))


def test_a_body_far_over_the_limit_is_refused_by_its_header(own_broker: Broker) -> None:
    with client(own_broker) as wrong:
        wrong.send(raw.publish_method(1, "", "q"), raw.content_header(1, 1 << 62))
        code, text = wrong.expect_channel_close()
        assert code == 406
        assert text.startswith(f"PRECONDITION_FAILED - message size {1 << 62} is larger than")


@pytest.mark.parametrize(
    ("tuning", "field"),
    [({"frame_max": 200_000}, "frame_max"), ({"channel_max": 5_000}, "channel_max")],
)
def test_a_limit_above_the_servers_is_refused_by_name(
    own_broker: Broker, tuning: dict[str, int], field: str
) -> None:
    with RawClient(own_broker.host, own_broker.port) as wrong:
        wrong.send(raw.HEADER).expect(raw.START)
        wrong.send(raw.start_ok()).expect(raw.TUNE)
        wrong.send(raw.tune_ok(**tuning), raw.open_vhost())
        code, text = wrong.expect_connection_close()
        assert code == 530
        assert field in text and str(tuning[field]) in text


def test_a_limit_of_0_leaves_the_choice_to_the_server(own_broker: Broker) -> None:
    with RawClient(own_broker.host, own_broker.port) as modest:
        modest.begin_channel(frame_max=0, channel_max=0)
        modest.send(raw.declare(1, QUEUE, 4), raw.publish(1, "", QUEUE, bytes(131_064)))
        modest.expect(raw.QUEUE_DECLARE_OK)
        modest.send(get(QUEUE))
        modest.expect(raw.BASIC_GET_OK)


def test_a_refused_login_is_told_to_clients_that_can_hear_it(broker: Broker) -> None:
    with RawClient(broker.host, broker.port) as wrong:
        wrong.send(raw.HEADER).expect(raw.START)
        wrong.send(raw.start_ok(AUTH_CLOSE, password="wrong"))
        code, text = wrong.expect_connection_close()
    assert code == 403
    assert text.startswith(
        "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN"
    )


@pytest.mark.slow
def test_a_refused_login_of_an_old_client_ends_in_silence(broker: Broker) -> None:
    with RawClient(broker.host, broker.port) as wrong:
        wrong.send(raw.HEADER).expect(raw.START)
        wrong.send(raw.start_ok(password="wrong"))
        with pytest.raises(raw.PeerClosed, match="b''"):
            wrong.read_exactly(1)


@pytest.mark.parametrize(
    "step", [raw.channel_open(1), raw.open_vhost(), raw.tune_ok(), raw.declare(1, "q")]
)
def test_a_step_before_the_login_ends_the_connection(broker: Broker, step: bytes) -> None:
    with RawClient(broker.host, broker.port) as wrong:
        wrong.send(raw.HEADER).expect(raw.START)
        wrong.send(step)
        wrong.expect_end_or_close()
    assert_serves(broker)


def test_a_large_frame_before_the_login_ends_the_connection(broker: Broker) -> None:
    with RawClient(broker.host, broker.port) as wrong:
        wrong.send(raw.HEADER).expect(raw.START)
        wrong.send(struct.pack(">BHI", METHOD, 0, 9_000) + bytes(100))
        wrong.expect_end_or_close()
    assert_serves(broker)


def test_everything_up_to_the_first_message_may_come_in_one_write(broker: Broker) -> None:
    with RawClient(broker.host, broker.port) as hasty:
        hasty.send(
            raw.HEADER,
            raw.start_ok(),
            raw.tune_ok(),
            raw.open_vhost(),
            raw.channel_open(1),
            raw.declare(1, QUEUE, 4),
            raw.publish(1, "", QUEUE, b"hasty"),
            get(QUEUE),
        )
        steps = (raw.START, raw.TUNE, raw.OPEN_OK, raw.CHANNEL_OPEN_OK, raw.QUEUE_DECLARE_OK)
        for step in (*steps, raw.BASIC_GET_OK):
            hasty.expect(step)
        assert [hasty.read().kind, hasty.read().payload] == [raw.CONTENT_HEADER, b"hasty"]


def test_everything_may_come_byte_by_byte(broker: Broker) -> None:
    with RawClient(broker.host, broker.port) as slow:
        session = raw.publish(1, "", QUEUE, b"slow") + get(QUEUE)
        for step, answer in (
            (raw.HEADER, raw.START),
            (raw.start_ok(), raw.TUNE),
            (raw.tune_ok() + raw.open_vhost(), raw.OPEN_OK),
            (raw.channel_open(1), raw.CHANNEL_OPEN_OK),
            (raw.declare(1, QUEUE, 4), raw.QUEUE_DECLARE_OK),
            (session, raw.BASIC_GET_OK),
        ):
            for octet in step:
                slow.send(bytes([octet]))
            slow.expect(answer)
        assert [slow.read().kind, slow.read().payload] == [raw.CONTENT_HEADER, b"slow"]


def test_after_a_channel_error_the_channel_is_deaf_until_it_is_closed(broker: Broker) -> None:
    with client(broker) as wrong:
        wrong.send(raw.publish(1, "no such exchange", "", b"1") * 5, raw.declare(1, "", 4))
        code, _ = wrong.expect_channel_close()
        assert code == 404
        wrong.send(raw.channel_open(1), raw.declare(1, "", 4))
        wrong.expect(raw.CHANNEL_OPEN_OK)
        wrong.expect(raw.QUEUE_DECLARE_OK)


def test_a_channel_error_amid_a_large_body_takes_the_rest_of_it_in(broker: Broker) -> None:
    with client(broker) as wrong:
        wrong.send(raw.publish_method(1, "no such exchange", ""), raw.content_header(1, 300_000))
        for _ in range(3):
            wrong.send(raw.body(1, bytes(100_000)))
        assert wrong.expect_channel_close()[0] == 404
        wrong.send(raw.channel_open(1))
        wrong.expect(raw.CHANNEL_OPEN_OK)


def test_no_wait_methods_are_not_answered(broker: Broker) -> None:
    with client(broker) as quiet:
        quiet.send(
            raw.declare(1, QUEUE, 4 | 16),
            method(
                1,
                raw.QUEUE_BIND,
                b"\x00\x00" + short(QUEUE) + short("amq.fanout") + short("") + b"\x01" + long(b""),
            ),
            raw.consume(1, QUEUE, "tag", 2 | 8),
            raw.publish(1, "amq.fanout", "", b"1"),
        )
        assert quiet.read().method == raw.BASIC_DELIVER


def test_a_client_without_the_capability_is_not_told_of_a_cancelled_consumer(
    broker: Broker,
) -> None:
    for capabilities, expected in (
        (b"", raw.QUEUE_DELETE_OK),
        (raw.yes("consumer_cancel_notify"), raw.BASIC_CANCEL),
    ):
        with RawClient(broker.host, broker.port) as consuming:
            consuming.begin_channel(capabilities)
            consuming.send(raw.channel_open(2)).expect(raw.CHANNEL_OPEN_OK)
            consuming.send(raw.declare(1, QUEUE, 4)).expect(raw.QUEUE_DECLARE_OK)
            consuming.send(raw.consume(1, QUEUE, "tag")).expect(raw.BASIC_CONSUME_OK)
            consuming.send(raw.delete(2, QUEUE))
            methods = [consuming.read().method]
            if raw.QUEUE_DELETE_OK not in methods or expected == raw.BASIC_CANCEL:
                methods.append(consuming.read().method)
            assert expected in methods
            assert (raw.BASIC_CANCEL in methods) == bool(capabilities)


def test_a_clean_close_is_answered(broker: Broker) -> None:
    with client(broker) as leaving:
        leaving.send(method(0, raw.CLOSE, struct.pack(">H", 200) + short("bye") + bytes(4)))
        leaving.expect(raw.CLOSE_OK)


@pytest.mark.slow
def test_a_silent_client_gets_heartbeats_and_is_dropped_after_two_missed(broker: Broker) -> None:
    with RawClient(broker.host, broker.port) as silent:
        silent.begin(heartbeat=1)
        silent.read_heartbeat()
        silent.expect_end()


def test_a_random_change_in_a_session_hurts_nobody_else(broker: Broker) -> None:
    drawn = random.Random(20240229)
    session = (
        raw.start_ok(AUTH_CLOSE)
        + raw.tune_ok()
        + raw.open_vhost()
        + raw.channel_open(1)
        + raw.declare(1, QUEUE, 4, raw.yes("some"))
        + raw.publish(1, "", QUEUE, b"x" * 300)
        + raw.consume(1, QUEUE, "tag", 2)
    )
    for _ in range(400):
        changed = bytearray(session)
        for _ in range(drawn.randrange(1, 4)):
            changed[drawn.randrange(len(changed))] = drawn.randrange(256)
        with RawClient(broker.host, broker.port) as fuzzing:
            fuzzing.send(raw.HEADER, bytes(changed[: drawn.randrange(len(changed))]))
    assert_serves(broker)
    connection = broker.connect()
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    publish_all(channel, queue, numbered(10))
    assert drain(channel, queue) == numbered(10)
    connection.close()


def test_publishes_before_confirm_select_are_never_confirmed(broker: Broker) -> None:
    persistent = struct.pack(">HB", 0x1000, 2)
    content = b"counted or not"
    message = (
        raw.publish_method(1, "", QUEUE)
        + raw.content_header(1, len(content), persistent)
        + raw.body(1, content)
    )
    select = raw.method(1, (85, 10), b"\x00")
    with client(broker) as publishing:
        publishing.send(raw.declare(1, QUEUE, 2)).expect(raw.QUEUE_DECLARE_OK)
        publishing.send(message * 5 + select + message)
        publishing.expect((85, 11))
        ack = publishing.expect((60, 80))
        assert struct.unpack(">Q", ack.payload[4:12]) == (1,)
        publishing.send(raw.delete(1, QUEUE)).expect((50, 41))


def test_a_confirm_of_one_message_says_that_it_is_for_one(broker: Broker) -> None:
    """Metrics of RabbitMQ's Java client count by it."""
    message = (
        raw.publish_method(1, "", QUEUE)
        + raw.content_header(1, 1, struct.pack(">HB", 0x1000, 2))
        + raw.body(1, b"x")
    )
    with client(broker) as publishing:
        publishing.send(raw.declare(1, QUEUE, 2)).expect(raw.QUEUE_DECLARE_OK)
        publishing.send(raw.method(1, (85, 10), b"\x00")).expect((85, 11))
        told = []
        for count in (1, 1, 3, 1):
            publishing.send(message * count)
            ack = publishing.expect((60, 80))
            told.append(struct.unpack(">Q?", ack.payload[4:13]))
        assert told == [(1, False), (2, False), (5, True), (6, False)]
        publishing.send(raw.delete(1, QUEUE)).expect((50, 41))


def test_a_get_in_one_write_with_a_publish_takes_nothing_from_a_waiting_consumer(
    broker: Broker,
) -> None:
    content = raw.content_header(1, 1) + raw.body(1, b"x")
    with client(broker) as both:
        both.send(raw.declare(1, QUEUE)).expect(raw.QUEUE_DECLARE_OK)
        both.send(raw.consume(1, QUEUE, "tag", 2)).expect(raw.BASIC_CONSUME_OK)
        both.send(raw.publish_method(1, "", QUEUE) + content + get(QUEUE))
        found = [both.read() for _ in range(4)]
        methods = {frame.method for frame in found if frame.kind == 1}
        assert methods == {(60, 60), (60, 72)}  # deliver with its content, and get-empty
        both.send(raw.delete(1, QUEUE)).expect((50, 41))


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_get_in_one_write_with_a_requeue_sees_the_queue_within_its_length(
    broker: Broker, name: str, kind: str
) -> None:
    table = short("x-max-length") + b"I" + (1).to_bytes(4, "big")
    table += short("x-queue-type") + b"S" + long(kind.encode())
    with client(broker) as both:
        both.send(raw.declare(1, name, 2, table)).expect(raw.QUEUE_DECLARE_OK)
        both.send(raw.publish(1, "", name, b"first"), get(name, no_ack=False))
        assert both.expect(raw.BASIC_GET_OK).arguments[:8] == (1).to_bytes(8, "big")
        for _ in range(2):
            both.read()  # its content
        both.send(raw.publish(1, "", name, b"second"))
        # The first message is requeued at the head of a queue that is full, and dropped from there.
        nack = method(1, (60, 120), (1).to_bytes(8, "big") + b"\x02")
        both.send(nack + get(name))
        found = both.expect(raw.BASIC_GET_OK)
        assert found.arguments[-4:] == bytes(4)  # messages left
        both.read()
        assert both.read().payload == b"second"
        both.send(raw.delete(1, name)).expect(raw.QUEUE_DELETE_OK)


def test_a_stopped_client_that_has_not_read_all_keeps_its_queues_no_longer(
    own_broker: Broker, name: str
) -> None:
    node = own_broker.node
    assert node is not None
    with RawClient(node.host, node.port) as stopped, RawClient(node.host, node.port) as publishing:
        publishing.begin_channel()
        stopped.begin_channel(heartbeat=1)
        stopped.send(raw.declare(1, name, 4)).expect(raw.QUEUE_DECLARE_OK)
        stopped.send(raw.consume(1, name, "tag", 2)).expect(raw.BASIC_CONSUME_OK)
        content = raw.content_header(1, 100_000) + raw.body(1, bytes(100_000))
        for _ in range(200):
            publishing.send(raw.publish_method(1, "", name), content)
        eventually(lambda: name not in {each["name"] for each in node.api("GET", "/api/queues")})


def test_who_deletes_a_queue_hears_of_its_consumer_behind_the_answer(
    broker: Broker, name: str
) -> None:
    with raw.RawClient(broker.host, broker.port) as client:
        client.begin_channel(raw.yes("consumer_cancel_notify"))
        client.send(raw.declare(1, name)).expect(raw.QUEUE_DECLARE_OK)
        client.send(raw.consume(1, name, "one")).expect(raw.BASIC_CONSUME_OK)
        client.send(raw.delete(1, name)).expect(raw.QUEUE_DELETE_OK)
        client.expect(raw.BASIC_CANCEL)


def test_the_default_exchange_cannot_be_declared_passively(broker: Broker) -> None:
    with raw.RawClient(broker.host, broker.port) as client:
        client.begin_channel()
        arguments = b"\x00\x00" + raw.short("") + raw.short("direct") + b"\x01" + raw.long(b"")
        client.send(raw.method(1, (40, 10), arguments))
        text = "ACCESS_REFUSED - operation not permitted on the default exchange"
        assert client.expect_channel_close() == (403, text)


@pytest.mark.parametrize("size", [4_100, 7_900])
def test_a_start_ok_of_two_smallest_frames_is_accepted(broker: Broker, size: int) -> None:
    with raw.RawClient(broker.host, broker.port) as client:
        client.send(raw.HEADER).expect(raw.START)
        table = raw.short("about") + b"S" + raw.long(b"x" * size)
        secret = raw.long(b"\x00guest\x00guest")
        arguments = raw.long(table) + raw.short("PLAIN") + secret + raw.short("en_US")
        client.send(raw.method(0, raw.START_OK, arguments)).expect(raw.TUNE)
