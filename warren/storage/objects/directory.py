"""An object store in a directory that all nodes mount, such as one of a file server.

An object is a file. It is written under another name, synced and renamed, so a reader finds all of
it or nothing. Files are read and written on threads: a file server may take long to answer.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from typing import Final, TypeVar

from warren.storage.objects.store import NoSuchObject, StoreUnavailable

UNFINISHED: Final = ".part"
T = TypeVar("T")


class DirectoryStore:
    """Keeps `warren.storage.objects.store.ObjectStore`. The directory has to be there."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def _path(self, key: str) -> str:
        return os.path.join(self._directory, *key.split("/"))

    async def _run(self, key: str, work: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(work)
        except FileNotFoundError as error:
            if not os.path.isdir(self._directory):
                reason = f"file://{self._directory}: there is no such directory"
                raise StoreUnavailable(reason) from error
            raise NoSuchObject(f"file://{self._path(key)}") from error
        except OSError as error:
            raise StoreUnavailable(f"file://{self._directory}: {error}") from error

    async def put(self, key: str, parts: AsyncIterator[bytes]) -> None:
        try:
            await self._put(key, parts)
        except NoSuchObject as error:  # Another node has removed its folder, which was empty.
            raise StoreUnavailable(str(error)) from error

    async def _put(self, key: str, parts: AsyncIterator[bytes]) -> None:
        path = self._path(key)
        handle = await self._run(key, lambda: self._create(path))
        try:
            async for part in parts:
                await self._run(key, lambda part=part: write_all(handle, part))  # type: ignore[misc]
            await self._run(key, lambda: os.fsync(handle))
        finally:
            os.close(handle)
        await self._run(key, lambda: self._finish(path))

    def _create(self, path: str) -> int:
        if not os.path.isdir(self._directory):  # Never make it: a disk may not be mounted there.
            raise FileNotFoundError(self._directory)
        folder = os.path.dirname(path)
        os.makedirs(folder, exist_ok=True)
        while len(folder) >= len(self._directory.rstrip("/")):
            sync_directory(folder)
            folder = os.path.dirname(folder)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        return os.open(path + UNFINISHED, flags, 0o600)

    @staticmethod
    def _finish(path: str) -> None:
        os.rename(path + UNFINISHED, path)
        sync_directory(os.path.dirname(path))

    async def get(self, key: str, start: int, length: int) -> bytes:
        path = self._path(key)

        def work() -> bytes:
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                found = os.pread(handle, length, start)
                while len(found) < length:
                    more = os.pread(handle, length - len(found), start + len(found))
                    if not more:
                        break
                    found += more
                return found
            finally:
                os.close(handle)

        return await self._run(key, work)

    async def keys(self, prefix: str) -> list[str]:
        folder, _, begin = prefix.rpartition("/")
        names = await self._names(folder)
        known = {each.removesuffix(UNFINISHED) for each in names if each.startswith(begin)}
        return sorted(f"{folder}/{name}" for name in known)

    async def folders(self, prefix: str) -> list[str]:
        return await self._names(prefix.rstrip("/"))

    async def _names(self, folder: str) -> list[str]:
        try:
            return await self._run(folder, lambda: sorted(os.listdir(self._path(folder))))
        except NoSuchObject:
            return []

    async def delete(self, key: str) -> None:
        path = self._path(key)

        def work() -> None:
            for each in (path, path + UNFINISHED):
                if os.path.exists(each):
                    os.unlink(each)
            folder = os.path.dirname(path)
            if os.path.isdir(folder) and not os.listdir(folder):
                os.rmdir(folder)

        await self._run(key, work)

    async def close(self) -> None:
        """Nothing is open."""


def write_all(handle: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(handle, view) :]


def sync_directory(path: str) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
