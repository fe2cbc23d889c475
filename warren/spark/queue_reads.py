"""Reads a queue under a lease: numbered batches of messages that the node keeps unacknowledged.

The driver asks a `QueueLease`; tasks read their parts of a batch as Arrow batches. Knows the
client, not Spark. A lease is at the node that leads the queue, and renewed by all that is asked.
When another node begins to lead, it has the lease with the same batches: what was asked or read
meanwhile goes on there, if that is within the option `timeout`.
"""

import asyncio
import logging
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import quote

import pyarrow

from warren.client import Connection, LoginFailed, PeerError, RequestFailed
from warren.client.links import Terms
from warren.client.management import Management
from warren.spark.columns import batches_for, body_of
from warren.spark.leaders import FAULTS, Leaders, Nodes, url_at
from warren.spark.options import ReadOptions
from warren.spark.stream_reads import (
    BATCH_BYTES_MAX,
    ROWS_MAX,
    ReadError,
    Runs,
    connected,
    drawn,
)
from warren.wire.amqp10.codec.performatives import Source, Target
from warren.wire.amqp10.codec.values import ULong
from warren.wire.amqp10.errors import Condition
from warren.wire.amqp10.link import SENDER_SETTLED
from warren.wire.amqp10.rows import StreamRows

log = logging.getLogger("warren.spark")

NOT_FOUND: Final = 404
OUT_OF_ORDER: Final = 409
UNAVAILABLE: Final = 503  # now: no node leads the queue, or the lease is on its way to the next one
FULL: Final = 507
PAUSE_S: Final = 0.1  # before a request or a read is tried again
RENEWALS: Final = 3  # in the time limit of a lease

Ask = Callable[[Management], Awaitable[object]]


@dataclass(frozen=True)
class Held:
    """A batch that the lease holds."""

    number: int
    count: int


@dataclass(frozen=True)
class Standing:
    """What a lease holds, in the order of the numbers, and what waits in the queue."""

    batches: tuple[Held, ...]
    newest: int  # the highest number that was used
    ready: int


class Settled(ReadError):
    """The batch was settled, so its messages are gone."""


class Full(ReadError):
    """The lease holds as much as it may."""


class QueueLease:
    """The lease of one query. ReadError: the broker refuses what is asked, or does not answer."""

    def __init__(self, leaders: Leaders) -> None:
        options = leaders.options
        self._leaders = leaders
        self._options = options
        self._path = f"/leases/{quote(options.queue, safe='')}/{quote(options.lease, safe='')}"
        self._name = f"queue '{options.queue}', lease '{options.lease}'"
        self._patience_s: float = options.timeout_s
        self._renewal: Renewal | None = None
        self._settled = 0  # the highest number that was committed here

    def open(self) -> Standing:
        """Open the lease, or renew it, and keep it renewed until `close`."""
        found = self._opened()
        if self._renewal is None:
            self._renewal = Renewal(self._options)
        return found

    def _opened(self) -> Standing:
        body = {"timeout_ms": ULong(self._options.lease_timeout_ms)}
        answer = self._asked("PUT", self._path, body)
        held = [Held(int(each["batch"]), int(each["messages"])) for each in answer["batches"]]
        return Standing(tuple(held), int(answer["newest_batch"]), int(answer["ready"]))

    def renew(self) -> None:
        """As `open`, once, and only if the broker answers now."""
        self._patience_s = 0.0
        self._opened()

    def fetch(self, number: int, messages_max: int | None, bytes_max: int | None) -> Held:
        """The batch of that number; a new one has the next messages, perhaps none. Settled,
        Full."""
        limits = {"max_messages": messages_max, "max_bytes": bytes_max}
        body = {name: ULong(each) for name, each in limits.items() if each is not None}
        answer = self._asked("PUT", f"{self._path}/batches/{number}", body)
        return Held(number, int(answer["messages"]))

    def commit(self, upto: int) -> None:
        """Settle the batches up to that number. A lease that is over holds none of them."""
        if upto <= self._settled:
            return
        try:
            self._asked("POST", f"{self._path}/commit", {"batch": ULong(upto)})
            self._settled = upto
        except Gone as error:
            log.warning("batch %d is not settled, and its messages come again: %s", upto, error)

    def address(self) -> str:
        """Of the node where the lease is; empty: that of the option `url`."""
        return self._leaders.addresses([self._options.queue]).get(self._options.queue, "")

    def close(self) -> None:
        """The query has stopped: a lease without messages ends, others wait for the next start."""
        if self._renewal is None:
            return
        self._renewal.stop()
        self._renewal = None
        self._patience_s = 0.0
        try:
            if not self._asked("GET", self._path)["batches"]:
                self._asked("DELETE", self._path)
        except ReadError as error:
            log.info("the lease ends by its time limit: %s", error)

    def _asked(self, method: str, path: str, body: object = None) -> Any:
        async def work(nodes: Nodes) -> object:
            _, management = await nodes.at(self._options.queue)
            try:
                return await management.request(method, path, body)
            except RequestFailed as error:  # Asked again it would be refused again.
                return error

        answer = self._patiently(work)
        if isinstance(answer, RequestFailed):
            kind = REFUSALS.get(answer.status, ReadError)
            raise kind(f"{self._name}: {answer}") from answer
        return cast(Any, answer)

    def _patiently(self, work: Callable[[Nodes], Awaitable[object]]) -> object:
        """What `work` gives while a node leads the queue: a request that is carried out twice is
        answered as the first one was. ReadError: no node answers in time."""
        deadline = time.monotonic() + self._patience_s
        while True:
            try:
                answer = self._leaders.ask(work)
            except FAULTS as error:
                if time.monotonic() >= deadline or is_final(error):
                    raise ReadError(f"{self._name}: {error or 'no answer'}") from error
                log.info("%s: asking again: %s", self._name, error or "no answer")
            else:
                is_there = getattr(answer, "status", 0) != UNAVAILABLE
                if is_there or time.monotonic() >= deadline:
                    return answer
            time.sleep(PAUSE_S)


