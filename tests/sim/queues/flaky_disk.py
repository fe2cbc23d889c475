"""A disk some of whose writes fail, for page files (`warren.storage.pages.PageDisk`)."""

import errno
from collections.abc import Sequence
from random import Random

from tests.sim.storage.sim_disk import Buffer, SimDisk


class FlakyDisk:
    """About `share` of what is made or written fails; some of that was written all the same."""

    def __init__(self, disk: SimDisk, random: Random, share: float) -> None:
        self._disk = disk
        self._random = random
        self._share = share

    def _may_fail(self) -> None:
        if self._random.random() < self._share:
            raise OSError(errno.ENOSPC, "no space left on device")

    def create(self, path: str, size: int) -> int:
        self._may_fail()
        return self._disk.create(path, size)

    def open(self, path: str) -> int:
        return self._disk.open(path)

    def close(self, handle: int) -> None:
        self._disk.close(handle)

    def pwritev(self, handle: int, parts: Sequence[Buffer], offset: int, dsync: bool) -> None:
        if self._random.random() < 0.5:
            self._may_fail()
        self._disk.pwritev(handle, parts, offset, dsync)
        self._may_fail()

    def pread_pieces(
        self, handle: int, offset: int, pieces: Sequence[tuple[int, int]]
    ) -> Sequence[bytes]:
        return self._disk.pread_pieces(handle, offset, pieces)

    def unlink(self, path: str) -> None:
        self._disk.unlink(path)

    def list(self, directory: str) -> list[str]:
        return self._disk.list(directory)
