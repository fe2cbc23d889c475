"""Upstreams: runtime parameters `federation-upstream` and `federation-upstream-set`, and which of
them a policy means."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

from federation.pacing import NO_RATES, Rates
from federation.parameter_checks import (
    MANDATORY,
    OPTIONAL,
    Spec,
    as_stored,
    boolean,
    faults_of,
    number,
    one_of,
    text,
    uri,
)
from federation.shovel_parameters import ACK_MODES, ON_CONFIRM, PREFETCH_MAX, rates_of, uris_of
from queues.definitions.arguments import brief_term
from queues.definitions.expressions import compiled_or_none

UPSTREAM: Final = "federation-upstream"
UPSTREAM_SET: Final = "federation-upstream-set"
PATTERN: Final = "federation-upstream-pattern"
POLICY_KEYS: Final = (UPSTREAM, UPSTREAM_SET, PATTERN)
ALL: Final = "all"
RECONNECT_S: Final = 5.0
EXCHANGE: Final = "exchange"
QUEUE: Final = "queue"

_SHARED: Final[Spec] = {
    "exchange": (text, OPTIONAL),
    "queue": (text, OPTIONAL),
    "consumer-tag": (text, OPTIONAL),
    "prefetch-count": (number, OPTIONAL),
    "reconnect-delay": (number, OPTIONAL),
    "max-hops": (number, OPTIONAL),
    "expires": (number, OPTIONAL),
    "message-ttl": (number, OPTIONAL),
    "trust-user-id": (boolean, OPTIONAL),
    "ack-mode": (one_of(*ACK_MODES), OPTIONAL),
    "max-messages-per-second": (number, OPTIONAL),
    "max-bytes-per-second": (number, OPTIONAL),
    "resource-cleanup-mode": (one_of("default", "never"), OPTIONAL),
    "queue-type": (one_of("classic", "quorum"), OPTIONAL),
    "federation-dedup": (boolean, OPTIONAL),
    "federated-routing-key": (boolean, OPTIONAL),
    "ha-policy": (text, OPTIONAL),
    "bind-nowait": (boolean, OPTIONAL),
    "channel-use-mode": (one_of("multiple", "single"), OPTIONAL),
}
_UPSTREAM: Final[Spec] = {"uri": (uri, MANDATORY), **_SHARED}
_MEMBER: Final[Spec] = {"upstream": (text, MANDATORY), **_SHARED}

Values = Mapping[str, Mapping[str, object]]  # upstreams by name
Sets = Mapping[str, object]  # upstream sets by name


@dataclass(frozen=True, slots=True)
class LinkConfig:
    """One link: an upstream and an exchange or queue of this cluster."""

    kind: str  # EXCHANGE or QUEUE
    vhost: str
    name: str
    upstream: str
    uris: tuple[str, ...] = field(repr=False)
    remote_exchange: str
    remote_queue: str
    consumer_tag: str
    prefetch: int
    reconnect_s: float
    max_hops: int
    expires: int | None
    message_ttl: int | None
    trust_user_id: bool
    ack_mode: str
    cleans_up: bool
    queue_type: str
    type: str  # of the downstream exchange
    durable: bool
    auto_delete: bool
    arguments: bytes  # of the downstream exchange or queue, encoded
    rates: Rates = NO_RATES
    keeps_key: bool = True  # a queue link: the routing key that it replaces, in a header
    marks_ids: bool = False  # so that queues here leave out what they have had

    @property
    def remote(self) -> str:
        return self.remote_exchange if self.kind == EXCHANGE else self.remote_queue

    @property
    def id(self) -> str:
        """As listings and commands name the link."""
        return blake2b(self.key.encode(), digest_size=4).hexdigest()

    @property
    def key(self) -> str:
        return f"federation/{self.kind}/{self.vhost}/{self.name}/{self.upstream}/{self.remote}"


def upstream_faults(name: str, value: object) -> list[str]:
    if not isinstance(value, dict):
        return [f"{name} should be a JSON object, actually was {brief_term(value)}"]
    return faults_of(name, _UPSTREAM, value)


def stored_upstream_faults(name: str, value: object) -> list[str]:
    """The same of a stored value; options of its URIs are errors of its links."""
    if not isinstance(value, dict):
        return upstream_faults(name, value)
    return faults_of(name, as_stored(_UPSTREAM), value)


def upstream_set_faults(name: str, value: object) -> list[str]:
    if not isinstance(value, list):
        return [f"{name} should be list, actually was {brief_term(value)}"]
    found: list[str] = []
    for each in value:
        if isinstance(each, dict):
            found += faults_of(name, _MEMBER, each)
        else:
            found.append(f"{name} should be a list of JSON objects")
    return found


def meant(
    definition: Mapping[str, object], upstreams: Values, sets: Sets
) -> list[dict[str, object]]:
    """The upstreams of a policy, each with `upstream` for its name and what its set overrides."""
    named = definition.get(UPSTREAM)
    if isinstance(named, str):
        return _members([{"upstream": named}], upstreams)
    of_set = definition.get(UPSTREAM_SET)
    if isinstance(of_set, str):
        members = sets.get(of_set)
        if members is None and of_set == ALL:
            members = [{"upstream": name} for name in upstreams]
        return _members(members, upstreams)
    pattern = definition.get(PATTERN)
    if isinstance(pattern, str):
        wanted = compiled_or_none(pattern)
        found = [name for name in upstreams if wanted is not None and wanted.is_found_in(name)]
        return _members([{"upstream": name} for name in found], upstreams)
    return []


def _members(members: object, upstreams: Values) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for each in members if isinstance(members, list) else ():
        value = upstreams.get(str(each.get("upstream"))) if isinstance(each, dict) else None
        if value is not None:
            found.append({**value, **each})
    return found


def link_config(
    kind: str,
    vhost: str,
    name: str,
    value: Mapping[str, object],
    type_: str,
    durable: bool,
    auto_delete: bool,
    arguments: bytes,
) -> LinkConfig:
    """The link of an object to one of the upstreams that `meant` gave."""
    upstream = str(value["upstream"])
    marks_ids = value.get("federation-dedup") is True
    return LinkConfig(
        kind=kind,
        vhost=vhost,
        name=name,
        upstream=upstream,
        uris=uris_of(value["uri"]),
        remote_exchange=str(value.get("exchange", name)),
        remote_queue=str(value.get("queue", name)),
        consumer_tag=str(value.get("consumer-tag", f"federation-link-{upstream}")),
        prefetch=min(max(1, _number(value, "prefetch-count", 1000)), PREFETCH_MAX),
        reconnect_s=float(_number(value, "reconnect-delay", int(RECONNECT_S))),
        max_hops=_number(value, "max-hops", 1),
        expires=_number_or_none(value, "expires"),
        message_ttl=_number_or_none(value, "message-ttl"),
        trust_user_id=value.get("trust-user-id") is True,
        ack_mode=str(value.get("ack-mode", ON_CONFIRM)),
        cleans_up=value.get("resource-cleanup-mode", "default") != "never",
        queue_type=str(value.get("queue-type", "quorum" if marks_ids else "classic")),
        type=type_,
        durable=durable,
        auto_delete=auto_delete,
        arguments=arguments,
        rates=rates_of(value),
        keeps_key=value.get("federated-routing-key") is not False,
        marks_ids=marks_ids,
    )


def _number(value: Mapping[str, object], key: str, otherwise: int) -> int:
    found = value.get(key)
    return int(found) if isinstance(found, (int, float)) else otherwise


def _number_or_none(value: Mapping[str, object], key: str) -> int | None:
    found = value.get(key)
    return int(found) if isinstance(found, (int, float)) else None
