"""Ids of messages that a queue has taken, so that it takes no message twice. Compiled.

Takes digests of ids of 16 bytes each, in the order of the messages; a digest of zeros is a message
without an id. Keeps the last `limit` ids, the oldest of which is forgotten first.
"""

from collections import deque
from typing import Final, final

from mypy_extensions import i64

DIGEST_BYTES: Final = 16
NO_ID: Final = bytes(DIGEST_BYTES)


Fresh = tuple[int, int, bytes]  # number of the id, the message that brought it, its digest


@final
class KnownIds:
    """Invariant: `_known` has the ids in `_order`, none of them twice. Ids have numbers, from 1 on,
    in the order in which they came: those in `_order` follow `forgotten`."""

    def __init__(self, limit: i64) -> None:
        self._limit: i64 = limit
        self._order: deque[bytes] = deque()
        self._known: set[bytes] = set()
        self.forgotten: i64 = 0  # the number of the last id that was forgotten
        self._fresh: list[Fresh] = []  # that the host has not taken

    @property
    def last(self) -> int:
        """The number of the newest id."""
        return self.forgotten + len(self._order)

    def __len__(self) -> int:
        return len(self._order)

    def resize(self, limit: i64) -> None:
        self._limit = limit
        self._trim()

    def _trim(self) -> None:
        while len(self._order) > self._limit:
            self._known.discard(self._order.popleft())
            self.forgotten += 1

    def knows(self, digests: bytes, at: i64) -> bool:
        """Whether the id of message `at` is known."""
        return digests[DIGEST_BYTES * at : DIGEST_BYTES * (at + 1)] in self._known

    def remember(self, digests: bytes, at: i64, seq: i64) -> None:
        """The queue has taken message `at`, whose id is not known, as `seq`; 0: the host need not
        log the id."""
        digest = digests[DIGEST_BYTES * at : DIGEST_BYTES * (at + 1)]
        if digest != NO_ID:
            self._order.append(digest)
            self._known.add(digest)
            if seq > 0:
                self._fresh.append((self.last, seq, digest))
            self._trim()

    def take_fresh(self) -> list[Fresh]:
        """The ids that are new since the last call, the oldest first."""
        fresh = self._fresh
        if len(fresh) > 0:
            self._fresh = []
        return fresh

    def encode(self) -> bytes:
        """All ids, the oldest first."""
        return b"".join(self._order)

    def restore(self, encoded: bytes) -> None:
        """ValueError: these are not ids, or an id is there twice."""
        if len(encoded) % DIGEST_BYTES != 0:
            raise ValueError(f"{len(encoded)} bytes of ids")
        for place in range(0, len(encoded), DIGEST_BYTES):
            digest = encoded[place : place + DIGEST_BYTES]
            if digest in self._known or digest == NO_ID:
                raise ValueError("an id twice, or none")
            self._known.add(digest)
            self._order.append(digest)
        self._trim()


def resized(known: KnownIds | None, limit: i64) -> KnownIds | None:
    """The same ids with another limit; None: none are to be known."""
    if limit <= 0:
        return None
    if known is None:
        return KnownIds(limit)
    known.resize(limit)
    return known
