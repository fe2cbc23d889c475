"""Whether one more client fits: limits of the node, of vhosts and of users.

Takes the connections of this node and what other nodes say of theirs (`Elsewhere`); gives the
refusal in RabbitMQ's words, or None. Limits of the node count its own connections and channels.
Limits of vhosts and users hold for the whole cluster: exact on this node, and as late about the
others as their last word is, so that a burst on several nodes at once can go over a limit by what
the others took meanwhile. Connections are counted only where there is a limit.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from queues.definitions.vhost_limits import (
    MAX_CHANNELS,
    MAX_CONNECTIONS,
    USER_LIMITS,
    VHOST_LIMITS,
    VHOST_LIMITS_NAME,
    user_limit,
    vhost_limit,
)
from warren.wire.errors import ProtocolError, ReplyCode

if TYPE_CHECKING:
    from node.config.settings import LimitsSection
    from node.connections.connection_registry import ConnectionRegistry
    from queues.definitions.metadata.machine import Metadata

NAMES_MAX: Final = 100_000  # of vhosts or users with limits, in one word of a node


class Usage(msgspec.Struct, frozen=True, array_like=True):
    """What one node has of that for which there are limits."""

    connections_by_vhost: dict[str, int] = {}
    connections_by_user: dict[str, int] = {}
    channels_by_user: dict[str, int] = {}


class Elsewhere(Protocol):
    """What the other nodes of the cluster have, as far as is known."""

    def connections_in(self, vhost: str) -> int: ...

    def connections_of(self, user: str) -> int: ...

    def channels_of(self, user: str) -> int: ...


class ClientLimits:
    """See the module."""

    def __init__(
        self,
        limits: "LimitsSection",
        metadata: "Metadata",
        connections: "ConnectionRegistry",
        node_name: str,
        definitions_version: Callable[[], int],
        elsewhere: Elsewhere,
    ) -> None:
        self._elsewhere = elsewhere
        self._limits = limits
        self._metadata = metadata
        self._connections = connections
        self._node_name = node_name
        self._definitions_version = definitions_version
        self._version = -1
        self._vhosts: list[str] = []  # those with a limit, as of that version of the definitions
        self._users: list[str] = []

    def connection_refusal(self, user: str, vhost: str) -> ProtocolError | None:
        """Why the node, the vhost or the user takes no more connections; None: they do."""
        limit = self._limits.connection_max
        if 0 <= limit <= len(self._connections.open):
            text = f"Connection refused for user '{user}': node connection limit ({limit})"
            return ProtocolError(ReplyCode.NOT_ALLOWED, f"{text} is reached")
        limit = vhost_limit(self._metadata.vhosts[vhost].parameters, MAX_CONNECTIONS)
        if 0 <= limit <= self._connections_in(vhost) + self._elsewhere.connections_in(vhost):
            text = (
                f"access to vhost '{vhost}' refused for user '{user}': connection limit ({limit})"
            )
            return ProtocolError(ReplyCode.NOT_ALLOWED, f"{text} is reached")
        limit = user_limit(self._metadata.parameters, user, MAX_CONNECTIONS)
        if 0 <= limit <= self._connections_of(user) + self._elsewhere.connections_of(user):
            text = f"connection refused for user '{user}': user connection limit ({limit})"
            return ProtocolError(ReplyCode.NOT_ALLOWED, f"{text} is reached")
        return None

    def channel_refusal(self, user: str) -> ProtocolError | None:
        """Why no more channel, or session, may be opened; None: it may."""
        limit = self._limits.channel_max_per_node
        if (
            0
            < limit
            <= self._connections.channels_opened_count - self._connections.channels_closed_count
        ):
            text = f"number of channels opened on node '{self._node_name}' has reached the maximum"
            return ProtocolError(ReplyCode.NOT_ALLOWED, f"{text} allowed limit of ({limit})")
        limit = user_limit(self._metadata.parameters, user, MAX_CHANNELS)
        if limit < 0 or self._channels_of(user) + self._elsewhere.channels_of(user) < limit:
            return None
        text = f"number of channels opened for user '{user}' has reached the maximum allowed user"
        return ProtocolError(ReplyCode.NOT_ALLOWED, f"{text} limit of ({limit})")

    def usage(self) -> Usage:
        """What the other nodes need to know of this one."""
        self._find_limits()
        if not (self._vhosts or self._users):
            return Usage()
        in_vhost = dict.fromkeys(self._vhosts[:NAMES_MAX], 0)
        of_user = dict.fromkeys(self._users[:NAMES_MAX], 0)
        channels = dict(of_user)
        for each in self._connections.open.values():
            if each.vhost in in_vhost:
                in_vhost[each.vhost] += 1
            if each.user in of_user:
                of_user[each.user] += 1
                channels[each.user] += each.channel_count()
        return Usage(_more_than_none(in_vhost), _more_than_none(of_user), _more_than_none(channels))

    def _find_limits(self) -> None:
        metadata = self._metadata
        version = self._definitions_version()
        if version == self._version:
            return
        self._version = version
        key = (VHOST_LIMITS, VHOST_LIMITS_NAME)
        self._vhosts = [name for name, each in metadata.vhosts.items() if key in each.parameters]
        self._users = [name for component, name in metadata.parameters if component == USER_LIMITS]

    def _connections_in(self, vhost: str) -> int:
        return sum(each.vhost == vhost for each in self._connections.open.values())

    def _connections_of(self, user: str) -> int:
        return sum(each.user == user for each in self._connections.open.values())

    def _channels_of(self, user: str) -> int:
        of_user = (each for each in self._connections.open.values() if each.user == user)
        return sum(each.channel_count() for each in of_user)


def _more_than_none(counts: dict[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}
