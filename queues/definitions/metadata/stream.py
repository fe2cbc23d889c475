"""The state of a metadata machine on its way to another node: slices of bytes, and back again.

`StateStream` takes a machine as it is now, by reference, for what is in it never changes, and gives
slices of at most SLICE_BYTES whenever they are wanted, the same each time. `StateBuilder` makes a
machine of them, one slice after the other. `differences` says what has changed between two states,
some at once, for routers and hosts that have followed the older one. Nothing here takes longer than
a slice does, but for the copying of the lists: 5 ms for 100,000 queues with a binding each.

Layout: docs/formats/metadata.md. BadSnapshot: the slices are none of a version known here. No I/O.
"""

from collections.abc import Callable, Iterable, Iterator
from struct import Struct
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
)
from queues.definitions.members import Member, Process
from queues.definitions.metadata import rows
from queues.definitions.metadata.cluster import RosterRow
from queues.definitions.metadata.machine import Metadata
from queues.definitions.metadata.outcomes import Added, Change, Removed, Replaced
from queues.definitions.metadata.process_rows import ProcessRow, row_of
from queues.definitions.metadata.rows import Head, Saved, VhostRow
from queues.definitions.metadata.snapshot import BadSnapshot
from queues.definitions.metadata.vhost import VHost

SLICE_BYTES: Final = 60_000
PART_BYTES: Final = 30_000
DIFFERENCES_MAX: Final = 512  # objects that are compared in one go
_LENGTH: Final = Struct(">I")
_ENCODE: Final = msgspec.msgpack.Encoder().encode
_PART_DECODER: Final = msgspec.msgpack.Decoder(list[tuple[bytes, bytes]])

S = TypeVar("S", bound=Saved)


class StateStream:
    """Slices of the state that the machine has now, whatever becomes of it."""

    def __init__(self, machine: Metadata, slice_bytes: int = SLICE_BYTES) -> None:
        self.index = machine.applied_index
        self._slice_bytes = slice_bytes
        self._slices: list[bytes] = []
        self._made = self._make(rows_of_state(machine))
        self._is_whole = False

    def slice(self, number: int) -> tuple[bytes, bool] | None:
        """Its bytes, and whether it is the last one; None: there is none of that number."""
        while not self._is_whole and len(self._slices) <= number + 1:
            content = next(self._made, None)
            if content is None:
                self._is_whole = True
            else:
                self._slices.append(content)
        if number >= len(self._slices):
            return None
        return self._slices[number], self._is_whole and number == len(self._slices) - 1

    def _make(self, found: Iterator[rows.Row]) -> Iterator[bytes]:
        waiting = bytearray()
        for part in rows.parts_of(found, PART_BYTES):
            content = _ENCODE(part)
            waiting += _LENGTH.pack(len(content))
            waiting += content
            while len(waiting) > self._slice_bytes:
                yield bytes(waiting[: self._slice_bytes])
                del waiting[: self._slice_bytes]
        yield bytes(waiting)


def rows_of_state(machine: Metadata) -> Iterator[rows.Row]:
    """All rows, the head first, then in an order in which each rests on earlier ones alone.

    The lists are taken at once; the bytes when they are drawn.
    """
    access = machine.access
    vhosts = list(machine.vhosts.values())
    processes = [row_of(each) for each in machine.processes.batches.values()]
    heads: list[rows.Row] = [
        rows.head_row(
            Head(machine.applied_index, machine.version, machine.next_uid, access.version), 0
        ),
        (rows.key_of(rows.ROSTER, 0), _ENCODE(machine.roster_row())),
        *(
            (rows.key_of(rows.PROCESS, each.process.incarnation), _ENCODE(each))
            for each in processes
        ),
        *(
            (rows.key_of(rows.VHOST, v.entry.uid), _ENCODE(VhostRow(v.entry, v.version)))
            for v in vhosts
        ),
    ]
    subjects = _subjects(vhosts, machine)
    return _drawn(heads, subjects)


