"""A cluster of local processes as the target of a chaos run, and what it says of its queues."""

import asyncio
import http.client
from collections.abc import Iterable
from urllib.parse import quote

from warren.testing.cluster import ClusterOfNodes
from warren.testing.node import NodeFailed


class LocalTarget:
    """Keeps `warren.testing.chaos.faults.Target`."""

    def __init__(self, cluster: ClusterOfNodes) -> None:
        self._cluster = cluster

    @property
    def count(self) -> int:
        return len(self._cluster)

    def name(self, number: int) -> str:
        return self._cluster.node(number).name

    def kill9(self, numbers: Iterable[int]) -> None:
        self._cluster.kill9(numbers)

    def stop(self, numbers: Iterable[int]) -> None:
        self._cluster.stop(numbers)

    def start(self, numbers: Iterable[int]) -> None:
        self._cluster.start(numbers)

    def pause(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._cluster.node(number).pause()

    def resume(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._cluster.node(number).resume()

    def wipe(self, number: int) -> None:
        self._cluster.node(number).wipe()

    def toxic(self, source: int, target: int, kind: str, /, **attributes: int) -> None:
        self._cluster.links.toxic(source, target, kind, **attributes)

    def cut(self, one: int, two: int) -> None:
        self._cluster.links.cut(one, two)

    def client_toxic(self, number: int, kind: str, /, **attributes: int) -> None:
        self._cluster.client_links.toxic(number, kind, **attributes)

    def client_cut(self, number: int) -> None:
        self._cluster.client_links.cut(number)

    def heal_links(self) -> None:
        self._cluster.links.heal()
        self._cluster.client_links.heal()

    async def depth(self, queue: str) -> int | None:
        """How many messages a queue of the vhost / holds, as the first node says that can."""
        return await asyncio.to_thread(self._depth, queue)

    def _depth(self, queue: str) -> int | None:
        for node in self._cluster.nodes:
            if not node.is_running() or node.is_paused:
                continue
            try:
                found = node.api("GET", f"/api/queues/%2F/{quote(queue, safe='')}")
            except (OSError, http.client.HTTPException, NodeFailed):
                continue
            if isinstance(found, dict) and isinstance(found.get("messages"), int):
                return int(found["messages"])
        return None
