"""Clients that take too much or too long: memory stays bounded, the others are served."""

import contextlib
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.conformance import raw
from tests.conformance.broker import PATIENCE_SECONDS, drain, numbered, publish_all
from tests.conformance.raw import RawClient
from tests.waiting import eventually, within
from warren.testing import Node

MIB: Final = 1024 * 1024
PROMPT_SECONDS: Final = 2.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture
def node() -> Iterator[Node]:
    """A node that waits only for so long for a login as a busy machine takes for one."""
    with Node(name="pressure", settings={"limits.handshake_timeout_ms": "1500"}) as started:
        yield started


def client(node: Node) -> RawClient:
    return RawClient(node.host, node.port).begin_channel()


def assert_prompt(node: Node) -> None:
    """A well-behaved client is served within the time that a person would call prompt."""
    import pika

    def take() -> float:
        begun = time.monotonic()
        connection = pika.BlockingConnection(pika.URLParameters(node.url))
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        publish_all(channel, queue, numbered(10), persistent=True)
        assert drain(channel, queue) == numbered(10)
        connection.close()
        return time.monotonic() - begun

    within(PROMPT_SECONDS, take)


def open_files(node: Node) -> int:
    import psutil

    return int(psutil.Process(node.pid).num_fds())


def test_ten_thousand_connections_opened_and_dropped_leave_nothing(node: Node) -> None:
    assert_prompt(node)
    files, before = open_files(node), node.rss_bytes()
    reset = struct.pack("ii", 1, 0)
    for number in range(10_000):
        with socket.create_connection((node.host, node.port), PATIENCE_SECONDS) as dropped:
            if number % 3 == 1:
                dropped.sendall(raw.HEADER[: number % 9])
            elif number % 3 == 2:
                dropped.sendall(raw.HEADER + raw.start_ok() + raw.tune_ok())
            if number % 2:
                dropped.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
    eventually(lambda: open_files(node) <= files + 5, lambda: f"{open_files(node)} open files")
    assert node.rss_bytes() - before < 48 * MIB
    assert_prompt(node)


def test_a_login_that_takes_too_long_is_ended(node: Node) -> None:
    with (
        RawClient(node.host, node.port) as mute,
        RawClient(node.host, node.port) as half,
        RawClient(node.host, node.port) as dripping,
    ):
        half.send(raw.HEADER).expect(raw.START)
        begun = time.monotonic()
        dripping.socket.settimeout(0.05)
        with contextlib.suppress(raw.PeerClosed, BrokenPipeError, ConnectionResetError):
            for octet in raw.HEADER + raw.start_ok() * 20:
                dripping.send(bytes([octet]))
                with contextlib.suppress(TimeoutError):
                    dripping.read_exactly(100_000)
        assert time.monotonic() - begun < 20  # Two minutes, if the broker did not end it.
        mute.expect_end()
        half.expect_end()
    assert_prompt(node)


def test_a_thousand_half_open_logins_do_not_keep_others_out(node: Node) -> None:
    before = node.rss_bytes()
    waiting = [socket.create_connection((node.host, node.port)) for _ in range(1_000)]
    for half_open in waiting:
        half_open.sendall(raw.HEADER)
    assert_prompt(node)
    assert node.rss_bytes() - before < 64 * MIB
    for half_open in waiting:
        half_open.close()


def send_until_stuck(stuck: RawClient, piece: bytes, limit: int) -> int:
    """Send the same bytes until the broker stops reading; how many went out."""
    stuck.socket.settimeout(1.5)
    sent = 0
    with contextlib.suppress(TimeoutError, ConnectionError):
        while sent < limit:
            sent += stuck.socket.send(piece)
    return sent


