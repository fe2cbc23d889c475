"""Which shovels and links the definitions ask for.

Links come of policies with a federation key that hold for an exchange or a queue, and of the
upstreams of its vhost. Exchanges of the system and internal ones are never federated.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec

from federation.upstreams import (
    EXCHANGE,
    POLICY_KEYS,
    QUEUE,
    UPSTREAM,
    UPSTREAM_SET,
    LinkConfig,
    link_config,
    meant,
    stored_upstream_faults,
    upstream_set_faults,
)
from federation.uris import BadUri, SecretBox
from node.federating.stored_uris import opened
from queues.definitions.arguments import decode_arguments
from queues.definitions.broker_objects import Parameter
from queues.definitions.metadata.machine import Metadata
from queues.definitions.metadata.vhost import VHost
from queues.definitions.queue_arguments import queue_type

SHOVEL: Final = "shovel"
DEFAULT_EXCHANGE: Final = ""
RESERVED: Final = "amq."  # of generated queues: they are no federated ones

Warn = Callable[[Parameter, str], None]  # a parameter that cannot be used, and why


def wanted_shovels(metadata: Metadata) -> dict[str, Parameter]:
    """By the key of each."""
    return {
        shovel_key(parameter): parameter
        for vhost in metadata.vhosts.values()
        for parameter in vhost.parameters.values()
        if parameter.component == SHOVEL
    }


def shovel_key(parameter: Parameter) -> str:
    return f"{SHOVEL}/{parameter.vhost}/{parameter.name}"


def wanted_links(
    metadata: Metadata, box: Callable[[], SecretBox], warn: Warn
) -> dict[str, LinkConfig]:
    """By the key of each."""
    found: dict[str, LinkConfig] = {}
    for vhost in metadata.vhosts.values():
        if not any(component == UPSTREAM for component, _ in vhost.parameters):
            continue
        upstreams = dict(_values(vhost, UPSTREAM, box(), warn, stored_upstream_faults))
        if upstreams and is_federated(vhost):
            sets = dict(_values(vhost, UPSTREAM_SET, box(), warn, upstream_set_faults))
            for each in _links(vhost, _tables(upstreams), sets):
                found[each.key] = each
    return found


def is_federated(vhost: VHost) -> bool:
    """Whether a policy of the vhost has a key of federation."""
    for policy in vhost.policies:
        if any(key in POLICY_KEYS for key in msgspec.json.decode(policy.definition)):
            return True
    return False


def _tables(values: Mapping[str, object]) -> dict[str, Mapping[str, object]]:
    return {name: value for name, value in values.items() if isinstance(value, dict)}


def _values(
    vhost: VHost,
    component: str,
    box: SecretBox,
    warn: Warn,
    faults_in: Callable[[str, object], list[str]],
) -> Iterator[tuple[str, object]]:
    """The values of one component by name, without those that make no sense."""
    for parameter in vhost.parameters.values():
        if parameter.component != component:
            continue
        try:
            value = opened(msgspec.json.decode(parameter.value), box)
            faults = faults_in(parameter.name, value)
        except BadUri as error:
            value, faults = None, [str(error)]
        if faults:
            warn(parameter, "; ".join(faults))
        else:
            yield parameter.name, value


def _links(
    vhost: VHost, upstreams: Mapping[str, Mapping[str, object]], sets: Mapping[str, object]
) -> Iterator[LinkConfig]:
    for exchange in vhost.exchanges.values():
        if exchange.name == DEFAULT_EXCHANGE or exchange.internal:
            continue
        definition = vhost.policies.effective(EXCHANGE, exchange.name).definition
        for value in meant(definition, upstreams, sets):
            yield link_config(
                EXCHANGE,
                vhost.name,
                exchange.name,
                value,
                exchange.type,
                exchange.durable,
                exchange.auto_delete,
                exchange.arguments,
            )
    for queue in vhost.queues.values():
        if queue.exclusive or queue.name.startswith(RESERVED):
            continue
        kind = queue_type(decode_arguments(queue.arguments))
        definition = vhost.policies.effective(kind, queue.name).definition
        for value in meant(definition, upstreams, sets):
            yield link_config(
                QUEUE,
                vhost.name,
                queue.name,
                value,
                "",
                queue.durable,
                queue.auto_delete,
                queue.arguments,
            )
