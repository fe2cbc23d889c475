"""How fast mirrors are synchronised: the rule alone, against a model of a disk."""

from dataclasses import dataclass

from raft.copy_pace import BEGIN, LEAST, MOST, REST_TICKS, SLOW_MS, CopyLimit, CopyPace

TICK_MS = 20
SLICE_BYTES = 256 << 10
PUBLISHED_BYTES = 100_000  # in a tick: 5,000 messages of 1 KB a second


@dataclass
class Disk:
    """Writes what it is given, so much in a millisecond; a sync ends when all before it is done."""

    bytes_per_ms: int
    least_sync_ms: int = 1
    waiting: int = 0

    def tick(self, written: int) -> int:
        """How long a sync takes that is asked for in this tick."""
        self.waiting += written
        sync_ms = self.least_sync_ms + self.waiting // self.bytes_per_ms
        self.waiting = max(0, self.waiting - self.bytes_per_ms * TICK_MS)
        return sync_ms


def copy(pace: CopyPace, disk: Disk, ticks: int) -> tuple[int, list[int]]:
    """Copy as much as the pace allows: the bytes, and how long the sync of each tick took."""
    copied = 0
    syncs = []
    for _ in range(ticks):
        before = copied
        while pace.may_copy:
            pace.copied(SLICE_BYTES)
            copied += SLICE_BYTES
        syncs.append(disk.tick(PUBLISHED_BYTES + copied - before))
        pace.note_sync(syncs[-1])
        pace.tick()
    return copied, syncs


def mb_per_s(copied: int, ticks: int) -> float:
    return copied / (ticks * TICK_MS / 1000) / 1e6


def test_a_rested_disk_gives_a_copy_more_than_100_mb_a_second() -> None:
    copied, syncs = copy(CopyPace(), Disk(1_000_000), 500)
    assert mb_per_s(copied, 500) > 100
    assert max(syncs) < 20


def test_a_busy_disk_syncs_messages_within_20_ms_while_a_copy_takes_what_is_left() -> None:
    for bytes_per_ms in (30_000, 60_000, 120_000, 250_000):
        copied, syncs = copy(CopyPace(), Disk(bytes_per_ms), 1000)
        late = sum(1 for each in syncs if each >= 20)
        assert late <= 10, f"{late} of 1,000 syncs at {bytes_per_ms} bytes/ms"
        assert mb_per_s(copied, 1000) > bytes_per_ms / 1000 / 5


def test_a_disk_that_becomes_busy_slows_a_copy_down_within_a_tenth_of_a_second() -> None:
    pace = CopyPace()
    copy(pace, Disk(1_000_000), 100)
    assert pace.bytes_per_tick == MOST
    copy(pace, Disk(1_000_000, least_sync_ms=SLOW_MS + 1), 5)
    assert pace.bytes_per_tick == LEAST
    copy(pace, Disk(1_000_000), 60)
    assert pace.bytes_per_tick == MOST


def test_a_copy_ends_on_a_disk_whose_syncs_are_always_slow() -> None:
    pace = CopyPace()
    copied, _ = copy(pace, Disk(1_000_000, least_sync_ms=50), 500)
    assert pace.bytes_per_tick == LEAST
    assert mb_per_s(copied, 500) > 8


def test_the_rate_does_not_grow_while_nothing_is_copied() -> None:
    pace = CopyPace()
    for _ in range(REST_TICKS - 1):
        pace.tick()
    assert pace.bytes_per_tick == BEGIN


def test_a_copy_after_a_rest_begins_slowly() -> None:
    pace = CopyPace()
    copy(pace, Disk(1_000_000), 100)
    assert pace.bytes_per_tick == MOST
    for _ in range(REST_TICKS):
        pace.tick()
    assert pace.bytes_per_tick == BEGIN


def test_mirrors_of_one_node_share_its_rate() -> None:
    pace = CopyPace()
    one, other = CopyLimit(), CopyLimit()
    one.pace = other.pace = pace
    one.copied(BEGIN)
    assert not other.may_copy
    pace.tick()
    assert other.may_copy


def test_the_limit_that_is_configured_holds_beside_that_of_the_node() -> None:
    limit = CopyLimit()
    limit.pace = CopyPace()
    limit.bytes_per_tick = 100
    limit.copied(150)
    limit.pace.tick()
    assert not limit.may_copy
    limit.tick()
    assert limit.may_copy
