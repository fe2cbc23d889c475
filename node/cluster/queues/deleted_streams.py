"""Objects that deleted streams have left in the object store.

Who leads the definitions looks for them: after a stream was deleted, and now and then, for a node
may die before it has removed them. What the store lists is compared with the definitions as they
are after that: an empty change is committed in between, so this node knows then every stream that
had objects when the store was asked. What it does not know was deleted.
"""

import logging
from collections.abc import Callable
from typing import Final

from queues.definitions.metadata.commands import Batch
from queues.definitions.metadata.machine import Metadata
from queues.definitions.metadata.outcomes import Batched, Outcome
from warren.storage.streams.offloaded import SegmentStore

LOOK_S: Final = 3600  # between two looks
RETRY_S: Final = 60

Propose = Callable[[Batch, Callable[[Outcome], None]], None]

log = logging.getLogger("warren.streams")


class DeletedStreams:
    """See the module. `leads`: whether this node leads the definitions. Calls on the loop."""

    def __init__(
        self, store: SegmentStore, metadata: Metadata, propose: Propose, leads: Callable[[], bool]
    ) -> None:
        self._store = store
        self._metadata = metadata
        self._propose = propose
        self._leads = leads
        self._led = False
        self._left_s = 0  # until the next look
        self._is_looking = False

    def look(self) -> None:
        """A stream was deleted."""
        self._left_s = min(self._left_s, 1)

    def tick(self) -> None:
        """Called about once a second."""
        led, self._led = self._led, self._leads()
        self._left_s = max(0, self._left_s - 1) if led == self._led else 0
        if self._led and self._left_s == 0 and self._store.is_set and not self._is_looking:
            self._is_looking = True
            self._left_s = LOOK_S
            self._store.streams(self._listed, self._failed)

    def _unknown(self, uids: list[int]) -> list[int]:
        return [uid for uid in uids if self._metadata.queue(uid) is None]

    def _listed(self, uids: list[int]) -> None:
        suspects = self._unknown(uids)
        if not suspects:
            self._is_looking = False
            return

        def committed(outcome: Outcome) -> None:
            if isinstance(outcome, Batched):
                self._remove(self._unknown(suspects))
            else:
                self._is_looking = False
                self.look()

        self._propose(Batch(()), committed)

    def _remove(self, uids: list[int]) -> None:
        if not uids:
            self._is_looking = False
            return
        uid, *rest = uids
        log.info("the object store: removing the segments of a deleted stream, %016x", uid)
        self._store.remove_stream(uid, lambda: self._remove(rest), self._failed)

    def _failed(self, error: Exception) -> None:
        """The store logs why."""
        self._is_looking = False
        self._left_s = RETRY_S
