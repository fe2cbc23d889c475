"""A broker made of the server's core, behind an in-memory pipe in place of a socket."""

import asyncio
import time
from collections import deque
from typing import Any

from node.amqp10.link_pair import LinkPair, ManagementLinks, is_management
from node.amqp10.management import Management
from tests.unit.node.fake_managed import FakeManaged, FakeRequester
from tests.unit.wire.amqp10.peers import payloads, run_of
from warren.client.sockets import Socket
from warren.wire.amqp10.arrivals import Received
from warren.wire.amqp10.codec.performatives import DeliveryState, Open, Source, Target
from warren.wire.amqp10.connection import Connection as Core
from warren.wire.amqp10.errors import Condition, ProtocolError, Scope
from warren.wire.amqp10.events import (
    AttachRequested,
    Ended,
    Event,
    Flowed,
    LoginRequested,
    OpenRequested,
    Settled,
    Withdrawn,
)
from warren.wire.amqp10.limits import Limits
from warren.wire.amqp10.link import ATTACHED, Link
from warren.wire.amqp10.sender import Run
from warren.wire.amqp10.settling import ACCEPTED


class Pipe(asyncio.Transport):
    """The client's end: what it writes reaches the server in the next turn of the loop."""

    def __init__(self, socket: Socket, peer: "Peer") -> None:
        super().__init__()
        self._socket = socket
        self._peer = peer
        self._loop = asyncio.get_running_loop()
        self._closed = False

    def write(self, data: Any) -> None:
        self._loop.call_soon(self._peer.receive, bytes(data))

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._loop.call_soon(self._socket.connection_lost, None)

    def abort(self) -> None:
        self.close()

    def deliver(self, data: bytes) -> None:
        if not self._closed:
            self._loop.call_soon(self._socket.data_received, data)


class Peer:
    """The server's end of one connection."""

    def __init__(self, server: "Server", socket: Socket) -> None:
        self.server = server
        self.core = Core(server.limits, 0, ["PLAIN", "ANONYMOUS"])
        self.pipe = Pipe(socket, self)
        self.managing: ManagementLinks | None = None
        self.links: list[Link] = []
        self.unanswered: list[tuple[Link, int, int]] = []  # publishes
        self.arrived: dict[Link, int] = {}  # messages that the queue has handed over
        self.wanted: dict[Link, int] = {}  # and may hand over
        socket.connection_made(self.pipe)

    def receive(self, data: bytes) -> None:
        events = self.core.receive(data, int(time.monotonic() * 1000))
        while events:
            for event in events:
                self._handle(event)
            events = self.core.receive(b"", int(time.monotonic() * 1000))
        self.flush()

    def flush(self) -> None:
        for session in self.core.sessions.values():
            session.write(self, 1 << 20)
        self.server.broker.commit()
        for session in self.core.sessions.values():
            session.write(self, 1 << 20)
        output = self.core.data_to_send()
        if output:
            self.pipe.deliver(output)

    def _handle(self, event: Event) -> None:
        if isinstance(event, LoginRequested):
            if event.response == b"\0guest\0guest" or event.mechanism == "ANONYMOUS":
                self.core.accept_login()
            else:
                self.core.refuse_login()
        elif isinstance(event, OpenRequested):
            self.server.opened.append(event.open.hostname)
            self.core.accept_open(
                Open(container_id="server", properties=self.server.properties_of_open())
            )
        elif isinstance(event, AttachRequested):
            self._attach(event)
        elif isinstance(event, Received):
            self._received(event)
        elif isinstance(event, Flowed):
            self._flowed(event.link)
        elif isinstance(event, Withdrawn):
            for _, _, count in event.runs:
                raise AssertionError(f"{count} messages came back: the pipe hands over at once")
        elif isinstance(event, Settled):
            self.server.settled += [event.outcome] * (event.last - event.first + 1)
            self.server.states.append(event.state)
        elif isinstance(event, Ended):
            self.pipe.close()

    def _attach(self, event: AttachRequested) -> None:
        link, attach = event.link, event.attach
        session = self.core.sessions[link.channel]
        if is_management(attach):
            if self.managing is None:
                management = Management(FakeRequester(self.server.broker))
                self.managing = ManagementLinks(session, management, lambda: None, 10_000)
            self.managing.attach(link, attach)
            return
        terminus = attach.target if link.is_receiver else attach.source
        address = getattr(terminus, "address", None)
        if address in self.server.refused:
            error = ProtocolError(Condition.NOT_FOUND, f"no {address}", Scope.LINK)
            session.refuse(link, error)
            return
        link.properties = self.server.properties
        link.owner = self.server.queues.setdefault(str(address), deque())
        self.links.append(link)
        session.accept(link, attach.source or Source(), attach.target or Target())

    def _received(self, event: Received) -> None:
        if isinstance(event.link.owner, LinkPair):
            event.link.owner.received(event.transfers)
            return
        run = event.transfers
        session = self.core.sessions[event.link.channel]
        self.server.received += run.count
        queue = event.link.owner
        assert isinstance(queue, deque)
        queue.extend(payloads(run.data, run.offsets))
        if self.server.answers and not run.settled:
            session.settle(run.delivery_id, run.count, self.server.outcome, self.server.state)
        if self.server.answers:
            session.confirm(event.link, run.count)
        else:
            self.unanswered.append((event.link, run.delivery_id, run.count))

    def confirm_all(self) -> None:
        """Accept what was not answered."""
        for link, first, count in self.unanswered:
            self.core.sessions[link.channel].settle(first, count)
            self.core.sessions[link.channel].confirm(link, count)
        self.unanswered = []
        self.flush()

    def _flowed(self, link: Link) -> None:
        if isinstance(link.owner, LinkPair):
            link.owner.flowed()
        elif link.sender is not None:
            self.feed(link)

    def feed(self, link: Link) -> None:
        """Hand over what the queues have, as far as the client wants it."""
        session = self.core.sessions.get(link.channel)
        if session is None:
            return  # It ended behind the flow, in the same read.
        for asked, credit in session.take_queue_credits():
            self.arrived[asked] = int(credit.arrived)
            self.wanted[asked] = int(credit.arrived + credit.credit)
            self._hand_over(asked)
            if credit.drain:
                self.arrived[asked] = self.wanted[asked]
                session.drained(asked, self.wanted[asked])
        if link in self.wanted:
            self._hand_over(link)

    def _hand_over(self, link: Link) -> None:
        queue = link.owner
        assert isinstance(queue, deque)
        count = min(len(queue), self.wanted[link] - self.arrived[link])
        if count > 0:
            self.arrived[link] += count
            taken = [queue.popleft() for _ in range(count)]
            self.core.sessions[link.channel].offer(link, run_of(taken))

    def fetch(self, link: Link, run: Run) -> bool:
        raise AssertionError("the bytes are there already")

    def sent(self, link: Link, run: Run, delivery_id: int, count: int) -> None:
        if isinstance(link.owner, LinkPair):
            link.owner.sent(run)


