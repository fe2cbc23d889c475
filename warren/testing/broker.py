"""A broker for the tests of applications: empty, on free ports of the loopback, gone at the end.

    with Broker() as broker:                              # a process of its own
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        broker.advance(3600)                              # messages with a TTL of an hour expire
        with broker.vhost() as vhost:                     # nothing in it, and gone at the end
            connect(vhost.url)

A `Broker` is a `warren.testing.Node` whose data is in memory, if the system has a file system for
that, and whose clock may be advanced. What survives `kill9` and `restart` is what would on a disk.
"""

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from warren.testing.node import Node

IN_MEMORY: Final = Path("/dev/shm")  # a tmpfs of most systems
SETTINGS: Final[Mapping[str, str]] = {
    "testing.adjustable_clock": "true",
    "storage.wal_file_bytes": "16777216",
    "disk_free_limit.absolute": "0",
    # The password of a test need not be slow to check.
    "auth.password_hashing": "sha256",
}


@dataclass(frozen=True, slots=True)
class VirtualHost:
    """A vhost of a `Broker`, for one test."""

    broker: "Broker"
    name: str

    @property
    def url(self) -> str:
        """AMQP URL of this vhost."""
        return self.broker.url_of(self.name)

    @property
    def management_url(self) -> str:
        """Root of the HTTP API of the broker."""
        return self.broker.management_url

    def advance(self, seconds: float) -> None:
        """Advance the clock of the broker, which all its vhosts share."""
        self.broker.advance(seconds)

    def queue(self, name: str) -> Any:
        """What the HTTP API says of a queue. NodeFailed: there is none."""
        return self.broker.api("GET", f"/api/queues/{quote(self.name, '')}/{quote(name, '')}")


class Broker(Node):
    """A node that is empty at first; options as those of `Node`, `settings` go before ours."""

    def __init__(
        self,
        name: str = "broker",
        *,
        data_dir: Path | None = None,
        settings: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        self._memory: Path | None = None
        if data_dir is None and os.access(IN_MEMORY, os.W_OK):
            self._memory = Path(tempfile.mkdtemp(prefix="warren-broker-", dir=IN_MEMORY))
            data_dir = self._memory
        merged = {**SETTINGS, **(settings or {})}
        super().__init__(name, data_dir=data_dir, settings=merged, **options)

    def url_of(self, vhost: str) -> str:
        """AMQP URL of that vhost, as `guest`."""
        return f"amqp://guest:guest@{self.host}:{self.port}/{quote(vhost, '')}"

    def advance(self, seconds: float) -> None:
        """Have TTL, delays and the expiry of queues act as if so much time had passed."""
        self.api("PUT", f"/api/nodes/{self.name}/clock", {"advance_ms": round(1000 * seconds)})

    @contextmanager
    def vhost(self) -> Iterator[VirtualHost]:
        """Declare a vhost, and delete it with all that is in it."""
        name = f"test-{uuid.uuid4().hex}"
        path = f"/api/vhosts/{name}"
        self.api("PUT", path)
        try:
            yield VirtualHost(self, name)
        finally:
            if self.is_running():
                self.api("DELETE", path)

    def close(self) -> None:
        super().close()
        if self._memory is not None:
            shutil.rmtree(self._memory, ignore_errors=True)
