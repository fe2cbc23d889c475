"""A broker behind a real Toxiproxy, for tests of what an application does when things fail.

with Faults() as faults:
    connect(faults.url)            # through the proxy
    faults.toxic("latency", latency=100)
    faults.cut()                   # connections end, and new ones are refused
    faults.heal()
    faults.broker.kill9(); faults.broker.start()
"""

from types import TracebackType
from typing import Self

from warren.testing.broker import Broker
from warren.testing.client_links import PORTS_PER_NODE, ClientLinks
from warren.testing.node import free_ports


class Faults:
    """A `Broker`, and the link to it. ToxiproxyFailed: the program is not there."""

    def __init__(self, broker: Broker | None = None) -> None:
        self.broker = broker or Broker()
        ports = free_ports(PORTS_PER_NODE, [self.broker.port, self.broker.management_port])
        self._links = ClientLinks([self.broker.port], ports)

    def __enter__(self) -> Self:
        try:
            self._links.start()
            if not self.broker.is_running():
                self.broker.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def url(self) -> str:
        """AMQP URL through the proxy."""
        return f"amqp://guest:guest@{self.broker.host}:{self._links.ports[0]}/%2F"

    def cut(self) -> None:
        """Connections are closed, and new ones refused."""
        self._links.cut(1)

    def toxic(self, kind: str, /, **attributes: int) -> None:
        """Do what Toxiproxy calls `kind` to both directions: `toxic("latency", latency=100)`."""
        self._links.toxic(1, kind, **attributes)

    def heal(self) -> None:
        """The link is as good as new; connections made while it was not are closed."""
        self._links.heal()

    def close(self) -> None:
        self._links.stop()
        self.broker.close()
