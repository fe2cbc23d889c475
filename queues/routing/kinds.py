"""The kinds of exchange there are. A new kind is a class that keeps `Kind`, and a row here."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, Protocol

from msgspec import Struct

from queues.definitions.broker_objects import Binding, Destination
from queues.routing import consistent_hash, federation_upstream, headers, random_one
from queues.routing.consistent_hash import ConsistentHash
from queues.routing.content import Content
from queues.routing.direct import Direct
from queues.routing.fanout import Fanout
from queues.routing.federation_upstream import FederationUpstream
from queues.routing.headers import Headers
from queues.routing.modulus_hash import ModulusHash
from queues.routing.outside import Outside
from queues.routing.random_one import RandomOne
from queues.routing.topic import Topic


class Kind(Protocol):
    """The bindings from one exchange."""

    @property
    def per_message(self) -> bool:
        """Whether two messages with the same routing key may go to different targets: by what is
        in them, or at random. Then the answer is not cached."""

    @property
    def by_key(self) -> bool:
        """Whether a message with several routing keys is matched by each of them; else the
        first one stands for it."""

    def add(self, binding: Binding) -> str:
        """Take the binding; return a sentence of warning, or nothing if all is well."""

    def remove(self, binding: Binding) -> None: ...

    def match(self, key: bytes, content: Content, found: set[int]) -> None:
        """Put the targets of the bindings that match into `found`, which may hold some already."""

    def is_empty(self) -> bool: ...


class KindRow(Struct, frozen=True):
    """How to make a kind from the arguments of the exchange, and why there is no exchange with
    such arguments, and no such binding from one: the refusal's sentence, or None."""

    make: Callable[[dict[str, object], Outside], Kind]
    binding_fault: Callable[[Destination, bytes, dict[str, object]], str | None]
    exchange_fault: Callable[[dict[str, object]], str | None]


def _any_binding(kind: Destination, key: bytes, arguments: dict[str, object]) -> str | None:
    return None


def _any_arguments(arguments: dict[str, object]) -> str | None:
    return None


KINDS: Final[Mapping[str, KindRow]] = MappingProxyType(
    {
        "direct": KindRow(lambda arguments, outside: Direct(), _any_binding, _any_arguments),
        "fanout": KindRow(lambda arguments, outside: Fanout(), _any_binding, _any_arguments),
        federation_upstream.TYPE: KindRow(
            lambda arguments, outside: FederationUpstream(arguments),
            _any_binding,
            federation_upstream.exchange_fault,
        ),
        "topic": KindRow(lambda arguments, outside: Topic(), _any_binding, _any_arguments),
        "headers": KindRow(
            lambda arguments, outside: Headers(),
            lambda kind, key, arguments: headers.binding_fault(arguments),
            _any_arguments,
        ),
        "x-consistent-hash": KindRow(
            lambda arguments, outside: ConsistentHash(arguments),
            lambda kind, key, arguments: consistent_hash.binding_fault(key),
            consistent_hash.exchange_fault,
        ),
        "x-modulus-hash": KindRow(
            lambda arguments, outside: ModulusHash(), _any_binding, _any_arguments
        ),
        "x-random": KindRow(
            lambda arguments, outside: RandomOne(outside, False), _any_binding, _any_arguments
        ),
        "x-local-random": KindRow(
            lambda arguments, outside: RandomOne(outside, True),
            lambda kind, key, arguments: random_one.local_binding_fault(kind, key),
            _any_arguments,
        ),
    }
)
