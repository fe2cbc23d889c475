"""The leader of a stream uploads segments as soon as they are full and written."""

from random import Random
from typing import cast

from queues.streams.offloading import SOON_MS, Offloader
from queues.streams.settings import StreamSettings
from raft.group import Group
from tests.sim.queues.sim_streams import SimStreams
from tests.sim.storage.sim_disk import SimDisk
from tests.sim.storage.sim_objects import SimObjects
from tests.sim.storage.steps import StepRunner
from warren.storage.streams.chunk_format import ChunkHead

NO_GROUP = cast(Group, None)  # Nothing is proposed here.
OFFLOADS = StreamSettings(offloads=True)


class Leader:
    """The offloader of a stream whose member leads, with a log of segments of one message. What
    others left in the store is swept."""

    def __init__(self) -> None:
        self.objects = SimObjects(Random(1))
        self.runner = StepRunner()
        self.due: list[int] = []
        streams = SimStreams(SimDisk(), self.runner, lambda: None, self.objects)
        self.log = streams.log(streams.files(7, 1), (), 0, segment_bytes=1)
        self.offloader = Offloader(7, streams.store, lambda: None, self.due.append)
        self.offloader.lead(1)
        self.step(0)
        self.runner.settle()

    def append(self, count: int) -> None:
        for offset in range(count):
            self.log.append(ChunkHead(offset, 1, 0, 1, 1), [b"x"])

    def step(self, now_ms: int) -> None:
        self.offloader.step(self.log, OFFLOADS, NO_GROUP, now_ms)


def test_a_segment_that_is_not_written_yet_is_uploaded_soon_after() -> None:
    leader = Leader()
    leader.append(2)
    leader.step(1)
    assert leader.due == [1 + SOON_MS]
    leader.runner.settle()
    assert leader.objects.objects == {}
    leader.step(2)  # The member was woken for something earlier.
    assert leader.due == [1 + SOON_MS, 1 + SOON_MS]
    leader.step(leader.due[0])
    leader.runner.settle()
    assert len(leader.objects.objects) == 1


def test_what_an_upload_that_failed_has_left_in_the_store_is_removed() -> None:
    """Retention may cut the segment before it is uploaded again."""
    leader = Leader()
    leader.append(2)
    leader.runner.settle()
    leader.objects.tears = 1.0
    leader.offloader.look()
    leader.step(1)
    leader.runner.settle()
    assert leader.offloader.status.failed_count == 1 and len(leader.objects.objects) == 1
    leader.log.trim(2)  # All but the last segment, which is not uploaded.
    leader.objects.tears = 0.0
    for now_ms in (2, 100_000):  # It pauses.
        leader.offloader.look()
        leader.step(now_ms)
        leader.runner.settle()
    assert leader.objects.objects == {}
