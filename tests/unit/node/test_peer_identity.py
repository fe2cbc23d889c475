"""The cluster's secret, the number of a data directory, and what is logged of refused
connections.
"""

import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from node.cluster.peering.cluster_secret import (
    BadNodeId,
    BadSecret,
    draw_id,
    load_incarnation,
    read_secret,
)
from node.cluster.peering.dialer import Backoff
from node.cluster.peering.link_settings import LinkSettings
from node.cluster.peering.refusal_log import KEPT_MAX, LINES_MAX, QUIET_MS, RefusalLog
from tests.sim.storage.sim_disk import Crashed, SimDisk
from tests.unit.reachable import held
from warren.storage.disk import OsDisk


def secret_file(path: Path, content: bytes, mode: int = 0o600) -> Path:
    file = path / "secret"
    file.write_bytes(content)
    file.chmod(mode)
    return file


def refusal(path: Path) -> str:
    with pytest.raises(BadSecret) as caught:
        read_secret(path)
    return str(caught.value)


@pytest.mark.parametrize("mode", [0o400, 0o600, 0o440, 0o640])
def test_a_secret_is_read_without_the_end_of_its_line(tmp_path: Path, mode: int) -> None:
    assert read_secret(secret_file(tmp_path, b"  sixteen bytes!!\r\n", mode)) == (
        b"  sixteen bytes!!"
    )


@pytest.mark.parametrize("mode", [0o604, 0o602, 0o620, 0o644, 0o666])
def test_a_secret_that_others_can_read_or_change_is_refused(tmp_path: Path, mode: int) -> None:
    text = refusal(secret_file(tmp_path, b"x" * 32, mode))
    assert f"mode is {mode:04o}" in text
    assert "cluster.secret_file = " in text


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"\n", "empty"),
        (b"x" * 15 + b"\n", "15 bytes; allowed: 16 to 4096"),
        (b"x" * 4097, "too long"),
    ],
)
def test_a_secret_of_the_wrong_size_is_refused_and_not_shown(
    tmp_path: Path, content: bytes, words: str
) -> None:
    text = refusal(secret_file(tmp_path, content))
    assert words in text
    assert "xxx" not in text


def test_a_secret_that_is_not_there_or_no_file_is_refused(tmp_path: Path) -> None:
    assert "No such file" in refusal(tmp_path / "none")
    assert "cluster.secret_file" in refusal(tmp_path)


def test_a_data_directory_keeps_its_number(tmp_path: Path) -> None:
    first = load_incarnation(OsDisk(), str(tmp_path))
    assert load_incarnation(OsDisk(), str(tmp_path)) == first
    assert (tmp_path / "node-id").read_bytes() == b"warren node-id 1 %016x\n" % first
    assert os.listdir(tmp_path) == ["node-id"]
    assert 1 <= first < 1 << 63


def test_two_data_directories_have_different_numbers(tmp_path: Path) -> None:
    numbers = set()
    for name in "abc":
        (tmp_path / name).mkdir()
        numbers.add(load_incarnation(OsDisk(), str(tmp_path / name)))
    assert len(numbers) == 3


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"warren node-id 1 0123456789abcde\n",
        b"warren node-id 1 0123456789abcdef",
        b"warren node-id 2 0123456789abcdef\n",
        b"warren node-id 1 0000000000000000\n",
        b"warren node-id 1 8123456789abcdef\n",
        b"warren node-id 1 0123456789abcdef\nmore",
    ],
)
def test_a_damaged_number_is_never_replaced_by_another(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "node-id").write_bytes(content)
    with pytest.raises(BadNodeId, match="damaged"):
        load_incarnation(OsDisk(), str(tmp_path))
    assert (tmp_path / "node-id").read_bytes() == content


def test_a_number_that_was_given_out_outlives_every_crash() -> None:
    def drawer(first: int) -> Callable[[], int]:
        return lambda: first

    for seed in range(40):
        for crash_in in range(1, 9):
            disk = SimDisk()
            disk.crash_in = crash_in
            given = 0
            try:
                given = load_incarnation(disk, "/data", drawer(seed + 1))
            except Crashed:
                given = 0
            after = disk.crash(Random(seed))
            found = load_incarnation(after, "/data", drawer(1000))
            assert found == given or (given == 0 and found in (seed + 1, 1000))
            assert load_incarnation(after.crash(Random(seed)), "/data", drawer(2000)) == found


def test_drawn_numbers_are_positive_and_of_63_bits() -> None:
    drawn = [draw_id() for _ in range(100)]
    assert min(drawn) >= 1
    assert max(drawn) < 1 << 63
    assert len(set(drawn)) == 100


def test_the_same_refusal_is_told_once_in_a_while_with_its_count(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told = RefusalLog()
    assert told.tell("10.0.0.1", "no", 1000)
    assert not told.tell("10.0.0.1", "no", 1001)
    assert not told.tell("10.0.0.1", "no", 999 + QUIET_MS)
    assert told.tell("10.0.0.2", "no", 1002)
    assert told.tell("10.0.0.1", "never", 1003)
    assert told.tell("10.0.0.1", "no", 1000 + QUIET_MS)
    assert told.total == 6
    assert caplog.messages[-1] == "peer link: 10.0.0.1: no (and 2 times before)"


def test_a_stranger_cannot_fill_the_log_or_the_memory() -> None:
    told = RefusalLog()
    lines = [told.tell("10.0.0.1", f"text {number}", 1000) for number in range(2000)]
    assert sum(lines) == LINES_MAX
    assert len(held(told, tuple)) <= 2 * KEPT_MAX  # Of each a key, and when it was logged.
    assert told.tell("10.0.0.9", "another", 1000 + QUIET_MS)


def test_pauses_double_up_to_their_limit_and_begin_anew_when_it_worked() -> None:
    backoff = Backoff(50, 1000, Random(1))
    pauses = [backoff.next_s() * 1000 for _ in range(8)]
    for pause, most in zip(pauses, (50, 100, 200, 400, 800, 1000, 1000, 1000), strict=True):
        assert most / 2 <= pause <= most
    backoff.reset()
    assert backoff.next_s() <= 0.05


def test_a_short_silence_makes_the_bulk_connection_beat_more_often() -> None:
    assert LinkSettings().bulk_beats_apart() == 10
    assert LinkSettings(silence_ms=800, beat_interval_ms=100).bulk_beats_apart() == 2
    assert LinkSettings(silence_ms=200, beat_interval_ms=100).bulk_beats_apart() == 1
