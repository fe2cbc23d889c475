"""What nodes without a link ask each other, and what they answer (`node.cluster.peering.asking`).
No I/O.

`Who` comes from a node that starts, and from one that cannot reach a peer: what it learns is the
other's word (`node.cluster.membership.forming`), and whether the cluster still knows it by the id
that it names.
`TakeMeIn` comes from an empty node, to any member. Encoded as msgpack, after both sides have proven
that they know the cluster's secret; anything else is a `BadQuestion`.
"""

from typing import Final

import msgspec

from node.cluster.membership.membership_file import PeerAddress
from queues.definitions.members import Member

# The state of a node that says that it is a member
UNSAID: Final = 0  # not known here
MEMBER: Final = 1
REMOVED: Final = 2  # it was, and its id will not come back
REPLACED: Final = 3  # another data directory has its id
SUPERSEDED: Final = 4  # another process with its identity is here

STANDING_TEXTS: Final = {
    REMOVED: "this node was removed from the cluster: begin with an empty data directory to come "
    "in again as a new member",
    REPLACED: "another data directory has the place of this one in the cluster: begin with an "
    "empty data directory",
    SUPERSEDED: "another process runs with the identity of this node: a data directory was copied",
}


class BadQuestion(Exception):
    """It is no question or answer of this protocol."""


class Who(msgspec.Struct, frozen=True, tag="who"):
    """Who are you, and who am I to you? Numbers are 0 where the asker has none yet."""

    cluster_id: int = 0
    member: int = 0
    incarnation: int = 0
    boot: int = 0


class TakeMeIn(msgspec.Struct, frozen=True, tag="take-me-in"):
    """Give me a place. `member.id` is the place in the founding list, if the asker is in it."""

    member: Member
    list_digest: bytes


Question = Who | TakeMeIn


class Word(msgspec.Struct, frozen=True, tag="word"):
    """The answer to `Who`."""

    incarnation: int
    cluster_id: int  # 0: none, or one that is being founded
    list_digest: bytes
    member: int = 0
    standing: int = UNSAID


class Taken(msgspec.Struct, frozen=True, tag="taken"):
    """The asker is that member."""

    member: int
    cluster_id: int
    founders: tuple[str, ...]
    is_founder: bool
    peers: tuple[PeerAddress, ...]


class NotNow(msgspec.Struct, frozen=True, tag="not-now"):
    """Ask again in a while."""

    reason: str


class Never(msgspec.Struct, frozen=True, tag="never"):
    """The asker must not come in as it is."""

    reason: str


Answer = Word | Taken | NotNow | Never

_questions: Final[msgspec.msgpack.Decoder[Question]] = msgspec.msgpack.Decoder(Question)
_answers: Final[msgspec.msgpack.Decoder[Answer]] = msgspec.msgpack.Decoder(Answer)


def encode(message: Question | Answer) -> bytes:
    return msgspec.msgpack.encode(message)


def decode_question(content: bytes | memoryview) -> Question:
    """BadQuestion: it is none."""
    try:
        return _questions.decode(content)
    except msgspec.DecodeError as error:
        raise BadQuestion(f"not a question: {error}") from error


def decode_answer(content: bytes | memoryview) -> Answer:
    """BadQuestion: it is none."""
    try:
        return _answers.decode(content)
    except msgspec.DecodeError as error:
        raise BadQuestion(f"not an answer: {error}") from error
