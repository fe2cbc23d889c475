"""Cost of AMQP 1.0 flow control per message: connection, session and link around the codec.

    python bench/micro/flow10.py

A publisher's transfers go through a server core, which grants, confirms and settles; a consumer's
come out of one. `scan` and `write` are the codec alone: the difference is what the cores cost. A
read of 170 messages is what the default credit allows at once. Prints nanoseconds per message, the
best and the median of several rounds, and the build.
"""

import platform

from bench.micro.wire import measure
from bench.micro.wire10 import data_section, frame, transfer
from warren.wire.amqp10 import session as session_module
from warren.wire.amqp10.arrivals import Received
from warren.wire.amqp10.codec.performatives import (
    Attach,
    Begin,
    Flow,
    Open,
    SaslInit,
    Source,
    Target,
)
from warren.wire.amqp10.connection import Connection
from warren.wire.amqp10.deliver import write_transfers
from warren.wire.amqp10.events import AttachRequested
from warren.wire.amqp10.handshake import AMQP_HEADER, SASL_HEADER
from warren.wire.amqp10.limits import Limits
from warren.wire.amqp10.link import Link
from warren.wire.amqp10.output import Output
from warren.wire.amqp10.sender import Run
from warren.wire.amqp10.transfers import Transfers, TransferScanner

MESSAGES = 17_000
FRAME_MAX = 131_072
UINT_MAX = (1 << 32) - 1


def opened(role: bool, limits: Limits) -> tuple[Connection, Link]:
    """A server core with one link, which the peer attached in that role."""
    connection = Connection(limits, 0, ["PLAIN"])
    init = SaslInit(mechanism="PLAIN").encoded()
    sasl = (8 + len(init)).to_bytes(4, "big") + b"\x02\x01\x00\x00" + init
    connection.receive(SASL_HEADER + sasl, 0)
    connection.accept_login()
    connection.receive(AMQP_HEADER + frame(Open(container_id="bench").encoded()), 0)
    connection.accept_open(Open(container_id="server"))
    begin = Begin(next_outgoing_id=0, incoming_window=UINT_MAX, outgoing_window=UINT_MAX)
    attach = Attach(
        name="link",
        handle=0,
        role=role,
        source=Source(),
        target=Target(),
        initial_delivery_count=None if role else 0,
    )
    events = connection.receive(frame(begin.encoded()) + frame(attach.encoded()), 0)
    asked = events[1]
    assert isinstance(asked, AttachRequested)
    connection.sessions[0].accept(asked.link, Source(), Target())
    connection.data_to_send()
    return connection, asked.link


def measure_publishing(size: int, per_read: int) -> None:
    """Reads of so many messages; ids go on, so each read is made separately, outside of the
    clock.
    """
    payload = data_section(b"x" * size)
    limits = Limits(max_incoming_window=2 * per_read, max_link_credit=2 * per_read)
    connection, link = opened(False, limits)
    session = connection.sessions[0]
    rounds = MESSAGES // per_read
    reads = [
        b"".join(transfer(number * per_read + place, payload) for place in range(per_read))
        for number in range(rounds)
    ]
    scanner = TransferScanner(FRAME_MAX)
    name = f"{size} B, {per_read} per read"

    def scan() -> None:
        for read in reads:
            scanner.scan(read, 0, 0)

    def receive() -> None:
        session.arrivals.next_id = 0
        for read in reads:
            for event in connection.receive(read, 0):
                if isinstance(event, Received):
                    run = event.transfers
                    session.settle(run.delivery_id, run.count)
                    session.confirm(link, run.count)
            connection.data_to_send()

    measure(f"publish {name}: scan", MESSAGES, scan)
    measure(f"publish {name}: all", MESSAGES, receive)
    assert link.is_up()


class Bodies:
    """One chunk of messages, handed out again and again."""

    def __init__(self, chunk: Transfers) -> None:
        self.chunk = chunk

    def fetch(self, link: Link, run: Run) -> bool:
        run.put(self.chunk.data, 0, self.chunk.offsets, 0, run.count)
        return True

    def sent(self, link: Link, run: Run, delivery_id: int, count: int) -> None:
        pass


def measure_consuming(size: int, per_turn: int) -> None:
    payload = data_section(b"x" * size)
    chunk = TransferScanner(FRAME_MAX).scan(
        b"".join(transfer(place, payload) for place in range(per_turn)), 0, 0
    )
    assert chunk is not None
    connection, link = opened(True, Limits())
    session = connection.sessions[0]
    flow = Flow(
        next_incoming_id=0,
        incoming_window=UINT_MAX,
        next_outgoing_id=0,
        outgoing_window=UINT_MAX,
        handle=0,
        delivery_count=0,
        link_credit=UINT_MAX,
    )
    connection.receive(frame(flow.encoded()), 0)
    bodies = Bodies(chunk)
    name = f"{size} B, {per_turn} per turn"
    turns = MESSAGES // per_turn

    def write() -> None:
        for _ in range(turns):
            output = Output()
            data, offsets = chunk.data, chunk.offsets
            write_transfers(
                output, 0, 0, 0, 1, False, None, 0, False, data, 0, offsets, 0, per_turn, FRAME_MAX
            )
            output.take()

    def deliver() -> None:
        for _ in range(turns):
            session.take_queue_credits()
            session.offer(link, Run(1, 1, per_turn, False))
            session.write(bodies, 1 << 20)
            connection.data_to_send()

    measure(f"deliver {name}: write", MESSAGES, write)
    measure(f"deliver {name}: all", MESSAGES, deliver)


def main() -> None:
    build = "pure" if session_module.__file__.endswith(".py") else "compiled"
    print(f"ns per message, Python {platform.python_version()}, {build}")
    for size in (12, 1024):
        for per_read in (17, 170):
            measure_publishing(size, per_read)
    for size in (12, 1024):
        measure_consuming(size, 170)


if __name__ == "__main__":
    main()
