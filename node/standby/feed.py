"""What a primary tells its standby: which messages its queues have, and the messages. Not compiled.

    feed = Feed(broker)
    feed.serve(operating.status)          # for the other nodes
    rows = await feed.state(vhost, known)

Nothing is kept for a standby: it asks for what it lacks, whenever it comes back. The leader of a
queue answers, asked from any node. A queue is known by its uid and an epoch; within both, a number
means one message for ever; in a stream it is the offset. Numbers of classic queues may be used
again after their node has restarted: then the epoch is another one, and digests tell whether a
message is still the same.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from hashlib import blake2b
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import astuple

from node.cluster.services.status_channel import NoAnswer, StatusChannel, Unanswerable
from node.operations.body_access import BodyReads
from node.standby.leadership import Leadership
from node.standby.stored_runs import Runs, Unreadable, digest, live_runs, stored_runs
from node.standby.stream_runs import stream_range, stream_runs
from queues.definitions.arguments import decode_arguments
from queues.definitions.broker_objects import Queue
from queues.definitions.metadata.vhost import VHost
from queues.definitions.queue_arguments import STREAM, queue_type
from queues.hosts.queue_core import QueueCore
from queues.streams.host import StreamHost
from queues.streams.member import StreamMember

if TYPE_CHECKING:
    from node.broker import Broker

STATE: Final = "standby-state"  # questions to other nodes
MESSAGES: Final = "standby-messages"
DIGESTS: Final = "standby-digests"
ROWS_MAX: Final = 500  # queues, and runs of numbers, in one part of an answer
ANSWER_BYTES: Final = 4 << 20
PATIENCE_S: Final = 30.0
Offsets = Sequence[tuple[bytes, int]]  # stored by consumers of a stream, by name
StateRow = tuple[str, bytes, int, int, Runs | None, str, Offsets | None]
REPLICATED: Final = 0  # epoch of queues whose numbers outlive their nodes


class FeedFailed(LookupError):
    """No node can answer for the queue; the text says why."""


def is_replicated(queue: Queue) -> bool:
    """Whether the definition of the queue is copied to standbys."""
    return queue.outlives_restart and not queue.auto_delete


def is_stream(queue: Queue) -> bool:
    return queue_type(decode_arguments(queue.arguments)) == STREAM


class Feed:
    """See the module."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._reads = BodyReads(broker)
        self._leadership = Leadership(broker)

    def serve(self, status: StatusChannel) -> None:
        status.serve(STATE, self._asked_state)
        status.serve(MESSAGES, self._asked_messages)
        status.serve(DIGESTS, self._asked_digests)
        self._leadership.serve(status)

    async def state(self, vhost: VHost, known: Mapping[str, bytes]) -> list[StateRow]:
        """(name, token, uid, epoch, runs, fault, offsets) of each queue. Runs and offsets are None
        where the token is that in `known`; with a fault nothing else counts."""
        by_leader: dict[int, list[Queue]] = {}
        operating = self._broker.operating
        for queue in vhost.queues.values():
            if is_replicated(queue):
                leader = operating.leader_of(queue.vhost, queue.name)
                by_leader.setdefault(leader, []).append(queue)
        found: list[StateRow] = []
        for leader, queues in by_leader.items():
            names = {int(each.uid): each.name for each in queues}
            try:
                parts = await self._ask(leader, STATE, list(names))
            except FeedFailed as error:
                fault = str(error)
                found += [(name, b"", uid, 0, None, fault, None) for uid, name in names.items()]
                continue
            for uid, epoch, runs, fault, offsets in chain.from_iterable(parts):
                token = _token(uid, epoch, runs, offsets)
                name = names[uid]
                is_known = known.get(name) == token and not fault
                shown = (None, fault, None) if is_known else (runs, fault, offsets)
                found.append((name, token, uid, epoch, *shown))
        return found

    async def messages(self, queue: Queue, runs: Runs) -> list[Any]:
        """The first of these messages: fields of `StoredRun`, about ANSWER_BYTES in all."""
        leader = self._broker.operating.leader_of(queue.vhost, queue.name)
        return await self._ask(leader, MESSAGES, [queue.uid, runs])

    async def digests(self, queue: Queue, runs: Runs) -> list[Any]:
        """(number, digest) of those of these messages that are there."""
        leader = self._broker.operating.leader_of(queue.vhost, queue.name)
        return await self._ask(leader, DIGESTS, [queue.uid, runs])

    async def _ask(self, leader: int, question: str, about: object) -> list[Any]:
        operating = self._broker.operating
        if not leader:
            raise FeedFailed("the queue has no leader now")
        try:
            return list(await operating.status.ask(leader, question, about, PATIENCE_S))
        except NoAnswer as error:
            name = operating.cluster_snapshot.name_of(leader)
            raise FeedFailed(f"node {name}, which leads the queue: {error}") from error

    async def _asked_state(self, asker: int, about: Any) -> AsyncIterator[object]:
        """Lists of (uid, epoch, runs, fault, offsets)."""
        sure = await self._leadership.confirmed(about)
        rows: list[object] = []
        size = 0
        for uid in about:
            row = self._row(uid, uid in sure)
            rows.append(row)
            size += 1 + len(row[2])
            if size >= ROWS_MAX:
                yield rows
                rows, size = [], 0
        yield rows

    def _row(self, uid: int, is_sure: bool) -> tuple[int, int, Runs, str, Offsets]:
        if not is_sure or not self._broker.operating.is_led_here(uid):
            return uid, 0, [], "the queue has no leader now", []
        queue = self._broker.metadata.queue(uid)
        if queue is not None and is_stream(queue):
            member = self._member(uid)
            offsets = list(member.machine.tracking.offsets.items())
            return uid, REPLICATED, stream_range(member), "", offsets
        core = self._broker.queues.hosts.awake.get(uid)
        return uid, self._epoch(core), [] if core is None else live_runs(core), "", []

    def _epoch(self, core: QueueCore | None) -> int:
        if core is not None and core.quorum:
            return REPLICATED
        return self._broker.identity.incarnation

    async def _asked_messages(self, asker: int, about: Any) -> AsyncIterator[object]:
        uid, runs = about
        core = self._core(uid)
        queue = self._broker.metadata.queue(uid)
        try:
            if queue is not None and is_stream(queue):
                async for each in stream_runs(self._member(uid), runs, ANSWER_BYTES):
                    yield astuple(each)
            elif core is not None:
                async for each in stored_runs(self._reads, core, runs, ANSWER_BYTES):
                    yield astuple(each)
        except Unreadable as error:
            raise Unanswerable(str(error)) from error

    async def _asked_digests(self, asker: int, about: Any) -> AsyncIterator[object]:
        uid, runs = about
        core = self._core(uid)
        try:
            if core is not None:
                async for each in stored_runs(self._reads, core, runs, 1 << 62):
                    for at, message in enumerate(each.messages(), each.first):
                        yield at, digest(message)
        except Unreadable as error:
            raise Unanswerable(str(error)) from error

    def _member(self, uid: int) -> StreamMember:
        host = self._broker.queues.host(uid)
        if not isinstance(host, StreamHost) or host.member is None:
            raise Unanswerable("it has no member of the stream")
        return host.member

    def _core(self, uid: int) -> QueueCore | None:
        if not self._broker.operating.is_led_here(uid):
            raise Unanswerable("it does not lead the queue")
        return self._broker.queues.hosts.awake.get(uid)


def _token(uid: int, epoch: int, runs: Runs, offsets: Offsets) -> bytes:
    """Another one whenever anything has changed."""
    return blake2b(repr((uid, epoch, runs, offsets)).encode(), digest_size=16).digest()
