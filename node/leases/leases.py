"""The leases of this node.

    lease = await leases.open(queue, "spark", "guest", 300_000)   # a new one, or that of this name
    leases.find(queue, "spark").commit(7)

A lease is at the node that leads its queue, or has it: there alone its messages can be read again.
When another node begins to lead the queue, the lease is there, with the same batches (`handover`),
unless another consumer got some of their messages meanwhile. It ends when no client has used it for
its time limit, when the queue is gone, or when a client releases it. Limits: `leases.count_max` of
a node; see `Lease`.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from node.leases.batches import Batch, Room
from node.leases.handover import Handover, Key, Standing
from node.leases.lease import Lease, LeaseFault
from node.supervision import Repeating
from queues.definitions.arguments import decode_arguments
from queues.definitions.broker_objects import Queue
from queues.definitions.metadata.machine import Metadata
from queues.definitions.queue_arguments import STREAM, queue_type
from queues.machine.commands import Command, EndSession
from queues.queue_host import QueueHost

if TYPE_CHECKING:
    from node.cluster.services.cluster_services import Operating
    from node.config.settings import LeasesSection
    from node.process_identity import ProcessIdentity
    from node.turn import Turn

log = logging.getLogger("warren.leases")

LISTED: Final = "leases"  # questions to other nodes
RELEASED: Final = "release_lease"
TOLD_PARTS: Final = 4  # so often in its time limit others hear of a lease that is renewed
TIMEOUT_MS: Final = 300_000
TIMEOUT_MS_MIN: Final = 1000
TIMEOUT_MS_MAX: Final = 7 * 86_400_000
SWEEP_S: Final = 1.0
NAME_BYTES_MAX: Final = 255

Row = dict[str, Any]


class Queues(Protocol):
    """See `node.definitions.queue_registry`."""

    def host(self, uid: int) -> QueueHost: ...


class Member(Protocol):
    """See `queues.hosts.quorum_member.QuorumMember`."""

    def order(self, command: Command) -> bool: ...


class QuorumQueues(Protocol):
    """See `node.cluster.queues.quorum_channel`."""

    @property
    def members(self) -> Mapping[int, Member]: ...


class Site(Protocol):
    """The broker, as leases need it."""

    @property
    def quorum_queues(self) -> QuorumQueues: ...

    @property
    def queues(self) -> Queues: ...

    @property
    def metadata(self) -> Metadata: ...

    @property
    def operating(self) -> "Operating": ...

    @property
    def identity(self) -> "ProcessIdentity": ...

    @property
    def turn(self) -> "Turn": ...

    @property
    def node_name(self) -> str: ...

    def monotonic_ms(self) -> int: ...


class Leases:
    """Invariant: none of `_leases` is over for longer than SWEEP_S; each is under the uid of its
    queue and its name."""

    def __init__(self, site: Site, limits: "LeasesSection") -> None:
        self._site = site
        self._limits = limits
        self._leases: dict[Key, Lease] = {}
        self._arriving: dict[Key, asyncio.Task[Lease]] = {}  # from other nodes
        self._ticks: Repeating | None = None
        status = site.operating.status
        self._handover = Handover(status, site.monotonic_ms, self._watch)
        status.serve(LISTED, self._listed)
        status.serve(RELEASED, self._released)

    async def open(self, queue: Queue, name: str, user: str, timeout_ms: int) -> Lease:
        """The lease of that name, renewed, or a new one. LeaseFault: there can be none."""
        self._check(queue, name, timeout_ms)
        key = int(queue.uid), name
        lease = await self._arrived(queue, name)
        if lease is None:
            lease = self._made(queue, name, user)
            self._leases[key] = lease
            self._renew(lease, timeout_ms)
            try:
                await lease.open()
            except LeaseFault:
                lease.end("the queue has not taken its consumer")
                self._forget(key)
                raise
            log.info("%s: lease '%s' of user '%s' begins", said(queue), name, user)
        self._renew(lease, timeout_ms)
        await self._tell(lease)
        return lease

    async def fetch(self, lease: Lease, number: int, room: Room) -> Batch:
        """See `Lease.fetch`; other nodes know of the batch."""
        newest = lease.batches.newest
        batch = await lease.fetch(number, room)
        if lease.batches.newest != newest:
            await self._handover.tell(lease)
        return batch

    async def commit(self, lease: Lease, upto: int) -> int:
        """See `Lease.commit`; other nodes know that the batches are settled."""
        count = lease.commit(upto)
        if count:
            await self._handover.tell(lease)
        return count

    async def _tell(self, lease: Lease) -> None:
        """Tell other nodes that it is used, now and then."""
        now_ms = self._site.monotonic_ms()
        if not lease.told_ms or now_ms - lease.told_ms >= lease.timeout_ms // TOLD_PARTS:
            lease.told_ms = now_ms
            await self._handover.tell(lease)

    # From other nodes

    async def _arrived(self, queue: Queue, name: str) -> Lease | None:
        """The lease, if this node has it, or another one had it that led the queue before."""
        key = int(queue.uid), name
        lease = self._alive(key)
        if lease is None and (key in self._arriving or key in self._handover.known):
            lease = await asyncio.shield(self._arrival(queue, name))
        return lease

    def _arrival(self, queue: Queue, name: str) -> "asyncio.Task[Lease]":
        key = int(queue.uid), name
        task = self._arriving.get(key)
        if task is None:
            taking = self._take_over(queue, name, self._handover.known[key])
            task = asyncio.get_running_loop().create_task(taking)
            self._arriving[key] = task
            task.add_done_callback(lambda done: self._has_arrived(key, done))
        return task

    async def _take_over(self, queue: Queue, name: str, standing: Standing) -> Lease:
        """End the session that held the messages, and take them. LeaseFault: not now."""
        if not self._order(queue, EndSession(standing.session)):
            raise LeaseFault(503, self._elsewhere(queue))
        lease = self._made(queue, name, standing.user)
        self._renew(lease, standing.timeout_ms)
        try:
            await lease.open()
            is_whole = await lease.restore(standing.batches, standing.newest)
        except BaseException:
            lease.end("the queue has not given it its messages")
            raise
        if is_whole:
            text = "%s: lease '%s' has come to this node with %d messages"
            log.info(text, said(queue), name, lease.count)
        else:
            text = "%s: lease '%s' has come to this node, but another consumer got some of its "
            log.warning(text + "messages: its batches are fetched again", said(queue), name)
        self._leases[int(queue.uid), name] = lease
        self._handover.known.pop((int(queue.uid), name), None)
        return lease

    def _has_arrived(self, key: Key, done: "asyncio.Task[Lease]") -> None:
        del self._arriving[key]
        if not done.cancelled() and done.exception() is not None:
            log.warning("lease '%s' has not come to this node yet: %s", key[1], done.exception())

    def _order(self, queue: Queue, command: Command) -> bool:
        """Have the queue carry out a command, if it is led here."""
        member = self._site.quorum_queues.members.get(int(queue.uid))
        if member is None:
            return False
        self._site.turn.begin()
        return member.order(command)

    def _look_after(self, key: Key, standing: Standing) -> None:
        """Take over a lease of a queue that this node leads now; forget one that is late."""
        queue = self._site.metadata.queue(key[0])
        is_late = self._site.monotonic_ms() >= standing.due_ms
        if queue is None:
            self._handover.known.pop(key)
        elif not self._site.operating.is_led_here(key[0]):
            if is_late:
                self._handover.known.pop(key)
        elif not is_late:
            self._arrival(queue, key[1])
        elif self._order(queue, EndSession(standing.session)):
            self._handover.known.pop(key)

    def _check(self, queue: Queue, name: str, timeout_ms: int) -> None:
        if not 0 < len(name.encode()) <= NAME_BYTES_MAX:
            raise LeaseFault(400, f"the name of a lease must have 1 to {NAME_BYTES_MAX} bytes")
        if not TIMEOUT_MS_MIN <= timeout_ms <= TIMEOUT_MS_MAX:
            text = f"timeout_ms is {timeout_ms}; allowed: {TIMEOUT_MS_MIN} to {TIMEOUT_MS_MAX}"
            raise LeaseFault(400, text)
        if queue.exclusive:
            text = f"{said(queue)} is exclusive to a connection, which a lease would outlive"
            raise LeaseFault(400, text)
        if queue_type(decode_arguments(queue.arguments)) == STREAM:
            text = f"{said(queue)} is a stream, which keeps its messages: read it by offsets"
            raise LeaseFault(400, text)
        if not self._site.operating.is_led_here(int(queue.uid)):
            raise LeaseFault(503, self._elsewhere(queue))

    def _elsewhere(self, queue: Queue) -> str:
        operating = self._site.operating
        leader = operating.leader_of(queue.vhost, queue.name)
        if not leader:
            return f"{said(queue)} has no leader that this node knows of, and leases are there"
        name = operating.cluster_snapshot.name_of(leader)
        return f"{said(queue)} is served by node {name}: its leases are there"

    def _made(self, queue: Queue, name: str, user: str) -> Lease:
        limits = self._limits
        if len(self._leases) >= limits.count_max:
            text = f"this node has {len(self._leases)} leases, the limit is leases.count_max"
            raise LeaseFault(507, text)
        site = self._site
        room = Room(limits.messages_max, limits.bytes_max)
        host, session = site.queues.host(int(queue.uid)), site.identity.new_session()
        self._watch()
        return Lease(queue, name, user, host, session, room, site.turn.begin)

    def _watch(self) -> None:
        """There is something to sweep."""
        if self._ticks is None:
            call_later = asyncio.get_running_loop().call_later
            self._ticks = Repeating("leases", SWEEP_S, self._sweep, call_later)

    async def found(self, queue: Queue, name: str, *, renewed: bool = True) -> Lease:
        """As `find`, also if another node had it."""
        await self._arrived(queue, name)
        return self.find(queue, name, renewed=renewed)

    def find(self, queue: Queue, name: str, *, renewed: bool = True) -> Lease:
        """LeaseFault: there is none."""
        key = int(queue.uid), name
        lease = self._alive(key)
        if lease is None:
            text = f"{said(queue)} has no lease '{name}' at node {self._site.node_name}"
            if not self._site.operating.is_led_here(int(queue.uid)):
                raise LeaseFault(404, f"{text}; {self._elsewhere(queue)}")
            if key in self._handover.known:
                raise LeaseFault(503, f"{text} yet: it is on its way from another node")
            raise LeaseFault(404, text)
        if renewed:
            self._renew(lease, lease.timeout_ms)
        return lease

    def _renew(self, lease: Lease, timeout_ms: int) -> None:
        lease.timeout_ms = timeout_ms
        lease.due_ms = self._site.monotonic_ms() + timeout_ms

    def release(self, queue: Queue, name: str) -> None:
        """End the lease; what it holds is ready again. LeaseFault: there is none."""
        lease = self.find(queue, name)
        log.info("%s: lease '%s' is released with %d messages", said(queue), name, lease.count)
        lease.end("it was released")
        self._handover.end(lease)
        self._forget((int(queue.uid), name))

    def _alive(self, key: tuple[int, str]) -> Lease | None:
        lease = self._leases.get(key)
        if lease is not None:
            self._judge(key, lease)
        return self._leases.get(key)

    def _judge(self, key: tuple[int, str], lease: Lease) -> None:
        """Forget it if it is over; end it if it is late, or has no business here any more."""
        if not lease.over and self._site.monotonic_ms() >= lease.due_ms:
            lease.end(f"it was not used for {lease.timeout_ms} ms")
            self._handover.end(lease)
        if not lease.over and not self._site.operating.is_led_here(key[0]):
            lease.end(f"node {self._site.node_name} does not lead the queue any more")
        if lease.over:
            log.warning(
                "%s: %s; %d messages go back to the queue",
                said(lease.queue),
                lease.over,
                lease.count,
            )
            self._forget(key)

    def _forget(self, key: tuple[int, str]) -> None:
        self._leases.pop(key, None)

    def _sweep(self) -> None:
        for key, lease in list(self._leases.items()):
            self._judge(key, lease)
        for key, standing in list(self._handover.known.items()):
            if key not in self._leases and key not in self._arriving:
                self._look_after(key, standing)
        if not self._leases and not self._handover.known and self._ticks is not None:
            self._ticks.stop()
            self._ticks = None

    # For operators

    def rows(self) -> list[Row]:
        """Of this node, for lists."""
        return [self.row(each) for each in self._leases.values() if not each.over]

    def row(self, lease: Lease) -> Row:
        queue = lease.queue
        return {
            "vhost": queue.vhost,
            "queue": queue.name,
            "name": lease.name,
            "user": lease.user,
            "node": self._site.node_name,
            "messages": lease.count,
            "message_bytes": lease.batches.size_bytes,
            "batches": len(lease.batches.held),
            "newest_batch": lease.batches.newest,
            "timeout_ms": lease.timeout_ms,
            "expires_in_ms": max(0, lease.due_ms - self._site.monotonic_ms()),
        }

    async def everywhere(self) -> list[Row]:
        """Of all nodes that answer."""
        rows = self.rows()
        for told in (await self._site.operating.status.ask_others(LISTED)).values():
            rows += [row for part in told or () for row in part]
        return sorted(rows, key=lambda row: (row["vhost"], row["queue"], row["name"]))

    async def release_anywhere(self, queue: Queue, name: str) -> bool:
        """Whether a node had it."""
        if (int(queue.uid), name) in self._leases:
            self.release(queue, name)
            return True
        about = [int(queue.uid), name]
        answers = await self._site.operating.status.ask_others(RELEASED, about)
        return any(part for told in answers.values() for part in told or ())

    async def _listed(self, asker: int, about: Any) -> AsyncIterator[object]:
        yield self.rows()

    async def _released(self, asker: int, about: Any) -> AsyncIterator[object]:
        uid, name = about
        lease = self._leases.get((uid, name))
        if lease is not None:
            self.release(lease.queue, name)
        yield lease is not None


def said(queue: Queue) -> str:
    """For texts."""
    return f"queue '{queue.name}' in vhost '{queue.vhost}'"
