"""Commands that look at messages of a queue, send dead letters back, and pass over bad ones."""

import sys
from typing import Final, TextIO

from node.cli.api import EXIT_UNAVAILABLE, Api, ApiFailure
from node.cli.progress import Bar, Progress, wants_bar
from node.cli.verbs import (
    Argument,
    BadCall,
    Body,
    Commands,
    Options,
    Verb,
    parsed_object,
    path,
    show_facts,
    whole,
)


def peek(api: Api, options: Options, out: TextIO) -> None:
    """The message at a position, from 1; it stays where and as it is."""
    position = whole(options.position)
    if position < 1:
        raise BadCall("the first position is 1")
    body = {"offset": position - 1, "count": 1, "encoding": "auto"}
    rows = api.post(path("queues", options.vhost, options.queue, "peek"), body)
    if not isinstance(rows, list) or not rows:
        raise ApiFailure(f"the queue has no message at position {position}", EXIT_UNAVAILABLE)
    facts = {key: value for key, value in rows[0].items() if key != "position"}
    show_facts(sorted(facts.items()), options, out)


def redrive(api: Api, options: Options, out: TextIO) -> None:
    """Dead letters go back; what is printed is what became of them."""
    place = path("queues", options.vhost, options.queue, "redrive") + "?progress=true"
    bar = Bar("Redriving", sys.stderr) if wants_bar(options, sys.stderr) else None
    try:
        answer = redriven(api, place, order_of(options), bar)
    finally:
        if bar is not None:
            bar.end()
    reasons = answer.get("reasons")
    facts: list[tuple[str, object]] = [("moved", answer.get("moved")), ("kept", answer.get("kept"))]
    facts += sorted(reasons.items()) if isinstance(reasons, dict) else ()
    show_facts(facts, options, out)


def skip_unreadable(api: Api, options: Options, out: TextIO) -> None:
    """What is printed is how many messages are gone, and their numbers."""
    answer = api.post(path("queues", options.vhost, options.queue, "skip_unreadable"), {})
    facts = answer if isinstance(answer, dict) else {}
    numbers = facts.get("messages")
    shown = ", ".join(map(str, numbers)) if isinstance(numbers, list) else ""
    show_facts([("skipped", facts.get("skipped")), ("messages", shown)], options, out)


def order_of(options: Options) -> Body:
    order: dict[str, object] = {"dry_run": options.dry_run, "keep_deaths": options.keep_deaths}
    for name in ("count", "rate"):
        text = getattr(options, name)
        if text:
            order[name] = whole(text)
    if options.exchange:
        order["exchange"] = options.exchange
    if options.routing_key:
        order["exchange"] = options.exchange or "amq.default"
        order["routing_key"] = options.routing_key
    if options.filter:
        order["filter"] = parsed_object(options.filter)
    return order


def redriven(api: Api, place: str, order: Body, bar: Bar | None) -> Body:
    """The last that the node tells, which it does after every few messages."""
    count = order.get("count", 0)
    total = count if isinstance(count, int) else 0
    told: Body = {}
    for line in api.lines("POST", place, order):
        told = parsed_object(line)
        if "error" in told:
            raise ApiFailure(str(told.get("reason")), EXIT_UNAVAILABLE)
        seen = (told.get("moved"), told.get("kept"))
        if bar is not None:
            bar.show(Progress(sum(each for each in seen if isinstance(each, int)), total))
    return told


LETTERS: Final[Commands] = {
    "peek": Verb(
        "the message at a position of a queue, which stays there",
        "Peeking at queue {queue} at position {position}...",
        (Argument("queue"), Argument("position")),
        peek,
        in_vhost=True,
    ),
    "skip_unreadable": Verb(
        "take messages that cannot be read, and hold a queue up, out of it for good",
        "Skipping what cannot be read of queue {queue} in vhost {vhost} ...",
        (Argument("queue"),),
        skip_unreadable,
        in_vhost=True,
    ),
    "redrive": Verb(
        "send dead letters of a queue back to where they died, or to an exchange",
        "Redriving queue {queue} in vhost {vhost} ...",
        (
            Argument("queue"),
            Argument("--count", ""),
            Argument("--exchange", ""),
            Argument("--routing-key", ""),
            Argument("--filter", ""),
            Argument("--rate", ""),
            Argument("--dry-run", is_flag=True),
            Argument("--keep-deaths", is_flag=True),
        ),
        redrive,
        in_vhost=True,
    ),
}
