"""Commands of the metadata machine about users and what they may do.

Functions that the machine calls with what is to be changed; each answers with the outcome. They
draw no uid for what changes nothing.
"""

from collections.abc import Callable, Iterable, Iterator

from queues.definitions.broker_objects import Parameter, Permission, TopicPermission, Uid, User
from queues.definitions.metadata import commands
from queues.definitions.metadata.access import Access
from queues.definitions.metadata.outcomes import (
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
from queues.definitions.vhost_limits import USER_LIMITS
from warren.wire.errors import ReplyCode

TakeUid = Callable[[], Uid]
Parameters = dict[tuple[str, str], Parameter]  # by component and name


def put_user(access: Access, command: commands.PutUser, take_uid: TakeUid) -> Outcome:
    old = access.users.get(command.name)
    uid = take_uid() if old is None else old.uid
    user = User(uid, command.name, command.password_hash, command.hashing, command.tags)
    if user == old:
        return Exists(user)
    access.users[command.name] = user
    return Created(user, (Added(user) if old is None else Replaced(user),))


def delete_user(access: Access, parameters: Parameters, command: commands.DeleteUser) -> Outcome:
    """`parameters`: the global ones, which have the limits of users."""
    user = access.users.pop(command.name, None)
    if user is None:
        return NOTHING_DELETED
    rights = _forget_rights(access, parameters, command.name)
    return Deleted((user,), (*rights, Removed(user)))


def set_permissions(
    access: Access, has_vhost: bool, command: commands.SetPermissions, take_uid: TakeUid
) -> Outcome:
    refusal = _refusal(access, has_vhost, command.user, command.vhost)
    if refusal is not None:
        return refusal
    key = (command.user, command.vhost)
    old = access.permissions_by_key.get(key)
    uid = take_uid() if old is None else old.uid
    new = Permission(uid, *key, command.configure, command.write, command.read)
    if new == old:
        return Exists(new)
    access.permissions_by_key[key] = new
    return Created(new, (Added(new) if old is None else Replaced(new),))


def clear_permissions(access: Access, command: commands.ClearPermissions) -> Outcome:
    old = access.permissions_by_key.pop((command.user, command.vhost), None)
    return NOTHING_DELETED if old is None else Deleted((old,), (Removed(old),))


def set_topic_permissions(
    access: Access, has_vhost: bool, command: commands.SetTopicPermissions, take_uid: TakeUid
) -> Outcome:
    refusal = _refusal(access, has_vhost, command.user, command.vhost)
    if refusal is not None:
        return refusal
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
    return Deleted(tuple(found), tuple(_forget_topic_permissions(access, found)))


def forget_permissions_in(access: Access, vhost: str) -> Iterator[Removed]:
    """The vhost goes: so do all rights in it."""
    topics = access.topic_permissions_by_key.values()
    of_vhost = [each for each in topics if each.vhost == vhost]
    yield from _forget_permissions(access, access.permissions_in(vhost))
    yield from _forget_topic_permissions(access, of_vhost)


def _refusal(access: Access, has_vhost: bool, user: str, vhost: str) -> Refused | None:
    if user not in access.users:
        return Refused(ReplyCode.NOT_FOUND, f"no user '{user}'")
    return None if has_vhost else Refused(ReplyCode.NOT_FOUND, f"no vhost '{vhost}'")


def _forget_rights(access: Access, parameters: Parameters, user: str) -> Iterator[Removed]:
    """The user goes: so do its rights and its limits."""
    yield from _forget_permissions(access, access.permissions_of(user))
    of_user = [each for each in access.topic_permissions_by_key.values() if each.user == user]
    yield from _forget_topic_permissions(access, of_user)
    limits = parameters.pop((USER_LIMITS, user), None)
    if limits is not None:
        yield Removed(limits)


def _forget_permissions(access: Access, permissions: list[Permission]) -> Iterator[Removed]:
    """Take them out, one by one."""
    for each in permissions:
        del access.permissions_by_key[each.user, each.vhost]
        yield Removed(each)


def _forget_topic_permissions(
    access: Access, permissions: Iterable[TopicPermission]
) -> Iterator[Removed]:
    for each in list(permissions):
        del access.topic_permissions_by_key[each.user, each.vhost, each.exchange]
        yield Removed(each)
