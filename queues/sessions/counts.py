"""What a node has counted since it started, for the metrics. Counted per run. Compiled."""

from bisect import bisect_left
from typing import Final, final

from mypy_extensions import i64

# Upper bounds of the buckets of the confirm latency, in seconds.
CONFIRM_BOUNDS_S: Final[tuple[float, ...]] = (
    0.0005,
    0.001,
    0.002,
    0.005,
    0.01,
    0.02,
    0.05,
    0.1,
    0.5,
    1.0,
    5.0,
)

# Upper bounds of the sizes of messages, in bytes; RabbitMQ has the same.
SIZE_BOUNDS: Final[tuple[float, ...]] = (
    100.0,
    1_000.0,
    10_000.0,
    100_000.0,
    1_000_000.0,
    10_000_000.0,
    50_000_000.0,
    100_000_000.0,
)

WINDOW_MS: Final = 5000
EXCHANGES_MAX: Final = 20_000  # that are counted one by one
PAIRS_MAX: Final = 20_000  # of a channel and an exchange, and of an exchange and a queue


@final
class Histogram:
    """Counts by upper bound; one more for what is above the last. Sums what it observed."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts: list[int] = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float, count: int) -> None:
        """`count` times this value."""
        self.counts[bisect_left(self.bounds, value)] += count
        self.total += value * count


@final
class PairTally:
    """Messages by channel and exchange, and by exchange and queue; PAIRS_MAX of each."""

    def __init__(self) -> None:
        self.published: dict[tuple[str, str, str], int] = {}  # channel, vhost, exchange
        self.routed: dict[tuple[str, str, str], int] = {}  # vhost, exchange, queue

    def count(
        self,
        channel: str,
        vhost: str,
        keys: list[bytes],
        firsts: list[int],
        count: int,
        queues: list[list[str]],
    ) -> None:
        """As `ExchangeTally.count`, with the names of the queues. `channel` "": of the API."""
        last = len(keys) - 1
        for k in range(len(keys)):
            run = (count if k == last else firsts[k + 1]) - firsts[k]
            key = keys[k]
            exchange = key[1 : 1 + key[0]].decode(errors="replace")
            if channel:
                add_to(self.published, (channel, vhost, exchange), run)
            for queue in queues[k]:
                add_to(self.routed, (vhost, exchange, queue), run)


def add_to(
    counts: dict[tuple[str, str, str], int], place: tuple[str, str, str], count: int
) -> None:
    known = counts.get(place, -1)
    if known >= 0:
        counts[place] = known + count
    elif len(counts) < PAIRS_MAX:
        counts[place] = count


@final
class ExchangeTally:
    """Messages published into each exchange, and how many copies went to queues from there."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, bytes], list[int]] = {}  # by vhost and name: in, out
        self.pairs: PairTally | None = None  # while a client reads one channel, exchange, queue

    def count(
        self, vhost: str, keys: list[bytes], firsts: list[int], count: int, widths: list[int]
    ) -> None:
        """An event of `count` messages: from `firsts[k]` on they have `keys[k]`, which begins with
        the name of the exchange as a short string, and go to `widths[k]` queues."""
        last = len(keys) - 1
        for k in range(len(keys)):
            end = count if k == last else firsts[k + 1]
            run = end - firsts[k]
            key = keys[k]
            place = (vhost, key[1 : 1 + key[0]])
            row = self._counts.get(place)
            if row is None:
                if len(self._counts) >= EXCHANGES_MAX:
                    continue
                row = [0, 0]
                self._counts[place] = row
            row[0] += run
            row[1] += run * widths[k]

    def of(self, vhost: str, exchange: str) -> tuple[int, int]:
        """So many in, so many out."""
        row = self._counts.get((vhost, exchange.encode()))
        return (0, 0) if row is None else (row[0], row[1])


@final
class Sizes:
    """How large messages are, by SIZE_BOUNDS. Counted per run: each message of one has its mean."""

    def __init__(self) -> None:
        self.counts: list[int] = [0] * (len(SIZE_BOUNDS) + 1)
        self.bytes: i64 = 0

    def observe(self, size: i64, count: i64) -> None:
        """`count` messages, some, have `size` bytes together."""
        self.bytes += size
        mean = size // count
        place: i64 = 0
        bound: i64 = 100
        while place < 6 and mean > bound:
            place += 1
            bound *= 10
        if place == 6 and mean > 50_000_000:
            place = 7 if mean <= 100_000_000 else 8
        self.counts[place] += int(count)


