"""The whole cluster for the API of one node: what only another node knows is asked of it.

Takes the view of this node and its `Operating`; gives rows and counts of the other nodes, and
answers the same questions of theirs. All nodes are asked at the same time, with a time limit
(`node.cluster.services.status_channel`); one that does not answer is left out, or listed as not
running: it
never makes a request fail, or wait longer than that. Definitions are read locally: every node
has all of them. A node in no cluster asks no other node, and so waits for nothing.

Live counts of queues travel as rows of values, in the order of LIVE_FIELDS behind vhost and name,
and behind these the details of their rates, which the node that leads them has.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from node.cluster.services.cluster_services import Operating
from node.cluster.services.status_channel import NoAnswer, Unanswerable
from node.management.rows.client_rows import ClientRows, session_row
from node.management.rows.cluster_clients import ClusterClients
from node.management.rows.columns import SLICE
from node.management.rows.node_rows import alarms_of
from node.management.rows.node_stats import (
    ExchangeStats,
    exchange_stats,
    node_stats_row,
    overview_counts,
    watched_queue,
)
from node.management.rows.pairs import Pairs
from node.management.rows.queue_rows import NAMED_MAX, queue_values
from node.management.rows.rates import NO_RANGES, QUEUE, VHOST, Ranges, summed
from node.management.rows.sampling import Rates
from node.management.rows.view import BrokerView, QueueView

Row = dict[str, Any]
Key = tuple[str, str]  # vhost and name of a queue

PART: Final = 250  # rows in one part of an answer
VALUES_PART: Final = 1000  # values of a column, in the same
NODE: Final = "node"
MEMORY: Final = "memory"
OVERVIEW: Final = "overview"
QUEUES: Final = "queues"
QUEUES_NAMED: Final = "queues_named"
QUEUE_VALUES: Final = "queue_values"
VHOSTS: Final = "vhosts"
EXCHANGES: Final = "exchange_stats"
RESET: Final = "reset_rates"
SESSIONS: Final = "sessions"
CLOSE: Final = "close_connection"
CLOSE_OF: Final = "close_connections_of"

LIVE_FIELDS: Final = (
    "state", "reason", "owner", "messages_ready", "messages_unacknowledged", "message_bytes_ready",
    "message_bytes_unacknowledged", "messages_ram", "messages_paged_out", "message_bytes_ram",
    "message_bytes_paged_out", "memory_bytes", "consumers", "consumer_capacity", "published",
    "delivered", "delivered_no_ack", "got", "got_no_ack", "redelivered", "acknowledged",
    "messages_delayed", "messages_pending_dead_letters", "counts_known",
    "messages_persistent", "message_bytes_persistent",
)  # fmt: skip
LATE_FIELDS: Final = (
    "rates",
    "head_timestamp",
    "idle_since_ms",
    "sync_messages",
)  # behind those; the head of one queue alone. New ones go to the end, for nodes of other versions

CloseOf = Callable[[str, str, str], int]  # vhost, user, reason


class ClusterView:
    """See the module."""

    def __init__(
        self,
        view: BrokerView,
        operating: Operating,
        close_of: CloseOf,
        rates: Rates | None = None,
    ) -> None:
        self.operating = operating
        self._view = view
        self._rates = rates or Rates()
        self._close_of = close_of
        self._status = operating.status
        self.clients = ClusterClients(operating.status, ClientRows(view, self._rates))
        self.pairs = Pairs(view.clients, self._rates, operating.status)
        for question, answer in (
            (NODE, self._node_asked),
            (MEMORY, self._memory_asked),
            (OVERVIEW, self._overview_asked),
            (QUEUES, self._queues_asked),
            (QUEUES_NAMED, self._queues_named),
            (QUEUE_VALUES, self._queue_values_asked),
            (VHOSTS, self._vhosts_asked),
            (EXCHANGES, self._exchanges_asked),
            (RESET, self._reset_asked),
            (SESSIONS, self._sessions_asked),
            (CLOSE, self._close_asked),
            (CLOSE_OF, self._close_of_asked),
        ):
            self._status.serve(question, answer)

    # Nodes

    async def nodes(self, ranges: Ranges = NO_RANGES) -> list[Row]:
        """All nodes, by name."""
        found = await self._status.ask_others(NODE, dict(ranges))
        rows = [self._own_row(ranges)]
        for member in self.operating.cluster_snapshot.members():
            if member.id != self.operating.cluster_snapshot.here:
                parts = found.get(member.id)
                rows.append(parts[0] if parts else self._silent_row(member.id))
        with_partitions(rows)
        return sorted(rows, key=lambda row: str(row["name"]))

    async def node(self, name: str, ranges: Ranges = NO_RANGES) -> Row | None:
        """One of them, as it says itself; None: there is none of that name."""
        if name != self._view.node().name and not self.operating.cluster_snapshot.member_named(
            name
        ):
            return None
        return next(row for row in await self.nodes(ranges) if row["name"] == name)

    def _own_row(self, ranges: Ranges) -> Row:
        row = node_stats_row(self._view, self._rates, ranges)
        return {**row, **self._member_columns(self._here)}

    @property
    def _here(self) -> int:
        return self.operating.cluster_snapshot.here

    def _member_columns(self, member: int) -> Row:
        cluster_snapshot = self.operating.cluster_snapshot
        found = next((each for each in cluster_snapshot.members() if each.id == member), None)
        away = [
            each.name
            for each in cluster_snapshot.members()
            if not cluster_snapshot.is_running(each.id)
        ]
        row: Row = {"partitions": [], "unreachable": away if member == self._here else []}
        if found is not None:
            row["member_id"] = found.id
            row["host_id"] = found.host_id
            row["zone"] = found.zone
            row["tags"] = dict(found.tags)
            row["being_drained"] = found.draining
        return row

    def _silent_row(self, member: int) -> Row:
        """A node that does not answer."""
        name = self.operating.cluster_snapshot.name_of(member)
        row: Row = {"name": name, "type": "disc", "running": False, "being_drained": False}
        return {**row, "listeners": [], "alarm_details": [], **self._member_columns(member)}

    async def _node_asked(self, asker: int, about: Any) -> AsyncIterator[object]:
        yield self._own_row(about or NO_RANGES)

    async def memory(self, name: str) -> Row | None:
        """Of another node; None: there is none of that name, or it does not answer."""
        member = self.operating.cluster_snapshot.member_named(name)
        if member is None:
            return None
        try:
            found: Row = (await self._status.ask(member.id, MEMORY))[0]
        except NoAnswer:
            return None
        return found

    async def _memory_asked(self, asker: int, about: Any) -> AsyncIterator[object]:
        yield self._view.memory()

    def alarms(self) -> list[dict[str, str]]:
        """Those of all nodes, as health checks show them."""
        rows = alarms_of(self._view.node())
        for member, (memory, disk) in self.operating.alarms.by_member().items():
            name = self.operating.cluster_snapshot.name_of(member)
            rows += [
                {"node": name, "resource": resource}
                for resource, is_on in (("memory", memory), ("disk", disk))
                if is_on
            ]
        return rows

    # Totals

    async def overviews(self, ranges: Ranges = NO_RANGES) -> list[Row]:
        """The counts of the other nodes, as `overview_counts` gives them."""
        found = await self._status.ask_others(OVERVIEW, dict(ranges))
        return [parts[0] for parts in found.values() if parts]

    async def _overview_asked(self, asker: int, about: Any) -> AsyncIterator[object]:
        yield overview_counts(self._view, self._rates, about or NO_RANGES)

    async def reset_rates(self) -> None:
        """All other nodes forget their samples."""
        await self._status.ask_others(RESET)

    async def _reset_asked(self, asker: int, about: Any) -> AsyncIterator[object]:
        self._rates.reset()
        yield True

    async def vhosts(self, ranges: Ranges = NO_RANGES) -> Mapping[str, Mapping[str, Sequence[Any]]]:
        """By vhost and node: messages ready, unacknowledged, whether it runs, details, counts."""
        found: dict[str, dict[str, Sequence[Any]]] = {}
        for member, parts in (await self._status.ask_others(VHOSTS, dict(ranges))).items():
            for name, *counts in parts or ():
                node = self.operating.cluster_snapshot.name_of(member)
                found.setdefault(name, {})[node] = counts
        return found

    async def _vhosts_asked(self, asker: int, about: Any) -> AsyncIterator[object]:
        for each in self._view.vhosts():
            ready, held = each.messages_ready, each.messages_unacknowledged
            details = self._rates.of(VHOST, each.name, about or NO_RANGES)
            yield [each.name, ready, held, each.running, details, list(each.stats)]

    # Exchanges

    async def exchange_stats(
        self, keys: Sequence[Key], ranges: Ranges = NO_RANGES
    ) -> Mapping[Key, ExchangeStats]:
        """What all nodes count of these exchanges, together."""
        counts = [exchange_stats(self._rates, key, ranges) for key in keys]
        found = await self._status.ask_others(EXCHANGES, [list(keys), dict(ranges)])
        for parts in found.values():
            theirs = [row for part in parts or () for row in part]
            if len(theirs) == len(keys):
                pairs = zip(counts, theirs, strict=True)
                counts = [added(mine, their) for mine, their in pairs]
        return dict(zip(keys, counts, strict=True))

    async def _exchanges_asked(self, asker: int, about: Any) -> AsyncIterator[object]:
        keys, ranges = about
        for start in range(0, len(keys), PART):
            part = keys[start : start + PART]
            yield [exchange_stats(self._rates, (vhost, name), ranges) for vhost, name in part]

    # Queues

    async def live_queues(
        self, keys: Sequence[Key], vhosts: Sequence[str], ranges: Ranges | None = NO_RANGES
    ) -> Mapping[Key, QueueView]:
        """Those of the queues that are led on other nodes, with their counts. `vhosts` are those of
        the keys; of many keys, all queues there are asked for. `ranges` None: without rates."""
        wanted = None if ranges is None else dict(ranges)
        if len(keys) > NAMED_MAX:
            asked = dict(await self._status.ask_others(QUEUES, [list(vhosts), wanted]))
        else:
            asked = await self._ask_leaders(keys, wanted)
        found: dict[Key, QueueView] = {}
        for parts in asked.values():
            for part in parts or ():
                for row in part:
                    view = self._with_counts(row)
                    if view is not None:
                        found[view.vhost, view.name] = view
                await asyncio.sleep(0)
        return found

    async def _ask_leaders(
        self, keys: Sequence[Key], wanted: dict[str, Sequence[int]] | None
    ) -> dict[int, list[Any] | None]:
        """Each node for the queues that it leads."""
        by_leader: dict[int, list[Key]] = {}
        for key in keys:
            leader = self.operating.leader_of(*key)
            if leader not in (0, self._here):
                by_leader.setdefault(leader, []).append(key)
        answers = await asyncio.gather(
            *(
                self._status.ask(leader, QUEUES_NAMED, [some, wanted])
                for leader, some in by_leader.items()
            ),
            return_exceptions=True,
        )
        found: dict[int, list[Any] | None] = {}
        for leader, answer in zip(by_leader, answers, strict=True):
            if isinstance(answer, BaseException) and not isinstance(answer, NoAnswer):
                raise answer
            found[leader] = None if isinstance(answer, BaseException) else answer
        return found

    async def queue_values(self, vhosts: Sequence[str], sort: str) -> Mapping[Key, object]:
        """A column of the queues there that are led on other nodes, to sort by."""
        answers = await self._status.ask_others(QUEUE_VALUES, [list(vhosts), sort])
        found: dict[Key, object] = {}
        for parts in answers.values():
            for vhost, names, values in parts or ():
                found.update(zip(((vhost, name) for name in names), values, strict=True))
                await asyncio.sleep(0)
        return found

    async def _queue_values_asked(self, asker: int, about: Any) -> AsyncIterator[object]:
        vhosts, sort = about
        value = queue_values(self._view, self._rates, sort)
        for vhost in vhosts:
            names = self._view.queues_here(vhost)
            for start in range(0, len(names), VALUES_PART):
                values: list[object] = []
                some = names[start : start + VALUES_PART]
                for at in range(0, len(some), SLICE):
                    values += [value((vhost, name)) for name in some[at : at + SLICE]]
                    await asyncio.sleep(0)
                yield [vhost, list(some), values]

    async def live_queue(
        self, vhost: str, name: str, ranges: Ranges = NO_RANGES
    ) -> QueueView | None:
        """One queue as its leader sees it, or as this node does."""
        found = await self.live_queues([(vhost, name)], [vhost], ranges)
        key = (vhost, name)
        return found.get(key) or watched_queue(self._view, self._rates, key, ranges)

    def _with_counts(self, row: Sequence[Any]) -> QueueView | None:
        vhost, name, *counts = row
        view = self._view.queue(vhost, name)
        if view is None:
            return None
        return replace(view, **dict(zip((*LIVE_FIELDS, *LATE_FIELDS), counts, strict=False)))

    async def _queues_asked(self, asker: int, about: Any) -> AsyncIterator[object]:
        vhosts, ranges = about
        for vhost in vhosts:
            names = self._view.queues_here(vhost)
            for start in range(0, len(names), PART):
                part = [(vhost, name) for name in names[start : start + PART]]
                yield self._live_rows(part, ranges)

    async def _queues_named(self, asker: int, about: Any) -> AsyncIterator[object]:
        keys, ranges = about
        for start in range(0, len(keys), PART):
            part = [(vhost, name) for vhost, name in keys[start : start + PART]]
            yield self._live_rows(part, ranges)

    def _live_rows(self, keys: Sequence[Key], ranges: Ranges | None) -> list[list[object]]:
        found: list[list[object]] = []
        for key in keys:
            queue = self._view.queue(*key)
            if queue is not None:
                rates = () if ranges is None else self._rates.of(QUEUE, key, ranges)
                head = self._view.head_timestamp(*key) if len(keys) == 1 else None
                idle = self._rates.idle_since_ms(QUEUE, key) or queue.idle_since_ms
                found.append([*live_row(queue), rates, head, idle, queue.sync_messages])
        return found

    # Connections

    async def sessions(self, name: str) -> list[Row]:
        return await self._first(SESSIONS, name) or []

    async def close_connection(self, name: str, reason: str) -> bool:
        """Close one of another node; whether there was one."""
        return bool(await self._first(CLOSE, [name, reason]))

    async def close_connections_of(self, user: str, reason: str) -> None:
        """Close those that the user has on other nodes."""
        await self._status.ask_others(CLOSE_OF, [user, reason])

    async def _first(self, question: str, about: object) -> Any:
        """What the one node says that knows of it."""
        found = await self._status.ask_others(question, about)
        return next((parts[0] for parts in found.values() if parts and parts[0]), None)

    async def _sessions_asked(self, asker: int, about: Any) -> AsyncIterator[object]:
        yield [session_row(each) for each in self._view.sessions(about)]

    async def _close_asked(self, asker: int, about: Any) -> AsyncIterator[object]:
        name, reason = about
        yield self._view.close_connection(name, reason)

    async def _close_of_asked(self, asker: int, about: Any) -> AsyncIterator[object]:
        user, reason = about
        if not user:
            raise Unanswerable("of which user")
        yield self._close_of("", user, reason)


def added(mine: ExchangeStats, their: Sequence[Any]) -> ExchangeStats:
    """What two nodes count of one exchange."""
    counts = [one + other for one, other in zip(mine[0], their[0], strict=True)]
    details = [summed(pair) for pair in zip(mine[1], their[1], strict=True)]
    return counts, details


def live_row(queue: QueueView) -> list[object]:
    return [queue.vhost, queue.name, *(getattr(queue, name) for name in LIVE_FIELDS)]


def with_partitions(rows: Sequence[Row]) -> None:
    """Fill in which running nodes each of them cannot reach."""
    running = {row["name"] for row in rows if row["running"]}
    for row in rows:
        away = row.pop("unreachable", ())
        row["partitions"] = sorted(name for name in away if name in running)
