"""What queues of addresses with limits hold on other nodes, and what is on its way to them.

    part = AddressesChannel(peers, broker.addresses)
    peers.attach(ADDRESSES, part)
    part.tick()                          # ten times a second

Each node tells all others what the queues hold that it leads, of addresses that publishers use
somewhere, and what its own publishers have under way. A node whose link is lost counts for nothing
until it is back: nothing can be published to its queues.

Words go on the lane of confirms: a word that comes behind a confirm counts what was confirmed.

A frame is a version (u8, 1) and MessagePack: an array of `AddressWord`. Not compiled.
"""

from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from node.addresses.address_words import WORDS_MAX, AddressWord
from node.cluster.cluster_interfaces import ADDRESSES, QUEUES_LANE, Peers
from warren.wire.peer.codes import PeerFault

VERSION: Final = 1
_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODE: Final = msgspec.msgpack.Decoder(list[AddressWord]).decode


class Addresses(Protocol):
    """The accounts of this node (`node.addresses.address_keeper`)."""

    def words(self) -> list[AddressWord]:
        """What to tell the others."""

    def hear(self, member: int, words: Sequence[AddressWord]) -> None:
        """All that another node says now."""

    def begin_round(self, peers: int) -> None:
        """So many nodes got the words."""


class AddressesChannel:
    """Invariant: `_connected` are the members that have a link."""

    def __init__(self, peers: Peers, addresses: Addresses) -> None:
        self._peers = peers
        self._addresses = addresses
        self._connected: set[int] = set()
        self._was_empty = True

    def tick(self) -> None:
        """Tell the others, unless there is nothing to tell again."""
        words = self._addresses.words()
        if words or not self._was_empty:
            self._was_empty = not words
            self._send(words)
        self._addresses.begin_round(len(self._connected))

    def _send(self, words: Sequence[AddressWord]) -> None:
        frame = [bytes((VERSION,)), _ENCODE(words)]
        for member in self._connected:
            self._peers.send(member, ADDRESSES, QUEUES_LANE, frame)

    def peer_connected(self, member: int) -> None:
        self._connected.add(member)

    def peer_lost(self, member: int) -> None:
        self._connected.discard(member)
        self._addresses.hear(member, ())

    def peer_removed(self, member: int) -> None:
        self.peer_lost(member)

    def peer_received(self, member: int, payload: memoryview) -> None:
        if len(payload) < 2 or payload[0] != VERSION:
            raise PeerFault("no word about addresses")
        try:
            words = _DECODE(payload[1:])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise PeerFault(f"no word about addresses: {error}") from error
        if len(words) > WORDS_MAX or any(each.is_wrong() for each in words):
            raise PeerFault("a word about addresses that cannot be")
        self._addresses.hear(member, words)
