"""Commands of this node on their way into the log of the definitions, and the answers to them.

Takes commands in the order in which they are proposed; gives numbered batches for the leader, the
same ones again until they are applied, and tells each proposer the outcome once the batch is
applied here and by every node that must apply it first. No I/O, no clock: `now_ms` is monotonic.

Limits: WINDOW batches are under way, of at most BATCH_COMMANDS and about BATCH_BYTES; behind them
WAITING_MAX commands of at most WAITING_BYTES wait. What is beyond is refused at once. Who was not
answered for `answer_ms` gets a timeout, and the command is dropped, unless it clears away what is
gone (`is_kept`). A batch that has a number is sent on with nothing in the place of that command: a
leader that has the batch already may still commit it. A member that lags for LAG_MS behind what is
committed is not waited for any longer.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, final

from msgspec.structs import replace

from node.cluster.definitions.definitions_frames import Forwarded
from node.cluster.definitions.definitions_interface import TIMED_OUT
from node.events.authors import BROKER, Author
from queues.definitions.metadata.cluster import Batches
from queues.definitions.metadata.commands import (
    Batch,
    Command,
    DeleteByNode,
    DeleteByOwner,
    DeleteQueue,
    NodeDown,
    NodeUp,
    Numbered,
    decode,
    encode,
)
from queues.definitions.metadata.outcomes import Batched, Outcome, Refused
from warren.wire.errors import ReplyCode

WINDOW: Final = 8
BATCH_COMMANDS: Final = 256
BATCH_BYTES: Final = 1 << 16
WAITING_MAX: Final = 20_000
WAITING_BYTES: Final = 32 << 20
ANSWER_MS: Final = 15_000
LAG_MS: Final = 5_000
NOTHING: Final = Batch(())  # a command that changes nothing

Done = Callable[[Outcome], None]
Answer = tuple[Done, Outcome, Mapping[int, int]]  # and what was ready in queues that went, by uid

FULL: Final = Refused(ReplyCode.RESOURCE_ERROR, "too many changes of definitions are under way")
GIVEN_UP: Final = Refused(
    ReplyCode.INTERNAL_ERROR, "this node was cut off from its cluster, and restarts"
)


@final
class Waiting:
    """A command, and who wants to know of it."""

    __slots__ = ("author", "byte_count", "command", "done", "due_ms", "is_kept")

    def __init__(
        self, command: Command, done: Done | None, due_ms: int, byte_count: int, author: Author
    ) -> None:
        self.author = author
        self.command = command
        self.done = done
        self.due_ms = due_ms
        self.byte_count = byte_count
        self.is_kept = is_kept(command)


@final
class Sent:
    """A batch with its number."""

    __slots__ = ("forwarded", "waiting")

    def __init__(self, forwarded: Forwarded, waiting: list[Waiting]) -> None:
        self.forwarded = forwarded
        self.waiting = waiting

    def withdraw(self, places: Sequence[int]) -> None:
        """Send nothing in the place of these commands from now on. The machine applies the batch
        once, so a leader that has it as it was does no harm."""
        numbered = decode(self.forwarded.content)
        assert isinstance(numbered, Numbered)
        left = list(numbered.commands)
        for place in places:
            left[place] = NOTHING
        content = encode(replace(numbered, commands=tuple(left)))
        old = self.forwarded
        self.forwarded = Forwarded(old.process, old.number, old.command_count, content)


@final
class Settled:
    """A batch that is applied here, in the entry at `index`, and is not answered yet."""

    __slots__ = ("answers", "due_ms", "index")

    def __init__(self, index: int, due_ms: int, answers: list[Answer]) -> None:
        self.index = index
        self.due_ms = due_ms
        self.answers = answers


class Outbox:
    """Invariant: `_sent` has the batches that are not applied here, their numbers without a gap up
    to `_number`; `_settled` ascends by index."""

    def __init__(self, process: int, answer_ms: int = ANSWER_MS) -> None:
        self.process = process
        self.on_applied: Callable[[Outcome, Author], None] = untold
        self._answer_ms = answer_ms
        self._number = 0
        self._queued: deque[Waiting] = deque()
        self._queued_bytes = 0
        self._sent: deque[Sent] = deque()
        self._settled: deque[Settled] = deque()
        self._refused: list[Answer] = []
        self.unwaited_index = 0  # up to there answers were given though a member lags behind

    @property
    def waiting_count(self) -> int:
        """Commands that are not answered."""
        sent = sum(len(each.waiting) for each in self._sent)
        settled = sum(len(each.answers) for each in self._settled)
        return len(self._queued) + sent + settled + len(self._refused)

    @property
    def open(self) -> Sequence[Sent]:
        """Batches that are not applied here, in order: for a leader that may not have them."""
        return self._sent

    @property
    def next_index(self) -> int:
        """The entry that answers wait for; 0: they do not."""
        return self._settled[0].index if self._settled else 0

    def add(
        self, command: Command, done: Done | None, now_ms: int, author: Author = BROKER
    ) -> None:
        """A command to be committed."""
        due_ms = now_ms + self._answer_ms
        waiting = Waiting(command, done, due_ms, len(encode(command)), author)
        is_full = len(self._queued) >= WAITING_MAX or self._queued_bytes > WAITING_BYTES
        if is_full and not waiting.is_kept:
            if done is not None:
                self._refused.append((done, FULL, {}))
            return
        self._queued.append(waiting)
        self._queued_bytes += waiting.byte_count

    def form(self) -> list[Sent]:
        """New batches, as far as the window allows."""
        formed: list[Sent] = []
        while self._queued and len(self._sent) < WINDOW:
            sent = self._batch()
            self._sent.append(sent)
            formed.append(sent)
        return formed

    def _batch(self) -> Sent:
        chosen: list[Waiting] = []
        byte_count = 0
        while self._queued and len(chosen) < BATCH_COMMANDS and byte_count < BATCH_BYTES:
            waiting = self._queued.popleft()
            self._queued_bytes -= waiting.byte_count
            byte_count += waiting.byte_count
            chosen.append(waiting)
        answered = self._sent[0].forwarded.number - 1 if self._sent else self._number
        self._number += 1
        commands = tuple(each.command for each in chosen)
        content = encode(Numbered(self.process, self._number, answered, commands))
        return Sent(Forwarded(self.process, self._number, len(chosen), content), chosen)

    # What became of them

    def applied(
        self, index: int, number: int, outcome: Outcome, removed: Mapping[int, int], now_ms: int
    ) -> None:
        """A batch of this process was in the entry at `index`, perhaps not for the first time."""
        if not isinstance(outcome, Batched) or not outcome.outcomes:
            return  # It was none of its turn, or the process has ended.
        sent = self._sent.popleft()
        assert sent.forwarded.number == number
        self._settle(index, sent, outcome.outcomes, removed, now_ms)

    def passed_over(self, index: int, known: Batches, now_ms: int) -> None:
        """The state has become what it is at `index` by a snapshot."""
        while self._sent and self._sent[0].forwarded.number <= known.last:
            sent = self._sent.popleft()
            self._settle(index, sent, known.outcomes[sent.forwarded.number], {}, now_ms)

    def _settle(
        self,
        index: int,
        sent: Sent,
        outcomes: tuple[Outcome, ...],
        removed: Mapping[int, int],
        now_ms: int,
    ) -> None:
        answers: list[Answer] = []
        for waiting, outcome in zip(sent.waiting, outcomes, strict=True):
            self.on_applied(outcome, waiting.author)
            if waiting.done is not None:
                answers.append((waiting.done, outcome, removed))
        if answers:
            self._settled.append(Settled(index, now_ms + LAG_MS, answers))

    def take_answers(self, everywhere_index: int, now_ms: int) -> list[Answer]:
        """Those that can be given: all who are to be waited for have applied up to there."""
        answers = self._refused
        self._refused = []
        settled = self._settled
        while settled and (settled[0].index <= everywhere_index or settled[0].due_ms <= now_ms):
            first = settled.popleft()
            answers += first.answers
            if first.index > everywhere_index:
                self.unwaited_index = first.index
        return answers

    def expire(self, now_ms: int) -> None:
        """Callers that waited too long get a timeout, by the next `take_answers`."""
        for sent in self._sent:
            late = [
                at
                for at, waiting in enumerate(sent.waiting)
                if waiting.done is not None and self._time_out(waiting, now_ms)
            ]
            if late:
                sent.withdraw(late)
        if self._queued and any(each.due_ms <= now_ms for each in self._queued):
            left = [each for each in self._queued if not self._time_out(each, now_ms)]
            self._queued = deque(left)
            self._queued_bytes = sum(each.byte_count for each in left)

    def _time_out(self, waiting: Waiting, now_ms: int) -> bool:
        if waiting.due_ms > now_ms or waiting.is_kept:
            return False
        if waiting.done is not None:
            self._refused.append((waiting.done, timed_out(waiting.command), {}))
            waiting.done = None
        return True

    def begin_anew(self, process: int) -> None:
        """This node's process was given up by the others: it goes on as another one, with nothing
        under way."""
        lost = [each for sent in self._sent for each in sent.waiting]
        lost += self._queued
        for waiting in lost:
            if waiting.done is not None:
                self._refused.append((waiting.done, GIVEN_UP, {}))
        self.process = process
        self._number = 0
        self._sent.clear()
        self._queued.clear()
        self._queued_bytes = 0


def is_kept(command: Command) -> bool:
    """Whether it is to come into the log however long that takes: what it clears away is gone. A
    client's own deletion of a queue names its connection, and waits no longer than a declare."""
    if isinstance(command, DeleteQueue):
        return command.uid != 0 and command.connection == ""
    return isinstance(command, (NodeUp, NodeDown, DeleteByOwner, DeleteByNode))


def timed_out(command: Command) -> Refused:
    """What RabbitMQ says when its metadata store has no majority."""
    what = VERBS.get(type(command).__name__, "")
    name = getattr(command, "name", "")
    vhost = getattr(command, "vhost", "")
    text = f"failed to {what or 'change definitions'}"
    if what and name:
        text += f" '{name}'"
    if what and vhost:
        text += f" in vhost '{vhost}'"
    return Refused(ReplyCode.INTERNAL_ERROR, f"{text} {TIMED_OUT}")


def untold(outcome: Outcome, author: Author) -> None:
    """No caller waits for what was applied."""


VERBS: Final = {
    "DeclareVhost": "declare vhost",
    "DeleteVhost": "delete vhost",
    "DeclareExchange": "declare exchange",
    "DeleteExchange": "delete exchange",
    "DeclareQueue": "declare queue",
    "DeleteQueue": "delete queue",
    "Bind": "add binding",
    "Unbind": "remove binding",
}
