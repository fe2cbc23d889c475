"""A whole node on a simulated disk whose files were damaged between two lives."""

from random import Random

from queues.arguments import encode_arguments
from queues.metadata_commands import DeclareQueue
from tests.sim.queues.node import NODE, SimNode
from tests.sim.storage.sim_disk import SimDisk
from tests.unit.queues.fake_sink import FakeSink
from tests.unit.queues.messages import chunk_of
from warren.storage.keyed import SNAPSHOTS

QUORUM = encode_arguments({"x-queue-type": "quorum"})


def test_a_damaged_snapshot_of_a_quorum_queue_hits_that_queue_alone() -> None:
    disk = SimDisk()
    node = SimNode(disk, Random(1), 1_000)
    node.begin()
    done: list[object] = []
    for name in ("well", "hit"):
        node.broker.propose(DeclareQueue("/", name, True, arguments=QUORUM, node=NODE), done.append)
    node.run_until(lambda: len(done) == 2)
    for number in range(30):
        for name in ("well", "hit"):
            queue = node.broker.queue("/", name)
            assert queue is not None
            sink = FakeSink(100 * number + int(queue.uid))
            node.broker.host(queue.uid).publish(sink, chunk_of([b"%d" % number]), 1)
            node.run_until(lambda sink=sink: bool(sink.confirmed))  # type: ignore[misc]
    hit = node.broker.queue("/", "hit")
    well = node.broker.queue("/", "well")
    assert hit is not None
    assert well is not None
    rows = disk.keyed.written[SNAPSHOTS]
    node.run_until(lambda: any(int.from_bytes(key[:8]) == hit.uid for key in rows))
    node.run_until(lambda: not node.runner.posted and not node.runner.saves)
    for key in [key for key in rows if int.from_bytes(key[:8]) == hit.uid]:
        rows[key] = bytes([rows[key][0] ^ 1]) + rows[key][1:]
    after = SimNode(disk, Random(2), 2_000)
    assert list(after.broker.damages.hosts) == [hit.uid]
    assert after.broker.host(well.uid).ready_count == 30
