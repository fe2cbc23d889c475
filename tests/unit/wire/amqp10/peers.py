"""Two cores that talk over a byte pipe, and a raw peer that writes and reads frames by hand."""

import itertools
from collections.abc import Callable, Sequence
from typing import TypeVar

from warren.wire.amqp10.codec.performatives import (
    Attach,
    Begin,
    Composite,
    Flow,
    Open,
    Performative,
    SaslInit,
    Source,
    Target,
    Transfer,
    read_performative,
    read_sasl_frame,
)
from warren.wire.amqp10.codec.reader import Reader
from warren.wire.amqp10.connection import Connection
from warren.wire.amqp10.departures import Bodies
from warren.wire.amqp10.events import (
    AttachRequested,
    Event,
    LoginRequested,
    MechanismsOffered,
    Opened,
    OpenRequested,
    SessionBegun,
)
from warren.wire.amqp10.handshake import AMQP_HEADER, SASL_HEADER
from warren.wire.amqp10.limits import Limits
from warren.wire.amqp10.link import Link
from warren.wire.amqp10.sender import Run
from warren.wire.amqp10.session import Session
from warren.wire.amqp10.transfers import payload_at, store

T = TypeVar("T")
MESSAGE = b"\x00\x53\x75\xa0\x05hello"
SENDER = False  # values of `role`
RECEIVER = True


def frame(kind: int, channel: int, performative: Composite, payload: bytes = b"") -> bytes:
    body = performative.encoded() + payload
    head = (8 + len(body)).to_bytes(4, "big") + bytes([2, kind]) + channel.to_bytes(2, "big")
    return head + body


def data_section(body: bytes) -> bytes:
    """A message that is one data section."""
    return b"\x00\x53\x75\xb0" + len(body).to_bytes(4, "big") + body


def offsets_of(messages: Sequence[bytes]) -> bytes:
    at = 0
    table = [at.to_bytes(4, "little")]
    for message in messages:
        at += len(message)
        table.append(at.to_bytes(4, "little"))
    return b"".join(table)


def run_of(
    messages: Sequence[bytes], number: int = 1, first: int = 1, settled: bool = False
) -> Run:
    """A run with its bytes, made from the sections of messages."""
    stored = [store(each) for each in messages]
    run = Run(number, first, len(stored), settled)
    run.put(b"".join(stored), 0, offsets_of(stored), 0, len(stored))
    return run


def payloads(data: bytes, offsets: bytes) -> list[bytes]:
    ends = [int.from_bytes(offsets[at : at + 4], "little") for at in range(0, len(offsets), 4)]
    spans = itertools.pairwise(ends)
    return [data[payload_at(data, start) : end] for start, end in spans]


def only(events: Sequence[object], kind: type[T]) -> list[T]:
    return [event for event in events if isinstance(event, kind)]


class AllThere:
    """Bodies of runs that have their bytes from the beginning."""

    def __init__(self) -> None:
        self.ids: list[tuple[int, int, int]] = []  # (first of the run, delivery-id, count)

    def fetch(self, link: Link, run: Run) -> bool:
        raise AssertionError("the bytes are there already")

    def sent(self, link: Link, run: Run, delivery_id: int, count: int) -> None:
        self.ids.append((run.first, delivery_id, count))


class Raw:
    """A raw client of a server core: frames in, frames out, nothing done by itself."""

    def __init__(self, limits: Limits | None = None, mechanisms: list[str] | None = None) -> None:
        self.now_ms = 0
        self.window = 1000  # told in flows
        self.core = Connection(limits or Limits(), 0, mechanisms or ["PLAIN", "ANONYMOUS"])
        self.output = b""
        self.read = 0  # of the output

    def feed(self, data: bytes) -> list[Event]:
        events = list(self.core.receive(data, self.now_ms))
        while self.core.has_more:
            events += self.core.receive(b"", self.now_ms)
        return events

    def send(self, performative: Composite, payload: bytes = b"", channel: int = 0) -> list[Event]:
        return self.feed(frame(0, channel, performative, payload))

    def bytes_out(self) -> bytes:
        return self.core.data_to_send()

    def answers(self) -> list[Performative]:
        """The frames that have come out since the last look, heartbeats left out."""
        return [each for _, each, _ in self.frames()]

    def frames(self) -> list[tuple[int, Performative, bytes]]:
        """(channel, performative, payload) each."""
        return parse(self.bytes_out())

    def open(self, **fields: object) -> list[Performative]:
        """Log in and open; return what was answered to open."""
        self.feed(SASL_HEADER + frame(1, 0, SaslInit(mechanism="PLAIN", initial_response=b"")))
        self.core.accept_login()
        self.bytes_out()
        values: dict[str, object] = {"container_id": "raw", **fields}
        self.feed(AMQP_HEADER + frame(0, 0, Open(**values)))  # type: ignore[arg-type]
        self.core.accept_open(Open(container_id="server"))
        output = self.bytes_out()
        assert output[:8] == AMQP_HEADER
        return [each for _, each, _ in parse(output[8:])]

    def begin(self, channel: int = 0, window: int = 1000, **fields: object) -> Session:
        self.window = window
        values: dict[str, object] = {
            "next_outgoing_id": 0,
            "incoming_window": window,
            "outgoing_window": 1000,
            **fields,
        }
        events = self.send(Begin(**values), b"", channel)  # type: ignore[arg-type]
        return only(events, SessionBegun)[0].session

    def attach(self, handle: int, role: bool, name: str = "", channel: int = 0) -> Link:
        """Attach a link that the server accepts; its answers are dropped."""
        link = self.ask(handle, role, name, channel)
        session = self.core.sessions[link.channel]
        assert session.accept(link, Source(address="/queues/q"), Target(address="/queues/q"))
        self.bytes_out()
        return link

    def ask(self, handle: int, role: bool, name: str = "", channel: int = 0) -> Link:
        events = self.send(attach_frame(handle, role, name), b"", channel)
        return only(events, AttachRequested)[0].link

    def transfer(self, handle: int, delivery_id: int, **fields: object) -> list[Event]:
        payload = fields.pop("payload", MESSAGE)
        assert isinstance(payload, bytes)
        return self.send(transfer_frame(handle, delivery_id, **fields), payload)

    def flow(self, **fields: object) -> list[Event]:
        return self.send(flow_frame(**{"incoming_window": self.window, **fields}))


