"""Bytes of coordination: frames between nodes, and commands in pysyncobj's log. No pickle.

A frame of kind COORDINATION is generation (u64, big-endian) and one message in msgpack: the map
that pysyncobj hands to its transport, of which only what FIELDS names is taken. A command in the
log is a byte for its kind (0: ours, 1: nothing) and, of ours, in msgpack the number of the
replicated method (0: there is one) and a list with the command as bytes (`registry`).

pysyncobj turns commands and snapshots into bytes by the functions of its module `pickle`;
`install` puts those of this module in their place, for the whole process. What does
not have the form above is refused with BadMessage before pysyncobj sees any of it, a pickle too.
"""

from struct import Struct
from typing import Annotated, BinaryIO, Final, Literal, Required, TypedDict, cast

import msgspec
from msgspec import Meta

from node.cluster.coordination.registry import Beat, Claim, Command, Release

GENERATION: Final = Struct(">Q")
REGULAR: Final = b"\x00"  # pysyncobj's kinds of commands
NO_OP: Final = b"\x01"
METHOD: Final = 0  # number of the one replicated method
SNAPSHOT_BYTES_MAX: Final = 4 << 20  # JOBS_MAX jobs with the longest names take a sixth of it

Number = Annotated[int, Meta(ge=0, lt=1 << 62)]
Entry = tuple[bytes, Number, Number]  # command, index, term


class BadMessage(Exception):
    """Nothing that a node of this version says."""


class Message(TypedDict, total=False):
    """All fields of all messages."""

    type: Required[
        Literal["request_vote", "response_vote", "append_entries", "apply_command", "next_node_idx"]
    ]
    term: Number
    last_log_term: Number
    last_log_index: Number
    commit_index: Number
    entries: list[Entry]
    prevLogIdx: Number | None
    prevLogTerm: Number | None
    serialized: tuple[bytes, bool, bool] | None
    command: bytes
    next_node_idx: Number
    reset: bool
    success: bool


# What a message of each type must have.
FIELDS: Final[dict[str, frozenset[str]]] = {
    "request_vote": frozenset({"term", "last_log_term", "last_log_index"}),
    "response_vote": frozenset({"term"}),
    "append_entries": frozenset({"term", "commit_index"}),
    "apply_command": frozenset({"command"}),
    "next_node_idx": frozenset({"next_node_idx", "reset", "success"}),
}

MESSAGES: Final = msgspec.msgpack.Decoder(Message)
CALLS: Final = msgspec.msgpack.Decoder(tuple[int, tuple[bytes]])
TUPLES: Final = msgspec.msgpack.Decoder(tuple)
COMMANDS: Final = msgspec.msgpack.Decoder(Beat | Claim | Release)


# Frames


def encode_frame(generation: int, message: object) -> bytes:
    return GENERATION.pack(generation) + dumps(message)


def generation_of(frame: memoryview) -> int:
    if len(frame) < GENERATION.size:
        raise BadMessage(f"a frame of {len(frame)} bytes")
    generation: int = GENERATION.unpack_from(frame)[0]
    return generation


def decode_frame(frame: memoryview) -> Message:
    """The message of a frame, checked."""
    try:
        message = MESSAGES.decode(frame[GENERATION.size :])
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise BadMessage(str(error)) from error
    kind = message["type"]
    missing = FIELDS[kind] - message.keys()
    if kind == "append_entries" and "serialized" not in message:
        missing |= {"entries", "prevLogIdx", "prevLogTerm"} - message.keys()
    if missing:
        raise BadMessage(f"{kind} without {', '.join(sorted(missing))}")
    for command, _, _ in message.get("entries", []):
        check_logged(command)
    if kind == "apply_command":
        check_logged(message["command"])
    return message


def check_logged(logged: bytes) -> None:
    """Whether this may be in the log."""
    if logged == NO_OP:
        return
    if logged[:1] != REGULAR:
        raise BadMessage(f"a command of kind {logged[:1]!r}")
    try:
        method, (command,) = CALLS.decode(logged[1:])
    except (msgspec.DecodeError, ValueError) as error:
        raise BadMessage(f"a command that is none: {error}") from error
    if method != METHOD:
        raise BadMessage(f"a command to method {method}")
    decode_command(command)


# Commands


def encode_command(command: Command) -> bytes:
    return msgspec.msgpack.encode(command)


def decode_command(data: bytes) -> Command:
    try:
        return cast(Command, COMMANDS.decode(data))
    except (msgspec.DecodeError, ValueError) as error:
        raise BadMessage(f"a command that is none: {error}") from error


# In place of pickle


def dumps(value: object, protocol: object = None) -> bytes:
    """As `pickle.dumps`; `protocol` means nothing. Nodes of pysyncobj become their ids."""
    return msgspec.msgpack.encode(value, enc_hook=lambda node: node.id)


def loads(data: bytes) -> tuple[object, ...]:
    """As `pickle.loads`, of what `dumps` made of a tuple."""
    try:
        return cast("tuple[object, ...]", TUPLES.decode(data))
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise BadMessage(str(error)) from error


def dump(value: object, file: BinaryIO, protocol: object = None) -> None:
    """As `pickle.dump`, of a snapshot; the file is in memory."""
    file.write(dumps(value))


def load(file: BinaryIO) -> tuple[object, ...]:
    """As `pickle.load`, of a snapshot that `dump` wrote, perhaps on another node."""
    data = file.read(SNAPSHOT_BYTES_MAX + 1)
    if len(data) > SNAPSHOT_BYTES_MAX:
        raise BadMessage(f"a snapshot of more than {SNAPSHOT_BYTES_MAX} bytes")
    return loads(data)


def install() -> None:
    """Have pysyncobj use these. It must not be used for anything else in this process."""
    import pysyncobj.pickle

    pysyncobj.pickle.dumps = dumps
    pysyncobj.pickle.loads = loads
    pysyncobj.pickle.dump = dump
    pysyncobj.pickle.load = load
