"""Dead-lettering with pika: triggers, what is republished, x-death, cycles."""

import datetime
from collections.abc import Callable
from typing import Any

import pika
import pytest

from tests.conformance.broker import (
    Broker,
    channel_closed,
    drain,
    numbered,
    publish_all,
    ready_count,
    settle_down,
    take,
    wait_until_ready,
)
from tests.conformance.options import (
    Arguments,
    both_kinds,
    declare,
    exclusive_queue,
    fields,
    onward,
    pass_time,
    publish,
)
from tests.waiting import eventually
from warren.testing.http_api import HttpApi

Connect = Callable[..., Any]

FIRST = ("x-first-death-queue", "x-first-death-reason", "x-first-death-exchange")
LAST = ("x-last-death-queue", "x-last-death-reason", "x-last-death-exchange")


@pytest.fixture
def graves(channel: Any) -> str:
    """A queue where the dead go."""
    return exclusive_queue(channel)


def reject(channel: Any, queue: str) -> None:
    """Take one message, which comes soon, and reject it."""
    wait_until_ready(channel, queue, 1)
    channel.basic_reject(take(channel, queue).delivery_tag, requeue=False)


def take_soon(channel: Any, queue: str) -> Any:
    wait_until_ready(channel, queue, 1)
    return take(channel, queue)


def deaths(message: Any) -> list[tuple[Any, ...]]:
    """Queue, reason and count of each death, the newest first."""
    return [
        fields(death, "queue", "reason", "count") for death in message.properties.headers["x-death"]
    ]


@both_kinds
def test_a_rejected_message_is_dead_lettered_with_the_story_of_its_death(
    channel: Any, name: str, graves: str, kind: str
) -> None:
    declare(channel, name, kind, onward(graves))
    channel.queue_bind(name, "amq.direct", f"{name}-key")
    channel.confirm_delivery()
    before = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    channel.basic_publish("amq.direct", f"{name}-key", b"1")
    reject(channel, name)
    headers = take_soon(channel, graves).properties.headers
    [death] = headers["x-death"]
    told = fields(death, "queue", "reason", "count", "exchange", "routing-keys")
    assert told == (name, "rejected", 1, "amq.direct", [f"{name}-key"])
    assert before <= death["time"] <= datetime.datetime.now(datetime.UTC)
    assert "original-expiration" not in death
    assert fields(headers, *FIRST) == (name, "rejected", "amq.direct")
    assert fields(headers, *LAST) == (name, "rejected", "amq.direct")


@both_kinds
def test_many_nacked_at_once_are_dead_lettered_in_their_order(
    channel: Any, name: str, graves: str, kind: str
) -> None:
    declare(channel, name, kind, onward(graves))
    publish_all(channel, name, numbered(5))
    tags = [take(channel, name).delivery_tag for _ in range(5)]
    channel.basic_nack(tags[-2], multiple=True, requeue=False)
    wait_until_ready(channel, graves, 4)
    assert drain(channel, graves) == numbered(4)


@both_kinds
def test_a_requeued_message_is_not_dead_lettered(
    channel: Any, name: str, graves: str, kind: str
) -> None:
    declare(channel, name, kind, onward(graves))
    publish(channel, name, b"1")
    channel.basic_nack(take(channel, name).delivery_tag, requeue=True)
    wait_until_ready(channel, name, 1)
    assert ready_count(channel, graves) == 0


@both_kinds
def test_an_expired_message_is_dead_lettered_without_its_expiration(
    channel: Any, name: str, graves: str, kind: str
) -> None:
    declare(channel, name, kind, onward(graves))
    publish(channel, name, b"1", expiration="50")
    dead = take_soon(channel, graves)
    assert dead.properties.expiration is None
    [death] = dead.properties.headers["x-death"]
    assert fields(death, "reason", "original-expiration", "exchange") == ("expired", "50", "")
    assert death["routing-keys"] == [name]


@both_kinds
def test_a_death_by_the_ttl_of_the_queue_tells_no_original_expiration(
    channel: Any, name: str, graves: str, kind: str
) -> None:
    declare(channel, name, kind, {"x-message-ttl": 50, **onward(graves)})
    publish(channel, name, b"1")
    [death] = take_soon(channel, graves).properties.headers["x-death"]
    assert (death["reason"], "original-expiration" in death) == ("expired", False)


