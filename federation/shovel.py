"""A dynamic shovel while this node runs it: its sessions one after the other, and its status."""

import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from time import time
from typing import Final

from federation.converting import Annotating, annotated, as_amqp091, as_amqp10
from federation.ends import (
    AnyDelivery,
    Dialler,
    OnBlocked,
    SideFailed,
    Source091,
    Target091,
)
from federation.ends_amqp10 import Source10, Target10, connect
from federation.forwarding import Forwarding
from federation.marking import ASK_FOR_IDS
from federation.republishing import Rewriting, republished
from federation.running import Facts, OnState, Runner
from federation.shovel_parameters import (
    AMQP_10,
    LOCAL,
    NO_ACK,
    ON_CONFIRM,
    ShovelConfig,
    TargetEnd,
)
from federation.uris import Uri, parse_uri, without_credentials
from warren import client
from warren.client import amqp091
from warren.wire.amqp10.errors import ProtocolError as Error10
from warren.wire.errors import ProtocolError as Error091

DEFAULT_VHOST: Final = "/"  # of a URI that names none


@dataclass(slots=True)
class ShovelStatus:
    """What listings show of a shovel."""

    vhost: str
    name: str
    facts: Facts
    source: str  # URIs without credentials
    target: str
    config: ShovelConfig = field(repr=False)


class Shovel:
    """See the module. `run` returns when the shovel is complete; cancel it to stop."""

    def __init__(
        self,
        config: ShovelConfig,
        dialler: Dialler,
        cluster_name: Callable[[], str],
        on_state: OnState,
    ) -> None:
        self.config = config
        self._dialler = dialler
        self._cluster_name = cluster_name
        self._source_uri = self._target_uri = ""
        self._runner = Runner(
            f"shovel '{config.name}' in vhost '{config.vhost}'",
            Forwarding(config.reconnect_s, config.delete_after),
            config.source.prefetch,
            self._sides,
            config.rates,
            on_state,
        )
        self.run = self._runner.run
        self.pause = self._runner.pause

    def status(self) -> ShovelStatus:
        return ShovelStatus(
            self.config.vhost,
            self.config.name,
            self._runner.facts(),
            self._source_uri,
            self._target_uri,
            self.config,
        )

    def _sides(self, on_blocked: OnBlocked) -> tuple[Source091 | Source10, Target091 | Target10]:
        config = self.config
        source_text = random.choice(config.source.uris)
        target_text = random.choice(config.target.uris)
        self._source_uri = without_credentials(source_text)
        self._target_uri = without_credentials(target_text)
        source = self._source(self._uri(source_text, config.source.protocol))
        return source, self._target(self._uri(target_text, config.target.protocol), on_blocked)

    def _source(self, uri: Uri) -> Source091 | Source10:
        end, settled = self.config.source, self.config.ack_mode == NO_ACK
        if end.protocol == AMQP_10:
            return Source10(self._dial10(uri, end.prefetch), end, settled)
        if self.config.marks_ids:
            end = replace(end, consumer_arguments={**end.consumer_arguments, **ASK_FOR_IDS})
        return Source091(self._dial(uri, None), end, settled)

    def _target(self, uri: Uri, on_blocked: OnBlocked) -> Target091 | Target10:
        config = self.config
        end, settled = config.target, config.ack_mode != ON_CONFIRM
        if end.protocol == AMQP_10:
            noted = annotating(config, self._cluster_name())
            return Target10(self._dial10(uri), end, partial(to_10, noted), settled)
        how = rewriting(config, self._source_uri, self._target_uri, self._cluster_name())
        return Target091(
            self._dial(uri, on_blocked), end, partial(to_091, how), how.mandatory, settled
        )

    def _uri(self, text: str, protocol: str) -> Uri:
        uri = parse_uri(text)
        return replace(uri, host="") if protocol == LOCAL else uri

    def _dial(
        self, uri: Uri, on_blocked: OnBlocked | None
    ) -> Callable[[], Awaitable[amqp091.Connection]]:
        return partial(self._dialler.connect, uri, DEFAULT_VHOST, self._name, on_blocked)

    def _dial10(self, uri: Uri, prefetch: int = 0) -> Callable[[], Awaitable[client.Connection]]:
        return partial(connect, uri, DEFAULT_VHOST, self._name, self._dialler.local, prefetch)

    @property
    def _name(self) -> str:
        return f"Shovel {self.config.name}"


def to_091(how: Rewriting, delivery: AnyDelivery) -> bytes:
    """A delivery of either protocol as basic.publish."""
    if isinstance(delivery, amqp091.Delivery):
        return republished(delivery.content, how, int(time()))
    with malformed():
        return as_amqp091(delivery.payload, how, int(time()))


def to_10(how: Annotating, delivery: AnyDelivery) -> bytes:
    """A delivery of either protocol as a message of AMQP 1.0."""
    now_ms = int(time() * 1000)
    with malformed():
        if isinstance(delivery, amqp091.Delivery):
            return as_amqp10(delivery.content, how, now_ms)
        return annotated(delivery.payload, how, now_ms)


@contextmanager
def malformed() -> Iterator[None]:
    """SideFailed in place of errors of a message that cannot be decoded."""
    try:
        yield
    except (Error091, Error10) as error:
        raise SideFailed(f"a message of the source cannot be converted: {error}") from error


def annotating(config: ShovelConfig, cluster: str) -> Annotating:
    """What is noted on messages of AMQP 1.0, as RabbitMQ's shovels do."""
    end = config.target
    hop = {
        "x-opt-shovelled-by": cluster,
        "x-opt-shovel-type": "dynamic",
        "x-opt-shovel-name": config.name,
    }
    scope = scope_of(config) if config.marks_ids else ""
    return Annotating(hop if end.add_forward_headers else {}, end.add_timestamp_header, scope)


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
        scope_of(config) if config.marks_ids else "",
    )


def scope_of(config: ShovelConfig) -> str:
    """What tells message ids of this shovel's source from those of others."""
    end = config.source
    return f"{config.vhost}/{config.name}/{end.queue or f'{end.exchange}/{end.exchange_key}'}"


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
