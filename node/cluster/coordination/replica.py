"""One generation of coordination: a `Registry` that pysyncobj replicates among its members.

In memory alone: no journal, no file, no thread, no socket. It lives as long as the membership of
the cluster and the processes of its members stay the same, so that no member of it ever forgets
what it has voted or stored; then it is thrown away and another one is made. Driven by `tick`;
messages go through `PeerTransport`. Imported when the first one is made: nodes in no cluster do
without.
"""

import logging
from typing import Final

import msgspec
from pysyncobj import SyncObj, SyncObjConf, SyncObjConsumer, replicated
from pysyncobj.node import Node

from node.cluster.coordination.coordination_codec import (
    BadMessage,
    Message,
    decode_command,
    encode_command,
    install,
)
from node.cluster.coordination.registry import Command, Registry, Rows
from node.cluster.coordination.transport import PeerTransport, Send

log = logging.getLogger("warren.coordination")

BATCH_BYTES: Final = 16 * 1024  # of a message: others of the control connection wait behind it
QUEUE_MAX: Final = 256  # commands of this node that wait for the next tick
ROWS: Final = "rows"

install()


class Replicated(SyncObjConsumer):  # type: ignore[misc]  # pysyncobj has no types
    """The registry as pysyncobj sees it: one method, and its state for a snapshot."""

    def __init__(self, registry: Registry) -> None:
        super().__init__()
        self.registry = registry

    @replicated  # type: ignore[untyped-decorator]
    def apply(self, command: bytes) -> None:
        try:
            self.registry.apply(decode_command(command))
        except BadMessage as error:  # On every node alike; it was checked when it came.
            log.warning("a committed command is passed over: %s", error)

    def _serialize(self) -> dict[str, object]:
        return {ROWS: msgspec.to_builtins(self.registry.rows())}

    def _deserialize(self, data: dict[str, object]) -> None:
        self.registry.restore(msgspec.convert(data[ROWS], Rows))


class Replica:
    """See the module."""

    def __init__(self, generation: int, member: int, others: list[int], send: Send) -> None:
        self.generation = generation
        self.members = sorted([member, *others])
        self.registry = Registry(generation)
        self._transport = PeerTransport(others, send)
        self._replicated = Replicated(self.registry)
        self._sync = SyncObj(
            Node(str(member)),
            list(self._transport.nodes.values()),
            conf=settings(),
            consumers=[self._replicated],
            transport=self._transport,
        )

    @property
    def term(self) -> int:
        return int(self._sync.raftCurrentTerm)

    def close(self) -> None:
        self._sync.destroy()

    def tick(self) -> None:
        """Let time pass: elections, what is committed, what is to be sent."""
        self._sync.doTick()

    def propose(self, command: Command) -> None:
        """Have it committed, or lose it: where there is no leader, or none that is reached."""
        self._replicated.apply(encode_command(command))

    # What the coordinator tells of the peers

    def connected(self, member: int) -> None:
        self._transport.connected(member)

    def lost(self, member: int) -> None:
        self._transport.lost(member)

    def received(self, member: int, message: Message) -> None:
        self._transport.received(member, message)


def settings() -> SyncObjConf:
    """Slow and small: a leader may be gone for a second or two without harm."""
    return SyncObjConf(
        autoTick=False,
        appendEntriesPeriod=0.25,
        raftMinTimeout=1.0,
        raftMaxTimeout=2.0,
        leaderFallbackTimeout=3.0,
        connectionTimeout=5.0,
        appendEntriesBatchSizeBytes=BATCH_BYTES,
        logCompactionBatchSize=BATCH_BYTES,
        logCompactionMinEntries=1000,
        logCompactionMinTime=60,
        commandsQueueSize=QUEUE_MAX,
        commandsWaitLeader=False,  # what waited would come in a bunch
        useFork=False,
    )
