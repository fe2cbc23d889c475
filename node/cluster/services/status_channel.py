"""Questions of one node to another, and their answers: what only that node knows.

    part = StatusChannel(peers, loop)
    peers.attach(STATUS, part)
    part.serve("node", answer)                        # who answers that question here
    rows = await part.ask(member, "connections")      # a list of parts; NoAnswer if there is none
    found = await part.ask_others("node")             # by member; None: it did not answer in time

A question has a name and an argument (anything that MessagePack knows). The answer is a list of
parts, which come and are decoded one by one, so that a long list holds up neither loop; who answers
is an async generator that yields them. Every question has a time limit. A node that cannot be
reached, or is lost meanwhile, is no answer at once; so is a node that does not know the question
(of another version), or whose answer failed: its reason is in `NoAnswer`.

Frames: version (u8, 1), what (u8), number of the question (u64, little-endian), then
1 question: MessagePack [name, argument]. 2 part of an answer: MessagePack. 3 end of the answer.
4 no answer: MessagePack text. Limits: ASKED_MAX questions of one peer at a time,
ANSWER_BYTES_MAX of one answer; more is no answer. A frame that makes no sense ends the link.
"""

import asyncio
import logging
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from node.cluster.cluster_interfaces import OTHER_LANE, STATUS, Peers
from warren.wire.peer.codes import PeerFault

log = logging.getLogger("warren.cluster")

TIMEOUT_S: Final = 2.0
ASKED_MAX: Final = 64
ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
VERSION: Final = 1
QUESTION: Final = 1
PART: Final = 2
END: Final = 3
FAILED: Final = 4
_HEAD: Final = struct.Struct("<BBQ")

Answer = Callable[[int, Any], AsyncIterator[object]]  # who asks, about what


class NoAnswer(Exception):
    """The node did not answer; the text says why."""


class Unanswerable(Exception):
    """Raised by who answers: the text is sent to who asked."""


def plain(value: object) -> object:
    """Values of field tables that MessagePack does not know: numbers that keep their kind."""
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    return str(value)


_ENCODE: Final = msgspec.msgpack.Encoder(enc_hook=plain).encode
_DECODE: Final = msgspec.msgpack.Decoder().decode
_DECODE_QUESTION: Final = msgspec.msgpack.Decoder(tuple[str, Any]).decode


class _Asked:
    """A question of ours that is open."""

    __slots__ = ("done", "member", "parts", "size")

    def __init__(self, member: int, done: "asyncio.Future[list[Any]]") -> None:
        self.member = member
        self.done = done
        self.parts: list[Any] = []
        self.size = 0  # bytes so far

    def fail(self, reason: str) -> None:
        if not self.done.done():
            self.done.set_exception(NoAnswer(reason))


