"""A standby's question to its primary as bytes. Not compiled.

    body = Question("state", (), known).encode()     # what the standby sends
    question = await decode_question(body)           # what the primary reads

A question has a name, what it is about, and names of queues with their known tokens, of which there
may be very many. It is a row of parts, each a length of 4 bytes and MessagePack: the first one has
name and subject, the others have tokens. The primary decodes one part in a turn of the loop: a
thread would not help, because the library keeps the interpreter's lock while it decodes.
"""

import asyncio
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

import msgspec
from msgspec import Struct, field

PART_BYTES_MAX: Final = 128 * 1024  # decoded in 5 ms at most
TOKENS_IN_PART: Final = 400  # with names of 255 bytes they are within the limit
LENGTH_BYTES: Final = 4

_HEAD: Final = msgspec.msgpack.Decoder(tuple[str, tuple[Any, ...]])
_TOKENS: Final = msgspec.msgpack.Decoder(dict[str, bytes])


class BadQuestion(ValueError):
    """It is no question; the text says why."""


class Question(Struct, frozen=True):
    """See the module."""

    name: str
    about: tuple[Any, ...]
    known: Mapping[str, bytes] = field(default_factory=dict)  # tokens by queue

    def encode(self) -> bytes:
        parts = [msgspec.msgpack.encode((self.name, self.about))]
        tokens = iter(self.known.items())
        while some := dict(islice(tokens, TOKENS_IN_PART)):
            parts.append(msgspec.msgpack.encode(some))
        return b"".join(len(each).to_bytes(LENGTH_BYTES, "big") + each for each in parts)


async def decode_question(body: bytes) -> Question:
    """The question in the bytes. BadQuestion: a part is malformed or over PART_BYTES_MAX."""
    known: dict[str, bytes] = {}
    try:
        part, at = _part(body, 0)
        name, about = _HEAD.decode(part)
        while at < len(body):
            await asyncio.sleep(0)
            part, at = _part(body, at)
            known.update(_TOKENS.decode(part))
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadQuestion(str(error)) from error
    return Question(name, about, known)


def _part(body: bytes, at: int) -> tuple[bytes, int]:
    """The part at that place, and where the next one begins."""
    start = at + LENGTH_BYTES
    end = start + int.from_bytes(body[at:start], "big")
    if end > len(body) or start > len(body):
        raise BadQuestion("the question is cut off")
    if end - start > PART_BYTES_MAX:
        raise BadQuestion(f"a part has {end - start:,} bytes; allowed: {PART_BYTES_MAX:,}")
    return body[start:end], end