def _drawn(heads: list[rows.Row], subjects: list[list[Saved]]) -> Iterator[rows.Row]:
    yield from heads
    for some in subjects:
        for subject in some:
            yield rows.key_of(rows.kind_of(subject), subject.uid), _ENCODE(subject)


def _subjects(vhosts: list[VHost], machine: Metadata) -> list[list[Saved]]:
    access = machine.access
    found: list[list[Saved]] = [
        list(access.users.values()),
        list(access.permissions_by_key.values()),
        list(access.topic_permissions_by_key.values()),
        list(machine.parameters.values()),
    ]
    for vhost in vhosts:
        found.append([*vhost.policies, *vhost.parameters.values()])
        found.append(list(vhost.exchanges.values()))
        found.append(list(vhost.queues.values()))
        found.append(list(vhost.bindings()))
    return found


class StateBuilder:
    """A machine that is made of slices, in order."""

    def __init__(self) -> None:
        self._waiting = bytearray()
        self._machine: Metadata | None = None

    def add(self, content: bytes) -> None:
        """The next slice."""
        self._waiting += content
        while len(self._waiting) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._waiting)
            end = _LENGTH.size + length
            if len(self._waiting) < end:
                return
            part = _decoded(_PART_DECODER, bytes(self._waiting[_LENGTH.size : end]))
            del self._waiting[:end]
            for key, value in part:
                self._take(key, value)

    def finish(self) -> Metadata:
        """That was the last one."""
        if self._machine is None or self._waiting:
            raise BadSnapshot("the state ends too early")
        return self._machine

    def _take(self, key: bytes, value: bytes) -> None:
        if self._machine is None:
            if key != rows.HEAD or not value:
                raise BadSnapshot("the state does not begin with its head")
            head = rows.read_head(lambda first, end: iter([(key, value)]))
            assert head is not None
            self._machine = Metadata.empty(
                head.applied_index, head.version, head.next_uid, head.access_version
            )
            return
        machine, kind = self._machine, key[:1]
        if kind == rows.ROSTER:
            machine.take_cluster(_decoded(_ROSTER_DECODER, value), ())
        elif kind == rows.PROCESS:
            machine.take_process(_decoded(_PROCESS_DECODER, value))
        elif kind == rows.VHOST:
            row = _decoded(_VHOST_DECODER, value)
            machine.take_vhost(row.entry, row.version)
        elif kind in _TAKES:
            _TAKES[kind](machine, value)
        else:
            raise BadSnapshot(f"a row of an unknown kind: {kind!r}")


def _decoded(decoder: "msgspec.msgpack.Decoder[rows.T]", data: bytes) -> "rows.T":
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadSnapshot(f"no state of definitions: {error}") from error


def _taking(
    form: type[S], take: Callable[[Metadata, S], None]
) -> Callable[[Metadata, bytes], None]:
    decoder = msgspec.msgpack.Decoder(form)
    return lambda machine, value: take(machine, _decoded(decoder, value))


_ROSTER_DECODER: Final = msgspec.msgpack.Decoder(RosterRow)
_PROCESS_DECODER: Final = msgspec.msgpack.Decoder(ProcessRow)
_VHOST_DECODER: Final = msgspec.msgpack.Decoder(VhostRow)
_TAKES: Final[dict[bytes, Callable[[Metadata, bytes], None]]] = {
    rows.USER: _taking(User, lambda machine, each: machine.access.take_user(each)),
    rows.PERMISSION: _taking(Permission, lambda machine, each: machine.access.take(each)),
    rows.TOPIC_PERMISSION: _taking(
        TopicPermission, lambda machine, each: machine.access.take_topic(each)
    ),
    rows.POLICY: _taking(Policy, lambda machine, each: machine.take_rules((each,))),
    rows.PARAMETER: _taking(Parameter, lambda machine, each: machine.take_rules((each,))),
    rows.EXCHANGE: _taking(Exchange, lambda machine, each: machine.take_in((each,))),
    rows.QUEUE: _taking(Queue, lambda machine, each: machine.take_in((each,))),
    rows.BINDING: _taking(Binding, lambda machine, each: machine.take_in((each,))),
}


