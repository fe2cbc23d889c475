"""Limits of vhosts and users: /api/vhost-limits and /api/user-limits. Administrators set them."""

import msgspec
from aiohttp import web

from node.management.access import Context, asked_vhosts, caller_of
from node.management.bodies import read_body
from node.management.changes import change, existing_vhost
from node.management.replies import ApiError, json_reply
from queues.definitions.broker_objects import Parameter
from queues.definitions.metadata.commands import Command, DeleteParameter, PutParameter
from queues.definitions.vhost_limits import (
    LIMITS_OF_USER,
    LIMITS_OF_VHOST,
    USER_LIMITS,
    VHOST_LIMITS,
    VHOST_LIMITS_NAME,
    limit_fault,
    limits_in,
)

Row = dict[str, object]


class Limits:
    """Of vhosts and of users."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def routes(self) -> list[web.RouteDef]:
        of_vhost, of_user = "/api/vhost-limits/{vhost}/{limit}", "/api/user-limits/{user}/{limit}"
        return [
            web.get("/api/vhost-limits", self.of_vhosts),
            web.get("/api/vhost-limits/{vhost}", self.of_vhosts),
            web.put(of_vhost, self.set_for_vhost),
            web.delete(of_vhost, self.clear_for_vhost),
            web.get("/api/user-limits", self.of_users),
            web.get("/api/user-limits/{user}", self.of_users),
            web.put(of_user, self.set_for_user),
            web.delete(of_user, self.clear_for_user),
        ]

    async def of_vhosts(self, request: web.Request) -> web.Response:
        vhosts = self._context.operations.metadata.vhosts
        rows: list[Row] = []
        for name in asked_vhosts(self._context, request):
            limits = limits_in(vhosts[name].parameters.get((VHOST_LIMITS, VHOST_LIMITS_NAME)))
            if limits:
                rows.append({"vhost": name, "value": limits})
        return json_reply(rows)

    async def of_users(self, request: web.Request) -> web.Response:
        caller_of(request).require_monitor()
        asked = request.match_info.get("user")
        if asked is not None:
            self._user(asked)
        parameters = self._context.operations.metadata.parameters.values()
        rows = [
            {"user": each.name, "value": limits_in(each)}
            for each in parameters
            if each.component == USER_LIMITS and asked in (None, each.name)
        ]
        return json_reply(rows)

    async def set_for_vhost(self, request: web.Request) -> web.Response:
        caller_of(request).require_administrator()
        vhost = existing_vhost(self._context, request)
        key = (VHOST_LIMITS, VHOST_LIMITS_NAME)
        return await self._set(request, vhost, key, LIMITS_OF_VHOST)

    async def clear_for_vhost(self, request: web.Request) -> web.Response:
        caller_of(request).require_administrator()
        vhost = existing_vhost(self._context, request)
        return await self._clear(request, vhost, (VHOST_LIMITS, VHOST_LIMITS_NAME))

    async def set_for_user(self, request: web.Request) -> web.Response:
        caller_of(request).require_administrator()
        user = request.match_info["user"]
        if user not in self._context.operations.metadata.access.users:
            raise ApiError.bad_request(["no_such_user", user])
        key = (USER_LIMITS, user)
        return await self._set(request, "", key, LIMITS_OF_USER)

    async def clear_for_user(self, request: web.Request) -> web.Response:
        caller_of(request).require_administrator()
        key = (USER_LIMITS, self._user(request.match_info["user"]))
        return await self._clear(request, "", key)

    def _user(self, name: str) -> str:
        if name not in self._context.operations.metadata.access.users:
            raise ApiError.not_found()
        return name

    def _found(self, vhost: str, key: tuple[str, str]) -> Parameter | None:
        metadata = self._context.operations.metadata
        return (metadata.vhosts[vhost].parameters if vhost else metadata.parameters).get(key)

    async def _set(
        self, request: web.Request, vhost: str, key: tuple[str, str], known: tuple[str, ...]
    ) -> web.Response:
        body = await read_body(request, "value")
        name = request.match_info["limit"]
        fault = limit_fault(known, name, body["value"])
        if fault is not None:
            raise ApiError.bad_request(f"Validation failed\n\n{fault}\n")
        limits = {**limits_in(self._found(vhost, key)), name: body["value"]}
        await change(self._context, limits_command(vhost, key, limits))
        return web.Response(status=204)

    async def _clear(self, request: web.Request, vhost: str, key: tuple[str, str]) -> web.Response:
        limits = dict(limits_in(self._found(vhost, key)))
        limits.pop(request.match_info["limit"], None)
        command: Command = DeleteParameter(vhost, *key)
        if limits:
            command = limits_command(vhost, key, {**limits})
        await change(self._context, command)
        return web.Response(status=204)


def limits_command(vhost: str, key: tuple[str, str], limits: Row) -> PutParameter:
    return PutParameter(vhost, *key, msgspec.json.encode(limits))
