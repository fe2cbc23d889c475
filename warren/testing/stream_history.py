"""What publishers and readers of a stream saw, and the judgement of it. For tests and for users.

    history = StreamHistory()
    history.published("p1:17")                # before it is sent
    history.confirmed("p1:17")                # when the broker has said so
    history.read("n2", 41, "p1:17")           # a reader on node n2 got it at offset 41
    findings = history.judge(readers=("n1", "n2", "n3"))

A stream keeps what it has: an offset is one message for ever, on every member. Readers begin at the
first offset, and read to the end when all is well again; so each of them must have everything that
was confirmed. An id names a message for ever, and is published once (a publisher that repeats what
it did not see confirmed uses publishing ids, and the same id here).
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

EXAMPLES_MAX: Final = 20  # of each kind are named


class StreamKind(Enum):
    """What can be wrong."""

    GAP = "a reader got an offset that does not follow the one before"
    AGAIN = "a reader got an offset twice, or a lower one"
    CHANGED = "an offset is another message than it was to a reader before"
    DOUBLED = "a message has two offsets"
    PHANTOM = "read, and never published"
    LOST = "confirmed, and not read by a reader that came to the end"
    SHORT = "a reader has not come as far as another one"


@dataclass(frozen=True, slots=True)
class StreamFinding:
    kind: StreamKind
    reader: str
    offset: int
    message: str


class StreamHistory:
    """See the module. Memory: about 300 bytes for each message and reader."""

    def __init__(self) -> None:
        self._published: set[str] = set()
        self._confirmed: set[str] = set()
        self._read: dict[str, list[tuple[int, str]]] = {}

    def published(self, message: str) -> None:
        self._published.add(message)

    def confirmed(self, message: str) -> None:
        self._confirmed.add(message)

    def read(self, reader: str, offset: int, message: str) -> None:
        self._read.setdefault(reader, []).append((offset, message))

    @property
    def confirmed_count(self) -> int:
        return len(self._confirmed)

    def judge(self, readers: tuple[str, ...]) -> list[StreamFinding]:
        """What is wrong, the first of each kind; `readers` are those that must have read all."""
        findings: list[StreamFinding] = []
        by_offset: dict[int, str] = {}
        by_message: dict[str, int] = {}
        for reader, rows in self._read.items():
            before = -1
            for offset, message in rows:
                if offset <= before:
                    findings.append(StreamFinding(StreamKind.AGAIN, reader, offset, message))
                elif offset > before + 1:
                    findings.append(StreamFinding(StreamKind.GAP, reader, offset, message))
                before = max(before, offset)
                if by_offset.setdefault(offset, message) != message:
                    findings.append(StreamFinding(StreamKind.CHANGED, reader, offset, message))
                if by_message.setdefault(message, offset) != offset:
                    findings.append(StreamFinding(StreamKind.DOUBLED, reader, offset, message))
                if message not in self._published:
                    findings.append(StreamFinding(StreamKind.PHANTOM, reader, offset, message))
        end = max(by_offset, default=-1)
        for reader in readers:
            rows = self._read.get(reader, [])
            last = max((offset for offset, _ in rows), default=-1)
            if last < end:
                findings.append(StreamFinding(StreamKind.SHORT, reader, last, ""))
            for message in sorted(self._confirmed - {each for _, each in rows}):
                findings.append(StreamFinding(StreamKind.LOST, reader, -1, message))
        return first_of_each(findings)


def first_of_each(findings: list[StreamFinding]) -> list[StreamFinding]:
    counts: dict[StreamKind, int] = {}
    kept = []
    for each in findings:
        counts[each.kind] = counts.get(each.kind, 0) + 1
        if counts[each.kind] <= EXAMPLES_MAX:
            kept.append(each)
    return kept
