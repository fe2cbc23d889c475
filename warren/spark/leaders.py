"""Where a stream is read: at the node of its leader, if it can be reached.

A node without a member of a stream cannot serve it to consumers, and does not know its offsets. The
broker names the addresses of its nodes as they know each other, so the driver tries each once.
Knows the client, not Spark.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Final, Self
from urllib.parse import urlsplit, urlunsplit

from warren.client import ClientError, Connection, connect
from warren.client.management import Management
from warren.client.url import parse_url
from warren.spark.options import ReadOptions

log = logging.getLogger("warren.spark")

REACH_S: Final = 2.0  # in which an address must accept a connection


@dataclass
class Leaders:
    """Of one query. Remembers which addresses can be reached."""

    options: ReadOptions
    reached: dict[str, bool] = field(default_factory=dict)

    def addresses(self, streams: Iterable[str]) -> dict[str, str]:
        """HOST:PORT by stream; without those whose leader is at the node of `url`, is not known or
        cannot be reached."""
        try:
            return asyncio.run(self._addresses(list(streams)))
        except (ClientError, OSError, TimeoutError) as error:
            log.warning("reading at %s: %s", urlsplit(self.options.url).hostname, error)
            return {}

    async def _addresses(self, streams: list[str]) -> dict[str, str]:
        if not streams or not self.options.at_leader:
            return {}
        async with Nodes(self) as nodes:
            found = {name: await nodes.address(name) for name in streams}
        return {name: address for name, address in found.items() if address}


class Nodes:
    """Connections to the node of `url`, and to leaders."""

    home: Connection
    management: Management

    def __init__(self, leaders: Leaders) -> None:
        self._options = leaders.options
        self._reached = leaders.reached
        self._open = AsyncExitStack()
        self._elsewhere: dict[str, Connection] = {}

    async def __aenter__(self) -> Self:
        self.home = await self._connected(self._options.url)
        self.management = await self.home.management()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    async def at(self, stream: str) -> Connection:
        """To the node of the leader; to that of `url`, if it is not known or cannot be reached."""
        address = await self.address(stream)
        if not address:
            return self.home
        if address not in self._elsewhere:
            url = url_at(self._options.url, address)
            self._elsewhere[address] = await self._connected(url)
        return self._elsewhere[address]

    async def address(self, stream: str) -> str:
        """Of the leader; empty: it is at the node of `url`, not known, or cannot be reached."""
        if not self._options.at_leader:
            return ""
        address = address_of(await self.management.topology(stream), self._options.url)
        if address and address not in self._reached:
            self._reached[address] = await _accepts(address)
            if not self._reached[address]:
                log.warning("stream '%s': its leader at %s cannot be reached", stream, address)
        return address if self._reached.get(address) else ""

    async def _connected(self, url: str) -> Connection:
        timeout_s = self._options.timeout_s
        connection = await connect(url, timeout_s=timeout_s, follow=None)
        return await self._open.enter_async_context(connection)


def address_of(topology: Mapping[str, object], url: str) -> str:
    """Of the leader; empty: it is at the node that was asked, or not known."""
    scheme, suggestions = urlsplit(url).scheme, topology.get("suggestions")
    if not isinstance(suggestions, list):
        return ""
    fitting = [str(each) for each in suggestions if urlsplit(str(each)).scheme == scheme]
    return urlsplit(fitting[0]).netloc if fitting else ""


def url_at(url: str, address: str) -> str:
    """The same user and vhost at another node."""
    parts = urlsplit(url)
    login, at, _ = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{login}{at}{address}"))


async def _accepts(address: str) -> bool:
    parts = parse_url(f"amqp://{address}")
    try:
        async with asyncio.timeout(REACH_S):
            _, writer = await asyncio.open_connection(parts.host, parts.port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True
