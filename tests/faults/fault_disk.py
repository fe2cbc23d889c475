"""A disk that fails on command: a layer over any other one (simulated, or real files).

A `Fault` is armed with a condition over `Call`s, the error to raise and which matching calls it
hits. What it does depends on nothing else: no clock, no chance. A write that is hit may be short:
its first half reaches the disk beneath before the error, as on a disk that becomes full; a short
read gives half of the bytes and no error.
"""

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from warren.storage.disk import Disk, cut

Buffer = bytes | memoryview


@dataclass(frozen=True, slots=True)
class Call:
    """One call to the disk. Names are without their folder."""

    operation: str
    name: str
    new_name: str = ""  # of rename
    offset: int = 0
    byte_count: int = 0
    dsync: bool = False
    after: str = ""  # the change of a name before this call, such as "rename spare- wal-"


@dataclass(slots=True, kw_only=True)
class Fault:
    """What goes wrong with calls that match, from the `nth` one on, until it is removed."""

    when: Callable[[Call], bool]
    errno: int = 0  # 0: no error
    short: bool = False
    unsynced: bool = False  # a write with dsync: all of it is written, the sync fails
    nth: int = 1
    gate: threading.Event | None = None  # the call waits for it, in its own thread
    hits: int = 0
    seen: int = 0


class FaultDisk:
    """Keeps the `Disk` Protocol."""

    def __init__(self, beneath: Disk) -> None:
        self.beneath = beneath
        self.faults: list[Fault] = []
        self._names: dict[int, str] = {}  # of open handles
        self._after = ""

    def arm(self, fault: Fault) -> Fault:
        self.faults.append(fault)
        return fault

    def _hit(self, call: Call) -> Fault | None:
        """The fault that this call meets; raises its error unless half of it is to be done."""
        for fault in self.faults:
            if not fault.when(call):
                continue
            fault.seen += 1
            if fault.seen < fault.nth:
                continue
            fault.hits += 1
            if fault.gate is not None:
                assert fault.gate.wait(30)
            in_part = fault.short or fault.unsynced
            if fault.errno and not (call.operation == "pwritev" and in_part):
                raise error_of(fault, call)
            return fault
        return None

    def _call(
        self, operation: str, path: str, offset: int = 0, byte_count: int = 0
    ) -> Fault | None:
        name = os.path.basename(path)
        return self._hit(Call(operation, name, "", offset, byte_count, False, self._after))

    def create(self, path: str, size: int) -> int:
        self._call("create", path, byte_count=size)
        handle = self.beneath.create(path, size)
        self._names[handle] = path
        return handle

    def open(self, path: str) -> int:
        self._call("open", path)
        handle = self.beneath.open(path)
        self._names[handle] = path
        return handle

    def close(self, handle: int) -> None:
        path = self._names.pop(handle)
        self.beneath.close(handle)  # As Linux does, whatever it answers.
        self._call("close", path)

    def pwritev(self, handle: int, parts: Sequence[Buffer], offset: int, dsync: bool) -> None:
        name = os.path.basename(self._names[handle])
        total = sum(map(len, parts))
        call = Call("pwritev", name, "", offset, total, dsync, self._after)
        fault = self._hit(call)
        if fault is None or not fault.errno:
            self.beneath.pwritev(handle, parts, offset, dsync)
            return
        content = b"".join(parts)
        written = content if fault.unsynced else content[: total // 2]
        self.beneath.pwritev(handle, [written], offset, False)
        raise error_of(fault, call)

    def pread(self, handle: int, length: int, offset: int) -> bytes:
        fault = self._call("pread", self._names[handle], offset=offset, byte_count=length)
        found = self.beneath.pread(handle, length, offset)
        return found[: len(found) // 2] if fault is not None and fault.short else found

    def pread_pieces(
        self, handle: int, offset: int, pieces: Sequence[tuple[int, int]]
    ) -> Sequence[bytes]:
        return cut(self.pread(handle, pieces[-1][1], offset), pieces)

    def fsync(self, handle: int) -> None:
        self._call("fsync", self._names[handle])
        self.beneath.fsync(handle)

    def fsync_directory(self, path: str) -> None:
        self._call("fsync_directory", path)
        self.beneath.fsync_directory(path)

    def rename(self, old: str, new: str) -> None:
        names = os.path.basename(old), os.path.basename(new)
        self._hit(Call("rename", names[0], names[1], after=self._after))
        self._after = f"rename {kind_of(names[0])} {kind_of(names[1])}"
        self.beneath.rename(old, new)
        for handle, path in self._names.items():
            if path == old:
                self._names[handle] = new

    def unlink(self, path: str) -> None:
        self._call("unlink", path)
        self._after = f"unlink {kind_of(os.path.basename(path))}"
        self.beneath.unlink(path)

    def truncate(self, handle: int, size: int) -> None:
        self._call("truncate", self._names[handle], byte_count=size)
        self.beneath.truncate(handle, size)

    def list(self, directory: str) -> list[str]:
        return self.beneath.list(directory)

    def size(self, path: str) -> int:
        return self.beneath.size(path)

    def free_bytes(self, directory: str) -> int:
        return self.beneath.free_bytes(directory)

    def total_bytes(self, directory: str) -> int:
        return self.beneath.total_bytes(directory)


def kind_of(name: str) -> str:
    """`wal-` of `wal-0007.log`."""
    return name.partition("-")[0] + "-"


def error_of(fault: Fault, call: Call) -> OSError:
    return OSError(fault.errno, os.strerror(fault.errno), call.name)
