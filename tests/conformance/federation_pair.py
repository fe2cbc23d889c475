"""Brokers with queues, exchanges and upstreams, for tests of federation."""

from typing import Any, Protocol
from urllib.parse import quote

import pika

from tests.waiting import eventually
from warren.testing.http_api import HttpApi


class Broker(Protocol):
    """A Warren node, or RabbitMQ."""

    @property
    def url(self) -> str: ...
    @property
    def management_url(self) -> str: ...


class Cluster:
    """A broker as a side of federation."""

    def __init__(self, node: Broker) -> None:
        self.node: Any = node
        self.url = node.url
        self.api = HttpApi(node.management_url)
        self._connections: list[Any] = []

    def channel(self) -> Any:
        connection = pika.BlockingConnection(pika.URLParameters(self.url))
        self._connections.append(connection)
        return connection.channel()

    def close(self) -> None:
        for each in self._connections:
            if each.is_open:
                each.close()
        self._connections = []

    def upstream(self, name: str, url: str, **more: object) -> None:
        value = {"uri": url, **{key.replace("_", "-"): each for key, each in more.items()}}
        self.api.put(f"/parameters/federation-upstream/%2F/{name}", {"value": value})

    def federate(self, pattern: str, apply_to: str, **definition: object) -> None:
        given = definition or {"federation-upstream-set": "all"}
        body = {"pattern": pattern, "apply-to": apply_to, "definition": given}
        self.api.put(f"/policies/%2F/{quote(apply_to + pattern, safe='')}", body)

    def bound(self, queue: str, exchange: str, key: str, **arguments: object) -> None:
        channel = self.channel()
        channel.exchange_declare(exchange, "topic", durable=True)
        named = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
        channel.queue_declare(queue, durable=True, arguments=named)
        channel.queue_bind(queue, exchange, key)

    def publish(
        self, exchange: str, key: str, count: int = 1, first: int = 0, **properties: Any
    ) -> None:
        """Publish numbers in one transaction: a link gets them all at once, not as fast as they are
        confirmed one by one."""
        channel = self.channel()
        channel.tx_select()
        for number in range(first, first + count):
            made = pika.BasicProperties(delivery_mode=2, **properties)
            channel.basic_publish(exchange, key, b"%d" % number, made)
        channel.tx_commit()

    def depth(self, queue: str) -> int:
        """Messages ready in a queue."""
        return int(self.channel().queue_declare(queue, passive=True).method.message_count)

    def got(self, queue: str) -> list[tuple[Any, Any, bytes]]:
        """All messages that are ready."""
        channel = self.channel()
        found: list[tuple[Any, Any, bytes]] = []
        while True:
            one = channel.basic_get(queue, auto_ack=True)
            if one[0] is None:
                return found
            found.append(one)

    def links(self) -> list[dict[str, Any]]:
        return list(self.api.get("/federation-links"))

    def await_links(self, count: int = 1) -> list[dict[str, Any]]:
        """All links, once so many run."""

        def running() -> list[dict[str, Any]]:
            found = self.links()
            return found if [each["status"] for each in found] == ["running"] * count else []

        return eventually(running, self.links)
