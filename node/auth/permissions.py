"""Who may do what to which exchange or queue, cached for one user in one vhost.

The answer for (kind, name) holds as long as `AccessView.version` stays; a revocation takes effect
with the next check. The default exchange is checked as `amq.default`.
"""

import re
from typing import Final

from node.auth.access import AccessView
from node.auth.patterns import compiled_pattern, is_found
from queues.definitions.expressions import Expression
from warren.wire.errors import ProtocolError, ReplyCode

CONFIGURE: Final = 0
WRITE: Final = 1
READ: Final = 2
KIND_NAMES: Final = ("configure", "write", "read")

CACHED_MAX: Final = 4096  # names per kind; then that kind starts again


class PermissionCache:
    """The permissions of one user in one vhost: one per connection.

    Invariant: every cached answer was computed from the expressions of `_version`.
    """

    __slots__ = ("_access", "_answers", "_patterns", "_user", "_version", "_vhost")

    def __init__(self, access: AccessView, user: str, vhost: str) -> None:
        self._access = access
        self._user = user
        self._vhost = vhost
        self._version = -1
        self._patterns: tuple[Expression | None, ...] | None = None
        self._answers: tuple[dict[str, bool], dict[str, bool], dict[str, bool]] = ({}, {}, {})

    def allows(self, kind: int, name: str) -> bool:
        """Whether CONFIGURE, WRITE or READ of this exchange or queue is permitted."""
        if self._access.version != self._version:
            self._reload()
        answers = self._answers[kind]
        answer = answers.get(name)
        if answer is None:
            if len(answers) >= CACHED_MAX:
                answers.clear()
            pattern = None if self._patterns is None else self._patterns[kind]
            answer = pattern is not None and pattern.is_found_in(name or "amq.default")
            answers[name] = answer
        return answer

    def require(self, kind: int, object_kind: str, name: str) -> None:
        """Raise 403 unless permitted; `object_kind` is 'queue' or 'exchange'."""
        if not self.allows(kind, name):
            raise self.refusal(kind, object_kind, name)

    def require_any(self, object_kind: str, name: str) -> None:
        """Raise 403 unless one of the three is permitted (passive declare)."""
        if not any(self.allows(kind, name) for kind in (CONFIGURE, WRITE, READ)):
            raise self.refusal(CONFIGURE, object_kind, name)

    def refusal(self, kind: int, object_kind: str, name: str) -> ProtocolError:
        return ProtocolError(
            ReplyCode.ACCESS_REFUSED,
            f"{KIND_NAMES[kind]} access to {object_kind} '{name or 'amq.default'}' in vhost "
            f"'{self._vhost}' refused for user '{self._user}'",
        )

    def topic_refusal(self, kind: int, exchange: str, key: bytes) -> ProtocolError | None:
        """Why the user may not WRITE or READ this key of a topic exchange; None: it may."""
        found = self._access.topic_permissions(self._user, self._vhost, exchange)
        if found is None:
            return None
        topic = key.decode("utf-8", "replace")
        pattern = found[0] if kind == WRITE else found[1]
        for name, value in (("{username}", self._user), ("{vhost}", self._vhost)):
            pattern = pattern.replace(name, re.escape(value))
        if is_found(pattern, topic):
            return None
        return ProtocolError(
            ReplyCode.ACCESS_REFUSED,
            f"{KIND_NAMES[kind]} access to topic '{topic}' in exchange '{exchange}' in vhost "
            f"'{self._vhost}' refused for user '{self._user}'",
        )

    def _reload(self) -> None:
        self._version = self._access.version
        self._answers = ({}, {}, {})
        expressions = self._access.permissions(self._user, self._vhost)
        self._patterns = expressions and tuple(compiled_pattern(each) for each in expressions)


def vhost_refusal(
    access: AccessView, user: str, vhost: str, exists: bool, is_standby: bool = False
) -> ProtocolError | None:
    """Why this user may not open this vhost (530); None if the user may."""
    if not exists:
        return ProtocolError(ReplyCode.NOT_ALLOWED, f"vhost {vhost} not found")
    if access.permissions(user, vhost) is None:
        text = f"access to vhost '{vhost}' refused for user '{user}'"
        return ProtocolError(ReplyCode.NOT_ALLOWED, text)
    if is_standby:
        text = f"vhost '{vhost}' is the warm standby of another cluster and is not promoted"
        return ProtocolError(ReplyCode.NOT_ALLOWED, text)
    return None
