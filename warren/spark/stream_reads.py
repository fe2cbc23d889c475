"""Reads ranges of offsets of a stream as Arrow batches. Knows the client, not Spark."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from time import monotonic
from typing import Final, TypeVar
from urllib.parse import quote

import pyarrow
import uvloop

from warren.client import ClientError, Connection, Consumer, Message, connect
from warren.client.links import LinkHandle, Quiet, Terms
from warren.spark.columns import batches_for, body_of
from warren.spark.leaders import FAULTS, Leaders, Look, Nodes, url_at
from warren.spark.options import ReadOptions
from warren.wire.amqp10.codec.performatives import Attach, Flow, Source, Target
from warren.wire.amqp10.codec.values import Described, Symbol, Timestamp, ULong
from warren.wire.amqp10.limits import Limits
from warren.wire.amqp10.link import SENDER_SETTLED
from warren.wire.amqp10.packed import PACKED_FILTER
from warren.wire.amqp10.rows import NotOfStream, StreamRows
from warren.wire.amqp10.transfers import Transfers

T = TypeVar("T")

log = logging.getLogger("warren.spark")

OFFSET_FILTER: Final = Symbol("rabbitmq:stream-offset-spec")
SQL_FILTER: Final = Symbol("amqp:sql-filter")
OFFSET: Final = "x-stream-offset"
CREDIT_FIRST: Final = 500  # messages, before their size is known
CREDIT_MAX: Final = 20_000
WINDOW_BYTES: Final = 8 << 20  # about so much is on its way
PACKED_BYTES: Final = 128 << 10  # of a delivery with many messages
DELIVERY_BYTES_MAX: Final = (512 << 20) + (1 << 20)  # the largest message that a broker takes
ROWS_MAX: Final = 10_000  # of a batch
BATCH_BYTES_MAX: Final = 2 << 20  # larger ones are slower: they leave the caches of the CPU
ELSEWHERE_S: Final = 10.0  # for a node that is not needed
LOOK_S: Final = 1.0  # for which the oldest offset is taken as it was, if as many messages are there
SAMPLED: Final = 256  # messages whose mean size stands for all


class ReadError(Exception):
    """The messages that were asked for cannot be read."""


@dataclass(frozen=True)
class Bounds:
    """Offsets of a stream: of the oldest message, and the one behind the newest."""

    first: int
    end: int


def bounds(leaders: Leaders) -> dict[str, Bounds]:
    """Of the stream, or of each partition of the super stream, by name.

    ReadError: there is no such stream, or the broker cannot be asked.
    """
    options = leaders.options

    async def work(nodes: Nodes) -> dict[str, Bounds]:
        names = [options.stream]
        if options.super_stream:
            names = await nodes.management.partitions(options.super_stream)
        return {each: await _bounds_of(nodes, replace(options, stream=each)) for each in names}

    return _asked(leaders, work)


def _asked(leaders: Leaders, work: Callable[[Nodes], Awaitable[T]]) -> T:
    try:
        return leaders.ask(work)
    except FAULTS as error:
        name = leaders.options.stream or leaders.options.super_stream
        raise ReadError(f"stream '{name}': {error or 'no answer'}") from error


async def _bounds_of(nodes: Nodes, options: ReadOptions) -> Bounds:
    looked = nodes.looks.get(options.stream)
    if looked is not None and monotonic() - looked.at_s < LOOK_S:
        info = await looked.management.queue(options.stream)
        if info["message_count"] == looked.end - looked.first:
            return Bounds(looked.first, looked.end)
    info = await nodes.management.queue(options.stream)
    if info["type"] != "stream":
        raise ReadError(f"option 'stream': queue '{options.stream}' has the type '{info['type']}'")
    connection, management = await nodes.at(options.stream)
    if connection is not nodes.home:
        info = await management.queue(options.stream)
    count = int(str(info["message_count"]))
    # A node without a member refuses the link, and its count is no count.
    consumer = await connection.consumer(_address(options), credit=min(count, 1), filters=_from(0))
    first = _offset(await _first(consumer, options)) if count else 0
    await consumer.close()
    nodes.looks[options.stream] = Look(monotonic(), management, first, first + count)
    return Bounds(first, first + count)


def offsets_at(leaders: Leaders, ms: int, found: Mapping[str, Bounds]) -> dict[str, int]:
    """The first message of each stream that was stored at that time or later, in milliseconds
    since 1970; if there is none, the offset behind the newest. ReadError: no answer."""

    async def work(nodes: Nodes) -> dict[str, int]:
        places: dict[str, int] = {}
        for name, each in found.items():
            connection, _ = await nodes.at(name)
            address = _address(replace(leaders.options, stream=name))
            consumer = await connection.consumer(address, credit=0, filters=_since(ms))
            # What is there comes before the answer to a drain.
            first = await consumer.receive(1, timeout_s=0)
            await consumer.close()
            places[name] = min(each.end, _offset(first[0].message)) if first else each.end
        return places

    return _asked(leaders, work)


def mean_bytes(leaders: Leaders, begin: Mapping[str, int], end: Mapping[str, int]) -> float:
    """Of the bodies of the next messages: of the stream that has most of them, a sample."""
    name = max(end, key=lambda each: end[each] - begin[each])
    last = min(end[name], begin[name] + SAMPLED)
    address = leaders.addresses([name]).get(name, "")
    options = replace(leaders.options, stream=name, filter="", columns=())
    rows = size = 0
    for batch in read(options, begin[name], last, address):
        rows += batch.num_rows
        size += batch.column("body").buffers()[-1].size
    return max(1.0, size / max(1, rows))


async def _first(consumer: Consumer, options: ReadOptions) -> Message:
    return (await consumer.get(timeout_s=options.timeout_s)).message


def read(
    options: ReadOptions, begin: int, end: int, address: str = ""
) -> Iterator[pyarrow.RecordBatch]:
    """The rows from offset `begin` to `end`, exclusively. ReadError: a message is missing.

    `address`: of the node to ask, if it can be reached from here; empty: that of the options.
    """
    if begin < end:
        where = f"stream '{options.stream}', offsets {begin} to {end - 1}"
        yield from drawn(_batches(options, begin, end, address), where)


def drawn(
    batches: AsyncGenerator[pyarrow.RecordBatch, None], where: str
) -> Iterator[pyarrow.RecordBatch]:
    """What the generator gives, in a loop of its own. ReadError says `where`."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:

        async def following() -> pyarrow.RecordBatch | None:
            return await anext(batches, None)

        try:
            while (batch := runner.run(following())) is not None:
                yield batch
        except (*FAULTS, NotOfStream) as error:
            raise ReadError(f"{where}: {error or 'no answer in time'}") from error
        finally:
            runner.run(batches.aclose())


