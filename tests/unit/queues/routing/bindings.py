"""Bindings made by hand, for exchange kinds that are tested alone."""

from queues.arguments import encode_arguments
from queues.definitions import Binding, Destination, Uid
from queues.routing.kinds import Kind


def binding(
    uid: int, target: int, key: bytes = b"", arguments: dict[str, object] | None = None
) -> Binding:
    """A binding to the queue of uid `target`."""
    encoded = encode_arguments(arguments or {})
    return Binding(Uid(uid), "/", "x", Destination.QUEUE, f"q{target}", key, encoded, target)


def matched(kind: Kind, key: bytes = b"", headers: dict[str, object] | None = None) -> list[int]:
    found: set[int] = set()
    kind.match(key, headers or {}, found)
    return sorted(found)
