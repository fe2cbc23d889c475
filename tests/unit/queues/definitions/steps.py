"""Short ways to give commands to a metadata machine, with a router that follows its changes."""

from queues.definitions.arguments import encode_arguments
from queues.definitions.broker_objects import Binding, Destination, Exchange, Queue
from queues.definitions.metadata import commands
from queues.definitions.metadata.commands import Command
from queues.definitions.metadata.machine import Metadata
from queues.definitions.metadata.outcomes import Change, Created, Outcome, Refused
from queues.definitions.metadata.vhost import VHost
from queues.definitions.queue_arguments import QUEUE_TYPE, QUORUM
from queues.definitions.retroactive import ring_name
from queues.routing.router import Route, Router


class Steps:
    """A machine, every change it made so far, and a router of its vhost `/`."""

    def __init__(self, machine: Metadata | None = None) -> None:
        self.machine = Metadata() if machine is None else machine
        self.changes: list[Change] = []
        self.router = Router("/")
        for subject in self.vhost.definitions():
            self.router.add(subject)

    @property
    def vhost(self) -> VHost:
        return self.machine.vhosts["/"]

    def do(self, command: Command) -> Outcome:
        """Apply the command after a trip through its bytes."""
        read_back = commands.decode(commands.encode(command))
        assert read_back == command
        outcome = self.machine.apply(self.machine.applied_index + 1, read_back)
        self.changes += outcome.changes
        self.router.apply(outcome.changes)
        return outcome

    def refused(self, command: Command) -> tuple[int, str]:
        """Code and text of the refusal; nothing else may have changed."""
        version, next_uid = self.machine.version, self.machine.next_uid
        outcome = self.do(command)
        assert isinstance(outcome, Refused) and outcome.changes == ()
        assert (self.machine.version, self.machine.next_uid) == (version, next_uid)
        return int(outcome.code), outcome.text

    def exchange(
        self,
        name: str,
        kind: str = "direct",
        arguments: dict[str, object] | None = None,
        **flags: bool,
    ) -> Exchange:
        outcome = self.do(declare_exchange(name, kind, arguments, **flags))
        assert isinstance(outcome, Created) and isinstance(outcome.subject, Exchange)
        return outcome.subject

    def queue(
        self,
        name: str,
        arguments: dict[str, object] | None = None,
        owner: str = "",
        node: str = "n1",
        **flags: bool,
    ) -> Queue:
        outcome = self.do(declare_queue(name, arguments, owner, node, **flags))
        assert isinstance(outcome, Created) and isinstance(outcome.subject, Queue)
        return outcome.subject

    def ring(self, exchange: str) -> Queue:
        """The queue that keeps the newest messages of the exchange."""
        name = ring_name(self.vhost.exchanges[exchange])
        arguments: dict[str, object] = {QUEUE_TYPE: QUORUM}
        return self.queue(name, arguments, durable=True, server_named=True)

    def bind(self, source: str, queue: str, key: bytes = b"", **arguments: object) -> Outcome:
        return self.do(bind(source, queue, key, **arguments))

    def link(self, source: str, exchange: str, key: bytes = b"", **arguments: object) -> Outcome:
        """Bind an exchange to an exchange."""
        return self.do(link(source, exchange, key, **arguments))

    def route(self, exchange: str, key: bytes = b"") -> tuple[int, ...]:
        return self.whole_route(exchange, key).queues

    def whole_route(self, exchange: str, key: bytes = b"") -> Route:
        return self.router.route(exchange, key, None)


def declare_exchange(
    name: str,
    kind: str = "direct",
    arguments: dict[str, object] | None = None,
    **flags: bool,
) -> commands.DeclareExchange:
    encoded = encode_arguments(arguments or {})
    return commands.DeclareExchange("/", name, kind, arguments=encoded, **flags)


def declare_queue(
    name: str,
    arguments: dict[str, object] | None = None,
    owner: str = "",
    node: str = "n1",
    durable: bool = False,
    auto_delete: bool = False,
    server_named: bool = False,
) -> commands.DeclareQueue:
    encoded = encode_arguments(arguments or {})
    return commands.DeclareQueue(
        "/", name, durable, owner, auto_delete, encoded, node, server_named
    )


def bind(source: str, queue: str, key: bytes = b"", **arguments: object) -> commands.Bind:
    encoded = encode_arguments(arguments)
    return commands.Bind("/", source, Destination.QUEUE, queue, key, encoded)


def link(source: str, exchange: str, key: bytes = b"", **arguments: object) -> commands.Bind:
    encoded = encode_arguments(arguments)
    return commands.Bind("/", source, Destination.EXCHANGE, exchange, key, encoded)


def unbinding(command: commands.Bind) -> commands.Unbind:
    """The command that undoes the binding."""
    return commands.Unbind(
        command.vhost,
        command.source,
        command.destination_kind,
        command.destination,
        command.binding_key,
        command.arguments,
        command.connection,
    )


def made(outcome: Outcome) -> Binding:
    assert isinstance(outcome, Created) and isinstance(outcome.subject, Binding)
    return outcome.subject
