"""Commands of the metadata machine about policies, parameters and limits.

Functions that the machine calls with what is to be changed; each answers with the outcome. They
draw no uid for what changes nothing.
"""

from collections.abc import Callable, Iterator

from queues.definitions.broker_objects import Parameter, Policy, Uid
from queues.definitions.metadata import commands
from queues.definitions.metadata.outcomes import (
    NOTHING_DELETED,
    Added,
    Created,
    Deleted,
    Exists,
    Outcome,
    Removed,
    Replaced,
)
from queues.definitions.metadata.vhost import VHost

TakeUid = Callable[[], Uid]
Parameters = dict[tuple[str, str], Parameter]  # by component and name


def put_policy(vhost: VHost, command: commands.PutPolicy, take_uid: TakeUid) -> Outcome:
    old = vhost.policies.get(command.name, command.operator)
    policy = Policy(
        take_uid() if old is None else old.uid,
        vhost.name,
        command.name,
        command.operator,
        command.pattern,
        command.apply_to,
        command.priority,
        command.definition,
    )
    if policy == old:
        return Exists(policy)
    vhost.policies.put(policy)
    return Created(policy, (Added(policy) if old is None else Replaced(policy),))


def delete_policy(vhost: VHost, command: commands.DeletePolicy) -> Outcome:
    policy = vhost.policies.get(command.name, command.operator)
    if policy is None:
        return NOTHING_DELETED
    vhost.policies.remove(policy)
    return Deleted((policy,), (Removed(policy),))


def put_parameter(
    parameters: Parameters, command: commands.PutParameter, take_uid: TakeUid
) -> Outcome:
    key = (command.component, command.name)
    old = parameters.get(key)
    uid = take_uid() if old is None else old.uid
    parameter = Parameter(uid, command.vhost, *key, command.value)
    if parameter == old:
        return Exists(parameter)
    parameters[key] = parameter
    return Created(parameter, (Added(parameter) if old is None else Replaced(parameter),))


def delete_parameter(parameters: Parameters, command: commands.DeleteParameter) -> Outcome:
    parameter = parameters.pop((command.component, command.name), None)
    if parameter is None:
        return NOTHING_DELETED
    return Deleted((parameter,), (Removed(parameter),))


def forget_rules_of(vhost: VHost) -> Iterator[Removed]:
    """The vhost goes: so do its policies and parameters. What holds them goes with it."""
    for policy in vhost.policies:
        yield Removed(policy)
    for parameter in vhost.parameters.values():
        yield Removed(parameter)
