"""A dynamic shovel while this node runs it: its sessions one after the other, and its status."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import time
from typing import Final

from federation.ends import Dialler, SideFailed, Source, Source091, Target091
from federation.forwarding import Forwarding
from federation.republishing import Rewriting
from federation.shovel_parameters import NO_ACK, ON_CONFIRM, ShovelConfig, TargetEnd
from federation.uris import BadUri, Uri, parse_uri, without_credentials
from warren.client import amqp091
from warren.client.errors import ClientError
from warren.client.outcome import Outcome

log = logging.getLogger("warren.federation")

FAULTS: Final = (OSError, ClientError, SideFailed, BadUri)  # TimeoutError is an OSError
DEFAULT_VHOST: Final = "/"  # of a URI that names none
LOGGED_AGAIN: Final = 50  # of equal failures in a row, one line in so many


@dataclass(slots=True)
class ShovelStatus:
    """What listings show of a shovel."""

    vhost: str
    name: str
    state: str
    reason: str
    since_s: float
    source: str  # URIs without credentials
    target: str
    blocked: str
    forwarded: int
    in_flight: int
    bytes: int
    last_s: float  # when a message was forwarded last; 0: none was
    config: ShovelConfig = field(repr=False)


class Completed(Exception):
    """All that was to be moved has been moved."""


class Shovel:
    """See the module. `run` returns when the shovel is complete; cancel it to stop."""

    def __init__(
        self, config: ShovelConfig, dialler: Dialler, cluster_name: Callable[[], str]
    ) -> None:
        self.config = config
        self._dialler = dialler
        self._cluster_name = cluster_name
        self._core = Forwarding(config.reconnect_s, config.delete_after)
        self._source_uri = self._target_uri = ""
        self._blocked = ""
        self._since_s = time()
        self._last_s = 0.0
        self._bytes = 0
        self._target: Target091 | None = None
        self._failed: asyncio.Future[None] | None = None  # of this session

    def status(self) -> ShovelStatus:
        core = self._core
        now = 0 if self._target is None else self._target.bytes
        return ShovelStatus(
            self.config.vhost,
            self.config.name,
            core.state,
            core.reason,
            self._since_s,
            self._source_uri,
            self._target_uri,
            self._blocked,
            core.forwarded,
            core.in_flight,
            self._bytes + now,
            self._last_s,
            self.config,
        )

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            begun_s = loop.time()
            try:
                await self._session()
            except Completed:
                return
            except FAULTS as error:
                wait_s = self._core.failed(reason_of(error), random.random(), loop.time() - begun_s)
                self._note()
            await asyncio.sleep(wait_s)
            self._core.restarted()
            self._since_s = time()

    def _note(self) -> None:
        """Log the failure; one that repeats itself now and then."""
        self._since_s = time()
        core, config = self._core, self.config
        if core.failures % LOGGED_AGAIN == 1:
            log.warning(
                "shovel '%s' in vhost '%s' failed and is restarted: %s",
                config.name,
                config.vhost,
                core.reason,
            )

    async def _session(self) -> None:
        """Open both sides and forward until one of them fails, or all is done."""
        source, target = self._sides()
        self._target = target
        try:
            ready = await source.open()
            await target.open()
            self._core.declared(ready)
            if self._core.is_complete:
                raise Completed
            await source.consume(self._core.prefetch(self.config.source.prefetch))
            self._core.opened()
            self._since_s = time()
            await self._forward(source, target)
        finally:
            self._bytes += target.bytes
            self._target = None
            self._blocked = ""
            await asyncio.gather(source.close(), target.close())

    async def _forward(self, source: Source, target: Target091) -> None:
        self._failed = asyncio.get_running_loop().create_future()
        work = [
            asyncio.ensure_future(each)
            for each in (self._pump(source, target), _loss(source.lost()), _loss(target.lost()))
        ]
        try:
            await asyncio.wait((*work, self._failed), return_when=asyncio.FIRST_COMPLETED)
            # A consumer or publisher knows better than the connection why it is over.
            for each in (self._failed, *work):
                if each.done():
                    each.result()
        finally:
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)
            self._failed.cancel()

    async def _pump(self, source: Source, target: Target091) -> None:
        core = self._core
        while True:
            deliveries = await source.take()
            count = core.arrived(len(deliveries))
            if count:
                taken = deliveries[:count]
                future = await target.publish(taken)
                future.add_done_callback(partial(self._settled, source, taken))

    def _settled(
        self,
        source: Source,
        taken: "Sequence[amqp091.Delivery]",
        future: "asyncio.Future[list[Outcome]]",
    ) -> None:
        """The target has answered for a batch."""
        if future.cancelled() or self._failed is None or self._failed.done():
            if not future.cancelled():
                future.exception()  # Known: the session is over.
            return
        error = future.exception()
        if error is not None:
            self._fail(error)
            return
        refused = next((each for each in future.result() if not each.is_accepted), None)
        if refused is not None:
            self._fail(SideFailed(f"the target did not take a message: {reason_in(refused)}"))
            return
        source.accept(taken)
        self._core.confirmed(len(taken))
        self._last_s = time()
        if self._core.is_complete:
            self._fail(Completed())

    def _fail(self, error: BaseException) -> None:
        if self._failed is not None and not self._failed.done():
            self._failed.set_exception(error)

    # Sides

    def _sides(self) -> tuple[Source, Target091]:
        config = self.config
        source_text = random.choice(config.source.uris)
        target_text = random.choice(config.target.uris)
        self._source_uri = without_credentials(source_text)
        self._target_uri = without_credentials(target_text)
        source = Source091(
            self._dial(parse_uri(source_text), None),
            config.source,
            config.ack_mode == NO_ACK,
        )
        target = Target091(
            self._dial(parse_uri(target_text), self._told_blocked),
            config.target,
            rewriting(config, self._source_uri, self._target_uri, self._cluster_name()),
            config.ack_mode != ON_CONFIRM,
            time,
        )
        return source, target

    def _dial(
        self, uri: Uri, on_blocked: Callable[[str | None], None] | None
    ) -> Callable[[], Awaitable[amqp091.Connection]]:
        name = f"Shovel {self.config.name}"
        return partial(self._dialler.connect, uri, DEFAULT_VHOST, name, on_blocked)

    def _told_blocked(self, reason: str | None) -> None:
        self._blocked = reason or ""


async def _loss(lost: Awaitable[None]) -> None:
    await lost
    raise SideFailed("the connection is lost")


def reason_in(outcome: Outcome) -> str:
    return str(outcome.error or outcome.kind)


def reason_of(error: BaseException) -> str:
    """One line for status and log."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text[:500]


