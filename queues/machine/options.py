"""What a queue's arguments ask of the queue machine, as numbers. Compiled.

Everything is off by default, and what is off costs nothing. `encode`/`decode` are the payload of
the command CONFIGURE (docs/formats/queue-commands.md); -1 stands for "no limit" throughout.
"""

from struct import Struct
from typing import Final, final

from mypy_extensions import i64

from queues.machine.address_settings import AddressSettings, decode_settings, settings_bytes

DROP_HEAD: Final = 0  # what a full queue does
REJECT_PUBLISH: Final = 1
REJECT_PUBLISH_DLX: Final = 2

SINGLE_ACTIVE: Final = 1  # bits of the flag byte
DRAIN_HANDOVER: Final = 2
COUNTS_DELIVERIES: Final = 4
DEAD_LETTERS: Final = 8
KEEPS_DEAD: Final = 16
DELAYS: Final = 32
RETRIES_LATE: Final = 64  # three more fields follow
COUNTS_RETURNS: Final = 128
ADDRESS: Final = 128  # bit of the overflow byte: address settings follow as the last field

DELAY_NONE: Final = 0  # which messages that are given back wait
DELAY_ALL: Final = 1
DELAY_FAILED: Final = 2
DELAY_RETURNED: Final = 3
DELAY_MS_MAX: Final = 315_360_000_000  # ten years

LAYOUT: Final = Struct("<BBBBqqqqqq")
LATE_LAYOUT: Final = Struct("<Bqq")


@final
class Options:
    """Immutable after it was handed to a machine."""

    def __init__(
        self,
        levels: i64 = 1,
        default_level: i64 = 0,
        ttl_ms: i64 = -1,
        length_max: i64 = -1,
        bytes_max: i64 = -1,
        overflow: i64 = DROP_HEAD,
        single_active: bool = False,
        drain_handover: bool = False,
        counts_deliveries: bool = False,
        delivery_limit: i64 = -1,
        consumer_timeout_ms: i64 = -1,
        expires_ms: i64 = -1,
        dead_letters: bool = False,
        keeps_dead: bool = False,
        delays: bool = False,
        delay_type: i64 = DELAY_NONE,
        delay_min_ms: i64 = 0,
        delay_max_ms: i64 = -1,
        counts_returns: bool = False,
        address: AddressSettings | None = None,
    ) -> None:
        self.levels: i64 = levels  # of priority; a higher one clamps to the highest
        self.default_level: i64 = default_level  # of a message without a priority
        self.ttl_ms: i64 = ttl_ms
        self.length_max: i64 = length_max  # ready messages
        self.bytes_max: i64 = bytes_max  # body bytes of ready messages
        self.overflow: i64 = overflow
        self.single_active = single_active
        self.drain_handover = drain_handover  # the next is activated once the last holds nothing
        self.counts_deliveries = counts_deliveries  # delivery and acquired counts
        self.delivery_limit: i64 = delivery_limit  # failed deliveries that a message survives
        self.consumer_timeout_ms: i64 = consumer_timeout_ms
        self.expires_ms: i64 = expires_ms  # unused for so long, the queue goes
        self.dead_letters = dead_letters  # what leaves is worked on further: smaller slices
        self.keeps_dead = keeps_dead  # what dies stays until it is `ReleaseDeadLetters`
        self.delays = delays  # a message that is given back may have to wait: a consumer says so,
        self.delay_type: i64 = delay_type  # or these are all that do, or that failed, or did not
        self.delay_min_ms: i64 = delay_min_ms  # for each failure
        self.delay_max_ms: i64 = delay_max_ms
        self.counts_returns = counts_returns  # a requeue by the client is a failed delivery, too
        assert delays or delay_type == DELAY_NONE
        if address is not None and address.is_default():
            address = None
        self.address = address  # None: all of them have their defaults
        self.counts_bytes = bytes_max >= 0  # sizes of messages are known
        self.bounds_expiry = address is not None and address.bounds_expiry
        self.id_cache_size: i64 = 0 if address is None else address.id_cache_size
        self.copies = address is not None and address.copies > 0
        self.group_buckets: i64 = 0
        if address is not None and not single_active and address.copies == 0:
            self.group_buckets = address.group_buckets
        self.keeps_last_values = address is not None and address.last_value_key != ""
        self.redelivers_late = address is not None and address.redelivery_ms > 0
        if address is not None and (address.window_bytes > 0 or address.counts_bytes > 0):
            self.counts_bytes = True

    def encode(self) -> bytes:
        flags = SINGLE_ACTIVE if self.single_active else 0
        flags |= DRAIN_HANDOVER if self.drain_handover else 0
        flags |= COUNTS_DELIVERIES if self.counts_deliveries else 0
        flags |= DEAD_LETTERS if self.dead_letters else 0
        flags |= KEEPS_DEAD if self.keeps_dead else 0
        flags |= COUNTS_RETURNS if self.counts_returns else 0
        late = b""
        if self.delays:
            flags |= DELAYS
        if self.delay_type != DELAY_NONE:
            flags |= RETRIES_LATE
            late = LATE_LAYOUT.pack(self.delay_type, self.delay_min_ms, self.delay_max_ms)
        overflow = self.overflow
        if self.address is not None:
            overflow |= ADDRESS
            late += self.address.encode()
        fixed = LAYOUT.pack(
            flags,
            overflow,
            self.levels - 1,
            self.default_level,
            self.ttl_ms,
            self.length_max,
            self.bytes_max,
            self.delivery_limit,
            self.consumer_timeout_ms,
            self.expires_ms,
        )
        return fixed + late

    def counting(self) -> "Options":
        """The same, in a queue that counts the bytes of its messages."""
        address = AddressSettings() if self.address is None else self.address
        data = bytearray(self.encode())
        tail = b"" if self.address is None else self.address.encode()
        del data[len(data) - len(tail) :]
        data[1] |= ADDRESS
        return decode_options(bytes(data) + address.counting().encode())

    def same(self, other: "Options") -> bool:
        return self.encode() == other.encode()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Options) and self.same(other)

    def __hash__(self) -> int:
        return hash(self.encode())


