"""The options of `warren bench`. Reads arguments alone: nothing of broker or client is imported."""

import argparse
from typing import Final

AMQP_091: Final = "0.9.1"
AMQP_10: Final = "1.0"
TWO_SENDERS: Final = "two-senders"
ONE_SENDER_ONE_RECEIVER: Final = "one-sender-one-receiver"

HOST: Final = "127.0.0.1"
PORT: Final = 5672
SECONDS_OVERVIEW: Final = 3.0
SECONDS_LOAD: Final = 10.0

QUEUE_TYPES: Final = ("classic", "quorum")
BODY_BYTES_MAX: Final = 16 * 1024 * 1024
SECONDS_MIN: Final = 0.1
SECONDS_MAX: Final = 3600.0


def add_arguments(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare `bench` and its two loads."""
    bench = commands.add_parser(
        "bench",
        help="measure a broker; with a LOAD, what links of one connection do to each other",
        description="Without a LOAD: a table of a few shapes in under 30 s. Without --port, and if "
        "nothing listens on 127.0.0.1:5672, a temporary node is started for it.",
        allow_abbrev=False,
    )
    _add_broker(bench, {"host": HOST, "user": "guest", "password": "guest", "vhost": "/"})
    loads = bench.add_subparsers(dest="load", metavar="LOAD")
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


def _add_broker(parser: argparse.ArgumentParser, defaults: dict[str, str] | None = None) -> None:
    """Declare the options that may stand before and after LOAD; the last one given counts.

    Only `bench` itself has defaults: those of a load would replace what was given before it.
    """
    add = parser.add_argument
    for name in ("host", "user", "password", "vhost"):
        add(f"--{name}", default=defaults[name] if defaults else argparse.SUPPRESS)
    missing = None if defaults else argparse.SUPPRESS
    add("--port", type=_count, default=missing, help=f"default: {PORT}")
    seconds = f"of each measurement; default: {SECONDS_OVERVIEW:g}, with a LOAD {SECONDS_LOAD:g}"
    add("--seconds", metavar="S", type=_seconds, default=missing, help=seconds)
    size = 12 if defaults else argparse.SUPPRESS
    add("--size", metavar="BYTES", type=_size, default=size, help="of a body; default: 12")
    json = False if defaults else argparse.SUPPRESS
    add("--json", action="store_true", default=json, help="one JSON object instead of a table")


def _add_common(parser: argparse.ArgumentParser) -> None:
    _add_broker(parser)
    add = parser.add_argument
    add(
        "--protocol",
        choices=(AMQP_091, AMQP_10, "both"),
        default="both",
        help="both: one after the other",
    )
    add("--together", action="store_true", help="both at the same time, as two connections")
    add("--fast", choices=QUEUE_TYPES, default="classic", help="type of the fast queue")
    add("--slow", choices=QUEUE_TYPES, default="quorum", help="type of the slow queue")
    add("--alone", action="store_true", help="first the fast link without the slow one")
    add("--compare", metavar="HOST:PORT", help="then the same on another broker")
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
