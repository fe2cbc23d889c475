"""Object stores: where segments of streams are kept beside the disks of the nodes.

    await store.put(key, parts)        # all of it or nothing is there under the key
    await store.get(key, start, length)

A key is a path of plain names. All methods are called on one event loop. StoreUnavailable: the
store does not answer, or refuses this node; the same call may succeed later. NoSuchObject: the
store answers, and has nothing under the key.
"""

from collections.abc import AsyncIterator
from typing import Protocol


class StoreUnavailable(Exception):
    """The store cannot be used now; the text says which store and why."""


class NoSuchObject(Exception):
    """The store has nothing under the key that the text names."""


class ObjectStore(Protocol):
    """See the module."""

    async def put(self, key: str, parts: AsyncIterator[bytes]) -> None:
        """Store an object, in place of an earlier one. It is durable on return."""

    async def get(self, key: str, start: int, length: int) -> bytes:
        """Return a range of an object; fewer bytes only where the object ends."""

    async def keys(self, prefix: str) -> list[str]:
        """Keys that begin with `prefix`, also those of which a `put` was cut short."""

    async def folders(self, prefix: str) -> list[str]:
        """What stands between `prefix` and the next slash, in the keys that begin with it."""

    async def delete(self, key: str) -> None:
        """Delete an object, and what is left of a `put` that was cut short."""

    async def close(self) -> None: ...
