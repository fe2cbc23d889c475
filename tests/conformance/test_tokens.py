"""Logins by access tokens at a real node, with unchanged clients of each protocol."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pika
import pika.exceptions
import pytest
from proton.utils import BlockingConnection
from rstream import Producer

from tests.conformance.broker import GUEST
from tests.conformance.proton10 import body_of, data_message
from tests.unit.node.identity_provider import Provider
from tests.waiting import eventually
from warren.testing import Node, free_port
from warren.testing.http_api import HttpApi
from warren.testing.node import NodeFailed

ALL = "warren.configure:*/*", "warren.write:*/*", "warren.read:*/*"
ORDERS = "warren.configure:*/orders", "warren.write:*/*", "warren.read:*/orders"


@dataclass
class Place:
    """A node that trusts a provider."""

    node: Node
    provider: Provider
    stream_port: int

    def connect(self, token: str) -> pika.BlockingConnection:
        """As clients do: the user's name does not matter, the token is the password."""
        login = pika.PlainCredentials("", token)
        return pika.BlockingConnection(
            pika.ConnectionParameters(self.node.host, self.node.port, credentials=login)
        )


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    provider = Provider()
    provider.add_key("first")
    port = free_port()
    config = f"""{GUEST}
[listeners]
stream = "127.0.0.1:{port}"
[oauth]
resource_server_id = "warren"
jwks_uri = "{provider.serve()}"
issuer = "https://id.example"
"""
    with Node(name="tokens", config=config) as node:
        yield Place(node, provider, port)
    provider.close()


def test_a_token_gives_the_rights_of_its_scopes_and_no_others(place: Place) -> None:
    with place.connect(place.provider.token(*ORDERS)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("orders", durable=True)
        channel.basic_publish("", "orders", b"one")
        assert channel.basic_get("orders", auto_ack=True)[2] == b"one"
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
            channel.queue_declare("bills")
    assert refused.value.reply_code == 403
    assert "refused for user 'orders'" in refused.value.reply_text


def test_the_same_user_has_other_rights_by_another_token(place: Place) -> None:
    """Routes that one connection may use are not given to the other."""
    with place.connect(place.provider.token(*ALL)) as able:
        publishing = able.channel()
        publishing.queue_declare("orders", durable=True)
        publishing.basic_publish("", "orders", b"one")
        with place.connect(place.provider.token("warren.read:*/orders")) as unable:
            channel = unable.channel()
            channel.basic_publish("", "orders", b"two")
            with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="write access"):
                channel.basic_get("orders")
        publishing.queue_purge("orders")


@pytest.mark.parametrize("fault", ["expired", "audience", "key", "vhost", "form"])
def test_a_token_that_is_not_good_is_no_login(fault: str, place: Place) -> None:
    provider = place.provider
    other = Provider()
    other.add_key("first")
    token = {
        "expired": provider.token(*ALL, lives_s=-1),
        "audience": provider.sign({**provider.claims(*ALL), "aud": "shop"}),
        "key": other.token(*ALL),
        "vhost": provider.token("warren.read:shop/*"),
        "form": "eyJhbGciOiJub25lIn0.e30.",
    }[fault]
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        place.connect(token)


def test_passwords_of_users_go_on_to_work(place: Place) -> None:
    assert HttpApi(place.node.management_url).get("/whoami")["name"] == "guest"


def test_a_connection_ends_with_its_token(place: Place) -> None:
    connection = place.connect(place.provider.token(*ALL, lives_s=3))
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        connection.process_data_events(time_limit=30)
        connection.channel()
    assert closed.value.reply_code == 320
    assert "the token of user 'orders' has expired" in closed.value.reply_text


def renewed(connection: pika.BlockingConnection, token: str) -> None:
    connection.update_secret(token, "the old one ends")


def test_a_newer_token_takes_rights_that_were_used(place: Place) -> None:
    with place.connect(place.provider.token(*ALL)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("amq.direct", "", b"routed before")
        renewed(connection, place.provider.token("warren.read:*/*"))
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="write access"):
            channel.basic_publish("amq.direct", "", b"and now refused")