@final
class QuorumCounts:
    """Of what `Counts` has, the part of quorum queues."""

    def __init__(self) -> None:
        self.delivered: i64 = 0
        self.delivered_no_ack: i64 = 0
        self.got: i64 = 0
        self.got_no_ack: i64 = 0
        self.redelivered: i64 = 0
        self.acknowledged: i64 = 0
        self.confirm_seconds = Histogram(CONFIRM_BOUNDS_S)

    def deliver(self, count: i64, redelivered: bool, no_ack: bool) -> None:
        """So many leave for a consumer."""
        if redelivered:
            self.redelivered += count
        if no_ack:
            self.delivered_no_ack += count
        else:
            self.delivered += count

    def get(self, redelivered: bool, no_ack: bool) -> None:
        """One is the answer to basic.get."""
        if redelivered:
            self.redelivered += 1
        if no_ack:
            self.got_no_ack += 1
        else:
            self.got += 1


@final
class Counts:
    """Messages; the names are those of the metrics."""

    def __init__(self) -> None:
        self.received: i64 = 0
        self.received_confirm: i64 = 0  # of these, on channels with confirms
        self.unroutable: i64 = 0  # dropped or returned
        self.unroutable_returned: i64 = 0
        self.confirmed: i64 = 0
        self.delivered: i64 = 0  # to consumers that acknowledge
        self.delivered_no_ack: i64 = 0
        self.got: i64 = 0
        self.got_no_ack: i64 = 0
        self.get_empty: i64 = 0
        self.redelivered: i64 = 0
        self.acknowledged: i64 = 0
        self.dead_lettered: dict[tuple[str, str], int] = {}  # by queue type and reason
        self.dead_lettered_surely: dict[str, int] = {}  # at least once, by reason
        self.dead_letters_confirmed: i64 = 0  # of these
        self.dead_letters_dropped_cycle: i64 = 0  # not sent to a queue where they died before
        self.dead_letters_dropped_hops: i64 = 0  # over limits.dead_letter_hops_max
        self.confirm_seconds = Histogram(CONFIRM_BOUNDS_S)  # from publish to confirm
        self.exchanges: ExchangeTally | None = None  # while a client reads exchanges
        self.quorum = QuorumCounts()  # included above, but for the time to a confirm
        self.sizes = Sizes()  # of messages that some queue got
        self.handed_bytes: i64 = 0  # to queues, once for each of them

    def dead_letter(self, queue_type: str, reason: str, count: int) -> None:
        """So many messages were handed to a dead-letter exchange."""
        key = (queue_type, reason)
        self.dead_lettered[key] = self.dead_lettered.get(key, 0) + count

    def dead_letter_surely(self, reason: str, count: int) -> None:
        """So many messages of quorum queues died, and are kept until their letters are safe."""
        self.dead_lettered_surely[reason] = self.dead_lettered_surely.get(reason, 0) + count


@final
class Capacity:
    """Share of the time in which a queue could have delivered at once.

    Told at each step of the queue whether a consumer waits for messages then; answers for the
    current window of WINDOW_MS and the one before.
    """

    def __init__(self) -> None:
        self._since_ms: i64 = 0  # of the state below; 0: not told yet
        self._able = False
        self._began_ms: i64 = 0  # of this window
        self._able_ms: i64 = 0
        self._span_before_ms: i64 = 0
        self._able_before_ms: i64 = 0

    def observe(self, able: bool, now_ms: i64) -> None:
        """The queue has been stepped; `able`: a consumer has credit to spare."""
        if self._since_ms == 0:
            self._began_ms = now_ms
        elif self._able:
            self._able_ms += now_ms - self._since_ms
        self._since_ms = now_ms
        self._able = able
        if now_ms - self._began_ms >= WINDOW_MS:
            self._span_before_ms = now_ms - self._began_ms
            self._able_before_ms = self._able_ms
            self._began_ms = now_ms
            self._able_ms = 0

    def idle_since_ms(self, now_ms: i64) -> i64:
        """When the queue was stepped last, if that is WINDOW_MS ago; 0: it is not, or never was."""
        return self._since_ms if now_ms - self._since_ms >= WINDOW_MS else 0

    def share(self, now_ms: i64) -> float:
        """Between 0 and 1."""
        if self._since_ms == 0:
            return 0.0
        able_ms = self._able_before_ms + self._able_ms
        if self._able:
            able_ms += now_ms - self._since_ms
        span_ms = self._span_before_ms + now_ms - self._began_ms
        if span_ms <= 0:
            return 1.0 if self._able else 0.0
        return min(1.0, int(able_ms) / int(span_ms))
