"""How an empty node comes into a cluster: it asks the seeds until they found one or take it in.

Takes a way to ask (`PeerLinks.ask`) and what this node says of itself; gives the `Membership` that
is then made durable. The rules are in `node.cluster.membership.forming`. Asks all seeds at once,
again and again, for
as long as it takes; why it waits is logged once per new reason. What can never come right is an
`EnteringFailed`.
"""

import asyncio
import logging
from collections.abc import Sequence
from random import SystemRandom
from typing import Final, Protocol

from node.cluster.membership import questions
from node.cluster.membership.forming import Forming, Found, Join, Refuse, Wait, Word
from node.cluster.membership.membership_file import EnteringFailed, Membership, PeerAddress
from node.cluster.membership.questions import (
    BadQuestion,
    Never,
    NotNow,
    Question,
    TakeMeIn,
    Taken,
    Who,
    decode_answer,
    encode,
)
from node.cluster.peering.asking import AskFailed
from node.cluster.peering.dialer import Backoff
from node.config.config_layers import Address
from queues.definitions.members import Member

log = logging.getLogger("warren.cluster")

PAUSE_MS_MIN: Final = 50
PAUSE_MS_MAX: Final = 1000


class Asks(Protocol):
    """A way to nodes that are known by address alone."""

    async def ask(self, host: str, port: int, question: bytes) -> bytes:
        """AskFailed: there is no answer."""


class Entering:
    """One empty node. `me.id` is 0: it has none."""

    def __init__(self, asks: Asks, me: Member, seeds: Sequence[Address]) -> None:
        self._asks = asks
        self._me = me
        self._address = str(Address(me.cluster_host, me.cluster_port))
        self._seeds = {str(seed): seed for seed in seeds}
        self._forming = Forming(self._address, me.incarnation, tuple(self._seeds))
        self._members: dict[str, int] = {}  # seeds that know a cluster -> which
        self._told = ""
        self._told_seeds: dict[str, str] = {}

    @property
    def list_digest(self) -> bytes:
        return self._forming.word.list_digest

    async def run(self) -> Membership:
        """Until this node has a place in a cluster. EnteringFailed: it never will."""
        pauses = Backoff(PAUSE_MS_MIN, PAUSE_MS_MAX, SystemRandom())
        while True:
            others = [seed for text, seed in self._seeds.items() if text != self._address]
            await asyncio.gather(*(self._ask(seed) for seed in others))
            entered = await self._decide()
            if entered is not None:
                return entered
            await asyncio.sleep(pauses.next_s())

    async def _decide(self) -> Membership | None:
        decision = self._forming.decide()
        match decision:
            case Found(member, _voter_count):
                return self._founding(member)
            case Join(_address, cluster_id):
                return await self._join(cluster_id)
            case Refuse(reason):
                raise EnteringFailed(reason)
            case Wait(reason):
                self._tell(reason)
        return None

    def _founding(self, member: int) -> Membership:
        founders = self._forming.seeds
        peers = []
        for place, text in enumerate(founders, 1):
            if place != member:
                seed = self._seeds[text]
                peers.append(PeerAddress(place, seed.host, seed.port))
        log.info("takes part in founding a cluster of %d, as member %d", len(founders), member)
        return Membership(
            name=self._me.name,
            incarnation=self._me.incarnation,
            member=member,
            cluster_id=0,
            founders=founders,
            is_founder=True,
            given_below=len(founders) + 1,
            peers=tuple(peers),
        )

    # Words

    async def _ask(self, seed: Address) -> None:
        """Take in the word of one seed."""
        text = str(seed)
        try:
            answer = await self._answer_of(seed, Who(incarnation=self._me.incarnation))
        except (AskFailed, BadQuestion) as error:
            self._forming.silent(text)
            self._members.pop(text, None)
            if self._told_seeds.get(text) != str(error):
                self._told_seeds[text] = str(error)
                log.info("seed %s: %s", text, error)
            return
        if isinstance(answer, questions.Word):
            self._told_seeds.pop(text, None)
            self._forming.heard(
                Word(text, answer.incarnation, answer.cluster_id, answer.list_digest)
            )
            if answer.cluster_id:
                self._members[text] = answer.cluster_id

    async def _answer_of(self, seed: Address, question: Question) -> questions.Answer:
        return decode_answer(await self._asks.ask(seed.host, seed.port, encode(question)))

    # Being taken in

    async def _join(self, cluster_id: int) -> Membership | None:
        """Ask each seed that is a member; None: not now."""
        question = TakeMeIn(self._me, self.list_digest)
        for text, known_id in sorted(self._members.items()):
            if known_id != cluster_id:
                continue
            try:
                answer = await self._answer_of(self._seeds[text], question)
            except (AskFailed, BadQuestion) as error:
                self._tell(f"{text} does not take this node in: {error}")
                continue
            if isinstance(answer, Taken):
                return self._taken(answer)
            if isinstance(answer, Never):
                raise EnteringFailed(answer.reason)
            if isinstance(answer, NotNow):
                self._tell(f"{text} does not take this node in yet: {answer.reason}")
        return None

    def _taken(self, taken: Taken) -> Membership:
        log.info("taken into cluster %016x as member %d", taken.cluster_id, taken.member)
        peers = tuple(peer for peer in taken.peers if peer.member != taken.member)
        given = max([taken.member, *(peer.member for peer in peers)]) + 1
        return Membership(
            name=self._me.name,
            incarnation=self._me.incarnation,
            member=taken.member,
            cluster_id=taken.cluster_id,
            founders=taken.founders,
            is_founder=taken.is_founder,
            given_below=given,
            peers=peers,
        )

    def _tell(self, reason: str) -> None:
        if reason != self._told:
            self._told = reason
            log.info("waits for its cluster: %s", reason)


def sole_member(me: Member) -> Membership:
    """Found a cluster of one: no other node has to agree."""
    address = str(Address(me.cluster_host, me.cluster_port)) if me.cluster_host else ""
    return Membership(
        name=me.name,
        incarnation=me.incarnation,
        member=1,
        cluster_id=0,
        founders=(address,),
        is_founder=True,
        given_below=2,
    )
