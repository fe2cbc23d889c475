"""Connections of other nodes that count towards limits: told when they change, then forgotten."""

import msgspec
import pytest

from node.cluster.cluster_interfaces import USAGE
from node.cluster.services.usage_channel import UsageChannel
from node.connections.client_limits import Usage
from tests.unit.node.peer_net import PeerNet
from warren.wire.peer.codes import PeerFault


class World:
    """Three nodes; tests set what each of them has."""

    def __init__(self) -> None:
        self.net = PeerNet()
        self.usage = {member: Usage() for member in (1, 2, 3)}
        self.parts: dict[int, UsageChannel] = {}
        for member in (1, 2, 3):
            peers = self.net.add(member)
            self.parts[member] = UsageChannel(peers)
            peers.attach(USAGE, self.parts[member])
        self.net.join_all()
        self.net.run()

    def tick(self) -> int:
        """How many frames that took."""
        for member, part in self.parts.items():
            part.tell(self.usage[member])
        return self.net.run()


def test_what_changes_is_told_to_all_and_nothing_else_is() -> None:
    world = World()
    assert world.tick() == 0
    world.usage[1] = Usage({"/": 2}, {"anna": 1}, {"anna": 7})
    world.usage[2] = Usage({"/": 3})
    assert world.tick() == 4
    assert world.tick() == 0
    third = world.parts[3]
    assert (third.connections_in("/"), third.connections_in("shop")) == (5, 0)
    assert (third.connections_of("anna"), third.channels_of("anna")) == (1, 7)
    assert world.parts[1].connections_in("/") == 3  # without its own
    world.usage[1] = Usage()
    world.tick()
    assert third.connections_in("/") == 3


def test_a_node_that_is_gone_counts_for_nothing_until_it_is_back() -> None:
    world = World()
    world.usage[1] = Usage({"/": 2})
    world.tick()
    world.net.cut(1, 3)
    assert world.parts[3].connections_in("/") == 0
    assert world.parts[2].connections_in("/") == 2
    world.net.join(1, 3)
    world.net.run()
    assert world.parts[3].connections_in("/") == 2
    world.parts[3].peer_removed(1)
    assert world.parts[3].connections_in("/") == 0


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x01",
        b"\x02" + msgspec.msgpack.encode(Usage()),
        b"\x01\xc1",
        b"\x01" + msgspec.msgpack.encode([{"/": "x"}, {}, {}]),
        b"\x01" + msgspec.msgpack.encode([{"/": -1}, {}, {}]),
        b"\x01" + msgspec.msgpack.encode({}),
    ],
)
def test_a_frame_that_makes_no_sense_is_the_peers_fault(payload: bytes) -> None:
    with pytest.raises(PeerFault):
        World().parts[1].peer_received(2, memoryview(payload))
