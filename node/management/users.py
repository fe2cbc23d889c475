"""GET /api/users and /api/users/{user}: for monitoring users; hashes for administrators alone."""

from aiohttp import web

from node.management.access import Caller, Context, caller_of
from node.management.listing import list_reply
from node.management.replies import ApiError, json_reply
from node.management.view import UserView


class Users:
    """The users of the broker."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/api/users", self.every), web.get("/api/users/{user}", self.one)]

    async def every(self, request: web.Request) -> web.StreamResponse:
        caller = caller_of(request)
        caller.require_monitor()
        by_name = {each.name: each for each in self._context.view.users()}
        return await list_reply(
            request, sorted(by_name), str, lambda name: user_row(by_name[name], caller)
        )

    async def one(self, request: web.Request) -> web.Response:
        caller = caller_of(request)
        caller.require_monitor()
        for user in self._context.view.users():
            if user.name == request.match_info["user"]:
                return json_reply(user_row(user, caller))
        raise ApiError.not_found()


def user_row(user: UserView, caller: Caller) -> dict[str, object]:
    row: dict[str, object] = {"name": user.name, "tags": list(user.tags), "limits": {}}
    if caller.is_administrator:
        row["password_hash"] = user.password_hash
        row["hashing_algorithm"] = user.hashing
    return row
