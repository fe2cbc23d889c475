"""The two sides of a shovel or link over AMQP 0-9-1, on `warren.client`.

A side is opened, used by one session and closed with its connection. Errors of either protocol
arrive as `ClientError`, `OSError` or `SideFailed`, with a text for the operator.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from msgspec import Struct

from federation.shovel_parameters import SourceEnd, TargetEnd
from federation.uris import NO_NAME, SERVER_NAME, BadUri, Uri, check_options
from warren import client
from warren.client import amqp091
from warren.client.dialling import socket_dial
from warren.client.errors import ClientError, RequestFailed
from warren.client.outcome import Outcome
from warren.client.sockets import Dial
from warren.client.url import parse_url
from warren.wire.amqp091.client import ClientLimits

NOT_FOUND: Final = 404
WINDOW: Final = 8_192  # messages without a confirm; the source's prefetch is the bound that counts
TIMEOUT_S: Final = 10.0
BATCH_MAX: Final = 512  # messages that are acknowledged together

LocalDial = Callable[[bool], Dial]  # to this node's broker; True: as its internal user
AnyDelivery = amqp091.Delivery | client.Delivery
Rewrite = Callable[[AnyDelivery], bytes | None]
OnBlocked = Callable[[str | None], None]


class SideFailed(Exception):
    """A side cannot be used; the text says why."""


FAULTS: Final = (OSError, ClientError, SideFailed, BadUri)  # TimeoutError is an OSError


class Dialler(Struct, frozen=True):
    """Connects to the broker of a URI; `local` leads to the broker of this node."""

    local: LocalDial

    async def connect(
        self, uri: Uri, vhost: str, name: str, on_blocked: OnBlocked | None = None
    ) -> amqp091.Connection:
        heartbeat_s = int(uri.query.get("heartbeat", "0" if uri.is_local else "10"))
        return await amqp091.connect(
            uri.dialled(vhost),
            name=name,
            timeout_s=timeout_of(uri),
            limits=ClientLimits(heartbeat_s=heartbeat_s),
            on_blocked=on_blocked,
            dial=self.local(not uri.user) if uri.is_local else dial_of(uri),
            mechanisms=() if uri.is_local else uri.mechanisms,
        )


def dial_of(uri: Uri) -> Dial:
    """The way to the broker of a URI with a host. BadUri: an option makes no sense."""
    check_options(uri)
    name = uri.query.get(SERVER_NAME)
    tls = tls_of(uri) if uri.tls else None
    return socket_dial(parse_url(uri.dialled("")), tls, "" if name == NO_NAME else name)


def timeout_of(uri: Uri) -> float:
    """`connection_timeout` of the URI, in seconds; it is given in milliseconds."""
    value = uri.query.get("connection_timeout", "")
    return min(600.0, int(value) / 1000) if value.isdecimal() and int(value) else TIMEOUT_S


def tls_of(uri: Uri) -> ssl.SSLContext:
    """RabbitMQ's parameters: cacertfile, certfile, keyfile, verify; and of server_name_indication
    that `disable` verifies no name. The caller sends the name."""
    query = uri.query
    try:
        context = ssl.create_default_context(cafile=query.get("cacertfile"))
        if query.get("verify") == "verify_none":
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if query.get(SERVER_NAME) == NO_NAME:
            context.check_hostname = False
        if "certfile" in query:
            context.load_cert_chain(query["certfile"], query.get("keyfile"))
    except (OSError, ssl.SSLError) as error:
        raise SideFailed(f"TLS options of the URI: {error}") from error
    return context


class Source091:
    """Invariant: `_connection` from `open` to `close`, `_consumer` from `consume`."""

    def __init__(
        self,
        dial: Callable[[], Awaitable[amqp091.Connection]],
        end: SourceEnd,
        settled: bool,
        consumer_tag: str = "",
    ) -> None:
        self._dial = dial
        self._end = end
        self._settled = settled
        self._queue = end.queue
        self._tag = consumer_tag
        self._connection: amqp091.Connection | None = None
        self._management: amqp091.Management | None = None
        self._consumer: amqp091.Consumer | None = None
        self._rest: list[amqp091.Delivery] = []  # came, and not taken yet

    async def open(self) -> int:
        connection = self._connection = await self._dial()
        end = self._end
        management = self._management = await connection.management()
        if end.queue:
            return await declared(management, end.queue, end.queue_arguments, end.predeclared)
        made = await management.declare_queue("", durable=False, exclusive=True)
        self._queue = made.name
        await management.bind(end.exchange, queue=made.name, key=end.exchange_key)
        return made.message_count

    @property
    def management(self) -> amqp091.Management:
        """Declares at the source, after `open`."""
        assert self._management is not None
        return self._management

    async def consume(self, prefetch: int, paused: bool = False) -> None:
        assert self._connection is not None
        self._consumer = await self._connection.consumer(
            self._queue,
            credit=prefetch,
            name=self._tag,
            settled=self._settled,
            arguments=dict(self._end.consumer_arguments),
            paused=paused,
        )

    async def let(self, consumes: bool) -> None:
        """Consume, or stop: what has come by then is still taken."""
        assert self._consumer is not None
        if consumes:
            self._consumer.resume()
        else:
            await self._consumer.pause()

    async def take(self, limit: int) -> list[amqp091.Delivery]:
        assert self._consumer is not None
        if not self._rest:
            self._rest = await self._consumer.get_many()
        taken, self._rest = self._rest[:limit], self._rest[limit:]
        return taken

    async def ready(self) -> int:
        return (await self.management.queue(self._queue)).message_count

    def accept(self, deliveries: Sequence[AnyDelivery]) -> None:
        for each in deliveries:
            each.accept()

    async def watch(self) -> None:
        assert self._connection is not None
        await self._connection.wait_lost()

    async def close(self) -> None:
        await closed(self._connection)


class Target091:
    """Publishes with confirms, or without (`settled`)."""

    def __init__(
        self,
        dial: Callable[[], Awaitable[amqp091.Connection]],
        end: TargetEnd,
        rewrite: Rewrite,
        mandatory: bool,
        settled: bool,
    ) -> None:
        """`rewrite` gives what is published for a delivery; None: it is passed over."""
        self._dial = dial
        self._end = end
        self._rewrite = rewrite
        self._mandatory = mandatory
        self._settled = settled
        self._connection: amqp091.Connection | None = None
        self._publisher: amqp091.Publisher | None = None
        self.bytes = 0

    async def open(self) -> None:
        connection = self._connection = await self._dial()
        end = self._end
        if end.queue:
            management = await connection.management()
            await declared(management, end.queue, end.queue_arguments, end.predeclared)
        self._publisher = await connection.publisher(
            mandatory=self._mandatory, settled=self._settled, window=WINDOW
        )

    async def publish(self, deliveries: Sequence[AnyDelivery]) -> "asyncio.Future[list[Outcome]]":
        """Send the messages; the future has the outcomes of those that are not passed over."""
        publisher = self._publisher
        assert publisher is not None
        await publisher.ready()
        made = [self._rewrite(each) for each in deliveries]
        messages = [each for each in made if each is not None]
        self.bytes += sum(map(len, messages))
        return publisher.send_encoded(messages)

    async def watch(self) -> None:
        assert self._connection is not None
        await self._connection.wait_lost()

    async def close(self) -> None:
        await closed(self._connection)


async def declared(
    management: amqp091.Management, queue: str, arguments: object, predeclared: bool
) -> int:
    """Have the queue, a durable one, unless it must be there; how many messages are ready."""
    try:
        return (await management.queue(queue)).message_count
    except RequestFailed as error:
        if error.status != NOT_FOUND or predeclared:
            raise
    assert isinstance(arguments, dict)
    return (await management.declare_queue(queue, arguments=dict(arguments))).message_count


async def closed(connection: amqp091.Connection | client.Connection | None) -> None:
    """Close it; one that is lost or does not answer is closed all the same."""
    if connection is not None:
        try:
            await connection.close()
        except (ClientError, OSError):
            return  # It is gone.
