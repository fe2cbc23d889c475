"""Runs the warm standbys of this node, and answers standbys of other clusters.

    service = StandbyService(broker, lambda: links.box, copy_definitions)
    await service.run()        # supervised

Each vhost with a parameter `standby` has a `Replica` on every node, for the queues that the node
leads. When the parameter is deleted, the vhost is promoted: messages are released in their places.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from federation.standby_parameter import StandbyConfig, standby_config, standby_faults
from federation.uris import BadUri, SecretBox
from node.federating.stored_uris import opened
from node.standby.feed import Feed, is_replicated
from node.supervision import supervised
from node.timers import until_next
from queues.definitions.broker_objects import Parameter
from queues.definitions.standby import standby_parameter

if TYPE_CHECKING:
    from node.broker import Broker
    from node.standby.replica import CopyDefinitions, Replica

log = logging.getLogger("warren.federation")

LOOK_S: Final = 0.1
ROWS: Final = "standby-rows"  # question to other nodes
WORST: Final = ("running", "starting", "blocked", "error")
SUMS: Final = ("queues", "messages", "messages_copied", "messages_settled", "bytes_copied")

Row = dict[str, object]


class StandbyService:
    """Invariant: `_replicas` has the standbys that were defined when it looked last."""

    def __init__(
        self, broker: "Broker", box: Callable[[], SecretBox], copy_definitions: "CopyDefinitions"
    ) -> None:
        self._broker = broker
        self._box = box
        self._copy_definitions = copy_definitions
        self._version = -1
        self._replicas: dict[str, tuple[Parameter, Replica, asyncio.Task[None]]] = {}
        self.feed = Feed(broker)
        self.feed.serve(broker.operating.status)
        broker.operating.status.serve(ROWS, self._tell_rows)

    async def run(self) -> None:
        try:
            while True:
                self.look()
                await asyncio.sleep(until_next(LOOK_S, time.monotonic()))
        finally:
            for vhost in list(self._replicas):
                self._end(vhost, is_promoted=False)

    def look(self) -> None:
        """Bring what runs to what is defined."""
        metadata = self._broker.metadata
        if metadata.version == self._version:
            return
        self._version = metadata.version
        wanted = {
            vhost: found
            for vhost in metadata.vhosts
            if (found := standby_parameter(metadata, vhost)) is not None
        }
        for vhost, (parameter, _, _) in list(self._replicas.items()):
            if wanted.get(vhost) != parameter:
                self._end(vhost, is_promoted=vhost not in wanted)
        for vhost, parameter in wanted.items():
            if vhost not in self._replicas:
                self._begin(vhost, parameter)

    def _begin(self, vhost: str, parameter: Parameter) -> None:
        config = self._config(parameter)
        if config is None:
            return
        from node.standby.replica import Replica  # A node without standbys does without it.

        replica = Replica(self._broker, config, self._copy_definitions)
        task = asyncio.create_task(supervised(f"standby of vhost '{vhost}'", replica.run))
        self._replicas[vhost] = (parameter, replica, task)

    def _config(self, parameter: Parameter) -> StandbyConfig | None:
        try:
            value = opened(msgspec.json.decode(parameter.value), self._box())
            faults = standby_faults(parameter.name, value)
        except BadUri as error:
            value, faults = None, [str(error)]
        if faults:
            log.warning(
                "standby '%s' of vhost '%s' is not used: %s",
                parameter.name,
                parameter.vhost,
                "; ".join(faults),
            )
            return None
        assert isinstance(value, dict)
        return standby_config(parameter.vhost, parameter.name, value)

    def _end(self, vhost: str, is_promoted: bool) -> None:
        _, replica, task = self._replicas.pop(vhost)
        task.cancel()
        replica.release(is_promoted)
        if is_promoted and vhost in self._broker.metadata.vhosts:
            log.info("vhost '%s' is no standby any more and serves clients", vhost)

    # What operators see

    def rows(self) -> list[Row]:
        """Of this node."""
        return [replica.row() for _, replica, _ in self._replicas.values()]

    async def all_rows(self) -> list[Row]:
        """One for each standby of the cluster."""
        self.look()
        if not self._replicas:
            return []
        answers = await self._broker.operating.status.ask_others(ROWS)
        rows = [*self.rows(), *(row for parts in answers.values() for row in parts or ())]
        vhosts = self._broker.metadata.vhosts
        return [
            together(
                [row for row in rows if row["vhost"] == vhost],
                sum(map(is_replicated, vhosts[vhost].queues.values())),
            )
            for vhost in self._replicas
        ]

    async def primary_answers(self, vhost: str) -> bool:
        """Whether the primary of the standby serves its standby now, as seen from this node."""
        _, replica, _ = self._replicas[vhost]
        return await replica.primary_answers()

    async def _tell_rows(self, member: int, about: Any) -> AsyncIterator[object]:
        for row in self.rows():
            yield row


def together(rows: Sequence[Row], queue_count: int) -> Row:
    """What the nodes say of one standby, which has so many queues. The recovery point is that of
    the slowest queue."""
    found = dict(max(rows, key=lambda row: WORST.index(str(row["state"]))))
    del found["node"]
    found |= {name: sum(int(str(row[name])) for row in rows) for name in SUMS}
    ages = [row["rpo_seconds"] for row in rows]
    known = [float(str(age)) for age in ages if age is not None]
    found["rpo_seconds"] = max(known) if len(known) == len(ages) else None
    found["synced_at"] = min(int(str(row["synced_at"])) for row in rows)
    absent = queue_count - int(str(found["queues"]))
    if absent > 0:
        found["state"], found["rpo_seconds"] = "error", None
        found["error"] = f"no node leads {absent} of the queues here"
    return found