def test_a_newer_token_keeps_the_connection_and_changes_its_rights(place: Place) -> None:
    began = time.time()
    with place.connect(place.provider.token("warren.read:*/*", lives_s=4)) as connection:
        with pytest.raises(pika.exceptions.ChannelClosedByBroker):
            connection.channel().queue_declare("renewed")
        renewed(connection, place.provider.token(*ALL, lives_s=60))
        eventually(lambda: time.time() > began + 6)
        channel = connection.channel()
        channel.queue_declare("renewed")
        channel.queue_delete("renewed")


@pytest.mark.parametrize("fault", ["expired", "user", "form"])
def test_a_newer_token_that_is_not_good_ends_the_connection(fault: str, place: Place) -> None:
    provider = place.provider
    token = {
        "expired": provider.token(*ALL, lives_s=-1),
        "user": provider.token(*ALL, user="bills"),
        "form": "secret",
    }[fault]
    connection = place.connect(provider.token(*ALL))
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        renewed(connection, token)
    assert closed.value.reply_code == 530
    assert closed.value.reply_text == "NOT_ALLOWED - New secret was refused by one of the backends"


def test_http_takes_a_token_as_bearer_with_its_tags_and_rights(place: Place) -> None:
    url, provider = place.node.management_url, place.provider
    api = HttpApi(url, token=provider.token(*ORDERS, "warren.tag:management"))
    assert api.get("/whoami") == {"name": "orders", "tags": ["management"], **api.get("/whoami")}
    assert api.put("/queues/%2F/orders", {"durable": True}) in (201, 204)
    assert api.ask("PUT", "/queues/%2F/bills", {})[0] == 401
    assert [each["name"] for each in api.get("/vhosts")] == ["/"]
    assert api.ask("GET", "/users")[0] == 401
    untagged = HttpApi(url, token=provider.token(*ALL))
    assert untagged.ask("GET", "/whoami")[0] == 401
    assert HttpApi(url, token="eyJ.eyJ.x").ask("GET", "/whoami")[0] == 401
    assert HttpApi(url, "", provider.token("warren.tag:administrator")).get("/users")


def test_amqp_10_takes_a_token_as_password(place: Place) -> None:
    with place.connect(place.provider.token(*ALL)) as connection:
        connection.channel().queue_declare("orders", durable=True)
    opened = BlockingConnection(
        f"amqp://{place.node.host}:{place.node.port}",
        user="orders",
        password=place.provider.token(*ORDERS),
        allowed_mechs="PLAIN",
        timeout=10,
    )
    sender = opened.create_sender("/queues/orders")
    sender.send(data_message(b"one"))
    receiver = opened.create_receiver("/queues/orders")
    assert body_of(receiver.receive(timeout=10)) == b"one"
    receiver.accept()
    opened.close()


def test_the_stream_protocol_takes_a_token_as_password(place: Place) -> None:
    async def publish() -> None:
        async with Producer(
            "127.0.0.1", place.stream_port, username="", password=place.provider.token(*ALL)
        ) as producer:
            await producer.create_stream("tokens")
            await producer.send_wait("tokens", b"one")
            await producer.delete_stream("tokens")

    asyncio.run(asyncio.wait_for(publish(), 20))


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("", "allowed: one of oauth.jwks_uri and oauth.jwks_file"),
        ('jwks_uri = "http://id.example/keys"', "allowed: an https address, or http on this"),
        ('jwks_file = "/no/keys.json"', "oauth.jwks_file = /no/keys.json: "),
    ],
)
def test_a_node_does_not_start_without_keys_to_trust(setting: str, text: str) -> None:
    config = f'{GUEST}\n[oauth]\nresource_server_id = "warren"\n{setting}\n'
    with pytest.raises(NodeFailed) as failed, Node(name="keyless", config=config):
        pass
    assert text in str(failed.value)