@both_kinds
def test_properties_and_body_stay_as_they_were(
    channel: Any, name: str, graves: str, kind: str
) -> None:
    declare(channel, name, kind, onward(graves))
    sent = {
        "content_type": "text/plain",
        "correlation_id": "c",
        "message_id": "m",
        "priority": 3,
        "timestamp": 1_700_000_000,
        "type": "t",
        "app_id": "a",
        "reply_to": "r",
    }
    publish(channel, name, b"\x00body", headers={"mine": [1, {"two": 2}]}, **sent)
    reject(channel, name)
    dead = take_soon(channel, graves)
    assert (dead.body, dead.redelivered) == (b"\x00body", False)
    assert {key: getattr(dead.properties, key) for key in sent} == sent
    assert dead.properties.delivery_mode == 2
    assert dead.properties.headers["mine"] == [1, {"two": 2}]


@both_kinds
def test_without_a_key_of_its_own_a_dead_letter_keeps_its_routing_key(
    channel: Any, name: str, graves: str, kind: str
) -> None:
    channel.exchange_declare(name, "topic")
    channel.queue_bind(graves, name, "#")
    declare(channel, name, kind, {"x-dead-letter-exchange": name})
    publish(channel, name, b"1")
    reject(channel, name)
    dead = take_soon(channel, graves)
    assert (dead.exchange, dead.routing_key) == (name, name)


@both_kinds
def test_a_key_of_its_own_replaces_the_routing_key(
    channel: Any, name: str, graves: str, kind: str
) -> None:
    channel.exchange_declare(name, "direct")
    channel.queue_bind(graves, name, "dead")
    arguments = {"x-dead-letter-exchange": name, "x-dead-letter-routing-key": "dead"}
    declare(channel, name, kind, arguments)
    publish(channel, name, b"1")
    reject(channel, name)
    dead = take_soon(channel, graves)
    assert (dead.exchange, dead.routing_key) == (name, "dead")
    assert dead.properties.headers["x-death"][0]["routing-keys"] == [name]


@both_kinds
def test_a_dead_letter_goes_by_its_cc_keys_too_and_tells_no_bcc_keys(
    channel: Any, name: str, graves: str, kind: str
) -> None:
    channel.exchange_declare(name, "direct")
    channel.queue_bind(graves, name, "copy")
    declare(channel, name, kind, {"x-dead-letter-exchange": name})
    publish(channel, name, b"1", headers={"CC": ["copy"], "BCC": ["hidden"]})
    reject(channel, name)
    dead = take_soon(channel, graves)
    assert (dead.body, dead.routing_key) == (b"1", name)
    assert fields(dead.properties.headers, "CC", "BCC") == (["copy"], None)
    assert dead.properties.headers["x-death"][0]["routing-keys"] == [name, "copy"]


@both_kinds
def test_with_a_key_of_its_own_a_dead_letter_does_not_go_by_cc(
    channel: Any, name: str, graves: str, kind: str
) -> None:
    channel.exchange_declare(name, "direct")
    channel.queue_bind(graves, name, "dead")
    channel.queue_bind(copies := exclusive_queue(channel), name, "copy")
    arguments = {"x-dead-letter-exchange": name, "x-dead-letter-routing-key": "dead"}
    declare(channel, name, kind, arguments)
    publish(channel, name, b"1", headers={"CC": ["copy"]})
    reject(channel, name)
    wait_until_ready(channel, graves, 1)
    assert ready_count(channel, copies) == 0


@both_kinds
def test_with_a_key_of_its_own_a_dead_letter_keeps_its_cc_header(
    channel: Any, name: str, graves: str, kind: str
) -> None:
    declare(channel, name, kind, onward(graves))
    publish(channel, name, b"1", headers={"CC": ["copy"], "mine": 1})
    reject(channel, name)
    assert fields(take_soon(channel, graves).properties.headers, "CC", "mine") == (["copy"], 1)