def rewriting(config: ShovelConfig, source: str, target: str, cluster: str) -> Rewriting:
    """How messages are published, as RabbitMQ's shovels do."""
    end = config.target
    exchange, key = end.exchange, end.exchange_key
    if end.queue:
        exchange, key = "", end.queue
    hop = forward_header(config, source, target, cluster) if end.add_forward_headers else None
    return Rewriting(
        exchange,
        None if key is None else key.encode(),
        bool(end.queue),
        hop,
        end.add_timestamp_header,
        end.properties,
    )


def forward_header(
    config: ShovelConfig, source: str, target: str, cluster: str
) -> dict[str, object]:
    """One entry of `x-shovelled`."""
    found: dict[str, object] = {
        "shovelled-by": cluster,
        "shovel-type": "dynamic",
        "shovel-name": config.name,
        "shovel-vhost": config.vhost,
        "src-uri": source,
        "dest-uri": target,
    }
    end = config.source
    if end.queue:
        found["src-queue"] = end.queue
    else:
        found["src-exchange"] = end.exchange
        found["src-exchange-key"] = end.exchange_key
    return found | _destination(config.target)


def _destination(end: TargetEnd) -> dict[str, object]:
    if end.queue:
        return {"dest-queue": end.queue}
    named = {"dest-exchange": end.exchange, "dest-exchange-key": end.exchange_key}
    return {name: value for name, value in named.items() if value is not None}