def options_bytes(data: bytes, place: int = 0) -> int:
    """How many bytes the options take that begin at `place`. ValueError: `data` is cut short."""
    if place + 2 > len(data):
        raise ValueError(f"options of {len(data) - place} bytes")
    size = LAYOUT.size + (LATE_LAYOUT.size if data[place] & RETRIES_LATE else 0)
    if data[place + 1] & ADDRESS:
        size += settings_bytes(data, place + size)
    return size


def decode_options(data: bytes) -> Options:
    """ValueError: these are not the bytes of options that this node knows."""
    if len(data) != options_bytes(data):
        raise ValueError(f"options of {len(data)} bytes")
    flags, overflow, levels, default, ttl, length, size, limit, timeout, expires = (
        LAYOUT.unpack_from(data)
    )
    address: AddressSettings | None = None
    place = LAYOUT.size + (LATE_LAYOUT.size if flags & RETRIES_LATE else 0)
    if overflow & ADDRESS:
        overflow -= ADDRESS
        address = decode_settings(data[place:])
        if address.is_default():
            raise ValueError(f"unknown options {data.hex()}")
    if overflow > REJECT_PUBLISH_DLX or default > levels:
        raise ValueError(f"unknown options {data.hex()}")
    delay_type, delay_min, delay_max = DELAY_NONE, 0, -1
    if flags & RETRIES_LATE:
        delay_type, delay_min, delay_max = LATE_LAYOUT.unpack_from(data, LAYOUT.size)
        if not flags & DELAYS or not is_delay(delay_type, delay_min, delay_max):
            raise ValueError(f"unknown delays {data.hex()}")
    return Options(
        levels + 1,
        default,
        ttl,
        length,
        size,
        overflow,
        bool(flags & SINGLE_ACTIVE),
        bool(flags & DRAIN_HANDOVER),
        bool(flags & COUNTS_DELIVERIES),
        limit,
        timeout,
        expires,
        bool(flags & DEAD_LETTERS),
        bool(flags & KEEPS_DEAD),
        bool(flags & DELAYS),
        delay_type,
        delay_min,
        delay_max,
        bool(flags & COUNTS_RETURNS),
        address,
    )


def is_delay(delay_type: int, min_ms: int, max_ms: int) -> bool:
    """Whether these are three fields of a queue that delays."""
    known = DELAY_NONE < delay_type <= DELAY_RETURNED
    return known and 0 <= min_ms <= DELAY_MS_MAX and -1 <= max_ms <= DELAY_MS_MAX
