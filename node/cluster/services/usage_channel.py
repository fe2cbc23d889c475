"""Connections and channels of other nodes that count towards limits of vhosts and users.

    channel = UsageChannel(peers)
    limits = ClientLimits(..., channel)
    peers.attach(USAGE, channel)
    channel.tell(limits.usage())         # ten times a second: sends to the others what has changed

Each node says what it has of that for which there are limits, to a peer when their link comes up
and to all when it changes. A node whose link is lost counts for nothing until it is back: its
clients may come to the others, and must be let in there.

A frame is a version (u8, 1) and MessagePack: an array of three maps from name to count, connections
by vhost, connections by user, channels by user (`node.connections.client_limits.Usage`). Not
compiled.
"""

from typing import Final

import msgspec

from node.cluster.cluster_interfaces import OTHER_LANE, USAGE, Peers
from node.connections.client_limits import NAMES_MAX, Usage
from warren.wire.peer.codes import PeerFault

VERSION: Final = 1
_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODE: Final = msgspec.msgpack.Decoder(Usage).decode


class UsageChannel:
    """Invariant: `_words` has the last word of each member that has a link."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._told = Usage()
        self._words: dict[int, Usage] = {}

    def tell(self, usage: Usage) -> None:
        """Send what this node has to the other members, if it has changed since the last call."""
        if usage == self._told:
            return
        self._told = usage
        for member in self._peers.members():
            if member != self._peers.member:
                self._send(member)

    def _send(self, member: int) -> None:
        self._peers.send(member, USAGE, OTHER_LANE, [bytes((VERSION,)), _ENCODE(self._told)])

    # What the cluster tells

    def peer_connected(self, member: int) -> None:
        self._send(member)

    def peer_lost(self, member: int) -> None:
        self._words.pop(member, None)

    def peer_removed(self, member: int) -> None:
        self._words.pop(member, None)

    def peer_received(self, member: int, payload: memoryview) -> None:
        if len(payload) < 2 or payload[0] != VERSION:
            raise PeerFault("no word about connections")
        try:
            usage = _DECODE(payload[1:])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise PeerFault(f"no word about connections: {error}") from error
        tables = (usage.connections_by_vhost, usage.connections_by_user, usage.channels_by_user)
        if any(len(each) > NAMES_MAX or min(each.values(), default=0) < 0 for each in tables):
            raise PeerFault("a word about connections that cannot be")
        self._words[member] = usage

    # What they say together (`node.connections.client_limits.Elsewhere`)

    def connections_in(self, vhost: str) -> int:
        return sum(each.connections_by_vhost.get(vhost, 0) for each in self._words.values())

    def connections_of(self, user: str) -> int:
        return sum(each.connections_by_user.get(user, 0) for each in self._words.values())

    def channels_of(self, user: str) -> int:
        return sum(each.channels_by_user.get(user, 0) for each in self._words.values())