class Server:
    """Any number of connections, one after the other; `reachable` False refuses new ones."""

    def __init__(self, **limits: Any) -> None:
        self.limits = Limits(**limits)
        self.broker = FakeManaged()
        self.node = ""  # as its open frame tells
        self.queues: dict[str, deque[bytes]] = {}
        self.opened: list[str | None] = []
        self.refused: set[str] = set()
        self.properties: dict[str, object] | None = None
        self.answers = True
        self.outcome = ACCEPTED
        self.state: DeliveryState | None = None
        self.settled: list[int] = []
        self.states: list[DeliveryState | None] = []
        self.reachable = True
        self.received = 0  # messages of publishers
        self.peers: list[Peer] = []

    def properties_of_open(self) -> dict[str, object]:
        named: dict[str, object] = {"node": self.node} if self.node else {}
        return {"product": "pipe", **named}

    def tell(self, properties: dict[str, object]) -> None:
        """Push this in flows of all links, those to come too."""
        self.properties = properties
        for peer in self.peers:
            for link in peer.links:
                if link.status == ATTACHED:
                    link.properties = properties
                    peer.core.sessions[link.channel].push_flow(link)
            peer.flush()

    async def dial(self, socket: Socket) -> None:
        if not self.reachable:
            raise ConnectionRefusedError("no listener")
        self.peers.append(Peer(self, socket))

    def cut(self) -> None:
        """The connection is gone without a word."""
        self.peers[-1].pipe.close()

    def put(self, address: str, *messages: bytes) -> None:
        """Messages appear in a queue, and go to who waits for them."""
        self.queues.setdefault(address, deque()).extend(messages)
        peer = self.peers[-1]
        for link in peer.links:
            if link.sender is not None and link.status == ATTACHED:
                peer.feed(link)
        peer.flush()
