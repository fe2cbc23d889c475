"""Connections that are no peers, or wrong ones: refused, logged once, never parsed."""

import asyncio
import logging
import struct
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from msgspec import structs

from tests.cluster.peer_nodes import (
    LOOPBACK,
    QUICK,
    SECRET,
    Member,
    free_port,
    identity,
    run,
)
from tests.cluster.raw_peer import (
    HEAD_BYTES,
    HELLO_BYTES,
    PROOF_BYTES,
    VERDICT_WRONG_PROOF,
    RawAccepter,
    RawPeer,
    frame,
    head,
)
from warren.wire.peer.codes import (
    CLUSTER,
    DIRECTION,
    FORGOTTEN,
    PAIR,
    TARGET,
    UNKNOWN,
    VERSION,
    refusal_text,
)

BULK = 1
RAFT = 3


def told(caplog: pytest.LogCaptureFixture, words: str) -> list[str]:
    return [each for each in caplog.messages if words in each]


@pytest.fixture(autouse=True)
def logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="warren.peers")


@pytest.mark.parametrize(
    "greeting", [b"GET / HTTP/1.1\r\n\r\n", b"AMQP\x00\x00\x09\x01", b"\x16\x03\x01\x02\x00", b"\0"]
)
def test_garbage_ends_the_connection_without_an_answer(
    greeting: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with Member(identity(2)) as two:
            for _ in range(3):
                async with RawPeer(two.port) as stranger:
                    stranger.send(greeting)
                    assert await stranger.rest() == b""
            assert two.links.refusals.total == 3
            assert len(told(caplog, "127.0.0.1: what came first is not the peer link")) == 1
            assert two.user.events == []

    run(story())


def test_a_wrong_secret_is_refused_and_what_follows_it_is_not_parsed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        async with Member(identity(2)) as two:
            two.links.add_peer(1, LOOPBACK, free_port())
            async with RawPeer(two.port, secret=b"a wrong secret of 16") as stranger:
                # A frame of 4 GB of an unknown kind: to look at it would be a fault of its own.
                verdict = await stranger.shake(behind=frame(99, 9, b"", 9, 0xFFFFFFFF))
                assert verdict[9] == VERDICT_WRONG_PROOF
                assert verdict[16:] == bytes(32)
                assert await stranger.rest() == b""
            assert len(told(caplog, "the proof is wrong")) == 1
            assert told(caplog, "frame") == []
            assert two.links.refusals.total == 1

    run(story())


def test_a_dialer_with_another_secret_is_told_why_it_is_refused() -> None:
    async def story() -> None:
        other = identity(1, secret=b"some other secret")
        async with Member(other) as one, Member(identity(2)) as two:
            one.knows(two)
            two.knows(one)
            await one.user.until_unreachable(2, "do not have the same cluster secret")
            assert two.user.events == []

    run(story())


@pytest.mark.parametrize(
    ("peer", "code"),
    [
        (RawPeer(0, node_id=5), UNKNOWN),
        (RawPeer(0, node_id=3), DIRECTION),
        (RawPeer(0, node_id=4), FORGOTTEN),
        (RawPeer(0, target=9), TARGET),
        (RawPeer(0, cluster_id=b"another cluster!"), CLUSTER),
        (RawPeer(0, role=BULK), PAIR),
    ],
)
def test_a_member_of_the_wrong_kind_is_refused_with_a_proven_reason(
    peer: RawPeer, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with Member(identity(2)) as two:
            for known in (1, 3, 4):
                two.links.add_peer(known, LOOPBACK, free_port())
            two.links.remove_peer(4)
            async with replace(peer, port=two.port) as stranger:
                verdict = await stranger.shake()
                assert verdict[9] == code
                assert verdict[16:] != bytes(32)
                assert await stranger.rest() == b""
            assert len(told(caplog, refusal_text(code))) == 1
            assert two.user.count("connected") == 0

    run(story())


def test_another_version_is_refused_before_the_proof(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with Member(identity(2)) as two, RawPeer(two.port, versions=(3, 4)) as stranger:
            stranger.send(stranger.hello())
            refusal = await stranger.read(PROOF_BYTES)
            assert refusal == head(2, VERSION, versions=(1, 2)) + bytes(32)
            assert await stranger.rest() == b""
            assert len(told(caplog, "it speaks 3 to 4")) == 1

    run(story())


def test_strangers_that_are_silent_or_slow_are_sent_away_in_time() -> None:
    async def story() -> None:
        settings = structs.replace(QUICK, handshake_timeout_ms=300)
        async with Member(identity(2), settings) as two:
            loop = asyncio.get_running_loop()
            began = loop.time()
            async with RawPeer(two.port) as silent, RawPeer(two.port) as slow:
                hello = slow.hello()

                async def trickle() -> None:
                    for octet in hello:
                        slow.send(bytes([octet]))
                        await asyncio.sleep(0.05)  # That is how slow it is: five seconds for all.

                dripping = loop.create_task(trickle())
                assert await silent.rest() == b""
                assert await slow.rest() == b""
                dripping.cancel()
            assert loop.time() - began < 3.0
            assert two.links.refusals.total == 2

    run(story())


def test_strangers_of_one_host_are_limited_in_number(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        settings = structs.replace(QUICK, handshake_timeout_ms=10_000, strangers_per_host_max=4)
        async with Member(identity(1)) as one, Member(identity(2), settings) as two:
            silent = [RawPeer(two.port) for _ in range(4)]
            for each in silent:
                await each.__aenter__()
            async with RawPeer(two.port) as fifth:
                assert await fifth.rest() == b""
            words = "4 connections of its host wait for their handshake already"
            assert len(told(caplog, words)) == 1
            one.knows(two)
            two.knows(one)
            await one.user.until_unreachable(2, "")
            for each in silent:
                await each.__aexit__()
            await one.user.until(lambda: one.links.is_connected(2))  # There is room again.

    run(story())


class Relay:
    """Passes all bytes between a dialer and a node, and keeps what the dialer said."""

    def __init__(self, port: int) -> None:
        self.port = free_port()
        self.said: list[bytes] = []
        self._target = port
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._relay, LOOPBACK, self.port)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind, beyond = await asyncio.open_connection(LOOPBACK, self._target)
        self._writers += [beyond, writer]
        self.said.append(b"")
        place = len(self.said) - 1

        def keep(data: bytes) -> None:
            self.said[place] += data

        for source, sink, note in ((reader, beyond, keep), (behind, writer, None)):
            task = asyncio.get_running_loop().create_task(self._pass(source, sink, note))
            self._tasks.add(task)

    async def _pass(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        note: Callable[[bytes], None] | None,
    ) -> None:
        while data := await reader.read(65536):
            if note is not None:
                note(data)
            writer.write(data)

    async def close(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.close()


def test_a_recorded_handshake_that_is_played_again_is_refused() -> None:
    async def story() -> None:
        async with Member(identity(1)) as one, Member(identity(2)) as two:
            relay = Relay(two.port)
            await relay.open()
            two.knows(one)
            one.links.add_peer(2, LOOPBACK, relay.port)
            await one.user.until(lambda: one.links.is_connected(2))
            recorded = relay.said[0]
            assert len(recorded) >= HELLO_BYTES + PROOF_BYTES
            async with RawPeer(two.port) as replay:
                replay.send(recorded[:HELLO_BYTES])
                await replay.read(HELLO_BYTES)
                replay.send(recorded[HELLO_BYTES:])
                assert (await replay.read(PROOF_BYTES))[9] == VERDICT_WRONG_PROOF
            async with RawPeer(two.port) as replay:
                replay.send(recorded)  # all at once, without waiting for a nonce
                await replay.read(HELLO_BYTES)
                assert (await replay.read(PROOF_BYTES))[9] == VERDICT_WRONG_PROOF
            assert two.links.is_connected(1)
            assert two.user.count("lost") == 0
            await relay.close()

    run(story())


async def answering(
    answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> tuple[asyncio.Server, int]:
    port = free_port()
    return await asyncio.start_server(answer, LOOPBACK, port), port


def test_what_a_node_says_sent_back_to_it_is_refused() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hello = await reader.readexactly(HELLO_BYTES)
        versions = slice(HEAD_BYTES - 4, HEAD_BYTES)  # An answer has chosen one of them.
        writer.write(hello[: versions.start] + struct.pack("<HH", 1, 1) + hello[versions.stop :])
        while data := await reader.read(4096):
            writer.write(data)
        writer.close()

    async def story() -> None:
        server, port = await answering(echo)
        async with Member(identity(1)) as one:
            one.links.add_peer(2, LOOPBACK, port)
            await one.user.until_unreachable(2, "the proof is wrong")
            assert one.user.count("connected") == 0
        server.close()

    run(story())


def test_a_proof_of_another_connection_of_the_same_node_is_of_no_use() -> None:
    # The stranger answers node 1, which dials it, with what node 1 says on a connection that the
    # stranger has opened to it at the same time.
    async def story() -> None:
        async with Member(identity(1)) as one:

            async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                hello = await reader.readexactly(HELLO_BYTES)
                async with RawPeer(one.port) as other:
                    other.send(hello)
                    writer.write(await other.read(HELLO_BYTES))
                    other.send(await reader.readexactly(PROOF_BYTES))
                    writer.write(await other.read(PROOF_BYTES))
                    await other.rest()
                writer.close()

            server, port = await answering(answer)
            one.links.add_peer(2, LOOPBACK, port)
            await one.user.until(lambda: one.user.count("unreachable") > 0)
            assert one.user.count("connected") == 0
            server.close()

    run(story())


def test_what_comes_before_the_second_proof_waits_until_the_link_is_up() -> None:
    # The accepter has both connections first, and may send on one before its proof on the other.
    async def story() -> None:
        async with Member(identity(1)) as one, RawAccepter() as two:
            one.links.add_peer(2, LOOPBACK, two.port)
            await two.take(control := await two.next())
            bulk = await two.next()
            await two.begin(bulk)
            control.writer.write(frame(RAFT, 0, b"early"))
            await asyncio.sleep(0.05)  # Long enough to be read, if it were read.
            assert one.user.events == []
            await two.end(bulk)
            await one.user.until_batches(1)
            assert one.user.events == [("connected", 2, 1002)]
            assert one.user.batches == [(2, 0, b"early")]

    run(story())


async def linked(two: Member) -> tuple[RawPeer, RawPeer]:
    """A bare peer with both connections to this node."""
    two.links.add_peer(1, LOOPBACK, free_port())
    control = RawPeer(two.port)
    await control.__aenter__()
    assert (await control.shake())[9] == 0
    bulk = RawPeer(two.port, role=BULK)
    await bulk.__aenter__()
    assert (await bulk.shake())[9] == 0
    await two.user.until(lambda: two.links.is_connected(1))
    return control, bulk


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (frame(RAFT, BULK, b"", length=262145), "a frame of 262145 bytes"),
        (frame(RAFT, 0, b"x"), "lane 0 on the wrong connection"),
        (frame(44, BULK, b"x"), "a frame of unknown kind 44"),
        (b"\xff" * 8, "a frame of 4294967295 bytes"),
    ],
)
def test_a_proven_peer_that_sends_wrong_frames_loses_its_link(wrong: bytes, reason: str) -> None:
    async def story() -> None:
        async with Member(identity(2)) as two:
            control, bulk = await linked(two)
            bulk.send(frame(RAFT, BULK, b"good") + wrong + frame(RAFT, BULK, b"never"))
            await two.user.until(lambda: two.user.count("lost") == 1)
            assert reason in two.user.reasons()[0]
            assert two.user.batches == [(1, BULK, b"good")]
            assert len(await control.rest()) % 16 == 0  # nothing but beats came before the end
            await bulk.rest()
            await control.__aexit__()
            await bulk.__aexit__()

    run(story())


def test_a_message_before_both_connections_stand_is_refused() -> None:
    async def story() -> None:
        async with Member(identity(2)) as two:
            two.links.add_peer(1, LOOPBACK, free_port())
            async with RawPeer(two.port) as early:
                await early.shake(behind=frame(RAFT, 0, b"too early"))
                assert await early.rest() == b""
            assert two.user.batches == []
            assert two.user.events == []

    run(story())


def test_a_peer_that_falls_silent_is_given_up() -> None:
    async def story() -> None:
        settings = structs.replace(QUICK, silence_ms=200)
        async with Member(identity(2), settings) as two:
            control, bulk = await linked(two)
            await two.user.until(lambda: two.user.count("lost") == 1, seconds=5)
            assert two.user.reasons() == ["silent for 200 ms"]
            await control.__aexit__()
            await bulk.__aexit__()

    run(story())


def test_a_control_connection_without_its_bulk_connection_does_not_stay() -> None:
    async def story() -> None:
        settings = structs.replace(QUICK, connect_timeout_ms=50, handshake_timeout_ms=100)
        async with Member(identity(2), settings) as two:
            two.links.add_peer(1, LOOPBACK, free_port())
            async with RawPeer(two.port) as control:
                assert (await control.shake())[9] == 0
                assert await control.rest() == b""
            assert two.user.events == []

    run(story())


def test_the_secret_and_its_key_are_never_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        other = identity(1, secret=b"some other secret")
        async with Member(other) as one, Member(identity(2)) as two:
            one.knows(two)
            two.knows(one)
            await one.user.until_unreachable(2, "secret")
        text = caplog.text + repr(other) + repr(vars(one))
        assert SECRET.decode() not in text
        assert "some other secret" not in text
        assert other.key.hex() not in text
        assert repr(other.key) not in text

    run(story())
