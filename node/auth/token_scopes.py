"""What the scopes of an access token allow, as RabbitMQ's OAuth 2 plug-in reads them. No I/O.

A scope is `PERMISSION:VHOST/NAME[/ROUTING_KEY]`, with configure, read or write as permission and
patterns in which `*` stands for any text and `%XX` for a character, or `tag:TAG`. Before it stands
the prefix of the resource server; others are passed over.

`TokenAccess` answers as the definitions do for users (`node.auth.access.AccessView`), for the one
connection that showed the token: a user of the same name has other rights.
"""

import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import unquote

from msgspec import Struct

from node.auth.access import UserRecord
from node.auth.patterns import is_found
from queues.definitions.expressions import LENGTH_MAX

KINDS: Final = ("configure", "write", "read")
TAGS: Final = ("administrator", "monitoring", "policymaker", "management", "impersonator")
NOTHING: Final = "^$"  # matches no name: that of the default exchange is asked as amq.default
WRITE: Final = 1
READ: Final = 2


class Scope(Struct, frozen=True):
    """One of KINDS for names in vhosts, by expressions."""

    kind: int
    vhost: str  # an expression
    name: str  # an expression without its anchors
    routing_key: str  # '': not limited


def parse_scopes(scopes: Iterable[str], prefix: str) -> tuple[list[Scope], tuple[str, ...]]:
    """Permissions and tags; what is neither is passed over."""
    found: list[Scope] = []
    tags: list[str] = []
    for scope in scopes:
        if not scope.startswith(prefix):
            continue
        kind, _, rest = scope[len(prefix) :].partition(":")
        parts = rest.split("/")
        if kind == "tag" and rest in TAGS:
            tags.append(rest)
        elif kind in KINDS and len(parts) in (2, 3) and all(parts):
            vhost = any_of([expression(parts[0])])
            key = expression(parts[2]) if len(parts) == 3 else ""
            found.append(Scope(KINDS.index(kind), vhost, expression(parts[1]), key))
    return found, tuple(dict.fromkeys(tags))


def expression(pattern: str) -> str:
    """A pattern with `*` and `%XX` as an expression without anchors."""
    return ".*".join(re.escape(unquote(part)) for part in pattern.split("*"))


def too_long(scopes: Iterable[Scope]) -> bool:
    """Whether the scopes together may be longer than an expression for them can be."""
    return sum(len(each.name) + len(each.routing_key) + 2 for each in scopes) > LENGTH_MAX - 8


def any_of(expressions: list[str]) -> str:
    return f"^(?:{'|'.join(expressions)})$" if expressions else NOTHING


class TokenAccess:
    """Keeps `AccessView`. `renew` puts the scopes of a newer token in place of the old ones."""

    def __init__(self, scopes: list[Scope]) -> None:
        self._scopes = scopes
        self._version = 0

    @property
    def version(self) -> int:
        return self._version

    def renew(self, newer: "TokenAccess") -> None:
        self._scopes = newer._scopes
        self._version += 1

    def user(self, name: str) -> UserRecord | None:
        return None

    def permissions(self, user: str, vhost: str) -> tuple[str, str, str] | None:
        """See `AccessView`: no scope for the vhost, no access to it."""
        here = [each for each in self._scopes if is_found(each.vhost, vhost)]
        if not here:
            return None
        kinds = range(len(KINDS))
        configure, write, read = (
            any_of([each.name for each in here if each.kind == kind]) for kind in kinds
        )
        return configure, write, read

    def topic_permissions(self, user: str, vhost: str, exchange: str) -> tuple[str, str] | None:
        """See `AccessView`. A scope without a routing key allows all keys."""
        here = [
            each
            for each in self._scopes
            if is_found(each.vhost, vhost)
            and is_found(any_of([each.name]), exchange or "amq.default")
        ]
        if not any(each.routing_key for each in here):
            return None
        write, read = (
            any_of([each.routing_key or ".*" for each in here if each.kind == kind])
            for kind in (WRITE, READ)
        )
        return write, read
