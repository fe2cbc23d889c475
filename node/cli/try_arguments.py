"""The options of `warren declare`, `publish`, `get` and `tail`. Nothing of a client is imported."""

import argparse
import json
from typing import Final

URL_VARIABLE: Final = "WARREN_URL"
URL_DEFAULT: Final = "amqp://guest:guest@127.0.0.1:5672/%2F"
COUNT_MAX: Final = 1_000_000_000
WAIT_S_MAX: Final = 86_400.0
QUEUE_TYPES: Final = ("classic", "quorum", "stream")
COMMANDS: Final = frozenset({"declare", "publish", "get", "tail"})


def add_arguments(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the commands that try out a broker as its client."""
    _add_declare(commands)
    _add_publish(commands)
    _add_get(commands)
    _add_tail(commands)


def _command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, words: str
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=words, description=words, allow_abbrev=False)
    parser.add_argument(
        "--url",
        metavar="URL",
        help=f"of the broker; default: ${URL_VARIABLE}, or {URL_DEFAULT.replace('%', '%%')}",
    )
    return parser


def _add_declare(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    declare = commands.add_parser(
        "declare", help="declare a queue, an exchange or a binding", allow_abbrev=False
    )
    kinds = declare.add_subparsers(dest="kind", metavar="KIND", required=True)
    queue = _command(kinds, "queue", "declare a durable queue")
    queue.add_argument("name", metavar="QUEUE")
    queue.add_argument("--type", choices=QUEUE_TYPES, default="classic", help="default: classic")
    exchange = _command(kinds, "exchange", "declare a durable exchange")
    exchange.add_argument("name", metavar="EXCHANGE")
    exchange.add_argument("--type", default="direct", help="direct, fanout, topic, headers, ...")
    binding = _command(kinds, "binding", "bind a queue to an exchange")
    binding.add_argument("source", metavar="EXCHANGE")
    binding.add_argument("name", metavar="QUEUE")
    binding.add_argument("--key", default="", help="binding key; default: empty")
    for each in (queue, exchange, binding):
        each.add_argument(
            "--argument",
            metavar="KEY=VALUE",
            type=_pair,
            action="append",
            default=[],
            help="VALUE is JSON, or else text: x-max-length=1000; may be given again",
        )


def _add_publish(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    publish = _command(commands, "publish", "publish messages, and wait for their confirms")
    publish.add_argument("queue", metavar="QUEUE", nargs="?", help="or use --exchange")
    publish.add_argument(
        "body", metavar="BODY", nargs="?", help="default: each line of standard input is a message"
    )
    publish.add_argument("--exchange", metavar="EXCHANGE", help="publish to an exchange")
    publish.add_argument("--key", default="", help="routing key for --exchange")
    publish.add_argument(
        "--count", type=_count, default=1, help="so many; {n} in BODY is the number; default: 1"
    )
    publish.add_argument(
        "--header",
        metavar="KEY=VALUE",
        type=_pair,
        action="append",
        default=[],
        help="VALUE is JSON, or else text; may be given again",
    )
    publish.add_argument("--content-type", metavar="TYPE")
    publish.add_argument("--message-id", metavar="ID")
    publish.add_argument("--correlation-id", metavar="ID")
    publish.add_argument("--reply-to", metavar="QUEUE")
    publish.add_argument("--priority", type=_priority, metavar="0..255")
    publish.add_argument("--ttl", type=_count, metavar="MS", help="time to live in milliseconds")
    publish.add_argument("--transient", action="store_true", help="need not survive a restart")


def _add_get(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    get = _command(commands, "get", "take messages from a queue and print them")
    get.add_argument("queue", metavar="QUEUE")
    get.add_argument("--count", type=_count, default=1, help="at most so many; default: 1")
    get.add_argument("--keep", action="store_true", help="put them back when all are printed")
    get.add_argument(
        "--wait", type=_seconds, default=1.0, metavar="SECONDS", help="for messages; default: 1"
    )
    _add_output(get)


def _add_tail(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    tail = _command(
        commands,
        "tail",
        "print messages as they come: of a stream, or copies of what an exchange gets",
    )
    tail.add_argument("queue", metavar="STREAM", nargs="?", help="or use --exchange")
    tail.add_argument("--exchange", metavar="EXCHANGE", help="what is published to an exchange")
    tail.add_argument("--key", default="#", help="binding key for --exchange; default: #")
    tail.add_argument(
        "--offset",
        default="next",
        type=_offset,
        help="first, last, next, a number, or an interval such as 1h; default: next",
    )
    tail.add_argument("--count", type=_count, help="end after so many")
    tail.add_argument("--take", action="store_true", help="consume a queue that is not a stream")
    _add_output(tail)


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON object for each message")


def _pair(text: str) -> tuple[str, object]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r}: expected KEY=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _count(text: str) -> int:
    return _between(text, 1, COUNT_MAX)


def _priority(text: str) -> int:
    return _between(text, 0, 255)


def _between(text: str, low: int, high: int) -> int:
    if not text.isdecimal() or not low <= int(text) <= high:
        raise argparse.ArgumentTypeError(f"{text}: allowed: whole numbers from {low} to {high}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= WAIT_S_MAX:
        raise argparse.ArgumentTypeError(f"{text}: allowed: numbers from 0 to {WAIT_S_MAX:g}")
    return value


def _offset(text: str) -> object:
    return int(text) if text.isdecimal() else text
