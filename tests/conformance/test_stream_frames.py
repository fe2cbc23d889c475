"""Bytes on the stream protocol's port that no good client sends: clear ends, and the node lives."""

import socket
import zlib
from collections.abc import Iterator

import pytest

from tests.conformance.broker import CONFIG
from warren.testing import free_port
from warren.testing.node import Node
from warren.wire.stream import codes
from warren.wire.stream.chunks import CHUNK_HEAD
from warren.wire.stream.frames import Fields, FrameBuffer, FrameWriter

SEED_FRAMES = 200


class Client:
    """A socket that speaks frames."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=15)
        self._frames = FrameBuffer(0)
        self._correlation = 0

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, frame: FrameWriter) -> None:
        self.socket.sendall(frame.end())

    def receive(self) -> Fields | None:
        """The next frame; None: the node has closed its side."""
        while (body := self._frames.take()) is None:
            data = self.socket.recv(65_536)
            if not data:
                return None
            self._frames.add(data)
        return Fields(body)

    def ask(self, key: int, *parts: bytes, version: int = 1) -> Fields:
        """Send a request and return the fields of its answer behind the correlation id."""
        self._correlation += 1
        frame = FrameWriter(key, version).u32(self._correlation).raw(b"".join(parts))
        self.send(frame)
        while True:
            answer = self.receive()
            assert answer is not None, "the node closed the connection"
            if answer.key == key and answer.is_response:
                assert answer.u32() == self._correlation
                return answer

    def log_in(self, user: str = "guest", password: str = "guest") -> int:
        response = f"\x00{user}\x00{password}".encode()
        mechanism = FrameWriter(0).string("PLAIN").blob(response).end()[8:]
        return self.ask(codes.SASL_AUTHENTICATE, mechanism).u16()

    def open(self, user: str = "guest", password: str = "guest") -> None:
        assert self.log_in(user, password) == codes.OK
        self.send(FrameWriter(codes.TUNE).u32(0).u32(0))
        assert self.ask(codes.OPEN, text("/")).u16() == codes.OK

    def code_of_close(self) -> int | None:
        """Of the node's Close; None: there was none."""
        found = None
        while (frame := self.receive()) is not None:
            if frame.key == codes.CLOSE and not frame.is_response:
                frame.u32()
                found = frame.u16()
        return found

    def close(self) -> None:
        self.socket.close()


def text(value: str) -> bytes:
    return FrameWriter(0).string(value).end()[8:]


def number(value: int, size: int) -> bytes:
    return value.to_bytes(size, "big")


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    chosen = free_port()
    with Node(config=f'listeners.stream = "127.0.0.1:{chosen}"\n{CONFIG}') as node:
        yield chosen
        assert "Traceback" not in node.log()


@pytest.fixture
def client(port: int) -> Iterator[Client]:
    made = Client(port)
    yield made
    made.close()


def test_nothing_is_done_before_a_login_and_a_vhost(client: Client) -> None:
    client.send(FrameWriter(codes.CREATE).u32(1).string("early").u32(0))
    assert client.code_of_close() == codes.UNKNOWN_FRAME


def test_a_vhost_is_not_opened_before_a_login(client: Client) -> None:
    client.send(FrameWriter(codes.OPEN).u32(1).string("/"))
    assert client.code_of_close() == codes.UNKNOWN_FRAME


def test_an_unknown_mechanism_is_refused(client: Client) -> None:
    answer = client.ask(codes.SASL_AUTHENTICATE, text("SCRAM"), number(0, 4))
    assert answer.u16() == codes.SASL_MECHANISM_NOT_SUPPORTED
    assert client.receive() is None


def test_a_wrong_password_is_refused(client: Client) -> None:
    assert client.log_in(password="wrong") == codes.AUTHENTICATION_FAILURE
    assert client.receive() is None


def test_a_frame_beyond_the_limit_closes_the_connection(client: Client) -> None:
    client.open()
    client.socket.sendall(number(1 << 24, 4) + number(codes.PUBLISH, 2) + number(1, 2))
    assert client.code_of_close() == codes.FRAME_TOO_LARGE


def test_a_frame_before_the_vhost_is_open_has_a_smaller_limit(client: Client) -> None:
    client.socket.sendall(number(100_000, 4) + number(codes.PEER_PROPERTIES, 2) + number(1, 2))
    assert client.code_of_close() == codes.FRAME_TOO_LARGE


def test_an_unknown_command_closes_the_connection(client: Client) -> None:
    client.open()
    client.send(FrameWriter(999).u32(1))
    assert client.code_of_close() == codes.UNKNOWN_FRAME


def test_publishing_without_a_publisher_is_answered_for_each_message(client: Client) -> None:
    client.open()
    entries = b"".join(number(n, 8) + number(1, 4) + b"x" for n in (5, 6))
    client.send(FrameWriter(codes.PUBLISH).u8(9).u32(2).raw(entries))
    refused = client.receive()
    assert refused is not None
    assert (refused.key, refused.u8(), refused.u32()) == (codes.PUBLISH_ERROR, 9, 2)
    told = [(refused.u64(), refused.u16()) for _ in range(2)]
    assert told == [(5, codes.PUBLISHER_DOES_NOT_EXIST), (6, codes.PUBLISHER_DOES_NOT_EXIST)]


