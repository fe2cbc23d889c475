"""What the tests of queue options share: queues of either kind, publishes with properties.

Their expectations were proven against RabbitMQ 4.0.5 (`WARREN_TEST_URL`). Where Warren is meant to
do otherwise, the test asks for `own_broker` and a comment says what RabbitMQ does.
"""

import time
from typing import Any

import pika
import pika.exceptions
import pytest

from tests.conformance.broker import settle_down

both_kinds = pytest.mark.parametrize("kind", ["classic", "quorum"])

Arguments = dict[str, Any]


def declare(
    channel: Any, name: str, kind: str = "classic", arguments: Arguments | None = None
) -> str:
    """Declare a durable queue of this kind; its name."""
    channel.queue_declare(name, durable=True, arguments={"x-queue-type": kind, **(arguments or {})})
    return name


def exclusive_queue(channel: Any) -> str:
    """Declare a queue that goes with the connection; its name."""
    return str(channel.queue_declare("", exclusive=True).method.queue)


def onward(target: str) -> Arguments:
    """Arguments that dead-letter through the default exchange to the queue `target`."""
    return {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": target}


def publish(channel: Any, queue: str, body: bytes, **properties: Any) -> None:
    """Publish one persistent message through the default exchange and wait for its confirm."""
    channel.confirm_delivery()
    sent = pika.BasicProperties(delivery_mode=2, **properties)
    channel.basic_publish("", queue, body, sent, mandatory=True)


def pass_time(channel: Any, seconds: float) -> None:
    """Serve the connection until so much time has passed, where time itself is the condition."""
    end = time.monotonic() + seconds
    settle_down(channel, lambda: time.monotonic() >= end)


def is_there(channel: Any, queue: str) -> bool:
    """Whether the queue exists, found out by a binding: that renews no lease of the queue."""
    asking = channel.connection.channel()
    try:
        asking.queue_bind(queue, "amq.direct", f"{queue} is there")
    except pika.exceptions.ChannelClosedByBroker as error:
        assert error.reply_code == 404
        return False
    asking.close()
    return True


def fields(table: Arguments, *names: str) -> tuple[Any, ...]:
    """These fields of a header table, None where one is missing."""
    return tuple(table.get(name) for name in names)
