"""The part of an `DeadLetterPublisher` that is not asked where letters go at most once."""

from queues.hosts.host_interfaces import Addressed
from queues.machine.commands import SessionId
from queues.message import Chunk


class AtMostOnce:
    """A default for fakes: every call is an error."""

    def new_session(self) -> SessionId:
        raise AssertionError("no test publishes these letters")

    def address(self, chunk: Chunk, index: int, reason: str) -> Addressed:
        raise AssertionError("no test publishes these letters")

    def queues_now(self, width: int) -> int:
        raise AssertionError("no test publishes these letters")

    def is_spent(self) -> bool:
        return False

    def note_pending_dead_letters(self, reason: str, count: int) -> None:
        raise AssertionError("they are not kept")

    def note_confirmed(self, count: int) -> None:
        raise AssertionError("no test waits for confirms")