@both_kinds
def test_one_dead_letter_may_reach_many_queues(
    channel: Any, name: str, graves: str, kind: str
) -> None:
    channel.exchange_declare(name, "fanout")
    others = [exclusive_queue(channel) for _ in range(3)]
    for queue in others:
        channel.queue_bind(queue, name)
    declare(channel, name, kind, {"x-dead-letter-exchange": name})
    publish(channel, name, b"1")
    reject(channel, name)
    assert [take_soon(channel, queue).body for queue in others] == [b"1"] * 3


@both_kinds
def test_the_alternate_of_the_dead_letter_exchange_is_asked(
    channel: Any, name: str, graves: str, kind: str
) -> None:
    alternate = f"{name}-alternate"
    channel.exchange_declare(alternate, "fanout", auto_delete=True)
    channel.queue_bind(graves, alternate)
    channel.exchange_declare(name, "direct", arguments={"alternate-exchange": alternate})
    declare(channel, name, kind, {"x-dead-letter-exchange": name})
    publish(channel, name, b"1")
    reject(channel, name)
    assert take_soon(channel, graves).body == b"1"


@both_kinds
def test_a_missing_exchange_drops_the_dead_until_it_is_there(
    channel: Any, name: str, graves: str, kind: str
) -> None:
    declare(channel, name, kind, {"x-dead-letter-exchange": name})
    publish(channel, name, b"lost")
    reject(channel, name)
    publish(channel, name, b"found")
    wait_until_ready(channel, name, 1)
    channel.exchange_declare(name, "fanout")
    channel.queue_bind(graves, name)
    reject(channel, name)
    wait_until_ready(channel, graves, 1)
    assert drain(channel, graves) == [b"found"]


@both_kinds
def test_neither_a_purge_nor_a_delete_of_the_queue_dead_letters(
    channel: Any, name: str, graves: str, kind: str
) -> None:
    declare(channel, name, kind, onward(graves))
    publish_all(channel, name, numbered(3))
    assert channel.queue_purge(name).method.message_count == 3
    publish_all(channel, name, numbered(3))
    take(channel, name)
    channel.queue_delete(name)
    publish(channel, graves, b"a mark behind all that")
    assert drain(channel, graves) == [b"a mark behind all that"]


@both_kinds
def test_a_message_without_a_dead_letter_exchange_is_dropped(
    channel: Any, name: str, kind: str
) -> None:
    declare(channel, name, kind)
    publish(channel, name, b"1")
    reject(channel, name)
    wait_until_ready(channel, name, 0)


def retrying(channel: Any, work: str, rest: str, kind: str, ttl_ms: int = 30) -> None:
    """Two queues: `work` rejects into `rest`, which gives back after its TTL."""
    declare(channel, work, kind, onward(rest))
    declare(channel, rest, kind, {"x-message-ttl": ttl_ms, **onward(work)})


@both_kinds
def test_deaths_are_counted_per_queue_and_reason_the_newest_first(
    channel: Any, name: str, kind: str
) -> None:
    rest = f"{name}-rest"
    retrying(channel, name, rest, kind)
    publish(channel, name, b"1")
    for count in (1, 2, 3):
        reject(channel, name)
        message = take_soon(channel, name)
        assert deaths(message) == [(rest, "expired", count), (name, "rejected", count)]
        headers = message.properties.headers
        assert fields(headers, *FIRST) == (name, "rejected", "")
        assert fields(headers, *LAST) == (rest, "expired", "")
        channel.basic_nack(message.delivery_tag, requeue=True)
    channel.queue_delete(rest)


@both_kinds
def test_two_reasons_of_one_queue_are_two_deaths(
    channel: Any, name: str, graves: str, kind: str
) -> None:
    declare(channel, name, kind, {"x-dead-letter-exchange": ""})
    publish(channel, name, b"1")
    reject(channel, name)
    again = take_soon(channel, name)
    assert deaths(again) == [(name, "rejected", 1)]
    channel.basic_reject(again.delivery_tag, requeue=False)
    assert deaths(take_soon(channel, name)) == [(name, "rejected", 2)]


