"""A history of what clients did and saw, and the judgement of it: what the broker has lost, doubled
or brought in the wrong order. For tests, for chaos runs, and for users with such a history.

    with Recorder(path) as recorder:
        recorder.published("orders", "p1:17", publisher="p1")      # before it is sent
        recorder.confirmed("p1:17")                                # when the broker has said so
        recorder.delivered("orders", "p1:17", "c1", redelivered=False)
        recorder.settled("p1:17", "c1", "accept")                  # before it is sent
        recorder.answered("p1:17", "c1")                           # 1.0: the settlement came back
        recorder.fault("kill", "n2"); recorder.healed("kill", "n2")
        recorder.noted("leader", "orders", "n2")                   # not judged; for pictures
        recorder.noted("line", "c1", "2")              # nor that: it is connected to node 2
        recorder.attached("orders", "c1")              # c1 consumes, and is to get its share
        recorder.drained("orders")       # at the end: consumers found nothing more to take
    verdict = judge(read(path))

A history is JSON lines, one event each, in the order in which this process saw them; `at_ns` is its
monotonic clock. An id names a message for ever: `publisher:number`, numbers ascending. An event is
written before the act it tells of (publish, settle) or after the news (confirm, deliver, answer),
so that what the history says was under way is never less than what was. A line cut short at the
end (the recorder was killed) is passed over; any other bad line is a `BadHistory`.

What counts as wrong is listed at `Kind`. Memory: about 300 bytes for each message.
"""

import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from time import monotonic_ns
from types import TracebackType
from typing import Any, Final, TextIO

from warren.testing.starving import Starved, Starving

EXAMPLES_MAX: Final = 20  # of each kind are named; all are counted
LOSS_NS: Final = 5_000_000_000  # so long before or after it the loss of a consumer excuses order
OUTCOMES: Final = ("accept", "reject", "release", "modify")


class BadHistory(Exception):
    """Not a history, or one that contradicts itself: says in which line and how."""


