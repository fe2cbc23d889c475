"""Processes of the metadata machine at rest: how far their batches are, and what came of them.

An outcome is kept without its changes, which were carried out: what is left is what the asker
gets to know. Layout: docs/formats/metadata.md.
"""

from collections.abc import Sequence
from typing import Final, assert_never

import msgspec

from queues.definitions.broker_objects import (
    Binding,
    Definition,
    Exchange,
    Parameter,
    Permission,
    Policy,
    Queue,
    TopicPermission,
    User,
    VhostEntry,
)
from queues.definitions.members import Member, Process
from queues.definitions.metadata.cluster import Batches
from queues.definitions.metadata.outcomes import Batched, Created, Deleted, Exists, Outcome, Refused
from warren.wire.errors import ReplyCode

CREATED: Final = 1
EXISTS: Final = 2
DELETED: Final = 3
REFUSED: Final = 4
BATCHED: Final = 5

FORMS: Final[dict[str, type[Definition]]] = {
    "a": Parameter,
    "b": Binding,
    "e": Exchange,
    "m": Member,
    "o": Policy,
    "p": Permission,
    "q": Queue,
    "s": Process,
    "t": TopicPermission,
    "u": User,
    "v": VhostEntry,
}
KINDS: Final = {form: kind for kind, form in FORMS.items()}


class StoredOutcome(msgspec.Struct, frozen=True, array_like=True):
    """`subjects`: by kind and bytes, as in the rows."""

    kind: int
    subjects: tuple[tuple[str, bytes], ...] = ()
    code: int = 0
    text: str = ""
    inner: tuple["StoredOutcome", ...] = ()


class ProcessRow(msgspec.Struct, frozen=True, array_like=True):
    """`outcomes`: by number of the batch, ascending."""

    process: Process
    last: int
    answered: int
    outcomes: tuple[tuple[int, tuple[StoredOutcome, ...]], ...]


_ENCODE: Final = msgspec.msgpack.Encoder().encode


def row_of(batches: Batches) -> ProcessRow:
    return ProcessRow(
        batches.process,
        batches.last,
        batches.answered,
        tuple(
            (number, tuple(stored(each) for each in outcomes))
            for number, outcomes in batches.outcomes.items()
        ),
    )


def batches_of(row: ProcessRow) -> Batches:
    """What the row was made of. DecodeError, KeyError: it was made by something else."""
    batches = Batches(row.process)
    batches.last = row.last
    batches.answered = row.answered
    for number, outcomes in row.outcomes:
        batches.outcomes[number] = tuple(outcome_of(each) for each in outcomes)
    return batches


def stored(outcome: Outcome) -> StoredOutcome:
    match outcome:
        case Created(subject):
            return StoredOutcome(CREATED, _subjects((subject,)))
        case Exists(subject):
            return StoredOutcome(EXISTS, _subjects((subject,)))
        case Deleted(subjects):
            return StoredOutcome(DELETED, _subjects(subjects))
        case Refused(code, text):
            return StoredOutcome(REFUSED, (), int(code), text)
        case Batched(outcomes):
            return StoredOutcome(BATCHED, inner=tuple(stored(each) for each in outcomes))
        case _:
            assert_never(outcome)


def _subjects(subjects: Sequence[Definition]) -> tuple[tuple[str, bytes], ...]:
    return tuple((KINDS[type(each)], _ENCODE(each)) for each in subjects)


def outcome_of(found: StoredOutcome) -> Outcome:
    """The outcome again, without changes."""
    subjects = tuple(
        msgspec.msgpack.decode(content, type=FORMS[kind]) for kind, content in found.subjects
    )
    if found.kind == CREATED:
        return Created(subjects[0], ())
    if found.kind == EXISTS:
        return Exists(subjects[0])
    if found.kind == DELETED:
        return Deleted(subjects, ())
    if found.kind == REFUSED:
        return Refused(ReplyCode(found.code), found.text)
    assert found.kind == BATCHED
    return Batched(tuple(outcome_of(each) for each in found.inner), ())
