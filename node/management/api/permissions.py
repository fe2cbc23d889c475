"""Permissions and topic permissions: /api/permissions and /api/topic-permissions, by vhost and
user, and those of one user or vhost. For administrators.
"""

from collections.abc import Iterable
from typing import TypeVar

from aiohttp import web

from node.auth.patterns import pattern_fault
from node.management.access import Context, caller_of
from node.management.bodies import Body, read_body, text
from node.management.changes import change, delete, existing_vhost, put
from node.management.replies import ApiError, json_reply, with_warnings
from node.management.rows.listing import list_reply
from queues.definitions.broker_objects import Permission, TopicPermission
from queues.definitions.expressions import LENGTH_MAX, QUOTED_MAX
from queues.definitions.metadata.access import Access
from queues.definitions.metadata.commands import (
    ClearPermissions,
    ClearTopicPermissions,
    SetPermissions,
    SetTopicPermissions,
)
from queues.definitions.policy_warnings import permission_warnings

P = TypeVar("P", Permission, TopicPermission)
Row = dict[str, object]


class Permissions:
    """Who may do what in which vhost."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def routes(self) -> list[web.RouteDef]:
        one, topic = "/api/permissions/{vhost}/{user}", "/api/topic-permissions/{vhost}/{user}"
        return [
            web.get("/api/permissions", self.every),
            web.get("/api/users/{user}/permissions", self.every),
            web.get("/api/vhosts/{vhost}/permissions", self.every),
            web.get(one, self.one),
            web.put(one, self.set),
            web.delete(one, self.clear),
            web.get("/api/topic-permissions", self.topics),
            web.get("/api/users/{user}/topic-permissions", self.topics),
            web.get("/api/vhosts/{vhost}/topic-permissions", self.topics),
            web.get(topic, self.topics),
            web.put(topic, self.set_topic),
            web.delete(topic, self.clear_topics),
            web.delete(f"{topic}/{{exchange}}", self.clear_topics),
        ]

    async def every(self, request: web.Request) -> web.StreamResponse:
        found = self._chosen(request, self._access.permissions_by_key.values())
        return await list_reply(request, found, lambda each: each.user, warned_row)

    async def topics(self, request: web.Request) -> web.StreamResponse:
        found = self._chosen(request, self._access.topic_permissions_by_key.values())
        if "vhost" in request.match_info and "user" in request.match_info and not found:
            raise ApiError.not_found()
        return await list_reply(request, found, lambda each: each.user, warned_row)

    async def one(self, request: web.Request) -> web.Response:
        vhost, user = self._pair(request)
        found = self._access.permissions_by_key.get((user, vhost))
        if found is None:
            raise ApiError.not_found()
        return json_reply(warned_row(found))

    async def set(self, request: web.Request) -> web.Response:
        vhost, user = self._pair(request)
        body = await read_body(request, "configure", "write", "read")
        return await put(self._context, permission_command(vhost, user, body))

    async def clear(self, request: web.Request) -> web.Response:
        vhost, user = self._pair(request)
        return await delete(self._context, ClearPermissions(user, vhost))

    async def set_topic(self, request: web.Request) -> web.Response:
        vhost, user = self._pair(request)
        body = await read_body(request, "exchange", "write", "read")
        return await put(self._context, topic_permission_command(vhost, user, body))

    async def clear_topics(self, request: web.Request) -> web.Response:
        vhost, user = self._pair(request)
        exchange = request.match_info.get("exchange", "")
        await change(self._context, ClearTopicPermissions(user, vhost, exchange))
        return web.Response(status=204)

    @property
    def _access(self) -> Access:
        return self._context.operations.metadata.access

    def _pair(self, request: web.Request) -> tuple[str, str]:
        caller_of(request).require_administrator()
        vhost, user = request.match_info["vhost"], request.match_info["user"]
        vhosts = self._context.operations.metadata.vhosts
        if vhost not in vhosts or user not in self._access.users:
            if request.method == "PUT":
                raise ApiError.bad_request("vhost_or_user_not_found")
            raise ApiError.not_found()
        return vhost, user

    def _chosen(self, request: web.Request, every: Iterable[P]) -> list[P]:
        """Those of the user and the vhost in the path."""
        caller_of(request).require_administrator()
        user, vhost = request.match_info.get("user"), request.match_info.get("vhost")
        if user is not None and user not in self._access.users:
            raise ApiError.not_found()
        if vhost is not None:
            existing_vhost(self._context, request)
        chosen = [
            each for each in every if user in (None, each.user) and vhost in (None, each.vhost)
        ]
        return sorted(chosen, key=lambda each: (each.vhost, each.user))


def permission_command(vhost: str, user: str, body: Body, imported: bool = False) -> SetPermissions:
    kinds = ("configure", "write", "read")
    configure, write, read = (_expression(body, kind, imported) for kind in kinds)
    return SetPermissions(user, vhost, configure, write, read)


def topic_permission_command(
    vhost: str, user: str, body: Body, imported: bool = False
) -> SetTopicPermissions:
    write, read = (_expression(body, kind, imported) for kind in ("write", "read"))
    return SetTopicPermissions(user, vhost, text(body, "exchange"), write, read)


def _expression(body: Body, key: str, imported: bool) -> str:
    """An imported one that cannot be compiled is kept; it matches nothing."""
    pattern = text(body, key)
    if imported and len(pattern) <= LENGTH_MAX:
        return pattern
    fault = pattern_fault(pattern)
    if fault is not None:
        raise ApiError.bad_request(["invalid_regexp", pattern[:QUOTED_MAX], fault])
    return pattern


def warned_row(each: Permission | TopicPermission) -> Row:
    """With `warnings` where an expression cannot be compiled."""
    row = permission_row(each) if isinstance(each, Permission) else topic_permission_row(each)
    return with_warnings(row, permission_warnings(each))


def permission_row(each: Permission) -> Row:
    return {
        "user": each.user,
        "vhost": each.vhost,
        "configure": each.configure,
        "write": each.write,
        "read": each.read,
    }


def topic_permission_row(each: TopicPermission) -> Row:
    return {
        "user": each.user,
        "vhost": each.vhost,
        "exchange": each.exchange,
        "write": each.write,
        "read": each.read,
    }
