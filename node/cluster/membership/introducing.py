"""How a member makes sure of its place: it is known as it is, and it knows what is committed.

`introduce` has a command of this node committed. When that is applied here, so is all that was
committed before: the definitions of this node are current. Then the row of this node is brought to
what the configuration says. `watch` asks peers that cannot be reached how this node stands; a node
that was forgotten, or whose place another has, hears of it though no peer dials it any more.
Both try for as long as they run.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from node.cluster.definitions.definitions_interface import TIMED_OUT, Definitions
from node.cluster.membership.entering import Asks
from node.cluster.membership.membership_file import EnteringFailed, Membership, PeerAddress
from node.cluster.membership.questions import (
    STANDING_TEXTS,
    BadQuestion,
    Who,
    Word,
    decode_answer,
    encode,
)
from node.cluster.peering.asking import AskFailed
from queues.definitions.members import Member
from queues.definitions.metadata.commands import AddMember, Batch, Command, PutMember
from queues.definitions.metadata.outcomes import Outcome, Refused

log = logging.getLogger("warren.cluster")

PAUSE_S: Final = 1.0  # between questions, and between proposals that failed
FOUNDING_PAUSE_S: Final = 0.01


async def propose(definitions: Definitions, command: Command) -> Outcome:
    """Have a command committed; what came of it."""
    done: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

    def told(outcome: Outcome) -> None:
        if not done.done():  # The waiting task may have been cancelled.
            done.set_result(outcome)

    definitions.propose(command, told)
    return await done


async def introduce(definitions: Definitions, me: Member) -> None:
    """Until the definitions know this node as `me`, and it all that they were when it began.

    EnteringFailed: the cluster does not have this node.
    """
    await _commit(definitions, Batch(()))
    while definitions.cluster_id == 0:  # The first leader, which has yet to found it.
        await asyncio.sleep(FOUNDING_PAUSE_S)
    while True:
        command = _correction(definitions, me)
        if command is None:
            return
        await _commit(definitions, command)


def _correction(definitions: Definitions, me: Member) -> Command | None:
    """What makes the row of this node right; None: it is. EnteringFailed: it cannot be."""
    row = next((each for each in definitions.members() if each.id == me.id), None)
    if row is None:
        raise EnteringFailed(f"member {me.id}, this node, was removed from the cluster")
    if row.incarnation == 0:
        return AddMember(
            me.name,
            me.incarnation,
            me.cluster_host,
            me.cluster_port,
            me.host_id,
            me.zone,
            me.amqp,
            me.management,
            me.amqps,
            me.tags,
            me.stream,
            me.stream_tls,
        )
    if row.incarnation != me.incarnation:
        raise EnteringFailed(
            f"member {me.id} of the cluster is another data directory, that of '{row.name}'"
        )
    return None if row == me else PutMember(me)  # A node that starts is not in maintenance.


async def _commit(definitions: Definitions, command: Command) -> None:
    told = ""
    while True:
        outcome = await propose(definitions, command)
        if not isinstance(outcome, Refused):
            return
        if not outcome.text.endswith(TIMED_OUT):
            raise EnteringFailed(f"the cluster does not take this node: {outcome.text}")
        if outcome.text != told:
            told = outcome.text
            log.warning("no majority of the cluster can be reached: %s", outcome.text)
        await asyncio.sleep(PAUSE_S)


class Standing(Protocol):
    """What is asked for."""

    @property
    def held(self) -> Membership: ...

    @property
    def boot(self) -> int: ...

    def unreachable_peers(self) -> Sequence[PeerAddress]:
        """Those without a link."""


async def watch(asks: Asks, standing: Standing, on_fatal: Callable[[str], None]) -> None:
    """Ask all peers, then one at a time, for ever; `on_fatal` hears why this node has to stop.

    Those that dial this node hear by the question that it is there.
    """
    turn = 0
    asked = list(standing.unreachable_peers())
    while True:
        texts = await asyncio.gather(*(_stands(asks, standing, peer) for peer in asked))
        for text in texts:
            if text:
                on_fatal(text)
                return
        await asyncio.sleep(PAUSE_S)
        peers = standing.unreachable_peers()
        turn += 1
        asked = [peers[turn % len(peers)]] if peers else []


async def _stands(asks: Asks, standing: Standing, peer: PeerAddress) -> str:
    """'' or why this node is none of the cluster."""
    held = standing.held
    question = Who(held.cluster_id, held.member, held.incarnation, standing.boot)
    try:
        answer = decode_answer(await asks.ask(peer.host, peer.port, encode(question)))
    except (AskFailed, BadQuestion) as error:
        log.debug("member %d was asked and did not answer: %s", peer.member, error)
        return ""
    if not isinstance(answer, Word):
        return ""
    return STANDING_TEXTS.get(answer.standing, "")
