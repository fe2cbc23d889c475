"""What the tests ask of python-qpid-proton again and again: blocking links, and what they saw."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import proton
import pytest
from proton.utils import BlockingConnection, LinkDetached, SendException

from tests.conformance.broker import PATIENCE_SECONDS, Broker

ACCEPTED: Final = proton.Delivery.ACCEPTED
RELEASED: Final = proton.Delivery.RELEASED
REJECTED: Final = proton.Delivery.REJECTED
MODIFIED: Final = proton.Delivery.MODIFIED
NOT_FOUND: Final = "amqp:not-found"


def connect10(broker: Broker, user: str = "guest", **options: Any) -> Any:
    """A blocking connection; close it."""
    url = f"amqp://{user}:{user}@{broker.host}:{broker.port}"
    return BlockingConnection(url, timeout=PATIENCE_SECONDS, allowed_mechs="PLAIN", **options)


def body_of(message: Any) -> bytes:
    """The payload of a data section, or of a text as a value."""
    body = message.body
    return body.encode() if isinstance(body, str) else bytes(body)


def data_message(body: bytes, **options: Any) -> Any:
    """A message with one data section."""
    return proton.Message(body=body, inferred=True, **options)


def take10(receiver: Any, count: int) -> list[Any]:
    """So many messages, accepted."""
    messages = []
    for _ in range(count):
        messages.append(receiver.receive(timeout=PATIENCE_SECONDS))
        receiver.accept()
    return messages


@contextmanager
def link_refused(condition: str) -> Iterator[None]:
    """The broker refuses the link in here, or detaches it."""
    with pytest.raises(LinkDetached) as caught:
        yield
    assert caught.value.condition == condition


def outcome_of(sender: Any, message: Any) -> int:
    """What the broker said of a message."""
    try:
        return int(sender.send(message, timeout=PATIENCE_SECONDS).remote_state)
    except SendException as refused:
        return int(refused.state)
