"""What `/management` answers of queues, bindings and nodes, as AMQP 1.0 maps. Pure."""

import base64
import hashlib
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from node.cluster.services.topology import Topology
from node.cluster.services.whereis import NodePlace, Place
from queues.conversion.values import map_of
from queues.definitions.arguments import decode_arguments
from queues.definitions.broker_objects import Binding, Destination, Queue
from queues.definitions.queue_arguments import queue_type
from queues.queue_host import Counts
from warren.wire.amqp10.codec.values import Array, UInt, ULong

HASH_BYTES: Final = 9  # 12 characters

Description = dict[object, object]


def queue_description(queue: Queue, place: Place, counts: Counts | None) -> Description:
    """As RabbitMQ 4 describes a queue; `counts` None: at rest."""
    arguments = decode_arguments(queue.arguments)
    return {
        "leader": place.leader,
        "replicas": Array("string", list(place.replicas)),
        "message_count": ULong(0 if counts is None else counts.ready_count),
        "consumer_count": UInt(0 if counts is None else counts.consumer_count),
        "name": queue.name,
        "vhost": queue.vhost,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "exclusive": queue.exclusive,
        "type": queue_type(arguments),
        "arguments": map_of(arguments),
    }


def removed_description(message_count: int) -> Description:
    """Of a queue that was deleted or purged: how many messages went."""
    return {"message_count": ULong(message_count)}


def topology_description(topology: Topology) -> Description:
    """Who serves the queue, and where."""
    members: list[object] = [
        {
            "node": each.node,
            "role": each.role,
            "state": each.state,
            "match_lag": None if each.match_lag is None else ULong(each.match_lag),
            "endpoints": list(each.endpoints),
            "zone": each.zone,
        }
        for each in topology.members
    ]
    return {
        "leader": topology.leader,
        "leader_epoch": ULong(topology.leader_epoch),
        "state": topology.state,
        "members": members,
        "local": topology.local,
        "suggestions": list(topology.suggestions),
    }


def load_description(connections: int, queues: int) -> Description:
    """Of one node; `queues` that it leads."""
    return {"connections": ULong(connections), "queues": ULong(queues)}


def node_description(
    node: NodePlace, endpoints: Sequence[str], load: Description | None
) -> Description:
    """`load` None: it is not known here."""
    return {
        "name": node.name,
        "listeners": list(endpoints),
        "state": "running" if node.is_running else "down",
        "availability-zone": node.zone,
        "load": load,
    }


def binding_description(binding: Binding) -> Description:
    to_queue = binding.destination_kind is Destination.QUEUE
    return {
        "source": binding.source,
        "destination_queue" if to_queue else "destination_exchange": binding.destination,
        "binding_key": binding.binding_key.decode("utf-8", "replace"),
        "arguments": map_of(decode_arguments(binding.arguments)),
        "location": binding_location(binding),
    }


def binding_location(binding: Binding) -> str:
    """The path that deletes it."""
    kind = "q" if binding.destination_kind is Destination.QUEUE else "e"
    source, destination = quote(binding.source, safe=""), quote(binding.destination, safe="")
    key = quote(binding.binding_key, safe="")
    hashed = arguments_hash(binding.arguments)
    return f"/bindings/src={source};dst{kind}={destination};key={key};args={hashed}"


def arguments_hash(arguments: bytes) -> str:
    """A name for the arguments (their canonical form) that stands in a path; "" for none."""
    if not arguments:
        return ""
    return base64.urlsafe_b64encode(hashlib.sha256(arguments).digest()[:HASH_BYTES]).decode()
