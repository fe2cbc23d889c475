"""What a data directory knows of its cluster: the file `membership` in it. No loop.

A data directory belongs to one node of one cluster, from the moment that this file is durable: it
is written before the node votes or stores anything for the cluster. It holds the node's name, the
incarnation that `node-id` holds too (`node.cluster.peering.cluster_secret`), the member id, the
number of the
cluster (0 while it is being founded), the founding list and the addresses of the members as they
were last known, so that a node that starts finds them before it knows any definition.

Layout (docs/formats/membership.md): one line `warren membership 1 ` with the CRC-32 of what follows
in 8 hexadecimal digits, then a JSON object. It is replaced as a whole: new file, sync, rename, sync
of the directory. What is damaged or does not fit is a `BadMembership` with a text for the operator.
"""

import os
import re
import zlib
from typing import Final

import msgspec

from warren.storage.disk import Disk

NAME: Final = "membership"
NEW_NAME: Final = "membership.new"
BYTES_MAX: Final = 1 << 20
HEAD: Final = re.compile(rb"warren membership (\d+) ([0-9a-f]{8})\n")
FORMAT: Final = 1
LOG_DIRECTORY: Final = "log"  # has files as soon as a node has used the data directory


class BadMembership(Exception):
    """The data directory does not fit the node's configuration, or its file is damaged."""


class EnteringFailed(Exception):
    """No cluster has this node as it is; the text says what to change."""


class PeerAddress(msgspec.Struct, frozen=True, array_like=True):
    """Another member, where it was last known to be."""

    member: int
    host: str
    port: int
    incarnation: int = 0  # of its data directory; 0: not known yet


class Membership(msgspec.Struct, frozen=True):
    """What this data directory is in its cluster."""

    name: str  # of the node
    incarnation: int
    member: int
    cluster_id: int  # 0: the cluster is being founded
    founders: tuple[str, ...]  # the founding list, sorted: voters 1.. of the first group
    is_founder: bool  # it begins as one of these voters; else it was taken in, and learns them
    given_below: int = 1  # ids below it have been given; who is no peer was removed
    peers: tuple[PeerAddress, ...] = ()


class MembershipFile:
    """The file in its directory. `held` is what is durable; None: nothing is."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self.held: Membership | None = None
        self._disk = disk
        self._directory = directory

    def read(self, name: str, incarnation: int) -> Membership | None:
        """What there is, for a node of that name. BadMembership: it cannot be used."""
        names = self._disk.list(self._directory)
        if NEW_NAME in names:
            self._disk.unlink(os.path.join(self._directory, NEW_NAME))  # Never had its name.
        if NAME not in names:
            return None
        path = os.path.join(self._directory, NAME)
        held = decode(self._content(path), path)
        if held.name != name:
            raise BadMembership(
                f"data directory {self._directory} belongs to node '{held.name}', and "
                f"this node is named '{name}': a data directory keeps the name of its node"
            )
        if held.incarnation != incarnation:
            raise BadMembership(
                f"{path} is of another data directory: it must not be copied; begin with an empty "
                "data directory, and the cluster takes the node in"
            )
        self.held = held
        return held

    def write(self, membership: Membership) -> None:
        """Make it durable, in place of what was there."""
        disk = self._disk
        new = os.path.join(self._directory, NEW_NAME)
        content = encode(membership)
        if NEW_NAME in disk.list(self._directory):
            disk.unlink(new)  # A write before has failed.
        handle = disk.create(new, 0)
        try:
            disk.pwritev(handle, [content], 0, False)
            disk.fsync(handle)
        finally:
            disk.close(handle)
        disk.rename(new, os.path.join(self._directory, NAME))
        disk.fsync_directory(self._directory)
        self.held = membership

    def _content(self, path: str) -> bytes:
        handle = self._disk.open(path)
        try:
            return self._disk.pread(handle, BYTES_MAX, 0)
        finally:
            self._disk.close(handle)


def encode(membership: Membership) -> bytes:
    """The file's content."""
    body = msgspec.json.encode(membership) + b"\n"
    return b"warren membership %d %08x\n" % (FORMAT, zlib.crc32(body)) + body


def decode(content: bytes, path: str) -> Membership:
    """The same, back. BadMembership: it is damaged, or of a later version."""
    head = HEAD.match(content)
    if head is not None and int(head[1]) > FORMAT:
        raise BadMembership(f"{path} was written by a later version of Warren")
    body = content[head.end() :] if head is not None else b""
    if head is None or int(head[1]) != FORMAT or int(head[2], 16) != zlib.crc32(body):
        raise BadMembership(damage_text(path))
    try:
        return msgspec.json.decode(body, type=Membership)
    except msgspec.DecodeError as error:
        raise BadMembership(damage_text(path)) from error


def damage_text(path: str) -> str:
    """What to do about a damaged file."""
    return (
        f"{path} is damaged: without it the node does not know which member of its cluster it is; "
        "restore it, or begin with an empty data directory, and the cluster takes the node in"
    )


def was_used(disk: Disk, directory: str) -> bool:
    """Whether a node has kept messages or definitions there."""
    if LOG_DIRECTORY not in disk.list(directory):
        return False
    return bool(disk.list(os.path.join(directory, LOG_DIRECTORY)))


def belongs_to_cluster(disk: Disk, directory: str) -> bool:
    """Whether a member of a cluster has this data directory."""
    return NAME in disk.list(directory)


def old_format_fault(directory: str) -> str:
    """Why a data directory with a log and no membership is not read."""
    return (
        f"data directory {directory} was written by an earlier version of Warren, whose format "
        "this version does not read: export its definitions and messages with that version, and "
        "begin with an empty data directory"
    )


def no_listener_fault(directory: str, others: int) -> str:
    """Why a member of a larger cluster does not start without a listener for the others."""
    return (
        f"data directory {directory} belongs to a member of a cluster with {others} other "
        "members: set listeners.cluster (--cluster) and cluster.secret_file, so that it can "
        "reach them"
    )
