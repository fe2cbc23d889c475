"""What arguments and policies say of a stream."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from queues.streams.offsets import interval_ms

SEGMENT_BYTES: Final = 500_000_000  # RabbitMQ's default
FILTER_BYTES: Final = 16
UNLIMITED: Final = -1


class StreamSettings(Struct, frozen=True):
    bytes_max: int = UNLIMITED
    age_max_ms: int = UNLIMITED
    segment_bytes: int = SEGMENT_BYTES
    filter_bytes: int = FILTER_BYTES
    offloads: bool = False  # old segments go to the object store
    local_bytes_max: int = 0  # of files; segments that are in the store are dropped beyond it
    ids_max: int | None = 0  # of `_AMQ_DUPL_ID` that it remembers; None: as many as it did


def stream_settings(arguments: Mapping[str, object]) -> StreamSettings:
    """`arguments`: of the queue, with what its policies say."""
    age = arguments.get("x-max-age")
    age_ms = interval_ms(age) if isinstance(age, str) else None
    return StreamSettings(
        bytes_max=_number(arguments, "x-max-length-bytes", UNLIMITED),
        age_max_ms=UNLIMITED if age_ms is None else age_ms,
        segment_bytes=_number(arguments, "x-stream-max-segment-size-bytes", SEGMENT_BYTES),
        filter_bytes=_number(arguments, "x-stream-filter-size-bytes", FILTER_BYTES),
        offloads=arguments.get("x-stream-offload") is True,
        local_bytes_max=_number(arguments, "x-stream-local-max-bytes", 0),
        ids_max=_number(arguments, "x-id-cache-size", 0),
    )


def _number(arguments: Mapping[str, object], key: str, absent: int) -> int:
    value = arguments.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else absent
