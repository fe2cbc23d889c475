"""The management application over real HTTP, with samples for metrics: for the tests of both."""

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp.test_utils import TestClient, TestServer

from node.auth.login import LoginRules
from node.auth.login_checks import LoginChecks
from node.auth.passwords import Hashing, hash_password
from node.management.access import Context
from node.management.operations import NodeControls
from node.management.rows.view import VhostView
from node.management.server import make_app
from tests.unit.node.fake_access import FakeAccess, FakeUser
from tests.unit.node.fake_broker import FakeBroker
from tests.unit.node.fake_meter import FakeMeter
from tests.unit.node.fake_operations import FakeOperations

SHA256: Hashing = "rabbit_password_hashing_sha256"
USERS = {"root": ("administrator",), "watch": ("monitoring",), "shop": ("management",)}

Call = Callable[..., Awaitable[tuple[int, Any]]]


def with_meter(
    test: Callable[[Call], Awaitable[None]],
    meter: FakeMeter | None = None,
    fake: FakeBroker | None = None,
    controls: NodeControls | None = None,
) -> None:
    """Run the test with a function that asks: `await call("/metrics", user="", body=...)`."""

    async def run() -> None:
        table = {
            name: FakeUser(hash_password(f"pw-{name}", SHA256, b"salt"), SHA256, tags)
            for name, tags in USERS.items()
        }
        rights = FakeAccess(users=table, permitted={})
        harness = LoginChecks(rights, LoginRules(loopback_users=()))
        view = fake or FakeBroker(the_vhosts=[VhostView(name="/")])
        context = Context(view, rights, harness, FakeOperations(), meter=meter, controls=controls)
        async with TestClient(TestServer(make_app(context))) as client:

            async def call(
                path: str, user: str = "root", method: str = "GET", body: object = None
            ) -> tuple[int, Any]:
                headers = {}
                if user:
                    pair = base64.b64encode(f"{user}:pw-{user}".encode()).decode()
                    headers["Authorization"] = f"Basic {pair}"
                data = None if body is None else json.dumps(body).encode()
                async with client.request(method, path, headers=headers, data=data) as reply:
                    text = await reply.text()
                    is_json = reply.content_type == "application/json" and text
                    return reply.status, json.loads(text) if is_json else text

            await test(call)
        harness.close()

    asyncio.run(asyncio.wait_for(run(), 20))
