"""A primary and its warm standby, for tests."""

import contextlib
import io
from typing import Any
from urllib.parse import quote

import pika

from node.cli.warrenctl import main
from tests.waiting import eventually
from warren.testing.http_api import HttpApi


def feed_uri(management_url: str) -> str:
    """The address of a primary for its standby, with a login."""
    scheme, _, place = management_url.partition("://")
    return f"{scheme}://guest:guest@{place.removesuffix('/api')}"


class Side:
    """A node as the primary or the standby of a vhost."""

    def __init__(self, node: Any, vhost: str) -> None:
        self.node = node
        self.vhost = vhost
        self.path = quote(vhost, safe="")
        self.api = HttpApi(node.management_url)
        self._connections: list[Any] = []

    def add_vhost(self) -> None:
        self.api.put(f"/vhosts/{self.path}", {})
        everything = {"configure": ".*", "write": ".*", "read": ".*"}
        self.api.put(f"/permissions/{self.path}/guest", everything)

    def follow(self, uri: str | list[str], **more: object) -> None:
        value = {"uri": uri, "interval": 0.1, "reconnect-delay": 0.2, **more}
        self.api.put(f"/parameters/standby/{self.path}/primary", {"value": value})

    def row(self) -> dict[str, Any]:
        (found,) = [each for each in self.api.get("/standbys") if each["vhost"] == self.vhost]
        return dict(found)

    def synced_after(self, at_ms: int) -> None:
        """Until a pass has ended that began after this time; a dead node holds queues for 60 s."""
        eventually(lambda: self.row()["synced_at"] > at_ms, self.row, seconds=120)

    def promote(self, *options: str) -> tuple[int, str]:
        """Exit code, and what was written."""
        return self.command("promote_standby", "-p", self.vhost, *options)

    def command(self, *words: str) -> tuple[int, str]:
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            code = main(["--node-url", self.node.management_url, *words])
        return code, out.getvalue()

    def channel(self) -> Any:
        url = f"{self.node.url.rpartition('/')[0]}/{self.path}"
        connection = pika.BlockingConnection(pika.URLParameters(url))
        self._connections.append(connection)
        return connection.channel()

    def close(self) -> None:
        for each in self._connections:
            with contextlib.suppress(pika.exceptions.AMQPError):  # The node was killed.
                each.close()
        self._connections = []

    def all_of(self, queue: str, count: int) -> list[tuple[Any, Any, bytes]]:
        """So many messages of a queue, in order, once they are ready; they stay unacknowledged."""
        channel = self.channel()

        def ready() -> int:
            return int(channel.queue_declare(queue, passive=True).method.message_count)

        eventually(lambda: ready() == count, ready)
        return [channel.basic_get(queue) for _ in range(count)]

    def restart_dead(self) -> None:
        """Start the node again if it was killed, and forget the vhost."""
        self.close()
        if not self.node.is_running():
            self.node.start()
        self.api.delete(f"/vhosts/{self.path}")