def is_final(error: Exception) -> bool:
    """Whether the broker would say the same again. A lease that is not there may be on its way."""
    if isinstance(error, RequestFailed):
        return error.status != UNAVAILABLE
    if isinstance(error, PeerError):
        return error.condition in (Condition.UNAUTHORIZED_ACCESS, Condition.NOT_ALLOWED)
    return isinstance(error, LoginFailed)


class Gone(ReadError):
    """There is no such lease."""


REFUSALS: Final[dict[int, type[ReadError]]] = {NOT_FOUND: Gone, OUT_OF_ORDER: Settled, FULL: Full}


class Renewal:
    """Renews a lease while a micro-batch takes longer than the time limit of the lease."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease renewal", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._options.lease_timeout_ms / 1000 / RENEWALS):
            try:
                self._renew()
            except Exception:
                log.exception("the renewal of a lease failed and is tried again")

    def _renew(self) -> None:
        with closing(Leaders(self._options)) as leaders:
            try:
                QueueLease(leaders).renew()
            except ReadError as error:
                log.warning("the lease is not renewed: %s", error)


def read_batch(
    options: ReadOptions, number: int, first: int, count: int, address: str
) -> Iterator[pyarrow.RecordBatch]:
    """`count` messages of a batch from place `first` on. ReadError."""
    end = first + count - 1
    where = f"queue '{options.queue}', lease '{options.lease}', batch {number}, {first} to {end}"
    return drawn(_batches(options, number, first, count, address), where)


async def _batches(
    options: ReadOptions, number: int, first: int, count: int, address: str
) -> AsyncGenerator[pyarrow.RecordBatch, None]:
    """What was read stays: after a fault the rest is read, where the lease is then."""
    end, deadline = first + count, time.monotonic() + options.timeout_s
    while first < end:
        try:
            async for batch in _rest(options, number, first, end - first, address):
                first += batch.num_rows
                deadline = time.monotonic() + options.timeout_s
                yield batch
        except FAULTS as error:
            if time.monotonic() >= deadline or is_final(error):
                raise
            log.info("queue '%s': reading again: %s", options.queue, error or "no answer")
            await asyncio.sleep(PAUSE_S)
            address = await _address(options, address)


async def _address(options: ReadOptions, before: str) -> str:
    """Of the node that leads the queue now, as the node of `url` knows it, or the one of before."""
    for place in ("", before):
        nodes = Nodes(options)
        try:
            await nodes.open(url_at(options.url, place) if place else options.url)
            return await nodes.address(options.queue) or place
        except FAULTS as error:
            log.info("queue '%s': where it is led: %s", options.queue, error or "no answer")
        finally:
            await nodes.close()
    return before


async def _rest(
    options: ReadOptions, number: int, first: int, count: int, address: str
) -> AsyncGenerator[pyarrow.RecordBatch, None]:
    async with await connected(options, address) as connection:
        runs = await _reading(connection, options, number, first, count)
        batches, rows = batches_for(options), StreamRows(body_of)
        while count > 0:
            rows = StreamRows(body_of, rows)
            while count > 0 and rows.count < ROWS_MAX and rows.size < BATCH_BYTES_MAX:
                run = await runs.take(options.timeout_s)
                rows.add_plain(run)
                count -= int(run.count)
            yield batches.of(rows)


async def _reading(
    connection: Connection, options: ReadOptions, number: int, first: int, count: int
) -> Runs:
    terms = Terms(
        name="spark",
        as_receiver=True,
        source=Source(address=f"/queues/{quote(options.queue, safe='')}"),
        target=Target(),
        snd_settle_mode=SENDER_SETTLED,
        properties={
            "warren:lease": options.lease,
            "warren:lease-batch": ULong(number),
            "warren:lease-first": ULong(first),
            "warren:lease-count": ULong(count),
        },
    )
    runs = Runs(connection, terms)
    await connection.attach([runs.handle])
    return runs
