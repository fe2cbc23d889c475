"""Messages whose content header frame exceeds the frame_max of an AMQP 0-9-1 client.

The protocol cannot split a content header. Such a message is never sent: the channel rejects it
without requeue, so its queue dead-letters or drops it. This counts them for the node and logs at
most one line per queue and minute.
"""

import logging
from collections.abc import Callable
from typing import Final, final

from queues.queue_host import QueueHost

log = logging.getLogger("warren.broker")

SILENCE_MS: Final = 60_000  # between two lines about one queue


@final
class OversizedHeaders:
    """Count and log them. Invariant: `_quiet_until_ms` names queues of the last minute only."""

    def __init__(self, monotonic_ms: Callable[[], int]) -> None:
        self.count = 0  # since the node started
        self._monotonic_ms = monotonic_ms
        self._quiet_until_ms: dict[int, int] = {}  # by uid of the queue

    def note(self, host: QueueHost, header_bytes: int, frame_max: int) -> None:
        """Count a message of the queue that is rejected; log it, unless the queue had a line."""
        self.count += 1
        now_ms = self._monotonic_ms()
        quiet = self._quiet_until_ms
        if now_ms < quiet.get(host.uid, 0):
            return
        self._quiet_until_ms = {uid: until for uid, until in quiet.items() if now_ms < until}
        self._quiet_until_ms[host.uid] = now_ms + SILENCE_MS
        log.warning(
            "queue '%s' in vhost '%s': rejecting a message (dead-lettered if the queue has a "
            "dead-letter exchange, else dropped), because its content header frame has %d bytes "
            "and the consumer's frame_max is %d; %d such messages on this node since its start",
            host.name,
            host.vhost,
            header_bytes,
            frame_max,
            self.count,
        )