async def connected(options: ReadOptions, address: str) -> Connection:
    """To that node; to that of the options, if it cannot be reached or is not named."""
    limits = Limits(
        max_link_credit=0,
        max_queue_credit=0,
        message_bytes_max=DELIVERY_BYTES_MAX,
        held_bytes_max=DELIVERY_BYTES_MAX,
    )
    if address:
        try:
            at, timeout_s = url_at(options.url, address), min(options.timeout_s, ELSEWHERE_S)
            return await connect(at, timeout_s=timeout_s, follow=None, limits=limits)
        except FAULTS as error:
            name = options.stream or options.queue
            log.warning("'%s': %s cannot be reached: %s", name, address, error)
    return await connect(options.url, timeout_s=options.timeout_s, follow=None, limits=limits)


async def _batches(
    options: ReadOptions, begin: int, end: int, address: str
) -> AsyncGenerator[pyarrow.RecordBatch, None]:
    if options.filter:
        async for batch in _selected(options, begin, end, address):
            yield batch
        return
    async with await connected(options, address) as connection:
        runs = Runs(connection, _terms(options, begin))
        await connection.attach([runs.handle])
        batches, rows = batches_for(options), StreamRows(body_of)
        wanted, is_over = begin, False
        while not is_over:
            rows = StreamRows(body_of, rows)
            while not is_over and rows.count < ROWS_MAX and rows.size < BATCH_BYTES_MAX:
                run = await runs.take(options.timeout_s)
                if runs.is_packed:
                    rows.add_packed(run, end)
                else:
                    rows.add(run, end)
                is_over = rows.is_complete
            if rows.count:
                wanted = _checked(options, wanted, rows.runs)
                yield batches.of(rows)
        if wanted < end:
            _check_gap(options, wanted, end)


async def _selected(
    options: ReadOptions, begin: int, end: int, address: str
) -> AsyncGenerator[pyarrow.RecordBatch, None]:
    """Messages that the broker selects. The task is over at a message from `end` on, or when the
    broker has nothing more; what retention has removed is seen by the message `begin`."""
    async with await connected(options, address) as connection:
        runs = DrainedRuns(connection, _terms(options, begin))
        await connection.attach([runs.handle])
        if not runs.is_filtered:
            raise ReadError(f"stream '{options.stream}': the broker does not apply 'filter'")
        batches, rows, is_over = batches_for(options), StreamRows(body_of), False
        while not is_over:
            rows = StreamRows(body_of, rows)
            while not is_over and rows.count < ROWS_MAX and rows.size < BATCH_BYTES_MAX:
                run = await runs.next()
                if run is not None:
                    rows.add(run, end)
                is_over = run is None or rows.is_complete
            if rows.count:
                yield batches.of(rows)
        first = await connection.consumer(_address(options), credit=1, filters=_from(begin))
        found = _offset(await _first(first, options))
        if found > begin:
            _check_gap(options, begin, found)


