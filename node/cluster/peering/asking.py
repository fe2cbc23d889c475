"""Questions between nodes that have no link: one connection, one question, one answer.

`Questioner` dials an address without knowing who is there; `Reception` takes questions of those who
have proven that they know the cluster's secret, and hands them to `answer`, which may answer later.
Bounded in number, bytes (one frame) and time; a connection ends behind its answer. What goes wrong
on the asking side is an `AskFailed` with a text for the operator.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from node.cluster.peering.dialer import open_socket
from node.cluster.peering.link_settings import LinkSettings
from node.cluster.peering.link_socket import LinkSocket
from node.tls.acceptor import Contexts
from warren.wire.peer.codes import ACCEPTED, ASK, ASK_ANSWER, CONTROL_LANE
from warren.wire.peer.frames import FRAME_BYTES_MAX, Frame
from warren.wire.peer.handshake import Claim

ANSWER_S: Final = 20.0  # the time an answer may take: a change of the definitions, at the longest
ASKERS_MAX: Final = 64  # questions that are being answered at once

Reply = Callable[[bytes], None]
Answer = Callable[[memoryview, Reply], None]  # the question, and how to answer it, once


class AskFailed(Exception):
    """There is no answer, and why not."""


class Questioner:
    """One question. Keeps `SocketOwner` for the socket that it travels on."""

    def __init__(self, question: bytes) -> None:
        assert len(question) <= FRAME_BYTES_MAX
        self._question = question
        self._answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._reason = ""

    async def ask(
        self,
        socket: LinkSocket,
        address: tuple[str, int],
        settings: LinkSettings,
        tls: Contexts | None,
    ) -> bytes:
        """The answer. AskFailed: there is none."""
        try:
            reason = await open_socket(socket, settings.way_to(address), settings, tls)
            if reason:
                raise AskFailed(reason)
            async with asyncio.timeout(ANSWER_S):
                return await self._answer
        except TimeoutError as error:
            raise AskFailed(f"no answer within {ANSWER_S:g} s") from error
        finally:
            socket.abort("the question is over")

    def arrived(self, socket: LinkSocket) -> None:
        """Nothing is to be done before both sides are proven."""

    def judge(self, socket: LinkSocket, claim: Claim) -> int:
        return ACCEPTED

    def opened(self, socket: LinkSocket) -> None:
        socket.send(ASK, CONTROL_LANE, [self._question])

    def received(self, socket: LinkSocket, frame: Frame) -> None:
        if frame.kind == ASK_ANSWER and not self._answer.done():
            self._answer.set_result(bytes(frame.payload))
        else:
            socket.abort("a question where an answer is expected")

    def answered(self, socket: LinkSocket) -> None:
        """Beats are not sent on such a connection."""

    def drained(self, socket: LinkSocket) -> None:
        """One question is no load."""

    def ends_turn(self, socket: LinkSocket) -> bool:
        return False  # The question goes at once.

    def ended(self, socket: LinkSocket, reason: str) -> None:
        if not self._answer.done():
            self._answer.set_exception(AskFailed(reason))
            self._answer.exception()  # The caller may have the fault from `opening` already.


class Reception:
    """The questions that have come in and are being answered."""

    def __init__(self) -> None:
        self.answer: Answer | None = None  # None: no questions are taken
        self._askers: dict[LinkSocket, asyncio.TimerHandle] = {}
        self._asked: set[LinkSocket] = set()  # those that have had their question

    def takes(self) -> bool:
        """Whether one more may come in."""
        return self.answer is not None and len(self._askers) < ASKERS_MAX

    def __contains__(self, socket: LinkSocket) -> bool:
        return socket in self._askers

    def opened(self, socket: LinkSocket) -> None:
        """A peer has proven that it may ask."""
        loop = asyncio.get_running_loop()
        late = partial(socket.abort, f"its question took more than {ANSWER_S:g} s")
        self._askers[socket] = loop.call_later(ANSWER_S, late)

    def received(self, socket: LinkSocket, frame: Frame) -> None:
        answer = self.answer
        if frame.kind != ASK or socket in self._asked or answer is None:
            socket.abort("not a question, or the second one")
            return
        self._asked.add(socket)
        answer(frame.payload, partial(self._reply, socket))

    def _reply(self, socket: LinkSocket, content: bytes) -> None:
        if socket in self._askers and not socket.is_gone:
            socket.send(ASK_ANSWER, CONTROL_LANE, [content])

    def ended(self, socket: LinkSocket) -> None:
        self._askers.pop(socket).cancel()
        self._asked.discard(socket)

    def close(self) -> None:
        """End them all."""
        for socket in list(self._askers):
            socket.abort("this node stops")