class StatusChannel:
    """Invariant: each question in `_asked` has a future that is waited for, and each task in
    `_answering` answers one question of that peer."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._serving: dict[str, Answer] = {}
        self._asked: dict[int, _Asked] = {}
        self._answering: dict[tuple[int, int], asyncio.Task[None]] = {}
        self._number = 0

    @property
    def member(self) -> int:
        """This node."""
        return self._peers.member

    def serve(self, question: str, answer: Answer) -> None:
        """That is who answers it here; one for each question."""
        assert question not in self._serving
        self._serving[question] = answer

    # Asking

    async def ask(
        self, member: int, question: str, about: object = None, timeout_s: float = TIMEOUT_S
    ) -> list[Any]:
        """The parts of the answer; NoAnswer where there is none."""
        if member == self._peers.member:
            return await self._ask_here(question, about)
        if not (self._peers.is_connected(member) and self._peers.is_trusted(member)):
            raise NoAnswer("the node is not connected")
        self._number += 1
        number = self._number
        asked = _Asked(member, asyncio.get_running_loop().create_future())
        self._asked[number] = asked
        self._send(member, QUESTION, number, [_ENCODE((question, about))])
        try:
            async with asyncio.timeout(timeout_s):
                return await asked.done
        except TimeoutError as error:
            raise NoAnswer(f"no answer within {timeout_s:g} s") from error
        finally:
            del self._asked[number]

    async def _ask_here(self, question: str, about: object) -> list[Any]:
        answer = self._serving.get(question)
        if answer is None:
            raise NoAnswer(f"unknown question: {question}")
        try:
            return [part async for part in answer(self._peers.member, about)]
        except Unanswerable as error:
            raise NoAnswer(str(error)) from error

    async def ask_others(
        self, question: str, about: object = None, timeout_s: float = TIMEOUT_S
    ) -> Mapping[int, list[Any] | None]:
        """All other members at the same time; None for those that do not answer."""
        others = [each for each in self._peers.members() if each != self._peers.member]
        answers = await asyncio.gather(
            *(self._or_none(self.ask(each, question, about, timeout_s)) for each in others)
        )
        return dict(zip(others, answers, strict=True))

    async def _or_none(self, asking: Awaitable[list[Any]]) -> list[Any] | None:
        try:
            return await asking
        except NoAnswer:
            return None

    # What the cluster tells

    def peer_connected(self, member: int) -> None:
        """Nothing is open with it."""

    def peer_lost(self, member: int) -> None:
        for asked in self._asked.values():
            if asked.member == member:
                asked.fail("the connection to the node is lost")
        for who, task in list(self._answering.items()):
            if who[0] == member:
                task.cancel()

    def peer_removed(self, member: int) -> None:
        self.peer_lost(member)

    def peer_received(self, member: int, payload: memoryview) -> None:
        if len(payload) < _HEAD.size:
            raise PeerFault("a question or answer ends too early")
        version, what, number = _HEAD.unpack_from(payload)
        rest = payload[_HEAD.size :]
        if version != VERSION or what not in (QUESTION, PART, END, FAILED):
            raise PeerFault(f"no question and no answer: version {version}, {what}")
        if what == QUESTION:
            self._begin(member, number, rest)
        else:
            self._answered(member, what, number, rest)

    def _answered(self, member: int, what: int, number: int, rest: memoryview) -> None:
        asked = self._asked.get(number)
        if asked is None or asked.member != member or asked.done.done():
            return  # It came too late.
        if what == END:
            asked.done.set_result(asked.parts)
            return
        asked.size += len(rest)
        if asked.size > ANSWER_BYTES_MAX:
            asked.fail("the answer is too long")
            return
        value = decoded(_DECODE, rest)
        if what == FAILED:
            asked.fail(str(value))
        else:
            asked.parts.append(value)

    # Answering

    def _begin(self, member: int, number: int, rest: memoryview) -> None:
        question, about = decoded(_DECODE_QUESTION, rest)
        answer = self._serving.get(question)
        if answer is None:
            self._send(member, FAILED, number, [_ENCODE(f"unknown question: {question}")])
            return
        if sum(who[0] == member for who in self._answering) >= ASKED_MAX:
            self._send(member, FAILED, number, [_ENCODE("too many questions at a time")])
            return
        task = asyncio.get_running_loop().create_task(self._answer(member, number, answer, about))
        self._answering[member, number] = task
        task.add_done_callback(lambda done: self._answering.pop((member, number), None))

    async def _answer(self, member: int, number: int, answer: Answer, about: object) -> None:
        """The outermost loop of a task: a fault of ours is sent to who asked, and logged."""
        try:
            async for part in answer(member, about):
                self._send(member, PART, number, [_ENCODE(part)])
                await asyncio.sleep(0)
            self._send(member, END, number, [])
        except Unanswerable as error:
            self._send(member, FAILED, number, [_ENCODE(str(error))])
        except Exception:
            log.exception("a question of node %d could not be answered", member)
            self._send(member, FAILED, number, [_ENCODE("the node failed to answer")])

    def _send(self, member: int, what: int, number: int, parts: list[bytes]) -> None:
        self._peers.send(member, STATUS, OTHER_LANE, [_HEAD.pack(VERSION, what, number), *parts])


def decoded(decode: Callable[[memoryview], Any], data: memoryview) -> Any:
    """PeerFault for bytes that are none of these."""
    try:
        return decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PeerFault(f"no question and no answer: {error}") from error
