"""Queues that the log does not hold whole: not served, until an operator accepts the loss.

`Damages` learns at start which queues are hit (`node.recovery.log_owners.Recovered`), and puts a
`CrashedHost`
in the place of each: what is published to it is refused, and a client of it is answered
404 as by RabbitMQ for a queue that has crashed. Its messages stay in the log as they are
(`Wal.freeze`). `accept` serves the queue with what could be read, and writes that down so that
the same place does not stop it again: a CHECKPOINT, for a quorum queue a snapshot
(docs/decisions/0015).
"""

import logging
import os
from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from node.events.logs import ids_of
from queues.hosts.classic import ClassicHost
from queues.hosts.host_interfaces import Steps
from queues.hosts.queue_core import QueueCore
from queues.machine.commands import Attach, Command, EndSession, Get, Inspect, Purge, Retire
from queues.message import Chunk
from queues.queue_host import QueueHost, SessionSink, View
from queues.sessions.credit import CreditActor
from warren.storage.record import CorruptRecord
from warren.storage.recovery.recovery import RecoveryReport
from warren.wire.errors import ProtocolError, ReplyCode

log = logging.getLogger("warren.damage")

Done = Callable[[], None]


class LostDefinitions(Exception):
    """Entries of the metadata group are missing: it is unknown which queues there are."""


class Owners(Protocol):
    """What it needs of the log."""

    @property
    def appended_lsn(self) -> int: ...

    def freeze(self, owner: int) -> None: ...

    def thaw(self, owner: int) -> None: ...

    def append_checkpoint(self, owner: int, live: Sequence[tuple[int, int]]) -> object: ...


class Damage(Struct, frozen=True):
    """Why a queue is not served, and what the log still says of it."""

    reason: str
    places: tuple[CorruptRecord, ...]
    last_seq: int
    mark: int


class Crashed(Protocol):
    """A queue that is hit: the core of one, or a stream's member."""

    vhost: str
    name: str

    @property
    def uid(self) -> int: ...

    @property
    def credit(self) -> CreditActor: ...


class CrashedHost:
    """A queue as sessions see it that takes nothing. Once the loss is accepted: the queue."""

    def __init__(self, core: Crashed, reason: str, turn: Steps) -> None:
        self.uid = int(core.uid)
        self.vhost = core.vhost
        self.name = core.name
        self.reason = reason
        self.quorum = isinstance(core, QueueCore) and core.quorum
        self.single_active = isinstance(core, QueueCore) and core.single_active
        self.ready_count = 0
        self.checked_out_count = 0
        self.consumer_count = 0
        self.served_by: QueueHost | None = None
        self._turn = turn
        self._credit = core.credit
        self._sinks: dict[int, SessionSink] = {}
        self._answers: list[Callable[[], None]] = []

    @property
    def credit(self) -> CreditActor:
        return self._credit

    def error(self) -> ProtocolError:
        """As RabbitMQ says it, and why."""
        text = f"queue '{self.name}' in vhost '{self.vhost}' has crashed and failed to restart"
        return ProtocolError(ReplyCode.NOT_FOUND, f"{text}: {self.reason}"[:255])

    def publish(self, sink: SessionSink, chunk: Chunk, first_seq: int) -> None:
        """Refused: it must not look as if it were safe."""
        if self.served_by is not None:
            self.served_by.publish(sink, chunk, first_seq)
            return
        self._sinks[sink.session] = sink
        self._answer(lambda: self._refuse(sink, first_seq, int(chunk.count())))

    def _refuse(self, sink: SessionSink, first_seq: int, count: int) -> None:
        sink.on_refused(self.uid, first_seq, count)
        sink.on_confirms(self.uid, first_seq + count - 1)

    def command(self, sink: SessionSink, command: Command) -> None:
        """Sessions end, and ask whether the queue may be deleted. Those of other nodes may ask for
        more, for they do not know: to them it is gone."""
        if self.served_by is not None:
            self.served_by.command(sink, command)
        elif isinstance(command, EndSession):
            self._sinks.pop(command.session, None)
        elif isinstance(command, (Inspect, Retire)):
            self._answer(lambda: sink.on_inspected(self.uid, 0, 0))
        elif isinstance(command, (Attach, Get, Purge)):
            self._answer(lambda: sink.on_gone(self.uid))

    def view(self, sink: SessionSink, first: int, count: int) -> View | None:
        return None if self.served_by is None else self.served_by.view(sink, first, count)

    def _answer(self, call: Callable[[], None]) -> None:
        if not self._answers:
            self._turn.mark_host(self)
        self._answers.append(call)

    def step(self, now_ms: int) -> None:
        answers, self._answers = self._answers, []
        for call in answers:
            call()

    def leave(self) -> None:
        """The queue is deleted or served again: sessions that published to it start again."""
        self.step(0)
        sinks, self._sinks = self._sinks, {}
        for sink in sinks.values():
            sink.on_gone(self.uid)


