"""A dynamic shovel while this node runs it: its sessions one after the other, and its status."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from time import time
from typing import Final

from federation.ends import Dialler, OnBlocked, SideFailed, Source091, Target091
from federation.forwarding import Forwarding
from federation.republishing import Rewriting, republished
from federation.running import Runner
from federation.shovel_parameters import AMQP_10, NO_ACK, ON_CONFIRM, ShovelConfig, TargetEnd
from federation.uris import Uri, parse_uri, without_credentials
from warren.client import amqp091

DEFAULT_VHOST: Final = "/"  # of a URI that names none


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


class Shovel:
    """See the module. `run` returns when the shovel is complete; cancel it to stop."""

    def __init__(
        self, config: ShovelConfig, dialler: Dialler, cluster_name: Callable[[], str]
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
        )
        self.run = self._runner.run

    def status(self) -> ShovelStatus:
        runner, core = self._runner, self._runner.core
        return ShovelStatus(
            self.config.vhost,
            self.config.name,
            core.state,
            core.reason,
            runner.since_s,
            self._source_uri,
            self._target_uri,
            runner.blocked,
            core.forwarded,
            core.in_flight,
            runner.bytes,
            runner.last_s,
            self.config,
        )

    def _sides(self, on_blocked: OnBlocked) -> tuple[Source091, Target091]:
        config = self.config
        if AMQP_10 in (config.source.protocol, config.target.protocol):
            raise SideFailed("shovels over AMQP 1.0 are not supported: use amqp091")
        source_text = random.choice(config.source.uris)
        target_text = random.choice(config.target.uris)
        self._source_uri = without_credentials(source_text)
        self._target_uri = without_credentials(target_text)
        how = rewriting(config, self._source_uri, self._target_uri, self._cluster_name())
        source = Source091(
            self._dial(parse_uri(source_text), None), config.source, config.ack_mode == NO_ACK
        )
        target = Target091(
            self._dial(parse_uri(target_text), on_blocked),
            config.target,
            lambda delivery: republished(delivery.content, how, int(time())),
            how.mandatory,
            config.ack_mode != ON_CONFIRM,
        )
        return source, target

    def _dial(
        self, uri: Uri, on_blocked: OnBlocked | None
    ) -> Callable[[], Awaitable[amqp091.Connection]]:
        name = f"Shovel {self.config.name}"
        return partial(self._dialler.connect, uri, DEFAULT_VHOST, name, on_blocked)


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
