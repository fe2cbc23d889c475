"""What the broker tells of a link in the properties of its flows."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

Properties = Mapping[str, object]
LIMIT_BYTES: Final = "warren:producer-limit-bytes"


@dataclass(frozen=True, slots=True)
class LinkState:
    """The last that is known; None: never told. `properties` are those of the last flow."""

    local: bool | None = None  # the queue's leader is on the node of this connection
    local_replica: bool | None = None
    leader: str | None = None  # None, too, while one is being elected
    leader_endpoints: tuple[str, ...] = ()
    leader_epoch: int = 0
    replicas: tuple[str, ...] = ()
    state: str | None = None
    retry_after_ms: int | None = None
    active: bool | None = None  # of a single active consumer
    limit_bytes: int | None = None  # that a publisher may have sent since the link was attached
    properties: Properties | None = None

    def merged(self, told: Properties) -> "LinkState":
        """With what a flow told; what is of an older epoch is only kept as it came."""
        epoch = told.get("leader-epoch")
        new = replace(self, properties=told)
        active = told.get("rabbitmq:active")
        if isinstance(active, bool):
            new = replace(new, active=active)
        limit = told.get(LIMIT_BYTES)
        if isinstance(limit, int):
            new = replace(new, limit_bytes=int(limit))
        if isinstance(epoch, int) and epoch < self.leader_epoch:
            return new
        leader = told.get("leader", self.leader)
        return replace(
            new,
            local=_flag(told, "local", self.local),
            local_replica=_flag(told, "local-replica", self.local_replica),
            leader=leader if isinstance(leader, str) else None,
            leader_endpoints=_texts(told, "leader-endpoints", self.leader_endpoints),
            leader_epoch=int(epoch) if isinstance(epoch, int) else self.leader_epoch,
            replicas=_texts(told, "replicas", self.replicas),
            state=_text(told, "state", self.state),
            retry_after_ms=_number(told, "retry-after-ms"),
        )


def _flag(told: Properties, name: str, before: bool | None) -> bool | None:
    value = told.get(name)
    return value if isinstance(value, bool) else before


def _text(told: Properties, name: str, before: str | None) -> str | None:
    value = told.get(name)
    return str(value) if isinstance(value, str) else before


def _number(told: Properties, name: str) -> int | None:
    value = told.get(name)
    return int(value) if isinstance(value, int) else None


def _texts(told: Properties, name: str, before: tuple[str, ...]) -> tuple[str, ...]:
    value = told.get(name)
    items = getattr(value, "items", value)
    if not isinstance(items, list):
        return before
    return tuple(each for each in items if isinstance(each, str))
