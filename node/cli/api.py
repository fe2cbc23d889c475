"""A blocking client of the HTTP API, for the command line. Imports nothing of the broker."""

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from typing import Final
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit
from urllib.request import ProxyHandler, Request, build_opener

EXIT_DATA: Final = 65
EXIT_UNAVAILABLE: Final = 69
EXIT_SOFTWARE: Final = 70
EXIT_NO_PERMISSION: Final = 77

NO_HEADERS: Final[Mapping[str, str]] = {}
ANSWER_BYTES_MAX: Final = 1 << 30
ERROR_BYTES_MAX: Final = 1 << 20
QUEUES_NAMED: Final = 20  # in the text of a failed check
NOT_FOUND: Final = ("Not Found", "queue_not_found", "exchange_not_found")
KINDS: Final[Mapping[str, str]] = {
    "exchanges": "exchange", "operator-policies": "operator policy", "parameters": "component",
    "permissions": "permissions of user", "policies": "policy", "queues": "queue",
    "topic-permissions": "topic permissions of user", "users": "user", "vhosts": "vhost",
    "nodes": "node", "connections": "connection", "global-parameters": "global parameter",
}  # fmt: skip
IN_VHOST: Final = frozenset(
    ("exchanges", "operator-policies", "permissions", "policies", "queues", "topic-permissions")
)


class ApiFailure(Exception):
    """The node did not do what it was asked; `exit_code` is of sysexits."""

    def __init__(self, text: str, exit_code: int) -> None:
        super().__init__(text)
        self.exit_code = exit_code


class Api:
    """One node's API, with a login."""

    def __init__(self, url: str, user: str, password: str, timeout_s: float) -> None:
        self._url = url.rstrip("/")
        login = base64.b64encode(f"{user}:{password}".encode()).decode()
        self._headers = {"Authorization": f"Basic {login}", "Accept": "application/json"}
        self._timeout_s = timeout_s
        self._opener = build_opener(ProxyHandler({}))  # A node is asked directly.

    def at(self, scheme: str, host: str, port: int) -> "Api":
        """Another node, with the same login. A host that stands for all addresses of the node is
        replaced by the host of this one."""
        if host in ("0.0.0.0", "::"):
            host = urlsplit(self._url).hostname or host
        netloc = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        other = Api(f"{scheme}://{netloc}", "", "", self._timeout_s)
        other._headers = self._headers
        return other

    def as_user(self, user: str, password: str) -> "Api":
        """The same node with another login."""
        return Api(self._url, user, password, self._timeout_s)

    def get(self, path: str) -> object:
        """The decoded answer; ApiFailure for any status of an error."""
        return self._ask("GET", path, None)

    def post(self, path: str, body: object) -> object:
        """The same with something to do; None if the answer is empty."""
        return self._ask("POST", path, body)

    def put(self, path: str, body: object) -> object:
        return self._ask("PUT", path, body)

    def delete(self, path: str, reason: str = "") -> object:
        return self._ask("DELETE", path, None, {"X-Reason": reason} if reason else {})

    def delete_with(self, path: str, body: object) -> object:
        """The same, with what exactly is to go in the body."""
        return self._ask("DELETE", path, body)

    def _ask(
        self, method: str, path: str, body: object, more: Mapping[str, str] = NO_HEADERS
    ) -> object:
        try:
            with self._opened(method, path, body, more) as answer:
                text = answer.read(ANSWER_BYTES_MAX)
                return json.loads(text) if text else None
        except ValueError as error:  # No JSON in the answer.
            raise ApiFailure(f"{self._url}{path}: {error}", EXIT_SOFTWARE) from error

    @contextmanager
    def _opened(
        self, method: str, path: str, body: object, more: Mapping[str, str] = NO_HEADERS
    ) -> Iterator[HTTPResponse]:
        """The answer, to be read; ApiFailure for what goes wrong meanwhile."""
        raw = None if body is None else json.dumps(body).encode()
        headers = {**self._headers, "Content-Type": "application/json", **more}
        try:
            request = Request(self._url + path, data=raw, headers=headers, method=method)
            opened = self._opener.open(request, timeout=self._timeout_s)
        except HTTPError as error:
            raise _refusal(error, path) from error
        except (URLError, OSError) as error:
            raise self._unreachable(error) from error
        except (ValueError, HTTPException) as error:  # Not a URL that can be opened.
            raise ApiFailure(f"{self._url}{path}: {error}", EXIT_SOFTWARE) from error
        with opened as answer:
            try:
                yield answer
            except (OSError, HTTPException) as error:
                raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> ApiFailure:
        reason = error.reason if isinstance(error, URLError) else error
        if isinstance(reason, OSError):
            reason = reason.strerror or reason
        hint = "--node-url URL or WARREN_CTL_URL names the node to ask"
        return ApiFailure(f"unable to reach {self._url}: {reason}; {hint}", EXIT_UNAVAILABLE)

    def text(self, path: str) -> str:
        """An answer that is no JSON."""
        with self._opened("GET", path, None) as answer:
            return answer.read(ANSWER_BYTES_MAX).decode("utf-8", "replace")

    def lines(self, method: str, path: str, body: object = None) -> Iterator[str]:
        """The lines of an answer that are not empty, as they come."""
        with self._opened(method, path, body) as answer:
            for line in answer:
                if text := line.decode("utf-8", "replace").strip():
                    yield text

    def get_object(self, path: str) -> dict[str, object]:
        answer = self.get(path)
        if not isinstance(answer, dict):
            raise ApiFailure(f"{path}: the answer is not an object", EXIT_SOFTWARE)
        return answer

    def get_list(self, path: str) -> list[dict[str, object]]:
        answer = self.get(path)
        if not isinstance(answer, list) or not all(isinstance(each, dict) for each in answer):
            raise ApiFailure(f"{path}: the answer is not a list of objects", EXIT_SOFTWARE)
        return answer


