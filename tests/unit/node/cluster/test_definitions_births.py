"""Births of queues: how long the log keeps them."""

from collections.abc import Sequence

import msgspec
import pytest

from node.cluster.definitions.definitions_store import BIRTHS_OWNER, Births
from queues.definitions.broker_objects import Queue, Uid
from queues.definitions.metadata.machine import Metadata
from queues.definitions.metadata.snapshot import BadSnapshot


class Log:
    """Keeps what is appended."""

    def __init__(self) -> None:
        self.births: dict[int, bytes] = {}
        self.released = 0

    def append_entry(self, owner: int, index: int, parts: Sequence[bytes]) -> None:
        assert owner == BIRTHS_OWNER and index not in self.births
        self.births[index] = b"".join(parts)

    def release_log(self, owner: int, index: int) -> None:
        assert owner == BIRTHS_OWNER and index <= max(self.births)
        self.released = max(self.released, index)


def queue(uid: int) -> Queue:
    return Queue(Uid(uid), "/", f"q{uid}", True, "", False, b"", "n1")


def test_a_birth_stays_until_the_rows_hold_its_queue() -> None:
    log = Log()
    births = Births(log)
    births.add(5, queue(30))
    births.add(5, queue(31))
    births.add(7, queue(32))
    births.saved(4)
    assert log.released == 0
    births.saved(6)
    assert log.released == 2
    births.saved(7)
    assert log.released == 3


def restarted(log: Log) -> Births:
    """With a machine that was saved before any of them was added."""
    births = Births(log)
    for number, content in log.births.items():
        births.replay(number, content)
    births.settle(Metadata())
    return births


def test_births_that_were_found_stay_until_the_rows_hold_all_of_them() -> None:
    log = Log()
    for index, uid in ((5, 30), (6, 31)):
        births = restarted(log)
        births.add(index, queue(uid))
    births = restarted(log)
    assert set(births.found) == {30, 31}
    births.add(5, queue(30))
    births.saved(5)
    assert log.released == 0, "31 is not confirmed"
    births.add(6, queue(31))
    births.add(9, queue(33))
    assert set(log.births) == {1, 2, 3}, "each has one birth"
    births.saved(5)
    assert log.released == 0, "a save that began before 31 was added"
    births.saved(6)
    assert log.released == 2
    births.saved(9)
    assert log.released == 3


def test_births_that_were_never_confirmed_are_told_once() -> None:
    log = Log()
    restarted(log).add(5, queue(30))
    births = restarted(log)
    assert births.unconfirmed() == [queue(30)] and births.unconfirmed() == []
    births.saved(1)
    assert log.released == 1


def test_births_that_the_machine_knows_are_released_at_the_start() -> None:
    log = Log()
    restarted(log).add(5, queue(20))
    restarted(log)
    assert log.released == 1


def test_bytes_that_are_no_queue_are_told() -> None:
    with pytest.raises(BadSnapshot):
        Births(Log()).replay(1, msgspec.msgpack.encode(["no queue"]))
