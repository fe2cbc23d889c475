"""Exchange kind `x-consistent-hash`: each key to one destination, evenly by weight.

The binding key is a weight, 1 to 10,000. What is hashed is the routing key, or a header (exchange
argument `hash-header`, or its other name `x-hash-on`), or a property (`hash-property`); a message
without it is hashed like one in which it is empty. How the keys are parted is in `shares`, chosen
by `x-algorithm`: `ring` (the default) or `jump`. Compiled.

Of several bindings to one destination the oldest counts; the others wait until it is gone.
"""

import re
from typing import Final, final

from queues.definitions.arguments import shown, type_name
from queues.definitions.broker_objects import Binding, Destination
from queues.routing.content import TEXTS, Content
from queues.routing.hashing import key_hash
from queues.routing.shares import Jump, Ring, Shares
from warren.wire.amqp091.fields import binary_term

HASH_HEADER: Final = "hash-header"
HASH_ON: Final = "x-hash-on"
HASH_PROPERTY: Final = "hash-property"
ALGORITHM: Final = "x-algorithm"
RING: Final = "ring"
JUMP: Final = "jump"
WEIGHT_MAX: Final = 10_000

_INTEGER: Final = re.compile(rb"[+-]?[0-9]+\Z")


@final
class ConsistentHash:
    """Invariant: every destination bound is in `_shares`, with the weight of its oldest binding."""

    by_key: Final = False

    def __init__(self, arguments: dict[str, object]) -> None:
        header = arguments.get(HASH_HEADER, arguments.get(HASH_ON))
        self._header = header if isinstance(header, str) else None
        text = arguments.get(HASH_PROPERTY)
        self._text = text if isinstance(text, str) else None
        self.per_message = self._header is not None or self._text is not None
        self._shares: Shares = Jump() if arguments.get(ALGORITHM) == JUMP else Ring()
        self._weights: dict[int, dict[int, int]] = {}  # by target, by uid of the binding

    def add(self, binding: Binding) -> str:
        weights = self._weights.setdefault(binding.target, {})
        weights[binding.uid] = int(binding.binding_key)
        oldest = min(weights)
        if oldest != binding.uid:
            return (
                f"exchange '{binding.source}' in vhost '{binding.vhost}' takes one binding from "
                f"each destination: '{binding.destination}' keeps weight {weights[oldest]}, "
                f"and {weights[binding.uid]} is ignored"
            )
        self._shares.put(binding.target, label(binding), weights[oldest])
        return ""

    def remove(self, binding: Binding) -> None:
        weights = self._weights[binding.target]
        del weights[binding.uid]
        if weights:
            self._shares.put(binding.target, label(binding), weights[min(weights)])
        else:
            del self._weights[binding.target]
            self._shares.drop(binding.target)

    def match(self, key: bytes, content: Content, found: set[int]) -> None:
        if not self._weights:
            return
        if self._header is not None:
            key = as_bytes(content.headers().get(self._header, ""))
        elif self._text is not None:
            key = content.text(self._text)
        found.add(self._shares.pick(key_hash(key)))

    def is_empty(self) -> bool:
        return not self._weights


def label(binding: Binding) -> bytes:
    """The name of the destination, with its kind: a queue and an exchange may have one name."""
    kind = "x" if binding.destination_kind == Destination.EXCHANGE else "q"
    return f"{kind}:{binding.destination}".encode()


def as_bytes(value: object) -> bytes:
    """What is hashed of a header's value: a text as it is, anything else as it is shown."""
    if isinstance(value, bytes):
        return value
    return shown(value).encode("utf-8", "surrogateescape")


def binding_fault(key: bytes) -> str | None:
    """Why the key is no weight; None if it is."""
    if _INTEGER.match(key) is None:
        return f"The binding key must be an integer: {binary_term(key)}"
    digits = key.lstrip(b"+-0")
    if key.startswith(b"-") or not digits:
        return "The binding key must be greater than 0"
    if len(digits) > 5 or int(digits) > WEIGHT_MAX:
        return f"The binding key must not exceed {WEIGHT_MAX}"
    return None


def exchange_fault(arguments: dict[str, object]) -> str | None:
    """Why there is no such exchange; None if there is."""
    for name in (HASH_HEADER, HASH_ON, HASH_PROPERTY, ALGORITHM):
        value = arguments.get(name, "")
        if not isinstance(value, str):
            return f"invalid type '{type_name(value)}' for arg '{name}'"
    with_header = HASH_HEADER in arguments or HASH_ON in arguments
    if with_header and HASH_PROPERTY in arguments:
        return "hash-header and hash-property are mutually exclusive"
    if HASH_PROPERTY in arguments and arguments[HASH_PROPERTY] not in TEXTS:
        return f"Unsupported property: {arguments[HASH_PROPERTY]}"
    if arguments.get(ALGORITHM, RING) not in (RING, JUMP):
        return f"Unsupported algorithm: {arguments[ALGORITHM]}"
    return None
