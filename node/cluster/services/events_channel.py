"""Events of other nodes for those who follow them here, and ours for theirs. Keeps `Elsewhere`.

    part = EventsChannel(peers, events, process, call_later)
    peers.attach(EVENTS, part)
    part.watch(watcher)              # until `unwatch`: events of all nodes that can be reached

A node that watches says so to each peer (WATCH), which sends what happens there, gathered for
GATHER_S, until it hears UNWATCH or the link is lost. What is sent is read from the ring of
`node.events.events`, so nothing else waits here: a peer that takes no frames now gets them later,
and when
the link comes again WATCH says from where on. Lost is what a ring has let go meanwhile, and all
that a process had not sent when it ended; of both the watcher hears (`Lost`). A node without
watchers sends nothing and is subscribed to nothing.

Frames: version (u8, 1) and MessagePack: [1, process, seq] WATCH what is behind seq of that process,
0, 0 from now on. [2] UNWATCH. [3, process, seq, lost, node, rows] EVENTS: rows of [name, at_ms,
properties], each in a binary of its own, seq that of the first. Limits: ROWS_MAX rows and about
ROWS_BYTES in a frame; an event of more than ROW_BYTES_MAX goes without its properties.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from node.cluster.cluster_interfaces import EVENTS, OTHER_LANE, Peers
from node.cluster.services.status_channel import decoded, plain
from node.events.event_feed import Lost, Watcher
from node.events.events import Event, Events
from node.timers import CallLater, Handle
from warren.wire.peer.codes import PeerFault

VERSION: Final = b"\x01"
WATCH: Final = 1
UNWATCH: Final = 2
TOLD: Final = 3
GATHER_S: Final = 0.05
AGAIN_S: Final = 0.2  # a peer whose link is full is tried again
ANSWER_S: Final = 1.0  # who has not answered WATCH is asked again: a full link has lost it
ROWS_MAX: Final = 256
ROWS_BYTES: Final = 128 * 1024
ROW_BYTES_MAX: Final = 64 * 1024

Row = tuple[str, int, dict[str, Any]]

_ENCODE: Final = msgspec.msgpack.Encoder(enc_hook=plain).encode
_DECODE: Final = msgspec.msgpack.Decoder(list[Any]).decode
_DECODE_ROW: Final = msgspec.msgpack.Decoder(Row).decode


class EventsChannel:
    """Invariants: this is subscribed to the events exactly while a peer watches; `_sent` has the
    last number that each of these peers was sent."""

    def __init__(self, peers: Peers, events: Events, process: int, call_later: CallLater) -> None:
        self._peers = peers
        self._events = events
        self._process = process
        self._call_later = call_later
        self._watcher: Watcher | None = None
        self._is_ready = False  # and it learned so
        self._seen: dict[int, tuple[int, int]] = {}  # by member: process, number of the last event
        self._silent: dict[int, None] = {}  # members that have not answered yet
        self._asking: Handle | None = None
        self._sent: dict[int, int] = {}  # by member
        self._leave: Callable[[], None] | None = None
        self._timer: Handle | None = None

    # Watching others

    def watch(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._is_ready = False
        self._seen = {}
        for member in self._others():
            self._ask(member)
        self._look()

    def _look(self) -> None:
        """Whether all that can be reached have answered."""
        if self._watcher is None or self._is_ready:
            return
        if not any(map(self._peers.is_connected, self._silent)):
            self._is_ready = True
            self._watcher.ready()

    def unwatch(self) -> None:
        self._watcher = None
        for member in self._others():
            self._send(member, [UNWATCH])

    def _others(self) -> list[int]:
        return [each for each in self._peers.members() if each != self._peers.member]

    def _ask(self, member: int) -> None:
        self._silent[member] = None
        self._send(member, [WATCH, *self._seen.get(member, (0, 0))])
        if self._asking is None:
            self._asking = self._call_later(ANSWER_S, self._ask_again)

    def _ask_again(self) -> None:
        """Those that can be reached; a new link asks by itself."""
        self._asking = None
        silent, self._silent = self._silent, {}
        for member in silent if self._watcher is not None else ():
            if self._peers.is_connected(member):
                self._ask(member)

    def _told(self, member: int, frame: list[Any]) -> None:
        process, seq, lost, node, rows = told_of(frame)
        watcher = self._watcher
        if watcher is None:
            self._send(member, [UNWATCH])  # It was lost, or crossed this.
            return
        self._silent.pop(member, None)
        known = self._seen.get(member)
        if known is not None and known[0] != process:
            watcher.lost(Lost(0, node))
        last = known[1] if known is not None and known[0] == process else seq - lost - 1
        if seq - 1 > last:
            watcher.lost(Lost(seq - 1 - last, node))
        for number, (name, at_ms, properties) in enumerate(rows, seq):
            if number > last:  # Else it is here: the peer was asked twice.
                watcher.heard(Event(number, name, at_ms, node, properties))
        self._seen[member] = (process, max(last, seq + len(rows) - 1))
        self._look()

    # Being watched

    def _watched(self, member: int, process: int, seq: int) -> None:
        last = self._events.last_seq
        is_known = process == self._process and seq <= last
        self._sent[member] = seq if is_known else last
        if self._leave is None:
            self._leave = self._events.subscribe(lambda event: self._mark(GATHER_S))
        self._send_rows(member)  # At once, so that it knows where it stands.
        if self._sent[member] < last:
            self._mark(GATHER_S)

    def _unwatched(self, member: int) -> None:
        self._sent.pop(member, None)
        if not self._sent and self._leave is not None:
            self._leave()
            self._leave = None

    def _mark(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = self._call_later(seconds, self._work)

    def _work(self) -> None:
        """Send to each peer what it has not got."""
        self._timer = None
        last = self._events.last_seq
        for member in list(self._sent):
            if self._sent[member] < last and not self._peers.is_full(member):
                self._send_rows(member)
        if any(sent < last for sent in self._sent.values()):
            self._mark(AGAIN_S)

    def _send_rows(self, member: int) -> None:
        """The first of what the peer has not got, as much as goes into a frame."""
        events, lost = self._events.since(self._sent[member])
        rows: list[bytes] = []
        size = 0
        for event in events[:ROWS_MAX]:
            row = row_of(event)
            rows.append(row)
            size += len(row)
            if size > ROWS_BYTES:
                break
        first = self._sent[member] + lost + 1
        node = self._events.node
        self._send(member, [TOLD, self._process, first, lost, node, rows])
        self._sent[member] = first + len(rows) - 1

    def _send(self, member: int, frame: list[object]) -> None:
        self._peers.send(member, EVENTS, OTHER_LANE, [VERSION, _ENCODE(frame)])

    # What the cluster tells

    def peer_connected(self, member: int) -> None:
        self._unwatched(member)
        if self._watcher is not None:
            self._ask(member)

    def peer_lost(self, member: int) -> None:
        self._unwatched(member)
        self._look()

    def peer_removed(self, member: int) -> None:
        self._unwatched(member)
        self._seen.pop(member, None)

    def peer_received(self, member: int, payload: memoryview) -> None:
        if bytes(payload[:1]) != VERSION:
            raise PeerFault("events of an unknown version")
        match decoded(_DECODE, payload[1:]):
            case [1, int(process), int(seq)] if seq >= 0:
                self._watched(member, process, seq)
            case [2]:
                self._unwatched(member)
            case [3, *_] as frame:
                self._told(member, frame)
            case _:
                raise PeerFault("nothing about events")

    def stop(self) -> None:
        """The node stops."""
        self._watcher = None
        for member in list(self._sent):
            self._unwatched(member)
        for timer in (self._timer, self._asking):
            if timer is not None:
                timer.cancel()


def row_of(event: Event) -> bytes:
    row = _ENCODE((event.name, event.at_ms, event.properties))
    return row if len(row) <= ROW_BYTES_MAX else _ENCODE((event.name, event.at_ms, {}))


def told_of(frame: list[Any]) -> tuple[int, int, int, str, list[Row]]:
    """Process, number of the first, how many are lost before it, node, rows; PeerFault."""
    match frame:
        case [_, int(process), int(seq), int(lost), str(node), list(rows)] if seq > 0 and lost >= 0:
            if not all(isinstance(each, bytes) for each in rows):
                raise PeerFault("events that are none")
            return process, seq, lost, node, [decoded(_DECODE_ROW, memoryview(r)) for r in rows]
        case _:
            raise PeerFault("events that are none")
