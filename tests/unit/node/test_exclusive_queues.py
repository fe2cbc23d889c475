"""Exclusive queues go with their connection, however many they are, a slice at a time."""

from random import Random

from node.connections.connection_registry import DELETED_QUEUES_MAX
from queues.definitions.metadata.commands import Batch, Command, DeclareQueue
from tests.sim.queues.node import NODE, SimNode
from tests.sim.storage.sim_disk import SimDisk


def test_the_queues_of_a_connection_go_in_slices_and_then_the_end_is_told() -> None:
    node = SimNode(SimDisk(), Random(1), 1_000)
    node.begin()
    count = 2 * DELETED_QUEUES_MAX
    queues: list[Command] = [
        DeclareQueue("/", f"q{number}", exclusive_owner="connection", node=NODE)
        for number in range(count)
    ]
    other = DeclareQueue("/", "other", exclusive_owner="another", node=NODE)
    done: list[object] = []
    node.broker.definitions.propose(Batch((*queues, other)), done.append)
    node.run_until(lambda: len(done) == 1)
    machine = node.broker.metadata
    assert machine.queue_count == count + 1
    index, ended = machine.applied_index, []
    node.broker.connections.delete_queues_of(
        "connection", lambda: ended.append(machine.queue_count)
    )
    node.run_until(lambda: len(ended) == 1)
    assert ended == [1]
    assert machine.applied_index == index + 3  # The last one finds that there are no more.
    assert list(machine.vhosts["/"].queues) == ["other"]
