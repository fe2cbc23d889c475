"""Snapshot of the metadata machine: its values and their bytes (docs/formats/metadata.md)."""

from typing import Final

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
from queues.definitions.metadata.cluster import RosterRow
from queues.definitions.metadata.process_rows import ProcessRow
from queues.definitions.metadata.vhost import VHost

FORMAT_VERSION: Final = 1
_HEAD: Final = bytes((FORMAT_VERSION,))


class BadSnapshot(Exception):
    """Bytes that are no snapshot of a version that this node knows."""


class VhostSnapshot(msgspec.Struct, frozen=True, array_like=True):
    """Each list in the order in which its things were added."""

    entry: VhostEntry
    version: int
    exchanges: tuple[Exchange, ...]
    queues: tuple[Queue, ...]
    bindings: tuple[Binding, ...]
    policies: tuple[Policy, ...] = ()
    parameters: tuple[Parameter, ...] = ()


class Snapshot(msgspec.Struct, frozen=True, array_like=True):
    applied_index: int
    version: int
    next_uid: int
    access_version: int
    users: tuple[User, ...]
    permissions: tuple[Permission, ...]
    vhosts: tuple[VhostSnapshot, ...]
    topic_permissions: tuple[TopicPermission, ...] = ()
    parameters: tuple[Parameter, ...] = ()  # global ones
    roster: RosterRow | None = None
    processes: tuple[ProcessRow, ...] = ()  # by ascending incarnation


def of_vhost(vhost: VHost) -> VhostSnapshot:
    return VhostSnapshot(
        vhost.entry,
        vhost.version,
        tuple(vhost.exchanges.values()),
        tuple(vhost.queues.values()),
        tuple(vhost.bindings()),
        tuple(vhost.policies),
        tuple(vhost.parameters.values()),
    )


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(Snapshot)


def encode(snapshot: Snapshot) -> bytes:
    return _HEAD + _ENCODER.encode(snapshot)


def decode(data: bytes) -> Snapshot:
    """The snapshot in `data`; raise BadSnapshot unless the bytes are one of a known version."""
    if data[:1] != _HEAD:
        raise BadSnapshot(f"unknown version of metadata snapshot: {data[:1].hex()!r}")
    try:
        return _DECODER.decode(memoryview(data)[1:])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadSnapshot(f"no metadata snapshot: {error}") from error
