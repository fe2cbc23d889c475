"""A small asyncio client for AMQP 1.0 brokers, on the broker's own protocol cores.

    from warren.client import Message, connect

    async with await connect("amqp://guest:guest@localhost:5672") as connection:
        management = await connection.management()
        await management.declare_queue("orders", arguments={"x-queue-type": "quorum"})
        publisher = await connection.publisher("/queues/orders")
        outcome = await publisher.publish(Message(b"one apple"))
        assert outcome.is_accepted
        consumer = await connection.consumer("/queues/orders", credit=100)
        async for delivery in consumer:
            print(delivery.message.body)
            delivery.accept()

Links have their own credit, so that a slow queue slows nothing else: `Publisher.publish` waits for
the outcome, `Consumer.pause` and `resume` stop and go, `Consumer.receive` takes what is there
within a time, by drain. `on_link_state` tells what the broker says of a link: where the leader is,
whether a consumer is the active one; in a cluster links move to the leaders of their queues by
themselves (`follow`). With `reconnect=True` a lost connection is reopened, with all its links.
Needs nothing but the standard library; on uvloop, if the program runs on it.
"""

from warren.client.connection import Connection, connect
from warren.client.consumer import Consumer, Delivery
from warren.client.errors import (
    ClientError,
    ConnectionLost,
    LoginFailed,
    PeerError,
    PublisherFull,
    RequestFailed,
)
from warren.client.following import Follow
from warren.client.management import Management
from warren.client.message import Message
from warren.client.outcome import Outcome
from warren.client.publisher import Publisher
from warren.client.state import LinkState

__all__ = [
    "ClientError",
    "Connection",
    "ConnectionLost",
    "Consumer",
    "Delivery",
    "Follow",
    "LinkState",
    "LoginFailed",
    "Management",
    "Message",
    "Outcome",
    "PeerError",
    "Publisher",
    "PublisherFull",
    "RequestFailed",
    "connect",
]