def attach_frame(handle: int, role: bool, name: str = "", initial_count: int = 0) -> Attach:
    return Attach(
        name=name or f"link-{handle}",
        handle=handle,
        role=role,
        source=Source(address="/queues/q"),
        target=Target(address="/queues/q"),
        initial_delivery_count=None if role else initial_count,
    )


def transfer_frame(handle: int, delivery_id: int | None, **fields: object) -> Transfer:
    values: dict[str, object] = {"handle": handle, "delivery_id": delivery_id, **fields}
    if delivery_id is not None:
        values.setdefault("delivery_tag", delivery_id.to_bytes(4, "big"))
    return Transfer(**values)  # type: ignore[arg-type]


def flow_frame(**fields: object) -> Flow:
    values: dict[str, object] = {
        "next_incoming_id": 0,
        "incoming_window": 1000,
        "next_outgoing_id": 0,
        "outgoing_window": 1000,
        **fields,
    }
    return Flow(**values)  # type: ignore[arg-type]


def parse(data: bytes) -> list[tuple[int, Performative, bytes]]:
    """AMQP frames, heartbeats left out."""
    frames = []
    at = 0
    while at < len(data):
        end = at + int.from_bytes(data[at : at + 4], "big")
        start = at + 4 * data[at + 4]
        if data[at + 5] == 0 and start < end:
            reader = Reader(data, start, end)
            performative = read_performative(reader)
            channel = int.from_bytes(data[at + 6 : at + 8], "big")
            frames.append((channel, performative, data[reader.pos : end]))
        at = end
    return frames


def parse_sasl(data: bytes) -> list[Composite]:
    frames: list[Composite] = []
    at = 0
    while at < len(data):
        end = at + int.from_bytes(data[at : at + 4], "big")
        frames.append(read_sasl_frame(Reader(data, at + 4 * data[at + 4], end)))
        at = end
    return frames


class Pair:
    """A client core and a server core; `move` carries bytes, cut as `cut` says."""

    def __init__(
        self,
        server_limits: Limits | None = None,
        client_limits: Limits | None = None,
        cut: Callable[[int], int] | None = None,
    ) -> None:
        limits = client_limits or Limits(max_link_credit=0, max_queue_credit=0)
        self.server = Connection(server_limits or Limits(), 0, ["PLAIN"])
        self.client = Connection(limits, 0, None, Open(container_id="client", hostname="vhost:/"))
        self.to_server = b""
        self.to_client = b""
        self.cut = cut or (lambda size: size)
        self.on_server: Callable[[Event], None] = lambda event: None
        self.on_client: Callable[[Event], None] = lambda event: None

    def move_to_server(self) -> bool:
        self.to_server += self.client.data_to_send()
        count = self.cut(len(self.to_server))
        piece, self.to_server = self.to_server[:count], self.to_server[count:]
        for event in self.server.receive(piece, 0):
            self._server_event(event)
        return count > 0 or self.server.has_more

    def move_to_client(self) -> bool:
        self.to_client += self.server.data_to_send()
        count = self.cut(len(self.to_client))
        piece, self.to_client = self.to_client[:count], self.to_client[count:]
        for event in self.client.receive(piece, 0):
            self._client_event(event)
        return count > 0 or self.client.has_more

    def settle(self) -> None:
        """Until nothing moves any more."""
        while self.move_to_server() | self.move_to_client():
            pass

    def _server_event(self, event: Event) -> None:
        if isinstance(event, LoginRequested):
            self.server.accept_login()
            for later in self.server.receive(b"", 0):
                self._server_event(later)
        elif isinstance(event, OpenRequested):
            self.server.accept_open(Open(container_id="server"))
            for later in self.server.receive(b"", 0):
                self._server_event(later)
        else:
            self.on_server(event)

    def _client_event(self, event: Event) -> None:
        if isinstance(event, MechanismsOffered):
            self.client.login("PLAIN", b"\0guest\0guest")
        elif not isinstance(event, Opened):
            self.on_client(event)


def write_all(session: Session, bodies: Bodies) -> None:
    while session.has_work():
        session.write(bodies, 1 << 20)
