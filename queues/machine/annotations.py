"""What consumers note on messages that they give back: annotations of `modified`. Compiled.

*Words* are annotations as bytes: entries one behind the other, each key length (u8), key, value
length (u32, little-endian), value. A key is the text of an AMQP 1.0 symbol, the value any AMQP 1.0
value as it is encoded; the machine looks into neither. Keys stand in the order in which they first
came, and a later value takes the place of an earlier one.

Bounded: WORDS_BYTES_MAX for one message, TOTAL_BYTES_MAX for all of a queue. Words that would go
over one of these are not taken, and the message keeps those that it had.
"""

from typing import Final, final

from mypy_extensions import i64

from queues.runs.columns import alike_runs

WORDS_BYTES_MAX: Final = 2048  # of one message
TOTAL_BYTES_MAX: Final = 4 * 1024 * 1024  # of all messages of a queue
KEY_BYTES_MAX: Final = 255

Words = dict[bytes, bytes]  # the same taken apart: values by key


@final
class Annotations:
    """Invariant: `total_bytes` is the sum of all words."""

    def __init__(self) -> None:
        self.words: dict[int, bytes] = {}  # by message_seq
        self.total_bytes: i64 = 0

    def merge(self, first: i64, count: i64, words: bytes) -> None:
        """Messages first.. have these from now on, beside those that they had."""
        seq = first
        while seq < first + count:
            old = self.words.get(seq, b"")
            merged = words if len(old) == 0 else merged_words(old, words)
            more = i64(len(merged)) - len(old)
            if len(merged) <= WORDS_BYTES_MAX and self.total_bytes + more <= TOTAL_BYTES_MAX:
                self.words[seq] = merged
                self.total_bytes += more
            seq += 1

    def restore_all(self, words: dict[int, bytes]) -> None:
        """Of messages that have none yet."""
        for seq, each in words.items():
            self.restore(seq, 1, each)

    def restore(self, first: i64, count: i64, words: bytes) -> None:
        """Of messages that have none yet; they are within the bounds already."""
        seq = first
        while seq < first + count:
            self.words[seq] = words
            self.total_bytes += len(words)
            seq += 1

    def take(self, first: i64, count: i64) -> dict[int, bytes]:
        """Messages first.. leave the queue: their words."""
        taken: dict[int, bytes] = {}
        for seq in self._within(first, count):
            words = self.words.pop(seq)
            self.total_bytes -= len(words)
            taken[seq] = words
        return taken

    def bare_run(self, first: i64, count: i64) -> i64:
        """How many of messages first.. come before one that has words."""
        found = self._within(first, count)
        return i64(min(found)) - first if len(found) > 0 else count

    def runs(self) -> list[tuple[int, int, bytes]]:
        """(first, count, words of each), ascending."""
        return alike_runs(self.words)

    def _within(self, first: i64, count: i64) -> list[int]:
        """Those of messages first.. that have words, in no order that matters."""
        if count > len(self.words):
            return [seq for seq in self.words if first <= seq and seq < first + count]
        found: list[int] = []
        seq = first
        while seq < first + count:
            if seq in self.words:
                found.append(seq)
            seq += 1
        return found


def merged_words(old: bytes, new: bytes) -> bytes:
    """Both; where they have the same key, the new value."""
    both = decode_words(old)
    both.update(decode_words(new))
    return encode_words(both)


def encode_words(words: Words) -> bytes:
    """ValueError: a key that is too long."""
    parts: list[bytes] = []
    for key, value in words.items():
        if len(key) > KEY_BYTES_MAX:
            raise ValueError(f"a key of {len(key)} bytes")
        parts.append(bytes((len(key),)))
        parts.append(key)
        parts.append(len(value).to_bytes(4, "little"))
        parts.append(value)
    return b"".join(parts)


def decode_words(words: bytes) -> Words:
    """ValueError: these bytes are no words."""
    found: Words = {}
    at: i64 = 0
    end: i64 = len(words)
    while at < end:
        value_at = at + 5 + words[at]
        if value_at > end:
            raise ValueError(f"words cut short at byte {at}")
        key = words[at + 1 : value_at - 4]
        at = value_at + int.from_bytes(words[value_at - 4 : value_at], "little")
        if at > end:
            raise ValueError(f"words cut short at byte {value_at}")
        if key in found:
            raise ValueError(f"the key {key!r} twice")
        found[key] = words[value_at:at]
    return found
