"""Everything that this node and one other say to each other about queues (0036). No I/O.

Both are home of some queues and have sessions that use those of the other: a `PeerQueues` has the
proxies of its queues, the stubs of its sessions here, and the one stream that both speak
on. The host tells it when the connection comes and goes, gives it the frames that arrive, and
takes what is to be sent at the end of a turn (`end_turn`), as far as the connection has room.

A connection that breaks is latency. A process that is another one than before (`lost`), or a node
that is given up (`give_up`), ends the sessions that it had here, and to sessions here its queues
are gone. Quorum queues lead elsewhere then, or go on here: to their sessions it is latency, too
(0036). While a stream is full, sessions that publish to it are held up. Messages begin with a
byte that says for whom they are: 0 the home, 1 its user. Compiled.
"""

from collections.abc import Callable
from typing import Final, final

from queues.remote.home import FindHost, SessionStubs, no_end
from queues.remote.items import BadItem, Buffer
from queues.remote.moving import Movers
from queues.remote.proxy import Proxies, Roams
from queues.remote.remote_interfaces import EndOfTurn, FindEnd
from warren.wire.peer.stream import UNACKED_BYTES_MAX, BadFrame, Restarted, Stream

FOR_HOME: Final = b"\x00"
FOR_USER: Final = b"\x01"
GO_ON_BYTES: Final = UNACKED_BYTES_MAX // 2  # unacknowledged, after the stream was full

SendFrame = Callable[[list[bytes]], None]
HasRoom = Callable[[], bool]


def always() -> bool:
    return True


@final
class PeerQueues:
    """One other node; `member` is its id, for queues whose leader may change."""

    def __init__(
        self,
        process: int,
        find: FindHost,
        send_frame: SendFrame,
        turn: EndOfTurn,
        has_room: HasRoom = always,
        find_end: FindEnd = no_end,
        member: int = 0,
        roams: Roams | None = None,
        movers: Movers | None = None,
    ) -> None:
        self.stream = Stream(process)
        self.proxies = Proxies(self._to_home, turn, member, roams)
        self.stubs = SessionStubs(find, self._to_user, turn, find_end, movers)
        self._send_frame = send_frame
        self._has_room = has_room
        self._is_settling = False  # sessions have ended, and their queues were not stepped yet
        self._later: list[Buffer] = []  # messages that came since then
        self._fault = ""  # one of them made no sense

    def _to_home(self, parts: list[bytes]) -> None:
        self.stream.send([FOR_HOME, *parts])
        if self.stream.is_full:
            self.proxies.hold_up()

    def _to_user(self, parts: list[bytes]) -> None:
        self.stream.send([FOR_USER, *parts])

    def connected(self) -> None:
        """The connection stands; the one before is closed."""
        self.stream.connected()
        self.end_turn()

    def disconnected(self) -> None:
        self.stream.disconnected()

    def received(self, frame: Buffer) -> None:
        """A frame of the connection. BadFrame, BadItem: it is wrong, and is to be closed."""
        if self._fault:
            raise BadItem(self._fault)
        news = self.stream.received(frame)
        if isinstance(news, Restarted):
            self.lost()
        elif news is not None:
            self._take(news)
        elif self.stream.unacked_bytes <= GO_ON_BYTES:
            self.proxies.go_on()

    def settle(self) -> None:
        """The queues of the turn were stepped: what came behind the end of sessions, maybe for new
        ones with the same numbers, is taken now."""
        self._is_settling = False
        later = self._later
        self._later = []
        for message in later:
            try:
                self._take(message)
            except BadItem as error:
                self._fault = str(error)

    def _take(self, message: Buffer) -> None:
        if self._is_settling:
            self._later.append(message)
            return
        kind = message[:1]
        if kind == FOR_HOME:
            self.stubs.received(message[1:])
        elif kind == FOR_USER:
            self.proxies.received(message[1:])
        else:
            raise BadItem("a message of the stream for no session")

    def lost(self, is_cut_off: bool = False) -> None:
        """The process that was there is gone, with all that was under way. `is_cut_off`: it could
        not be reached for too long."""
        self._is_settling = True
        self._later = []
        self._fault = ""
        self.stubs.peer_lost(is_cut_off)
        self.proxies.is_down = True  # Receivers of the event may ask.
        self.proxies.home_lost()
        self.proxies.go_on()
        self.proxies.come_back()

    def give_up(self, process: int) -> None:
        """It was not heard of for too long. Should its process live, it is to take this one for
        another, under that number, so that both sides restart."""
        self.lost(is_cut_off=True)
        self.proxies.is_down = True
        self.stream = Stream(process)

    def come_back(self) -> None:
        """After `give_up`: it was heard of again."""
        self.proxies.come_back()

    def end_turn(self) -> None:
        """Send what has come together; proxies and stubs were asked before."""
        stream = self.stream
        while stream.has_frames and self._has_room():
            frame = stream.take_frame()
            if frame is None:
                return
            self._send_frame(frame)


__all__ = ["BadFrame", "BadItem", "PeerQueues"]
