"""Whole frames in any order, and bytes that are none: never another end than a clean one."""

from random import Random
from typing import TypeVar

import pytest

from tests.unit.wire.amqp10.peers import MESSAGE, SENDER, Raw, data_section, frame, parse, run_of
from warren.wire.amqp10.arrivals import Received
from warren.wire.amqp10.codec.performatives import (
    Accepted,
    Attach,
    Begin,
    Close,
    Composite,
    Detach,
    Disposition,
    End,
    Error,
    Flow,
    Modified,
    Open,
    Source,
    Target,
    Transfer,
)
from warren.wire.amqp10.codec.serial import MASK, UINT_MAX
from warren.wire.amqp10.events import (
    AttachRequested,
    Closed,
    Ended,
    Event,
    Failed,
    LoginRequested,
    OpenRequested,
)
from warren.wire.amqp10.limits import Limits
from warren.wire.amqp10.sender import Run

T = TypeVar("T")

LIMITS = Limits(
    max_incoming_window=30,
    max_link_credit=6,
    handle_max=3,
    channel_max=2,
    message_bytes_max=400,
    held_bytes_max=1_000,
)
IDS = [0, 1, 2, 3, MASK, MASK - 1, 1 << 31]


def any_frame(random: Random) -> tuple[Composite, bytes]:
    """A frame that decodes; its numbers are near each other, so that some of them fit."""
    pick = random.choice

    def maybe(*values: T) -> T | None:
        return pick([None, *values])

    handle = pick([0, 0, 1, 2, 3, 4])
    kind = random.randint(0, 14)
    if kind == 0:
        return Begin(
            next_outgoing_id=pick(IDS),
            incoming_window=pick([0, 5, UINT_MAX]),
            outgoing_window=pick(IDS),
            handle_max=pick([0, 3, UINT_MAX]),
            remote_channel=pick([None, None, 1]),
        ), b""
    if kind <= 3:
        return Attach(
            name=pick("abc"),
            handle=handle,
            role=pick([True, False]),
            snd_settle_mode=pick([0, 1, 2]),
            rcv_settle_mode=pick([0, 1]),
            source=maybe(Source()),
            target=maybe(Target()),
            initial_delivery_count=pick([0, MASK]),
            incomplete_unsettled=random.random() < 0.1,
        ), b""
    if kind <= 6:
        return Flow(
            next_incoming_id=maybe(*IDS),
            incoming_window=pick([0, 3, 99, UINT_MAX]),
            next_outgoing_id=pick(IDS),
            outgoing_window=9,
            handle=maybe(handle, handle),
            delivery_count=maybe(*IDS),
            link_credit=maybe(0, 1, 5, 300, UINT_MAX),
            available=maybe(7),
            drain=pick([True, False]),
            echo=pick([True, False]),
        ), b""
    return later_frame(random, kind, handle)


def later_frame(random: Random, kind: int, handle: int) -> tuple[Composite, bytes]:
    """Frames that need a link or a delivery to mean something."""
    pick = random.choice

    def maybe(*values: T) -> T | None:
        return pick([None, *values])

    if kind <= 10:
        payload = pick([b"", MESSAGE, data_section(b"x" * 300), b"\x00"])
        return Transfer(
            handle=handle,
            delivery_id=maybe(0, 1, 2, 3),
            delivery_tag=maybe(b"t"),
            settled=maybe(True, False),
            more=pick([True, False]),
            resume=random.random() < 0.05,
            aborted=random.random() < 0.1,
        ), payload
    if kind <= 12:
        state = pick([None, Accepted(), Modified(delivery_failed=True)])
        return Disposition(
            role=pick([True, False]),
            first=pick(IDS),
            last=maybe(*IDS),
            settled=pick([True, False]),
            state=state,
        ), b""
    if kind == 13:
        return Detach(handle=handle, closed=pick([True, False])), b""
    return pick([End(), End(error=Error(condition="x")), Open(container_id="a"), Close()]), b""


