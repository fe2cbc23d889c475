"""An asyncio client for AMQP 0-9-1 brokers, in the shape of the one for AMQP 1.0.

    from warren.client import amqp091

    async with await amqp091.connect("amqp://guest:guest@localhost:5672") as connection:
        management = await connection.management()
        await management.declare_queue("orders", arguments={"x-queue-type": "quorum"})
        publisher = await connection.publisher("", "orders")
        outcome = await publisher.publish(amqp091.Message(b"one apple"))
        assert outcome.is_accepted
        consumer = await connection.consumer("orders", credit=100)
        async for delivery in consumer:
            print(delivery.message.body)
            delivery.accept()

Every publisher, consumer and management has a channel to itself: a refused request closes one
channel, and the others go on. With `reconnect=True` a lost connection is reopened, with all its
channels and consumers. What waits here is limited: messages to be sent by `waiting_max`, those
without a confirm by `window`, deliveries by `credit`. `on_blocked` tells of alarms of the broker.
"""

from warren.client.amqp091.connection import Connection, connect
from warren.client.amqp091.consumer import Consumer, Delivery
from warren.client.amqp091.errors import ReplyError
from warren.client.amqp091.management import Management, QueueCounts
from warren.client.amqp091.message import Message
from warren.client.amqp091.publisher import Publisher
from warren.client.errors import (
    ClientError,
    ConnectionLost,
    LoginFailed,
    PublisherFull,
    RequestFailed,
)
from warren.client.outcome import Outcome

__all__ = [
    "ClientError",
    "Connection",
    "ConnectionLost",
    "Consumer",
    "Delivery",
    "LoginFailed",
    "Management",
    "Message",
    "Outcome",
    "Publisher",
    "PublisherFull",
    "QueueCounts",
    "ReplyError",
    "RequestFailed",
    "connect",
]
