"""What applying a command to the metadata machine answers, and what it changed.

Expected outcomes are values: the endpoint turns `Refused` into the close of a channel. `changes`
are for hosts, routers and caches, in an order in which each can be applied: a thing is added after
what it rests on, and removed before it.
"""

from typing import Final

from msgspec import Struct

from queues.definitions.broker_objects import Definition
from warren.wire.errors import ReplyCode


class Added(Struct, frozen=True):
    subject: Definition


class Replaced(Struct, frozen=True):
    """The subject took the place of an older one of the same uid."""

    subject: Definition


class Removed(Struct, frozen=True):
    subject: Definition


Change = Added | Replaced | Removed


class Created(Struct, frozen=True):
    """The subject is new, or has new contents."""

    subject: Definition
    changes: tuple[Change, ...]


class Exists(Struct, frozen=True):
    """An equivalent one was there before; nothing changed."""

    subject: Definition
    changes: tuple[Change, ...] = ()


class Deleted(Struct, frozen=True):
    """What was asked to go is gone; with no subjects, it was not there."""

    subjects: tuple[Definition, ...]
    changes: tuple[Change, ...]


class Refused(Struct, frozen=True):
    """Nothing changed. `text` is the sentence of the reply, without the code's name."""

    code: ReplyCode
    text: str
    changes: tuple[Change, ...] = ()


class Batched(Struct, frozen=True):
    """One outcome for each command of the batch, in order; a refused one stops no other."""

    outcomes: tuple["Outcome", ...]
    changes: tuple[Change, ...]


Outcome = Created | Exists | Deleted | Refused | Batched

NOTHING_DELETED: Final = Deleted((), ())
