"""Definitions are no work for the garbage collector: a full collection is a turn of the loop."""

import gc

from queues.definitions.metadata.commands import Command
from queues.definitions.metadata.machine import Metadata
from queues.routing.router import Router
from tests.unit.queues.definitions.steps import bind, declare_queue


def tracked(machine: Metadata) -> int:
    gc.collect()
    return len(gc.get_objects())


def test_a_queue_and_its_bindings_are_not_tracked_one_by_one() -> None:
    machine, router = Metadata(), Router("/")
    for subject in machine.vhosts["/"].definitions():
        router.add(subject)
    before = tracked(machine)
    index = 0
    for number in range(500):
        name = f"q{number}"
        keys = (b"a%d" % number, b"b%d" % number)
        commands: list[Command] = [declare_queue(name)]
        commands += [bind("amq.direct", name, key) for key in keys]
        for command in commands:
            index += 1
            router.apply(machine.apply(index, command).changes)
    machine.take_unsaved()
    assert tracked(machine) - before < 100
