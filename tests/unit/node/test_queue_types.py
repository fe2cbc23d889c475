"""What the settings of a node about queue types make of declarations before they are proposed."""

from typing import Any

import pytest

from node.definitions.queue_types import QueueTypes
from queues.definitions.arguments import decode_arguments, encode_arguments
from queues.definitions.metadata.commands import (
    Batch,
    Command,
    DeclareQueue,
    DeclareVhost,
    DeleteQueue,
)
from queues.definitions.metadata.machine import Metadata
from queues.definitions.metadata.outcomes import Created, Exists, Refused

CLASSIC: dict[str, Any] = {"x-queue-type": "classic"}
QUORUM: dict[str, Any] = {"x-queue-type": "quorum"}


def declare(
    arguments: dict[str, Any] | None = None, vhost: str = "/", **properties: Any
) -> DeclareQueue:
    table = encode_arguments(arguments) if arguments else b""
    return DeclareQueue(vhost, "q", **{"durable": True, **properties}, arguments=table)


def machine(*commands: Command, default: str = "") -> Metadata:
    made = Metadata()
    for command in (DeclareVhost("/", default_queue_type=default), *commands):
        assert isinstance(made.apply(made.applied_index + 1, command), Created)
    return made


def arguments_of(command: Command) -> dict[str, Any]:
    assert isinstance(command, DeclareQueue)
    return decode_arguments(command.arguments)


def again(metadata: Metadata, command: DeclareQueue, node_default: str = "classic") -> object:
    """The outcome of a declaration at a node with relaxed checks."""
    typed = QueueTypes(metadata, node_default, True).typed(command)
    return metadata.apply(metadata.applied_index + 1, typed)


# The default type of the node


@pytest.mark.parametrize(
    ("command", "default", "found"),
    [
        (declare(), "", QUORUM),
        (declare(CLASSIC), "", CLASSIC),
        (declare(), "stream", {}),  # The metadata machine adds the default of the vhost.
        (declare(durable=False), "", {}),
        (declare(exclusive_owner="c1"), "", {}),
    ],
)
def test_the_default_of_the_node_holds_where_nothing_else_names_a_type(
    command: DeclareQueue, default: str, found: dict[str, Any]
) -> None:
    types = QueueTypes(machine(default=default), "quorum", False)
    assert arguments_of(types.typed(command)) == found


def test_the_default_of_the_node_holds_for_queues_and_vhosts_of_one_batch() -> None:
    types = QueueTypes(machine(), "quorum", False)
    vhosts = (DeclareVhost("v"), DeclareVhost("w", default_queue_type="stream"))
    batch = Batch((*vhosts, declare(vhost="v"), declare(vhost="w"), declare()))
    typed = types.typed(batch)
    assert isinstance(typed, Batch) and typed.commands[:2] == vhosts
    assert [arguments_of(each) for each in typed.commands[2:]] == [QUORUM, {}, QUORUM]


def test_without_a_setting_and_for_other_commands_nothing_changes() -> None:
    metadata = machine(declare(QUORUM), default="quorum")
    for command in (declare(CLASSIC), Batch((declare(),)), DeleteQueue("/", "q")):
        assert QueueTypes(metadata, "classic", False).typed(command) is command
    deletion = DeleteQueue("/", "q")
    assert QueueTypes(metadata, "quorum", True).typed(deletion) is deletion


# Relaxed checks


@pytest.mark.parametrize("defaults", [("quorum", "classic"), ("", "quorum")])
@pytest.mark.parametrize(
    "command",
    [
        declare(CLASSIC),
        declare({**CLASSIC, "x-max-priority": 5, "x-queue-mode": "lazy"}),
        declare(CLASSIC, durable=False, auto_delete=True, exclusive_owner="c1"),
    ],
)
def test_a_quorum_queue_may_be_declared_again_as_a_classic_one(
    defaults: tuple[str, str], command: DeclareQueue
) -> None:
    metadata = machine(declare({**QUORUM, "x-delivery-limit": 3}), default=defaults[0])
    assert isinstance(again(metadata, command, defaults[1]), Exists)


@pytest.mark.parametrize(
    ("arguments", "received", "current"),
    [({}, "none", "the value '1000' of type"), ({"x-expires": 2000}, "2000", "1000")],
)
def test_arguments_that_both_types_know_have_to_agree(
    arguments: dict[str, Any], received: str, current: str
) -> None:
    metadata = machine(declare({**QUORUM, "x-expires": 1000}), default="quorum")
    same = declare({**CLASSIC, "x-expires": 1000})
    assert isinstance(again(metadata, same), Exists)
    refused = again(metadata, declare({**CLASSIC, **arguments}))
    assert isinstance(refused, Refused)
    assert "inequivalent arg 'x-expires'" in refused.text
    assert received in refused.text and current in refused.text


@pytest.mark.parametrize(
    ("old", "new", "default"),
    [
        (QUORUM, CLASSIC, ""),  # no default type
        (QUORUM, {"x-queue-type": "stream"}, "quorum"),
        (CLASSIC, QUORUM, "quorum"),
        ({"x-queue-type": "stream"}, CLASSIC, "quorum"),
    ],
)
def test_other_types_are_compared_as_ever(
    old: dict[str, Any], new: dict[str, Any], default: str
) -> None:
    metadata = machine(declare(old), default=default)
    refused = again(metadata, declare(new))
    assert isinstance(refused, Refused) and "inequivalent arg 'x-queue-type'" in refused.text


def test_a_new_queue_has_the_type_that_it_names() -> None:
    metadata = machine(default="quorum")
    assert isinstance(again(metadata, declare(CLASSIC)), Created)
    assert decode_arguments(metadata.vhosts["/"].queues["q"].arguments) == CLASSIC
