"""Policies and operator policies of one vhost: which of them holds for what.

Takes `Policy` objects as the metadata machine keeps them; gives, for an object's kind and name, the
policy and the operator policy that hold, and what both say together. Of several that match, the
one with the highest priority holds, then the one whose name comes first. `with_policy` turns what
holds into arguments, so that readers of a queue's arguments need not know of policies. An
expression that cannot be compiled matches nothing. Not compiled with mypyc: called when a queue is
declared or a policy changes, never per message.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
from msgspec import Struct, field

from queues.definitions.broker_objects import Policy
from queues.definitions.expressions import compiled_or_none
from queues.definitions.policy_kinds import EXCHANGE as EXCHANGE
from queues.definitions.policy_kinds import has_effect, kind_warnings
from queues.definitions.queue_arguments import CLASSIC, QUORUM, STREAM
from queues.definitions.without_effect import key_warnings

APPLY_TO: Final[Mapping[str, tuple[str, ...]]] = {
    "all": (CLASSIC, QUORUM, STREAM, EXCHANGE),
    "queues": (CLASSIC, QUORUM, STREAM),
    "classic_queues": (CLASSIC,),
    "quorum_queues": (QUORUM,),
    "streams": (STREAM,),
    "exchanges": (EXCHANGE,),
}

SMALLER: Final = frozenset(
    ("message-ttl", "expires", "max-length", "max-length-bytes", "consumer-timeout",
     "consumer-disconnected-timeout", "max-in-memory-length", "max-in-memory-bytes")
)  # fmt: skip
DELIVERY_LIMIT: Final = "delivery-limit"  # a negative one is none at all
NOT_ARGUMENTS: Final = ("alternate-exchange",)  # the same without `x-`

_DECODE: Final = msgspec.json.Decoder(dict[str, object]).decode


class Effective(Struct, frozen=True):
    """What holds for one object. `definition` is of both together.

    `warnings` names the keys that have no effect, or none on this kind of object; `definition` is
    without them.
    """

    policy: Policy | None = None
    operator: Policy | None = None
    definition: Mapping[str, object] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def policy_name(self) -> str | None:
        return None if self.policy is None else self.policy.name

    @property
    def operator_name(self) -> str | None:
        return None if self.operator is None else self.operator.name


NOTHING: Final = Effective()


class _Rule:
    """A policy, ready to be asked."""

    __slots__ = ("_by_kind", "pattern", "policy")

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        definition = _DECODE(policy.definition)
        self._by_kind: dict[str, tuple[dict[str, object], tuple[str, ...]]] = {}
        for kind in APPLY_TO.get(policy.apply_to, ()):
            held = {key: each for key, each in definition.items() if has_effect(key, (kind,))}
            warnings = (*key_warnings(definition), *kind_warnings(definition, (kind,)))
            self._by_kind[kind] = held, warnings
        self.pattern = compiled_or_none(policy.pattern)

    def holds_for(self, kind: str, name: str) -> bool:
        if kind not in self._by_kind or self.pattern is None:
            return False
        return self.pattern.is_found_in(name)

    def what_holds(self, kind: str) -> tuple[dict[str, object], tuple[str, ...]]:
        """For objects of a kind to which it applies, and the warnings about the rest."""
        return self._by_kind[kind]


class PolicyTable:
    """Invariant: `_user` and `_operator` are the rules of `_policies`, the strongest first."""

    __slots__ = ("_operator", "_policies", "_user")

    def __init__(self) -> None:
        self._policies: dict[tuple[bool, str], Policy] = {}
        self._user: list[_Rule] = []
        self._operator: list[_Rule] = []

    def __iter__(self) -> Iterator[Policy]:
        """All of them, in the order in which they came."""
        return iter(self._policies.values())

    def is_empty(self) -> bool:
        return not self._policies

    def get(self, name: str, operator: bool) -> Policy | None:
        return self._policies.get((operator, name))

    def put(self, policy: Policy) -> None:
        """Add the policy, or have it in the place of that of its name."""
        self._policies[policy.operator, policy.name] = policy
        self._sort(policy.operator)

    def remove(self, policy: Policy) -> None:
        del self._policies[policy.operator, policy.name]
        self._sort(policy.operator)

    def _sort(self, operator: bool) -> None:
        chosen = [each for each in self._policies.values() if each.operator == operator]
        chosen.sort(key=lambda each: (-each.priority, each.name))
        rules = [_Rule(each) for each in chosen]
        if operator:
            self._operator = rules
        else:
            self._user = rules

    def effective(self, kind: str, name: str) -> Effective:
        """What holds for the queue of this type, or the exchange, of this name."""
        if not self._policies:
            return NOTHING
        user = _first(self._user, kind, name)
        operator = _first(self._operator, kind, name)
        if operator is None:
            return NOTHING if user is None else Effective(user.policy, None, *user.what_holds(kind))
        limits, warnings = operator.what_holds(kind)
        if user is None:
            return Effective(None, operator.policy, limits, warnings)
        definition, own_warnings = user.what_holds(kind)
        merged = dict(definition)
        for key, value in limits.items():
            merged[key] = limited(key, merged[key], value) if key in merged else value
        return Effective(user.policy, operator.policy, merged, (*own_warnings, *warnings))


def _first(rules: list[_Rule], kind: str, name: str) -> _Rule | None:
    for rule in rules:
        if rule.holds_for(kind, name):
            return rule
    return None


def limited(key: str, value: object, limit: object) -> object:
    """What a value is that a limit stands against: the stricter of both, or the limit itself."""
    if isinstance(value, int) and isinstance(limit, int):
        if key in SMALLER:
            return min(value, limit)
        if key == DELIVERY_LIMIT:
            return max(value, limit) if value < 0 or limit < 0 else min(value, limit)
    return limit


def with_policy(
    arguments: dict[str, object], definition: Mapping[str, object]
) -> dict[str, object]:
    """The arguments as they would be if the policy had been among them: of numbers the
    stricter one holds, of anything else what the client has declared.
    """
    if not definition:
        return arguments
    merged = dict(arguments)
    for key, value in definition.items():
        name = key if key in NOT_ARGUMENTS else f"x-{key}"
        declared = arguments.get(name)
        if declared is None:
            merged[name] = value
        elif key in SMALLER or key == DELIVERY_LIMIT:
            merged[name] = limited(key, declared, value)
    return merged
