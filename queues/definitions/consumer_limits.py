"""Byte window and rate that a consumer asks for itself, by an argument or an attach property."""

from typing import Final

from queues.definitions.address_keys import RATE, WINDOW, value_fault
from queues.machine.commands import QUEUE_LIMIT

CONSUMER_WINDOW: Final = "consumer-window-bytes"
CONSUMER_RATE: Final = "consumer-max-rate"
KEYS: Final = ((CONSUMER_WINDOW, WINDOW), (CONSUMER_RATE, RATE))


class BadLimit(Exception):
    """The consumer cannot have this limit: `key`, without prefix, and the reason."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(key, reason)
        self.key = key
        self.reason = reason


def own_limits(arguments: dict[str, object], prefix: str, is_stream: bool) -> tuple[int, int]:
    """Window in bytes and messages per second; QUEUE_LIMIT where the consumer asks for none.

    BadLimit: a value that is not allowed, or a limit for a consumer of a stream.
    """
    found: list[int] = []
    for name, key in KEYS:
        value = arguments.get(prefix + name)
        if value is None:
            found.append(QUEUE_LIMIT)
            continue
        reason = value_fault(key, value)
        if is_stream:
            reason = "consumers of streams have no windows of bytes and no rates"
        if reason is not None or not isinstance(value, int):
            raise BadLimit(prefix + name, reason or "")
        found.append(int(value))
    return found[0], found[1]
