"""Tells the events of a node of the logins that were decided.

Successes of AMQP alone: with HTTP every request is a login. Failures of all; no password and no
response of a client is in any of them.
"""

from collections.abc import Callable

from node.auth.source import Source
from node.events.events import Events
from node.tls.certificate import TlsPeer

SUCCESS = "user.authentication.success"
FAILURE = "user.authentication.failure"


def login_teller(events: Events) -> Callable[[Source, str, str], None]:
    """For `LoginChecks.on_login`."""

    def tell(source: Source, user: str, why_not: str) -> None:
        facts = source_properties(source)
        if why_not:
            events.tell(FAILURE, name=user, **facts, error=why_not)
        elif source.protocol != "http":
            events.tell(SUCCESS, name=user, **facts)

    return tell


def source_properties(source: Source) -> dict[str, object]:
    """What is known of the way on which a login came."""
    found: dict[str, object] = {"protocol": source.protocol, "peer_host": source.address}
    if source.port:
        found |= {"peer_port": source.peer_port, "host": source.host, "port": source.port}
    if source.mechanism:
        found["auth_mechanism"] = source.mechanism
    return {**found, **tls_properties(source.tls)}


def tls_properties(tls: TlsPeer | None) -> dict[str, object]:
    """What TLS says of a client, and its certificate if one was verified, by RabbitMQ's names."""
    if tls is None:
        return {"ssl": False}
    has_certificate = bool(tls.peer_subject or tls.peer_validity)
    return {
        "ssl": True,
        "ssl_protocol": tls.protocol,
        "ssl_key_exchange": tls.key_exchange,
        "ssl_cipher": tls.cipher,
        "ssl_hash": tls.hash,
        "peer_cert_subject": tls.peer_subject if has_certificate else None,
        "peer_cert_issuer": tls.peer_issuer if has_certificate else None,
        "peer_cert_validity": tls.peer_validity if has_certificate else None,
    }
