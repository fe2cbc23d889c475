"""Queues that expire when they are unused, with pika: x-expires."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from pika.exceptions import ChannelClosedByBroker, UnroutableError

from tests.conformance.broker import (
    Broker,
    Inbox,
    channel_closed,
    drain,
    numbered,
    publish_all,
    ready_count,
    settle_down,
)
from tests.conformance.options import (
    both_kinds,
    declare,
    exclusive_queue,
    is_there,
    onward,
    pass_time,
    publish,
)
from tests.waiting import TRIES, within

LEASE_MS = 200
LEASE_SECONDS = LEASE_MS / 1000
RENEWED_MS = 400  # Longer, for a slow machine must not miss a renewal.
RENEWED_SECONDS = RENEWED_MS / 1000
LATE_SECONDS = 15.0
YEARS_10_MS = 315_360_000_000


def declare_leased(channel: Any, name: str, kind: str, **more: Any) -> None:
    declare(channel, name, kind, {"x-expires": LEASE_MS, **more})


def wait_until_gone(channel: Any, name: str, begun: float | None = None) -> float:
    """Seconds until the queue is gone, since `begun` or now; asking does not keep it."""
    begun = time.monotonic() if begun is None else begun
    settle_down(channel, lambda: not is_there(channel, name))
    return time.monotonic() - begun


@both_kinds
def test_a_queue_that_nobody_uses_goes_when_its_time_is_over_and_not_before(
    channel: Any, connection: Any, name: str, kind: str
) -> None:
    begun = time.monotonic()
    declare_leased(channel, name, kind)
    assert LEASE_SECONDS - 0.02 <= wait_until_gone(channel, name, begun) < LATE_SECONDS
    with channel_closed(404, f"NOT_FOUND - no queue '{name}' in vhost '/'"):
        channel.queue_declare(name, passive=True)
    declare(connection.channel(), name, kind)


@both_kinds
def test_messages_in_the_queue_do_not_keep_it_and_are_not_dead_lettered(
    channel: Any, name: str, kind: str
) -> None:
    graves = exclusive_queue(channel)
    declare(channel, name, kind, {"x-expires": 2 * RENEWED_MS, **onward(graves)})
    publish_all(channel, name, numbered(3))
    wait_until_gone(channel, name)
    publish(channel, graves, b"a mark behind all that")
    assert drain(channel, graves) == [b"a mark behind all that"]


@both_kinds
def test_a_consumer_keeps_the_queue_until_it_is_cancelled(
    channel: Any, name: str, kind: str
) -> None:
    declare(channel, name, kind, {"x-expires": RENEWED_MS})
    inbox = Inbox(channel, name, auto_ack=True)
    pass_time(channel, 1.5 * RENEWED_SECONDS)
    publish(channel, name, b"still there")
    inbox.wait(1)
    begun = time.monotonic()
    channel.basic_cancel(inbox.consumer_tag)
    assert RENEWED_SECONDS - 0.02 <= wait_until_gone(channel, name, begun) < LATE_SECONDS


@both_kinds
def test_a_consumer_whose_connection_ends_keeps_the_queue_no_longer(
    channel: Any, connect: Any, name: str, kind: str
) -> None:
    consuming = connect()
    declare_leased(consuming.channel(), name, kind)
    Inbox(consuming.channel(), name)
    pass_time(channel, 2 * LEASE_SECONDS)
    assert is_there(channel, name)
    consuming.close()
    wait_until_gone(channel, name)


def renew(channel: Any, act: Callable[[], object]) -> bool:
    """Act for two leases; whether the machine let that come often enough to keep the queue."""
    begun = renewed = time.monotonic()
    longest = 0.0
    while renewed - begun < 2 * RENEWED_SECONDS:
        pass_time(channel, RENEWED_SECONDS / 8)
        act()
        longest = max(longest, time.monotonic() - renewed)
        renewed = time.monotonic()
    return longest < 0.9 * RENEWED_SECONDS


def is_kept_by(channel: Any, name: str, kind: str, act: Callable[[], object]) -> bool:
    """Whether the queue is still the first of its name after two leases of that."""
    for _ in range(TRIES):
        declare(channel, name, kind, {"x-expires": RENEWED_MS})
        publish(channel, name, b"the first queue of this name")
        began = time.monotonic()
        in_time = renew(channel, act)
        kept = is_there(channel, name) and ready_count(channel.connection.channel(), name) == 1
        if kept or (in_time and time.monotonic() - began < 3 * RENEWED_SECONDS):
            return kept
        channel.queue_delete(name)
    pytest.skip("the machine is too busy to renew a lease in time")


@both_kinds
def test_each_get_renews_the_lease(channel: Any, name: str, kind: str) -> None:
    def get() -> None:
        asking = channel.connection.channel()
        with suppress(ChannelClosedByBroker):  # It is gone: told by who calls this.
            asking.basic_get(name)
            asking.close()  # The message goes back.

    assert is_kept_by(channel, name, kind, get)
    assert wait_until_gone(channel, name) < LATE_SECONDS


def is_kept_by_declares(channel: Any, name: str, kind: str) -> bool:
    def declare_again() -> None:
        declaring = channel.connection.channel()
        with suppress(ChannelClosedByBroker):  # It goes just then.
            declare(declaring, name, kind, {"x-expires": RENEWED_MS})
            declaring.close()

    return is_kept_by(channel, name, kind, declare_again)


def test_each_declare_renews_the_lease(channel: Any, name: str) -> None:
    assert is_kept_by_declares(channel, name, "classic")
    assert wait_until_gone(channel, name) < LATE_SECONDS


def test_each_declare_renews_the_lease_of_a_quorum_queue(
    own_broker: Broker, channel: Any, name: str
) -> None:
    # RabbitMQ 4.0 lets it go all the same.
    assert is_kept_by_declares(channel, name, "quorum")
    assert wait_until_gone(channel, name) < LATE_SECONDS


@both_kinds
def test_publishes_do_not_renew_the_lease(channel: Any, name: str, kind: str) -> None:
    def take() -> float:
        begun = time.monotonic()
        declare(channel, name, kind, {"x-expires": 3 * LEASE_MS})
        with suppress(UnroutableError):  # It is gone sooner than a busy machine publishes.
            for _ in range(5):
                publish(channel, name, b"1")
                pass_time(channel, LEASE_SECONDS / 2)
        wait_until_gone(channel, name)
        return time.monotonic() - begun

    within(4.5 * LEASE_SECONDS, take)  # The last publish is two leases after the declare.


@both_kinds
def test_bindings_go_with_the_queue(channel: Any, connection: Any, name: str, kind: str) -> None:
    channel.exchange_declare(name, "fanout")
    declare_leased(channel, name, kind)
    channel.queue_bind(name, name)
    wait_until_gone(channel, name)
    channel.exchange_delete(name, if_unused=True)


@both_kinds
def test_a_lease_must_be_above_0_and_at_most_ten_years(
    connection: Any, name: str, kind: str
) -> None:
    wrong = {
        0: "{value_zero,0}",
        -1: "{value_negative,-1}",
        YEARS_10_MS + 1: f"{{value_too_large,{YEARS_10_MS + 1}}}",
    }
    for value, reason in wrong.items():
        text = f"invalid arg 'x-expires' for queue '{name}' in vhost '/': {reason}"
        with channel_closed(406, f"PRECONDITION_FAILED - {text}"):
            declare(connection.channel(), name, kind, {"x-expires": value})


@both_kinds
def test_a_queue_without_a_lease_stays(channel: Any, name: str, kind: str) -> None:
    declare(channel, name, kind)
    other = f"{name}-leased"
    declare_leased(channel, other, kind)
    wait_until_gone(channel, other)
    assert ready_count(channel, name) == 0
