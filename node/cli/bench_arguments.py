"""The options of `warren bench`. Reads arguments alone: nothing of broker or client is imported."""

import argparse
from typing import Final

AMQP_091: Final = "0.9.1"
AMQP_10: Final = "1.0"
TWO_SENDERS: Final = "two-senders"
ONE_SENDER_ONE_RECEIVER: Final = "one-sender-one-receiver"

QUEUE_TYPES: Final = ("classic", "quorum")
BODY_BYTES_MAX: Final = 16 * 1024 * 1024
SECONDS_MIN: Final = 0.1
SECONDS_MAX: Final = 3600.0


def add_arguments(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare `bench` and its two loads."""
    bench = commands.add_parser(
        "bench", help="measure what links of one connection do to each other", allow_abbrev=False
    )
    loads = bench.add_subparsers(dest="load", metavar="LOAD", required=True)
    two = loads.add_parser(
        TWO_SENDERS, help="one publisher to a fast queue, one to a slow one", allow_abbrev=False
    )
    _add_common(two)
    both = loads.add_parser(
        ONE_SENDER_ONE_RECEIVER,
        help="one consumer of a fast queue, one publisher to a slow one",
        allow_abbrev=False,
    )
    _add_common(both)
    both.add_argument("--messages", metavar="N", type=_count, default=1_000_000, help="to consume")
    both.add_argument("--credit", metavar="N", type=_credit, default=200, help="of the consumer")
    both.add_argument("--batch", metavar="N", type=_batch, default=10_000, help="of the publisher")


def _add_common(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--host", default="127.0.0.1")
    add("--port", type=_count, default=5672)
    add("--user", default="guest")
    add("--password", default="guest")
    add("--vhost", default="/")
    add(
        "--protocol",
        choices=(AMQP_091, AMQP_10, "both"),
        default="both",
        help="both: one after the other",
    )
    add("--together", action="store_true", help="both at the same time, as two connections")
    add("--seconds", metavar="S", type=_seconds, default=10.0)
    add("--size", metavar="BYTES", type=_size, default=12, help="of a body")
    add("--fast", choices=QUEUE_TYPES, default="classic", help="type of the fast queue")
    add("--slow", choices=QUEUE_TYPES, default="quorum", help="type of the slow queue")
    add("--alone", action="store_true", help="first the fast link without the slow one")
    add("--compare", metavar="HOST:PORT", help="then the same on another broker")
    add("--json", action="store_true", help="one JSON object instead of a table")
    add("--keep", action="store_true", help="leave the queues where they are")


def _count(text: str) -> int:
    return _between(text, 1, 1_000_000_000)


def _credit(text: str) -> int:
    return _between(text, 1, 65_535)


def _batch(text: str) -> int:
    return _between(text, 1, 65_536)


def _size(text: str) -> int:
    return _between(text, 0, BODY_BYTES_MAX)


def _between(text: str, low: int, high: int) -> int:
    if not text.isdecimal() or not low <= int(text) <= high:
        raise argparse.ArgumentTypeError(f"{text}: allowed: whole numbers from {low} to {high}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not SECONDS_MIN <= value <= SECONDS_MAX:
        allowed = f"{SECONDS_MIN} to {SECONDS_MAX}"
        raise argparse.ArgumentTypeError(f"{text}: allowed: {allowed}")
    return value
