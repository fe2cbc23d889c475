"""How long syncs of the log took since the last look."""

from node.cluster.sync_times import BOUNDS_MS, SyncTimes
from warren.storage.writing.log_writer import SYNC_BOUNDS_S


class Log:
    """Keeps `Syncs`."""

    def __init__(self) -> None:
        self.sync_counts = [0] * (len(SYNC_BOUNDS_S) + 1)
        self.sync_begun_s = 0.0
        self.now_s = 100.0

    def times(self) -> SyncTimes:
        return SyncTimes(self, lambda: self.now_s)


def test_the_longest_sync_since_the_last_look_counts() -> None:
    log = Log()
    times = log.times()
    assert times.longest_ms() == 0
    log.sync_counts[BOUNDS_MS.index(5)] += 3
    log.sync_counts[BOUNDS_MS.index(50)] += 1
    assert times.longest_ms() == 50
    assert times.longest_ms() == 0


def test_a_sync_above_all_bounds_counts_as_the_highest_one() -> None:
    log = Log()
    times = log.times()
    log.sync_counts[-1] += 1
    assert times.longest_ms() == 2000


def test_syncs_of_before_do_not_count() -> None:
    log = Log()
    log.sync_counts[-1] += 1
    assert log.times().longest_ms() == 0


def test_a_sync_that_runs_counts_with_the_time_that_it_has_taken_so_far() -> None:
    log = Log()
    times = log.times()
    log.sync_begun_s = 99.96
    assert times.longest_ms() == 40
    log.now_s = 100.5
    assert times.longest_ms() == 540
