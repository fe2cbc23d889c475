"""What a queue host needs of those around it: who steps and wakes it, and who takes its dead.

The turn of the loop keeps `Steps`, and steps whatever is `Steppable`; timers wake what is `Waking`.
Compiled.
"""

from typing import TYPE_CHECKING, Final, Protocol, final

from mypy_extensions import i64

from queues.machine.commands import SessionId
from queues.machine.effects import SlowConsumer
from queues.message import Chunk

if TYPE_CHECKING:
    from queues.queue_host import QueueHost

HELD: Final = -1  # answer of `DeadLetterPublisher.bury`


class Steppable(Protocol):
    """What a turn steps."""

    def step(self, now_ms: i64) -> None: ...


class Waking(Protocol):
    """What a timer wakes."""

    def on_timer(self) -> None: ...

    @property
    def is_gone(self) -> bool: ...


class BodyOwner(Steppable, Waking, Protocol):
    """A queue whose bodies are read from disk (`QueueCore`)."""

    name: str
    vhost: str

    @property
    def uid(self) -> int: ...

    def loaded(self, chunk: Chunk, data: bytes) -> None:
        """The bytes asked for by `Steps.load` are here."""

    def load_failed(self, chunk: Chunk) -> None:
        """The bytes cannot be read."""

    def release(self, first: i64, count: i64) -> None:
        """These messages are settled: their bodies are not needed any more."""


class Steps(Protocol):
    """Who steps the hosts at the end of a turn of the loop."""

    def mark_host(self, host: Steppable) -> None: ...

    def mark_host_later(self, host: Steppable) -> None:
        """Step it in the next turn: there is more to do than fits into this one."""

    def wake_host(self, host: Waking, due_ms: int) -> None:
        """Call `host.on_timer()` at that time."""

    def queue_unused(self, uid: int) -> None:
        """The queue is to be deleted: its last consumer is gone, or its time is over."""

    def consumer_slow(self, uid: int, effect: SlowConsumer) -> None:
        """Tell operators that a consumer of the queue is slow."""

    def load(self, owner: BodyOwner, chunk: Chunk) -> None:
        """Read the chunk's bytes from its file, then call `owner.loaded` or `load_failed`."""


@final
class Addressed:
    """One dead letter, and the queues that it is to go to now.

    `goes_round`: other queues are bound that it may not go to, because it died there before or has
    made too many hops. `is_held`: it must wait for the end of a resource alarm.
    """

    def __init__(
        self, chunk: Chunk, hosts: "list[QueueHost]", goes_round: bool, is_held: bool
    ) -> None:
        self.chunk = chunk
        self.hosts = hosts
        self.goes_round = goes_round
        self.is_held = is_held


class DeadLetterPublisher(Protocol):
    """Where the dead letters of one queue go."""

    def bury(self, chunk: Chunk, index: int, count: int, reason: str, first: int) -> int:
        """Publish dead letters of messages index.. of the chunk, whose bytes are in memory, and
        which the queue numbers first...

        Return how many messages it took: 0 if the rest must wait for the next turn, HELD if it
        must wait for the end of a resource alarm. A message is taken when all queues have its
        letter.
        """

    def close(self) -> None:
        """The queue is gone, or has another one now."""

    # For a `AtLeastOnceWorker`, which publishes them itself

    def is_spent(self) -> bool:
        """Whether this turn has no time left for `address`, which routes."""

    def new_session(self) -> SessionId:
        """One that was never used."""

    def address(self, chunk: Chunk, index: int, reason: str) -> Addressed | None:
        """The dead letter of message `index` of the chunk, whose bytes are in memory.

        None: this turn has no time for all its routing keys, or for hosts of all its queues; ask
        again in the next one.
        """

    def queues_now(self, width: int) -> int:
        """To how many queues of `width` a letter may go in this turn. They are taken from what the
        turn has for all messages that go to many queues."""

    def note_pending_dead_letters(self, reason: str, count: int) -> None:
        """So many messages died for this reason, and are to be dead-lettered at least once."""

    def note_confirmed(self, count: int) -> None:
        """So many letters are safe."""
