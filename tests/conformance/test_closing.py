"""The end of a connection: the client learns of it although bytes of it are still on their way."""

import socket

from tests.conformance import raw, raw10
from tests.conformance.broker import Broker

IN_FLIGHT = raw.publish(1, "", "nowhere", b"x" * 1000) * 2000


def send_on(client: socket.socket) -> None:
    """Send much; a reset would fail the second call at the latest."""
    for _ in range(3):
        client.sendall(IN_FLIGHT)


def close_method() -> bytes:
    return raw.method(0, raw.CLOSE, b"\x00\xc8" + raw.short("bye") + b"\x00\x00\x00\x00")


def test_a_client_that_still_sends_reads_close_ok(own_broker: Broker) -> None:
    with raw.RawClient(own_broker.host, own_broker.port) as client:
        client.begin_channel().send(IN_FLIGHT, close_method(), IN_FLIGHT)
        client.expect(raw.CLOSE_OK)
        client.expect_end()
        send_on(client.socket)


def test_a_client_that_still_sends_reads_why_its_connection_was_closed(own_broker: Broker) -> None:
    with raw.RawClient(own_broker.host, own_broker.port) as client:
        client.begin_channel().send(raw.frame(7, 1, b""), IN_FLIGHT)
        assert client.expect(raw.CLOSE).reply[0] == 501
        client.send(IN_FLIGHT, raw.method(0, raw.CLOSE_OK))
        client.expect_end()
        send_on(client.socket)


def test_a_client_of_another_protocol_reads_which_one_is_spoken(own_broker: Broker) -> None:
    with raw.RawClient(own_broker.host, own_broker.port) as client:
        client.send(b"GET / HTTP/1.1\r\n\r\n")
        assert client.read_exactly(8) == raw.HEADER
        client.expect_end()
        send_on(client.socket)


def test_a_client_of_amqp_1_0_that_still_sends_reads_the_close(own_broker: Broker) -> None:
    with raw10.Raw10(own_broker.host, own_broker.port) as client:
        client.open()
        client.call(raw10.CLOSE)
        client.expect(raw10.CLOSE)
        assert client.closed()
        send_on(client.socket)


def test_a_closed_connection_is_listed_no_more_while_its_client_keeps_the_socket(
    own_broker: Broker,
) -> None:
    assert own_broker.node is not None
    with raw.RawClient(own_broker.host, own_broker.port) as client:
        name = "{}:{}".format(*client.socket.getsockname())
        client.begin_channel().send(close_method())
        client.expect(raw.CLOSE_OK)
        listed = own_broker.node.api("GET", "/api/connections")
        assert not [each for each in listed if each["name"].startswith(name)]
