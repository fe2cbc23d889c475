"""Who publishes into which exchange, and from there to which queue: `publishes`, `incoming` and
`outgoing` of one channel, queue or exchange, with rates, of the whole cluster.

Nothing of it is counted before a client looks at one of these, nor a minute after the last look;
so counts begin at 0 (0047). Each node counts what is published on it: the question `pairs` [kind,
chosen, ranges] is answered by rows [pair, count, detail, channel_details or nil] in parts of PART.
Of a publish that goes to more than 64 queues, the first 64 are counted.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, TypeAlias

from node.cluster.services.status_channel import StatusChannel
from node.management.rows.client_columns import channel_details
from node.management.rows.client_view import ClientsView, channel_key
from node.management.rows.rates import (
    NO_RANGES,
    PUBLISHED,
    ROUTED,
    Measured,
    Ranges,
    Row,
    put_detail,
    summed,
)
from node.management.rows.sampling import Pair, Rates

PAIRS: Final = "pairs"
PART: Final = 250

Chosen: TypeAlias = Sequence[str | None]  # parts of a pair; None: any
Counted: TypeAlias = tuple[Pair, int, Measured, Row | None]


class Pairs:
    """Of this node, or of the cluster where it is a member of one."""

    def __init__(self, clients: ClientsView, rates: Rates, status: StatusChannel | None) -> None:
        self._clients = clients
        self._rates = rates
        self._status = status
        if status is not None:
            status.serve(PAIRS, self._asked)

    async def of_channel(self, channel: str, ranges: Ranges) -> list[Row]:
        """`publishes`: into which exchanges."""
        return [
            {"stats": stats, "exchange": {"name": pair[2], "vhost": pair[1]}}
            for pair, stats, _ in await self._found(PUBLISHED, (channel, None, None), ranges)
        ]

    async def into_queue(self, vhost: str, queue: str, ranges: Ranges) -> list[Row]:
        """`incoming` of a queue: from which exchanges."""
        return [
            {"stats": stats, "exchange": {"name": pair[1], "vhost": vhost}}
            for pair, stats, _ in await self._found(ROUTED, (vhost, None, queue), ranges)
        ]

    async def into_exchange(self, vhost: str, exchange: str, ranges: Ranges) -> list[Row]:
        """`incoming` of an exchange: from which channels."""
        return [
            {"stats": stats, "channel_details": channel}
            for _, stats, channel in await self._found(PUBLISHED, (None, vhost, exchange), ranges)
            if channel is not None
        ]

    async def out_of_exchange(self, vhost: str, exchange: str, ranges: Ranges) -> list[Row]:
        """`outgoing`: to which queues."""
        return [
            {"stats": stats, "queue": {"name": pair[2], "vhost": vhost}}
            for pair, stats, _ in await self._found(ROUTED, (vhost, exchange, None), ranges)
        ]

    async def _found(
        self, kind: str, chosen: Chosen, ranges: Ranges
    ) -> list[tuple[Pair, Row, Row | None]]:
        """Of all nodes together, in the order of their names."""
        known: dict[Pair, Counted] = {}
        for each in await self._everywhere(kind, chosen, ranges):
            before = known.get(each[0])
            known[each[0]] = each if before is None else together(before, each)
        return [
            (pair, stats_of(count, detail), channel)
            for pair, count, detail, channel in sorted(known.values(), key=lambda each: each[0])
        ]

    async def _everywhere(self, kind: str, chosen: Chosen, ranges: Ranges) -> list[Counted]:
        found = self._here(kind, chosen, ranges)
        if self._status is not None:
            about = [kind, list(chosen), dict(ranges)]
            for parts in (await self._status.ask_others(PAIRS, about)).values():
                for part in parts or ():
                    found += [(tuple(pair), *rest) for pair, *rest in part]
        return found

    def _here(self, kind: str, chosen: Chosen, ranges: Ranges) -> list[Counted]:
        rows = self._rates.pairs(kind, chosen, ranges)
        return [(*row, self._channel(row[0][0]) if kind == PUBLISHED else None) for row in rows]

    def _channel(self, name: str) -> Row | None:
        """What is shown of a channel of this node."""
        key = channel_key(name)
        found = None if key is None else self._clients.channel(key)
        return None if found is None else channel_details(found.peer)

    async def _asked(self, asker: int, about: Any) -> AsyncIterator[object]:
        kind, chosen, ranges = about
        rows = self._here(kind, chosen, ranges or NO_RANGES)
        for start in range(0, len(rows), PART):
            yield rows[start : start + PART]


def together(one: Counted, other: Counted) -> Counted:
    """The same pair, counted by two nodes."""
    return one[0], one[1] + other[1], summed([one[2], other[2]]), one[3] or other[3]


def stats_of(count: int, detail: Measured) -> Row:
    stats: Row = {"publish": count}
    put_detail(stats, "publish", detail)
    return stats
