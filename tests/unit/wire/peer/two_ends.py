"""Both ends of a connection in memory, and the parts that they are made of."""

from warren.wire.peer.codes import CONTROL_ROLE
from warren.wire.peer.connection import Event, PeerConnection, Proven
from warren.wire.peer.handshake import Handshake, Identity, link_key

KEY = link_key(b"sixteen bytes or more")
OTHER_KEY = link_key(b"another secret of some length")
CLUSTER_ID = b"cluster-of-three"
PAIR = 77


def identity(node_id: int, key: bytes = KEY, cluster_id: bytes = CLUSTER_ID) -> Identity:
    return Identity(node_id, 1000 + node_id, 2000 + node_id, cluster_id, key)


def nonce(seed: int) -> bytes:
    return bytes((seed + at) % 256 for at in range(32))


def dialer(mine: Identity, target: int, seed: int = 1, role: int = CONTROL_ROLE) -> PeerConnection:
    return PeerConnection(Handshake(mine, nonce(seed), role, target, PAIR))


def accepter(mine: Identity, seed: int = 100) -> PeerConnection:
    return PeerConnection(Handshake(mine, nonce(seed)))


def output(core: PeerConnection) -> bytes:
    """All that it has to send."""
    sent = b""
    while not core.lanes.is_empty():
        sent += b"".join(core.lanes.take(1 << 20))
    return sent


def feed(core: PeerConnection, data: bytes, now_ns: int = 0) -> list[Event]:
    """What it makes of these bytes; a peer that proves its claim is accepted."""
    events = core.receive(data, now_ns)
    if events and isinstance(events[-1], Proven):
        core.accept()
        events += core.receive(b"", now_ns)
    return events


def shake(first: PeerConnection, second: PeerConnection) -> list[tuple[str, Event]]:
    """Let them talk until both are silent; what came of it, in order."""
    events: list[tuple[str, Event]] = []
    while not (first.lanes.is_empty() and second.lanes.is_empty()):
        events += [("accepter", each) for each in feed(second, output(first))]
        events += [("dialer", each) for each in feed(first, output(second))]
    return events


def open_pair(role: int = CONTROL_ROLE) -> tuple[PeerConnection, PeerConnection]:
    """A dialer and an accepter that have let each other in."""
    first = dialer(identity(1), 2, role=role)
    second = accepter(identity(2))
    shake(first, second)
    assert first.is_open()
    assert second.is_open()
    return first, second
