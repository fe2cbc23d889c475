"""One connection to another node: what a turn sends is one write; beats and much go at once."""

import asyncio
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from node.cluster.peering.link_socket import AT_ONCE_BYTES, LinkSocket
from tests.unit.wire.peer.two_ends import feed, open_pair
from warren.wire.peer.codes import ACCEPTED, BULK_ROLE, RAFT
from warren.wire.peer.frames import Frame
from warren.wire.peer.handshake import Claim

LANE = 1  # of the bulk connection


class Plain:
    """The socket below the transport."""

    def setsockopt(self, level: int, option: int, value: int) -> None:
        assert level == socket.IPPROTO_TCP


class Transport(asyncio.Transport):
    """Keeps what is written, a piece for each write."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "socket": Plain()})
        self.written: list[bytes] = []

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high is not None and low is not None and high > low

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def writelines(self, parts: Iterable[bytes | bytearray | memoryview]) -> None:
        self.written.append(b"".join(parts))

    def abort(self) -> None:
        """Nothing is read or written any more."""

    def take(self) -> list[bytes]:
        written, self.written = self.written, []
        return written


class Owner:
    """Keeps `SocketOwner`; a turn is under way while `in_turn`."""

    def __init__(self) -> None:
        self.in_turn = False
        self.ending: list[LinkSocket] = []

    def ends_turn(self, socket: LinkSocket) -> bool:
        if self.in_turn:
            self.ending.append(socket)
        return self.in_turn

    def end_turn(self) -> None:
        self.in_turn = False
        ending, self.ending = self.ending, []
        for each in ending:
            each.end_turn()

    def judge(self, socket: LinkSocket, claim: Claim) -> int:
        return ACCEPTED

    def arrived(self, socket: LinkSocket) -> None: ...
    def opened(self, socket: LinkSocket) -> None: ...
    def received(self, socket: LinkSocket, frame: Frame) -> None: ...
    def answered(self, socket: LinkSocket) -> None: ...
    def drained(self, socket: LinkSocket) -> None: ...
    def ended(self, socket: LinkSocket, reason: str) -> None: ...


class Ends:
    """A link socket, and the core of the other node."""

    def __init__(self) -> None:
        core, self.other = open_pair(BULK_ROLE)
        self.owner = Owner()
        self.transport = Transport()
        self.socket = LinkSocket(self.owner, core, BULK_ROLE, 2, 60_000)
        self.socket.connection_made(self.transport)
        self.transport.take()

    def arrived(self) -> list[bytes]:
        """What the other node has received, with nothing but whole writes."""
        events = [event for data in self.transport.take() for event in feed(self.other, data)]
        return [bytes(event.payload) for event in events if isinstance(event, Frame)]


@contextmanager
def ends() -> Iterator[Ends]:
    """On a loop that runs while the test does."""
    with asyncio.Runner() as runner:

        async def make() -> Ends:
            return Ends()

        made = runner.run(make())
        yield made
        made.socket.abort("the test is over")


def test_what_a_turn_sends_is_one_write_at_its_end() -> None:
    with ends() as made:
        made.owner.in_turn = True
        for content in (b"first", b"second", b"third"):
            assert made.socket.send(RAFT, LANE, [content])
        assert made.transport.written == []
        made.owner.end_turn()
        assert len(made.transport.written) == 1
        assert made.arrived() == [b"first", b"second", b"third"]
        made.owner.in_turn = True
        assert made.socket.send(RAFT, LANE, [b"fourth"])
        made.owner.end_turn()
        assert made.arrived() == [b"fourth"]


def test_what_is_sent_outside_of_a_turn_goes_at_once() -> None:
    with ends() as made:
        assert made.socket.send(RAFT, LANE, [b"now"])
        assert made.arrived() == [b"now"]


def test_much_does_not_wait_for_the_end_of_the_turn() -> None:
    with ends() as made:
        made.owner.in_turn = True
        large = bytes(AT_ONCE_BYTES)
        assert made.socket.send(RAFT, LANE, [b"small"])
        assert made.socket.send(RAFT, LANE, [large])
        assert made.arrived() == [b"small", large]
        assert made.socket.send(RAFT, LANE, [b"behind it"])
        assert made.transport.written == []
        assert len(made.owner.ending) == 1
        made.owner.end_turn()
        assert made.arrived() == [b"behind it"]


def test_the_first_beat_is_answered_at_once_and_the_next_ones_with_a_beat() -> None:
    with ends() as made:
        made.owner.in_turn = True
        for _ in range(3):
            made.other.beat(5)
            read = b"".join(bytes(part) for part in made.other.lanes.take(1 << 20))
            made.socket.data_received(read)
        assert len(made.transport.written) == 1
        made.socket.beat(7)
        assert len(made.transport.written) == 2
        assert not made.socket.core.lanes.first_count()


def test_what_a_turn_has_sent_goes_before_its_connection_ends() -> None:
    with ends() as made:
        made.owner.in_turn = True
        assert made.socket.send(RAFT, LANE, [b"the last word"])
        made.socket.abort("it was removed")
        assert made.arrived() == [b"the last word"]
        made.owner.end_turn()
        assert made.transport.written == []
