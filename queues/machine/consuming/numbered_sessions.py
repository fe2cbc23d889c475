"""Sessions whose commands bear numbers, as the machine of a quorum queue knows them (0036).

A session's proxy numbers what it hands down to the queue, from 1, and sends it again to a new
leader; the machine applies each number once. Of a session it keeps the last number, the answer to
the last command that asked for one, and which publishes were refused that the proxy has not heard
of. `Resume` is what a proxy wants to know of a new leader, `Resumed` what the machine says: nothing
of it goes through the log, and nothing counts as redelivered by it. Compiled.
"""

from typing import Final, final

from mypy_extensions import i64

from queues.machine.commands import (
    ATTACH,
    DETACH,
    GET,
    INSPECT,
    PURGE,
    QUERY_TRACKING,
    RETIRE,
    STORE_OFFSETS,
    Command,
    Credit,
    Numbered,
    SessionId,
    process_of,
    session_of,
)
from queues.machine.effects import (
    Applied,
    Attached,
    AttachRefused,
    Detached,
    Drained,
    Effect,
    Got,
    Inspected,
    Purged,
)
from queues.runs.seqset import SeqSet

TAKEN: Final = 0  # by `admit`; else what is wanted instead, or
KNOWN: Final = -1  # it has been applied before
NO_SESSION: Final = SessionId(0)
ENDED_MAX: Final = 64


@final
class Resume:
    """Asked for a session: `wanted` are its consumers that were let in or may have been, each with
    the delivery_seq that it wants next."""

    def __init__(
        self, session: SessionId, asked: i64, confirmed: i64, wanted: list[tuple[int, int]]
    ) -> None:
        self.session = session
        self.asked: i64 = asked  # number of the command whose answer is waited for, or 0
        self.confirmed: i64 = confirmed  # highest publish whose outcome the session has
        self.wanted = wanted  # (number of the consumer, next delivery_seq)


@final
class Resumed:
    """How the session stands. `effects`, in order: what was refused since, deliveries that were
    not seen, who is active, and the answer that is waited for, if there is one."""

    def __init__(self, session: SessionId, number: i64, published: i64) -> None:
        self.session = session
        self.number: i64 = number  # of the last command that was applied; 0: unknown
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

    def know(self, confirmed: i64) -> None:
        """The proxy has heard of all publishes up to this one."""
        refused = self.refused
        if refused is not None and refused.first() <= confirmed:
            refused.split_below(confirmed + 1)
            if refused.count == 0:
                self.refused = None


@final
class Streams:
    """All sessions of a machine, and what it must know of the nodes that they are on.

    Invariant: `_asking` are the streams with `answered < asked`.
    """

    def __init__(self) -> None:
        self.by_session: dict[SessionId, Stream] = {}
        self.order: i64 = (
            0  # of the last assignment to a consumer (`queues.machine.consuming.checked_out`)
        )
        # Processes that cannot be reached: when what they hold is returned; FAR: it has been
        self.suspended: dict[int, int] = {}
        self.ended: list[int] = []  # processes that were given up last: nothing of theirs counts
        self._asking: dict[SessionId, Stream] = {}
        self._applied: dict[SessionId, int] = {}  # in this batch

    def admit(self, command: Numbered, is_partial: bool = False) -> i64:
        """Whether it is to be applied now: TAKEN, KNOWN, or the number that is to come first.

        `is_partial`: sessions may have begun before the entries that the machine gets.
        """
        session = command.session
        stream = self.by_session.get(session)
        last: i64 = 0
        if stream is not None:
            last = stream.number
        elif is_partial:
            last = command.number - 1
        if command.number != last + 1:
            if command.number > last:
                return last + 1
            self._applied[session] = last
            return KNOWN
        if process_of(session) in self.ended:
            return KNOWN
        if stream is None:
            stream = Stream()
            self.by_session[session] = stream
        stream.number = command.number
        stream.know(command.confirmed)
        if asks(command.command):
            stream.asked = command.number
            self._asking[session] = stream
        self._applied[session] = command.number
        return TAKEN

    def last_number(self, session: SessionId) -> i64:
        """Of the session's last command; 0: there was none."""
        stream = self.by_session.get(session)
        return 0 if stream is None else stream.number

    def restore(self, session: SessionId, stream: Stream) -> None:
        """As a snapshot has it."""
        self.by_session[session] = stream
        if stream.answered < stream.asked:
            self._asking[session] = stream

    def end_process(self, process: int) -> None:
        """Its sessions are over, and no new one begins: what comes was under way."""
        self.suspended.pop(process, None)
        if process not in self.ended:
            self.ended.append(process)
            del self.ended[:-ENDED_MAX]

    def end(self, session: SessionId) -> None:
        self.by_session.pop(session, None)
        self._asking.pop(session, None)

    def refuse(self, session: SessionId, first: i64, count: i64) -> None:
        """Publishes that were not taken: when they come again, they are refused again."""
        stream = self.by_session.get(session)
        if stream is not None:
            if stream.refused is None:
                stream.refused = SeqSet()
            stream.refused.add(first, count)

    def end_batch(self, effects: list[Effect]) -> None:
        """Keep the answers that the batch has brought, and say what was applied."""
        if len(self._asking) > 0:
            for effect in effects:
                stream = self._asking.get(session_answered(effect))
                if stream is not None:
                    stream.answer = effect
                    stream.answered = stream.asked
            self._asking = {
                session: each
                for session, each in self._asking.items()
                if each.answered < each.asked
            }
        if len(self._applied) > 0:
            for session, number in self._applied.items():
                effects.append(Applied(session, number))
            self._applied = {}


def asks(command: Command) -> bool:
    """Whether it is answered, beyond its being applied."""
    kind = command.kind
    if kind in (ATTACH, DETACH, GET, PURGE, INSPECT, RETIRE, STORE_OFFSETS, QUERY_TRACKING):
        return True
    return isinstance(command, Credit) and command.drain


def session_answered(effect: Effect) -> SessionId:
    """Whose command this answers; NO_SESSION: it is no answer."""
    if isinstance(effect, (Got, Purged, Inspected)):
        return effect.session
    if isinstance(effect, (Attached, AttachRefused, Detached, Drained)):
        return session_of(effect.key)
    return NO_SESSION
