"""What a policy may say: its keys, their values, and RabbitMQ's sentences about the others.

`policy_fault` gives the whole text of the refusal, which begins with `Validation failed`. Values
are as JSON gives them.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from queues.addresses import limits
from queues.definitions import mirror_policy
from queues.definitions.address_keys import (
    ADDRESS_KEYS,
    AddressKey,
    copies_fault,
    ring_fault,
    stream_fault,
)
from queues.definitions.arguments import brief_term, cut
from queues.definitions.expressions import LENGTH_MAX, expression_fault
from queues.definitions.policies import APPLY_TO
from queues.definitions.queue_arguments import DURATION_MS_MAX, NAME_BYTES_MAX
from queues.definitions.retroactive import ALLOWED, RETROACTIVE, is_count
from queues.definitions.retroactive import policy_fault as retroactive_fault
from queues.definitions.without_effect import KEYS_WITHOUT_EFFECT, key_warnings

NUMBER_MAX: Final = (1 << 63) - 1
PRIORITY_MAX: Final = (1 << 31) - 1

Check = Callable[[object], bool]


def _whole(low: int, high: int = NUMBER_MAX) -> Check:
    def check(value: object) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high

    return check


def _one_of(*words: str) -> Check:
    return lambda value: isinstance(value, str) and value in words


def _name(value: object) -> bool:
    return isinstance(value, str) and len(value.encode()) <= NAME_BYTES_MAX


def _flag(value: object) -> bool:
    return isinstance(value, bool)


def _text(value: object) -> bool:
    return isinstance(value, str)


def _pattern(value: object) -> bool:
    return isinstance(value, str) and expression_fault(value) is None


def _max_age(value: object) -> bool:
    return isinstance(value, str) and bool(re.fullmatch("[0-9]{1,18}[YMDhms]", value))


def _anything(value: object) -> bool:
    """For keys that are looked at together with others."""
    return True


def _setting(key: AddressKey) -> Check:
    return lambda value: key.convert(value) is not None


# What each key may be, and what the sentence calls it.
KEYS: Final[Mapping[str, tuple[Check, str]]] = {
    "alternate-exchange": (_name, "alternate exchange name"),
    "consumer-disconnected-timeout": (
        _whole(0, DURATION_MS_MAX), "consumer disconnected timeout"
    ),
    "consumer-timeout": (_whole(0, DURATION_MS_MAX), "consumer timeout"),
    "dead-letter-exchange": (_name, "dead letter exchange name"),
    "dead-letter-routing-key": (_name, "dead letter routing key"),
    "dead-letter-strategy": (_one_of("at-most-once", "at-least-once"), "dead letter strategy"),
    "delayed-retry-max": (_whole(0, DURATION_MS_MAX), "greatest delay of a retry"),
    "delayed-retry-min": (_whole(0, DURATION_MS_MAX), "least delay of a retry"),
    "delayed-retry-type": (
        _one_of("disabled", "all", "failed", "returned"), "type of delayed retry"
    ),
    "delivery-limit": (_whole(-NUMBER_MAX), "delivery limit"),
    "delivery-limit-counts": (_one_of("failed", "returned"), "what a delivery limit counts"),
    "expires": (_whole(1, DURATION_MS_MAX), "queue expiry"),
    "federation-upstream": (_text, "federation upstream name"),
    "federation-upstream-pattern": (_pattern, "federation upstream pattern"),
    "federation-upstream-set": (_text, "federation upstream set name"),
    **{key: (_anything, key) for key in mirror_policy.KEYS},
    **{key.name: (_setting(key), f"{key.what}: expected {key.allowed}") for key in ADDRESS_KEYS},
    **{key.name: (key.allows, f"{key.name}: expected {key.allowed}") for key in limits.KEYS},
    "initial-cluster-size": (_whole(1), "cluster size"),
    "leader-follows-traffic": (_one_of("off", "advise", "auto"), "leader-follows-traffic value"),
    "max-age": (_max_age, "max age"),
    "max-in-memory-bytes": (_whole(0), "maximum memory in bytes"),
    "max-in-memory-length": (_whole(0), "maximum memory in bytes"),
    "max-length": (_whole(0), "maximum length"),
    "max-length-bytes": (_whole(0), "maximum length in bytes"),
    "member-placement-tag": (_text, "member placement tag"),
    "message-ttl": (_whole(0, DURATION_MS_MAX), "message TTL"),
    "overflow": (_one_of("drop-head", "reject-publish", "reject-publish-dlx"), "overflow value"),
    "queue-leader-locator": (
        _one_of("client-local", "balanced", "random", "least-leaders", "min-masters"),
        "queue leader locator value",
    ),
    "queue-master-locator": (
        _one_of("client-local", "random", "min-masters"), "master locator"
    ),
    "queue-mode": (_one_of("default", "lazy"), "queue-mode value"),
    "queue-version": (_whole(1, 2), "queue-version value"),
    RETROACTIVE: (is_count, f"{RETROACTIVE}: expected {ALLOWED}"),
    "stream-filter-size-bytes": (_whole(16, 255), "filter size"),
    "stream-local-max-bytes": (_whole(0), "bytes of a stream on a node"),
    "stream-max-segment-size-bytes": (_whole(0, 3_000_000_000), "segment size"),
    "stream-offload": (_flag, "stream-offload: expected true or false"),
    "target-group-size": (_whole(1), "qq target count value"),
}  # fmt: skip

OPERATOR_KEYS: Final = frozenset(
    ("expires", "message-ttl", "max-length", "max-length-bytes", "max-in-memory-length",
     "max-in-memory-bytes", "delivery-limit", "overflow", "queue-version", "target-group-size",
     "member-placement-tag", "ha-mode", "ha-params", "ha-sync-mode", "ha-sync-batch-size",
     "ha-sync-nonblocking", "ha-promote-on-failure", "ha-promote-on-shutdown")
)  # fmt: skip


def policy_fault(
    pattern: object,
    apply_to: object,
    priority: object,
    definition: object,
    operator: bool,
    imported: bool = False,
) -> str | None:
    """Say why there can be no such policy; None: there can.

    An imported one may have a pattern that cannot be compiled, and keys without effect.
    """
    faults = [
        _pattern_fault(pattern, imported),
        _priority_fault(priority),
        _apply_to_fault(apply_to),
        _definition_fault(definition, operator, imported),
        stream_fault(definition, apply_to) if isinstance(definition, dict) else None,
        limits.stream_fault(definition, apply_to) if isinstance(definition, dict) else None,
        retroactive_fault(definition, apply_to) if isinstance(definition, dict) else None,
    ]
    found = [fault for fault in faults if fault is not None]
    if not found:
        return None
    return "".join(f"{line}\n" for line in ("Validation failed\n", *found))


def _pattern_fault(pattern: object, imported: bool) -> str | None:
    if not isinstance(pattern, str):
        return f"pattern should be a binary but was {brief_term(pattern)}"
    if imported and len(pattern) <= LENGTH_MAX:
        return None
    reason = expression_fault(pattern)
    if reason is None:
        return None
    return f"pattern should be regular expression but is invalid: {reason}"


def _priority_fault(priority: object) -> str | None:
    if _whole(-PRIORITY_MAX, PRIORITY_MAX)(priority):
        return None
    return f"priority should be a number, actually was {brief_term(priority)}"


def _apply_to_fault(apply_to: object) -> str | None:
    if isinstance(apply_to, str) and apply_to in APPLY_TO:
        return None
    shown = cut(apply_to) if isinstance(apply_to, str) else brief_term(apply_to)
    known = "'queues', 'classic_queues',  'quorum_queues', 'streams', 'exchanges', or 'all'"
    return f"apply-to '{shown}' unrecognised; should be one of: {known}"


def _definition_fault(definition: object, operator: bool, imported: bool) -> str | None:
    if not isinstance(definition, dict):
        return f"definition should be a map, actually was {brief_term(definition)}"
    if not definition:
        return "no policy provided"
    known = OPERATOR_KEYS if operator else KEYS
    unknown = [
        f"{{{brief_term(key)},{brief_term(definition[key])}}}"
        for key in definition
        if (not imported if key in KEYS_WITHOUT_EFFECT else key not in known)
    ]
    if unknown:
        fault = f"[{cut(','.join(unknown))}] are not recognised policy settings"
        return "; ".join((fault, *key_warnings(definition)))
    for key, value in definition.items():
        check, what = KEYS.get(key, (_anything, key))  # Imported, without effect.
        if not check(value):
            return f"{brief_term(value)} is not a valid {what}"
    return _together_fault(definition)


def _together_fault(definition: Mapping[str, object]) -> str | None:
    """What one key needs of another."""
    fault = ring_fault(definition, "") or copies_fault(definition, "")
    if fault is not None:
        return fault
    fault = mirror_policy.mirror_fault(definition) or limits.together_fault(definition)
    if fault is not None:
        return fault
    if "federation-upstream" in definition and "federation-upstream-set" in definition:
        return "cannot specify both federation-upstream and federation-upstream-set together"
    if "federation-upstream-pattern" in definition:
        for key in ("federation-upstream", "federation-upstream-set"):
            if key in definition:
                return f"cannot specify both {key} and federation-upstream-pattern together"
    return None
