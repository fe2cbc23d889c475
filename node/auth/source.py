"""Where a login comes from: addresses, protocol, mechanism and what TLS says of the client."""

from ipaddress import ip_address
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

if TYPE_CHECKING:
    from node.tls.certificate import TlsPeer

LoginProtocol = Literal["amqp091", "amqp10", "stream", "http"]


class Source(Struct, frozen=True):
    """Behind a proxy that says so, the address is the client's."""

    address: str
    protocol: LoginProtocol = "amqp091"
    certificate_user: str = ""  # whom a verified certificate names; '': there is none
    peer_port: int = 0
    host: str = ""  # of this node
    port: int = 0
    mechanism: str = ""
    tls: "TlsPeer | None" = None  # None: the client came without TLS

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.address)


def source_of(
    protocol: LoginProtocol,
    mechanism: str,
    peer: tuple[str, int],
    here: tuple[str, int],
    tls: "TlsPeer | None",
) -> Source:
    """The source of a connection between two addresses, each a host and a port."""
    certificate_user = "" if tls is None else tls.login_name
    return Source(peer[0], protocol, certificate_user, peer[1], *here, mechanism, tls)


def is_loopback(address: str) -> bool:
    """Whether a peer's address is this machine's own; `::ffff:127.0.0.1` is one too."""
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return False  # A name or a path: not what a socket tells of its peer.
    mapped = getattr(ip, "ipv4_mapped", None)
    return (mapped or ip).is_loopback
