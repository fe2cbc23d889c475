"""What makes this node itself towards others: the cluster secret, and its data directory's number.

The secret is the content of a file that only its owner and group may read; the number is drawn once
and kept in `node-id` in the data directory (docs/formats/peer-link.md). Both are read at start, and
what is wrong with them is a text for the operator: `BadSecret`, `BadNodeId`.
"""

import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from secrets import randbelow
from typing import Final

from warren.storage.disk import Disk
from warren.wire.peer.handshake import ID_MAX, SECRET_BYTES_MIN

SECRET_BYTES_MAX: Final = 4096
OTHERS: Final = stat.S_IWGRP | stat.S_IROTH | stat.S_IWOTH  # rights that a secret must not give
NODE_ID_NAME: Final = "node-id"
NEW_NAME: Final = "node-id.new"
NODE_ID_FORMAT: Final = re.compile(rb"warren node-id 1 ([0-9a-f]{16})\n")


class BadSecret(Exception):
    """The file of the cluster's secret cannot be used."""


class BadNodeId(Exception):
    """The file with the number of the data directory is damaged."""


def draw_id() -> int:
    """A random number, unique in practice: 1 to 2^63 - 1."""
    return 1 + randbelow(ID_MAX)


def read_secret(path: Path) -> bytes:
    """The cluster's secret, without the end of its line."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(SECRET_BYTES_MAX + 1) if stat.S_ISREG(mode) else b""
    except OSError as error:
        raise BadSecret(f"cluster.secret_file = {path}: {error.strerror}") from error
    secret = content.rstrip(b"\r\n")
    fault = _secret_fault(mode, content, secret)
    if fault:
        raise BadSecret(f"cluster.secret_file = {path}: {fault}")
    return secret


def _secret_fault(mode: int, content: bytes, secret: bytes) -> str:
    if not stat.S_ISREG(mode):
        return "not a file; allowed: a file that holds the secret"
    if mode & OTHERS:
        return (
            f"its mode is {stat.S_IMODE(mode):04o}, so that others can read or change it; "
            "allowed: at most 0640"
        )
    if not secret:
        return f"empty; allowed: {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes"
    if len(secret) < SECRET_BYTES_MIN or len(content) > SECRET_BYTES_MAX:
        size = f"{len(secret)} bytes" if len(content) <= SECRET_BYTES_MAX else "too long"
        return f"{size}; allowed: {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes"
    return ""


def load_incarnation(disk: Disk, directory: str, draw: Callable[[], int] = draw_id) -> int:
    """The number of this data directory: drawn and made durable at the first start."""
    names = disk.list(directory)
    if NODE_ID_NAME in names:
        return _read_node_id(disk, os.path.join(directory, NODE_ID_NAME))
    new = os.path.join(directory, NEW_NAME)
    if NEW_NAME in names:
        disk.unlink(new)  # A crash came before it had its name; no peer has seen its number.
    incarnation = draw()
    handle = disk.create(new, 0)
    try:
        disk.pwritev(handle, [b"warren node-id 1 %016x\n" % incarnation], 0, False)
        disk.fsync(handle)
    finally:
        disk.close(handle)
    disk.rename(new, os.path.join(directory, NODE_ID_NAME))
    disk.fsync_directory(directory)
    return incarnation


def _read_node_id(disk: Disk, path: str) -> int:
    handle = disk.open(path)
    try:
        content = disk.pread(handle, 64, 0)
    finally:
        disk.close(handle)
    found = NODE_ID_FORMAT.fullmatch(content)
    incarnation = int(found[1], 16) if found is not None else 0
    if not 1 <= incarnation <= ID_MAX:
        raise BadNodeId(
            f"{path} is damaged: without it other nodes cannot tell this data directory from "
            "another; restore it, or begin with an empty data directory"
        )
    return incarnation
