"""Who may do what to which exchange or queue, cached for one user in one vhost.

The answer for (kind, name) holds as long as `AccessView.version` stays; a revocation takes effect
with the next check. The default exchange is checked as `amq.default`. Where a service outside the
node says what users may, a check may raise `Undecided` (`node.auth.asked_access`).
"""

import re
from collections.abc import Sequence
from typing import Final

from node.auth.access import AccessView
from node.auth.asked_access import AskedAccess
from node.auth.patterns import compiled_pattern, is_found
from queues.definitions.expressions import Expression
from warren.wire.errors import ProtocolError, ReplyCode

CONFIGURE: Final = 0
WRITE: Final = 1
READ: Final = 2
KIND_NAMES: Final = ("configure", "write", "read")

ALL_KINDS: Final = (CONFIGURE, WRITE, READ)

CACHED_MAX: Final = 4096  # names per kind; then that kind starts again


class PermissionCache:
    """The permissions of one user in one vhost: one per connection.

    Invariant: every cached answer was computed from the expressions of `_version`.
    """

    __slots__ = ("_access", "_answers", "_asked", "_patterns", "_user", "_version", "_vhost")

    def __init__(self, access: AccessView, user: str, vhost: str) -> None:
        self._access = access
        self._asked = access if isinstance(access, AskedAccess) else None
        self._user = user
        self._vhost = vhost
        self._version = -1
        self._patterns: tuple[Expression | None, ...] | None = None
        self._answers: tuple[dict[str, bool], dict[str, bool], dict[str, bool]] = ({}, {}, {})

    def allows(self, kind: int, name: str, object_kind: str = "queue") -> bool:
        """Whether CONFIGURE, WRITE or READ of this queue (or 'exchange') is permitted. Undecided.

        Expressions do not tell queues from exchanges, a service may.
        """
        if self._access.version != self._version:
            self._reload()
        asked = self._asked
        answers = self._answers[kind]
        key = name if asked is None else f"{object_kind} {name}"
        answer = answers.get(key)
        if answer is None:
            if asked is not None:
                answer = asked.may((kind,), self._vhost, object_kind, name)
            else:
                pattern = None if self._patterns is None else self._patterns[kind]
                answer = pattern is not None and pattern.is_found_in(name or "amq.default")
            if len(answers) >= CACHED_MAX:
                answers.clear()
            answers[key] = answer
        return answer

    def require(self, kind: int, object_kind: str, name: str) -> None:
        """Raise 403 unless permitted; `object_kind` is 'queue' or 'exchange'. Undecided."""
        if not self.allows(kind, name, object_kind):
            raise self.refusal(kind, object_kind, name)

    def require_any(self, object_kind: str, name: str) -> None:
        """Raise 403 unless one of the three is permitted (passive declare). Undecided."""
        if self._asked is not None:
            is_allowed = self._asked.may(ALL_KINDS, self._vhost, object_kind, name)
        else:
            is_allowed = any(self.allows(kind, name, object_kind) for kind in ALL_KINDS)
        if not is_allowed:
            raise self.refusal(CONFIGURE, object_kind, name)

    def refusal(self, kind: int, object_kind: str, name: str) -> ProtocolError:
        return ProtocolError(
            ReplyCode.ACCESS_REFUSED,
            f"{KIND_NAMES[kind]} access to {object_kind} '{name or 'amq.default'}' in vhost "
            f"'{self._vhost}' refused for user '{self._user}'",
        )

    def keys_refusal(self, kind: int, exchange: str, keys: Sequence[bytes]) -> ProtocolError | None:
        """Why the user may not WRITE or READ one of these keys of a topic exchange; None: it may.
        Undecided."""
        topics = [key.decode("utf-8", "replace") for key in keys]
        if self._asked is not None:
            may = self._asked.may_use_keys(kind, self._vhost, exchange, topics)
            refused = [
                topic for topic, is_allowed in zip(topics, may, strict=True) if not is_allowed
            ]
        else:
            refused = self._refused_by_expressions(kind, exchange, topics)
        if not refused:
            return None
        return ProtocolError(
            ReplyCode.ACCESS_REFUSED,
            f"{KIND_NAMES[kind]} access to topic '{refused[0]}' in exchange '{exchange}' in vhost "
            f"'{self._vhost}' refused for user '{self._user}'",
        )

    def topic_refusal(self, kind: int, exchange: str, key: bytes) -> ProtocolError | None:
        """The same of one key."""
        return self.keys_refusal(kind, exchange, (key,))

    def _refused_by_expressions(self, kind: int, exchange: str, topics: list[str]) -> list[str]:
        found = self._access.topic_permissions(self._user, self._vhost, exchange)
        if found is None:
            return []
        pattern = found[0] if kind == WRITE else found[1]
        for name, value in (("{username}", self._user), ("{vhost}", self._vhost)):
            pattern = pattern.replace(name, re.escape(value))
        return [topic for topic in topics if not is_found(pattern, topic)]

    def _reload(self) -> None:
        self._version = self._access.version
        self._answers = ({}, {}, {})
        if self._asked is not None:
            return
        expressions = self._access.permissions(self._user, self._vhost)
        self._patterns = expressions and tuple(compiled_pattern(each) for each in expressions)


def vhost_refusal(
    access: AccessView, user: str, vhost: str, exists: bool, is_standby: bool = False
) -> ProtocolError | None:
    """Why this user may not open this vhost (530); None if the user may. Undecided."""
    if not exists:
        return ProtocolError(ReplyCode.NOT_ALLOWED, f"vhost {vhost} not found")
    if access.permissions(user, vhost) is None:
        text = f"access to vhost '{vhost}' refused for user '{user}'"
        return ProtocolError(ReplyCode.NOT_ALLOWED, text)
    if is_standby:
        text = f"vhost '{vhost}' is the warm standby of another cluster and is not promoted"
        return ProtocolError(ReplyCode.NOT_ALLOWED, text)
    return None


def open_vhosts(access: AccessView, user: str, names: Sequence[str]) -> list[str]:
    """Which of these vhosts the user may open. Undecided."""
    if isinstance(access, AskedAccess):
        return access.vhosts(user, names)
    return [name for name in names if access.permissions(user, name) is not None]