@both_kinds
def test_a_cycle_without_a_rejection_is_cut(channel: Any, name: str, kind: str) -> None:
    rest = f"{name}-rest"
    declare(channel, rest, kind, {"x-message-ttl": 30, **onward(name)})
    declare(channel, name, kind, {"x-message-ttl": 30, **onward(rest)})
    publish(channel, name, b"1")
    settle_down(channel, lambda: ready_count(channel, name) + ready_count(channel, rest) == 0)
    pass_time(channel, 0.15)
    assert ready_count(channel, name) + ready_count(channel, rest) == 0
    channel.queue_delete(rest)


@both_kinds
def test_a_queue_that_expires_into_itself_drops_the_message(
    channel: Any, name: str, kind: str
) -> None:
    declare(channel, name, kind, {"x-message-ttl": 30, "x-dead-letter-exchange": ""})
    publish(channel, name, b"1")
    wait_until_ready(channel, name, 0)
    pass_time(channel, 0.1)
    assert ready_count(channel, name) == 0


def test_a_full_queue_that_drops_into_itself_drops_the_message(channel: Any, name: str) -> None:
    declare(channel, name, arguments={"x-max-length": 1, "x-dead-letter-exchange": ""})
    publish_all(channel, name, numbered(3))
    wait_until_ready(channel, name, 1)
    assert drain(channel, name) == [b"3"]


@both_kinds
def test_a_cycle_with_a_rejection_goes_round(channel: Any, name: str, kind: str) -> None:
    declare(channel, name, kind, {"x-dead-letter-exchange": ""})
    publish(channel, name, b"1")
    for _ in range(5):
        reject(channel, name)
    assert deaths(take_soon(channel, name)) == [(name, "rejected", 5)]


@both_kinds
def test_deaths_that_a_publisher_claims_are_not_believed(
    channel: Any, name: str, graves: str, kind: str
) -> None:
    declare(channel, name, kind, onward(graves))
    claimed: Arguments = {
        "x-death": [{"queue": name, "reason": "rejected", "count": 7}],
        "x-first-death-queue": "elsewhere",
    }
    publish(channel, name, b"1", headers=dict(claimed))
    message = take(channel, name)
    assert message.properties.headers == claimed
    channel.basic_reject(message.delivery_tag, requeue=False)
    dead = take_soon(channel, graves)
    assert deaths(dead) == [(name, "rejected", 1)]
    assert fields(dead.properties.headers, *FIRST) == (name, "rejected", "")


@both_kinds
def test_a_dead_letter_that_is_published_again_begins_anew(
    channel: Any, name: str, graves: str, kind: str
) -> None:
    declare(channel, name, kind, onward(graves))
    publish(channel, name, b"1")
    for _ in range(2):
        reject(channel, name)
        dead = take_soon(channel, graves)
        assert deaths(dead) == [(name, "rejected", 1)]
        channel.basic_ack(dead.delivery_tag)
        channel.basic_publish("", name, dead.body, dead.properties)