class Kind(Enum):
    """What can be wrong."""

    LOST = "confirmed, and neither taken by a consumer nor still there at the end"
    STRANDED = "confirmed, still in the queue at the end, and not brought to those who consume"
    STALE_ACK = "gone by an acknowledgement of a consumer that did not hold it any more"
    PHANTOM = "delivered, and never published"
    DOUBLED = "delivered again although its settlement had been answered"
    REPEATED = "delivered again after an acknowledgement, without a fault in between"
    UNFLAGGED = "delivered again without the redelivered flag"
    REORDERED = "delivered to a consumer before an earlier message of the same publisher"
    WRONG_QUEUE = "delivered from a queue that it was not published to"
    UNREFUSED = "refused by the broker without a fault, and delivered all the same"
    STARVED = "a consumer got nothing for 20 s without a fault, while others of its queue did"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong. `line` is 1-based: where the history shows it."""

    kind: Kind
    message: str
    line: int
    detail: str


@dataclass(slots=True)
class Verdict:
    """What `judge` has found: the first of each kind, and how many there are of it."""

    published: int = 0
    confirmed: int = 0
    refused: int = 0
    taken: int = 0  # accepted or rejected by a consumer
    deliveries: int = 0
    redeliveries: int = 0
    unconfirmed_taken: int = 0  # never confirmed, and delivered: allowed
    faults: int = 0
    undrained: list[str] = field(default_factory=list)  # no node said that these were empty
    counts: dict[Kind, int] = field(default_factory=dict)
    lines: dict[Kind, list[int]] = field(default_factory=dict)  # of all findings
    findings: list[Finding] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not self.counts

    def add(self, kind: Kind, message: str, line: int, detail: str) -> None:
        count = self.counts.get(kind, 0)
        self.counts[kind] = count + 1
        self.lines.setdefault(kind, []).append(line)
        if count < EXAMPLES_MAX:
            self.findings.append(Finding(kind, message, line, detail))

    def format(self) -> str:
        """For people."""
        lines = [
            f"published {self.published}, confirmed {self.confirmed}, refused {self.refused}, "
            f"delivered {self.deliveries} ({self.redeliveries} again), taken {self.taken}, "
            f"taken without a confirm {self.unconfirmed_taken}, faults {self.faults}"
        ]
        if self.undrained:
            lines.append(
                "not drained at the end, so nothing lost can be found in: "
                + ", ".join(self.undrained)
            )
        for kind, count in self.counts.items():
            lines.append(f"{kind.name.lower()} {count}: {kind.value}")
            of_kind = [finding for finding in self.findings if finding.kind is kind]
            lines.extend(
                f"  line {finding.line}: {finding.message} {finding.detail}".rstrip()
                for finding in of_kind
            )
        if self.is_clean:
            lines.append("nothing lost, doubled or out of order")
        return "\n".join(lines)


class Recorder:
    """Writes a history. May be used by several threads."""

    def __init__(
        self, path: str | os.PathLike[str], clock: Callable[[], int] = monotonic_ns
    ) -> None:
        self._clock = clock
        self._file: TextIO = open(path, "a", encoding="utf-8")  # noqa: SIM115
        self._lock = threading.Lock()

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            self._file.close()

    def published(self, queue: str, message: str, publisher: str) -> None:
        """About to be sent. Once for each message, whatever is sent again by a client library."""
        self._write({"event": "published", "queue": queue, "id": message, "publisher": publisher})

    def confirmed(self, message: str) -> None:
        self._write({"event": "confirmed", "id": message})

    def refused(self, message: str) -> None:
        """Nacked, rejected, or returned: the broker says that it has not taken it."""
        self._write({"event": "refused", "id": message})

    def delivered(self, queue: str, message: str, consumer: str, redelivered: bool) -> None:
        self._write(
            {
                "event": "delivered",
                "queue": queue,
                "id": message,
                "consumer": consumer,
                "redelivered": redelivered,
            }
        )

    def settled(self, message: str, consumer: str, outcome: str) -> None:
        """About to be told to the broker: one of OUTCOMES."""
        assert outcome in OUTCOMES
        self._write({"event": "settled", "id": message, "consumer": consumer, "outcome": outcome})

    def answered(self, message: str, consumer: str) -> None:
        """The broker has confirmed the settlement."""
        self._write({"event": "answered", "id": message, "consumer": consumer})

    def attached(self, queue: str, consumer: str) -> None:
        """It consumes from now on, and all consumers of the queue that say this are alike: each is
        to get its share."""
        self._write({"event": "attached", "queue": queue, "consumer": consumer})

    def ended(self, consumer: str, clean: bool) -> None:
        """The consumer is over: what it holds, and what was on its way to it, goes back. `clean`:
        it is about to leave. Not `clean`: its connection broke, so that what it had settled right
        before may not have reached the broker."""
        self._write({"event": "ended", "consumer": consumer, "clean": clean})

    def fault(self, name: str, target: str) -> None:
        self._write({"event": "fault", "name": name, "target": target})

    def healed(self, name: str, target: str) -> None:
        self._write({"event": "healed", "name": name, "target": target})

    def noted(self, what: str, target: str, text: str) -> None:
        """Something for the picture of the run, such as a new leader; it is not judged."""
        self._write({"event": "noted", "what": what, "target": target, "text": text})

    def drained(self, queue: str, left: int = 0) -> None:
        """All faults are healed, consumers are there, and nothing more comes from the queue, which
        says that it holds `left` messages all the same."""
        self._write({"event": "drained", "queue": queue, "left": left})

    def _write(self, event: dict[str, Any]) -> None:
        with self._lock:
            event["at_ns"] = self._clock()
            self._file.write(json.dumps(event, separators=(",", ":")) + "\n")


def read(path: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    """The events of a history in order, each with its `line`. BadHistory."""
    with Path(path).open("rb") as file:
        yield from read_lines(file)


def read_lines(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The same of an open file."""
    import msgspec

    decode = msgspec.json.Decoder().decode
    for number, line in enumerate(lines, 1):
        if not line.endswith(b"\n"):
            return  # The recorder was killed in the midst of it.
        try:
            event = decode(line)
        except msgspec.DecodeError as error:
            raise BadHistory(f"line {number}: {error}") from None
        if not isinstance(event, dict) or not isinstance(event.get("event"), str):
            raise BadHistory(f"line {number}: no event")
        event["line"] = number
        yield event


@dataclass(slots=True)
class _Message:
    """What is known of one message."""

    queue: str
    publisher: str
    number: int
    line: int
    confirmed: bool = False
    refused: bool = False
    delivered: bool = False
    unflagged: bool = False  # delivered without the redelivered flag
    taken: bool = False
    answered: bool = False
    released: bool = False  # given back since its last delivery
    published_at: int = 0  # how many faults had begun or ended then
    settled_at: int = 0  # the same when it was accepted
    holder: str = ""  # the consumer of its last delivery, if that has not ended
    stale: str = ""  # the consumer that settled it without holding it


def judge(events: Iterable[dict[str, Any]], ordered: bool = True) -> Verdict:
    """Go through a history once. BadHistory: events that cannot have come about like this.

    Not `ordered`: no order is promised (priorities, several channels for one publisher).
    """
    judgement = _Judge(ordered)
    for event in events:
        judgement.take(event)
    return judgement.finish()


