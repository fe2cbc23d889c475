"""The label of a message in a standby: which message of the primary it is. Pure.

A message annotation (AMQP 1.0) or header (0-9-1) `x-opt-standby-id`: uid of the primary's queue,
epoch, number and digest, so that a standby that has restarted knows what it has.
"""

from typing import Final

from msgspec import Struct

from node.standby.stored_runs import StoredRun, digest
from queues.conversion.annotated import annotated
from queues.conversion.values import pairs_of
from queues.machine.annotations import encode_words
from queues.message import FORMAT_10, Chunk
from warren.wire.amqp091.deliver import extract
from warren.wire.amqp091.properties import readable_properties
from warren.wire.amqp10.codec.message import Sections
from warren.wire.amqp10.codec.writer import write_value
from warren.wire.amqp10.transfers import payload_at
from warren.wire.buffer import BytesWriter

KEY: Final = "x-opt-standby-id"
PARTS: Final = 4


class Label(Struct, frozen=True):
    uid: int
    epoch: int
    number: int
    digest: bytes

    def encode(self) -> str:
        return f"{self.uid:x}.{self.epoch:x}.{self.number:x}.{self.digest.hex()}"


def parse_label(text: object) -> Label | None:
    """None: it is no label."""
    parts = str(text).split(".")
    if len(parts) != PARTS:
        return None
    try:
        uid, epoch, number = (int(each, 16) for each in parts[:3])
        return Label(uid, epoch, number, bytes.fromhex(parts[3]))
    except ValueError:
        return None


def label_of(format_tag: int, message: bytes) -> Label | None:
    """Of a message in stored form; None: it has none."""
    if format_tag != FORMAT_10:
        encoded = extract(message, 0, len(message))[2]
        return parse_label((readable_properties(encoded).headers or {}).get(KEY))
    sections = Sections()
    if sections.walk_head(message, int(payload_at(message, 0)), len(message)) < 0:
        return None
    found = {str(name): each for name, each in pairs_of(sections.annotations(message))}
    return parse_label(found.get(KEY))


def labelled(run: StoredRun, uid: int, epoch: int) -> Chunk:
    """The messages of a primary's queue as they are published in its standby."""
    made: list[bytes] = []
    offsets = bytearray(4)
    size = 0
    for number, message in enumerate(run.messages(), run.first):
        whole = bytes(4) + len(message).to_bytes(4, "little")
        chunk = Chunk(run.format_tag, message, 0, whole, run.info, run.names)
        text = Label(uid, epoch, number, digest(message)).encode()
        encoded = BytesWriter()
        write_value(encoded, text)
        found = annotated(chunk, 0, encode_words({KEY.encode(): encoded.getvalue()}))
        assert found.data is not None
        made.append(found.data)
        size += len(found.data)
        offsets += size.to_bytes(4, "little")
    return Chunk(run.format_tag, b"".join(made), 0, bytes(offsets), run.info, run.names)
