"""The kinds of exchange there are. A new kind is a class that keeps `Kind`, and a row here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Protocol

from queues.definitions import Binding
from queues.routing import headers
from queues.routing.direct import Direct
from queues.routing.fanout import Fanout
from queues.routing.headers import Headers
from queues.routing.topic import Topic


class Kind(Protocol):
    """The bindings from one exchange.

    `match` puts the targets of the bindings that match into `found`, which may hold some already;
    `headers` is empty unless `needs_headers`. A kind says `needs_headers` if what it answers may
    depend on more than the routing key; then nobody keeps the answer.
    """

    @property
    def needs_headers(self) -> bool: ...

    def add(self, binding: Binding) -> None: ...

    def remove(self, binding: Binding) -> None: ...

    def match(self, key: bytes, headers: dict[str, object], found: set[int]) -> None: ...

    def is_empty(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class KindRow:
    """How to make a kind, and why it takes no such binding: the refusal's sentence, or None."""

    make: Callable[[], Kind]
    binding_fault: Callable[[bytes, dict[str, object]], str | None]


def _any_binding(key: bytes, arguments: dict[str, object]) -> str | None:
    return None


def _headers_binding(key: bytes, arguments: dict[str, object]) -> str | None:
    return headers.binding_fault(arguments)


KINDS: Final[Mapping[str, KindRow]] = MappingProxyType(
    {
        "direct": KindRow(Direct, _any_binding),
        "fanout": KindRow(Fanout, _any_binding),
        "topic": KindRow(Topic, _any_binding),
        "headers": KindRow(Headers, _headers_binding),
    }
)
