"""What of a stored policy, parameter or permission has no effect, in sentences for an operator.

Settings of features that do not exist are refused when they are set. An import keeps them, so that
a definitions file of RabbitMQ can be read. `queues.definitions.without_effect` lists them.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from queues.definitions.broker_objects import Parameter, Permission, Policy, TopicPermission
from queues.definitions.expressions import expression_fault, quoted
from queues.definitions.metadata.commands import (
    PutParameter,
    PutPolicy,
    SetPermissions,
    SetTopicPermissions,
)
from queues.definitions.metadata.machine import Metadata
from queues.definitions.policies import APPLY_TO
from queues.definitions.policy_kinds import kind_warnings
from queues.definitions.without_effect import COMPONENTS_WITHOUT_EFFECT, key_warnings

_DECODE: Final = msgspec.json.Decoder(dict[str, object]).decode


def policy_warnings(policy: Policy | PutPolicy) -> list[str]:
    kind = "operator policy" if policy.operator else "policy"
    name = f"{kind} '{policy.name}' in vhost '{policy.vhost}'"
    definition = _DECODE(policy.definition)
    warnings = (
        *key_warnings(definition),
        *kind_warnings(definition, APPLY_TO.get(policy.apply_to, ())),
    )
    found = [f"{name}: {each}" for each in warnings]
    fault = expression_fault(policy.pattern)
    if fault is not None:
        found.append(f"{name} matches nothing: pattern {quoted(policy.pattern)}: {fault}")
    return found


def parameter_warnings(parameter: Parameter | PutParameter) -> list[str]:
    feature = COMPONENTS_WITHOUT_EFFECT.get(parameter.component)
    if feature is None or not parameter.vhost:
        return []
    return [
        f"parameter '{parameter.name}' of component '{parameter.component}' in vhost "
        f"'{parameter.vhost}' has no effect: this version has no {feature}"
    ]


def permission_warnings(
    permission: Permission | SetPermissions | TopicPermission | SetTopicPermissions,
) -> list[str]:
    expressions = {"write": permission.write, "read": permission.read}
    name = f"permissions of user '{permission.user}' in vhost '{permission.vhost}'"
    if isinstance(permission, (Permission, SetPermissions)):
        expressions["configure"] = permission.configure
    else:
        name = f"topic {name} for exchange '{permission.exchange}'"
    return [
        f"{name}: {kind} {quoted(expression)} matches nothing: {fault}"
        for kind, expression in expressions.items()
        if (fault := expression_fault(expression)) is not None
    ]


def command_warnings(command: object) -> list[str]:
    """What of a command of an import will have no effect."""
    if isinstance(command, PutPolicy):
        return policy_warnings(command)
    if isinstance(command, PutParameter):
        return parameter_warnings(command)
    if isinstance(command, (SetPermissions, SetTopicPermissions)):
        return permission_warnings(command)
    return []


def stored_warnings(metadata: Metadata) -> Iterator[str]:
    """Everything that is stored and has no effect."""
    for vhost in metadata.vhosts.values():
        for policy in vhost.policies:
            yield from policy_warnings(policy)
        for parameter in vhost.parameters.values():
            yield from parameter_warnings(parameter)
    for permission in metadata.access.permissions_by_key.values():
        yield from permission_warnings(permission)
    for topic in metadata.access.topic_permissions_by_key.values():
        yield from permission_warnings(topic)