# What has changed


class Contents:
    """What is in a machine, kept while it becomes another one."""

    def __init__(self, machine: Metadata) -> None:
        self.vhosts = machine.vhosts
        self.parameters = machine.parameters
        self.users = machine.access.users
        self.permissions = machine.access.permissions_by_key
        self.topic_permissions = machine.access.topic_permissions_by_key
        self.members = machine.roster.members
        self.up = machine.processes.up

    def of_access(self) -> Iterator[Saved]:
        yield from self.users.values()
        yield from self.permissions.values()
        yield from self.topic_permissions.values()

    def of_rules(self) -> Iterator[Saved]:
        yield from self.parameters.values()
        for vhost in self.vhosts.values():
            yield from vhost.policies
            yield from vhost.parameters.values()

    def of_vhosts(self) -> Iterator[Saved]:
        return (each.entry for each in self.vhosts.values())

    def of_exchanges(self) -> Iterator[Saved]:
        return (each for vhost in self.vhosts.values() for each in vhost.exchanges.values())

    def of_queues(self) -> Iterator[Saved]:
        return (each for vhost in self.vhosts.values() for each in vhost.queues.values())

    def of_bindings(self) -> Iterator[Saved]:
        return (each for vhost in self.vhosts.values() for each in vhost.bindings())


_KINDS: Final[tuple[Callable[[Contents], Iterator[Saved]], ...]] = (
    Contents.of_vhosts,
    Contents.of_access,
    Contents.of_rules,
    Contents.of_exchanges,
    Contents.of_queues,
    Contents.of_bindings,
)  # each rests on those before it


def differences(old: Contents, new: Contents) -> Iterator[list[Change]]:
    """What to remove, what rests on it first, and then what to add or to replace, each after what
    it rests on; members and processes at last. Some at once, or none after a while of looking."""
    for kind in reversed(_KINDS):
        yield from _removed(kind(old), kind(new))
    for kind in _KINDS:
        yield from _added(kind(old), kind(new))
    changes: list[Change] = [
        Removed(each) for each in old.up.values() if new.up.get(each.node) != each
    ]
    changes += (Removed(each) for key, each in old.members.items() if key not in new.members)
    for key, member in new.members.items():
        before = old.members.get(key)
        if before != member:
            changes.append(Added(member) if before is None else Replaced(member))
    changes += (Added(each) for each in new.up.values() if old.up.get(each.node) != each)
    yield changes


def _removed(old: Iterable[Saved], new: Iterable[Saved]) -> Iterator[list[Change]]:
    left = {each.uid for each in new}
    yield []
    for some in _portions(old):
        yield [Removed(each) for each in some if each.uid not in left]


def _added(old: Iterable[Saved], new: Iterable[Saved]) -> Iterator[list[Change]]:
    known = {each.uid: each for each in old}
    yield []
    for some in _portions(new):
        changes: list[Change] = []
        for each in some:
            before = known.get(each.uid)
            if before is None:
                changes.append(Added(each))
            elif before != each:
                changes.append(Replaced(each))
        yield changes


def _portions(subjects: Iterable[Saved]) -> Iterator[list[Saved]]:
    portion: list[Saved] = []
    for each in subjects:
        portion.append(each)
        if len(portion) == DIFFERENCES_MAX:
            yield portion
            portion = []
    yield portion


def become(machine: Metadata, new: Metadata) -> Iterator[list[Change]]:
    """Have the machine be what `new` is, at once, and give what that changes, to be gone through to
    the end: as that is done, it is noted as unsaved."""
    old = Contents(machine)
    machine.be(new)
    return _noted(machine, differences(old, Contents(new)))


def _noted(machine: Metadata, found: Iterator[list[Change]]) -> Iterator[list[Change]]:
    for changes in found:
        machine.note_unsaved(changes)
        yield changes


def members_of(changes: Iterable[Change]) -> list[Change]:
    """Those of them that are about members and processes."""
    return [each for each in changes if isinstance(each.subject, (Member, Process))]
