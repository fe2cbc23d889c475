"""From a definitions file to commands, in an order in which each finds what it rests on.

Reads the forms of RabbitMQ 3 and 4, of a cluster or of one vhost. ApiError 400 for what is not such
a file, or says what cannot be; nothing was done then. Queues and exchanges that are there already
are left out. Unknown keys are ignored.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from time import monotonic
from typing import Final

from node.config.default_policies import DefaultPolicy, default_policies
from node.management.api.limits import limits_command
from node.management.api.parameters import Seal, global_command, parameter_command
from node.management.api.permissions import permission_command, topic_permission_command
from node.management.api.policies import policy_command
from node.management.api.users import HashOf, user_command
from node.management.api.vhosts import vhost_command
from node.management.bodies import Body, arguments, flag, name_in, need, text
from node.management.definitions_file import DefinitionsFile
from node.management.definitions_run import Placed
from node.management.replies import ApiError
from queues.definitions.arguments import encode_arguments
from queues.definitions.broker_objects import (
    DEFAULT_EXCHANGE,
    RESERVED_PREFIX,
    Destination,
    Uid,
    VhostEntry,
)
from queues.definitions.metadata.commands import Bind, Command, DeclareExchange, DeclareQueue
from queues.definitions.metadata.machine import Metadata
from queues.definitions.queue_arguments import CLASSIC, QUEUE_TYPE
from queues.definitions.vhost_limits import (
    LIMITS_OF_USER,
    LIMITS_OF_VHOST,
    USER_LIMITS,
    VHOST_LIMITS,
    VHOST_LIMITS_NAME,
    limit_fault,
)

OPERATOR_POLICY: Final = "operator_policy"
OF_VHOST: Final = ("parameters", "policies", "exchanges", "queues", "bindings")
OF_CLUSTER: Final = ("permissions", "topic_permissions", "global_parameters")
SLICE_S: Final = 0.005  # of work between two turns of the loop


class Importer:
    """Reads one file. `vhost`: everything in it is for this one; None: rows say for which."""

    def __init__(
        self,
        metadata: Metadata,
        node: str,
        vhost: str | None,
        hash_of: HashOf,
        rules: Sequence[DefaultPolicy] = (),
        seal: Seal = lambda vhost, component, name, value: value,
        default_type: str = CLASSIC,
    ) -> None:
        """`default_type`: of queues in vhosts without a default of their own."""
        self._metadata = metadata
        self._rules = rules
        self._seal = seal  # how values of parameters are stored
        self._hash_of = hash_of
        self._node = node
        self._vhost = vhost
        # Default types of queues, by vhost: where there is one, a classic queue has to say so.
        self._types = {
            name: each.entry.default_queue_type for name, each in metadata.vhosts.items()
        }
        # Where a vhost has none, the node would add its own default to a queue without a type.
        self._untyped = CLASSIC if default_type == CLASSIC else ""
        self._makers: dict[str, Callable[[Body], Iterator[Command]]] = {
            "permissions": self._permission,
            "topic_permissions": self._topic_permission,
            "global_parameters": self._global_parameter,
            "parameters": self._parameter,
            "policies": self._policy,
            "exchanges": self._exchange,
            "queues": self._queue,
            "bindings": self._binding,
        }

    async def commands_of(self, file: DefinitionsFile) -> list[Placed]:
        """What brings everything in the file about."""
        placed: list[Placed] = []
        if self._vhost is None:
            async for place, row in in_slices(file.rows("users")):
                need(row, "name")
                name = name_in(row, "name")
                placed.append(
                    Placed(await user_command(name, row, self._hash_of), f"users[{place}]")
                )
                for each in self._limits("", (USER_LIMITS, name), row, LIMITS_OF_USER):
                    placed.append(Placed(each, f"users[{place}]"))
            async for place, row in in_slices(file.rows("vhosts")):
                placed += [Placed(each, f"vhosts[{place}]") for each in self._vhost_row(row)]
        parts = OF_VHOST if self._vhost is not None else (*OF_CLUSTER, *OF_VHOST)
        for part in parts:
            async for place, row in in_slices(file.rows(part)):
                placed += [Placed(each, f"{part}[{place}]") for each in self._makers[part](row)]
        return placed

    def _place(self, row: Body) -> str:
        """The vhost that the row is for."""
        if self._vhost is not None:
            return self._vhost
        need(row, "vhost")
        vhost = text(row, "vhost")
        if vhost not in self._types:
            reason = f'Please create virtual host "{vhost}" prior to importing definitions.'
            raise ApiError.bad_request(reason)
        return vhost

    def _vhost_row(self, row: Body) -> Iterator[Command]:
        need(row, "name")
        name = name_in(row, "name")
        about = row.get("metadata")
        told = {**(about if isinstance(about, dict) else {}), **row}
        found = self._metadata.vhosts.get(name)
        old = VhostEntry(Uid(0), name, "", ()) if found is None else found.entry
        command = vhost_command(name, told, old)
        self._types[name] = command.default_queue_type
        yield command
        if found is None:
            yield from default_policies(self._rules, name)
        yield from self._limits(name, (VHOST_LIMITS, VHOST_LIMITS_NAME), row, LIMITS_OF_VHOST)

    def _limits(
        self, vhost: str, key: tuple[str, str], row: Body, known: tuple[str, ...]
    ) -> Iterator[Command]:
        limits = row.get("limits")
        if isinstance(limits, list):  # RabbitMQ 3.12 and 3.13 write those of a vhost so.
            limits = dict(_named_limit(each) for each in limits)
        if isinstance(limits, dict) and limits:
            for name, value in limits.items():
                fault = limit_fault(known, name, value)
                if fault is not None:
                    raise ApiError.bad_request(fault)
            yield limits_command(vhost, key, limits)

    def _permission(self, row: Body) -> Iterator[Command]:
        need(row, "user", "configure", "write", "read")
        yield permission_command(self._place(row), text(row, "user"), row, True)

    def _topic_permission(self, row: Body) -> Iterator[Command]:
        need(row, "user", "exchange", "write", "read")
        yield topic_permission_command(self._place(row), text(row, "user"), row, True)

    def _global_parameter(self, row: Body) -> Iterator[Command]:
        need(row, "name", "value")
        yield global_command(name_in(row, "name"), row["value"])

    def _parameter(self, row: Body) -> Iterator[Command]:
        need(row, "component", "name", "value")
        vhost, component, value = self._place(row), text(row, "component"), row["value"]
        if component == OPERATOR_POLICY:
            if not isinstance(value, dict):
                raise ApiError.bad_request(f"{OPERATOR_POLICY} '{text(row, 'name')}' is no object")
            yield policy_command(vhost, name_in(row, "name"), value, True, imported=True)
        elif component == VHOST_LIMITS:
            key = (VHOST_LIMITS, VHOST_LIMITS_NAME)
            yield from self._limits(vhost, key, {"limits": value}, LIMITS_OF_VHOST)
        else:
            name = name_in(row, "name")
            yield parameter_command(vhost, component, name, value, self._seal, imported=True)

    def _policy(self, row: Body) -> Iterator[Command]:
        need(row, "name", "pattern", "definition")
        yield policy_command(self._place(row), name_in(row, "name"), row, False, imported=True)

    def _exchange(self, row: Body) -> Iterator[Command]:
        need(row, "name", "type")
        vhost, name = self._place(row), name_in(row, "name")
        found = self._metadata.vhosts.get(vhost)
        known = found is not None and name in found.exchanges
        if known or name == DEFAULT_EXCHANGE or name.startswith(RESERVED_PREFIX):
            return
        yield DeclareExchange(
            vhost,
            name,
            text(row, "type"),
            flag(row, "durable", True),
            flag(row, "auto_delete"),
            flag(row, "internal"),
            encode_arguments(arguments(row)),
        )

    def _queue(self, row: Body) -> Iterator[Command]:
        need(row, "name")
        vhost, name = self._place(row), name_in(row, "name")
        found = self._metadata.vhosts.get(vhost)
        if not name or (found is not None and name in found.queues):
            return
        told = arguments(row)
        kind = text(row, "type", CLASSIC)
        if QUEUE_TYPE not in told and kind != (self._types.get(vhost) or self._untyped):
            told = {**told, QUEUE_TYPE: kind}
        yield DeclareQueue(
            vhost,
            name,
            flag(row, "durable", True),
            "",
            flag(row, "auto_delete"),
            encode_arguments(told),
            self._node,
            server_named=name.startswith(RESERVED_PREFIX),
        )

    def _binding(self, row: Body) -> Iterator[Command]:
        need(row, "source", "destination", "destination_type", "routing_key")
        source, kind = text(row, "source"), text(row, "destination_type")
        if source == DEFAULT_EXCHANGE:
            return
        if kind not in ("queue", "exchange"):
            raise ApiError.bad_request(f"unknown destination_type: {kind}")
        yield Bind(
            self._place(row),
            source,
            Destination.QUEUE if kind == "queue" else Destination.EXCHANGE,
            text(row, "destination"),
            name_in(row, "routing_key").encode(),
            encode_arguments(arguments(row)),
        )


async def in_slices(rows: Iterator[Body]) -> AsyncIterator[tuple[int, Body]]:
    """The rows with their places; the loop turns after SLICE_S of work."""
    due = monotonic() + SLICE_S
    for numbered in enumerate(rows):
        yield numbered
        if monotonic() > due:
            await asyncio.sleep(0)
            due = monotonic() + SLICE_S


def _named_limit(row: object) -> tuple[str, object]:
    if not isinstance(row, dict) or not isinstance(row.get("name"), str):
        raise ApiError.bad_request("limits are not a list of names and values")
    return row["name"], row.get("value")