class Host:
    """Accepts most of what is asked, and offers messages to links with credit."""

    def __init__(self, raw: Raw, random: Random) -> None:
        self.raw = raw
        self.random = random
        self.ended = False

    def handle(self, event: Event) -> None:
        assert not self.ended
        random = self.random
        if isinstance(event, LoginRequested):
            self.raw.core.accept_login()
        elif isinstance(event, OpenRequested):
            self.raw.core.accept_open(Open(container_id="server"))
        elif isinstance(event, AttachRequested) and random.random() < 0.9:
            session = self.raw.core.sessions.get(event.link.channel)
            if session is not None and event.link in session.links.all:
                session.accept(event.link, Source(), Target())
        elif isinstance(event, Received):
            session = self.raw.core.sessions.get(event.link.channel)
            if session is not None and event.link.is_up() and random.random() < 0.5:
                for first, count in event.transfers.id_runs(0, event.transfers.count):
                    session.settle(first, count)
                session.confirm(event.link, event.transfers.count)
        elif isinstance(event, Failed | Closed | Ended):
            self.ended = isinstance(event, Ended)

    def work(self) -> None:
        for session in self.raw.core.sessions.values():
            for link, asked in session.take_queue_credits():
                count = min(int(asked.credit), self.random.randint(0, 3))
                if count > 0:
                    session.offer(link, run_of([data_section(b"y" * 700)] * count))
                if asked.drain:
                    session.drained(link, int(asked.arrived + asked.credit))
            session.write(self, 2_000)

    def fetch(self, link: object, run: Run) -> bool:
        raise AssertionError("the bytes are there")

    def sent(self, link: object, run: Run, delivery_id: int, count: int) -> None:
        assert count > 0


@pytest.mark.parametrize("seed", range(60))
def test_frames_in_any_order_end_in_nothing_worse_than_a_close(seed: int) -> None:
    random = Random(seed)
    raw = Raw(LIMITS)
    raw.open(max_frame_size=512)
    host = Host(raw, random)
    begin = Begin(next_outgoing_id=0, incoming_window=50, outgoing_window=50)
    for event in raw.send(begin):
        host.handle(event)
    for _ in range(150):
        if raw.core.state_name != "running":
            break
        data = b"".join(
            frame(0, random.choice([0, 0, 0, 0, 1, 2]), *any_frame(random))
            for _ in range(random.randint(1, 3))
        )
        if random.random() < 0.01:
            place = random.randrange(len(data))
            data = data[:place] + bytes([random.randrange(256)]) + data[place + 1 :]
        for event in raw.feed(data):
            host.handle(event)
        host.work()
        assert all(isinstance(each, Composite) for _, each, _ in parse(raw.bytes_out()))
        check_bounds(raw)


def check_bounds(raw: Raw) -> None:
    core = raw.core
    assert len(core.sessions) <= 3
    assert 0 <= core.held.bytes <= core.held.bytes_max
    held = 0
    for session in core.sessions.values():
        assert len(session.links.all) <= 4
        for link in session.links.all:
            if link.receiver is not None:
                held += int(link.receiver.held_bytes)
                assert 0 <= link.receiver.allowed() <= 6
            if link.sender is not None:
                assert 0 <= link.sender.waiting <= min(link.sender.credit, 256)
    assert held == core.held.bytes


@pytest.mark.parametrize("seed", range(40))
def test_any_cut_of_the_bytes_gives_the_same_events_and_answers(seed: int) -> None:
    """Whole reads take the quick way through runs, single bytes mostly the slow one."""
    random = Random(seed)
    data = b"".join(frame(0, 0, *likely_frame(random, number)) for number in range(9))
    whole, pieces = seen_of([data]), seen_of([data[at : at + 1] for at in range(len(data))])
    assert whole == pieces


def likely_frame(random: Random, number: int) -> tuple[Composite, bytes]:
    """Mostly transfers as they should be."""
    if random.random() < 0.1:
        return any_frame(random)
    settled = random.choice([None, True])
    tag = number.to_bytes(2, "big")
    payload = random.choice([MESSAGE, MESSAGE, data_section(b"x" * 500)])
    return Transfer(handle=0, delivery_id=number, delivery_tag=tag, settled=settled), payload


def seen_of(reads: list[bytes]) -> tuple[list[str], bytes]:
    raw = Raw(LIMITS)
    raw.open()
    raw.begin()
    raw.attach(0, SENDER)
    seen: list[str] = []
    for read in reads:
        for event in raw.feed(read):
            if isinstance(event, Received):
                run = event.transfers
                seen += [f"message {run.id_at(n)}" for n in range(int(run.count))]
            else:
                seen.append(type(event).__name__)
    return seen, raw.bytes_out()
