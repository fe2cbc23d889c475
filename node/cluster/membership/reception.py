"""What this node answers to those who have no link to it: who it is, and that it takes them in.

Takes questions whose asker has proven the cluster's secret (`node.cluster.peering.asking`). Taking
in is a
command of the definitions, which may come to its end on another node; the answer waits for it.
"""

from functools import partial
from typing import Protocol

from node.cluster.definitions.definitions_interface import TIMED_OUT, Definitions
from node.cluster.membership.forming import list_digest
from node.cluster.membership.membership_file import Membership, PeerAddress
from node.cluster.membership.questions import (
    MEMBER,
    REMOVED,
    REPLACED,
    SUPERSEDED,
    UNSAID,
    Answer,
    BadQuestion,
    Never,
    NotNow,
    TakeMeIn,
    Taken,
    Who,
    Word,
    decode_question,
    encode,
)
from node.cluster.peering.asking import Reply
from queues.definitions.members import Member
from queues.definitions.metadata.commands import AddMember
from queues.definitions.metadata.outcomes import Outcome, Refused


class Host(Protocol):
    """The node, as far as it is asked about (`node.cluster.cluster_node.Cluster`)."""

    @property
    def incarnation(self) -> int: ...

    @property
    def membership(self) -> Membership | None:
        """None: it is empty."""

    @property
    def definitions(self) -> Definitions | None:
        """None: it starts."""

    @property
    def is_current(self) -> bool:
        """Whether it has applied all that was committed when it started."""

    @property
    def seeds_digest(self) -> bytes: ...

    def incarnation_seen(self, member: int) -> int:
        """Of a peer's data directory; 0: never seen."""

    def is_superseded(self, member: int, boot: int) -> bool: ...

    def hurry(self, member: int) -> None:
        """It has asked, so it is there: try to reach it now."""


class ClusterReception:
    """Answers; owns nothing."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def answer(self, content: memoryview, reply: Reply) -> None:
        """Keeps `node.cluster.peering.asking.Answer`."""
        try:
            question = decode_question(content)
        except BadQuestion as error:
            reply(encode(Never(str(error))))
            return
        if isinstance(question, Who):
            reply(encode(self._word(question)))
            self._host.hurry(question.member)
        else:
            self._take_in(question, reply)

    def _word(self, question: Who) -> Word:
        host = self._host
        held = host.membership
        if held is None:
            return Word(host.incarnation, 0, host.seeds_digest)
        standing = self._standing(question, held)
        digest = list_digest(held.founders)
        return Word(host.incarnation, held.cluster_id, digest, held.member, standing)

    def _standing(self, question: Who, held: Membership) -> int:
        """How the asker stands, by what is committed here. Ids ascend and never come back."""
        definitions = self._host.definitions
        is_other = question.cluster_id not in (0, held.cluster_id) or held.cluster_id == 0
        is_sure = self._host.is_current and not is_other
        if question.member == 0 or definitions is None or not is_sure:
            return UNSAID
        rows = {row.id: row for row in definitions.members()}
        row = rows.get(question.member)
        if row is None:
            return REMOVED if question.member < held.given_below else UNSAID
        if row.incarnation == 0:
            return UNSAID
        if row.incarnation != question.incarnation:
            return REPLACED
        if self._host.is_superseded(question.member, question.boot):
            return SUPERSEDED
        return MEMBER

    # Taking in

    def _take_in(self, question: TakeMeIn, reply: Reply) -> None:
        definitions = self._host.definitions
        held = self._host.membership
        if definitions is None or held is None or definitions.cluster_id == 0:
            reply(encode(NotNow("the node that was asked does not know its cluster yet")))
            return
        asker = question.member
        fault = self._place_fault(definitions, asker)
        if fault:
            reply(encode(NotNow(fault)))
            return
        command = AddMember(
            asker.name,
            asker.incarnation,
            asker.cluster_host,
            asker.cluster_port,
            asker.host_id,
            asker.zone,
            asker.amqp,
            asker.management,
            asker.amqps,
            asker.tags,
            asker.stream,
            asker.stream_tls,
        )
        definitions.propose(command, partial(self._answered, definitions, held, asker, reply))

    def _place_fault(self, definitions: Definitions, asker: Member) -> str:
        """'' or why the founding place of the asker's address is not to be given to it."""
        for row in definitions.members():
            is_its_place = (row.cluster_host, row.cluster_port) == (
                asker.cluster_host,
                asker.cluster_port,
            )
            seen = self._host.incarnation_seen(row.id)
            if is_its_place and row.incarnation == 0 and seen not in (0, asker.incarnation):
                return (
                    f"another data directory has taken part in the founding as member {row.id}; "
                    f"if it is lost, have the cluster forget member {row.id}"
                )
        return ""

    def _answered(
        self,
        definitions: Definitions,
        held: Membership,
        asker: Member,
        reply: Reply,
        outcome: Outcome,
    ) -> None:
        reply(encode(self._outcome(definitions, held, asker, outcome)))

    def _outcome(
        self, definitions: Definitions, held: Membership, asker: Member, outcome: Outcome
    ) -> Answer:
        if isinstance(outcome, Refused):
            is_late = outcome.text.endswith(TIMED_OUT)
            return NotNow(outcome.text) if is_late else Never(outcome.text)
        row = definitions.member_named(asker.name)
        if row is None or row.incarnation != asker.incarnation:
            return NotNow("it has been removed again meanwhile")
        peers = [
            PeerAddress(each.id, each.cluster_host, each.cluster_port, each.incarnation)
            for each in definitions.members()
            if each.id != row.id
        ]
        return Taken(
            row.id,
            definitions.cluster_id,
            held.founders,
            row.id <= len(held.founders),
            tuple(peers),
        )
