"""Policies, parameters, limits and topic permissions in the metadata machine."""

import pytest

from queues.definitions.arguments import decode_arguments
from queues.definitions.broker_objects import (
    Definition,
    Parameter,
    Policy,
    Queue,
    TopicPermission,
    VhostEntry,
)
from queues.definitions.metadata import commands
from queues.definitions.metadata.machine import Metadata
from queues.definitions.metadata.outcomes import (
    Added,
    Created,
    Deleted,
    Exists,
    Outcome,
    Removed,
    Replaced,
)
from tests.unit.queues.definitions.steps import Steps, declare_queue

LENGTH = b'{"max-length":1}'
PUT = commands.PutPolicy("/", "p", False, "^q", "queues", 3, LENGTH)


def removed(outcome: Outcome) -> list[type[Definition]]:
    assert all(isinstance(change, Removed) for change in outcome.changes)
    return [type(change.subject) for change in outcome.changes]


def test_a_policy_is_added_replaced_and_removed() -> None:
    steps = Steps()
    first = steps.do(PUT)
    assert isinstance(first, Created) and isinstance(first.changes[0], Added)
    assert isinstance(steps.do(PUT), Exists)
    other = steps.do(commands.PutPolicy("/", "p", False, "^x", "all", 0, LENGTH))
    assert isinstance(other, Created) and isinstance(other.changes[0], Replaced)
    assert other.subject.uid == first.subject.uid
    assert [each.pattern for each in steps.vhost.policies] == ["^x"]
    gone = steps.do(commands.DeletePolicy("/", "p", False))
    assert isinstance(gone, Deleted) and gone.subjects == (other.subject,)
    assert steps.vhost.policies.is_empty()
    assert steps.do(commands.DeletePolicy("/", "p", False)) == Deleted((), ())


def test_operator_policies_have_names_of_their_own() -> None:
    steps = Steps()
    steps.do(PUT)
    steps.do(commands.PutPolicy("/", "p", True, "^q", "queues", 3, LENGTH))
    steps.do(commands.DeletePolicy("/", "p", False))
    assert [each.operator for each in steps.vhost.policies] == [True]


def test_what_belongs_to_an_unknown_vhost_or_user_is_refused() -> None:
    steps = Steps()
    nowhere = commands.PutPolicy("no", "p", False, "^q", "queues", 3, LENGTH)
    assert steps.refused(nowhere) == (530, "vhost no not found")
    parameter = commands.PutParameter("no", "shovel", "s", b"1")
    assert steps.refused(parameter) == (530, "vhost no not found")
    topic = commands.SetTopicPermissions("u", "/", "amq.topic", "a", "b")
    assert steps.refused(topic) == (404, "no user 'u'")
    steps.do(commands.PutUser("u", "", ""))
    topic = commands.SetTopicPermissions("u", "no", "amq.topic", "a", "b")
    assert steps.refused(topic) == (404, "no vhost 'no'")


def test_a_vhost_and_a_user_take_with_them_what_is_theirs() -> None:
    steps = Steps()
    for command in (
        commands.DeclareVhost("v"),
        commands.PutUser("u", "", ""),
        commands.PutPolicy("v", "p", False, "^q", "queues", 3, LENGTH),
        commands.PutParameter("v", "shovel", "s", b"1"),
        commands.PutParameter("", "user-limits", "u", b'{"max-channels":1}'),
        commands.SetTopicPermissions("u", "v", "amq.topic", "a", "b"),
        commands.SetTopicPermissions("u", "/", "amq.topic", "a", "b"),
    ):
        assert isinstance(steps.do(command), Created)
    kinds = removed(steps.do(commands.DeleteVhost("v")))
    assert kinds[:3] == [TopicPermission, Policy, Parameter] and kinds[-1] is VhostEntry
    assert len(removed(steps.do(commands.DeleteUser("u")))) == 3
    assert steps.machine.parameters == {}
    assert steps.machine.access.topic_permissions_by_key == {}


def test_topic_permissions_are_cleared_one_by_one_or_all_at_once() -> None:
    steps = Steps()
    steps.do(commands.PutUser("u", "", ""))
    for exchange in ("a", "b", "c"):
        steps.do(commands.SetTopicPermissions("u", "/", exchange, "w", "r"))
    version = steps.machine.access.version
    assert steps.machine.access.topic_permissions("u", "/", "a") == ("w", "r")
    assert len(removed(steps.do(commands.ClearTopicPermissions("u", "/", "a")))) == 1
    assert steps.machine.access.version == version + 1
    assert len(removed(steps.do(commands.ClearTopicPermissions("u", "/")))) == 2
    assert steps.machine.access.topic_permissions("u", "/", "b") is None


def test_a_vhost_takes_no_more_queues_than_its_limit() -> None:
    steps = Steps()
    limits = commands.PutParameter("/", "vhost-limits", "limits", b'{"max-queues":1}')
    steps.do(limits)
    steps.queue("q")
    text = "cannot declare queue 'r': queue limit in vhost '/' (1) is reached"
    assert steps.refused(declare_queue("r")) == (406, text)
    assert isinstance(steps.do(declare_queue("q")), Exists)
    steps.do(commands.DeleteParameter("/", "vhost-limits", "limits"))
    steps.queue("r")


@pytest.mark.parametrize(
    ("flags", "kind"),
    [
        ({"durable": True}, "quorum"),
        ({"durable": False}, None),
        ({"durable": True, "owner": "c"}, None),
        ({"durable": True, "arguments": {"x-queue-type": "classic"}}, "classic"),
    ],
)
def test_queues_are_of_the_vhosts_default_type_where_they_can_be(
    flags: dict[str, object], kind: str | None
) -> None:
    steps = Steps()
    steps.do(commands.DeclareVhost("/", default_queue_type="quorum"))
    declare = declare_queue("q", **flags)  # type: ignore[arg-type]
    made = steps.do(declare)
    assert isinstance(made, Created) and isinstance(made.subject, Queue)
    assert decode_arguments(made.subject.arguments).get("x-queue-type") == kind
    assert isinstance(steps.do(declare), Exists)


def test_a_snapshot_holds_the_rules() -> None:
    steps = Steps()
    steps.do(PUT)
    steps.do(commands.PutParameter("", "", "cluster_name", b'"c"'))
    copy = Metadata.restore(steps.machine.snapshot())
    assert copy.snapshot() == steps.machine.snapshot()
    assert copy.vhosts["/"].policies.effective("classic", "q1").policy_name == "p"
