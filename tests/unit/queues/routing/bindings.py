"""Bindings made by hand, for exchange kinds that are tested alone."""

from queues.definitions.arguments import encode_arguments
from queues.definitions.broker_objects import Binding, Destination, Uid
from queues.routing.kinds import Kind


def binding(
    uid: int, target: int, key: bytes = b"", arguments: dict[str, object] | None = None
) -> Binding:
    """A binding to the queue of uid `target`."""
    encoded = encode_arguments(arguments or {})
    return Binding(Uid(uid), "/", "x", Destination.QUEUE, f"q{target}", key, encoded, target)


class FakeContent:
    """A message that says what it was asked for."""

    def __init__(self, headers: dict[str, object] | None = None, **texts: bytes) -> None:
        self._headers = headers or {}
        self._texts = texts
        self.asked: list[str] = []

    def headers(self) -> dict[str, object]:
        self.asked.append("headers")
        return self._headers

    def text(self, name: str) -> bytes:
        self.asked.append(name)
        return self._texts.get(name, b"")


def matched(
    kind: Kind, key: bytes = b"", headers: dict[str, object] | None = None, **texts: bytes
) -> list[int]:
    found: set[int] = set()
    kind.match(key, FakeContent(headers, **texts), found)
    return sorted(found)
