"""Sessions whose commands bear numbers, as the machine of a quorum queue knows them (0036, 0042).

A session's proxy numbers what it hands down to the queue, from 1, and sends it again to a new
leader; the machine applies each number once. Of a session it keeps the last number, the answer to
the last command that asked for one, and which publishes were refused that the proxy has not heard
of. `Resume` is what a proxy wants to know of a new leader, `Resumed` what the machine says: nothing
of it goes through the log, and nothing counts as redelivered by it. Compiled.
"""

from typing import final

from mypy_extensions import i64

from queues.commands import SessionId
from queues.effects import Effect
from queues.seqset import SeqSet


@final
class Resume:
    """Asked for a session: `wanted` are its consumers that were let in or may have been, each with
    the delivery_seq that it wants next."""

    def __init__(
        self, session: SessionId, asked: i64, confirmed: i64, wanted: list[tuple[int, int]]
    ) -> None:
        self.session = session
        self.asked: i64 = asked  # number of the command whose answer is waited for, or 0
        self.confirmed: i64 = confirmed  # highest publish that the session was told of
        self.wanted = wanted  # (number of the consumer, next delivery_seq)


@final
class Resumed:
    """How the session stands. `effects`, in order: what was refused since, deliveries that were
    not seen, who is active, and the answer that is waited for, if there is one."""

    def __init__(self, session: SessionId, number: i64, published: i64) -> None:
        self.session = session
        self.number: i64 = number  # of the last command that was applied; 0: nobody knows it
        self.published: i64 = published  # highest publish: decided up to there
        self.effects: list[Effect] = []


@final
class Stream:
    """What the machine keeps of one session."""

    def __init__(self) -> None:
        self.number: i64 = 0  # of the last command that was applied
        self.asked: i64 = 0  # of the last one that wants an answer
        self.answered: i64 = 0  # of the one that `answer` is for
        self.answer: Effect | None = None
        self.refused: SeqSet | None = None  # publishes that the proxy may not have heard of
