"""Where a stream is read: at the node of its leader, if it can be reached.

A node without a member of a stream cannot serve it to consumers, and does not know its offsets. The
broker names the addresses of its nodes as they know each other, so the driver tries each once.
Knows the client, not Spark.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final, TypeVar
from urllib.parse import urlsplit, urlunsplit

from warren.client import ClientError, Connection, connect
from warren.client.management import Management
from warren.client.url import parse_url
from warren.spark.options import ReadOptions

log = logging.getLogger("warren.spark")

T = TypeVar("T")

REACH_S: Final = 2.0  # in which an address must accept a connection
FAULTS: Final = (
    ClientError,
    OSError,
    TimeoutError,
)  # of a broker that does not answer as it should


class Leaders:
    """Of one query: asks the broker, over connections that stay open from one time to the next.

    Spark asks for the newest offset up to a hundred times in a second. Between two times nothing
    runs here, so a connection may have ended by then: what fails is tried once more with new ones.
    """

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self._runner: asyncio.Runner | None = None
        self._nodes: Nodes | None = None

    def __reduce__(self) -> tuple[type["Leaders"], tuple[ReadOptions]]:
        """Tasks get a copy without connections."""
        return Leaders, (self.options,)

    def ask(self, work: Callable[["Nodes"], Awaitable[T]]) -> T:
        """What `work` gives. ClientError, OSError, TimeoutError."""
        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner.run(self._ask(work))

    async def _ask(self, work: Callable[["Nodes"], Awaitable[T]]) -> T:
        if self._nodes is not None:
            try:
                return await work(self._nodes)
            except FAULTS as error:
                log.debug("trying with new connections: %s", error)
                await self._disconnect()
        self._nodes = Nodes(self.options)
        try:
            await self._nodes.open()
            return await work(self._nodes)
        except FAULTS:
            await self._disconnect()
            raise

    async def _disconnect(self) -> None:
        nodes, self._nodes = self._nodes, None
        if nodes is not None:
            await nodes.close()

    def close(self) -> None:
        if self._runner is not None:
            self._runner.run(self._disconnect())
            self._runner.close()
            self._runner = None

    def addresses(self, streams: Iterable[str]) -> dict[str, str]:
        """HOST:PORT by stream; without those whose leader is at the node of `url`, is not known or
        cannot be reached."""
        names = list(streams) if self.options.at_leader else []

        async def work(nodes: Nodes) -> dict[str, str]:
            found = {name: await nodes.address(name) for name in names}
            return {name: address for name, address in found.items() if address}

        try:
            return self.ask(work) if names else {}
        except FAULTS as error:
            log.warning("reading at %s: %s", urlsplit(self.options.url).hostname, error)
            return {}


@dataclass(frozen=True)
class Look:
    """What was found of a stream, when, and by whom."""

    at_s: float
    management: Management
    first: int
    end: int


class Nodes:
    """Connections to the node of `url`, and to leaders; what they told last of each stream."""

    home: Connection
    management: Management

    def __init__(self, options: ReadOptions) -> None:
        self.looks: dict[str, Look] = {}
        self._options = options
        self._reached: dict[str, bool] = {}
        self._open = AsyncExitStack()
        self._elsewhere: dict[str, tuple[Connection, Management]] = {}

    async def open(self, url: str = "") -> None:
        """Connect to that node in place of the one of the options."""
        self.home, self.management = await self._connected(url or self._options.url)

    async def close(self) -> None:
        await self._open.aclose()

    async def at(self, stream: str) -> tuple[Connection, Management]:
        """To the node of the leader; to that of `url`, if it is not known or cannot be reached."""
        address = await self.address(stream)
        if not address:
            return self.home, self.management
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

    async def _connected(self, url: str) -> tuple[Connection, Management]:
        timeout_s = self._options.timeout_s
        connection = await connect(url, timeout_s=timeout_s, follow=None)
        await self._open.enter_async_context(connection)
        return connection, await connection.management()


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