class Damages:
    """The queues of this node that are not served, by uid."""

    def __init__(self, owners: Owners, turn: Steps) -> None:
        self.hosts: dict[int, CrashedHost] = {}
        self.report: RecoveryReport | None = None  # what recovery has met
        self.queues_at: dict[tuple[str, int], list[tuple[str, str]]] = {}  # (vhost, name)
        self._owners = owners
        self._turn = turn
        self._damages: dict[int, Damage] = {}

    def places(self, uid: int) -> tuple[CorruptRecord, ...]:
        """Where the log is damaged that has the queue."""
        return self._damages[uid].places

    def add(self, core: Crashed, damage: Damage) -> None:
        """This queue is hit."""
        uid = int(core.uid)
        self._owners.freeze(uid)
        self._damages[uid] = damage
        self.hosts[uid] = CrashedHost(core, damage.reason, self._turn)
        for place in damage.places:
            self.queues_at.setdefault((place.path, place.offset), []).append(
                (core.vhost, core.name)
            )
        log.error(
            "queue '%s' in vhost '%s' is not served: %s; "
            "`warrenctl accept_damage` serves it without what is lost",
            core.name,
            core.vhost,
            damage.reason,
            extra=ids_of(queue=core.name, vhost=core.vhost),
        )

    def remove(self, uid: int) -> None:
        """The queue is deleted."""
        host = self.hosts.pop(uid, None)
        if host is not None:
            del self._damages[uid]
            host.leave()
            self._owners.thaw(uid)

    def accept(self, host: ClassicHost, done: Done) -> None:
        """Serve a classic queue with what could be read. `done`: the log has that."""
        damage = self._damages[int(host.uid)]
        host.recovered(damage.last_seq, max(damage.mark, 0), damage.last_seq)
        self._keep(host.core)
        self.serve(host)
        done()

    def restore(self, core: QueueCore) -> None:
        """Make all messages of a quorum queue that could be read ready."""
        damage = self._damages[int(core.uid)]
        core.restore(damage.last_seq, damage.last_seq)
        self._keep(core)

    def _keep(self, core: QueueCore) -> None:
        """Have the log keep the messages that could be read, and no others."""
        self._owners.append_checkpoint(int(core.uid), journaled(core))

    def serve(self, host: QueueHost) -> None:
        """Let sessions use the queue again."""
        crashed = self.hosts.pop(host.uid)
        del self._damages[host.uid]
        self._owners.thaw(host.uid)
        crashed.leave()
        crashed.served_by = host
        log.warning(
            "queue '%s' in vhost '%s' is served with what could be read",
            host.name,
            host.vhost,
            extra=ids_of(queue=host.name, vhost=host.vhost),
        )


def journaled(core: QueueCore) -> list[tuple[int, int]]:
    """All messages of the queue that the log must keep, as ascending (first, count)."""
    found, following = core.journaled_from(1)
    while following > 0:
        more, following = core.journaled_from(following)
        found.extend(more)
    return found


def shown(place: CorruptRecord) -> str:
    """A place in few words."""
    name = os.path.basename(place.path)
    if place.reason:
        return f"log file {name} {place.reason}"
    return f"corrupt record in {name} at offset {place.offset}"
