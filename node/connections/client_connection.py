"""What other rooms use of a client's connection, whichever protocol it speaks."""

from typing import TYPE_CHECKING, Protocol

from node.connections.connection_facts import ConnectionFacts
from node.connections.socket_reading import Transport
from queues.sessions.credit import CreditActor

if TYPE_CHECKING:
    from node.tls.certificate import TlsPeer


class ClientConnection(Protocol):
    """`Endpoint091`, `Endpoint10` and `StreamEndpoint`."""

    is_publishing: bool  # recently (`node.resources.publish_hold`)

    @property
    def id(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def vhost(self) -> str: ...

    @property
    def user(self) -> str: ...

    @property
    def mechanism(self) -> str: ...

    @property
    def tls(self) -> "TlsPeer | None": ...

    @property
    def peer(self) -> tuple[str, int]: ...

    @property
    def here(self) -> tuple[str, int]: ...

    @property
    def connected_at_ms(self) -> int: ...

    @property
    def has_published(self) -> bool: ...

    @property
    def is_amqp10(self) -> bool: ...

    @property
    def transport(self) -> Transport: ...

    @property
    def reader(self) -> CreditActor: ...

    def facts(self) -> ConnectionFacts: ...

    def channel_count(self) -> int: ...

    def consumer_count(self) -> int: ...

    def queue_uids(self) -> set[int]:
        """The queues that its channels or links use."""

    def mark(self) -> None:
        """Judge again in this turn whether to read, and write what waits."""

    def trace_changed(self) -> None:
        """The firehose of the vhost was switched on or off."""

    def tick(self, now_ms: int) -> None: ...

    def close(self, reason: str) -> None:
        """Begin to close with reply code 320."""

    def abort(self) -> None: ...
