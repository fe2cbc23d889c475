"""`warren declare`, `publish`, `get` and `tail`: a broker tried out from the shell, as its client.

    warren declare queue orders --type quorum
    warren publish orders 'one apple'
    warren get orders
    warren tail --exchange amq.topic --key 'orders.#'

Exit codes: 0; 1: the broker refused something, or a message was not accepted; 64: wrong options;
69: the broker cannot be reached.
"""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Final, TextIO
from urllib.parse import quote

from node.cli.try_arguments import URL_DEFAULT, URL_VARIABLE
from warren.client import (
    ClientError,
    Connection,
    Consumer,
    Delivery,
    Message,
    Publisher,
    connect,
)
from warren.wire.amqp10.codec.values import Described, Symbol, ULong

EXIT_REFUSED: Final = 1
EXIT_USAGE: Final = 64
EXIT_UNAVAILABLE: Final = 69
BATCH: Final = 256  # messages that wait for their outcomes
CREDIT: Final = 100
OFFSET_FILTER: Final = "rabbitmq:stream-offset-spec"


class UsageError(Exception):
    """Options that do not go together; the text says which."""


class NotAccepted(Exception):
    """The broker did not accept a message; the text says what it did instead."""


def main(options: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Run the command; the exit code."""
    url = options.url or os.environ.get(URL_VARIABLE) or URL_DEFAULT
    try:
        asyncio.run(_run(options, url, out))
    except (UsageError, ValueError) as error:
        print(f"warren: {error}", file=err)
        return EXIT_USAGE
    except (ClientError, NotAccepted) as error:
        print(f"warren: {error}", file=err)
        return EXIT_REFUSED
    except (OSError, TimeoutError) as error:
        where = url.rpartition("@")[2]
        print(f"warren: no broker answers at {where}: {error or 'timeout'}", file=err)
        return EXIT_UNAVAILABLE
    except KeyboardInterrupt:
        return 0
    return 0


async def _run(options: argparse.Namespace, url: str, out: TextIO) -> None:
    check(options)
    async with await connect(url) as connection:
        if options.command == "declare":
            await declare(connection, options, out)
        elif options.command == "publish":
            await publish(connection, options, out)
        elif options.command == "get":
            await get(connection, options, out)
        else:
            await tail(connection, options, out)


def check(options: argparse.Namespace) -> None:
    """UsageError: options that do not go together."""
    if options.command == "publish" and options.exchange is not None and options.body is not None:
        raise UsageError("with --exchange give the body alone: warren publish --exchange E BODY")
    if options.command in ("publish", "tail"):
        has_queue = options.queue is not None
        if options.command == "publish" and options.exchange is not None:
            return  # The word after it is the body.
        if has_queue == (options.exchange is not None):
            raise UsageError("name a queue, or --exchange, and not both")


async def declare(connection: Connection, options: argparse.Namespace, out: TextIO) -> None:
    """Declare what is named; nothing happens if it is there with the same properties."""
    arguments = dict(options.argument)
    management = await connection.management()
    if options.kind == "queue":
        arguments.setdefault("x-queue-type", options.type)
        await management.declare_queue(options.name, arguments=arguments)
        print(f"queue {options.name}: {arguments['x-queue-type']}", file=out)
    elif options.kind == "exchange":
        await management.declare_exchange(options.name, options.type, arguments=arguments)
        print(f"exchange {options.name}: {options.type}", file=out)
    else:
        await management.bind(
            options.source, queue=options.name, key=options.key, arguments=arguments
        )
        print(f"binding {options.source} -> {options.name}, key {options.key!r}", file=out)


# Publishing


async def publish(connection: Connection, options: argparse.Namespace, out: TextIO) -> None:
    """Publish all bodies and wait for the outcomes. NotAccepted: of the first that was refused."""
    address = address_of(options)
    publisher = await connection.publisher(address)
    done = 0
    batch: list[Message] = []
    for body in bodies_of(options, sys.stdin):
        batch.append(message_of(options, body))
        if len(batch) == BATCH:
            done += await _send(publisher, batch, done)
            batch = []
    done += await _send(publisher, batch, done)
    print(f"{done} message{'s' * (done != 1)} accepted by {address}", file=out)


async def _send(publisher: Publisher, batch: list[Message], done: int) -> int:
    outcomes = await asyncio.gather(*(publisher.publish(each) for each in batch))
    for place, outcome in enumerate(outcomes, done + 1):
        if not outcome.is_accepted:
            why = outcome.error or (
                "no queue took it" if outcome.kind == "released" else outcome.kind
            )
            raise NotAccepted(f"message {place} was {outcome.kind}: {why}")
    return len(outcomes)


def address_of(options: argparse.Namespace) -> str:
    """AMQP 1.0 address of the target."""
    if options.exchange is None:
        return f"/queues/{quote(options.queue, '')}"
    exchange = f"/exchanges/{quote(options.exchange, '')}"
    return f"{exchange}/{quote(options.key, '')}" if options.key else exchange


def bodies_of(options: argparse.Namespace, lines: Iterable[str]) -> Iterator[bytes]:
    """Those of the command line, or one for each line of standard input."""
    body = options.body if options.exchange is None else options.queue
    if body is None:
        for line in lines:
            yield line.removesuffix("\n").encode()
        return
    for number in range(1, options.count + 1):
        yield body.replace("{n}", str(number)).encode()


def message_of(options: argparse.Namespace, body: bytes) -> Message:
    return Message(
        body,
        durable=not options.transient,
        priority=options.priority,
        ttl_ms=options.ttl,
        message_id=options.message_id,
        correlation_id=options.correlation_id,
        reply_to=options.reply_to,
        content_type=options.content_type,
        application_properties=dict(options.header),
    )


# Receiving


async def get(connection: Connection, options: argparse.Namespace, out: TextIO) -> None:
    """Print up to `count` messages of a queue; they leave it, unless they are to be kept."""
    management = await connection.management()
    if (await management.queue(options.queue)).get("type") == "stream":
        raise UsageError(
            f"queue {options.queue} is a stream, from which no message is taken: "
            f"warren tail {options.queue} --offset first"
        )
    consumer = await connection.consumer(f"/queues/{quote(options.queue, '')}", credit=0)
    held: list[Delivery] = []
    left = options.count
    while left > 0:
        found = await consumer.receive(min(left, CREDIT), timeout_s=options.wait)
        for each in found:
            show(each, options, out)
            if options.keep:
                held.append(each)
            else:
                each.accept()
        left -= len(found)
        if len(found) < min(left + len(found), CREDIT):
            break
    for each in held:
        each.release()
    await consumer.close()


async def tail(connection: Connection, options: argparse.Namespace, out: TextIO) -> None:
    """Print messages as they come."""
    consumer = await (
        _of_exchange(connection, options)
        if options.exchange is not None
        else _of_queue(connection, options)
    )
    left = options.count
    while left is None or left > 0:
        delivery = await consumer.get()
        show(delivery, options, out)
        delivery.accept()
        left = None if left is None else left - 1
    await consumer.close()


async def _of_exchange(connection: Connection, options: argparse.Namespace) -> Consumer:
    """A consumer of a queue that is bound to the exchange and goes with the connection."""
    management = await connection.management()
    name = f"warren.tail.{os.getpid()}.{os.urandom(4).hex()}"
    await management.declare_queue(name, durable=False, exclusive=True, auto_delete=True)
    await management.bind(options.exchange, queue=name, key=options.key)
    return await connection.consumer(f"/queues/{name}", credit=CREDIT)


async def _of_queue(connection: Connection, options: argparse.Namespace) -> Consumer:
    management = await connection.management()
    kind = (await management.queue(options.queue)).get("type")
    if kind != "stream" and not options.take:
        raise UsageError(
            f"queue {options.queue} is of type {kind}: its messages would leave it; say --take to "
            "consume them, or use warren get --keep"
        )
    filters: dict[object, object] | None = None
    if kind == "stream":
        offset = options.offset
        value = ULong(offset) if isinstance(offset, int) else offset
        filters = {Symbol(OFFSET_FILTER): Described(Symbol(OFFSET_FILTER), value)}
    return await connection.consumer(
        f"/queues/{quote(options.queue, '')}", credit=CREDIT, filters=filters
    )


def show(delivery: Delivery, options: argparse.Namespace, out: TextIO) -> None:
    """Print one message: its body, or all of it as JSON."""
    message = delivery.message
    body = text_of(message.body)
    print(json.dumps(fields_of(message, body)) if options.json else body, file=out, flush=True)


def text_of(body: object) -> str:
    """Bytes that are no text are shown as `\\x..`."""
    if isinstance(body, (bytes, bytearray)):
        return bytes(body).decode("utf-8", "backslashreplace")
    return body if isinstance(body, str) else json.dumps(plain(body))


def fields_of(message: Message, body: str) -> dict[str, object]:
    """What is set of a message."""
    fields: dict[str, object] = {"body": body, "durable": message.durable}
    for name in (
        *("message_id", "correlation_id", "subject", "reply_to", "content_type", "priority"),
        *("ttl_ms", "delivery_count", "annotations", "application_properties"),
    ):
        value = getattr(message, name)
        if value not in (None, 0, {}):
            fields[name] = plain(value)
    return fields


def plain(value: object) -> object:
    """A value of AMQP as JSON has it."""
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, (bytes, bytearray)):
        return text_of(value)
    return value if value is None or isinstance(value, (bool, int, str, float)) else str(value)
