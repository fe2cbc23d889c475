"""Events of changed definitions: RabbitMQ's names, and nothing that is secret."""

import pytest

from node.events.authors import Author
from node.events.event_sources import AUTHOR, AlarmEvents, events_of, tell_changes
from node.events.events import Event, Events
from node.resources.alarms import Alarms
from node.resources.disk_monitor import DiskReading
from queues.definitions.arguments import encode_arguments
from queues.definitions.broker_objects import (
    Binding,
    Definition,
    Destination,
    Exchange,
    Parameter,
    Permission,
    Policy,
    Queue,
    TopicPermission,
    Uid,
    User,
    VhostEntry,
)
from queues.definitions.members import Member, Process
from queues.definitions.metadata.outcomes import Added, Removed, Replaced

UID = Uid(17)
ARGUMENTS = encode_arguments({"x-max-length": 10})
QUEUE = Queue(UID, "/", "orders", True, "", False, ARGUMENTS, "n1", (1, 2))
EXCHANGE = Exchange(UID, "/", "x", "topic", True, False, False, b"")
BINDING = Binding(UID, "/", "x", Destination.QUEUE, "orders", b"a.*", b"", 17)
VHOST = VhostEntry(UID, "v", "a vhost", ("t",))
USER = User(UID, "ann", "c2VjcmV0", "argon2id", ("monitoring",))
PERMISSION = Permission(UID, "ann", "/", "c", "w", "r")
TOPICS = TopicPermission(UID, "ann", "/", "x", "w", "r")
POLICY = Policy(UID, "/", "p", False, "^q", "queues", 3, b'{"max-length":5}')
UPSTREAM = Parameter(UID, "/", "federation-upstream", "u", b'{"uri":"amqp://a:secret@b"}')
LIMIT = Parameter(UID, "/", "vhost-limits", "limits", b'{"max-queues":5}')
USER_LIMIT = Parameter(UID, "", "user-limits", "ann", b'{"max-channels":5}')
MEMBER = Member(2, "n2", 5, "host", 25672)
PROCESS = Process("n2", 2, 99)


@pytest.mark.parametrize(
    ("subject", "created", "deleted"),
    [
        (QUEUE, ["queue.created"], ["queue.deleted"]),
        (EXCHANGE, ["exchange.created"], ["exchange.deleted"]),
        (BINDING, ["binding.created"], ["binding.deleted"]),
        (VHOST, ["vhost.created"], ["vhost.deleted"]),
        (USER, ["user.created", "user.tags.set"], ["user.deleted"]),
        (PERMISSION, ["permission.created"], ["permission.deleted"]),
        (TOPICS, ["topic.permission.created"], ["topic.permission.deleted"]),
        (POLICY, ["policy.set"], ["policy.cleared"]),
        (UPSTREAM, ["parameter.set"], ["parameter.cleared"]),
        (LIMIT, ["vhost.limits.set"], ["vhost.limits.cleared"]),
        (USER_LIMIT, ["user.limits.set"], ["user.limits.cleared"]),
        (MEMBER, ["node.added"], ["node.removed"]),
        (PROCESS, ["node.up"], ["node.down"]),
    ],
)
def test_each_kind_of_definition_has_its_events(
    subject: Definition, created: list[str], deleted: list[str]
) -> None:
    assert [name for name, _ in events_of(Added(subject))] == created
    assert [name for name, _ in events_of(Removed(subject))] == deleted


def test_a_changed_user_is_told_by_password_and_tags() -> None:
    names = [name for name, _ in events_of(Replaced(USER))]
    assert names == ["user.password.changed", "user.tags.set"]
    without = User(UID, "ann", "", "argon2id", ())
    assert events_of(Replaced(without))[0][0] == "user.password.cleared"


def test_other_members_of_a_queue_are_told_by_their_names() -> None:
    ((name, properties),) = events_of(Replaced(QUEUE), lambda member: f"n{member}")
    assert name == "queue.membership.changed"
    assert properties == {"name": "orders", "vhost": "/", "members": ["n1", "n2"]}


def test_permissions_and_policies_that_are_replaced_are_told_as_new_ones() -> None:
    assert events_of(Replaced(PERMISSION)) == events_of(Added(PERMISSION))
    assert events_of(Replaced(POLICY))[0][0] == "policy.set"
    assert events_of(Replaced(MEMBER)) == []
    assert events_of(Replaced(VHOST))[0][0] == "vhost.updated"


def test_limits_are_told_one_by_one_and_definitions_as_they_are() -> None:
    assert events_of(Added(LIMIT))[0][1] == {"vhost": "/", "max-queues": 5}
    assert events_of(Added(USER_LIMIT))[0][1] == {"name": "ann", "max-channels": 5}
    assert events_of(Added(POLICY))[0][1]["definition"] == {"max-length": 5}


def test_no_event_tells_a_secret() -> None:
    for subject in (USER, UPSTREAM):
        for change in (Added(subject), Replaced(subject), Removed(subject)):
            assert "secret" not in repr(events_of(change))
            assert "c2VjcmV0" not in repr(events_of(change))


def test_the_properties_of_a_queue_are_those_of_its_declaration() -> None:
    ((_, properties),) = events_of(Added(QUEUE))
    assert properties == {
        "name": "orders",
        "vhost": "/",
        "durable": True,
        "auto_delete": False,
        "exclusive": False,
        "type": "classic",
        "arguments": {"x-max-length": 10},
    }


def test_every_change_is_told_with_its_author() -> None:
    events = Events("n1", lambda: 1)
    heard: list[Event] = []
    events.subscribe(heard.append)
    tell_changes(events, (Removed(BINDING), Removed(QUEUE)), Author("ann", "10.0.0.1"))
    tell_changes(events, (Added(VHOST),))
    assert [(each.name, each.properties[AUTHOR]) for each in heard] == [
        ("binding.deleted", "ann"),
        ("queue.deleted", "ann"),
        ("vhost.created", "rmq-internal"),
    ]


def test_alarms_of_this_node_are_told_once_each_way() -> None:
    events = Events("n1", lambda: 1)
    heard: list[tuple[str, object]] = []
    events.subscribe(lambda event: heard.append((event.name, event.properties["source"])))
    watch = AlarmEvents(events)
    alarms = Alarms(100, 50, lambda: watch.changed(alarms))
    alarms.observe_disk(DiskReading(60))
    alarms.observe_memory(200)
    alarms.observe_memory(300)
    alarms.observe_cluster(True, True)
    alarms.observe_disk(DiskReading(10))
    alarms.observe_memory(50)
    assert heard == [("alarm.set", "memory"), ("alarm.set", "disk"), ("alarm.cleared", "memory")]
