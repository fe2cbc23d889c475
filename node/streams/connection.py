"""What the commands of the stream protocol need of the connection that carries them out."""

from typing import TYPE_CHECKING, Protocol

from node.auth.access import AccessView
from node.auth.permissions import PermissionCache
from node.events.authors import Author
from node.events.logs import Ids
from node.streams.publisher import StreamPublisher
from node.streams.subscription import Subscription
from queues.streams.host import StreamHost
from warren.wire.stream.frames import FrameWriter

if TYPE_CHECKING:
    from node.amqp091.publish_plans import RouteCache
    from node.broker import Broker
    from node.streams.single_active import Updates
    from node.tls.certificate import TlsPeer


class StreamConnection(Protocol):
    """`node.streams.endpoint.StreamEndpoint`."""

    client_properties: dict[str, str]
    deliver_version: int

    @property
    def id(self) -> str: ...

    @property
    def broker(self) -> "Broker": ...

    @property
    def name(self) -> str: ...

    @property
    def here(self) -> tuple[str, int]: ...

    @property
    def tls(self) -> "TlsPeer | None": ...

    @property
    def vhost(self) -> str: ...

    @property
    def user(self) -> str:
        """Empty before the login."""

    @property
    def access(self) -> AccessView: ...

    @property
    def permissions(self) -> PermissionCache: ...

    @property
    def mechanisms(self) -> list[str]: ...

    @property
    def is_open(self) -> bool:
        """Whether a vhost is."""

    @property
    def publishers(self) -> dict[int, StreamPublisher]: ...

    @property
    def subscriptions(self) -> dict[int, Subscription]: ...

    @property
    def updates(self) -> "Updates": ...

    def begin_login(self, correlation: int, mechanism: str, response: bytes) -> None: ...

    def tuned(self, frame_max: int, heartbeat_s: int) -> None:
        """What the client says to our Tune; 0: no limit, no heartbeats."""

    def opened(self, vhost: str) -> None:
        """The client may use the vhost from now on."""

    def add_publisher(self, number: int, host: StreamHost, reference: str) -> None: ...

    def flush_publisher(self, publisher: StreamPublisher) -> None:
        """Send the confirms that are due."""

    def count_published(self) -> None: ...

    def stream_gone(self, host: StreamHost) -> None:
        """The stream was deleted: tell the client once, and let go of what uses it."""

    def plans(self) -> "RouteCache": ...

    def send(self, frame: FrameWriter) -> None: ...

    def refuse(self, publisher: int, ids: list[int], code: int) -> None:
        """Send PublishError for messages; there may be none."""

    def mark(self) -> None: ...

    def fail(self, code: int, text: str) -> None:
        """Close the connection for what its client did."""

    def close_when_sent(self) -> None: ...

    def ids(self) -> Ids: ...

    def author(self) -> Author: ...
