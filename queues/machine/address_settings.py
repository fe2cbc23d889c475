"""Settings of a queue that only few queues have, named after the address settings of Artemis.

`Options.address` is None for a queue that has none of them, so that they cost such a queue nothing.
Encoded as count u8, then tag u8 and value i64 of each setting that differs from its default;
-1 stands for "no limit" where nothing else is said. Compiled.
"""

from struct import Struct
from typing import Final, final

from mypy_extensions import i64

ENTRY: Final = Struct("<Bq")
KEY_TAG: Final = 255  # the last entry; its value is the length of the text behind all entries
VALUE_MAX: Final = 1 << 53
MILLI: Final = 1000  # fractions are whole numbers of thousandths
RATE_MAX: Final = 1_000_000  # messages per second


@final
class AddressSettings:
    """Immutable. The order of the parameters is the order of the tags, from 1 on."""

    def __init__(
        self,
        window_bytes: i64 = -1,
        rate_max: i64 = -1,
        counts_bytes: i64 = 0,
        redelivery_ms: i64 = 0,
        redelivery_multiplier: i64 = MILLI,
        redelivery_collision: i64 = 0,
        redelivery_max_ms: i64 = -1,
        expiry_ms: i64 = -1,
        expiry_min_ms: i64 = -1,
        expiry_max_ms: i64 = -1,
        dispatch_consumers: i64 = 0,
        dispatch_delay_ms: i64 = -1,
        slow_threshold: i64 = -1,
        slow_period_ms: i64 = 5000,
        slow_kills: i64 = 0,
        id_cache_size: i64 = 0,
        copies: i64 = 0,
        group_buckets: i64 = 0,
        *,
        last_value_key: str = "",
    ) -> None:
        self.window_bytes: i64 = window_bytes  # of bodies that a consumer may hold; 0: one message
        self.rate_max: i64 = rate_max  # messages per second to a consumer
        self.counts_bytes: i64 = counts_bytes  # 1: a consumer has a byte window of its own
        self.redelivery_ms: i64 = redelivery_ms  # before the first redelivery
        self.redelivery_multiplier: i64 = redelivery_multiplier  # thousandths, for each further one
        self.redelivery_collision: i64 = redelivery_collision  # thousandths of the delay
        self.redelivery_max_ms: i64 = redelivery_max_ms
        self.expiry_ms: i64 = expiry_ms  # of messages without an expiration
        self.expiry_min_ms: i64 = expiry_min_ms  # bounds of the expiration of messages
        self.expiry_max_ms: i64 = expiry_max_ms
        self.bounds_expiry = expiry_ms >= 0 or expiry_min_ms >= 0 or expiry_max_ms >= 0
        self.dispatch_consumers: i64 = dispatch_consumers  # that there are before any is served
        self.dispatch_delay_ms: i64 = dispatch_delay_ms  # from the first consumer on
        self.slow_threshold: i64 = slow_threshold  # messages per second that a consumer settles
        self.slow_period_ms: i64 = slow_period_ms  # between two looks at consumers
        self.slow_kills: i64 = slow_kills  # 1: a consumer that is slower goes
        self.id_cache_size: i64 = id_cache_size  # ids of messages that are known; 0: none
        self.copies: i64 = copies  # 1: consumers get copies, and messages stay
        self.group_buckets: i64 = group_buckets  # of groups of messages; 0: they are not heeded
        # Header whose newest value alone stays in the queue; empty: all messages stay. No number:
        # it comes last.
        self.last_value_key = last_value_key

    def values(self) -> list[int]:
        """All settings that are numbers, by tag."""
        return [
            self.window_bytes,
            self.rate_max,
            self.counts_bytes,
            self.redelivery_ms,
            self.redelivery_multiplier,
            self.redelivery_collision,
            self.redelivery_max_ms,
            self.expiry_ms,
            self.expiry_min_ms,
            self.expiry_max_ms,
            self.dispatch_consumers,
            self.dispatch_delay_ms,
            self.slow_threshold,
            self.slow_period_ms,
            self.slow_kills,
            self.id_cache_size,
            self.copies,
            self.group_buckets,
        ]

    def encode(self) -> bytes:
        defaults = AddressSettings().values()
        entries = [
            ENTRY.pack(place + 1, value)
            for place, value in enumerate(self.values())
            if value != defaults[place]
        ]
        if not self.last_value_key:
            return bytes((len(entries),)) + b"".join(entries)
        key = self.last_value_key.encode()
        entries.append(ENTRY.pack(KEY_TAG, len(key)))
        return bytes((len(entries),)) + b"".join(entries) + key

    def is_default(self) -> bool:
        return not self.last_value_key and self.values() == AddressSettings().values()

    def counting(self) -> "AddressSettings":
        """The same in a queue that counts the bytes of its messages."""
        values = self.values()
        values[2] = 1
        return settings_of(values, self.last_value_key)


def settings_of(values: list[int], last_value_key: str) -> AddressSettings:
    """Settings from their values by tag."""
    return AddressSettings(*values, last_value_key=last_value_key)


def settings_bytes(data: bytes, place: int) -> int:
    """How many bytes the settings take that begin at `place`. ValueError: `data` is cut short."""
    if place >= len(data):
        raise ValueError(f"options of {len(data)} bytes")
    end = place + 1 + data[place] * ENTRY.size
    if data[place] > 0 and end <= len(data) and data[end - ENTRY.size] == KEY_TAG:
        end += ENTRY.unpack_from(data, end - ENTRY.size)[1]
    return end - place


def decode_settings(data: bytes) -> AddressSettings:
    """ValueError: these are not the bytes of settings that this node knows."""
    values = AddressSettings().values()
    last = 0
    end = 1 + data[0] * ENTRY.size
    key = data[end:].decode()
    for place in range(1, end, ENTRY.size):
        tag, value = ENTRY.unpack_from(data, place)
        if tag == KEY_TAG and place + ENTRY.size == end and value == len(data) - end > 0:
            break
        if not last < tag <= len(values) or not -1 <= value <= VALUE_MAX:
            raise ValueError(f"unknown address setting {tag} of {value}")
        last = tag
        values[tag - 1] = value
    return settings_of(values, key)
