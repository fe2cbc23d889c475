"""Keys of last values, groups, and ids of duplicates: what only bodies of recovered messages tell.

After a restart a classic queue knows its messages and not what is in them. Before clients come, the
bodies are read of queues that keep last values or heed groups, and of messages whose ids a crash
has kept from the log (`queues.hosts.id_log`). Quorum queues and mirrors have all of it in their
snapshots and entries.

Limits: READS bodies at a time. A message that cannot be read has neither key nor group nor id.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from queues.hosts.classic import ClassicHost
from queues.hosts.message_digests import DUPLICATE_IDS, digest_of, group_of
from queues.machine.known_ids import NO_ID

if TYPE_CHECKING:
    from node.broker import Broker
    from node.operations.peeking import Peeking

log = logging.getLogger("warren.node")

READS: Final = 64

Row = tuple[int, bytes, bytes, int]  # message, digests of its key and of its id, its group


async def restore_digests(broker: "Broker") -> None:
    """Called once at the start, before the node serves clients."""
    wanted = [host for host in broker.queues.hosts.classic.values() if host.first_unread() > 0]
    if not wanted:
        return
    from node.operations.peeking import Peeking

    peeking = Peeking(broker)
    for host in wanted:
        messages = list(_unread(host))
        for at in range(0, len(messages), READS):
            rows = await _read(peeking, host, messages[at : at + READS])
            broker.turn.begin()
            host.digests_found(rows)
        if messages:
            log.info(
                "queue '%s' in vhost '%s': %d messages were read for their keys, groups and ids",
                *(host.name, host.vhost, len(messages)),
            )


def _unread(host: ClassicHost) -> Iterator[int]:
    """The messages to be read; of a queue that knows ids alone, no more than it remembers."""
    machine = host.core.machine
    runs = machine.ready.within(host.first_unread(), machine.next_seq - host.first_unread())
    skipped = 0
    if machine.last_values is None and machine.ready.groups is None:
        count = sum(length for _, length in runs)
        skipped = max(0, count - int(machine.options.id_cache_size))
    for first, length in runs:
        passed = min(skipped, length)
        skipped -= passed
        yield from range(first + passed, first + length)


async def _read(peeking: "Peeking", host: ClassicHost, messages: Sequence[int]) -> list[Row]:
    core = host.core
    address = core.options.address
    key = "" if address is None else address.last_value_key
    chunks = await asyncio.gather(*(peeking.message_chunk(core, seq) for seq in messages))
    rows: list[Row] = []
    for seq, chunk in zip(messages, chunks, strict=True):
        if chunk is not None and chunk.data is not None:
            own_key = digest_of(chunk, chunk.data, 0, (key,)) if key else NO_ID
            own_id = digest_of(chunk, chunk.data, 0, DUPLICATE_IDS)
            rows.append((seq, own_key, own_id, group_of(chunk, chunk.data, 0)))
    return rows