@both_kinds
def test_a_dead_letter_into_a_full_queue_that_rejects_is_lost(
    channel: Any, name: str, graves: str, kind: str
) -> None:
    full = f"{name}-full"
    declare(channel, full, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    publish(channel, full, b"first")
    channel.exchange_declare(name, "fanout")
    for queue in (full, graves):
        channel.queue_bind(queue, name)
    declare(channel, name, kind, {"x-dead-letter-exchange": name})
    publish(channel, name, b"lost")
    reject(channel, name)
    assert take_soon(channel, graves).body == b"lost"
    assert drain(channel, full) == [b"first"]
    channel.queue_delete(full)


def reject_a_thousand(channel: Any, name: str, graves: str, kind: str) -> list[bytes]:
    """Reject a thousand messages by one nack; the bodies of the dead in the order they came."""
    declare(channel, name, kind, onward(graves))
    for body in numbered(1_000):
        channel.basic_publish("", name, body)
    wait_until_ready(channel, name, 1_000)
    tags = [take(channel, name).delivery_tag for _ in range(1_000)]
    channel.basic_nack(tags[-1], multiple=True, requeue=False)
    wait_until_ready(channel, graves, 1_000)
    return drain(channel, graves)


def test_a_thousand_rejections_at_once_arrive_in_order(
    channel: Any, name: str, graves: str
) -> None:
    assert reject_a_thousand(channel, name, graves, "classic") == numbered(1_000)


def test_a_thousand_rejections_by_a_quorum_queue_arrive_in_order(
    own_broker: Broker, channel: Any, name: str, graves: str
) -> None:
    # RabbitMQ 4.0 sends them on in the order of a map when they are many.
    assert reject_a_thousand(channel, name, graves, "quorum") == numbered(1_000)


@both_kinds
def test_a_dead_letter_exchange_must_be_writable_for_who_declares(
    connect: Connect, name: str, kind: str
) -> None:
    limited = connect("limited")
    queue = f"open-{name}"
    text = "ACCESS_REFUSED - write access to exchange '{}' in vhost '/' refused for user 'limited'"
    with channel_closed(403, text.format("amq.fanout")):
        declare(limited.channel(), queue, kind, {"x-dead-letter-exchange": "amq.fanout"})
    with channel_closed(403, text.format("amq.default")):
        declare(limited.channel(), queue, kind, onward(queue))
    channel = limited.channel()
    declare(channel, queue, kind, {"x-dead-letter-exchange": "open-exchange"})
    channel.queue_delete(queue)


def test_a_queue_named_by_the_server_is_asked_for_by_the_name_it_gets(
    own_broker: Broker, connect: Connect
) -> None:
    arguments = {"x-name-prefix": "open-", "x-dead-letter-exchange": "open-exchange"}
    declared = connect("limited").channel().queue_declare("", exclusive=True, arguments=arguments)
    assert declared.method.queue.startswith("open-")


@both_kinds
def test_a_routing_key_needs_an_exchange_and_is_a_text(
    connection: Any, name: str, kind: str
) -> None:
    where = f"queue '{name}' in vhost '/'"
    key_text = f"PRECONDITION_FAILED - invalid arg 'x-dead-letter-routing-key' for {where}: "
    with channel_closed(406, key_text + "routing_key_but_no_dlx_defined"):
        declare(connection.channel(), name, kind, {"x-dead-letter-routing-key": "key"})
    wrong_key = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": 5}
    with channel_closed(406, key_text + "{unacceptable_type,signedint}"):
        declare(connection.channel(), name, kind, wrong_key)


def test_a_strategy_is_for_quorum_queues_and_must_be_a_known_word(
    connection: Any, name: str
) -> None:
    begin = f"PRECONDITION_FAILED - invalid arg 'x-dead-letter-strategy' for queue '{name}'"
    with channel_closed(406, f"{begin} in vhost '/' of queue type rabbit_classic_queue"):
        declare(connection.channel(), name, "classic", {"x-dead-letter-strategy": "at-most-once"})
    with channel_closed(406, f"{begin} in vhost '/': invalid_dlx_strategy"):
        declare(connection.channel(), name, "quorum", {"x-dead-letter-strategy": "sometimes"})


@pytest.mark.parametrize("kind", ["classic", "quorum", "stream"])
@pytest.mark.parametrize("names", [("a-source", "z-letters"), ("z-source", "a-letters")])
def test_a_vhost_goes_with_a_queue_and_the_queue_of_its_dead_letters(
    broker: Broker, kind: str, names: tuple[str, str]
) -> None:
    """Whichever of the two is removed first, the node goes on."""
    source, letters = names
    assert broker.node is not None
    api = HttpApi(broker.node.management_url)
    vhost = f"letters-{kind}-{source}"
    api.put(f"/vhosts/{vhost}", {})
    api.put(f"/permissions/{vhost}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
    where = pika.ConnectionParameters(broker.host, broker.port, virtual_host=vhost)
    with pika.BlockingConnection(where) as connection:
        channel = connection.channel()
        channel.queue_declare(letters, durable=True, arguments={"x-queue-type": kind})
        arguments = {"x-max-length": 1, "x-dead-letter-exchange": ""}
        arguments["x-dead-letter-routing-key"] = letters
        channel.queue_declare(source, durable=True, arguments=arguments)
        for number in range(3):
            channel.basic_publish("", source, b"%d" % number)
        eventually(lambda: ready_count(channel, letters) == 2)
    api.delete(f"/vhosts/{vhost}")
    assert vhost not in {each["name"] for each in api.get("/vhosts")}
