"""Users: /api/users and by name; PUT makes or changes one, DELETE deletes it, some or many.

Monitoring users see them; hashes and changes are the administrator's. A password is hashed in a
thread (`auth.password_hashing`); a hash is taken as it is, with RabbitMQ's algorithms or ours.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, get_args

from aiohttp import web

from node.auth.login_checks import TooManyWait
from node.auth.passwords import ARGON2_FORM, DEFAULT_HASHING, Hashing, hash_fault
from node.management.access import Caller, Context, caller_of
from node.management.bodies import Body, path_name, read_body, text, words
from node.management.changes import change, delete, put
from node.management.replies import ApiError
from node.management.rows.listing import list_reply, object_reply
from node.management.rows.view import UserView
from queues.definitions.metadata.commands import Batch, DeleteUser, PutUser
from queues.definitions.vhost_limits import USER_LIMITS, limits_in

USER_TAGS_MAX: Final = 32  # RabbitMQ's

HashOf = Callable[[str], Awaitable[tuple[str, Hashing]]]  # of a new password, and of which kind


class Users:
    """The users of the broker."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/api/users", self.every),
            web.get("/api/users/without-permissions", self.without_permissions),
            web.post("/api/users/bulk-delete", self.delete_many),
            web.get("/api/users/{user}", self.one),
            web.put("/api/users/{user}", self.set),
            web.delete("/api/users/{user}", self.delete),
        ]

    async def every(self, request: web.Request) -> web.StreamResponse:
        return await self._listed(request, list(self._context.view.users()))

    async def without_permissions(self, request: web.Request) -> web.StreamResponse:
        permitted = {
            user for user, _ in self._context.operations.metadata.access.permissions_by_key
        }
        users = [each for each in self._context.view.users() if each.name not in permitted]
        return await self._listed(request, users)

    async def _listed(self, request: web.Request, users: list[UserView]) -> web.StreamResponse:
        caller = caller_of(request)
        caller.require_monitor()
        by_name = {each.name: each for each in users}
        return await list_reply(
            request, sorted(by_name), str, lambda name: self._row(by_name[name], caller)
        )

    async def one(self, request: web.Request) -> web.Response:
        caller = caller_of(request)
        caller.require_monitor()
        for user in self._context.view.users():
            if user.name == request.match_info["user"]:
                return object_reply(request, self._row(user, caller))
        raise ApiError.not_found()

    async def set(self, request: web.Request) -> web.Response:
        caller_of(request).require_administrator()
        name, body = path_name(request, "user"), await read_body(request)
        command = await user_command(name, body, self._context.logins.hash_of)
        return await put(self._context, command)

    async def delete(self, request: web.Request) -> web.Response:
        caller_of(request).require_administrator()
        name = request.match_info["user"]
        answer = await delete(self._context, DeleteUser(name))
        await self._close_connections([name])
        return answer

    async def delete_many(self, request: web.Request) -> web.Response:
        caller_of(request).require_administrator()
        body = await read_body(request, "users")
        names = words(body["users"])
        await change(self._context, Batch(tuple(DeleteUser(name) for name in names)))
        await self._close_connections(names)
        return web.Response(status=204)

    async def _close_connections(self, users: Sequence[str]) -> None:
        """Of users that are no more, on all nodes."""
        for name in users:
            reason = f"user '{name}' was deleted"
            self._context.operations.close_connections("", name, reason)
            if self._context.cluster is not None:
                await self._context.cluster.close_connections_of(name, reason)

    def _row(self, user: UserView, caller: Caller) -> Body:
        parameters = self._context.operations.metadata.parameters
        return user_row(user, limits_in(parameters.get((USER_LIMITS, user.name))), caller)


async def user_command(name: str, body: Body, hash_of: HashOf) -> PutUser:
    """The command that makes the user; ApiError 400 for one that cannot be, 503 for not now."""
    if "password" in body and "password_hash" in body:
        raise ApiError.bad_request("both_password_and_password_hash_are_provided")
    if "tags" not in body:
        raise ApiError.bad_request("tags_not_present")
    tags = words(body["tags"])
    if len(tags) > USER_TAGS_MAX:
        raise ApiError.bad_request(f"user '{name}' has more than {USER_TAGS_MAX} tags")
    if "password" in body:
        try:
            return PutUser(name, *await hash_of(text(body, "password")), tags)
        except TooManyWait as error:
            raise ApiError(503, "busy", str(error)) from error
    hashed = text(body, "password_hash")
    usual = "argon2id" if ARGON2_FORM.fullmatch(hashed) else DEFAULT_HASHING
    hashing = body.get("hashing_algorithm", usual)
    for known in get_args(Hashing):
        if hashing == known:
            fault = hash_fault(hashed, known) if hashed else None
            if fault == "not base64":
                raise ApiError.bad_request(["not_base64", hashed])
            if fault is not None:
                raise ApiError.bad_request(f"password_hash of user '{name}': {fault}")
            return PutUser(name, hashed, known, tags)
    raise ApiError.bad_request(f"unknown hashing_algorithm of user '{name}': {hashing}")


def user_row(user: UserView, limits: object, caller: Caller) -> Body:
    row: Body = {"name": user.name, "tags": list(user.tags), "limits": limits}
    if caller.is_administrator:
        row["password_hash"] = user.password_hash
        row["hashing_algorithm"] = user.hashing
    return row
