"""One vhost of the metadata machine: exchanges, queues, bindings and rules, found from every side.

Its holders only read; only the machine changes it. What goes takes with it what rests on it: a
queue or exchange its bindings, the last binding of an auto-delete exchange that exchange.
"""

from collections.abc import Iterator

from queues.definitions.broker_objects import (
    Binding,
    Destination,
    Exchange,
    Parameter,
    Queue,
    VhostEntry,
)
from queues.definitions.metadata.outcomes import Added, Change, Removed
from queues.definitions.policies import PolicyTable

BindingKey = tuple[str, int, str, bytes, bytes]


def binding_key_of(binding: Binding) -> BindingKey:
    """What makes a binding the one it is.

    Of plain values alone, so that the garbage collector need not look at those of all bindings.
    """
    return (
        binding.source,
        int(binding.destination_kind),
        binding.destination,
        binding.binding_key,
        binding.arguments,
    )


class VHost:
    """Invariant: source and destination of every binding exist, and every dict of bindings agrees.

    Dicts keep the order in which things were added, which is the order of their uids.
    """

    __slots__ = (
        "_bindings",
        "_from",
        "_to",
        "entry",
        "exchanges",
        "parameters",
        "policies",
        "queues",
        "version",
    )

    def __init__(self, entry: VhostEntry) -> None:
        self.entry = entry
        self.version = 0  # goes up with every change in here, permissions included
        self.exchanges: dict[str, Exchange] = {}
        self.queues: dict[str, Queue] = {}
        self.policies = PolicyTable()
        self.parameters: dict[tuple[str, str], Parameter] = {}  # by component and name
        self._bindings: dict[BindingKey, Binding] = {}
        self._from: dict[str, dict[int, Binding]] = {}  # by source; no inner dict is empty
        self._to: dict[int, dict[int, Binding]] = {}  # by target; no inner dict is empty

    @property
    def name(self) -> str:
        return self.entry.name

    def binding(self, key: BindingKey) -> Binding | None:
        return self._bindings.get(key)

    @property
    def binding_count(self) -> int:
        return len(self._bindings)

    def bindings(self) -> list[Binding]:
        return list(self._bindings.values())

    def bindings_from(self, exchange: str) -> list[Binding]:
        return list(self._from.get(exchange, {}).values())

    def bindings_to(self, kind: Destination, name: str) -> list[Binding]:
        target = self._target(kind, name)
        return list(self._to.get(target, {}).values())

    def _target(self, kind: Destination, name: str) -> int:
        """As in a binding that leads there; 0: there is no such queue or exchange."""
        if kind is Destination.QUEUE:
            queue = self.queues.get(name)
            return 0 if queue is None else queue.uid
        exchange = self.exchanges.get(name)
        return 0 if exchange is None else -exchange.uid

    def shared(self, binding: Binding) -> Binding:
        """The same with the strings and the uid of what it binds: there are many bindings."""
        source = self.exchanges[binding.source]
        if binding.destination_kind is Destination.QUEUE:
            queue = self.queues[binding.destination]
            name, target = queue.name, int(queue.uid)
        else:
            name, target = self.exchanges[binding.destination].name, binding.target
        return Binding(
            binding.uid,
            self.entry.name,
            source.name,
            binding.destination_kind,
            name,
            binding.binding_key,
            binding.arguments,
            target,
        )

    def has_bindings_from(self, exchange: str) -> bool:
        return exchange in self._from

    def definitions(self) -> Iterator[Exchange | Queue | Binding]:
        """Everything, each thing after what it rests on: what a new `Router` is filled with."""
        yield from self.exchanges.values()
        yield from self.queues.values()
        yield from self._bindings.values()

    def add(self, subject: Exchange | Queue | Binding) -> Change:
        if isinstance(subject, Exchange):
            self.exchanges[subject.name] = subject
        elif isinstance(subject, Queue):
            self.queues[subject.name] = subject
        else:
            self._bindings[binding_key_of(subject)] = subject
            self._from.setdefault(subject.source, {})[subject.uid] = subject
            self._to.setdefault(subject.target, {})[subject.uid] = subject
        return Added(subject)

    def remove(self, subject: Exchange | Queue | Binding) -> list[Change]:
        """Take the subject out with all that rests on it; what goes first is first in the list."""
        changes: list[Change] = []
        to_go: list[Exchange | Queue] = []
        if isinstance(subject, Binding):
            self._remove_binding(subject, to_go, changes)
        else:
            to_go.append(subject)
        while to_go:
            self._remove_place(to_go.pop(), to_go, changes)
        return changes

    def _remove_place(
        self, place: Exchange | Queue, to_go: list[Exchange | Queue], changes: list[Change]
    ) -> None:
        if isinstance(place, Exchange):
            if self.exchanges.get(place.name) is not place:
                return  # Its last binding went while it was being removed, or went twice.
            bindings = self.bindings_to(Destination.EXCHANGE, place.name)
            bindings += [
                each for each in self.bindings_from(place.name) if each.target != -place.uid
            ]
        else:
            bindings = self.bindings_to(Destination.QUEUE, place.name)
        for binding in bindings:
            self._remove_binding(binding, to_go, changes)
        if isinstance(place, Exchange):
            del self.exchanges[place.name]
        else:
            del self.queues[place.name]
        changes.append(Removed(place))

    def _remove_binding(
        self, binding: Binding, to_go: list[Exchange | Queue], changes: list[Change]
    ) -> None:
        del self._bindings[binding_key_of(binding)]
        source, target = binding.source, binding.target
        del self._from[source][binding.uid]
        del self._to[target][binding.uid]
        if not self._to[target]:
            del self._to[target]
        changes.append(Removed(binding))
        if not self._from[source]:
            del self._from[source]
            if self.exchanges[source].auto_delete:
                to_go.append(self.exchanges[source])
