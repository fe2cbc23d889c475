"""The AMQP 0-9-1 core from connection.start to close, and its heartbeats and deadlines."""

import pytest

from tests.unit.wire.frames import (
    HEARTBEAT,
    failure,
    login,
    method_frame,
    opened,
    plain,
    sent_methods,
)
from warren.wire.amqp091.connection import Connection, Limits
from warren.wire.amqp091.events import Called, Ended, Failed, LoginRequested, OpenRequested
from warren.wire.amqp091.methods import (
    ChannelOpen,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUpdateSecret,
    QueueDeclare,
)
from warren.wire.errors import ProtocolError, ReplyCode


def started() -> Connection:
    connection = Connection(Limits(), {"product": "Warren"}, "PLAIN AMQPLAIN", 0)
    connection.start()
    return connection


def test_a_client_gets_through_the_handshake() -> None:
    connection = started()
    start = ConnectionStart(0, 9, {"product": "Warren"}, b"PLAIN AMQPLAIN", b"en_US")
    assert sent_methods(connection) == [(0, start)]
    assert connection.state_name == "starting"
    capabilities: dict[str, object] = {
        "consumer_cancel_notify": True,
        "connection.blocked": True,
        "basic.nack": True,
        "publisher_confirms": False,
    }
    properties: dict[str, object] = {"product": "client", "capabilities": capabilities}
    start_ok = ConnectionStartOk(properties, "PLAIN", b"\0a\0b", "en_US")
    events = connection.receive(method_frame(0, start_ok), 0)
    assert plain(events) == [("login", "PLAIN", b"\0a\0b")]
    assert isinstance(events[0], LoginRequested)
    assert events[0].client_properties == connection.client_properties == properties
    assert connection.consumer_cancel_notify
    assert connection.connection_blocked
    assert connection.basic_nack
    assert not connection.publisher_confirms
    assert not connection.authentication_failure_close
    connection.accept_login()
    assert sent_methods(connection) == [(0, ConnectionTune(2047, 131072, 60))]
    together = method_frame(0, ConnectionTuneOk(100, 4096, 7)) + method_frame(
        0, ConnectionOpen("v")
    )
    assert plain(connection.receive(together, 0)) == [("open", "v")]
    assert (connection.channel_max, connection.frame_max, connection.heartbeat_s) == (100, 4096, 7)
    connection.accept_open()
    assert sent_methods(connection) == [(0, ConnectionOpenOk())]
    assert connection.state_name == "running"


def test_zeros_in_tune_ok_take_the_servers_values_but_switch_heartbeats_off() -> None:
    connection = login()
    connection.accept_login()
    connection.receive(method_frame(0, ConnectionTuneOk(0, 0, 0)), 0)
    assert connection.channel_max == 2047
    assert connection.frame_max == 131072
    assert connection.heartbeat_s == 0


@pytest.mark.parametrize(
    ("tune_ok", "text"),
    [
        (
            ConnectionTuneOk(2048, 0, 0),
            "negotiated channel_max = 2048 is higher than the maximum allowed value (2047)",
        ),
        (
            ConnectionTuneOk(0, 131073, 0),
            "negotiated frame_max = 131073 is higher than the maximum allowed value (131072)",
        ),
        (
            ConnectionTuneOk(0, 4095, 0),
            "negotiated frame_max = 4095 is lower than the minimum allowed value (4096)",
        ),
    ],
)
def test_tune_ok_outside_the_limits_is_not_allowed(tune_ok: ConnectionTuneOk, text: str) -> None:
    connection = login()
    connection.accept_login()
    assert failure(connection, method_frame(0, tune_ok)) == f"530 NOT_ALLOWED - {text}"


def test_a_heartbeat_above_the_proposed_one_is_the_clients_right() -> None:
    assert opened(heartbeat_s=600).heartbeat_s == 600


