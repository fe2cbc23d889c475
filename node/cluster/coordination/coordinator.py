"""Coordination on one node: the part of kind COORDINATION, and what the others see (`seam`).

Ticked by a timer. Each tick asks for the membership: has it changed, or a process of a member, the
replica is thrown away and one of the new generation is made; frames of other generations are
dropped. Each second this node has a beat committed with its load, and says again what it wants of
jobs and what not, for a proposal may be lost.

A job is this node's from when the registry says so, until that says otherwise or no beat of this
node has been committed for LEASE_S: others give a node up after SILENT_BEATS beats of theirs, which
takes longer. One beat at a time is under way, so that theirs cannot come in a bunch. Callbacks are
called by `tick` alone.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from node.cluster.cluster_interfaces import CONTROL_LANE, COORDINATION, Peers
from node.cluster.coordination.coordination_codec import (
    BadMessage,
    decode_frame,
    encode_frame,
    generation_of,
)
from node.cluster.coordination.coordination_interface import Holding, Load, OnHeld
from node.cluster.coordination.registry import Beat, Claim, Release
from node.timers import until_next
from warren.wire.peer.codes import PeerFault

if TYPE_CHECKING:
    from node.cluster.coordination.replica import Replica

log = logging.getLogger("warren.coordination")

TICK_S: Final = 0.1
BEAT_S: Final = 1.0
LEASE_S: Final = 4.0  # since the proposal of the last beat that was committed
UNDER_WAY_S: Final = 3.0  # a beat that was not committed by then is taken for lost

Membership = tuple[int, tuple[int, ...]]  # generation, members; those that are empty take no part


class Coordinator:
    """Keeps `Coordination` and `PeerChannel`. Invariant: `_told` has the jobs that `told` heard
    of."""

    def __init__(
        self,
        peers: Peers,
        membership: Callable[[], Membership],
        load: Callable[[], Load],
        now_s: Callable[[], float],
        call_later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        """`membership`: as the definitions that are applied here say, this member too, once its
        own process is known to them; until then without it."""
        self._peers = peers
        self._membership = membership
        self._load = load
        self._now_s = now_s
        self._call_later = call_later
        self.replica: Replica | None = None  # None: this node is no member yet
        self.wanted: dict[str, OnHeld] = {}  # by job that this node claims
        self._told: dict[str, int] = {}  # fencing number by job
        self._beat = 0  # number of the last one proposed
        self._proposed_s = -BEAT_S
        self._leased_s = -LEASE_S  # when the last one that was committed was proposed
        self._is_over = False

    def start(self) -> None:
        """Begin to tick."""
        if not self._is_over:
            self._call_later(until_next(TICK_S, self._now_s()), self.start)
            self.tick()

    def stop(self) -> None:
        """The node stops: no more ticks, and nothing is held."""
        self._is_over = True
        self._drop_replica()

    # Coordination

    @property
    def is_running(self) -> bool:
        return self.replica is not None and self._now_s() - self._leased_s < LEASE_S

    def claim(self, job: str, told: OnHeld) -> None:
        assert job not in self.wanted
        self.wanted[job] = told
        if self.replica is not None:
            self.replica.propose(Claim(self._peers.member, job))

    def release(self, job: str) -> None:
        if self.wanted.pop(job, None) is None:
            return
        self._told.pop(job, None)
        if self.replica is not None:
            self.replica.propose(Release(self._peers.member, job))

    def holder(self, job: str) -> Holding | None:
        return None if self.replica is None else self.replica.registry.holder(job)

    def loads(self) -> dict[int, Load]:
        return {} if self.replica is None else self.replica.registry.loads()

    # Time

    def tick(self) -> None:
        """Every TICK_S."""
        self._follow_membership()
        replica = self.replica
        if replica is not None:
            replica.tick()
            self._see_beat(replica)
            if self._is_beat_due():
                self._propose(replica)
        self._tell()

    def _follow_membership(self) -> None:
        """Make the replica of the generation that there is now."""
        generation, members = self._membership()
        replica = self.replica
        if replica is not None and replica.generation == generation:
            return
        self._drop_replica()
        member = self._peers.member
        if member not in members:
            return
        from node.cluster.coordination.replica import Replica

        others = [each for each in members if each != member]
        replica = Replica(generation, member, others, self._send)
        for each in others:
            if self._peers.is_connected(each):
                replica.connected(each)
        self.replica = replica
        log.info("coordination: generation %d of %d members", generation, len(members))

    def _drop_replica(self) -> None:
        if self.replica is not None:
            self.replica.close()
            self.replica = None
        self._beat = 0
        self._proposed_s = self._now_s() - BEAT_S
        self._leased_s = self._now_s() - LEASE_S

    def _see_beat(self, replica: "Replica") -> None:
        if self._beat and replica.registry.beat_of(self._peers.member) == self._beat:
            self._leased_s = self._proposed_s

    def _is_beat_due(self) -> bool:
        since_s = self._now_s() - self._proposed_s
        is_under_way = self._leased_s != self._proposed_s and self._beat > 0
        return since_s >= (UNDER_WAY_S if is_under_way else BEAT_S)

    def _propose(self, replica: "Replica") -> None:
        """A beat, and what the registry does not know of this node's wishes."""
        member, load = self._peers.member, self._load()
        self._beat += 1
        self._proposed_s = self._now_s()
        beat = Beat(
            member,
            self._beat,
            load.leaders,
            load.connections,
            load.messages_per_s,
            load.is_draining,
        )
        replica.propose(beat)
        known = replica.registry.jobs_of(member)
        for job in sorted(self.wanted.keys() - known):
            replica.propose(Claim(member, job))
        for job in sorted(known - self.wanted.keys()):
            replica.propose(Release(member, job))

    def _tell(self) -> None:
        """Tell those who claim what has changed for them."""
        for job, told in list(self.wanted.items()):
            held = self._held(job)
            before = self._told.get(job)
            if held == before or job not in self.wanted:
                continue
            if before is not None:
                del self._told[job]
                told(None)
            if held is not None and job in self.wanted:
                self._told[job] = held
                told(held)

    def _held(self, job: str) -> int | None:
        """This node's fencing number for the job, while it has it."""
        holding = self.holder(job) if self.is_running else None
        if holding is None or holding.member != self._peers.member:
            return None
        return holding.fencing

    # The peers

    def _send(self, member: int, message: object) -> None:
        assert self.replica is not None
        frame = encode_frame(self.replica.generation, message)
        self._peers.send(member, COORDINATION, CONTROL_LANE, [frame])

    def peer_connected(self, member: int) -> None:
        if self.replica is not None:
            self.replica.connected(member)

    def peer_lost(self, member: int) -> None:
        if self.replica is not None:
            self.replica.lost(member)

    def peer_removed(self, member: int) -> None:
        """The next generation is without it."""

    def peer_received(self, member: int, payload: memoryview) -> None:
        try:
            generation = generation_of(payload)
            if self.replica is not None and self.replica.generation == generation:
                self.replica.received(member, decode_frame(payload))
        except BadMessage as error:
            raise PeerFault(f"a message of coordination that makes no sense: {error}") from error
