"""The state of the metadata machine as rows: one for each object, so that a change costs one row.

Takes what has changed since the last save, gives the batches of rows that bring a keyed store from
the state it has to the state at `applied_index`; and makes a machine of the rows again. Every batch
comes into the store whole or not at all, in this order. What fits into one batch is one: rows and
head together. What does not is written twice: first as parts of a *redo*, then the head that says
how many parts there are, then the rows, and at last the head without them. So a crash between any
two batches leaves the old state, with parts that are never read, or the new one, whose parts `load`
carries out again. Layout: docs/formats/metadata.md. The same rows can be sent to another node.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeVar

import msgspec

from queues.definitions.broker_objects import (
    Binding,
    Exchange,
    Parameter,
    Permission,
    Policy,
    Queue,
    TopicPermission,
    User,
    VhostEntry,
)
from queues.definitions.members import Member, Process
from queues.definitions.metadata.cluster import RosterRow
from queues.definitions.metadata.outcomes import Change, Removed
from queues.definitions.metadata.process_rows import ProcessRow
from queues.definitions.metadata.snapshot import BadSnapshot

FORMAT_VERSION: Final = 1
BATCH_BYTES: Final = 60_000
ROW_BYTES: Final = 8  # what a row takes in a part of a redo, besides its key and value

HEAD: Final = b"\x00"
EXCHANGE: Final = b"e"
BINDING: Final = b"b"
PARAMETER: Final = b"a"
PERMISSION: Final = b"p"
POLICY: Final = b"o"
PROCESS: Final = b"s"
QUEUE: Final = b"q"
REDO: Final = b"r"
ROSTER: Final = b"m"
TOPIC_PERMISSION: Final = b"t"
USER: Final = b"u"
VHOST: Final = b"v"

T = TypeVar("T")
# What has a row of its own, by its uid.
Saved = (
    VhostEntry
    | User
    | Permission
    | TopicPermission
    | Policy
    | Parameter
    | Exchange
    | Queue
    | Binding
)
Row = tuple[bytes, bytes | None]  # None: it goes
Rows = Callable[[bytes, bytes], Iterator[tuple[bytes, bytes]]]  # first key, end


class Head(msgspec.Struct, frozen=True, array_like=True):
    """What the rows are the state of."""

    applied_index: int
    version: int
    next_uid: int
    access_version: int
    redo_count: int = 0  # parts that are still to be carried out
    point: bytes = b""  # of the log group, if it has several members: opaque


class VhostRow(msgspec.Struct, frozen=True, array_like=True):
    entry: VhostEntry
    version: int


class Unsaved:
    """What a machine has changed since it was asked last; none of it changes any more."""

    __slots__ = ("changes", "head", "processes", "roster", "vhosts")

    def __init__(
        self,
        head: Head,
        vhosts: list[VhostRow],
        changes: Iterable[Change],
        roster: RosterRow | None,
        processes: Mapping[int, ProcessRow | None],
    ) -> None:
        self.head = head
        self.vhosts = vhosts  # those that are there and in which anything changed
        self.changes = changes  # the last one of each object, of the kinds that are `Saved`
        self.roster = roster  # None: as it was
        self.processes = processes  # by incarnation, those that changed; None: it goes


_ENCODE: Final = msgspec.msgpack.Encoder().encode
_HEAD_DECODER: Final = msgspec.msgpack.Decoder(Head)
_PART_DECODER: Final = msgspec.msgpack.Decoder(list[tuple[bytes, bytes | None]])


def key_of(kind: bytes, number: int) -> bytes:
    return kind + number.to_bytes(8, "big")


_SELDOM: Final[Mapping[type, bytes]] = {
    Parameter: PARAMETER,
    Permission: PERMISSION,
    Policy: POLICY,
    TopicPermission: TOPIC_PERMISSION,
    User: USER,
    VhostEntry: VHOST,
}


def kind_of(subject: Saved) -> bytes:
    if isinstance(subject, Binding):
        return BINDING
    if isinstance(subject, Queue):
        return QUEUE
    if isinstance(subject, Exchange):
        return EXCHANGE
    return _SELDOM[type(subject)]


def rows_of(unsaved: Unsaved) -> Iterator[Row]:
    """The changed rows, without the head."""
    for vhost in unsaved.vhosts:
        yield key_of(VHOST, vhost.entry.uid), _ENCODE(vhost)
    if unsaved.roster is not None:
        yield key_of(ROSTER, 0), _ENCODE(unsaved.roster)
    for process, row in unsaved.processes.items():
        yield key_of(PROCESS, process), None if row is None else _ENCODE(row)
    for change in unsaved.changes:
        subject = change.subject
        assert not isinstance(subject, (Member, Process))
        key = key_of(kind_of(subject), subject.uid)
        if isinstance(change, Removed):
            yield key, None
        elif not isinstance(subject, VhostEntry):
            yield key, _ENCODE(subject)


def batches_of(unsaved: Unsaved, batch_bytes: int = BATCH_BYTES) -> Iterator[list[Row]]:
    """What to write, in this order; see the module."""
    parts = list(parts_of(rows_of(unsaved), batch_bytes))
    if len(parts) < 2:
        yield [*(row for part in parts for row in part), head_row(unsaved.head, 0)]
        return
    for number, part in enumerate(parts):
        yield [(key_of(REDO, number), _ENCODE(part))]
    yield [head_row(unsaved.head, len(parts))]
    yield from redo(unsaved.head, parts)


def parts_of(rows: Iterable[Row], batch_bytes: int) -> Iterator[list[Row]]:
    """Runs of rows of at most `batch_bytes`, but for a row that is longer alone."""
    part: list[Row] = []
    byte_count = 0
    for key, value in rows:
        size = ROW_BYTES + len(key) + (0 if value is None else len(value))
        if part and byte_count + size > batch_bytes:
            yield part
            part = []
            byte_count = 0
        part.append((key, value))
        byte_count += size
    if part:
        yield part


def head_row(head: Head, redo_count: int) -> Row:
    counted = msgspec.structs.replace(head, redo_count=redo_count)
    return HEAD, bytes((FORMAT_VERSION,)) + _ENCODE(counted)


def redo(head: Head, parts: list[list[Row]]) -> Iterator[list[Row]]:
    """The second half of a long save: as often as need be."""
    yield from parts
    gone: list[Row] = [(key_of(REDO, number), None) for number in range(len(parts))]
    yield [head_row(head, 0), *gone]


def read_head(rows: Rows) -> Head | None:
    """None: there is no state in these rows. BadSnapshot: it is of no version known here."""
    found = next(rows(HEAD, HEAD + b"\x00"), None)
    if found is None:
        return None
    data = found[1]
    if data[0] != FORMAT_VERSION:
        raise BadSnapshot(f"unknown version of metadata rows: {data[0]}")
    return _decoded(_HEAD_DECODER, data[1:])


def unfinished(head: Head, rows: Rows) -> Iterator[list[Row]]:
    """Batches that are to be written before the rows are what the head says."""
    if head.redo_count > 0:
        found = rows(REDO, key_of(REDO, head.redo_count))
        parts = [_decoded(_PART_DECODER, value) for _, value in found]
        if len(parts) != head.redo_count:
            raise BadSnapshot(f"{len(parts)} parts of metadata rows, not {head.redo_count}")
        yield from redo(head, parts)


class Loaded:
    """Everything in the rows, in the order in which it was added."""

    def __init__(self, rows: Rows) -> None:
        self.users = list(_objects(rows, USER, User))
        self.permissions = list(_objects(rows, PERMISSION, Permission))
        self.topic_permissions = list(_objects(rows, TOPIC_PERMISSION, TopicPermission))
        self.vhosts = list(_objects(rows, VHOST, VhostRow))
        self.policies = _objects(rows, POLICY, Policy)
        self.parameters = _objects(rows, PARAMETER, Parameter)
        self.exchanges = _objects(rows, EXCHANGE, Exchange)
        self.queues = _objects(rows, QUEUE, Queue)
        self.bindings = _objects(rows, BINDING, Binding)
        self.roster = next(_objects(rows, ROSTER, RosterRow), None)
        self.processes = list(_objects(rows, PROCESS, ProcessRow))


def _objects(rows: Rows, kind: bytes, form: type[T]) -> Iterator[T]:
    decoder = msgspec.msgpack.Decoder(form)
    for _, value in rows(kind, bytes((kind[0] + 1,))):
        yield _decoded(decoder, value)


def _decoded(decoder: msgspec.msgpack.Decoder[T], data: bytes) -> T:
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadSnapshot(f"no metadata row: {error}") from error
