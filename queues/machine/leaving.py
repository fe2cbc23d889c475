"""Messages that are on their way out of the queue, in the order in which they go. Compiled.

Takes runs of messages that are in no other set of the machine any more; gives sets with the reason
why they leave. They are still in the queue: the machine lets them go slice by slice, so that a
backlog that expires or is purged at once delays no other work.
"""

from collections import deque
from typing import final

from mypy_extensions import i64

from queues.machine.commands import SessionId
from queues.machine.delays import Delays
from queues.machine.effects import LEFT_REPLACED
from queues.machine.notes import Notes
from queues.runs.seqset import SeqSet


@final
class Leaving:
    """Messages that are out of `ready` and leave the queue slice by slice."""

    def __init__(self, seqs: SeqSet, reason: i64) -> None:
        self.seqs = seqs
        self.reason: i64 = reason
        # How many a purge took; its session gets the answer when all are gone.
        self.purged: i64 = -1
        self.session = SessionId(0)


def begin_leave(line: deque[Leaving], first: i64, count: i64, reason: i64) -> None:
    """Messages first.. are the last in line."""
    last = line[len(line) - 1] if len(line) > 0 else None
    if last is None or last.reason != reason or last.purged >= 0:
        last = Leaving(SeqSet(), reason)
        line.append(last)
    last.seqs.add(first, count)


def leave_at_once(line: deque[Leaving], seqs: SeqSet, reason: i64) -> None:
    """The same for many messages, which costs little where they are the first to go so."""
    last = line[len(line) - 1] if len(line) > 0 else None
    if last is None or last.reason != reason or last.purged >= 0:
        line.append(Leaving(seqs, reason))
        return
    for first, count in seqs.runs():
        last.seqs.add(first, count)


def leave_replaced(leaving: deque[Leaving], notes: Notes, delays: Delays | None, old: i64) -> None:
    """A newer message has the key of this one, which leaves unless a consumer holds it."""
    if len(notes.ready.remove(old, 1)) > 0:
        notes.taken(old, 1)
        begin_leave(leaving, old, 1, LEFT_REPLACED)
    elif delays is not None and len(delays.remove(old, 1)) > 0:
        begin_leave(leaving, old, 1, LEFT_REPLACED)