def test_an_unknown_mechanism_is_an_invalid_command() -> None:
    start_ok = method_frame(0, ConnectionStartOk({}, "NTLM", b"", "en_US"))
    text = failure(started(), start_ok)
    assert text == "503 COMMAND_INVALID - unknown authentication mechanism 'NTLM'"


def test_a_method_out_of_turn_is_a_channel_error() -> None:
    tune_ok = method_frame(0, ConnectionTuneOk())
    text = "504 CHANNEL_ERROR - unexpected method in connection state "
    assert failure(started(), tune_ok) == text + "starting"
    assert failure(opened(), tune_ok) == text + "running"
    assert failure(opened(), method_frame(0, ConnectionOpen("/"))) == text + "running"
    assert failure(opened(), method_frame(0, QueueDeclare("q"))) == text + "running"


def test_what_comes_behind_a_login_or_an_open_waits_for_its_answer() -> None:
    connection = login()
    hasty = method_frame(0, ConnectionTuneOk()) + method_frame(0, ConnectionOpen("/"))
    assert connection.receive(hasty + method_frame(1, ChannelOpen()), 0) == []
    connection.accept_login()
    [opening] = connection.receive(b"", 0)
    assert isinstance(opening, OpenRequested)
    connection.accept_open()
    [called] = connection.receive(b"", 0)
    assert isinstance(called, Called)
    assert called.method == ChannelOpen()


def test_a_channel_before_connection_open_is_an_unexpected_frame() -> None:
    text = failure(started(), method_frame(1, ChannelOpen()))
    assert text == "505 UNEXPECTED_FRAME - type 1, all octets = <<0,20,0,10,0>>"


def test_a_refused_login_is_closed_with_a_reason_if_the_client_can_take_it() -> None:
    connection = login(authentication_failure_close=True)
    connection.refuse_login()
    [(_, close)] = sent_methods(connection)
    assert isinstance(close, ConnectionClose)
    assert close.reply_code == 403
    assert close.reply_text == (
        "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. "
        "For details see the broker logfile."
    )
    [ended] = connection.receive(method_frame(0, ConnectionCloseOk()), 0)
    assert isinstance(ended, Ended)


def test_a_refused_login_is_closed_in_silence_after_three_seconds_otherwise() -> None:
    connection = login()
    connection.refuse_login()
    assert connection.data_to_send() == b""
    assert connection.receive(method_frame(0, ConnectionClose(200)), 10) == []
    assert connection.tick(2_999) == []
    [ended] = connection.tick(3_000)
    assert isinstance(ended, Ended)
    assert connection.state_name == "closed"


def test_the_handshake_must_be_done_in_ten_seconds() -> None:
    connection = login()
    assert connection.tick(9_999) == []
    [failed] = connection.tick(10_000)
    assert isinstance(failed, Failed)
    assert "handshake timeout in state securing" in str(failed.error)
    assert connection.tick(10_001) == []


def test_the_clients_close_is_answered_and_ends_the_connection() -> None:
    connection = opened(1)
    close = method_frame(0, ConnectionClose(200, "bye"))
    assert plain(connection.receive(close + b"rubbish", 0)) == [("ended",)]
    assert sent_methods(connection) == [(0, ConnectionCloseOk())]
    assert connection.receive(b"more rubbish", 0) == []


def test_after_fail_only_close_and_close_ok_are_looked_at() -> None:
    for answer in (ConnectionCloseOk(), ConnectionClose(200)):
        connection = opened(1)
        connection.fail(ProtocolError(ReplyCode.CONNECTION_FORCED, "bye"))
        [(_, close)] = sent_methods(connection)
        assert close == ConnectionClose(320, "CONNECTION_FORCED - bye")
        dropped = method_frame(1, QueueDeclare("q")) + method_frame(0, ConnectionOpen("/"))
        assert connection.receive(dropped, 0) == []
        assert plain(connection.receive(method_frame(0, answer), 0)) == [("ended",)]


