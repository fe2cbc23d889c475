"""Commands of the metadata machine about policies, parameters, limits and topic permissions.

Functions that the machine calls with what is to be changed; each answers with the outcome. They
draw no uid for what changes nothing.
"""

from collections.abc import Callable, Iterable, Iterator

from queues import metadata_commands as commands
from queues.definitions import Parameter, Policy, TopicPermission, Uid
from queues.limits import USER_LIMITS
from queues.metadata_access import Access
from queues.metadata_outcomes import (
    NOTHING_DELETED,
    Added,
    Created,
    Deleted,
    Exists,
    Outcome,
    Refused,
    Removed,
    Replaced,
)
from queues.metadata_vhost import VHost
from warren.wire.errors import ReplyCode

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


def set_topic_permissions(
    access: Access, has_vhost: bool, command: commands.SetTopicPermissions, take_uid: TakeUid
) -> Outcome:
    if command.user not in access.users:
        return Refused(ReplyCode.NOT_FOUND, f"no user '{command.user}'")
    if not has_vhost:
        return Refused(ReplyCode.NOT_FOUND, f"no vhost '{command.vhost}'")
    key = (command.user, command.vhost, command.exchange)
    old = access.topic_permissions_by_key.get(key)
    new = TopicPermission(take_uid() if old is None else old.uid, *key, command.write, command.read)
    if new == old:
        return Exists(new)
    access.topic_permissions_by_key[key] = new
    return Created(new, (Added(new) if old is None else Replaced(new),))


def clear_topic_permissions(access: Access, command: commands.ClearTopicPermissions) -> Outcome:
    found = [
        each
        for each in access.topic_permissions_by_key.values()
        if (each.user, each.vhost) == (command.user, command.vhost)
        and command.exchange in ("", each.exchange)
    ]
    return Deleted(tuple(found), tuple(forget_topic_permissions(access, found)))


def forget_topic_permissions(
    access: Access, permissions: Iterable[TopicPermission]
) -> Iterator[Removed]:
    """Take them out, one by one."""
    for each in list(permissions):
        del access.topic_permissions_by_key[each.user, each.vhost, each.exchange]
        yield Removed(each)


def forget_rules_of(vhost: VHost) -> Iterator[Removed]:
    """The vhost goes: so do its policies and parameters. What holds them goes with it."""
    for policy in vhost.policies:
        yield Removed(policy)
    for parameter in vhost.parameters.values():
        yield Removed(parameter)


def forget_user(access: Access, parameters: Parameters, user: str) -> Iterator[Removed]:
    """The user goes: so do its rights and its limits."""
    for permission in access.permissions_of(user):
        del access.permissions_by_key[permission.user, permission.vhost]
        yield Removed(permission)
    of_user = [each for each in access.topic_permissions_by_key.values() if each.user == user]
    yield from forget_topic_permissions(access, of_user)
    limits = parameters.pop((USER_LIMITS, user), None)
    if limits is not None:
        yield Removed(limits)