def _object_in(path: str) -> str:
    """What a path of the API names, as an error text says it; "": no object."""
    kind, *names = [unquote(each) for each in path.partition("?")[0].split("/")[2:]]
    if kind not in KINDS or not names:
        return ""
    if kind in IN_VHOST:
        if len(names) == 1:
            return f"vhost '{names[0]}'"
        return f"{KINDS[kind]} '{names[1]}' in vhost '{names[0]}'"
    return f"{KINDS[kind]} '{names[0]}'"


def _details(body: dict[str, object]) -> str:
    """The queues that a failed check found, and whether the definitions are among its findings."""
    queues = body.get("queues")
    rows = [each for each in queues if isinstance(each, dict)] if isinstance(queues, list) else []
    found = [f"queue '{each.get('name')}' in vhost '{each.get('vhost')}'" for each in rows]
    if len(found) > QUEUES_NAMED:
        found[QUEUES_NAMED:] = [f"{len(found) - QUEUES_NAMED} more"]
    if body.get("definitions") is True:
        found.append("the definitions of the cluster")
    return f": {', '.join(found)}" if found else ""


def _refusal(error: HTTPError, path: str) -> ApiFailure:
    """What an error status means to the caller."""
    with error:
        text = error.read(ERROR_BYTES_MAX).decode("utf-8", "replace")
    try:
        body = json.loads(text)
    except ValueError:
        body = {}
    reason = text[:200]
    if isinstance(body, dict):
        reason = f"{body.get('reason', reason)}{_details(body)}"
    missing = _object_in(path) if error.code == 404 and reason in NOT_FOUND else ""
    if missing:
        reason = f"{missing} not found"
    codes = {
        401: EXIT_NO_PERMISSION,
        403: EXIT_NO_PERMISSION,
        404: EXIT_DATA,
        400: EXIT_DATA,
        412: EXIT_DATA,
    }
    code = EXIT_UNAVAILABLE if error.code == 503 else codes.get(error.code, EXIT_SOFTWARE)
    return ApiFailure(f"{error.code}: {reason or error.reason}", code)
