"""pysyncobj's messages on the peer links: a subclass of its public `Transport`.

One for each generation. Nodes are known to pysyncobj by their member ids as text. What is sent
while no link stands is lost, as pysyncobj expects of its own connections.
"""

from collections.abc import Callable
from typing import Any

from pysyncobj.node import Node
from pysyncobj.transport import Transport

from node.cluster.coordination.coordination_codec import Message

Send = Callable[[int, object], None]  # a message, to a member


class PeerTransport(Transport):  # type: ignore[misc]  # pysyncobj has no types
    """Invariant: `nodes` has all other members of the generation, and no others are heard."""

    def __init__(self, others: list[int], send: Send) -> None:
        super().__init__(None, None, [])
        self.nodes = {member: Node(str(member)) for member in others}
        self._send = send

    # What pysyncobj calls

    def send(self, node: Any, message: object) -> bool:
        """Hand the message over; delivery is not guaranteed."""
        self._send(int(node.id), message)
        return True

    # What the coordinator tells

    def connected(self, member: int) -> None:
        if member in self.nodes:
            self._onNodeConnected(self.nodes[member])

    def lost(self, member: int) -> None:
        if member in self.nodes:
            self._onNodeDisconnected(self.nodes[member])

    def received(self, member: int, message: Message) -> None:
        """Of a member of this generation; what others say is dropped."""
        if member in self.nodes:
            self._onMessageReceived(self.nodes[member], message)
