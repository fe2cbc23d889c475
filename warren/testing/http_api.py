"""The HTTP API of a node, and its other pages, as one user asks for them.

    api = HttpApi(node.management_url)
    status, row = api.ask("GET", "/queues/%2F/orders")
    text = api.text("/metrics")

`OSError`: no answer. Proxies that the environment names are not used.
"""

import base64
import json
from typing import Any, Final, cast
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import ProxyHandler, Request, build_opener

SECONDS: Final = 60.0


class HttpApi:
    """One user's way to the API. Paths begin after `/api`, but for `page` and `text`."""

    def __init__(
        self, url: str, user: str = "guest", password: str | None = None, token: str = ""
    ) -> None:
        self._url = url
        secret = user if password is None else password
        pair = base64.b64encode(f"{user}:{secret}".encode()).decode()
        login = f"Bearer {token}" if token else f"Basic {pair}"
        self._headers = {"Authorization": login, "Content-Type": "application/json"}
        self._opener = build_opener(ProxyHandler({}))

    def page(
        self, method: str, path: str, body: object = None, seconds: float = SECONDS
    ) -> tuple[int, bytes]:
        """Status and content of any path of the node; a body that is bytes goes as it is."""
        raw = (
            body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        )
        request = Request(self._url + path, data=raw, headers=self._headers, method=method)
        try:
            with self._opener.open(request, timeout=seconds) as reply:
                return reply.status, cast("bytes", reply.read())
        except HTTPError as error:
            with error:
                return error.code, error.read()

    def text(self, path: str) -> str:
        status, content = self.page("GET", path)
        assert status == 200, (path, status, content)
        return content.decode()

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Status and decoded body."""
        status, content = self.page(method, f"/api{path}", body)
        return status, json.loads(content) if content else None

    def get(self, path: str) -> Any:
        status, body = self.ask("GET", path)
        assert status == 200, (path, status, body)
        return body

    def put(self, path: str, body: object) -> int:
        """The status, which is a good one."""
        return self._done("PUT", path, body)

    def post(self, path: str, body: object) -> Any:
        status, answer = self.ask("POST", path, body)
        assert status < 300, (path, status, answer)
        return answer

    def delete(self, path: str) -> int:
        return self._done("DELETE", path, None)

    def _done(self, method: str, path: str, body: object) -> int:
        status, answer = self.ask(method, path, body)
        assert status in (201, 204), (method, path, status, answer)
        return status

    def refused(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Status and reason of an error in RabbitMQ's form."""
        status, answer = self.ask(method, path, body)
        assert status >= 400 and set(answer) == {"error", "reason"}, (status, answer)
        return status, answer["reason"]


def part(name: str) -> str:
    """A name as a part of a path."""
    return quote(name, safe="")
