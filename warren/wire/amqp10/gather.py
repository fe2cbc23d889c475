"""Runs of transfers out of a read in which several links take turns. Compiled, hot.

A client that publishes on two links often sends their messages one by one in turn, so that no two
neighbours are of one link. What is done for a run would then be done for a message. Here the
frames of each link are copied together (a few words each), so that each link gets one `Transfers`
again. Their delivery-ids do not count up and stand in a table; only over all links of a session
they do, which is checked here.

It takes the same ordinary frames as `TransferScanner` and ends in front of any other.
"""

from typing import Final, final

from mypy_extensions import i32, i64, mypyc_attr

from warren.wire.amqp10.codec.frames import FRAME_HEAD
from warren.wire.amqp10.transfers import (
    STOP_ODD,
    UINT_MASK,
    Transfers,
    TransferScanner,
    lead_of,
)
from warren.wire.buffer import BytesWriter, read_i16_be, write_i32_le
from warren.wire.inplace import copy_words

LINKS_MAX: Final = 64  # that one read is taken apart into
SMALL_BYTES: Final = 128  # so much is copied by words: no slice is made


@final
@mypyc_attr(acyclic=True)
class Gathered:
    """What one session got: `count` deliveries from `delivery_id` on, sorted by link."""

    def __init__(self, channel: i64, delivery_id: i64) -> None:
        self.channel: i64 = channel
        self.delivery_id: i64 = delivery_id
        self.count: i64 = 0
        self.runs: list[Transfers] = []


@final
@mypyc_attr(acyclic=True)
class _Link:
    """The run of one link while it grows."""

    def __init__(self, session: Gathered, scanner: TransferScanner) -> None:
        self.session = session
        self.channel: i64 = session.channel
        self.handle: i64 = scanner.handle
        self.delivery_id: i64 = scanner.delivery_id
        self.settled: i64 = scanner.settled
        self.message_format: i64 = scanner.message_format
        self.frames = BytesWriter()
        self.offsets = BytesWriter()
        self.ids = BytesWriter()
        self.count: i64 = 0
        self.info: i64 = -1
        self.firsts: list[int] = []
        self.infos: list[int] = []

    def add(self, data: bytes, pos: i64, end: i64, delivery_id: i64, info: i64) -> None:
        if info != self.info:
            self.info = info
            self.firsts.append(self.count)
            self.infos.append(info)
        write_i32_le(self.offsets, i32(len(self.frames)))
        write_i32_le(
            self.ids, i32(delivery_id if delivery_id < 1 << 31 else delivery_id - (1 << 32))
        )
        if end - pos <= SMALL_BYTES:
            copy_words(self.frames, data, pos, end)
        else:
            self.frames.write(data[pos:end])
        self.count += 1

    def run(self) -> Transfers:
        write_i32_le(self.offsets, i32(len(self.frames)))
        run = Transfers(
            self.channel,
            self.handle,
            self.delivery_id,
            self.settled != 0,
            self.message_format,
            self.frames.getvalue(),
            self.offsets.getvalue(),
            self.firsts,
            self.infos,
        )
        if run.id_at(self.count - 1) != self._last_id():
            run.ids = self.ids.getvalue()
        return run

    def _last_id(self) -> i64:
        at: i64 = len(self.ids) - 4
        last: i64 = 0
        octet: i64 = 3
        while octet >= 0:
            last = last << 8 | i64(self.ids[at + octet])
            octet -= 1
        return last


@final
class TransferGatherer:
    """Takes one read after the other apart; after `scan` as `TransferScanner` is."""

    def __init__(self, frame_bytes_max: i64) -> None:
        self.end: i64 = 0
        self.stop: i64 = STOP_ODD
        self.need: i64 = 0
        self._scanner = TransferScanner(frame_bytes_max)
        self._links: list[_Link] = []
        self._sessions: list[Gathered] = []
        self._place: i64 = 0  # of the link that had the last message

    def scan(self, data: bytes, start: i64) -> list[Gathered]:
        """The transfers at `start`, by session and link, each in the order of its first message."""
        scanner = self._scanner
        scanner.begin()
        pos = start
        size: i64 = len(data)
        while True:
            channel: i64 = 0
            if size - pos >= FRAME_HEAD:
                channel = i64(read_i16_be(data, pos + 6)) & 0xFFFF
            end = scanner.look(data, pos, lead_of(channel))
            if end < 0 or not scanner.walk(data, scanner.at, end):
                break
            link = self._link(channel)
            if link is None:
                break
            link.add(data, pos, end, scanner.delivery_id, scanner.sections.info)
            link.session.count += 1
            pos = end
        self.end = pos
        self.stop = scanner.stop
        self.need = scanner.need
        found = self._sessions
        for link in self._links:
            link.session.runs.append(link.run())
        self._links = []
        self._sessions = []
        self._place = 0
        return found

    def _link(self, channel: i64) -> _Link | None:
        """The link of the transfer that was looked at; None: it does not fit what came before."""
        scanner = self._scanner
        count: i64 = len(self._links)
        tried: i64 = 0
        while tried < count:  # Mostly it is the one after the last.
            tried += 1
            self._place += 1
            if self._place >= count:
                self._place = 0
            link = self._links[self._place]
            if link.handle == scanner.handle and link.channel == channel:
                session = link.session
                if link.settled != scanner.settled or link.message_format != scanner.message_format:
                    return None
                return link if self._follows(session) else None
        if count == LINKS_MAX:
            return None
        for session in self._sessions:
            if session.channel == channel:
                return self._new_link(session) if self._follows(session) else None
        session = Gathered(channel, scanner.delivery_id)
        self._sessions.append(session)
        return self._new_link(session)

    def _follows(self, session: Gathered) -> bool:
        return self._scanner.delivery_id == (session.delivery_id + session.count) & UINT_MASK

    def _new_link(self, session: Gathered) -> _Link:
        link = _Link(session, self._scanner)
        self._place = len(self._links)
        self._links.append(link)
        return link
