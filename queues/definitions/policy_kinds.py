"""Which policy keys have an effect on which kinds of objects.

A key that is an argument as well holds for the queue types of that argument. `kind_warnings` are
the sentences about the others, which an object of that kind ignores.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from queues.addresses import limits
from queues.definitions import mirror_policy
from queues.definitions.queue_arguments import CLASSIC, QUEUE_TYPES, QUORUM, RULES, STREAM
from queues.definitions.retroactive import RETROACTIVE
from queues.definitions.without_effect import KEYS_WITHOUT_EFFECT

EXCHANGE: Final = "exchange"  # a kind of object, beside the queue types

KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    **{rule.name.removeprefix("x-"): rule.types for rule in RULES},
    **{key.name: (CLASSIC, QUORUM, EXCHANGE) for key in limits.KEYS},
    **dict.fromkeys(mirror_policy.KEYS, (CLASSIC,)),
    "alternate-exchange": (EXCHANGE,),
    "leader-follows-traffic": (QUORUM,),
    "queue-master-locator": QUEUE_TYPES,
    RETROACTIVE: (EXCHANGE,),
    "target-group-size": (QUORUM, STREAM),
}  # any other key holds for all kinds


def has_effect(key: str, kinds: Iterable[str]) -> bool:
    """Whether the key has an effect on objects of at least one of these kinds."""
    known = KINDS.get(key)
    return key not in KEYS_WITHOUT_EFFECT and (
        known is None or any(each in known for each in kinds)
    )


def kind_warnings(definition: Iterable[str], kinds: tuple[str, ...]) -> tuple[str, ...]:
    """Of the keys that have an effect, but on none of these kinds."""
    things = [f"{kind} queues" if kind in QUEUE_TYPES else f"{kind}s" for kind in kinds]
    return tuple(
        f"'{key}' has no effect on {', '.join(things)}"
        for key in definition
        if key not in KEYS_WITHOUT_EFFECT and not has_effect(key, kinds)
    )
