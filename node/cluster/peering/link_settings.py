"""What can be set of the links to other nodes."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from warren.wire.peer.connection import MESSAGE_BYTES_MAX, PEER_BYTES_MAX

if TYPE_CHECKING:
    from node.config.settings import ClusterSection, TestingSection

BULK_BEATS_APART: Final = 10  # the bulk connection beats so much more seldom, and silence allowing

Target = tuple[str, int]  # host and port


class LinkSettings(Struct, frozen=True, kw_only=True):
    """Times, and limits that bound what others can make this node do."""

    beat_interval_ms: int = 100
    silence_ms: int = 5000  # after which a connection is given up
    handshake_timeout_ms: int = 5000
    connect_timeout_ms: int = 3000
    retry_ms_min: int = 50  # the first pause between two attempts; it doubles
    retry_ms_max: int = 1000
    peer_bytes_max: int = PEER_BYTES_MAX  # that wait for one peer on the bulk connection
    message_bytes_max: int = MESSAGE_BYTES_MAX
    strangers_max: int = 64  # connections that have not proven who they are
    strangers_per_host_max: int = 16
    # What is dialed in place of an address: proxies before nodes, for tests.
    routes: Mapping[Target, Target] = field(default_factory=dict)

    def pairing_ns(self) -> int:
        """How long a control connection waits for the bulk connection beside it."""
        return (self.connect_timeout_ms + 2 * self.handshake_timeout_ms) * 1_000_000

    def way_to(self, address: Target) -> Target:
        """What to dial to reach that address."""
        return self.routes.get(address, address)

    def bulk_beats_apart(self) -> int:
        """Every how many beats the bulk connection has one."""
        per_silence = self.silence_ms // (4 * self.beat_interval_ms)
        return max(1, min(BULK_BEATS_APART, per_silence))


def link_settings(
    cluster: "ClusterSection", testing: "TestingSection | None" = None
) -> LinkSettings:
    """Those of the configuration."""
    targets = [(each.host, each.port) for each in testing.peer_routes] if testing else []
    return LinkSettings(
        beat_interval_ms=cluster.beat_interval_ms,
        silence_ms=cluster.silence_ms,
        handshake_timeout_ms=cluster.handshake_timeout_ms,
        peer_bytes_max=cluster.peer_bytes_max,
        routes=dict(zip(targets[::2], targets[1::2], strict=True)),
    )