def test_ids_are_used_once_and_have_to_be_there(client: Client) -> None:
    client.open()
    assert client.ask(codes.CREATE, text("ids"), number(0, 4)).u16() == codes.OK
    declare = number(1, 1) + text("") + text("ids")
    assert client.ask(codes.DECLARE_PUBLISHER, declare).u16() == codes.OK
    assert client.ask(codes.DECLARE_PUBLISHER, declare).u16() == codes.PRECONDITION_FAILED
    assert client.ask(codes.DELETE_PUBLISHER, number(1, 1)).u16() == codes.OK
    gone = client.ask(codes.DELETE_PUBLISHER, number(1, 1)).u16()
    assert gone == codes.PUBLISHER_DOES_NOT_EXIST
    subscribe = number(1, 1) + text("ids") + number(codes.OFFSET_FIRST, 2) + number(1, 2)
    assert client.ask(codes.SUBSCRIBE, subscribe).u16() == codes.OK
    assert client.ask(codes.SUBSCRIBE, subscribe).u16() == codes.SUBSCRIPTION_ID_EXISTS
    assert client.ask(codes.UNSUBSCRIBE, number(1, 1)).u16() == codes.OK
    again = client.ask(codes.UNSUBSCRIBE, number(1, 1)).u16()
    assert again == codes.SUBSCRIPTION_ID_DOES_NOT_EXIST
    client.send(FrameWriter(codes.CREDIT).u8(1).u16(5))
    refused = client.receive()
    assert refused is not None
    assert (refused.key, refused.u16()) == (codes.CREDIT, codes.SUBSCRIPTION_ID_DOES_NOT_EXIST)
    assert client.ask(codes.DELETE, text("ids")).u16() == codes.OK


def test_a_publisher_that_has_not_published_learns_that_its_stream_is_gone(
    client: Client, port: int
) -> None:
    client.open()
    assert client.ask(codes.CREATE, text("short"), number(0, 4)).u16() == codes.OK
    declare = number(1, 1) + text("") + text("short")
    assert client.ask(codes.DECLARE_PUBLISHER, declare).u16() == codes.OK
    other = Client(port)
    other.open()
    assert other.ask(codes.DELETE, text("short")).u16() == codes.OK
    other.close()
    told = client.receive()
    assert told is not None
    assert (told.key, told.u16()) == (codes.METADATA_UPDATE, codes.STREAM_NOT_AVAILABLE)
    assert told.string() == "short"


def test_subscriptions_at_the_tail_get_every_message_once(client: Client, port: int) -> None:
    """They share chunks, also where they begin and read at different times."""
    client.open()
    assert client.ask(codes.CREATE, text("tail"), number(0, 4)).u16() == codes.OK
    declare = number(1, 1) + text("") + text("tail")
    assert client.ask(codes.DECLARE_PUBLISHER, declare).u16() == codes.OK
    count, found = 120, dict[Client, list[bytes]]()
    for first in range(0, count, 10):
        if len(found) < 4:
            reader = Client(port)
            reader.open()
            subscribe = number(1, 1) + text("tail") + number(codes.OFFSET_FIRST, 2) + number(1, 2)
            assert reader.ask(codes.SUBSCRIBE, subscribe).u16() == codes.OK
            found[reader] = []
        frame = FrameWriter(codes.PUBLISH).u8(1).u32(10)
        for each in range(first, first + 10):
            frame.u64(each).blob(b"%d" % each)
        client.send(frame)
    for reader, into in found.items():
        while len(into) < count:
            into += delivered(reader, len(into))
        assert into == [b"%d" % each for each in range(count)]
        reader.close()
    assert client.ask(codes.DELETE, text("tail")).u16() == codes.OK


def delivered(reader: Client, offset: int) -> list[bytes]:
    """The messages of the next chunk, which begins at that offset; asks for one more."""
    frame = reader.receive()
    assert frame is not None and (frame.key, frame.u8()) == (codes.DELIVER, 1)
    head = CHUNK_HEAD.unpack_from(frame.body, frame.at)
    data = frame.body[frame.at + CHUNK_HEAD.size :]
    assert (head[6], head[7], head[8]) == (offset, zlib.crc32(data), len(data))
    reader.send(FrameWriter(codes.CREDIT).u8(1).u16(1))
    frame.at += CHUNK_HEAD.size
    return [frame.blob() for _ in range(head[3])]


@pytest.mark.parametrize(
    "argument", [("max-age", "soon"), ("max-length-bytes", "-1"), ("no-such-argument", "1")]
)
def test_wrong_arguments_of_a_stream_are_refused(client: Client, argument: tuple[str, str]) -> None:
    client.open()
    told = number(1, 4) + text(argument[0]) + text(argument[1])
    assert client.ask(codes.CREATE, text("wrong"), told).u16() == codes.PRECONDITION_FAILED


def test_a_silent_client_is_cut_before_its_login_takes_for_ever() -> None:
    chosen = free_port()
    config = f'listeners.stream = "127.0.0.1:{chosen}"\nlimits.handshake_timeout_ms = 500\n'
    with Node(config=config):
        assert Client(chosen).receive() is None


def test_a_client_that_still_sends_reads_the_answer_to_its_close(client: Client) -> None:
    client.open()
    client.send(FrameWriter(codes.CLOSE).u32(3).u16(1).string("done"))
    answer = client.receive()
    assert answer is not None and (answer.key, answer.is_response) == (codes.CLOSE, True)
    assert client.receive() is None
    for _ in range(3):  # A reset would fail the second call at the latest.
        client.socket.sendall(bytes(2_000_000))


def test_frames_of_random_bytes_end_a_connection_and_no_more(port: int) -> None:
    from random import Random

    random = Random(5)
    for _ in range(SEED_FRAMES):
        client = Client(port)
        if random.random() < 0.7:
            client.open()
        key = random.randint(0, 31)
        body = random.randbytes(random.randint(0, 60))
        client.send(FrameWriter(key, random.choice((1, 2))).raw(body))
        client.send(FrameWriter(codes.CLOSE).u32(1).u16(1).string("done"))
        client.code_of_close()
        client.close()
    alive = Client(port)
    alive.open()
    alive.close()
