"""Maintenance of this node: `drain` takes clients and leaders off it, `revive` undoes that.

A drain marks the node for all, so that nothing new is placed there; suspends the AMQP listener;
closes client connections with 320 CONNECTION_FORCED (1.0: amqp:connection:forced); hands the
leaderships of its queues, and that of the definitions, to other nodes. It is refused where queues
or the definitions would have no majority when the node then stops, unless it is forced. What
could not be moved (no other member runs) is in the report. Classic queues cannot be moved; the
report counts them, and other nodes use them until this node stops.

A node that starts again is not in maintenance. Steps are done in this order and each can be done
again: a drain that failed half-way is repeated, or revived.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, Protocol

from msgspec import Struct

from node.cluster.membership.member_changes import Asking, Membership, Refused, every_queue, reached
from node.cluster.services.status_channel import NoAnswer, Unanswerable
from queues.placement.regrouping import Move, moved_off

log = logging.getLogger("warren.maintenance")

DRAIN: Final = "drain"  # a question to another node: force -> [report]
REVIVE: Final = "revive"
REASON: Final = "Node was put into maintenance mode"
CLOSED_S: Final = 2.0  # for clients to take their close
DRAIN_S: Final = 60.0  # for another node to be done with it
STUCK_MAX: Final = 100
ROUNDS: Final = 3  # a leader may come here while others leave


class Door(Protocol):
    """Where clients come in."""

    def close(self) -> None:
        """Take no more of them; those that are in stay."""

    async def open(self) -> None:
        """Take them again, at the same address; OSError if that cannot be had."""


class Clients(Protocol):
    """The connections of this node (`node.broker.Broker`)."""

    def close_clients(self, reason: str) -> int:
        """Close all of them with 320; how many there were."""

    @property
    def client_count(self) -> int: ...

    def set_in_maintenance(self, is_so: bool) -> None:
        """For health checks and listings."""


class Report(Struct, frozen=True):
    """What a drain has done."""

    connections: int = 0
    moved: int = 0
    stuck: tuple[str, ...] = ()  # queues that are still led here, STUCK_MAX of them at most
    classic: int = 0  # classic queues of this node: no other node has them


class Maintenance:
    """See the module. One drain or revive at a time."""

    def __init__(self, membership: Membership, door: Door, clients: Clients) -> None:
        self._membership = membership
        self._cluster_snapshot = membership.cluster_snapshot
        self._door = door
        self._clients = clients
        self._busy = asyncio.Lock()

    async def drain(self, force: bool = False) -> Report:
        async with self._busy:
            if not force:
                self._check()
            here = self._cluster_snapshot.here
            await self._membership.set_draining(here, True)
            self._clients.set_in_maintenance(True)
            self._door.close()
            closed = self._clients.close_clients(REASON)
            await reached(lambda: self._clients.client_count == 0, CLOSED_S)
            moved, stuck = await self._move_off()
            await self._membership.lead_definitions_elsewhere()
            classic = self._classic_count()
            log.warning(
                "the node is in maintenance: %d connections closed; %d classic queues stay here, "
                "and are down while the node is stopped",
                closed,
                classic,
            )
            return Report(closed, moved, stuck, classic)

    def _check(self) -> None:
        here = self._cluster_snapshot.here
        if self._membership.is_definitions_critical(here):
            raise Refused("the definitions have no majority of running nodes without this one")
        critical = self._membership.critical(here)
        if critical:
            first = critical[0]
            raise Refused(
                f"{len(critical)} quorum queues have no majority of members without this node, "
                f"among them queue '{first.name}' in vhost '{first.vhost}'"
            )

    async def _move_off(self) -> tuple[int, tuple[str, ...]]:
        """Hand over what is led here; how much went, and what did not."""
        done = 0
        left: list[int] = []
        for _ in range(ROUNDS):
            groups = [
                each
                for each in self._cluster_snapshot.groups(every_queue)
                if self._is_led(each.uid)
            ]
            moves, stuck = moved_off(
                groups, self._cluster_snapshot.candidates(), self._cluster_snapshot.here
            )
            failed: list[Move] = await self._membership.hand_over_all(moves)
            done += len(moves) - len(failed)
            left = [*stuck, *(move.uid for move in failed)]
            if not failed:
                break
        return done, tuple(self._told(uid) for uid in left[:STUCK_MAX])

    def _classic_count(self) -> int:
        snapshot = self._cluster_snapshot
        here = snapshot.name_of(snapshot.here)
        return sum(1 for each in snapshot.queues() if not each.holders and each.node == here)

    def _is_led(self, uid: int) -> bool:
        queue = self._cluster_snapshot.metadata.queue(uid)
        return (
            queue is not None
            and self._cluster_snapshot.leader_of(queue) == self._cluster_snapshot.here
        )

    def _told(self, uid: int) -> str:
        queue = self._cluster_snapshot.metadata.queue(uid)
        return str(uid) if queue is None else f"queue '{queue.name}' in vhost '{queue.vhost}'"

    async def revive(self) -> None:
        """Take clients and leaders again. Leaders come back with the next rebalance."""
        async with self._busy:
            await self._door.open()
            self._clients.set_in_maintenance(False)
            await self._membership.set_draining(self._cluster_snapshot.here, False)
            log.warning("the node is out of maintenance")


class MaintenanceRequests:
    """Maintenance of any node: this one's is done here, another one is asked to do its own."""

    def __init__(self, maintenance: Maintenance, membership: Membership, asking: Asking) -> None:
        self._maintenance = maintenance
        self._membership = membership
        self._asking = asking
        asking.serve(DRAIN, self._drain_asked)
        asking.serve(REVIVE, self._revive_asked)

    async def drain(self, node: str, force: bool) -> Report:
        member = self._member(node)
        connections, moved, stuck, classic = (await self._ask(member, DRAIN, force))[0]
        return Report(connections, moved, tuple(stuck), classic)

    async def revive(self, node: str) -> None:
        await self._ask(self._member(node), REVIVE, None)

    def _member(self, node: str) -> int:
        found = self._membership.cluster_snapshot.member_named(node)
        if found is None:
            raise Refused(f"node '{node}' is not a member of the cluster", missing=True)
        return found.id

    async def _ask(self, member: int, question: str, about: object) -> list[Any]:
        try:
            answer: list[Any] = await self._asking.ask(member, question, about, DRAIN_S)
        except NoAnswer as error:
            raise Refused(str(error)) from error
        return answer

    async def _drain_asked(self, asker: int, about: Any) -> AsyncIterator[object]:
        report = await told(lambda: self._maintenance.drain(about is True))
        yield [report.connections, report.moved, list(report.stuck), report.classic]

    async def _revive_asked(self, asker: int, about: Any) -> AsyncIterator[object]:
        await told(self._maintenance.revive)
        yield True


async def told(work: Callable[[], Any]) -> Any:
    """Do it; a refusal is the answer to the caller."""
    try:
        return await work()
    except (Refused, OSError) as error:
        raise Unanswerable(str(error)) from error
