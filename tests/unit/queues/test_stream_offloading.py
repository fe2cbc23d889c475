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


def test_a_segment_that_is_not_written_yet_is_uploaded_soon_after() -> None:
    objects, runner, due = SimObjects(Random(1)), StepRunner(), list[int]()
    streams = SimStreams(SimDisk(), runner, lambda: None, objects)
    log = streams.log(streams.files(7, 1), (), 0, segment_bytes=1)
    offloader = Offloader(7, streams.store, lambda: None, due.append)
    settings = StreamSettings(offloads=True)
    offloader.lead(1)
    offloader.step(log, settings, NO_GROUP, 0)  # Left-over objects are swept first.
    runner.settle()
    for offset in range(2):
        log.append(ChunkHead(offset, 1, 0, 1, 1), [b"x"])
    offloader.step(log, settings, NO_GROUP, 1)
    assert due == [1 + SOON_MS]
    runner.settle()
    assert objects.objects == {}
    offloader.step(log, settings, NO_GROUP, 2)  # The member was woken for something earlier.
    assert due == [1 + SOON_MS, 1 + SOON_MS]
    offloader.step(log, settings, NO_GROUP, due[0])
    runner.settle()
    assert len(objects.objects) == 1
