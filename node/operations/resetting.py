"""A node that was reset starts empty: the mark in its data directory, and the wipe.

    mark(disk, directory)                    # durable when it returns
    unmark(disk, directory)                  # nothing was done after all
    wiped = wipe_if_marked(disk, directory)  # at the start, once the directory is locked

The mark is synced before the cluster hears (`node.cluster.membership.leaving`): a node that the
cluster has
forgotten, and that stops in the middle of it, starts empty all the same. Wiped is what nodes keep
in a data directory and nothing else, so that a secret or a configuration beside it stays. The mark
goes last: a wipe that was cut off goes on at the next start. OSError: the disk is wrong.
"""

import os
from typing import Final

from warren.storage.disk import Disk

MARK: Final = "reset"
DIRECTORIES: Final = ("log", "keyed", "pages")
FILES: Final = (
    *("node-id", "node-id.new", "membership", "membership.new"),
    *("log.proof", "log.proof.new"),
)


def mark(disk: Disk, directory: str) -> None:
    if MARK not in disk.list(directory):
        handle = disk.create(os.path.join(directory, MARK), 0)
        try:
            disk.fsync(handle)
        finally:
            disk.close(handle)
    disk.fsync_directory(directory)


def unmark(disk: Disk, directory: str) -> None:
    if MARK in disk.list(directory):
        disk.unlink(os.path.join(directory, MARK))
    disk.fsync_directory(directory)


def wipe_if_marked(disk: Disk, directory: str) -> bool:
    """Whether there was a mark, and so nothing is left now."""
    names = disk.list(directory)
    if MARK not in names:
        return False
    for name in DIRECTORIES:
        if name in names:
            _empty(disk, os.path.join(directory, name))
    for name in FILES:
        if name in names:
            disk.unlink(os.path.join(directory, name))
    disk.fsync_directory(directory)
    unmark(disk, directory)
    return True


def _empty(disk: Disk, directory: str) -> None:
    """Directories themselves stay: they do not matter."""
    for name in disk.list(directory):
        path = os.path.join(directory, name)
        if os.path.isdir(path):
            _empty(disk, path)
        else:
            disk.unlink(path)
    disk.fsync_directory(directory)
