"""What listings tell of the messages in a queue that its machine does not count. Reads only.

Compiled, for sums are made of all queues in one turn.
"""

from collections.abc import Iterable
from typing import Final

from mypy_extensions import i64

from queues.conversion.chunks import in_form_1
from queues.hosts.queue_core import QueueCore
from queues.message import FORMAT_10
from warren.wire.amqp091.deliver import extract
from warren.wire.amqp091.properties import readable_properties

STATS_COUNT: Final = 8
NO_STATS: Final = (0,) * STATS_COUNT


def add_stats(host: QueueCore, sums: list[int]) -> None:
    """What went through the queue, added in the order of
    `node.management.rows.rates.QUEUE_STATS`."""
    got = int(host.got_count)
    through = int(host.delivered_count)
    sums[0] += int(host.published_count - host.refused_count)
    sums[1] += through - got
    sums[3] += got
    sums[5] += through
    sums[6] += int(host.redelivered_count)
    sums[7] += int(host.accepted_count)


def unacknowledged_bytes(host: QueueCore) -> int:
    """Of what consumers hold: exact where messages are of one size or all are held, else their
    share by number. To weigh each message would take a walk through the store."""
    held, ready = int(host.checked_out_count), int(host.ready_count)
    if held == 0:
        return 0
    return int(host.store.live_bytes) * held // (held + ready)


def head_timestamp(host: QueueCore) -> int | None:
    """The property `timestamp` of the message that is served next, if it has one and its body is
    in memory."""
    ready = host.machine.ready
    if ready.count == 0:
        return None
    seq = ready.first()
    slot = host.store.find_live(seq)
    if slot is None or slot.chunk.data is None:
        return None
    chunk, index = slot.chunk, int(slot.index + seq - slot.first)
    if chunk.format_tag == FORMAT_10:
        chunk, index = in_form_1(chunk, index, 1), 0
    data = chunk.data
    assert data is not None
    properties = extract(data, *chunk.span(index))[2]
    timestamp = readable_properties(properties).timestamp
    return None if timestamp is None else int(timestamp)


def sums_of(hosts: Iterable[QueueCore]) -> tuple[int, int, int, int]:
    """Messages ready and unacknowledged, bytes of both, consumers: in one pass, and without the
    hosts' properties, for there may be 10,000 of them in one turn."""
    ready: i64 = 0
    held: i64 = 0
    byte_count: i64 = 0
    consumers: i64 = 0
    for host in hosts:
        machine = host.machine
        ready += machine.ready.count
        held += machine.checked_out
        byte_count += host.store.live_bytes
        consumers += machine.roster.attached_count
    return int(ready), int(held), int(byte_count), int(consumers)