def test_fail_speaks_once() -> None:
    connection = opened()
    connection.fail(ProtocolError(ReplyCode.CONNECTION_FORCED, "one"))
    connection.fail(ProtocolError(ReplyCode.CONNECTION_FORCED, "two"))
    assert len(sent_methods(connection)) == 1


def test_a_peer_that_does_not_answer_close_is_given_up_after_ten_seconds() -> None:
    connection = opened()
    connection.fail(ProtocolError(ReplyCode.CONNECTION_FORCED, "bye"))
    assert connection.tick(9_999) == []
    assert plain(connection.tick(10_000)) == [("ended",)]


def test_nothing_is_sent_on_a_failed_connection() -> None:
    connection = opened(1)
    connection.fail(ProtocolError(ReplyCode.CONNECTION_FORCED, "bye"))
    connection.data_to_send()
    connection.send(1, QueueDeclare("q"))
    connection.close_channel(1, ProtocolError(ReplyCode.NOT_FOUND, "no queue"))
    assert connection.data_to_send() == b""


def test_update_secret_reaches_the_endpoint() -> None:
    connection = opened()
    [event] = connection.receive(method_frame(0, ConnectionUpdateSecret(b"new", "why")), 0)
    assert isinstance(event, Called)
    assert event.method == ConnectionUpdateSecret(b"new", "why")


def test_a_heartbeat_goes_out_after_half_the_interval_of_silence() -> None:
    connection = opened(heartbeat_s=10)
    connection.tick(1_000)
    assert connection.data_to_send() == b""
    connection.tick(5_999)
    assert connection.data_to_send() == b""
    connection.tick(6_000)
    assert connection.data_to_send() == HEARTBEAT
    connection.tick(10_999)
    assert connection.data_to_send() == b""
    connection.tick(11_000)
    assert connection.data_to_send() == HEARTBEAT


def test_what_is_written_puts_the_next_heartbeat_off() -> None:
    connection = opened(heartbeat_s=10)
    connection.tick(1_000)
    connection.writer.write(b"something")
    connection.data_to_send()
    connection.tick(5_000)
    connection.tick(9_999)
    assert connection.data_to_send() == b""
    connection.tick(10_000)
    assert connection.data_to_send() == HEARTBEAT


def test_two_silent_intervals_fail_the_connection_without_a_close() -> None:
    connection = opened(heartbeat_s=10)
    assert connection.tick(19_999) == []
    connection.data_to_send()
    [failed] = connection.tick(20_000)
    assert isinstance(failed, Failed)
    assert "missed heartbeats from client, timeout: 10s" in str(failed.error)
    assert connection.state_name == "closed"


def test_a_heartbeat_from_the_client_breaks_its_silence() -> None:
    connection = opened(heartbeat_s=10)
    assert connection.receive(HEARTBEAT, 15_000) == []
    assert connection.tick(34_999) == []


def test_a_client_that_is_not_read_is_not_blamed_for_silence() -> None:
    connection = opened(heartbeat_s=10)
    connection.pause_reading()
    assert connection.tick(60_000) == []
    connection.resume_reading(60_000)
    assert connection.tick(79_999) == []
    assert len(connection.tick(80_000)) == 1


def test_no_heartbeats_are_sent_or_missed_when_the_client_wants_none() -> None:
    connection = opened(heartbeat_s=0)
    assert connection.tick(10_000_000) == []
    assert connection.data_to_send() == b""


def test_bytes_are_counted_both_ways() -> None:
    connection = started()
    assert connection.bytes_sent == 0
    sent = connection.data_to_send()
    assert connection.bytes_sent == len(sent) > 0
    connection.receive(HEARTBEAT, 0)
    assert connection.bytes_received == 8


def test_large_output_is_taken_whole() -> None:
    connection = opened()
    connection.writer.write(b"x" * 200_000)
    assert connection.data_to_send() == b"x" * 200_000
    assert connection.data_to_send() == b""
    connection.writer.write(b"y")
    assert connection.data_to_send() == b"y"
