"""Answers requests to leases at the node that leads their queue, whichever node they come to.

    answering = Answering(leases, operating, find_queue)
    status, body = await answering.answer(queue, "spark", "guest", "PUT", ["batches", "7"], {})

Bodies are maps of whole numbers, texts and lists, as MessagePack has them. A request that this node
has no answer to goes to the node that leads the queue, once; status 503 says that there is none, or
that it does not answer: the client may ask again.
"""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final, Protocol

from node.cluster.services.status_channel import NoAnswer
from node.leases.batches import NUMBER_MAX, Batch, OutOfOrder, Room
from node.leases.lease import Lease, LeaseFault
from node.leases.leases import TIMEOUT_MS, Leases, said
from queues.definitions.broker_objects import Queue
from queues.definitions.metadata.machine import Metadata

if TYPE_CHECKING:
    from node.cluster.services.cluster_services import Operating

REQUEST: Final = "lease_request"  # question to another node
ANSWER_S: Final = 15.0  # for which the leader is waited for: a fetch may take 10
MESSAGES: Final = 100_000  # of a batch, where the request does not say
BYTES: Final = 256 << 20

Answer = tuple[int, object]  # status and body; of a refusal the text


class Site(Protocol):
    """The broker."""

    @property
    def operating(self) -> "Operating": ...

    @property
    def metadata(self) -> Metadata: ...


class Answering:
    """See the module."""

    def __init__(self, site: Site, leases: Leases) -> None:
        self._site = site
        self._leases = leases
        site.operating.status.serve(REQUEST, self._asked)

    async def answer(
        self, queue: Queue, name: str, user: str, method: str, path: list[str], body: object
    ) -> Answer:
        """`path`: behind the name of the lease. The user may read the queue."""
        leader = self._site.operating.leader_elsewhere(int(queue.uid))
        if not leader:
            return await self._answered(queue, name, user, method, path, body)
        about = [int(queue.uid), name, user, method, path, body]
        try:
            (parts,) = await self._site.operating.status.ask(leader, REQUEST, about, ANSWER_S)
        except NoAnswer as error:
            node = self._site.operating.cluster_snapshot.name_of(leader)
            return 503, f"{said(queue)} is served by node {node}, which does not answer: {error}"
        status, told = parts
        return status, told

    async def _asked(self, asker: int, about: Any) -> AsyncIterator[object]:
        uid, name, user, method, path, body = about
        queue = self._site.metadata.queue(uid)
        if queue is None:
            yield 404, "the queue was deleted"
        else:
            yield await self._answered(queue, name, user, method, path, body)

    async def _answered(
        self, queue: Queue, name: str, user: str, method: str, path: list[str], body: object
    ) -> Answer:
        try:
            return await self._carried_out(queue, name, user, method, path, body)
        except LeaseFault as fault:
            return fault.status, fault.text
        except OutOfOrder as fault:
            return 409, str(fault)

    async def _carried_out(
        self, queue: Queue, name: str, user: str, method: str, path: list[str], body: object
    ) -> Answer:
        leases = self._leases
        match method, path:
            case "PUT", []:
                timeout_ms = fields(body, {"timeout_ms": TIMEOUT_MS})["timeout_ms"]
                return 200, self._description(await leases.open(queue, name, user, timeout_ms))
            case "GET", []:
                return 200, self._description(await leases.found(queue, name, renewed=False))
            case "DELETE", []:
                await leases.found(queue, name)
                leases.release(queue, name)
                return 204, None
            case "PUT", ["batches", number]:
                limits = fields(body, {"max_messages": MESSAGES, "max_bytes": BYTES})
                room = Room(limits["max_messages"], limits["max_bytes"])
                lease = await leases.found(queue, name)
                return 200, described(await leases.fetch(lease, batch_number(number), room))
            case "POST", ["commit"]:
                upto = fields(body, {"batch": 0})["batch"]
                if upto == 0:
                    text = "property 'batch' is missing: the number of the last batch"
                    raise LeaseFault(400, text)
                lease = await leases.found(queue, name)
                return 200, {"messages": await leases.commit(lease, upto)}
            case _:
                text = f"no method {method} for '/leases/{queue.name}/{name}/{'/'.join(path)}'"
                raise LeaseFault(405, text[:500])

    def _description(self, lease: Lease) -> dict[str, object]:
        batches = [described(each) for each in lease.batches.held.values()]
        return {**self._leases.row(lease), "batches": batches, "ready": lease.host.ready_count}


def described(batch: Batch) -> dict[str, object]:
    return {"batch": batch.number, "messages": batch.count, "message_bytes": batch.size_bytes}


def batch_number(segment: str) -> int:
    if not (segment.isascii() and segment.isdigit()) or not 0 < int(segment) <= NUMBER_MAX:
        raise LeaseFault(400, f"batch '{segment[:40]}': allowed: a whole number from 1 on")
    return int(segment)


def fields(body: object, known: dict[str, int]) -> dict[str, int]:
    """Numbers of the body; `known` has what holds without them. LeaseFault."""
    if body is None:
        body = {}
    if not isinstance(body, dict):
        raise LeaseFault(400, "the body must be a map")
    found = dict(known)
    for name, value in body.items():
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if name not in known or not is_number or not 0 < value <= NUMBER_MAX:
            text = f"bad property {name!r}: {value!r}; known: {', '.join(known)}, from 1 on"
            raise LeaseFault(400, text[:500])
        found[str(name)] = int(value)
    return found
