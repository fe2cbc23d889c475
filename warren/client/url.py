"""Addresses of brokers: `amqp://user:password@host:port/vhost`, `amqps://...` with TLS.

The vhost is percent-encoded; none means the broker's default. Without user the client
logs in by its certificate (EXTERNAL), over TLS where the broker offers that; else as ANONYMOUS, and
with AMQP 0-9-1 as guest.
"""

from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

PORTS: Final = {"amqp": 5672, "amqps": 5671}


@dataclass(frozen=True, slots=True)
class BrokerUrl:
    host: str
    port: int
    tls: bool
    user: str
    password: str
    vhost: str  # "": the default

    @property
    def hostname(self) -> str:
        """Of the open frame: names the vhost."""
        return f"vhost:{self.vhost}" if self.vhost else self.host


def parse_url(url: str) -> BrokerUrl:
    """ValueError: it is none."""
    parts = urlsplit(url)
    if parts.scheme not in PORTS:
        raise ValueError(f"the scheme of {url!r} must be amqp or amqps")
    return BrokerUrl(
        parts.hostname or "localhost",
        parts.port or PORTS[parts.scheme],
        parts.scheme == "amqps",
        unquote(parts.username or ""),
        unquote(parts.password or ""),
        unquote(parts.path.removeprefix("/")),
    )
