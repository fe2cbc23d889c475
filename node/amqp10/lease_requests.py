"""Leases for one connection, by `/management` (`node.leases`). Not compiled.

| Request | |
|---|---|
| `PUT /leases/:queue/:name` {timeout_ms} | open the lease, or renew it |
| `GET /leases/:queue/:name` | what it holds; does not renew it |
| `PUT /leases/:queue/:name/batches/:n` {max_messages, max_bytes} | fetch batch n, once |
| `POST /leases/:queue/:name/commit` {batch} | accept the messages of batches up to this one |
| `DELETE /leases/:queue/:name` | end it: what it holds is ready again |

All need the right to read the queue. A batch that is there has the same messages each time; one
without messages is not kept. Answers of a queue are awaited by a task for each request, at
most TASKS_MAX, which `close` ends; what was fetched then belongs to the next batch.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from node.amqp10.requests import Reply, RequestError, decode_name
from node.definitions.definition_changes import Actor, readable_queue
from node.leases.batches import NUMBER_MAX, Batch, OutOfOrder, Room
from node.leases.lease import Lease, LeaseFault
from node.leases.leases import TIMEOUT_MS, Leases
from queues.definitions.broker_objects import Queue
from warren.wire.amqp10.values import ULong

Done = Callable[[Reply], None]

TASKS_MAX: Final = 8
MESSAGES: Final = 100_000  # of a batch, where the request does not say
BYTES: Final = 256 << 20


class Broker(Protocol):
    """The broker, as this module asks it."""

    @property
    def leases(self) -> Leases: ...


class Requester(Actor, Protocol):
    """The connection that asks."""

    @property
    def user(self) -> str: ...


class LeaseRequests:
    """See the module."""

    def __init__(self, requester: Requester, broker: Broker) -> None:
        self._requester = requester
        self._leases = broker.leases
        self._tasks: set[asyncio.Task[None]] = set()

    def handle(self, method: str, segments: list[str], body: object, done: Done) -> None:
        """`segments` of the path behind `/leases`. RequestError, ProtocolError."""
        if len(segments) < 2:
            raise RequestError(404, "the path of a lease is /leases/QUEUE/NAME")
        queue = readable_queue(self._requester, decode_name(segments[0]))
        name = decode_name(segments[1])
        match method, segments[2:]:
            case "PUT", []:
                timeout_ms = fields(body, {"timeout_ms": TIMEOUT_MS})["timeout_ms"]
                self._begin(self._open(queue, name, timeout_ms, done), done)
            case "GET", []:
                lease = self._found(queue, name, renewed=False)
                done(Reply(200, self._description(lease)))
            case "DELETE", []:
                self._release(queue, name)
                done(Reply(204))
            case "PUT", ["batches", number]:
                lease = self._found(queue, name)
                limits = fields(body, {"max_messages": MESSAGES, "max_bytes": BYTES})
                room = Room(limits["max_messages"], limits["max_bytes"])
                self._begin(self._fetch(lease, batch_number(number), room, done), done)
            case "POST", ["commit"]:
                upto = fields(body, {"batch": 0})["batch"]
                done(Reply(200, self._commit(self._found(queue, name), upto)))
            case _:
                path = "/leases/" + "/".join(segments)
                raise RequestError(405, f"no method {method} for '{path}'"[:500])

    def close(self) -> None:
        """What is under way is not answered."""
        for task in self._tasks:
            task.cancel()

    def _begin(self, work: Coroutine[Any, Any, None], done: Done) -> None:
        if len(self._tasks) >= TASKS_MAX:
            work.close()
            raise RequestError(503, f"{TASKS_MAX} requests to leases are under way")
        task = asyncio.get_running_loop().create_task(self._answered(work, done))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answered(self, work: Coroutine[Any, Any, None], done: Done) -> None:
        try:
            await work
        except LeaseFault as fault:
            done(Reply(fault.status, fault.text))
        except OutOfOrder as fault:
            done(Reply(409, str(fault)))

    async def _open(self, queue: Queue, name: str, timeout_ms: int, done: Done) -> None:
        lease = await self._leases.open(queue, name, self._requester.user, timeout_ms)
        done(Reply(200, self._description(lease)))

    async def _fetch(self, lease: Lease, number: int, room: Room, done: Done) -> None:
        done(Reply(200, described(await lease.fetch(number, room))))

    def _found(self, queue: Queue, name: str, *, renewed: bool = True) -> Lease:
        try:
            return self._leases.find(queue, name, renewed=renewed)
        except LeaseFault as fault:
            raise RequestError(fault.status, fault.text) from fault

    def _commit(self, lease: Lease, number: int) -> dict[object, object]:
        if number == 0:
            raise RequestError(400, "property 'batch' is missing: the number of the last batch")
        return {"messages": ULong(lease.commit(number))}

    def _release(self, queue: Queue, name: str) -> None:
        try:
            self._leases.release(queue, name)
        except LeaseFault as fault:
            raise RequestError(fault.status, fault.text) from fault

    def _description(self, lease: Lease) -> dict[object, object]:
        found: dict[object, object] = {
            name: ULong(value) if isinstance(value, int) else value
            for name, value in self._leases.row(lease).items()
        }
        found["batches"] = [described(each) for each in lease.batches.held.values()]
        found["ready"] = ULong(lease.host.ready_count)
        return found


def described(batch: Batch) -> dict[object, object]:
    return {
        "batch": ULong(batch.number),
        "messages": ULong(batch.count),
        "message_bytes": ULong(batch.size_bytes),
    }


def batch_number(segment: str) -> int:
    if not (segment.isascii() and segment.isdigit()) or not 0 < int(segment) <= NUMBER_MAX:
        raise RequestError(400, f"batch '{segment[:40]}': allowed: a whole number from 1 on")
    return int(segment)


def fields(body: object, known: dict[str, int]) -> dict[str, int]:
    """Numbers of the body; `known` has what holds without them. RequestError."""
    if body is None:
        body = {}
    if not isinstance(body, dict):
        raise RequestError(400, "the body must be a map")
    found = dict(known)
    for name, value in body.items():
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if name not in known or not is_number or not 0 < value <= NUMBER_MAX:
            text = f"bad property {name!r}: {value!r}; known: {', '.join(known)}, from 1 on"
            raise RequestError(400, text[:500])
        found[str(name)] = int(value)
    return found
