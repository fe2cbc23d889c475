"""Entries of a stream's group: commands, and the messages that they publish.

An entry is version u8 (1), now_ms u64, count u32, for each command its length u32 and its bytes
(`queues.machine.commands`), then the messages of each ENQUEUE in order, as runs
(`queues.hosts.quorum_entry.put_run`), little-endian. Messages are part of the entry, since the
entry is all that there is of them until they are in a segment. No I/O.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final

from queues.hosts.quorum_entry import put_run, take_runs
from queues.machine.commands import Command, Configure, Numbered, decode, encode, process_of
from queues.message import Chunk
from queues.sessions.credit import CreditActor
from queues.streams.duplicates import ids_limit

VERSION: Final = 1
HEAD: Final = Struct("<BQI")
LENGTH: Final = Struct("<I")

Owed = list[tuple[CreditActor, int]]


class Batch:
    """Commands that are proposed together, with the messages that they publish."""

    __slots__ = ("chunks", "commands", "now_ms", "owed", "place")

    def __init__(self, commands: list[Command], chunks: list[Chunk], owed: Owed) -> None:
        self.commands = commands
        self.chunks = chunks
        self.owed = owed
        self.now_ms = 0
        self.place = (0, 0)

    def remember_ids(self, before: int, wanted: int | None) -> None:
        """Have the stream remember so many ids, if it remembers another number of them."""
        if wanted not in (before, None) and not isinstance(self.commands[0], Configure):
            self.commands.insert(0, ids_limit(wanted))

    def processes(self) -> set[int]:
        """Of the sessions that gave the commands."""
        numbered = [each for each in self.commands if isinstance(each, Numbered)]
        return {process_of(each.session) for each in numbered}


def encode_entry(now_ms: int, commands: Sequence[Command], chunks: Sequence[Chunk]) -> list[bytes]:
    """The parts of an entry, which are not joined; bytes of all chunks are in memory."""
    head = [HEAD.pack(VERSION, now_ms, len(commands))]
    for command in commands:
        encoded = encode(command)
        head.append(LENGTH.pack(len(encoded)))
        head.append(encoded)
    parts = [b"".join(head)]
    for chunk in chunks:
        parts.extend(put_run(0, chunk, 0, chunk.count()))
    return parts


def decode_entry(content: bytes) -> tuple[int, list[Command], list[Chunk]]:
    """Time, commands and chunks. BadCommand, ValueError: not an entry that this node knows."""
    if len(content) < HEAD.size:
        raise ValueError("an entry of a stream is cut short")
    version, now_ms, count = HEAD.unpack_from(content)
    if version != VERSION:
        raise ValueError(f"an entry of a stream of version {version}")
    commands: list[Command] = []
    at = HEAD.size
    for _ in range(count):
        if at + LENGTH.size > len(content):
            raise ValueError("an entry of a stream is cut short")
        (length,) = LENGTH.unpack_from(content, at)
        at += LENGTH.size
        commands.append(decode(content[at : at + length]))
        at += length
    return now_ms, commands, [chunk for _, chunk in take_runs(content, at)]
