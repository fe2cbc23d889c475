"""What few queues have: redelivered and overdue messages, words of consumers. Compiled.

All queues share sets that stay empty until one of them needs its own: a queue with few messages is
a third smaller by that, and what a message looks at is in the processor's cache (0009). Code that
changes one of these sets of a machine gets it from here.
"""

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from queues.machine.annotations import Annotations
from queues.runs.seqset import SeqSet

if TYPE_CHECKING:
    from queues.machine.fifo import Fifo

NONE: Final = SeqSet()
NOTHING: Final = Annotations()


def own_redelivered(machine: "Fifo") -> SeqSet:
    if machine.redelivered is NONE:
        machine.redelivered = SeqSet()
    return machine.redelivered


def mark_redelivered(machine: "Fifo", first: i64, count: i64) -> None:
    """What of these is marked already stays so."""
    redelivered = own_redelivered(machine)
    redelivered.remove(first, count)
    redelivered.add(first, count)


def own_overdue(machine: "Fifo") -> SeqSet:
    if machine.overdue is NONE:
        machine.overdue = SeqSet()
    return machine.overdue


def own_annotations(machine: "Fifo") -> Annotations:
    if machine.annotations is NOTHING:
        machine.annotations = Annotations()
    return machine.annotations
