"""Where streams are, as clients of the stream protocol ask it: leader and replicas, by address.

Clients publish to the leader's node and read on any replica's. Every node takes publishes, so that
a stream whose leader has no known address for streams has this node in its place.
"""

from node.streams.connection import StreamConnection
from node.streams.lookup import advertised, stream_of
from warren.wire.stream import codes
from warren.wire.stream.frames import Answer, Fields

NO_LEADER = -1


class Nodes:
    """The nodes of one answer; each has a number in it."""

    def __init__(self, endpoint: StreamConnection) -> None:
        self._endpoint = endpoint
        self._numbers: dict[str, int | None] = {}  # by name; None: its address is not known
        self.addresses: list[tuple[str, int]] = []

    def number(self, name: str) -> int | None:
        if name not in self._numbers:
            address = self._address(name)
            self._numbers[name] = None if address is None else len(self.addresses)
            if address is not None:
                self.addresses.append(address)
        return self._numbers[name]

    def _address(self, name: str) -> tuple[str, int] | None:
        if name == self._endpoint.broker.node_name:
            return advertised(self._endpoint)
        place = self._endpoint.broker.whereis.node(name)
        if place is None or not place.is_running:
            return None
        told = place.stream_tls if self._endpoint.tls is not None else place.stream
        host, _, port = told.rpartition(":")
        return (host.strip("[]"), int(port)) if port.isdigit() else None


def answer_metadata(endpoint: StreamConnection, fields: Fields) -> None:
    correlation, names = fields.u32(), fields.strings()
    nodes = Nodes(endpoint)
    described = [_describe(endpoint, nodes, name) for name in names]
    told = Answer(fields.key, correlation, None).u32(len(nodes.addresses))
    for number, (host, port) in enumerate(nodes.addresses):
        told.u16(number).string(host).u32(port)
    told.u32(len(described))
    for name, (code, leader, replicas) in zip(names, described, strict=True):
        told.string(name).u16(code).i16(leader).u32(len(replicas))
        for replica in replicas:
            told.u16(replica)
    endpoint.send(told)


def _describe(endpoint: StreamConnection, nodes: Nodes, name: str) -> tuple[int, int, list[int]]:
    """Code, number of the leader's node, numbers of the nodes with the other members."""
    broker = endpoint.broker
    queue = broker.definitions.queue(endpoint.vhost, name)
    if queue is None or stream_of(endpoint, name) is None:
        return codes.STREAM_DOES_NOT_EXIST, NO_LEADER, []
    place = broker.whereis.place(queue)
    if place.leader is None:
        return codes.STREAM_NOT_AVAILABLE, NO_LEADER, []
    leader = nodes.number(place.leader)
    if leader is None:
        leader = nodes.number(broker.node_name)
    others = (nodes.number(each) for each in place.replicas if each != place.leader)
    return (
        codes.OK,
        NO_LEADER if leader is None else leader,
        [each for each in others if each is not None and each != leader],
    )
