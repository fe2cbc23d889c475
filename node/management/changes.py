"""From a change that a caller wants to the answer: 201 for what is new, 204 for the rest.

A refusal of the broker is 404 for what is not there, 401 where the caller may not, else 400 with
the sentence that an AMQP client would get.
"""

from typing import Final, NoReturn

from aiohttp import web
from msgspec import Struct

from node.auth.permissions import PermissionCache
from node.definitions.definition_changes import DefiningBroker
from node.federating.pauses import pause_command, paused_keys
from node.management.access import Context, caller_of, not_authorized
from node.management.replies import ApiError
from queues.definitions.metadata.commands import Command
from queues.definitions.metadata.outcomes import Added, Deleted, Outcome, Refused
from warren.wire.errors import ProtocolError, ReplyCode

NO_VHOST_ACCESS = "User not authorised to access virtual host"


class HttpActor(Struct, frozen=True):
    """The caller of a request, for `node.definitions.definition_changes`: it owns no exclusive
    queues. Its `id` is of no connection, and marks what it deletes as deleted by a client."""

    vhost: str
    permissions: PermissionCache
    broker: DefiningBroker
    id: str = "HTTP API"


def acting(context: Context, request: web.Request) -> HttpActor:
    """The user, in the vhost of the path, to which the user must have access."""
    vhost = existing_vhost(context, request)
    caller = caller_of(request)
    if caller.access.permissions(caller.name, vhost) is None:
        raise not_authorized(NO_VHOST_ACCESS)
    permissions = PermissionCache(caller.access, caller.name, vhost)
    return HttpActor(vhost, permissions, context.operations.broker)


# Definitions cannot be changed now: no majority of the cluster, or too much is under way.
UNAVAILABLE: Final = (ReplyCode.INTERNAL_ERROR, ReplyCode.RESOURCE_ERROR)


def existing_vhost(context: Context, request: web.Request) -> str:
    """The vhost in the path; 404 if there is none."""
    vhost = request.match_info["vhost"]
    if vhost not in context.operations.metadata.vhosts:
        raise ApiError.not_found("vhost_not_found")
    return vhost


async def change(context: Context, command: Command) -> Outcome:
    """Carry the command out; ApiError where it is refused."""
    outcome = await context.operations.carry_out(command)
    if isinstance(outcome, Refused):
        refuse(outcome.code, outcome.text)
    return outcome


async def put(context: Context, command: Command) -> web.Response:
    """The answer to a PUT."""
    outcome = await change(context, command)
    is_new = any(isinstance(each, Added) for each in outcome.changes)
    return web.Response(status=201 if is_new else 204)


async def delete(context: Context, command: Command) -> web.Response:
    """The answer to a DELETE of one thing; 404 if it is not there."""
    outcome = await change(context, command)
    if isinstance(outcome, Deleted) and not outcome.subjects:
        raise ApiError.not_found()
    return web.Response(status=204)


async def forget_pause(context: Context, vhost: str, shovel: str) -> None:
    """Resume a shovel that is being deleted: the next one of its name is not paused."""
    key = f"shovel/{vhost}/{shovel}"
    if key in paused_keys(context.operations.metadata):
        await change(context, pause_command(key, False))


def refuse(code: int, text: str) -> NoReturn:
    if code in (ReplyCode.ACCESS_REFUSED, ReplyCode.NOT_ALLOWED) and "not found" not in text:
        raise ApiError(401, "not_authorised", "Access refused.", log_text=text)
    if code == ReplyCode.NOT_FOUND or (code == ReplyCode.NOT_ALLOWED and "not found" in text):
        raise ApiError(404, "not_found", text)
    if code in UNAVAILABLE:
        raise ApiError(503, "unavailable", text)
    if code == ReplyCode.NOT_IMPLEMENTED:
        text = f"{int(code)} NOT_IMPLEMENTED - {text}"  # As RabbitMQ tells it.
    raise ApiError.bad_request(text)


def refused(error: ProtocolError) -> NoReturn:
    """What `node.definitions.definition_changes` refuses."""
    refuse(error.code, error.text)


def located(path: str, status: int = 201) -> web.Response:
    return web.Response(status=status, headers={"Location": path})
