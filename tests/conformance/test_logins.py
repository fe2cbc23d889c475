"""Logins at a real node: behind a proxy, in production, too many of them; what is logged."""

import socket
import struct
from collections.abc import Iterator
from typing import Final

import pytest

from tests.conformance.broker import GUEST
from tests.conformance.raw import CLOSE, HEADER, START, START_OK, Frame, long, method, short
from warren.testing import Node
from warren.testing.http_api import HttpApi
from warren.testing.node import NodeFailed

CONFIG: Final = (
    GUEST
    + """
[[users]]
name = "orders"
password = "s3cret"
tags = ["management"]
permissions = [{ vhost = "/", configure = ".*", write = ".*", read = ".*" }]
[listeners]
proxy_protocol = ["amqp"]
proxy_trusted = ["127.0.0.1"]
[auth]
failures_max = 3
failures_pause_ms = 600000
track_attempt_source = true
password_hashing = "sha512"
[limits]
channel_max_per_node = 3
"""
)
SIGNATURE: Final = b"\r\n\r\n\x00\r\nQUIT\n"


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node(name="logins", config=CONFIG) as started:
        yield started


@pytest.fixture
def api(node: Node) -> HttpApi:
    return HttpApi(node.management_url)


class Behind:
    """A bare client whose connection begins with a header of a proxy."""

    def __init__(self, node: Node, header: bytes) -> None:
        self.socket = socket.create_connection((node.host, node.port), 10)
        self.socket.sendall(header + HEADER)
        self._received = b""

    def __enter__(self) -> "Behind":
        assert self.next_frame().method == START
        return self

    def __exit__(self, *failure: object) -> None:
        self.socket.close()

    def login(self, user: str, password: str) -> Frame:
        """Say who it is, with the capability to hear why not; the answer."""
        capability = short("authentication_failure_close") + b"t\x01"
        properties = long(short("capabilities") + b"F" + long(capability))
        response = long(b"\0%s\0%s" % (user.encode(), password.encode()))
        arguments = properties + short("PLAIN") + response + short("en_US")
        self.socket.sendall(method(0, START_OK, arguments))
        return self.next_frame()

    def next_frame(self) -> Frame:
        head = self._exactly(7)
        kind, channel, size = struct.unpack(">BHI", head)
        return Frame(kind, channel, self._exactly(size + 1)[:-1])

    def _exactly(self, size: int) -> bytes:
        while len(self._received) < size:
            chunk = self.socket.recv(65536)
            assert chunk, "the broker closed the socket"
            self._received += chunk
        taken, self._received = self._received[:size], self._received[size:]
        return taken


def line(source: str) -> bytes:
    return f"PROXY TCP4 {source} 10.0.0.2 40000 5672\r\n".encode()


def binary(source: str) -> bytes:
    packed = socket.inet_aton(source) + socket.inet_aton("10.0.0.2")
    return (
        SIGNATURE + b"\x21\x11" + struct.pack(">H", 12) + packed + struct.pack(">HH", 40001, 5672)
    )


@pytest.mark.parametrize("header", [line("203.0.113.7"), binary("203.0.113.7")])
def test_behind_a_proxy_the_client_is_judged_by_its_own_address(node: Node, header: bytes) -> None:
    with Behind(node, header) as client:
        refused = client.login("guest", "guest")
        assert refused.method == CLOSE
        assert refused.reply[0] == 403
    assert "user 'guest' can only connect via localhost" in node.log()
    assert "203.0.113.7:4000" in node.log()


def test_a_proxy_that_asks_for_itself_is_a_client_of_its_own(node: Node) -> None:
    with Behind(node, SIGNATURE + b"\x20\x00\x00\x00") as client:
        assert client.login("guest", "guest").method == (10, 30)  # tune


