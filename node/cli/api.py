"""A blocking client of the HTTP API, for the command line. Imports nothing of the broker."""

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from typing import Final
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

EXIT_DATA: Final = 65
EXIT_UNAVAILABLE: Final = 69
EXIT_SOFTWARE: Final = 70
EXIT_NO_PERMISSION: Final = 77

NO_HEADERS: Final[Mapping[str, str]] = {}
ANSWER_BYTES_MAX: Final = 1 << 30


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
            raise _refusal(error) from error
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
        return ApiFailure(f"unable to reach {self._url}: {reason}", EXIT_UNAVAILABLE)

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


def _refusal(error: HTTPError) -> ApiFailure:
    """What an error status means to the caller."""
    with error:
        text = error.read(4096).decode("utf-8", "replace")
    try:
        body = json.loads(text)
    except ValueError:
        body = {}
    reason = body.get("reason", text[:200]) if isinstance(body, dict) else text[:200]
    codes = {
        401: EXIT_NO_PERMISSION,
        403: EXIT_NO_PERMISSION,
        404: EXIT_DATA,
        400: EXIT_DATA,
        412: EXIT_DATA,
    }
    code = EXIT_UNAVAILABLE if error.code == 503 else codes.get(error.code, EXIT_SOFTWARE)
    return ApiFailure(f"{error.code}: {reason or error.reason}", code)
