"""Which message of a queue is the newest of its key, for queues that keep last values. Compiled.

Takes digests of keys of 16 bytes each, in the order of the messages; a digest of zeros is a message
without a key, which is never replaced.
"""

from struct import Struct, iter_unpack
from typing import Final, final

from mypy_extensions import i64

from queues.machine.known_ids import DIGEST_BYTES, NO_ID

ROW: Final = Struct("<QB16s")  # message, whether it is the newest of its key, digest of the key


@final
class LastValues:
    """Invariant: `_newest` names messages of `_keys` with that key."""

    def __init__(self) -> None:
        self._newest: dict[bytes, int] = {}
        self._keys: dict[int, bytes] = {}

    def put(self, seq: i64, digests: bytes, at: i64) -> i64:
        """Message `seq`, whose digest is the one at `at`, is new. Return the message that was the
        newest of its key; 0: there is none."""
        digest = digests[DIGEST_BYTES * at : DIGEST_BYTES * (at + 1)]
        if digest == NO_ID:
            return 0
        old = self._newest.get(digest, 0)
        self._newest[digest] = seq
        self._keys[seq] = digest
        return old

    def found(self, seq: i64, digest: bytes) -> i64:
        """A restart has found that message `seq` has this key; newer messages may have come
        meanwhile. Return the message that a newer one replaces; 0: there is none."""
        if digest == NO_ID or seq in self._keys:
            return 0
        self._keys[seq] = digest
        newest: i64 = self._newest.get(digest, 0)
        if newest > seq:
            return seq
        self._newest[digest] = seq
        return newest

    def is_newest(self, seq: i64) -> bool:
        """Whether no newer message with its key has come."""
        digest = self._keys.get(seq)
        return digest is None or self._newest.get(digest) == seq

    def forget(self, first: i64, count: i64) -> None:
        """Messages first.. are no longer in the queue."""
        for seq in range(first, first + count):
            digest = self._keys.pop(seq, None)
            if digest is not None and self._newest.get(digest) == seq:
                del self._newest[digest]

    def encode(self) -> bytes:
        """All messages with keys, ascending."""
        rows = [
            ROW.pack(seq, int(self._newest.get(self._keys[seq]) == seq), self._keys[seq])
            for seq in sorted(self._keys)
        ]
        return b"".join(rows)

    def restore(self, encoded: bytes, end: int) -> None:
        """ValueError: these are not such messages, all below `end`."""
        if len(encoded) % ROW.size != 0:
            raise ValueError(f"{len(encoded)} bytes of keys")
        last = 0
        for seq, is_newest, digest in iter_unpack(ROW.format, encoded):
            if not last < seq < end or digest == NO_ID or (is_newest and digest in self._newest):
                raise ValueError("keys out of order, or two newest messages of one")
            last = seq
            self._keys[seq] = digest
            if is_newest:
                self._newest[digest] = seq
