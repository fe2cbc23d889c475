"""Leases for one connection, by `/management` (`node.leases.answering`). Not compiled.

| Request | |
|---|---|
| `PUT /leases/:queue/:name` {timeout_ms} | open the lease, or renew it |
| `GET /leases/:queue/:name` | what it holds; does not renew it |
| `PUT /leases/:queue/:name/batches/:n` {max_messages, max_bytes} | fetch batch n, once |
| `POST /leases/:queue/:name/commit` {batch} | accept the messages of batches up to this one |
| `DELETE /leases/:queue/:name` | end it: what it holds is ready again |

All need the right to read the queue. A batch that is there has the same messages each time; one
without messages is not kept. Each request is a task, at most TASKS_MAX, which `close` ends; what
was fetched then belongs to the next batch.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from node.amqp10.requests import Reply, RequestError, decode_name
from node.definitions.definition_changes import Actor, readable_queue
from node.leases.answering import Answering
from queues.definitions.broker_objects import Queue
from warren.wire.amqp10.codec.values import ULong

Done = Callable[[Reply], None]

TASKS_MAX: Final = 8


class Broker(Protocol):
    """The broker, as this module asks it."""

    @property
    def lease_answers(self) -> Answering: ...


class Requester(Actor, Protocol):
    """The connection that asks."""

    @property
    def user(self) -> str: ...


class LeaseRequests:
    """See the module."""

    def __init__(self, requester: Requester, broker: Broker) -> None:
        self._requester = requester
        self._answering = broker.lease_answers
        self._tasks: set[asyncio.Task[None]] = set()

    def handle(self, method: str, segments: list[str], body: object, done: Done) -> None:
        """`segments` of the path behind `/leases`. RequestError, ProtocolError."""
        if len(segments) < 2:
            raise RequestError(404, "the path of a lease is /leases/QUEUE/NAME")
        queue = readable_queue(self._requester, decode_name(segments[0]))
        name = decode_name(segments[1])
        if len(self._tasks) >= TASKS_MAX:
            raise RequestError(503, f"{TASKS_MAX} requests to leases are under way")
        answered = self._answered(queue, name, method, segments[2:], body, done)
        task = asyncio.get_running_loop().create_task(answered)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        """What is under way is not answered."""
        for task in self._tasks:
            task.cancel()

    async def _answered(
        self, queue: Queue, name: str, method: str, path: list[str], body: object, done: Done
    ) -> None:
        user = self._requester.user
        status, told = await self._answering.answer(queue, name, user, method, path, body)
        done(Reply(status, numbered(told)))


def numbered(value: object) -> object:
    """With whole numbers as AMQP's ulong."""
    if isinstance(value, dict):
        return {str(key): numbered(each) for key, each in value.items()}
    if isinstance(value, list):
        return [numbered(each) for each in value]
    return ULong(value) if isinstance(value, int) and not isinstance(value, bool) else value
