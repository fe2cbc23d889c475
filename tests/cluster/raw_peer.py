"""A bare peer link for what no node can be made to send. Shares no code with Warren."""

import asyncio
import hmac
import os
import struct
from dataclasses import dataclass, field
from typing import Self

from tests.cluster.peer_nodes import CLUSTER_ID, LOOPBACK, SECRET, free_port

MAGIC = b"WARRENPL"
HEAD_BYTES = 16
HELLO_BYTES = 104
PROOF_BYTES = 48
VERDICT_WRONG_PROOF = 2


def head(kind: int, code: int = 0, role: int = 0, versions: tuple[int, int] = (1, 1)) -> bytes:
    return struct.pack("<8sBBBBHH", MAGIC, kind, code, role, 0, *versions)


def frame(kind: int, lane: int, payload: bytes, flags: int = 0, length: int = -1) -> bytes:
    size = len(payload) if length < 0 else length
    return struct.pack("<IBBBB", size, kind, lane, flags, 0) + payload


@dataclass
class RawPeer:
    """Dials a node and sends what the test gives it."""

    port: int
    node_id: int = 1
    target: int = 2
    role: int = 0
    pair: int = 7
    secret: bytes = SECRET
    cluster_id: bytes = CLUSTER_ID
    versions: tuple[int, int] = (1, 1)
    nonce: bytes = field(default_factory=lambda: os.urandom(32))
    sent: bytes = b""

    async def __aenter__(self) -> Self:
        self.reader, self.writer = await asyncio.open_connection(LOOPBACK, self.port)
        return self

    async def __aexit__(self, *failure: object) -> None:
        self.writer.close()

    def send(self, data: bytes) -> None:
        self.sent += data
        self.writer.write(data)

    def hello(self) -> bytes:
        return head(1, role=self.role, versions=self.versions) + struct.pack(
            "<QQQQQ16s32s",
            self.node_id, self.target, 1000 + self.node_id, 2000 + self.node_id, self.pair,
            self.cluster_id, self.nonce,
        )  # fmt: skip

    def proof(self, answer: bytes) -> bytes:
        key = hmac.digest(self.secret, b"warren peer link: key", "sha256")
        mine = head(2, role=self.role)
        said = b"warren peer link: dialer" + self.hello() + answer + mine
        return mine + hmac.digest(key, said, "sha256")

    async def shake(self, behind: bytes = b"") -> bytes:
        """The whole handshake, with these bytes behind the proof; the verdict."""
        self.send(self.hello())
        answer = await self.read(HELLO_BYTES)
        self.send(self.proof(answer) + behind)
        return await self.read(PROOF_BYTES)

    async def read(self, size: int) -> bytes:
        async with asyncio.timeout(10):
            return await self.reader.readexactly(size)

    async def rest(self) -> bytes:
        """What comes until the other side ends the connection."""
        async with asyncio.timeout(10):
            try:
                return await self.reader.read()
            except ConnectionResetError:
                return b""


@dataclass
class Taken:
    """A connection that a node has made to a bare accepter, and what was said on it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    hello: bytes = b""
    answer: bytes = b""
    proof: bytes = b""


class RawAccepter:
    """Node 2, dialed by another; says its part of the handshake when the test says so."""

    def __init__(self) -> None:
        self.port = free_port()
        self._connections: asyncio.Queue[Taken] = asyncio.Queue()
        self._all: list[Taken] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, LOOPBACK, self.port)
        return self

    async def __aexit__(self, *failure: object) -> None:
        self._server.close()
        for each in self._all:
            each.writer.close()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._all.append(Taken(reader, writer))
        self._connections.put_nowait(self._all[-1])

    async def next(self) -> Taken:
        async with asyncio.timeout(10):
            return await self._connections.get()

    async def take(self, taken: Taken) -> None:
        """The whole handshake."""
        await self.begin(taken)
        await self.end(taken)

    async def begin(self, taken: Taken) -> None:
        """Answer the hello, and wait for the proof."""
        taken.hello = await taken.reader.readexactly(HELLO_BYTES)
        node_id, target, _incarnation, _boot, pair = struct.unpack_from("<QQQQQ", taken.hello, 16)
        taken.answer = head(1, role=taken.hello[10]) + struct.pack(
            "<QQQQQ16s32s", target, node_id, 1002, 2002, pair, CLUSTER_ID, os.urandom(32)
        )
        taken.writer.write(taken.answer)
        taken.proof = await taken.reader.readexactly(PROOF_BYTES)

    async def end(self, taken: Taken) -> None:
        """Prove itself."""
        key = hmac.digest(SECRET, b"warren peer link: key", "sha256")
        mine = head(2, role=taken.hello[10])
        said = b"warren peer link: accepter" + taken.hello + taken.answer + taken.proof + mine
        taken.writer.write(mine + hmac.digest(key, said, "sha256"))
