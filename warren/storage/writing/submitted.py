"""Synced writes without a thread: the kernel begins them, and an event tells the loop of the end.

    writes = kernel_writes(loop)                   # None: not on this machine
    writes.begin(direct, view, offset, done)       # done(bytes written, or minus an errno)

A thread for a small write costs more than the write: it takes the interpreter from the loop and
gives it back several times. Takes a handle that goes past the page cache, and whole, aligned
blocks; one write is under way at a time. RWF_NOWAIT forbids the kernel to wait before it begins, so
that a call returns at once; what it cannot begin so, it refuses with EAGAIN, and a file system that
cannot do this at all with EOPNOTSUPP or EINVAL.
"""

import asyncio
import ctypes
import errno
import os
import platform
import struct
from collections.abc import Callable, Sequence
from typing import Final, Protocol

CALLS: Final = {  # io_setup, io_destroy, io_getevents, io_submit: numbers of the system calls
    "x86_64": (206, 207, 208, 209),
    "aarch64": (0, 1, 4, 2),
}
# linux/aio_abi.h: data, key, flags of the write, kind, priority, file, memory, length, offset,
# reserved, flags, event
_REQUEST: Final = struct.Struct("<QIIHhIQQqQII")
_EVENT: Final = struct.Struct("<QQqq")  # data, request, result, second result
PWRITE: Final = 1
HAS_EVENT: Final = 1
WRITE_FLAGS: Final = os.RWF_DSYNC | os.RWF_NOWAIT

Done = Callable[[int], None]


class SyncedWrites(Protocol):
    """See the module."""

    def begin(self, direct: int, view: memoryview, offset: int, done: Done) -> bool:
        """Begin to write; False: that is not possible. The memory stays as it is until `done`."""

    def soon(self, work: Callable[[], None]) -> None:
        """Call it on the loop, behind what is to be done there now."""

    def close(self) -> None:
        """Wait until no write is under way, whose `done` was called by then, and begin none any
        more."""


class KernelWrites:
    """Those of Linux: asynchronous I/O, with an eventfd."""

    def __init__(self, loop: asyncio.AbstractEventLoop, numbers: Sequence[int]) -> None:
        """OSError: the kernel has none for us."""
        setup, self._destroy, self._getevents, self._submit = numbers
        self._call = ctypes.PyDLL(None, use_errno=True).syscall
        self._blocking_call = ctypes.CDLL(None, use_errno=True).syscall
        self._call.restype = self._blocking_call.restype = ctypes.c_long
        context = ctypes.c_ulong(0)
        if self._call(ctypes.c_long(setup), ctypes.c_ulong(1), ctypes.byref(context)) != 0:
            raise OSError(ctypes.get_errno(), "io_setup")
        self._context = context
        self._request = ctypes.create_string_buffer(_REQUEST.size)
        self._requests = (ctypes.c_void_p * 1)(ctypes.addressof(self._request))
        self._events = ctypes.create_string_buffer(_EVENT.size)
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._loop = loop
        self._view = memoryview(b"")
        self._done: Done | None = None
        self._one = ctypes.c_long(1)
        loop.add_reader(self._event, self._ready)

    def begin(self, direct: int, view: memoryview, offset: int, done: Done) -> bool:
        assert self._done is None
        if self._event < 0:
            return False
        address = ctypes.addressof(ctypes.c_char.from_buffer(view))
        _REQUEST.pack_into(
            self._request,
            0,
            *(0, 0, WRITE_FLAGS, PWRITE, 0, direct, address, len(view), offset),
            *(0, HAS_EVENT, self._event),
        )
        number = ctypes.c_long(self._submit)
        if self._call(number, self._context, self._one, self._requests) != 1:
            return False
        self._view = view
        self._done = done
        return True

    def soon(self, work: Callable[[], None]) -> None:
        self._loop.call_soon(work)

    def close(self) -> None:
        if self._event < 0:
            return
        while self._done is not None:
            self._take(self._blocking_call, 1)
        self._loop.remove_reader(self._event)
        os.close(self._event)
        self._event = -1
        self._call(ctypes.c_long(self._destroy), self._context)

    def _ready(self) -> None:
        os.eventfd_read(self._event)
        self._take(self._call, 0)

    def _take(self, call: Callable[..., int], least: int) -> None:
        number = ctypes.c_long(self._getevents)
        count = call(number, self._context, ctypes.c_long(least), self._one, self._events, None)
        if count < 0 and ctypes.get_errno() != errno.EINTR:
            raise OSError(ctypes.get_errno(), "io_getevents")
        if count == 1:
            done, self._done = self._done, None
            assert done is not None
            self._view = memoryview(b"")
            done(_EVENT.unpack(self._events)[2])


def kernel_writes(loop: asyncio.AbstractEventLoop) -> KernelWrites | None:
    """What this machine has; None: a thread has to write."""
    numbers = CALLS.get(platform.machine())
    if numbers is None:
        return None
    try:
        return KernelWrites(loop, numbers)
    except OSError:  # No such calls (in some sandboxes), or too many processes use them.
        return None
