"""Tries of a login by a form, and paths with passwords in them: what is refused, and never told."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import ClientResponse
from aiohttp.test_utils import TestClient, TestServer

from node.auth.login import LoginRules
from node.auth.login_checks import LoginChecks
from node.auth.passwords import Hashing, hash_password
from node.auth.sasl import Credentials, parse_form
from node.events.audit import Audit
from node.events.events import Events
from node.management.access import Context
from node.management.api.operations import overview
from node.management.server import make_app
from tests.unit.node.fake_access import FakeAccess, FakeUser
from tests.unit.node.fake_broker import FakeBroker
from tests.unit.node.fake_operations import FakeOperations

FORM = "application/x-www-form-urlencoded"
ROOT = {"Authorization": "Basic cm9vdDpwdy1yb290"}  # root, pw-root
Send = Callable[..., Awaitable[tuple[int, Any, ClientResponse]]]


def with_api(test: Callable[[Send], Awaitable[None]]) -> None:
    async def run() -> None:
        hashing: Hashing = "rabbit_password_hashing_sha256"
        users = {
            name: FakeUser(hash_password(f"pw-{name}", hashing, b"salt"), hashing, tags)
            for name, tags in (("root", ("administrator",)), ("app", ()))
        }
        access = FakeAccess(users=users)
        harness = LoginChecks(access, LoginRules(loopback_users=()))
        audit = Audit(Events("here", lambda: 5), "api")
        context = Context(FakeBroker(), access, harness, FakeOperations(), audit=audit)
        async with TestClient(TestServer(make_app(context))) as client:

            async def send(method: str, path: str, **more: Any) -> tuple[int, Any, ClientResponse]:
                async with client.request(method, path, **more) as reply:
                    return reply.status, await reply.json(), reply

            await test(send)
        harness.close()

    asyncio.run(asyncio.wait_for(run(), 20))


def told(caplog: pytest.LogCaptureFixture) -> str:
    """What the node logs; the server of these tests keeps a log of requests besides."""
    own = [each for each in caplog.records if each.name.startswith("warren")]
    return "\n".join(f"{each.getMessage()} {each.exc_text}" for each in own)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("", FORM),
        ("username=root", FORM),
        ("password=pw-root", FORM),
        ("username=root&password=wrong", FORM),
        ("username=root&password=" + "x" * 5000, FORM),
        ("&".join(f"a{n}=1" for n in range(20)) + "&username=root&password=pw-root", FORM),
        ("username=root&password=pw-root", "text/plain"),
        ('{"username": "root", "password": "pw-root"}', "application/json"),
        (b"\xff\xfe=1", FORM),
    ],
)
def test_what_names_nobody_is_no_login(body: str | bytes, kind: str) -> None:
    async def test(send: Send) -> None:
        status, answer, _ = await send(
            "POST", "/api/login", data=body, headers={"Content-Type": kind}
        )
        assert (status, answer["reason"]) == (401, "Login failed")

    with_api(test)


def test_a_login_is_told_as_such_and_leaves_no_cookie(caplog: pytest.LogCaptureFixture) -> None:
    async def test(send: Send) -> None:
        for path in ("/api/login", "/api/login/"):
            form = {"username": "root", "password": "pw-root"}
            status, answer, reply = await send("POST", path, data=form)
            assert (status, answer) == (200, "ok")
            assert not reply.cookies and "Set-Cookie" not in reply.headers
        status, answer, _ = await send(
            "POST", "/api/login", data={"username": "app", "password": "pw-app"}
        )
        assert (status, answer["reason"]) == (401, "Not management user")
        assert (await send("GET", "/api/login", headers=ROOT))[0] == 405

    with caplog.at_level(logging.INFO):
        with_api(test)
    assert "/api/login" not in told(caplog) and "pw-root" not in told(caplog)


def test_the_fields_of_a_form_are_percent_encoded() -> None:
    found = parse_form(b"username=a%20b+c&password=%C3%A9%26&more=")
    assert found == Credentials("a b c", "é&".encode())
    assert parse_form(b"password=x&username=") == Credentials("", b"x")


def test_a_password_in_a_path_is_in_no_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> str:
        raise RuntimeError("out of salt")

    monkeypatch.setattr(overview, "hash_password", broken)

    async def test(send: Send) -> None:
        for path in ("/api/auth/hash_password/s3cret", "/api/auth/hash_password/s3cret/"):
            status, answer, _ = await send("GET", path, headers=ROOT)
            assert (status, answer["error"]) == (500, "internal_error")

    with caplog.at_level(logging.DEBUG):
        with_api(test)
    assert "s3cret" not in told(caplog)
    assert "GET /api/auth/hash_password/{password} failed" in told(caplog)
    assert "out of salt" in caplog.text


def test_another_path_is_told_as_it_was_asked(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: FakeBroker, vhost: str, name: str) -> None:
        raise RuntimeError("lost")

    monkeypatch.setattr(FakeBroker, "queue", broken)

    async def test(send: Send) -> None:
        assert (await send("GET", "/api/queues/%2F/orders", headers=ROOT))[0] == 500

    with_api(test)
    assert "GET /api/queues///orders failed" in caplog.text
