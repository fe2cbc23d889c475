"""Entries of the metadata group of a cluster: batches of several processes, one behind the other.

The first byte is the version of the layout, 2 (an entry of version 1 is one command); then, for
each batch, its length (u32, big-endian) and its bytes, a command `Numbered` as in
`commands`. The leader puts them together as they came, unread.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final

from queues.definitions.metadata.commands import BadCommand, Batch, Command, decode

ENTRY_VERSION: Final = 2
_HEAD: Final = bytes((ENTRY_VERSION,))
_LENGTH: Final = Struct(">I")


def encode_entry(batches: Sequence[bytes]) -> list[bytes]:
    """The parts of an entry of these batches."""
    parts = [_HEAD]
    for batch in batches:
        parts.append(_LENGTH.pack(len(batch)))
        parts.append(batch)
    return parts


def decode_entry(content: bytes) -> Batch:
    """The commands of an entry of either version; BadCommand: it is none."""
    if content[:1] != _HEAD:
        return Batch((decode(content),))
    found: list[Command] = []
    at = 1
    while at < len(content):
        if at + _LENGTH.size > len(content):
            raise BadCommand("an entry of definitions ends too early")
        (length,) = _LENGTH.unpack_from(content, at)
        at += _LENGTH.size
        if at + length > len(content):
            raise BadCommand("an entry of definitions ends too early")
        found.append(decode(content[at : at + length]))
        at += length
    return Batch(tuple(found))
