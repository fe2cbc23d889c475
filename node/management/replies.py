"""JSON replies, and errors in RabbitMQ's form: `{"error": ..., "reason": ...}`.

The HTTP library is imported by the first reply: what other nodes ask for needs none.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from aiohttp import web

HEADERS: Final = {"Content-Type": "application/json", "Cache-Control": "no-cache"}


class ApiError(Exception):
    """The request cannot be answered; `status`, `error` and `reason` are the answer."""

    def __init__(
        self,
        status: int,
        error: str,
        reason: str | list[str],
        headers: Mapping[str, str] | None = None,
        log_text: str = "",
    ) -> None:
        super().__init__(str(reason))
        self.status = status
        self.error = error
        self.reason = reason
        self.headers = headers or {}
        self.log_text = log_text  # for our log alone

    @classmethod
    def not_found(cls, reason: str = "") -> "ApiError":
        """`reason`: what is missing, where that is not what the path names."""
        if reason:
            return cls(404, "not_found", reason)
        return cls(404, "Object Not Found", "Not Found")

    @classmethod
    def bad_request(cls, reason: str | list[str]) -> "ApiError":
        """A list: the name of a fault, and what it is about."""
        return cls(400, "bad_request", reason)

    def reply(self) -> "web.Response":
        return json_reply({"error": self.error, "reason": self.reason}, self.status, self.headers)


def with_warnings(row: dict[str, object], warnings: Sequence[str]) -> dict[str, object]:
    """The row, with `warnings` only if there are some."""
    return {**row, "warnings": list(warnings)} if warnings else row


def json_reply(
    body: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> "web.Response":
    from aiohttp import web

    reply = web.Response(body=ENCODER.encode(body), status=status, headers=HEADERS)
    reply.headers.update(headers or {})
    return reply


def _plain(value: object) -> object:
    """Field table values that JSON knows only as numbers, or not at all."""
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    return str(value)


ENCODER: Final = msgspec.json.Encoder(enc_hook=_plain)
