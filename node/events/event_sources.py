"""Where events come from, put in RabbitMQ's words: definitions, connections, consumers, alarms.

Each function takes `Events` and what has happened, and tells it. Of a cluster, each change of the
definitions is sent by one node: the one that proposed it, when it is applied there, so that nothing
is reported that did not happen. A change that a node learns of by a snapshot alone is not
reported, nor is one whose proposer ended before it applied it. Called on the loop thread; rare.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from node.auth.login_events import tls_properties
from node.events.authors import BROKER, Author
from node.events.events import Events
from queues.definitions.arguments import decode_arguments
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
    User,
    VhostEntry,
)
from queues.definitions.members import Member, Process
from queues.definitions.metadata.outcomes import Added, Change, Removed
from queues.definitions.queue_arguments import queue_type
from queues.definitions.vhost_limits import USER_LIMITS, VHOST_LIMITS, limits_in
from queues.machine.effects import SlowConsumer
from queues.queue_host import QueueHost

if TYPE_CHECKING:
    from node.connections.client_connection import ClientConnection
    from node.resources.alarms import Alarms

Told = tuple[str, dict[str, object]]  # name of the event, properties

log = logging.getLogger("warren.broker")

AUTHOR: Final = "user_who_performed_action"
KINDS: Final[Mapping[Destination, str]] = {
    Destination.QUEUE: "queue",
    Destination.EXCHANGE: "exchange",
}
SOURCES: Final = ("memory", "disk")  # of alarms


# Definitions


def tell_changes(
    events: Events,
    changes: Sequence[Change],
    author: Author = BROKER,
    member_name: Callable[[int], str] = str,
) -> None:
    """What a command has changed. `member_name` gives the node of a member id."""
    for change in changes:
        for name, properties in events_of(change, member_name):
            properties[AUTHOR] = author.user
            events.tell(name, **properties)


def events_of(change: Change, member_name: Callable[[int], str] = str) -> list[Told]:
    """The events of one change, mostly one."""
    subject = change.subject
    if isinstance(change, Added):
        return _created(subject)
    if isinstance(change, Removed):
        return _deleted(subject)
    return _replaced(subject, member_name)


def _created(subject: Definition) -> list[Told]:
    match subject:
        case Queue():
            return [("queue.created", queue_properties(subject))]
        case Exchange():
            return [("exchange.created", exchange_properties(subject))]
        case Binding():
            return [("binding.created", binding_properties(subject))]
        case VhostEntry():
            return [("vhost.created", vhost_properties(subject))]
        case User():
            return [("user.created", {"name": subject.name}), _tags(subject)]
        case Permission():
            return [("permission.created", permission_properties(subject))]
        case TopicPermission():
            return [("topic.permission.created", topic_properties(subject))]
        case Policy():
            return [("policy.set", policy_properties(subject))]
        case Parameter():
            return [(f"{_parameter_word(subject)}.set", parameter_properties(subject))]
        case Member():
            return [("node.added", {"name": subject.name})] if subject.name else []
        case Process():
            return [("node.up", {"name": subject.node})]


def _deleted(subject: Definition) -> list[Told]:
    match subject:
        case Queue():
            return [("queue.deleted", _named(subject))]
        case Exchange():
            return [("exchange.deleted", _named(subject))]
        case Binding():
            return [("binding.deleted", binding_properties(subject))]
        case VhostEntry():
            return [("vhost.deleted", {"name": subject.name})]
        case User():
            return [("user.deleted", {"name": subject.name})]
        case Permission():
            return [("permission.deleted", {"user": subject.user, "vhost": subject.vhost})]
        case TopicPermission():
            return [("topic.permission.deleted", topic_properties(subject))]
        case Policy():
            return [("policy.cleared", {**_named(subject), "operator": subject.operator})]
        case Parameter():
            return [(f"{_parameter_word(subject)}.cleared", parameter_properties(subject))]
        case Member():
            return [("node.removed", {"name": subject.name})]
        case Process():
            return [("node.down", {"name": subject.node})]


def _replaced(subject: Definition, member_name: Callable[[int], str]) -> list[Told]:
    """The subject has new contents. Of what was there before nothing is known here, so that a user
    whose tags were set is reported as in RabbitMQ: password and tags both."""
    match subject:
        case Queue():
            members = [member_name(each) for each in subject.members]
            return [("queue.membership.changed", {**_named(subject), "members": members})]
        case VhostEntry():
            return [("vhost.updated", vhost_properties(subject))]
        case User():
            word = "changed" if subject.password_hash else "cleared"
            return [(f"user.password.{word}", {"name": subject.name}), _tags(subject)]
        case Member() | Process():
            return []
        case _:
            return _created(subject)


def _named(subject: Queue | Exchange | Policy) -> dict[str, object]:
    return {"name": subject.name, "vhost": subject.vhost}


def _tags(user: User) -> Told:
    return "user.tags.set", {"name": user.name, "tags": list(user.tags)}


def queue_properties(queue: Queue) -> dict[str, object]:
    arguments = decode_arguments(queue.arguments)
    return {
        **_named(queue),
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "exclusive": queue.exclusive,
        "type": queue_type(arguments),
        "arguments": arguments,
    }


def exchange_properties(exchange: Exchange) -> dict[str, object]:
    return {
        **_named(exchange),
        "type": exchange.type,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": decode_arguments(exchange.arguments),
    }


def binding_properties(binding: Binding) -> dict[str, object]:
    return {
        "vhost": binding.vhost,
        "source_name": binding.source,
        "source_kind": "exchange",
        "destination_name": binding.destination,
        "destination_kind": KINDS[Destination(binding.destination_kind)],
        "routing_key": binding.binding_key.decode("utf-8", "replace"),
        "arguments": decode_arguments(binding.arguments),
    }


def vhost_properties(entry: VhostEntry) -> dict[str, object]:
    return {
        "name": entry.name,
        "description": entry.description,
        "tags": list(entry.tags),
        "tracing": entry.tracing,
    }


def permission_properties(permission: Permission) -> dict[str, object]:
    return {
        "user": permission.user,
        "vhost": permission.vhost,
        "configure": permission.configure,
        "write": permission.write,
        "read": permission.read,
    }


def topic_properties(permission: TopicPermission) -> dict[str, object]:
    return {
        "user": permission.user,
        "vhost": permission.vhost,
        "exchange": permission.exchange,
        "write": permission.write,
        "read": permission.read,
    }


def policy_properties(policy: Policy) -> dict[str, object]:
    return {
        **_named(policy),
        "operator": policy.operator,
        "pattern": policy.pattern,
        "apply-to": policy.apply_to,
        "priority": policy.priority,
        "definition": msgspec.json.decode(policy.definition),
    }


def _parameter_word(parameter: Parameter) -> str:
    words = {VHOST_LIMITS: "vhost.limits", USER_LIMITS: "user.limits"}
    return words.get(parameter.component, "parameter")


def parameter_properties(parameter: Parameter) -> dict[str, object]:
    """Limits are reported; other values are not: those of federation have passwords in them."""
    if parameter.component in (VHOST_LIMITS, USER_LIMITS):
        who = "vhost" if parameter.component == VHOST_LIMITS else "name"
        whom = parameter.vhost if parameter.component == VHOST_LIMITS else parameter.name
        return {who: whom, **limits_in(parameter)}
    return {
        "component": parameter.component,
        "name": parameter.name,
        "vhost": parameter.vhost,
    }


# Connections, channels, consumers


def tell_connection_created(events: Events, endpoint: "ClientConnection") -> None:
    """Its vhost is open."""
    facts = endpoint.facts()
    properties = dict(facts.client_properties)
    events.tell(
        "connection.created",
        name=endpoint.name,
        user_provided_name=str(properties.get("connection_name", "")),
        user=endpoint.user,
        vhost=endpoint.vhost,
        protocol=facts.protocol,
        auth_mechanism=endpoint.mechanism,
        **tls_properties(endpoint.tls),
        host=endpoint.here[0],
        port=endpoint.here[1],
        peer_host=endpoint.peer[0],
        peer_port=endpoint.peer[1],
        channel_max=facts.channel_max,
        frame_max=facts.frame_max,
        timeout=facts.heartbeat_s,
        connected_at=endpoint.connected_at_ms,
        client_properties=properties,
        user_who_performed_action=endpoint.user,
    )


def tell_connection_closed(events: Events, endpoint: "ClientConnection") -> None:
    """It is gone, in whatever way."""
    facts = endpoint.facts()
    events.tell(
        "connection.closed",
        name=endpoint.name,
        user=endpoint.user,
        vhost=endpoint.vhost,
        client_properties=dict(facts.client_properties),
        user_who_performed_action=endpoint.user,
    )


def tell_channel(events: Events, word: str, endpoint: "ClientConnection", number: int) -> None:
    """A channel, or a session of AMQP 1.0, was opened or is over; `word`: created, closed."""
    events.tell(
        f"channel.{word}",
        name=f"{endpoint.name} ({number})",
        connection=endpoint.name,
        number=number,
        user=endpoint.user,
        vhost=endpoint.vhost,
        user_who_performed_action=endpoint.user,
    )


def tell_consumer_created(
    events: Events,
    endpoint: "ClientConnection",
    number: int,
    tag: str,
    host: QueueHost,
    *,
    exclusive: bool,
    no_ack: bool,
    prefetch: int,
    arguments: Mapping[str, object] | None = None,
) -> None:
    """The queue has taken it. `number` is that of its channel; links have names for tags."""
    events.tell(
        "consumer.created",
        consumer_tag=tag,
        queue=host.name,
        vhost=host.vhost,
        channel=f"{endpoint.name} ({number})",
        connection=endpoint.name,
        exclusive=exclusive,
        ack_required=not no_ack,
        prefetch_count=prefetch,
        arguments=dict(arguments or {}),
        user_who_performed_action=endpoint.user,
    )


def tell_slow_consumer(events: Events, queue: Queue, effect: SlowConsumer) -> None:
    """A consumer settles fewer messages than the queue's threshold asks. `session` and `number` are
    those of its deliveries; the event of its creation has the consumer's tag."""
    action = "closed" if effect.is_killed else "notified"
    log.warning(
        "queue '%s' in vhost '%s': a consumer settled %d messages in %d ms while messages waited, "
        "which is less than slow-consumer-threshold: %s",
        *(queue.name, queue.vhost, effect.settled_count, effect.period_ms, action),
    )
    events.tell(
        "consumer.slow",
        vhost=queue.vhost,
        queue=queue.name,
        session=f"{int(effect.key) >> 32:x}",
        number=int(effect.key) & 0xFFFFFFFF,
        settled=int(effect.settled_count),
        period_ms=int(effect.period_ms),
        action=action,
    )


def tell_consumer_deleted(
    events: Events, endpoint: "ClientConnection", number: int, tag: str, host: QueueHost
) -> None:
    """It was cancelled, or its channel, link or queue is gone."""
    events.tell(
        "consumer.deleted",
        consumer_tag=tag,
        queue=host.name,
        vhost=host.vhost,
        channel=f"{endpoint.name} ({number})",
        connection=endpoint.name,
        user_who_performed_action=endpoint.user,
    )


# The node


class AlarmEvents:
    """Alarms of this node. Invariant: what was reported last is what `_told` says."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._told = (False, False)

    def changed(self, alarms: "Alarms") -> None:
        """Some alarm may have changed, here or elsewhere."""
        now = (alarms.memory, alarms.disk)
        told, self._told = self._told, now
        for source, was, is_so in zip(SOURCES, told, now, strict=True):
            if was != is_so:
                self._events.tell("alarm.set" if is_so else "alarm.cleared", source=source)


def tell_leader(events: Events, queue: Queue, leader: str, term: int) -> None:
    """The node that tells it leads the queue now."""
    events.tell("queue.leader.changed", **_named(queue), leader=leader, term=term)