def test_who_guesses_is_refused_though_the_last_guess_is_right(node: Node, api: HttpApi) -> None:
    source = line("198.51.100.9")
    for number in range(3):
        with Behind(node, source) as client:
            assert client.login("orders", f"guess{number}").method == CLOSE
    with Behind(node, source) as client:
        assert client.login("orders", "s3cret").method == CLOSE
    assert "too many failures from this address" in node.log()
    assert "guess" not in node.log() and "s3cret" not in node.log()
    rows = api.get("/auth/attempts/logins/source")
    (row,) = [
        each
        for each in rows
        if each["remote_address"] == "198.51.100.9" and each["username"] == "orders"
    ]
    assert (row["protocol"], row["auth_attempts_failed"]) == ("amqp091", 4)


def test_logins_are_counted_by_protocol_until_they_are_reset(node: Node, api: HttpApi) -> None:
    with Behind(node, line("203.0.113.1")) as client:
        assert client.login("absent", "x").method == CLOSE
    rows = {each["protocol"]: each for each in api.get("/auth/attempts/logins")}
    assert rows["amqp091"]["auth_attempts_failed"] >= 1
    assert rows["http"]["auth_attempts"] == rows["http"]["auth_attempts_succeeded"] >= 1
    assert api.delete("/auth/attempts/logins") == 204
    assert [each["protocol"] for each in api.get("/auth/attempts/logins")] == ["http"]
    assert api.refused("GET", "/auth/attempts/nowhere")[0] == 404
    assert (
        HttpApi(node.management_url, "orders", "s3cret").ask("GET", "/auth/attempts/logins")[0]
        == 401
    )


def test_passwords_are_stored_as_the_setting_says_and_nobody_sees_secrets(
    node: Node, api: HttpApi
) -> None:
    api.put("/users/paula", {"password": "s3cret", "tags": ""})
    row = api.get("/users/paula")
    assert row["hashing_algorithm"] == "rabbit_password_hashing_sha512"
    made = api.post("/auth/hash_password", {"password": "x", "hashing_algorithm": "argon2id"})
    api.put("/users/paula", {"password_hash": made["ok"], "tags": ""})
    assert api.get("/users/paula")["hashing_algorithm"] == "argon2id"
    assert api.refused("POST", "/auth/hash_password", {"password": "x", "hashing_algorithm": "md5"})
    assert api.refused("POST", "/auth/hash_password", {})[0] == 400
    tags = [f"tag{number}" for number in range(33)]
    assert api.refused("PUT", "/users/paula", {"password": "x", "tags": tags})[0] == 400
    told = api.get("/config/effective")
    assert told["auth"]["password_hashing"] == "sha512"
    assert "s3cret" not in str(told)
    plain = HttpApi(node.management_url, "orders", "s3cret")
    assert plain.ask("GET", "/config/effective")[0] == 401


def test_a_node_has_no_more_channels_than_it_may_have(node: Node) -> None:
    with Behind(node, SIGNATURE + b"\x20\x00\x00\x00") as client:
        assert client.login("guest", "guest").method == (10, 30)
        tune_ok = struct.pack(">HIH", 2047, 131072, 0)
        client.socket.sendall(method(0, (10, 31), tune_ok))
        client.socket.sendall(method(0, (10, 40), short("/") + short("") + b"\x00"))
        assert client.next_frame().method == (10, 41)
        for number in range(1, 5):
            client.socket.sendall(method(number, (20, 10), short("")))
        opened = [client.next_frame() for _ in range(4)]
        assert [each.method for each in opened[:3]] == [(20, 11)] * 3
        code, text = opened[3].reply
        assert code == 530
        assert "number of channels opened on node 'logins' has reached the maximum" in text


@pytest.mark.timeout(240)
def test_in_production_a_node_refuses_the_default_user() -> None:
    node = Node(name="production", settings={"auth.production": "true"})
    try:
        with pytest.raises(NodeFailed, match="there is no user"):
            node.start()
        node.settings = {}
        node.restart()
        node.stop()
        node.settings = {"auth.production": "true"}
        with pytest.raises(NodeFailed, match="has the well-known password"):
            node.start()
    finally:
        node.close()
