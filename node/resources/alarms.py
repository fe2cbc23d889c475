"""Resource alarms: memory in use, free disk, a disk that fails, other nodes'.

Told the readings by `node.boot` and `node.resources.disk_monitor`, and of every call to the disk
that failed
without losing anything (`disk_failed`): no space for the log's reserve, a snapshot that could not
be written. Such a fault is tried again, after 1 s, 2 s, ... 16 s, until the reporting part calls
`disk_healed`. While an alarm is set, connections that publish are not read; consumers go on, so
that queues can be emptied. Each fault is logged once, not each time that it is tried again. One
that delays no publisher is retried and reported in the same way and sets no alarm.
"""

import logging
from collections.abc import Callable
from typing import Final

from node.resources.disk_monitor import NO_USAGE_LIMIT, DiskReading
from queues.sessions.credit import CreditActor, CreditSpec, FlowLedger

log = logging.getLogger("warren.alarms")

LOW_MEMORY: Final = "low on memory"
LOW_DISK: Final = "low on disk"
HIGH_USAGE: Final = "max-disk-usage exceeded"
ALARM: Final = "alarm"  # kind and name of the actor that holds publishers back
RETRY_S_MIN: Final = 1.0
RETRY_S_MAX: Final = 16.0


class DiskFault:
    """What failed at one place, and when it is tried again."""

    __slots__ = ("due_s", "error", "holds", "retry", "wait_s")

    def __init__(self, error: Exception, retry: Callable[[], None] | None, holds: bool) -> None:
        self.error = error
        self.holds = holds  # publishers, until it is over
        self.retry = retry  # None: the reporting part retries by itself
        self.wait_s = RETRY_S_MIN
        self.due_s = -1.0  # -1: it begins when `retry_due` sees it first


class Alarms:
    """Which alarms are set. `on_change` is called when that changes.

    `memory` and `disk` are this node's own; publishers wait for those of other nodes as well.
    """

    def __init__(
        self, memory_limit_bytes: int, disk_limit_bytes: int, on_change: Callable[[], None]
    ) -> None:
        self.memory_limit_bytes = memory_limit_bytes
        self.disk_limit_bytes = disk_limit_bytes
        self.memory_used_bytes = 0
        self.disk_free_bytes = 0
        self.disk_usage_max = NO_USAGE_LIMIT  # percent
        self.disk_used_percent = 0.0  # known if there is a limit
        self.memory = False
        self.disk = False  # too little is free, too much is used, or there is a fault
        self.faults: dict[str, DiskFault] = {}  # by place
        self.memory_elsewhere = False  # on another node of the cluster
        self.disk_elsewhere = False
        self.on_local: Callable[[], None] | None = None  # this node's own have changed
        self._low_disk = False
        self._high_usage = False
        self._on_change = on_change

    # Readings

    def observe_memory(self, used_bytes: int) -> None:
        self.memory_used_bytes = used_bytes
        self._judge()

    def observe_disk(self, reading: DiskReading) -> None:
        self.disk_free_bytes = reading.free_bytes
        self.disk_used_percent = reading.used_percent
        self._low_disk = reading.free_bytes < self.disk_limit_bytes
        self._high_usage = reading.room_bytes < 0
        self._judge()

    def observe_cluster(self, memory: bool, disk: bool) -> None:
        """What other nodes say, all together."""
        if (memory, disk) != (self.memory_elsewhere, self.disk_elsewhere):
            self.memory_elsewhere = memory
            self.disk_elsewhere = disk
            self._on_change()

    def set_limits(self, memory_bytes: int | None, disk_bytes: int | None) -> None:
        """Other limits from now on, until the node restarts; None: as it is."""
        if memory_bytes is not None:
            self.memory_limit_bytes = memory_bytes
        if disk_bytes is not None:
            self.disk_limit_bytes = disk_bytes
            self._low_disk = self.disk_free_bytes < disk_bytes
        self._judge()

    def _judge(self) -> None:
        memory = self.memory_used_bytes >= self.memory_limit_bytes
        disk = self._high_usage or self._has_bad_disk()
        if (memory, disk) != (self.memory, self.disk):
            self.memory = memory
            self.disk = disk
            self._on_change()
            if self.on_local is not None:
                self.on_local()

    def _has_bad_disk(self) -> bool:
        return self._low_disk or any(fault.holds for fault in self.faults.values())

    # Faults

    def disk_failed(
        self,
        place: str,
        error: Exception,
        retry: Callable[[], None] | None = None,
        *,
        holds: bool = True,
    ) -> None:
        """Something that must be on disk some day is not, and nothing is lost yet; or, if it does
        not hold publishers, something there cannot be read.
        """
        known = self.faults.get(place)
        if known is not None:
            known.error = error
            known.retry = retry
            return
        wait = "publishers wait, and it" if holds else "it"
        log.error("%s: %s; %s is tried again", place, error, wait)
        self.faults[place] = DiskFault(error, retry, holds)
        self._judge()

    def disk_healed(self, place: str) -> None:
        """What failed there has succeeded, or is not needed any more."""
        if self.faults.pop(place, None) is not None:
            log.warning("%s: the fault is over", place)
            self._judge()

    def retry_due(self, now_s: float) -> None:
        """Try again what is due; `now_s` is of a clock that does not jump."""
        for fault in list(self.faults.values()):
            if fault.due_s < 0:
                fault.due_s = now_s + fault.wait_s
            elif fault.due_s <= now_s:
                fault.wait_s = min(2 * fault.wait_s, RETRY_S_MAX)
                fault.due_s = now_s + fault.wait_s
                if fault.retry is not None:
                    fault.retry()

    # What they are about

    def is_set(self) -> bool:
        return self.is_low_on_memory() or self.is_low_on_disk()

    def is_low_on_memory(self) -> bool:
        return self.memory or self.memory_elsewhere

    def is_low_on_disk(self) -> bool:
        return self.disk or self.disk_elsewhere

    def reason(self) -> str:
        """The reason of connection.blocked."""
        reasons = (
            (self.is_low_on_memory(), LOW_MEMORY),
            (self._has_bad_disk() or self.disk_elsewhere, LOW_DISK),
            (self._high_usage, HIGH_USAGE),
        )
        return " & ".join(text for is_set, text in reasons if is_set)

    def details(self) -> tuple[str, ...]:
        """A sentence for each thing that is wrong, for operators."""
        found: list[str] = []
        if self.memory:
            found.append(
                f"memory: {self.memory_used_bytes} bytes are used, "
                f"the limit is {self.memory_limit_bytes}"
            )
        if self._low_disk:
            found.append(
                f"disk: {self.disk_free_bytes} bytes are free, the limit is {self.disk_limit_bytes}"
            )
        if self._high_usage:
            found.append(
                f"disk: {self.disk_used_percent:.1f} % is used, "
                f"addresses.max_disk_usage is {self.disk_usage_max} %"
            )
        found.extend(f"{place}: {fault.error}" for place, fault in self.faults.items())
        return tuple(found)


class AlarmHold:
    """That publishers wait because of an alarm, as one edge of the flow ledger."""

    def __init__(self, ledger: FlowLedger) -> None:
        spec = CreditSpec(1, 1, ledger)
        self._publishers = CreditActor("publishers", spec)
        self._alarm = CreditActor(ALARM, spec)
        self._ledger = ledger
        self._is_on = False

    def turn(self, is_on: bool) -> None:
        """Whether some alarm is set."""
        if is_on == self._is_on:
            return
        self._is_on = is_on
        if is_on:
            self._ledger.began(self._publishers, self._alarm)
        else:
            self._ledger.ended(self._publishers, self._alarm)