class _Judge:
    """The state of a history up to a line.

    Invariant: `_held[consumer]` are the messages whose `holder` that consumer is.
    """

    def __init__(self, ordered: bool) -> None:
        self._ordered = ordered
        self._verdict = Verdict()
        self._messages: dict[str, _Message] = {}
        self._held: dict[str, set[str]] = {}
        self._last: dict[tuple[str, str, str], int] = {}  # queue, publisher, consumer: number
        self._fault_count = 0  # faults begun or ended so far
        self._open_faults = 0
        self._drained: dict[str, int] = {}  # how many messages each queue says that it has left
        self._phantoms: set[str] = set()
        self._lost_ns = -LOSS_NS  # when a consumer was lost, or has left, the last time
        self._suspects: list[tuple[int, Finding]] = []  # out of order, if no consumer was lost then
        self._starving = Starving()

    def take(self, event: dict[str, Any]) -> None:
        line = event.get("line", 0)
        try:
            handler = getattr(self, f"_on_{event['event']}", None)
            if handler is None:
                raise BadHistory(f"line {line}: an event {event['event']!r}")
            handler(event, line)
            self._starve(self._starving.take(event, line))
        except KeyError as error:
            raise BadHistory(f"line {line}: no {error} in a {event.get('event')!r}") from None

    def finish(self) -> Verdict:
        verdict = self._verdict
        for _, found in self._suspects:
            verdict.add(found.kind, found.message, found.line, found.detail)
        for starved in self._starving.finish():
            self._starve(starved)
        queues = {message.queue for message in self._messages.values()}
        verdict.undrained = sorted(queues - self._drained.keys())
        missing: dict[str, list[str]] = {}
        for name, message in self._messages.items():
            if message.taken and not message.confirmed:
                verdict.unconfirmed_taken += 1
            if message.confirmed and not message.taken and message.queue in self._drained:
                missing.setdefault(message.queue, []).append(name)
        for queue, names in missing.items():
            self._miss(names, self._drained[queue])
        return verdict

    def _miss(self, names: list[str], left: int) -> None:
        """Confirmed messages of one queue that no consumer has taken, and how many it has left."""
        for name in names:
            message = self._messages[name]
            detail = "was delivered and given back" if message.delivered else "never delivered"
            kind = Kind.STRANDED if left >= len(names) else Kind.LOST
            if kind is Kind.LOST and message.stale:
                kind, detail = Kind.STALE_ACK, f"of {message.stale}"
            elif kind is Kind.LOST and left:
                detail += f"; or it is among the {left} that the queue has left"
            self._verdict.add(kind, name, message.line, detail)

    def _message(self, event: dict[str, Any], line: int) -> _Message:
        message = self._messages.get(event["id"])
        if message is None:
            raise BadHistory(f"line {line}: {event['event']} {event['id']!r}, never published")
        return message

    def _on_published(self, event: dict[str, Any], line: int) -> None:
        name = event["id"]
        if name in self._messages:
            raise BadHistory(f"line {line}: {name!r} is published twice")
        _, _, number = name.rpartition(":")
        if not number.isdecimal():
            raise BadHistory(f"line {line}: the id {name!r} does not end in a number")
        self._verdict.published += 1
        message = _Message(event["queue"], event["publisher"], int(number), line)
        message.published_at = self._faults_before()
        self._messages[name] = message
        self._drained.pop(message.queue, None)

    def _on_confirmed(self, event: dict[str, Any], line: int) -> None:
        message = self._message(event, line)
        if not message.confirmed:
            message.confirmed = True
            self._verdict.confirmed += 1

    def _on_refused(self, event: dict[str, Any], line: int) -> None:
        message = self._message(event, line)
        self._verdict.refused += 1
        if self._fault_since(message.published_at):
            return  # It only says that the outcome of the message is unknown.
        message.refused = True
        if message.delivered:
            self._verdict.add(Kind.UNREFUSED, event["id"], line, "")

    def _on_delivered(self, event: dict[str, Any], line: int) -> None:
        verdict = self._verdict
        verdict.deliveries += 1
        name, consumer = event["id"], event["consumer"]
        message = self._messages.get(name)
        if message is None:
            self._phantoms.add(name)
            verdict.add(Kind.PHANTOM, name, line, f"to {consumer}")
            return
        if message.queue != event["queue"]:
            verdict.add(Kind.WRONG_QUEUE, name, line, f"from {event['queue']}")
        if message.refused:
            verdict.add(Kind.UNREFUSED, name, line, f"to {consumer}")
        if message.delivered:
            self._again(message, event, line)
        else:
            self._first_time(message, event, line)
        message.delivered = True
        message.unflagged = message.unflagged or not event["redelivered"]
        message.released = False
        self._hold(message, name, consumer)

    def _first_time(self, message: _Message, event: dict[str, Any], line: int) -> None:
        if event["redelivered"] or not self._ordered:
            return  # It may have been delivered to a connection that broke on the way.
        key = (message.queue, message.publisher, event["consumer"])
        last = self._last.get(key, -1)
        at_ns = event["at_ns"]
        if message.number < last and at_ns - self._lost_ns >= LOSS_NS:
            # It may have been on its way to one that has left, or whose loss is heard of later.
            detail = f"after number {last} to {event['consumer']}"
            found = Finding(Kind.REORDERED, event["id"], line, detail)
            self._suspects.append((at_ns, found))
        self._last[key] = max(last, message.number)

    def _again(self, message: _Message, event: dict[str, Any], line: int) -> None:
        verdict = self._verdict
        verdict.redeliveries += 1
        name, detail = event["id"], f"to {event['consumer']}"
        if message.answered:
            verdict.add(Kind.DOUBLED, name, line, detail)
        elif message.taken and not self._fault_since(message.settled_at):
            verdict.add(Kind.REPEATED, name, line, detail)
        if not event["redelivered"] and message.unflagged:
            # Of two connections the news of the second delivery may be read before the first.
            verdict.add(Kind.UNFLAGGED, name, line, detail)

    def _faults_before(self) -> int:
        """What `_fault_since` is to be asked with later; a fault that goes on counts as one."""
        return self._fault_count - (self._open_faults > 0)

    def _fault_since(self, count: int) -> bool:
        """Whether a fault was there when `count` had been counted, or has come since."""
        return self._open_faults > 0 or self._fault_count > count

    def _hold(self, message: _Message, name: str, consumer: str) -> None:
        self._let_go(message, name)
        message.holder = consumer
        self._held.setdefault(consumer, set()).add(name)

    def _let_go(self, message: _Message, name: str) -> None:
        if message.holder:
            self._held[message.holder].discard(name)
            message.holder = ""

    def _on_settled(self, event: dict[str, Any], line: int) -> None:
        if event["id"] in self._phantoms:
            return
        message = self._message(event, line)
        if event["outcome"] not in OUTCOMES:
            raise BadHistory(f"line {line}: the outcome {event['outcome']!r}")
        if message.holder != event["consumer"]:
            if event["outcome"] in ("accept", "reject"):
                message.stale = event["consumer"]
            return  # Another one has it by now: this acknowledgement comes too late to count.
        self._let_go(message, event["id"])
        if event["outcome"] in ("accept", "reject"):
            if not message.taken:
                self._verdict.taken += 1
            message.taken = True
            message.settled_at = self._faults_before()
        else:
            message.released = True

    def _on_answered(self, event: dict[str, Any], line: int) -> None:
        message = self._message(event, line)
        if message.taken:
            message.answered = True

    def _on_ended(self, event: dict[str, Any], line: int) -> None:
        del line
        self._lost_ns = event["at_ns"]
        if not event["clean"]:
            self._fault_count += 1
            self._suspects = [each for each in self._suspects if self._lost_ns - each[0] >= LOSS_NS]
        for name in self._held.pop(event["consumer"], set()):
            self._messages[name].holder = ""

    def _on_noted(self, event: dict[str, Any], line: int) -> None:
        """For people."""

    def _on_attached(self, event: dict[str, Any], line: int) -> None:
        """See `Starving`."""

    def _starve(self, starved: Starved | None) -> None:
        if starved is not None:
            detail = f"of {starved.queue}: for {starved.calm_s:.0f} s, {starved.passed} passed by"
            self._verdict.add(Kind.STARVED, starved.consumer, starved.since_line, detail)

    def _on_fault(self, event: dict[str, Any], line: int) -> None:
        del line
        self._verdict.faults += 1
        self._fault_count += 1
        self._open_faults += 1
        self._last.clear()  # What was under way then may come before what is older.

    def _on_healed(self, event: dict[str, Any], line: int) -> None:
        if self._open_faults == 0:
            raise BadHistory(f"line {line}: {event['name']} of {event['target']} never began")
        self._open_faults -= 1
        self._fault_count += 1
        self._last.clear()

    def _on_drained(self, event: dict[str, Any], line: int) -> None:
        left = event.get("left", 0)
        if not isinstance(left, int):
            raise BadHistory(f"line {line}: {left!r} messages left")
        self._drained[event["queue"]] = left
