"""What the system says of this process: open files, and where its memory is.

The parts of the memory add up to its resident size. What is counted to the byte stands as it is;
parts of many small objects are estimates, and named as such; the rest is `other`: the interpreter,
its modules, definitions, and what the allocator keeps. Not compiled.
"""

import os
import resource
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from node.descriptors import files_max

if TYPE_CHECKING:
    from node.broker import Broker

STATUS: Final = Path("/proc/self/status")
FILES: Final = "/proc/self/fd"
STATM: Final = Path("/proc/self/statm")
PAGE_BYTES: Final = resource.getpagesize()
THREADS_MAX: Final = Path("/proc/sys/kernel/threads-max")
QUEUE_BYTES: Final = 12_000  # a host at rest, with its machine
CONNECTION_BYTES: Final = 20_000  # endpoint, codec and buffers that are empty
CHANNEL_BYTES: Final = 6_000
ESTIMATED: Final = ("queues", "connections", "channels")
OTHER: Final = "other"


def files_used() -> int:
    return len(os.listdir(FILES)) - 1  # without that of the listing


def raise_files_max() -> int:
    """Raise the soft limit of open files to the hard one; the limit that holds now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return files_max()


class ResidentMeter:
    """Reads the resident memory of this process through one file that stays open.

    A process without free file descriptors can therefore go on watching its memory.
    """

    def __init__(self) -> None:
        self._file = STATM.open("rb", buffering=0)

    def read_bytes(self) -> int:
        self._file.seek(0)
        return int(self._file.read().split()[1]) * PAGE_BYTES


def threads_max() -> int:
    """How many the system allows, of all processes; 0: it does not say."""
    try:
        return int(THREADS_MAX.read_text())
    except (OSError, ValueError):
        return 0


class Resident(Struct, frozen=True):
    """Resident memory in bytes: all of it, and what of that is mapped from files."""

    total: int
    from_files: int


def resident() -> Resident:
    """Of this process, now."""
    found = {"VmRSS": 0, "RssFile": 0, "RssShmem": 0}
    for line in STATUS.read_text().splitlines():
        name, _, rest = line.partition(":")
        if name in found:
            found[name] = int(rest.split()[0]) * 1024
    return Resident(found["VmRSS"], found["RssFile"] + found["RssShmem"])


def memory_parts(broker: "Broker", memory: Resident) -> dict[str, int]:
    """Bytes by part; they add up to `memory.total`."""
    counted = {
        "code": memory.from_files,
        "message_bodies": int(broker.budget.used_bytes),
        "log_buffers": int(broker.bodies.pending_bytes),
    }
    estimates = {
        "queues": QUEUE_BYTES * len(broker.queues.hosts.awake),
        "connections": CONNECTION_BYTES * len(broker.connections.all),
        "channels": CHANNEL_BYTES * broker.connections.channel_count(),
    }
    return fitted(memory.total, counted, estimates)


def fitted(total: int, counted: Mapping[str, int], estimates: Mapping[str, int]) -> dict[str, int]:
    """All parts and `other`, which together are `total`. Bodies that the system has swapped out
    are not resident: what does not fit is cut, and estimates share what there is room for."""
    parts: dict[str, int] = {}
    room = total
    for name, size in counted.items():
        parts[name] = min(size, room)
        room -= parts[name]
    wanted = sum(estimates.values())
    for name, size in estimates.items():
        parts[name] = size if wanted <= room else size * room // wanted
    parts[OTHER] = total - sum(parts.values())
    return parts