def test_clients_that_ask_and_never_read_are_no_longer_read(node: Node) -> None:
    assert_prompt(node)
    before = node.rss_bytes()
    with contextlib.ExitStack() as open_clients:
        for number in range(4):
            stuck = open_clients.enter_context(client(node))
            queue = f"asked-{number}"
            stuck.send(raw.declare(1, queue, 4)).expect(raw.QUEUE_DECLARE_OK)
            sent = send_until_stuck(stuck, raw.declare(1, queue, 1) * 2_000, 200 * MIB)
            assert sent < 100 * MIB, "the broker read on for ever"
            assert_prompt(node)
        assert node.rss_bytes() - before < 160 * MIB
    assert_prompt(node)


def test_a_consumer_that_never_reads_holds_up_nobody(node: Node) -> None:
    assert_prompt(node)
    before = node.rss_bytes()
    with client(node) as stuck, client(node) as publishing:
        stuck.send(raw.declare(1, "unread")).expect(raw.QUEUE_DECLARE_OK)
        stuck.send(raw.consume(1, "unread", "tag", 2)).expect(raw.BASIC_CONSUME_OK)
        message = (
            raw.publish_method(1, "", "unread")
            + raw.content_header(1, 100_000)
            + raw.body(1, bytes(100_000))
        )
        for _ in range(600):
            publishing.send(message)
        publishing.send(raw.declare(1, "unread", 1)).expect(raw.QUEUE_DECLARE_OK)
        assert node.rss_bytes() - before < 130 * MIB
        assert_prompt(node)


def test_a_publisher_faster_than_the_disk_is_slowed_and_memory_stays_bounded(node: Node) -> None:
    assert_prompt(node)
    before, highest = node.rss_bytes(), 0
    body = bytes(120_000)
    message = (
        raw.publish_method(1, "", "flood")
        + raw.content_header(1, len(body), struct.pack(">HB", 0x1000, 2))
        + raw.body(1, body)
    )
    deadline = time.monotonic() + 8
    with client(node) as flooding:
        flooding.send(raw.declare(1, "flood", 2)).expect(raw.QUEUE_DECLARE_OK)
        flooding.socket.settimeout(PATIENCE_SECONDS)
        for _ in range(8_000):
            flooding.send(message)
            highest = max(highest, node.rss_bytes())
            if time.monotonic() > deadline:
                break
        assert_prompt(node)
    assert highest - before < 450 * MIB


def test_announced_lengths_take_no_memory_before_the_bytes_are_there(node: Node) -> None:
    assert_prompt(node)
    before = node.rss_bytes()
    waiting = [client(node) for _ in range(100)]
    for announcing in waiting:
        announcing.send(
            raw.publish_method(1, "", "q"),
            raw.content_header(1, 16 * MIB),
            struct.pack(">BHI", raw.BODY, 1, 131_064),
        )
    assert_prompt(node)
    assert node.rss_bytes() - before < 40 * MIB
    for announcing in waiting:
        announcing.socket.close()


def test_two_thousand_channels_and_consumers_of_one_connection_are_let_go(node: Node) -> None:
    assert_prompt(node)
    before = node.rss_bytes()
    for _ in range(3):
        with RawClient(node.host, node.port) as wide:
            wide.begin()
            wide.send(*(raw.channel_open(number) for number in range(1, 2_001)))
            for _ in range(2_000):
                wide.expect(raw.CHANNEL_OPEN_OK)
            wide.send(raw.declare(1, "wide")).expect(raw.QUEUE_DECLARE_OK)
            wide.send(*(raw.consume(number, "wide", "t") for number in range(1, 2_001)))
            for _ in range(2_000):
                wide.expect(raw.BASIC_CONSUME_OK)
    assert_prompt(node)
    eventually(lambda: consumers(node, "wide") == 0, lambda: consumers(node, "wide"))
    assert node.rss_bytes() - before < 64 * MIB


def consumers(node: Node, queue: str) -> int:
    """How many consumers a passive declare counts."""
    with client(node) as asking:
        answer: Any = asking.send(raw.declare(1, queue, 1)).expect(raw.QUEUE_DECLARE_OK)
        return int.from_bytes(answer.arguments[-4:])
