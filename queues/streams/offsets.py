"""Where a consumer of a stream begins: `x-stream-offset`, `rabbitmq:stream-offset-spec`. No I/O."""

from enum import Enum
from typing import Final

from msgspec import Struct

from queues.streams.filtering import StreamFilter

SECOND_MS: Final = 1000
DAY_MS: Final = 86_400_000
UNITS_MS: Final = {
    "Y": 365 * DAY_MS,
    "M": 30 * DAY_MS,
    "D": DAY_MS,
    "h": 3_600_000,
    "m": 60_000,
    "s": SECOND_MS,
}
OFFSET_MAX: Final = (1 << 63) - 1


class Start(Enum):
    """What a consumer begins with."""

    FIRST = "first"  # the oldest message that there is
    LAST = "last"  # the last chunk
    NEXT = "next"  # what is published from now on
    OFFSET = "offset"
    TIMESTAMP = "timestamp"  # the first chunk that is not older
    AGE = "age"  # the first chunk that is not older than so many milliseconds


class OffsetSpec(Struct, frozen=True):
    """Where a consumer begins, and what it wants of what follows."""

    start: Start
    value: int = 0  # an offset, milliseconds since 1970, or of the age
    filter: StreamFilter | None = None  # None: all messages

    def at(self, now_ms: int) -> "OffsetSpec":
        """The same with a timestamp in place of an age."""
        if self.start is not Start.AGE:
            return self
        return OffsetSpec(Start.TIMESTAMP, max(0, now_ms - self.value), self.filter)


NEXT: Final = OffsetSpec(Start.NEXT)
WORDS: Final = {each.value: OffsetSpec(each) for each in (Start.FIRST, Start.LAST, Start.NEXT)}


def interval_ms(text: str) -> int | None:
    """Milliseconds of an interval such as `1h` (units Y, M, D, h, m, s); None: it is none."""
    number, unit = text[:-1], text[-1:]
    if not (number.isascii() and number.isdigit()) or unit not in UNITS_MS or len(number) > 12:
        return None
    return int(number) * UNITS_MS[unit]


def parse_offset(value: object) -> OffsetSpec | None:
    """Parse first, last, next, an offset or an interval; None: it is none of these."""
    if isinstance(value, str):
        known = WORDS.get(value)
        if known is not None:
            return known
        age_ms = interval_ms(value)
        return None if age_ms is None else OffsetSpec(Start.AGE, age_ms)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= OFFSET_MAX:
        return OffsetSpec(Start.OFFSET, value)
    return None