def _terms(options: ReadOptions, begin: int) -> Terms:
    filters = _from(begin)
    if options.filter:
        filters[SQL_FILTER] = Described(SQL_FILTER, options.filter)
    else:
        filters[PACKED_FILTER] = Described(PACKED_FILTER, True)
    return Terms(
        name="spark",
        as_receiver=True,
        source=Source(address=_address(options), filter=filters),
        target=Target(),
        snd_settle_mode=SENDER_SETTLED,
    )


class Runs(Quiet):
    """The messages that a link receives, as the connection finds them: in runs."""

    is_packed = False  # each delivery has many messages (`rows.StreamRows.add_packed`)

    def __init__(self, connection: Connection, terms: Terms) -> None:
        self.handle = LinkHandle(connection, terms, self)
        self._connection = connection
        self._arrived: deque[Transfers] = deque()
        self._changed = asyncio.Event()
        self._credit = CREDIT_FIRST

    async def take(self, timeout_s: float) -> Transfers:
        """The next run. TimeoutError; ClientError: the link is over."""
        if not self._arrived:
            async with asyncio.timeout(timeout_s):
                while not self._arrived:
                    self.handle.check()
                    self._changed.clear()
                    await self._changed.wait()
        return self._arrived.popleft()

    def _grant(self) -> None:
        link, session = self.handle.link, self.handle.session
        if link is not None and session is not None:
            session.grant(link, self._credit)
            self._connection.mark()

    # What the link tells

    def on_up(self, attach: Attach) -> None:
        source = attach.source
        self.is_packed = source is not None and PACKED_FILTER in (source.filter or {})
        if self.is_packed:
            self._credit = WINDOW_BYTES // PACKED_BYTES
        self._grant()

    def on_received(self, run: Transfers) -> None:
        self._arrived.append(run)
        self._changed.set()
        link = self.handle.link
        if link is None or link.receiver is None:
            return
        link.receiver.unconfirmed = 0  # Grants are our own, and do not wait for outcomes.
        mean = max(1, len(run.data) // int(run.count))
        self._credit = max(1, min(CREDIT_MAX, WINDOW_BYTES // mean))
        if 2 * link.receiver.credit <= self._credit:
            self._grant()

    def on_down(self, error: ClientError, for_good: bool) -> None:
        self._changed.set()


class DrainedRuns(Runs):
    """The same of a link whose filter leaves out any number of messages: credit is granted with a
    drain, which the broker answers at the end of the stream."""

    is_filtered = False
    _is_at_end = False
    _came = 0  # messages since the last grant
    _granted = 0

    async def next(self) -> Transfers | None:
        """None: the end of the stream is reached. Waits as long as the connection lives: the broker
        may look at millions of messages before it finds one. ClientError: the link is over."""
        while not self._arrived:
            if self._is_at_end:
                return None
            self.handle.check()
            self._changed.clear()
            await self._changed.wait()
        return self._arrived.popleft()

    def _grant(self) -> None:
        link, session = self.handle.link, self.handle.session
        if link is not None and session is not None and link.receiver is not None:
            if link.receiver.credit > 0:
                return  # Not before the drain is answered.
            self._came, self._granted = 0, self._credit
            session.grant(link, self._credit, True)
            self._connection.mark()

    def on_up(self, attach: Attach) -> None:
        source = attach.source
        self.is_filtered = source is not None and SQL_FILTER in (source.filter or {})
        self._grant()

    def on_received(self, run: Transfers) -> None:
        self._came += int(run.count)
        super().on_received(run)

    def on_flow(self, flow: Flow) -> None:
        link = self.handle.link
        if link is not None and link.receiver is not None and link.receiver.credit == 0:
            self._is_at_end = self._is_at_end or self._came < self._granted
            self._changed.set()


def _checked(options: ReadOptions, wanted: int, runs: list[tuple[int, int]]) -> int:
    """The offset that is wanted next. ReadError: an offset is missing, or comes twice."""
    for first, count in runs:
        if first != wanted:
            _check_gap(options, wanted, first)
        wanted = first + count
    return wanted


def _check_gap(options: ReadOptions, wanted: int, found: int) -> None:
    """ReadError, unless messages may be missing."""
    text = (
        f"stream '{options.stream}': offset {wanted} is wanted, but the next message has offset "
        f"{found}: {found - wanted} messages were removed by retention"
    )
    if options.fail_on_data_loss or found < wanted:
        raise ReadError(f"{text}; failOnDataLoss=false goes on with what there is")
    log.warning("%s", text)


def _address(options: ReadOptions) -> str:
    return "/queues/" + quote(options.stream, safe="")


def _from(offset: int) -> dict[object, object]:
    return {OFFSET_FILTER: Described(OFFSET_FILTER, ULong(offset))}


def _since(ms: int) -> dict[object, object]:
    return {OFFSET_FILTER: Described(OFFSET_FILTER, Timestamp(ms))}


def _offset(message: Message) -> int:
    return int(str(message.annotations[OFFSET]))
